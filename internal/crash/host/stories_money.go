package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// beats works until so many beats are accounted for.
func (w *world) beats(ctx context.Context, id session.ID, n int) error {
	return w.during(ctx, id, func(wk *session.Work) error {
		for range n {
			select {
			case <-w.ledger.beats:
			case <-wk.Context().Done():
				return context.Cause(wk.Context())
			}
		}
		return nil
	})
}

// runsOut works until there is nothing left to pay for it.
func (w *world) runsOut(ctx context.Context, id session.ID) error {
	return w.during(ctx, id, func(wk *session.Work) error {
		<-wk.Context().Done()
		if cause := context.Cause(wk.Context()); !errors.Is(cause, session.ErrOutOfCredit) {
			return cause
		}
		return nil
	})
}

// during does something while something runs in a session's machine.
func (w *world) during(ctx context.Context, id session.ID, do func(*session.Work) error) error {
	return w.working(ctx, session.WorkRequest{Session: id}, func(wk *session.Work) error {
		if _, err := wk.Sandbox().Start(ctx, sleeper("")); err != nil {
			return err
		}
		return do(wk)
	})
}

// held is what a disk holds in the stories about storage.
const held = 3 << 20

// full is a session whose machine is there, and whose disk was found to hold something a while ago.
func full(ctx context.Context, w *world, sc *scene) error {
	if err := warm(ctx, w, sc); err != nil {
		return err
	}
	s, err := w.db.Sessions().Load(ctx, session.Address{Session: sc.Sessions[0]})
	if err != nil {
		return err
	}
	found, err := session.Decide(s, session.CommandMeasured{Generation: s.Sandbox.Generation, Incarnation: s.Sandbox.Incarnation, Bytes: held})
	if err != nil {
		return err
	}
	if _, err := w.db.Sessions().Commit(ctx, found.Change); err != nil || !w.fixed {
		return errors.Join(err, w.later(ctx, sc))
	}
	select { // what passes is counted by the second
	case <-time.After(1100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// charge charges for what disks have held, where the story is about that.
func (w *world) charge(ctx context.Context) error {
	if w.storing == nil {
		return nil
	}
	_, err := w.storing.ChargeStorage(ctx)
	return err
}

// abandoned are works that a process has left behind which died long ago: one
// at work, one that never began, and a hold whose work had not even a lease.
func abandoned(ctx context.Context, w *world, sc *scene) error {
	if err := warm(ctx, w, sc); err != nil {
		return err
	}
	s, err := w.db.Sessions().Load(ctx, session.Address{Session: sc.Sessions[0]})
	if err != nil {
		return err
	}
	sb, err := w.machine.Attach(ctx, s.Sandbox.Ref())
	if err != nil {
		return err
	}
	for n, work := range []string{"abandoned-at-work", "abandoned-before-work", "abandoned-before-its-lease"} {
		use := billing.Use{Meter: billing.MeterRuntime, Resource: work, Payer: ann.User, Session: s.Session.ID, Project: project}
		hold, err := w.ledger.Hold(ctx, billing.HoldRequest{ID: billing.HoldID(work), Use: use, Terms: terms(""), TTL: 2 * w.story.lease})
		if err != nil || n == 2 {
			return errors.Join(err, w.later(ctx, sc))
		}
		l, err := w.leases.Acquire(ctx, session.Lease{
			Kind: session.LeaseWork, Name: string(s.Session.ID), Holder: work, Replica: "dead", Payer: ann.User, Slots: 20,
			Sandbox: s.Sandbox.ID, For: w.story.lease,
		})
		if err != nil {
			return err
		}
		if n == 1 {
			continue
		}
		if _, err := sb.Start(ctx, sleeper(work)); err != nil {
			return err
		}
		began := l.Until.Add(-w.story.lease)
		for _, to := range []time.Time{began, began.Add(beat / 3)} {
			p := billing.Post{Use: use, From: began, To: to, Quantity: to.Sub(began).Microseconds(), Rate: rate(), Hold: hold.ID, Terms: terms("")}
			if out, err := w.ledger.Post(ctx, p); err != nil || out[0].Err != nil {
				return fmt.Errorf("posting: %v, %w", out, err)
			}
		}
	}
	return nil
}
