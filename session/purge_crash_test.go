package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Whatever befalls whichever call of a purge: another purge finishes it, and
// the Keeper finds every machine.
func TestPurgeCrashesAtEveryStep(t *testing.T) {
	for what, target := range map[string]session.PurgeTarget{
		"project": {Project: "p", History: true}, "user": {User: "bob"}, "session": {Session: "ann p", History: true},
	} {
		for _, m := range mishaps {
			t.Run(what+": a call that "+m.name, func(t *testing.T) {
				n, reached := 0, true
				for reached {
					n++
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, lagging)
						r := w.purger(&room{things: 150})
						v := newTown(w, r)
						w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
						r.end(bob, v.sessions["bob p"])
						w.boxes.Inject(nil)
						target := target
						if target.Session != "" {
							target.Session = v.sessions["ann p"]
						}
						reached = false
						r.meddle(func(call string, i, _ int) trouble {
							if i == n {
								reached = true
								return m.of(call)
							}
							return trouble{}
						})
						_, err := r.Purge(t.Context(), target, session.PurgeOptions{})
						if reached && err == nil && m.of("commit").after == nil {
							t.Error("a call failed, and the purge did not say so")
						}
						next := w.purger(&room{})
						rep, err := next.Purge(t.Context(), target, session.PurgeOptions{})
						if err != nil || !rep.Done {
							t.Errorf("again: %+v, %v", rep, err)
						}
						w.wantPurged(next, target)
						w.convergeTown(next)
					})
				}
				if n < 5 {
					t.Errorf("only %d calls were reached", n-1)
				}
			})
		}
	}
}

// wantPurged fails the test if anything of target is left.
func (w *world) wantPurged(r *replica, target session.PurgeTarget) {
	w.Helper()
	if left, err := w.db.Sessions().Owned(w.Context(), target, 100); err != nil || len(left) > 0 {
		w.Errorf("left of %+v: %+v, %v", target, left, err)
	}
}

// convergeTown lets the Keeper work until nothing is left to do, and fails the
// test unless each machine is then the live one of a row.
func (w *world) convergeTown(r *replica) {
	w.Helper()
	w.reclaimed(r)
	live := map[sandbox.Incarnation]bool{}
	for _, s := range append(w.all(), w.allEnvironments()...) {
		if s.Sandbox.State == sandbox.Live {
			live[s.Sandbox.Incarnation] = true
		} else if s.Sandbox.State != sandbox.None {
			w.Errorf("row %+v", s.Sandbox)
		}
	}
	for _, m := range w.boxes.Machines() {
		if !live[m.Incarnation] {
			w.Errorf("machine %s lives and is nobody's", m.Name)
		}
		delete(live, m.Incarnation)
	}
	if len(live) > 0 || len(w.outbox()) > 0 {
		w.Errorf("rows name %v, which are not there; outbox %+v", live, w.outbox())
	}
}
