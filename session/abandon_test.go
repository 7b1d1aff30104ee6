package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// What a process that has died, or slept, owes.
func TestTheTailOfACrash(t *testing.T) {
	const interval = 20 * time.Second // of the heartbeat
	for what, alive := range map[string]time.Duration{
		"before its first beat": 7 * time.Second,
		"between two beats":     67 * time.Second,
		"with a beat":           60 * time.Second,
	} {
		inWorld(t, "a process that dies "+what+" is charged up to its last heartbeat and one interval, once", immediate, func(t *testing.T, w *world) {
			r, keeper := w.replica(), w.replica()
			s, _ := r.spawn(ann)
			wk := r.mustWork(ann, inSession(s.ID))
			time.Sleep(alive)
			synctest.Wait()
			r.kill()
			time.Sleep(2 * time.Minute)
			keeper.end(ann, s.ID) // nothing of it runs any more
			for range 3 {
				keeper.slots(t)
				time.Sleep(time.Minute)
			}
			h := w.gate.all()[wk.ID()]
			if want := alive.Truncate(interval) + interval; h.used() != want || h.settled != 1 || h.given != 0 {
				t.Errorf("charged %v of %v, settled %d times, want %v once", h.used(), alive, h.settled, want)
			}
			if left := w.gate.live(); len(left) > 0 {
				t.Errorf("holds left: %v", left)
			}
		})
	}

	inWorld(t, "a process that wakes after its account was closed accounts for nothing more", immediate, func(t *testing.T, w *world) {
		r, keeper := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		until := make(chan struct{})
		r.heldUp(until, "renew", "settle")
		time.Sleep(2 * time.Minute)
		keeper.end(ann, s.ID)
		keeper.slots(t)
		time.Sleep(time.Minute)
		keeper.slots(t)
		charged := w.gate.all()[wk.ID()]
		close(until)
		r.meddle(nil)
		synctest.Wait()
		rep, err := wk.Close(t.Context())
		if err != nil || rep.Used != 0 {
			t.Errorf("Close: %v; used %v: it was somebody else who accounted for it", err, rep.Used)
		}
		if now := w.gate.all()[wk.ID()]; now.used() != charged.used() || now.used() == 0 || now.settled != 1 {
			t.Errorf("charged %v and settled %d times, had been charged %v", now.used(), now.settled, charged.used())
		}
	})

	inWorld(t, "where the account can't be closed the slot stays taken, and it is tried again", immediate, func(t *testing.T, w *world) {
		id := w.crashed()
		keeper := w.replica()
		keeper.end(ann, id)
		keeper.meddle(func(c string, _, _ int) trouble {
			if c == "abandon" {
				return trouble{before: errOutage}
			}
			return trouble{}
		})
		keeper.slots(t)
		if n := len(w.expired()); n != 1 {
			t.Errorf("%d leases, want the one whose work is not accounted for", n)
		}
		keeper.meddle(nil)
		time.Sleep(time.Minute)
		keeper.slots(t)
		if n := len(w.expired()); n != 0 {
			t.Errorf("%d leases left", n)
		}
		w.gate.wantEndedOnce(t)
	})
}

// unheld is a gate that could not ask the account, and lets work start.
type unheld struct{ billing.Gate }

func (g unheld) Admit(ctx context.Context, in billing.Intent) (billing.Ticket, error) {
	t, err := g.Gate.Admit(ctx, in)
	t.Unheld = true
	return t, err
}

func TestWhatTheGateIsTold(t *testing.T) {
	inWorld(t, "whose plan, whose project, which size: of the machine there is, or else of the one that will be placed", immediate, func(t *testing.T, w *world) {
		class := "small"
		r := w.replica(func(c *session.Config) {
			c.Place = func(session.Placing) (session.Placement, error) {
				return session.Placement{Spec: sandbox.Spec{Class: class}}, nil
			}
		})
		s, _ := r.spawn(ann)
		first := r.mustWork(ann, inSession(s.ID))
		class = "large"
		second := r.mustWork(ann, inSession(s.ID))
		for _, wk := range []*session.Work{first, second} {
			want := billing.Intent{
				ID: billing.HoldID(wk.ID()), Work: wk.ID(), Payer: "ann", Plan: access.Plan("pro"), Session: s.ID, Project: s.Project,
				Meter: billing.MeterRuntime, Class: "small", TTL: 2 * time.Minute,
			}
			if got := w.gate.all()[wk.ID()].intent; got != want {
				t.Errorf("told %+v, want %+v", got, want)
			}
			closeWork(t, wk)
		}
	})
	inWorld(t, "a report says where the account could not be asked", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Gate = unheld{c.Gate} })
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		if rep := closeWork(t, wk); !rep.Unheld || rep.Free {
			t.Errorf("%+v", rep)
		}
	})
	inWorld(t, "that work begins is told at once: a hold that is never heard of again was never worked on", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		if h := w.gate.all()[wk.ID()]; len(h.spans) != 1 || h.used() != 0 {
			t.Errorf("told %+v", h.spans)
		}
	})
}
