package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// idleAfter makes a replica stop machines.
func idleAfter(d time.Duration) func(*session.Config) {
	return func(c *session.Config) { c.IdleAfter = d }
}

// Rule 11.
func TestIdleStop(t *testing.T) {
	inWorld(t, "rule 11: a machine that nobody has worked in for long is destroyed, and the next work has a new one", immediate, func(t *testing.T, w *world) {
		r := w.replica(idleAfter(time.Hour))
		r.serve(t)
		id := r.warm()
		busy, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(busy.ID))
		time.Sleep(59 * time.Minute)
		if row := w.snap(id).Sandbox; row.State != sandbox.Live {
			t.Errorf("before its time: %+v", row)
		}
		time.Sleep(3 * time.Minute)
		row := w.snap(id).Sandbox
		if row.State != sandbox.None || row.DestroyedAt.IsZero() || len(w.boxes.Machines()) != 1 {
			t.Errorf("after its time: %+v, machines %+v", row, w.boxes.Machines())
		}
		if s := w.snap(id).Session; s.Ended() {
			t.Error("the session has ended")
		}
		if row := w.snap(busy.ID).Sandbox; row.State != sandbox.Live || context.Cause(wk.Context()) != nil {
			t.Errorf("what is worked in was stopped: %+v, %v", row, context.Cause(wk.Context()))
		}
		closeWork(t, r.mustWork(ann, inSession(id))) // and is not told of a loss
		if row := w.snap(id).Sandbox; row.Generation != 2 {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "by default no machine is ever stopped for that", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		r.serve(t)
		id := r.warm()
		time.Sleep(48 * time.Hour)
		if row := w.snap(id).Sandbox; row.State != sandbox.Live {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "rule 11: a lease that ran out and drains keeps the machine, too, and no other one waiting", immediate, func(t *testing.T, w *world) {
		id := w.crashed()
		r := w.replica(idleAfter(time.Hour))
		other := r.warm()
		time.Sleep(2 * time.Hour)
		r.slots(t)
		if row := w.snap(id).Sandbox; row.State != sandbox.Live {
			t.Errorf("row %+v", row)
		}
		if row := w.snap(other).Sandbox; row.State != sandbox.None {
			t.Errorf("the other: row %+v", row)
		}
		w.boxes.SetStatus(w.snap(id).Sandbox.Incarnation, sandbox.StatusStopped)
		r.slots(t)
		time.Sleep(time.Minute)
		r.slots(t)
		if row := w.snap(id).Sandbox; row.State != sandbox.None {
			t.Errorf("once nothing runs: %+v", row)
		}
	})

	inWorld(t, "a machine that vanished under a dead process's lease is found lost although idle stops are tried and refused", immediate, func(t *testing.T, w *world) {
		id := w.crashed()
		row := w.snap(id).Sandbox
		r := w.replica(idleAfter(time.Minute))
		r.serve(t)
		if !w.boxes.Kill(row.Incarnation) {
			t.Fatal("there was no machine")
		}
		time.Sleep(time.Hour)
		if row := w.snap(id).Sandbox; row.State != sandbox.Lost {
			t.Errorf("row %+v", row)
		}
		if left := w.expired(); len(left) > 0 {
			t.Errorf("leases left %+v", left)
		}
	})

	inWorld(t, "a machine that is slow to die is finished by the next pass", lagging, func(t *testing.T, w *world) {
		r := w.replica(idleAfter(time.Hour))
		id := r.warm()
		time.Sleep(2 * time.Hour)
		r.slots(t)
		if row := w.snap(id).Sandbox; row.State != sandbox.Destroying {
			t.Errorf("row %+v", row)
		}
		time.Sleep(time.Minute)
		r.settle()
		if row := w.snap(id).Sandbox; row.State != sandbox.None || len(w.boxes.Machines()) > 0 {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "a session that somebody has worked in since it was found idle keeps its machine", immediate, func(t *testing.T, w *world) {
		keeper, r := w.replica(idleAfter(time.Hour)), w.replica()
		id := r.warm()
		time.Sleep(2 * time.Hour)
		worked := false
		keeper.meddle(func(c string, _, nth int) trouble {
			if c != "load" || worked {
				return trouble{}
			}
			return trouble{hold: func(context.Context) {
				worked = true
				closeWork(t, r.mustWork(ann, inSession(id)))
			}}
		})
		keeper.slots(t)
		if row := w.snap(id).Sandbox; !worked || row.State != sandbox.Live || row.Generation != 1 {
			t.Errorf("worked in: %v, row %+v", worked, row)
		}
	})

	inWorld(t, "sessions that were stopped, have ended or have no machine are not idle", immediate, func(t *testing.T, w *world) {
		r := w.replica(idleAfter(time.Hour))
		r.spawn(ann)
		r.end(ann, r.warm())
		time.Sleep(2 * time.Hour)
		r.meddle(nil)
		r.slots(t)
		if n := r.count("destroy", "inspect"); n > 0 {
			t.Errorf("a provider was called: %v", r.calls())
		}
	})

	for _, bad := range []time.Duration{-1, time.Second, time.Minute - 1} {
		inWorld(t, fmt.Sprintf("%v is refused by name", bad), immediate, func(t *testing.T, w *world) {
			_, err := session.New(session.Config{Store: w.db.Sessions(), Leases: w.db.Leases(), Directory: w.dir, IdleAfter: bad})
			wantField(t, "New", err, "IdleAfter")
		})
	}
}

// A work that is opened at the very time of an idle stop finds the machine or
// gets a new one, and never works in a dying one: whatever the order, and
// however slow the machine is to die.
func TestIdleStopRacesWork(t *testing.T) {
	for _, who := range []string{"the stop", "the work"} {
		reached := map[string]bool{}
		for _, call := range []string{"load", "ask", "admit", "acquire", "commit", "destroy", "inspect", "attach", "touch"} {
			for nth := 1; nth <= 3; nth++ {
				for _, slow := range []bool{false, true} {
					inWorld(t, fmt.Sprintf("rule 11: %s is overtaken by the other before its call %d of %s; slow to die %v", who, nth, call, slow), immediate, func(t *testing.T, w *world) {
						keeper, r := w.replica(idleAfter(time.Hour)), w.replica()
						id := r.warm()
						time.Sleep(2 * time.Hour)
						if slow {
							w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
						}
						var wk *session.Work
						stop := func() { keeper.slots(t) }
						open := func() { wk = r.mustWork(ann, inSession(id)) }
						first, line, second := stop, keeper, open
						if who == "the work" {
							first, line, second = open, r, stop
						}
						line.meddle(func(c string, _, n int) trouble {
							if c != call || n != nth {
								return trouble{}
							}
							return trouble{hold: func(context.Context) {
								line.meddle(nil)
								reached[who+call] = true
								second()
							}}
						})
						first()
						if wk == nil {
							second()
						}
						w.wantAlive(wk, id)
					})
				}
			}
		}
		for _, call := range map[string][]string{"the stop": {"load", "commit", "destroy", "inspect"}, "the work": {"load", "ask", "admit", "acquire", "attach", "touch"}}[who] {
			if !reached[who+call] {
				t.Errorf("%s was never overtaken at %s", who, call)
			}
		}
	}

	t.Run("many at once", func(t *testing.T) {
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, immediate)
				keeper, r := w.replica(idleAfter(time.Hour)), w.replica()
				id := r.warm()
				time.Sleep(2 * time.Hour)
				var wk *session.Work
				together(2, func(i int) error {
					if i == 0 {
						keeper.slots(t)
					} else {
						wk = r.mustWork(ann, inSession(id))
					}
					return nil
				})
				w.wantAlive(wk, id)
			})
		}
	})
}

// wantAlive fails the test unless the work's machine is the one that its
// session's row names as live, and is there and stays there.
func (w *world) wantAlive(wk *session.Work, id session.ID) {
	w.Helper()
	if wk == nil {
		w.Fatal("no work was opened")
	}
	i := wk.Sandbox().Ref().Incarnation
	for range 3 {
		row := w.snap(id).Sandbox
		if row.State != sandbox.Live || row.Incarnation != i || !slices.ContainsFunc(w.boxes.Machines(), has(i)) {
			w.Errorf("the work has machine %s, which is dying; row %+v", i, row)
		}
		time.Sleep(time.Minute)
	}
	if cause := context.Cause(wk.Context()); cause != nil {
		w.Errorf("the work was stopped: %v", cause)
	}
	w.boxes.Inject(nil)
	w.replica().settle()
	w.wantOneMachine(id)
}

// A process that dies at any step of an idle stop, or is not answered: the next finishes it.
func TestCrashOfAnIdleStop(t *testing.T) {
	for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
		for _, m := range mishaps {
			t.Run(fmt.Sprintf("%s: a call that %s", what, m.name), func(t *testing.T) {
				crashAtEveryCall(t, 6, func(t *testing.T, meddle func(*replica)) {
					w := newWorld(t, caps)
					id := w.replica().warm()
					w.replica().warm()
					time.Sleep(2 * time.Hour)
					r := w.replica(idleAfter(time.Hour))
					meddle(r)
					r.slots(t)
					next := w.replica(idleAfter(time.Hour))
					time.Sleep(5 * time.Minute) // the leases of the dead have run out
					next.slots(t)
					w.converge(next)
					if row := w.snap(id).Sandbox; row.State != sandbox.None || len(w.boxes.Machines()) > 0 {
						t.Errorf("row %+v, machines %+v", row, w.boxes.Machines())
					}
					closeWork(t, next.mustWork(ann, inSession(id)))
				}, m)
			})
		}
	}
}

// crashAtEveryCall plays a part with a mishap at its first call, at its
// second, and so on for as long as there is such a call.
func crashAtEveryCall(t *testing.T, least int, part func(t *testing.T, meddle func(*replica)), m mishap) {
	t.Helper()
	n, reached := 0, true
	for reached && n < 200 {
		n++
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reached = false
				part(t, func(r *replica) {
					r.meddle(func(call string, i, _ int) trouble {
						if i == n {
							reached = true
							return m.of(call)
						}
						return trouble{}
					})
				})
			})
		})
	}
	if n <= least || n == 200 {
		t.Errorf("%d calls were reached", n-1)
	}
}

// A destroy that is refused for a while.
func TestIdleStopOutlastsAnOutage(t *testing.T) {
	inWorld(t, "what can't be killed yet is killed later, and the work that comes between has another machine", immediate, func(t *testing.T, w *world) {
		r := w.replica(idleAfter(time.Hour))
		id := r.warm()
		time.Sleep(2 * time.Hour)
		w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errors.New("no")}))
		r.slots(t)
		wk := r.mustWork(ann, inSession(id))
		if row := w.snap(id).Sandbox; row.Generation != 2 || len(w.outbox()) != 1 {
			t.Errorf("row %+v, outbox %+v", row, w.outbox())
		}
		w.boxes.Inject(nil)
		time.Sleep(10 * time.Minute)
		r.slots(t)
		w.wantAlive(wk, id)
	})
}
