package session_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// unanswered makes every call of these names wait until its context ends.
func (r *replica) unanswered(calls ...string) {
	r.meddle(func(c string, _, _ int) trouble {
		for _, hangs := range calls {
			if c == hangs {
				return trouble{hold: func(ctx context.Context) { <-ctx.Done() }, before: context.DeadlineExceeded}
			}
		}
		return trouble{}
	})
}

// A provider that answers one kind of call at once and leaves another
// unanswered holds a pass for three calls, not for all that is due.
func TestPassesAreNotHeldUp(t *testing.T) {
	inWorld(t, "a provider that hangs when it is to destroy is mute after three kills, however well it shows its machines", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 10 {
			r.dying()
		}
		r.unanswered("destroy")
		begun := time.Now()
		rep := r.reclaim()
		if took := time.Since(begun); took > 3*time.Minute || r.count("destroy") != 3 || rep.Failed != 10 {
			t.Errorf("the pass took %v and %d kills; %d failed", took, r.count("destroy"), rep.Failed)
		}
		r.meddle(nil)
		if rep := r.reclaim(); rep.Proven != 10 {
			t.Errorf("once it answers: %+v", rep)
		}
	})

	inWorld(t, "so it is with the outbox, which notes for the operator what the kill came to", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 10 {
			r.orphan()
		}
		r.unanswered("destroy")
		begun := time.Now()
		rep := r.reclaim()
		if took := time.Since(begun); took > 3*time.Minute || r.count("destroy") != 3 || rep.Failed != 10 {
			t.Errorf("the pass took %v and %d kills; %d failed", took, r.count("destroy"), rep.Failed)
		}
		for _, b := range w.outbox() {
			if b.LastError == "" || b.Attempts != 1 {
				t.Errorf("entry %+v", b)
			}
		}
		r.meddle(nil)
		if rep := r.reclaim(); rep.Proven != 10 {
			t.Errorf("once it answers: %+v", rep)
		}
	})

	inWorld(t, "a kill that fails at once holds nobody, and is followed by a look all the same: it may have been done", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 10 {
			r.dying()
		}
		r.meddle(func(c string, _, _ int) trouble {
			if c == "destroy" {
				return trouble{after: errOutage}
			}
			return trouble{}
		})
		if rep := r.reclaim(); rep.Proven != 10 {
			t.Errorf("%+v", rep)
		}
	})

	inWorld(t, "a kill that is not answered is not asked for again in the same pass", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		row := w.snap(id).Sandbox
		row.Incarnation = "" // nobody knows which of its machines it was
		if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Sandbox: &row}); err != nil {
			t.Fatal(err)
		}
		r.meddle(func(c string, _, _ int) trouble {
			if c == "destroy" {
				return trouble{hold: func(ctx context.Context) { <-ctx.Done() }, before: context.DeadlineExceeded}
			}
			return trouble{}
		})
		begun := time.Now()
		r.reclaim()
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})

	for _, call := range []string{"inspect", "reap"} {
		inWorld(t, fmt.Sprintf("the slots of a provider that leaves %s unanswered are not waited for one by one, and those of another are freed", call), immediate, func(t *testing.T, w *world) {
			hang := &reaping{w: w, hangs: call}
			other := newOther()
			r := w.replica(other.config, hang.config)
			for range 10 {
				s, _ := r.spawn(ann)
				r.mustWork(ann, inSession(s.ID))
			}
			other.on = true
			s, _ := r.spawn(ann)
			r.mustWork(ann, inSession(s.ID))
			other.boxes.SetStatus(other.boxes.Machines()[0].Incarnation, sandbox.StatusStopped)
			r.kill()
			time.Sleep(2 * time.Minute)

			next := w.replica(other.config, hang.config, func(c *session.Config) { c.Replica = "next" })
			hang.on.Store(true)
			stop := next.serve(t)
			time.Sleep(3*time.Minute + time.Second)
			if held, err := w.db.Leases().Held(t.Context(), session.LeaseWork, string(s.ID)); err == nil {
				t.Errorf("held %+v", held)
			}
			expired, err := w.db.Leases().Expired(t.Context(), 100)
			if err != nil || len(expired) != 10 {
				t.Errorf("%d leases drain, %v, want those of the provider that hangs", len(expired), err)
			}
			if n := hang.asked.Load(); n != 3 {
				t.Errorf("asked %d times, want 3", n)
			}
			hang.on.Store(false)
			time.Sleep(5 * time.Minute)
			stop()
			if expired, err := w.db.Leases().Expired(t.Context(), 100); err != nil || len(expired) != 0 {
				t.Errorf("once it answers: %d leases drain, %v", len(expired), err)
			}
		})
	}
}

// reaping is a provider that can reap, and while it is on leaves calls of a kind unanswered.
type reaping struct {
	sandbox.Provider
	w     *world
	hangs string
	on    atomic.Bool
	asked atomic.Int32
}

func (p *reaping) config(c *session.Config) {
	p.Provider = c.Sandboxes[0]
	c.Sandboxes[0] = p
}

func (p *reaping) wait(ctx context.Context, call string) error {
	if !p.on.Load() || p.hangs != call {
		return nil
	}
	p.asked.Add(1)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (p *reaping) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	if err := p.wait(ctx, "inspect"); err != nil {
		return nil, err
	}
	return p.w.boxes.Inspect(ctx, ref)
}

func (p *reaping) Reap(ctx context.Context, _ sandbox.Ref, _ string) error {
	return p.wait(ctx, "reap")
}
