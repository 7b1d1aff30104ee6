package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// staggered is a fleet of which every ten seconds a machine was born, so that
// each pass looks at few of them, and that passes have looked at for long.
func staggered(n int, keepers ...*replica) (ids []session.ID) {
	for i := range n {
		ids = append(ids, keepers[0].warm())
		time.Sleep(10 * time.Second)
		if i%3 == 2 {
			keepers[i/3%len(keepers)].reclaim()
		}
	}
	halfHour(keepers...)
	return ids
}

// halfHour is sixty passes, made in turn, as the chores make them, and how many of them tripped.
func halfHour(keepers ...*replica) (tripped int) {
	for i := range 60 {
		tripped += b2i(keepers[i%len(keepers)].reclaim().Tripped)
		time.Sleep(30 * time.Second)
	}
	return tripped
}

// inState is how many of the sessions' rows are.
func (w *world) inState(ids []session.ID, s sandbox.State) (n int) {
	for _, id := range ids {
		n += b2i(w.snap(id).Sandbox.State == s)
	}
	return n
}

// blind makes a provider answer that it sees none of the machines whose row keep does not spare.
func blind(spared map[sandbox.Incarnation]bool) func(memory.Call) memory.Fault {
	return func(c memory.Call) memory.Fault {
		return memory.Fault{Unseen: c.Op == memory.OpInspect && !spared[c.Incarnation]}
	}
}

// A provider that shows none of our machines, though they are there. What it
// says is measured by all that is missing, not by what one pass happened to look at.
func TestReclaimBesideABlindProvider(t *testing.T) {
	for what, replicas := range map[string]int{"one replica": 1, "four replicas, which share the passes": 4} {
		inWorld(t, "the breaker counts all machines of the provider that are missing, however their looks are spread: none of sixty is lost by "+what, immediate, func(t *testing.T, w *world) {
			w.limits = session.Limits{Sessions: 1000, Machines: 1000}
			var keepers []*replica
			for range replicas {
				keepers = append(keepers, w.replica())
			}
			fleet := staggered(60, keepers...)
			w.boxes.Inject(blind(nil))
			tripped := halfHour(keepers...)
			if n := w.inState(fleet, sandbox.Live); n != 60 || tripped == 0 {
				t.Errorf("%d of 60 are live, %d passes tripped", n, tripped)
			}
			w.boxes.Inject(nil)
			if tripped := halfHour(keepers...); tripped > 0 || w.inState(fleet, sandbox.Live) != 60 || len(w.boxes.Machines()) != 60 {
				t.Errorf("once it shows them again: %d passes tripped, %d machines", tripped, len(w.boxes.Machines()))
			}
			w.wantOutboxEmpty()
		})
	}

	inWorld(t, "what was lost lately counts as missing: a provider that goes blind machine by machine loses no more than the budget in twenty minutes", immediate, func(t *testing.T, w *world) {
		w.limits = session.Limits{Sessions: 1000, Machines: 1000}
		r := w.replica()
		fleet := staggered(30, r)
		seen := map[sandbox.Incarnation]bool{}
		for _, id := range fleet {
			seen[w.snap(id).Sandbox.Incarnation] = true
		}
		w.boxes.Inject(blind(seen))
		var lost []time.Time
		for _, id := range fleet[:20] { // one every three minutes
			delete(seen, w.snap(id).Sandbox.Incarnation)
			for range 6 {
				r.reclaim()
				for w.inState(fleet, sandbox.Lost) > len(lost) {
					lost = append(lost, time.Now())
				}
				time.Sleep(30 * time.Second)
			}
			if n := len(lost); n > 5 && lost[n-1].Sub(lost[n-6]) < 20*time.Minute {
				t.Fatalf("six were lost within %v", lost[n-1].Sub(lost[n-6]))
			}
		}
		if len(lost) == 0 {
			t.Error("the first was never lost")
		}
	})

	inWorld(t, "what is missing at one provider is no reason to spare another's", immediate, func(t *testing.T, w *world) {
		other := newOther()
		r := w.replica(other.config)
		other.on = true
		var theirs []session.ID
		for range 6 {
			theirs = append(theirs, r.warm())
		}
		other.on = false
		ours := []session.ID{r.warm()}
		other.boxes.Inject(blind(nil))
		w.boxes.Kill(w.snap(ours[0]).Sandbox.Incarnation)
		for range 2 {
			time.Sleep(10 * time.Minute)
			r.reclaim()
		}
		if w.inState(ours, sandbox.Lost) != 1 || w.inState(theirs, sandbox.Live) != 6 {
			t.Errorf("ours: %v, theirs live: %d", w.snap(ours[0]).Sandbox.State, w.inState(theirs, sandbox.Live))
		}
	})

	for what, caps := range map[string]sandbox.Caps{"that hides nothing": immediate, "with a lag": lagging} {
		inWorld(t, "while more are missing, the word of a provider "+what+" proves none gone that was lost, and what was to be destroyed is proven", caps, func(t *testing.T, w *world) {
			r := w.replica()
			var fleet []session.ID
			for range 10 {
				fleet = append(fleet, r.warm())
			}
			lost, rest := fleet[:4], fleet[4:]
			seen := map[sandbox.Incarnation]bool{}
			for _, id := range rest {
				seen[w.snap(id).Sandbox.Incarnation] = true
			}
			time.Sleep(time.Hour)
			w.boxes.Inject(blind(seen))
			r.reclaim()
			time.Sleep(10 * time.Minute)
			w.boxes.Inject(blind(nil)) // it shows none at all
			r.reclaim()
			if n := w.inState(lost, sandbox.Lost); n != 0 {
				t.Fatalf("%d are lost though all are missing", n)
			}
			w.boxes.Inject(blind(seen))
			time.Sleep(10 * time.Minute)
			r.reclaim()
			if n := w.inState(lost, sandbox.Lost); n != 4 || len(w.outbox()) != 4 {
				t.Fatalf("%d are lost, the outbox has %d", n, len(w.outbox()))
			}
			w.boxes.Inject(blind(nil))
			for _, id := range rest { // which others look for
				row := w.snap(id).Sandbox
				if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Sandbox: &row, Stamps: sandbox.Stamps{Absent: true}}); err != nil {
					t.Fatal(err)
				}
			}
			q := inSession(lost[0]) // of one that has a new machine by now the row does not tell any more that it was lost
			q.AcceptLoss = 1
			closeWork(t, r.mustWork(ann, q))
			seen[w.snap(lost[0]).Sandbox.Incarnation] = true
			lost = lost[1:]
			w.boxes.Kill(r.orphan())
			for range 4 {
				rep := r.reclaim()
				if did := actions(rep)[session.DueTombstones]; caps == immediate && count(did, session.ReclaimSpared) != 4 || !rep.Tripped && caps == immediate {
					t.Errorf("did %v", did)
				}
				time.Sleep(10 * time.Minute)
			}
			if box := w.outbox(); len(box) != 4 {
				t.Errorf("the outbox has %+v, want the four that were lost", box)
			}
			w.boxes.Inject(nil) // it shows them again: they are destroyed, as lost machines are
			for range 4 {
				time.Sleep(10 * time.Minute)
				r.reclaim()
			}
			w.wantOutboxEmpty()
			for _, id := range lost {
				if i := w.snap(id).Sandbox.Incarnation; w.alive(i) {
					t.Errorf("machine %s was lost, and is there for good", i)
				}
			}
			if n := w.inState(rest, sandbox.Live); n != 6 {
				t.Errorf("%d of the other six are live", n)
			}
		})
	}

	inWorld(t, "where it can't be counted how many are missing, none is lost", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Store = uncounted{c.Store} })
		id := r.warm()
		w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
		time.Sleep(10 * time.Minute)
		r.reclaim()
		time.Sleep(10 * time.Minute)
		rep := r.reclaim()
		wantActions(t, "the machine", rep, session.DueLive, session.ReclaimFailed)
		wantErr(t, "the item", rep.Items[0].Err, errOutage)
		if state := w.snap(id).Sandbox.State; state != sandbox.Live {
			t.Errorf("row %v", state)
		}
	})
}

// uncounted is a store that can't say how many are missing.
type uncounted struct{ session.Store }

func (uncounted) Missing(context.Context, session.MissingQuery) (int, error) { return 0, errOutage }
