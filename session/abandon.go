package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// accounts closes the accounts of works whose processes can't.
type accounts struct {
	gate  billing.Gate
	lease time.Duration // of works
	// closing are the works whose accounts are being closed, by id: also where that is not waited for any more.
	closing *sync.Map
}

var errClosing = errors.New("session: the gate has not answered an earlier try")

// close accounts for what is left of the work whose lease has run out. It was
// at work when it renewed the lease last; it is charged up to then, and for one interval of its heartbeat.
func (a accounts) close(ctx context.Context, l Lease) error {
	ctx, cancel := context.WithTimeout(ctx, cleanup)
	defer cancel()
	left := billing.Abandoned{Work: l.Holder, Meter: billing.MeterRuntime, Through: l.Until.Add(a.lease/3 - a.lease)}
	if _, twice := a.closing.LoadOrStore(l.Holder, true); twice {
		return fmt.Errorf("closing its account: %w", errClosing)
	}
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) {
		defer a.closing.Delete(l.Holder)
		return struct{}{}, a.gate.Abandon(ctx, left)
	})
	if err != nil {
		return fmt.Errorf("closing its account: %w", err)
	}
	return nil
}
