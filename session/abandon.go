package session

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// accounts closes the accounts of works whose processes can't.
type accounts struct {
	gate  billing.Gate
	lease time.Duration // of works
}

// close accounts for what is left of the work whose lease has run out. It was
// at work when it renewed the lease last; it is charged up to then, and for one interval of its heartbeat.
func (a accounts) close(ctx context.Context, l Lease) error {
	ctx, cancel := context.WithTimeout(ctx, cleanup)
	defer cancel()
	left := billing.Abandoned{Work: l.Holder, Meter: billing.MeterRuntime, Through: l.Until.Add(a.lease/3 - a.lease)}
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, a.gate.Abandon(ctx, left) })
	if err != nil {
		return fmt.Errorf("closing its account: %w", err)
	}
	return nil
}
