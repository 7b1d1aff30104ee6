package transcript

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// renewed notes a lease that was asked for at that local time.
func (t *Turn) renewed(l session.Lease, asked time.Time) {
	t.lease, t.until = l, asked.Add(t.turns.lease)
	safe := t.until.Add(-2 * t.turns.grace())
	t.safe.Store(&safe)
	// The store's clock showed that some time after it was asked: what is
	// read off this one is never behind, so that what is due there is due here.
	t.clock.Store(&storeClock{store: l.Until.Add(-t.turns.lease), local: asked})
}

// now is the store's time.
func (t *Turn) now() time.Time {
	c := t.clock.Load()
	return c.store.Add(time.Since(c.local))
}

// beat renews the lease three times in its life, and gives the turn up where
// that does not succeed. What it asks is not waited for longer than there is time.
func (t *Turn) beat() {
	defer close(t.beating)
	lease := t.turns.lease
	next := t.until.Add(-lease * 2 / 3)
	for {
		stop := *t.safe.Load()
		if next.After(stop) {
			next = stop
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-t.quit:
		case <-t.held.Done():
		case <-timer.C:
		}
		timer.Stop()
		select {
		case <-t.quit:
			return
		case <-t.held.Done(): // and what is lost is not renewed
			return
		default:
		}
		now := time.Now()
		if !now.Before(stop) {
			t.loses(errNotRenewed())
			return
		}
		if t.renew(min(lease/4, stop.Sub(now))) {
			next = t.until.Add(-lease * 2 / 3)
		} else {
			next = time.Now().Add(lease / 12)
		}
	}
}

// renew asks for the lease to last on, and reports whether it does.
func (t *Turn) renew(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(t.held, within)
	defer cancel()
	type answer struct {
		lease session.Lease
		err   error
	}
	asked, held, answered := time.Now(), t.lease, make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("transcript: the renewal has ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("transcript: the renewal panicked: %v", p)
			}
			answered <- a
		}()
		a.lease, a.err = t.turns.leases.Renew(ctx, held)
	}()
	var a answer
	select {
	case a = <-answered:
	case <-t.quit:
		return false
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	switch {
	case a.err == nil:
		t.renewed(a.lease, asked)
		return true
	case errors.Is(a.err, session.ErrFenced):
		t.loses(a.err)
	default:
		t.turns.log.WarnContext(ctx, "lease not renewed", "conversation", t.conversation, "turn", t.fence, "error", a.err)
	}
	return false
}

// release ends the turn for this process: its heartbeat, then its lease.
func (t *Turn) release(ctx context.Context) error {
	close(t.quit)
	<-t.beating
	t.loses(session.ErrClosed)
	return t.turns.leases.Release(ctx, t.lease)
}
