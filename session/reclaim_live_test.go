package session_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// pass makes one pass with these options.
func (r *replica) pass(o session.ReclaimOptions) session.ReclaimReport {
	r.w.Helper()
	rep, err := r.Reclaim(r.w.Context(), o)
	if err != nil {
		r.w.Fatalf("Reclaim(%+v): %v", o, err)
	}
	return rep
}

// wantActions fails the test unless a pass did just this with the items of a
// kind, and gave a reason for each.
func wantActions(t testing.TB, what string, rep session.ReclaimReport, kind session.DueKind, want ...session.ReclaimAction) {
	t.Helper()
	got := actions(rep)[kind]
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: did %v, want %v", what, got, want)
	}
	for _, i := range rep.Items {
		if i.Reason == "" || i.Provider == "" || (i.Err != nil) != (i.Action == session.ReclaimFailed) {
			t.Errorf("%s: item %+v", what, i)
		}
	}
}

func TestReclaimLive(t *testing.T) {
	inWorld(t, "a live machine is looked at every ten minutes, never woken, and nothing is written of it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		before := w.snap(id).Sandbox
		w.boxes.SetStatus(before.Incarnation, sandbox.StatusStopped)
		time.Sleep(10*time.Minute - time.Second)
		wantActions(t, "before its time", r.reclaim(), session.DueLive)
		time.Sleep(time.Second)
		r.meddle(nil)
		wantActions(t, "at its time", r.reclaim(), session.DueLive, session.ReclaimSeen)
		if n := r.count("attach", "create", "destroy"); n > 0 {
			t.Errorf("the provider was asked for more than a look: %v", r.calls())
		}
		if m := w.boxes.Machines(); m[0].Status != sandbox.StatusStopped {
			t.Errorf("machine %+v", m[0])
		}
		wantActions(t, "just after", r.reclaim(), session.DueLive)
		time.Sleep(10 * time.Minute)
		wantActions(t, "ten minutes later", r.reclaim(), session.DueLive, session.ReclaimSeen)
		if row := w.snap(id).Sandbox; row.Version != before.Version || row.State != sandbox.Live {
			t.Errorf("row %+v, was version %d", row, before.Version)
		}
		wantActions(t, "asked for more often", r.pass(session.ReclaimOptions{Unseen: time.Nanosecond}), session.DueLive)
		time.Sleep(time.Second)
		wantActions(t, "asked for more often", r.pass(session.ReclaimOptions{Unseen: time.Second}), session.DueLive, session.ReclaimSeen)
		time.Sleep(time.Hour)
		wantActions(t, "asked for never", r.pass(session.ReclaimOptions{Unseen: -1}), session.DueLive)
	})

	inWorld(t, "rule 6: what is not found twice, the lag apart, is lost and buried; who works next is told", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		i := w.snap(id).Sandbox.Incarnation
		time.Sleep(time.Hour)
		w.boxes.Kill(i)
		look := session.ReclaimOptions{Unseen: time.Second}
		wantActions(t, "first", r.pass(look), session.DueLive, session.ReclaimWaited)
		if row := w.snap(id).Sandbox; row.State != sandbox.Live || row.AbsentSince.IsZero() {
			t.Errorf("row %+v", row)
		}
		time.Sleep(time.Minute - time.Second)
		wantActions(t, "inside the lag", r.pass(look), session.DueLive, session.ReclaimWaited)
		time.Sleep(time.Second)
		rep := r.pass(look)
		wantActions(t, "after the lag", rep, session.DueLive, session.ReclaimLost)
		if row := w.snap(id).Sandbox; row.State != sandbox.Lost || rep.Tripped {
			t.Errorf("row %+v, %+v", row, rep)
		}
		if box := w.outbox(); len(box) != 1 || box[0].Incarnation != i || box[0].Generation != 1 {
			t.Errorf("outbox %+v", box)
		}
		_, err := r.work(t.Context(), ann, inSession(id))
		wantType[*sandbox.LostError](t, "Open", err)
		time.Sleep(time.Minute)
		r.settle()
		w.wantOutboxEmpty()
	})

	inWorld(t, "rule 6(d): a sighting between two not-found answers starts anew", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		look := session.ReclaimOptions{Unseen: time.Second}
		w.boxes.Inject(on(memory.OpInspect, 1, memory.Fault{Unseen: true}))
		wantActions(t, "not seen", r.pass(look), session.DueLive, session.ReclaimWaited)
		time.Sleep(2 * time.Minute)
		wantActions(t, "seen", r.pass(look), session.DueLive, session.ReclaimSeen)
		if row := w.snap(id).Sandbox; !row.AbsentSince.IsZero() {
			t.Errorf("row %+v", row)
		}
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Unseen: true}))
		time.Sleep(2 * time.Minute)
		wantActions(t, "not seen again", r.pass(look), session.DueLive, session.ReclaimWaited)
		if row := w.snap(id).Sandbox; row.State != sandbox.Live {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "T-20, T-23: a provider that does not answer is no sign of absence, however often", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: errOutage}))
		for range 5 {
			time.Sleep(time.Hour)
			rep := r.reclaim()
			wantActions(t, "outage", rep, session.DueLive, session.ReclaimFailed)
			wantErr(t, "the item", rep.Items[0].Err, errOutage)
		}
		if row := w.snap(id).Sandbox; row.State != sandbox.Live || !row.AbsentSince.IsZero() {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "what is used, ended or lost by somebody else while it is looked at is left at that", immediate, func(t *testing.T, w *world) {
		for what, act := range map[string]func(other *replica, id session.ID){
			"ended":  func(other *replica, id session.ID) { other.end(ann, id) },
			"killed": func(other *replica, id session.ID) { w.boxes.Kill(w.snap(id).Sandbox.Incarnation) },
			"lost": func(other *replica, id session.ID) {
				w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
				_, err := other.work(t.Context(), ann, inSession(id))
				wantType[*sandbox.LostError](t, "Open", err)
			},
		} {
			r, other := w.replica(), w.replica()
			id := r.warm()
			time.Sleep(time.Hour)
			r.meddle(func(c string, _, nth int) trouble {
				if c == "inspect" && nth == 1 {
					return trouble{hold: func(context.Context) { act(other, id) }}
				}
				return trouble{}
			})
			rep := r.reclaim()
			want := map[string]session.ReclaimAction{"ended": session.ReclaimSkipped, "killed": session.ReclaimWaited, "lost": session.ReclaimSkipped}[what]
			wantActions(t, what, rep, session.DueLive, want)
			r.meddle(nil)
			r.settle()
			if what == "killed" {
				time.Sleep(10 * time.Minute)
				wantActions(t, what, r.reclaim(), session.DueLive, session.ReclaimLost)
				r.settle()
			}
		}
	})

	inLand(t, "rule 12: a live machine of another host is never looked at", func(t *testing.T, w *land) {
		n, s := w.at("north", "n"), w.at("south", "s")
		id := n.warm()
		time.Sleep(time.Hour)
		s.meddle(nil)
		wantActions(t, "from the south", s.reclaim(), session.DueLive)
		if k := s.count("inspect"); k > 0 {
			t.Errorf("asked %d times", k)
		}
		rep := n.reclaim()
		wantActions(t, "from the north", rep, session.DueLive, session.ReclaimSeen)
		if i := rep.Items[0]; i.Host != "north" || i.Provider != "memory" || i.Tombstone.Sandbox != w.snap(id).Sandbox.ID || i.Tombstone.Generation != 1 {
			t.Errorf("item %+v", i)
		}
	})

	inWorld(t, "at most fifty are looked at in a pass, those first that nobody has looked at for longest", immediate, func(t *testing.T, w *world) {
		w.limits = session.Limits{Sessions: 1000, Machines: 1000}
		r := w.replica()
		for range 120 {
			r.warm()
		}
		time.Sleep(time.Hour)
		seen := map[sandbox.ID]bool{}
		for pass, want := range []int{50, 50, 20, 0} {
			rep := r.reclaim()
			if len(rep.Items) != want || (rep.Capped == session.DueLive) != (pass < 2) {
				t.Errorf("pass %d: %d items, capped %v", pass+1, len(rep.Items), rep.Capped)
			}
			for _, i := range rep.Items {
				if seen[i.Tombstone.Sandbox] {
					t.Errorf("pass %d: sandbox %s again", pass+1, i.Tombstone.Sandbox)
				}
				seen[i.Tombstone.Sandbox] = true
			}
		}
	})
}

// Reclaim's breaker: what nobody asked for is bounded.
func TestReclaimBudget(t *testing.T) {
	inWorld(t, "where more live machines are missing than the budget none is lost by that pass, and what was asked for goes on", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		var live []session.ID
		for range 6 {
			live = append(live, r.warm())
		}
		dying := r.dying()
		time.Sleep(time.Hour)
		w.boxes.Inject(func(c memory.Call) memory.Fault { // an account that shows nothing of ours
			return memory.Fault{Unseen: c.Op == memory.OpInspect}
		})
		wantActions(t, "the first time", r.reclaim(), session.DueLive, repeated(session.ReclaimWaited, 6)...)
		for range 3 {
			time.Sleep(10 * time.Minute)
			rep := r.reclaim()
			wantActions(t, "the next time", rep, session.DueLive, repeated(session.ReclaimSpared, 6)...)
			if !rep.Tripped {
				t.Errorf("%+v", rep)
			}
		}
		for _, id := range live {
			if state := w.snap(id).Sandbox.State; state != sandbox.Live {
				t.Errorf("row %v", state)
			}
		}
		if state := w.snap(dying).Sandbox.State; state != sandbox.None {
			t.Errorf("what was to be destroyed is %v", state)
		}
		w.wantOutboxEmpty()

		time.Sleep(10 * time.Minute)
		rep := r.pass(session.ReclaimOptions{Budget: 6})
		wantActions(t, "an operator who knows better", rep, session.DueLive, repeated(session.ReclaimLost, 6)...)
		if rep.Tripped || len(w.outbox()) != 6 {
			t.Errorf("%+v, outbox %+v", rep, w.outbox())
		}
	})

	inWorld(t, "as many as the budget allows are lost", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 5 {
			w.boxes.Kill(w.snap(r.warm()).Sandbox.Incarnation)
		}
		r.warm()
		time.Sleep(time.Hour)
		r.reclaim()
		time.Sleep(10 * time.Minute)
		rep := r.reclaim()
		if did := actions(rep)[session.DueLive]; count(did, session.ReclaimLost) != 5 || count(did, session.ReclaimSeen) != 1 || rep.Tripped {
			t.Errorf("did %v, tripped %v", did, rep.Tripped)
		}
	})

	inWorld(t, "a negative budget is refused by name", immediate, func(t *testing.T, w *world) {
		_, err := w.replica().Reclaim(t.Context(), session.ReclaimOptions{Budget: -1})
		wantField(t, "Reclaim", err, "Budget")
	})
}

func repeated(a session.ReclaimAction, n int) (all []session.ReclaimAction) {
	for range n {
		all = append(all, a)
	}
	return all
}

func count(all []session.ReclaimAction, a session.ReclaimAction) (n int) {
	for _, b := range all {
		n += b2i(a == b)
	}
	return n
}

func (w *world) wantOutboxEmpty() {
	w.Helper()
	if box := w.outbox(); len(box) > 0 {
		w.Errorf("outbox %+v", box)
	}
}

// A process that dies at any step of a look at live machines, or is not answered.
func TestCrashOfALook(t *testing.T) {
	for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
		for _, m := range mishaps {
			t.Run(fmt.Sprintf("%s: a call that %s", what, m.name), func(t *testing.T) {
				crashAtEveryCall(t, 12, func(t *testing.T, meddle func(*replica)) {
					w := newWorld(t, caps)
					first := w.replica()
					gone, there := first.warm(), first.warm()
					time.Sleep(time.Hour)
					i := w.snap(there).Sandbox.Incarnation
					w.boxes.Kill(w.snap(gone).Sandbox.Incarnation)
					r := w.replica()
					meddle(r)
					for range 3 {
						r.Reclaim(t.Context(), session.ReclaimOptions{})
						time.Sleep(10 * time.Minute)
					}
					next := w.replica()
					for range 3 {
						next.reclaim()
						time.Sleep(10 * time.Minute)
					}
					w.converge(next)
					if row := w.snap(gone).Sandbox; row.State != sandbox.Lost {
						t.Errorf("what vanished: row %+v", row)
					}
					if row := w.snap(there).Sandbox; row.State != sandbox.Live || row.Incarnation != i || row.Generation != 1 {
						t.Errorf("what is there: row %+v", row)
					}
				}, m)
			})
		}
	}
}
