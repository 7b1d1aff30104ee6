package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestDeleteEnvironment(t *testing.T) {
	inWorld(t, "T-37: the row is deleted before the provider is called, and Destroyed only after the proof; again it kills nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		s, _ := r.borrow(ann, id)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		r.meddle(func(c string, _, _ int) trouble {
			return trouble{hold: func(context.Context) {
				if c == "destroy" && !w.env(id).Environment.Deleted() {
					t.Error("the machine is destroyed before the environment is deleted")
				}
			}}
		})
		wantReport(t, "DeleteEnvironment", r.deleteEnvironment(ann, id), session.EndReport{Ended: true, Destroyed: true})
		want := []string{"commit", "destroy", "inspect", "commit", "inspect", "commit"}
		if diff := cmp.Diff(want, r.only("commit", "destroy", "inspect")); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		if got := w.env(id); got.Sandbox.State != sandbox.None || got.Sandbox.DestroyedAt.IsZero() || len(w.boxes.Machines()) > 0 {
			t.Errorf("%+v, machines %+v", got, w.boxes.Machines())
		}
		deleted := w.env(id).Environment
		time.Sleep(time.Minute)
		wantReport(t, "DeleteEnvironment again", w.replica().deleteEnvironment(ada, id), session.EndReport{})
		if got := w.env(id).Environment; got != deleted || w.asked(memory.OpDestroy) != 1 {
			t.Errorf("environment %+v, was %+v; %d kills", got, deleted, w.asked(memory.OpDestroy))
		}
	})

	inWorld(t, "T-28: of an environment that never had a machine it needs no provider", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		wantReport(t, "DeleteEnvironment", r.deleteEnvironment(ann, r.newEnvironment(ann)), session.EndReport{Ended: true})
		if calls := w.boxes.Calls(); len(calls) > 0 {
			t.Errorf("the provider was asked %+v", calls)
		}
	})

	inWorld(t, "of several at once one deletes it, and one at most proves its machine gone", immediate, func(t *testing.T, w *world) {
		replicas := []*replica{w.replica(), w.replica()}
		id := replicas[0].newEnvironment(ann)
		s, _ := replicas[0].borrow(ann, id)
		closeWork(t, replicas[0].mustWork(ann, inSession(s.ID)))
		reports := make([]session.EndReport, 8)
		errs := together(len(reports), func(i int) (err error) {
			reports[i], err = replicas[i%2].DeleteEnvironment(t.Context(), ann, id)
			return err
		})
		var ended, destroyed int
		for _, rep := range reports {
			ended, destroyed = ended+b2i(rep.Ended), destroyed+b2i(rep.Destroyed)
		}
		if err := errors.Join(errs...); err != nil || ended != 1 || destroyed > 1 {
			t.Errorf("%v: %d ended it, %d proved it gone", err, ended, destroyed)
		}
	})

	inWorld(t, "T-17: where the proof takes time it is pending, and the Keeper's", lagging, func(t *testing.T, w *world) {
		r, keeper := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		s, _ := r.borrow(ann, id)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		time.Sleep(time.Hour)
		wantReport(t, "DeleteEnvironment", r.deleteEnvironment(ann, id), session.EndReport{Ended: true, Pending: true})
		wantReport(t, "DeleteEnvironment again", r.deleteEnvironment(ann, id), session.EndReport{Pending: true})
		keeper.settle()
		wantReport(t, "after the Keeper", r.deleteEnvironment(ann, id), session.EndReport{})
		if got := w.env(id).Sandbox; got.State != sandbox.None || got.DestroyedAt.IsZero() {
			t.Errorf("row %+v", got)
		}
	})

	for _, c := range []struct {
		what  string
		hangs func(t *testing.T, w *world, r *replica) (release func())
	}{
		{"does not answer the kill", func(t *testing.T, w *world, _ *replica) func() {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Hold: latch(t)}))
			return func() {}
		}},
		{"does the kill and does not answer", func(t *testing.T, w *world, _ *replica) func() {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{HoldReply: latch(t)}))
			return func() {}
		}},
		{"does not say what it sees", func(t *testing.T, w *world, _ *replica) func() {
			w.boxes.Inject(always(memory.OpInspect, memory.Fault{Hold: latch(t)}))
			return func() {}
		}},
		{"takes no notice of contexts", func(_ *testing.T, _ *world, r *replica) func() {
			stuck := make(chan struct{})
			r.meddle(func(call string, _, _ int) trouble {
				if call == "destroy" {
					return trouble{hold: func(context.Context) { <-stuck }}
				}
				return trouble{}
			})
			return func() { close(stuck) }
		}},
	} {
		inWorld(t, "T-37: a provider that "+c.what+" holds up the deletion 5 s at most", immediate, func(t *testing.T, w *world) {
			r, keeper := w.replica(), w.replica()
			id := r.newEnvironment(ann)
			s, _ := r.borrow(ann, id)
			closeWork(t, r.mustWork(ann, inSession(s.ID)))
			release := c.hangs(t, w, r)
			begun := time.Now()
			wantReport(t, "DeleteEnvironment", r.deleteEnvironment(ann, id), session.EndReport{Ended: true, Pending: true})
			if took := time.Since(begun); took != 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if got := w.env(id); !got.Environment.Deleted() || got.Sandbox.State != sandbox.Destroying {
				t.Errorf("%+v", got)
			}
			_, err := r.work(t.Context(), ann, inSession(s.ID))
			wantErr(t, "Open", err, session.ErrEnvironmentGone)
			release()
			w.boxes.Inject(nil)
			keeper.settle()
			if got := w.env(id).Sandbox.State; got != sandbox.None || len(w.boxes.Machines()) > 0 {
				t.Errorf("after the Keeper: row %v, machines %+v", got, w.boxes.Machines())
			}
		})
	}

	inWorld(t, "rule 1: it is carried through although its caller is gone", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		s, _ := r.borrow(ann, id)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		ctx, cancel := context.WithCancel(t.Context())
		r.meddle(func(c string, _, _ int) trouble {
			if c == "destroy" {
				return trouble{hold: func(context.Context) { cancel() }}
			}
			return trouble{}
		})
		rep, err := r.DeleteEnvironment(ctx, ann, id)
		if err != nil || !rep.Destroyed {
			t.Errorf("DeleteEnvironment: %+v, %v", rep, err)
		}
	})
}

// Rule 13: whoever borrows from a deleted environment has nothing to work in, ever.
func TestBorrowersOfADeletedEnvironment(t *testing.T) {
	inWorld(t, "rule 13: work is refused with ErrEnvironmentGone, never given a sandbox of its own, and nothing is asked or written for it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		s, v := r.borrow(ann, id)
		ended, _ := r.borrow(ann, id)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		r.end(ann, ended.ID)
		r.deleteEnvironment(ann, id)
		before := w.env(id).Sandbox
		r.meddle(nil)
		for _, q := range []session.WorkRequest{
			{Session: s.ID}, inSession(s.ID), inConversation(v.ID), {Session: s.ID, Ensure: true, AcceptLoss: 1},
			{Session: ended.ID, Ensure: true, Reopen: true},
		} {
			_, err := r.work(t.Context(), ann, q)
			wantErr(t, fmt.Sprintf("Open(%+v)", q), err, session.ErrEnvironmentGone)
			if status, code, _ := problem(t, err); status != 410 || code != "environment_gone" {
				t.Errorf("Problem %d %s", status, code)
			}
		}
		_, err := r.work(t.Context(), ann, inSession(ended.ID))
		wantErr(t, "Open of what has ended, too", err, session.ErrEnded)
		if calls := r.only("commit", "admit", "acquire", "create"); len(calls) > 0 || w.created() != 1 {
			t.Errorf("called %v, %d creates", calls, w.created())
		}
		if after := w.env(id).Sandbox; after.Version != before.Version || !w.snap(ended.ID).Session.Ended() {
			t.Errorf("row %+v, was %+v", after, before)
		}
		// The sessions stay: what was said in them, their names, whether they have ended.
		r.add(bob, s.ID, "tester")
		if err := r.Rename(t.Context(), bob, s.ID, "old bench"); err != nil {
			t.Errorf("Rename: %v", err)
		}
		if sum, err := r.Get(t.Context(), bob, s.ID); err != nil || sum.Machine != sandbox.None || len(sum.Conversations) != 2 || sum.Session.Environment != id {
			t.Errorf("Get: %+v, %v", sum, err)
		}
		if got, err := r.Reopen(t.Context(), ann, ended.ID); err != nil || got.Ended() {
			t.Errorf("Reopen: %+v, %v", got, err)
		}
		wantReport(t, "End", r.end(ann, s.ID), session.EndReport{Ended: true})
	})

	for what, other := range map[string]bool{"in the same process, at once": false, "in another process, with the next beat": true} {
		inWorld(t, "works end with ErrEnvironmentGone "+what+", and so does nothing else", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			id, spared := r.newEnvironment(ann), r.newEnvironment(ann)
			a, _ := r.borrow(ann, id)
			b, _ := r.borrow(ann, id)
			beside, _ := r.borrow(ann, spared)
			own, _ := r.spawn(ann)
			doomed := []*session.Work{r.mustWork(ann, inSession(a.ID)), r.mustWork(bob, inSession(b.ID))}
			others := []*session.Work{r.mustWork(ann, inSession(beside.ID)), r.mustWork(ann, inSession(own.ID))}
			p, q := start(t, doomed[0]), start(t, doomed[1])
			by, most := r, time.Duration(0)
			if other {
				by, most = w.replica(), 20*time.Second
			}
			by.deleteEnvironment(ada, id)
			wantStopped(t, doomed[0], p, session.ErrEnvironmentGone, 0, most)
			wantStopped(t, doomed[1], q, session.ErrEnvironmentGone, 0, most)
			time.Sleep(time.Minute)
			for _, wk := range others {
				if cause := context.Cause(wk.Context()); cause != nil {
					t.Errorf("a work elsewhere was stopped for %v", cause)
				}
			}
			for _, wk := range doomed {
				if h := w.gate.all()[wk.ID()]; h.given > 0 || h.settled != 1 {
					t.Errorf("its time is settled, once: %+v", h)
				}
			}
		})
	}
}

// crossing is how a deletion and work in the environment meet: one is under way,
// and the other happens, whole, at one of its calls.
type crossing struct {
	deletion bool // the deletion is under way; else the work
	warm     bool // there is a machine
	late     bool // after the call is done, before its answer; else before it is made
	same     bool // both in one process
	stubborn bool // the first kill fails
}

// Rule 13, T-37: whenever a deletion and work in it meet, and at whatever kind
// of provider: the machine dies, the outbox empties, and no borrower ever has a
// sandbox of its own, which the world watches.
func TestDeleteEnvironmentAgainstOpen(t *testing.T) {
	for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "unknown": unknown, "lagging": lagging} {
		for bits := range 1 << 5 {
			c := crossing{bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0, bits&16 > 0}
			t.Run(fmt.Sprintf("%s: %+v", what, c), func(t *testing.T) {
				n, reached := 0, true
				for reached {
					n++
					t.Run(fmt.Sprint(n), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { reached = newWorld(t, caps).cross(n, c) })
					})
				}
				if n < 4 {
					t.Errorf("only %d calls were reached", n-1)
				}
			})
		}
	}
}

// cross lets the two meet at the nth call and reports whether there was such a call.
func (w *world) cross(n int, c crossing) (reached bool) {
	r := w.replica()
	id := r.newEnvironment(ann)
	a, _ := r.borrow(ann, id)
	b, _ := r.borrow(ann, id)
	if c.warm {
		closeWork(w, r.mustWork(ann, inSession(b.ID)))
		time.Sleep(time.Hour)
	}
	if c.stubborn {
		w.boxes.Inject(on(memory.OpDestroy, 1, memory.Fault{Fail: errOutage}))
	}
	by := r
	if !c.same {
		by = w.replica()
	}
	var wk *session.Work
	work := func(r *replica) {
		ctx, cancel := context.WithCancel(context.Background())
		w.Cleanup(cancel)
		impatient := time.AfterFunc(10*time.Second, cancel)
		defer impatient.Stop()
		var err error
		if wk, err = r.work(ctx, ann, inSession(a.ID)); err != nil {
			wantDocumented(w, err)
		}
	}
	remove := func(r *replica) {
		if rep, err := r.DeleteEnvironment(context.Background(), ann, id); err != nil || !rep.Ended {
			w.Errorf("DeleteEnvironment: %+v, %v", rep, err)
		}
	}
	act, meanwhile := work, remove
	if c.deletion {
		act, meanwhile = remove, work
	}
	r.meddle(func(_ string, i, _ int) trouble {
		if i != n {
			return trouble{}
		}
		reached = true
		if c.late {
			return trouble{late: func(context.Context) { meanwhile(by) }}
		}
		return trouble{hold: func(context.Context) { meanwhile(by) }}
	})
	act(r)
	r.meddle(nil)
	if wk != nil {
		if reached { // both have happened: what has begun is stopped with the next beat
			time.Sleep(25 * time.Second)
			wantErr(w, "the work", context.Cause(wk.Context()), session.ErrEnvironmentGone)
		}
		closeWork(w, wk)
	}
	if !reached {
		return false
	}
	w.converge(w.replica())
	if got := w.env(id); !got.Environment.Deleted() || got.Sandbox.State != sandbox.None || len(w.boxes.Machines()) > 0 {
		w.Errorf("%+v, machines %+v", got, w.boxes.Machines())
	}
	for _, s := range []session.ID{a.ID, b.ID} {
		_, err := w.replica().work(context.Background(), ann, inSession(s))
		wantErr(w, "Open afterwards", err, session.ErrEnvironmentGone)
	}
	w.gate.wantEndedOnce(w)
	return true
}
