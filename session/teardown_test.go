package session_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Rule 8: a provider that shows things a minute late.
func TestProofTakesTwoPasses(t *testing.T) {
	inWorld(t, "rules 6, 8: with a lag of a minute the proof takes two passes a minute apart, and pending lasts as long", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		r.end(ann, id)
		first := r.reclaim()
		if first.Proven != 0 || w.snap(id).Sandbox.AbsentSince.IsZero() {
			t.Errorf("first pass: %+v, row %+v", first, w.snap(id).Sandbox)
		}
		time.Sleep(time.Minute - time.Second)
		if rep := r.reclaim(); rep.Proven != 0 || w.snap(id).Sandbox.State != sandbox.Destroying {
			t.Errorf("inside the lag: %+v", rep)
		}
		time.Sleep(time.Second)
		if rep := r.reclaim(); rep.Proven != 1 || w.snap(id).Sandbox.State != sandbox.None {
			t.Errorf("after the lag: %+v, row %+v", rep, w.snap(id).Sandbox)
		}
	})

	inWorld(t, "rule 6: a sighting between two not-found answers starts the proof anew", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		late := latch(t)
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			switch {
			case c.Op == memory.OpDestroy && c.Nth == 1:
				return memory.Fault{Late: late} // accepted and not done
			case c.Op == memory.OpInspect && c.Nth == 1:
				return memory.Fault{Unseen: true}
			}
			return memory.Fault{}
		})
		r.end(ann, id)
		r.reclaim() // not seen, wrongly
		if w.snap(id).Sandbox.AbsentSince.IsZero() {
			t.Fatal("the first not-found is not noted")
		}
		time.Sleep(2 * time.Minute)
		rep := r.reclaim() // seen: killed
		if row := w.snap(id).Sandbox; rep.Proven != 0 || row.State != sandbox.Destroying || !row.AbsentSince.IsZero() {
			t.Errorf("after the sighting: %+v, row %+v", rep, row)
		}
		if rep.Items[0].Action != session.ReclaimKilled || len(w.boxes.Machines()) > 0 {
			t.Errorf("what is seen is killed: %+v", rep)
		}
		r.reclaim()
		time.Sleep(time.Minute)
		if rep := r.reclaim(); rep.Proven != 1 {
			t.Errorf("at last: %+v", rep)
		}
	})

	inWorld(t, "rule 6(e): what was not seen before the teardown began is no part of its proof", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.warm()
		answer := latch(t)
		// An attach and then an inspect do not see the machine, wrongly, and the answer comes late.
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			switch {
			case c.Op == memory.OpAttach && c.Nth == 2:
				return memory.Fault{Unseen: true}
			case c.Op == memory.OpInspect && c.Nth == 1:
				return memory.Fault{Unseen: true, HoldReply: answer}
			case c.Op == memory.OpDestroy:
				return memory.Fault{Fail: errOutage}
			case c.Op == memory.OpInspect && c.Nth == 2: // of the End
				return memory.Fault{Fail: errOutage}
			}
			return memory.Fault{}
		})
		var opening error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, opening = r.work(t.Context(), ann, inSession(id))
		}()
		<-answer.Reached()
		wantReport(t, "End", other.end(ann, id), session.EndReport{Ended: true, Pending: true})
		answer.Open()
		<-done
		wantErr(t, "Open of what has ended meanwhile", opening, session.ErrEnded)
		if row := w.snap(id).Sandbox; row.State != sandbox.Destroying || !row.AbsentSince.IsZero() {
			t.Errorf("row %+v counts an answer from before the teardown", row)
		}
	})
}

// Rule 4: destroying is absorbing.
func TestReopenDuringTeardown(t *testing.T) {
	inWorld(t, "rule 4: reopening does not save a dying machine: the next work makes generation 2, the old one is buried, killed and proven", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		dying := w.snap(id).Sandbox.Incarnation
		w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
		r.end(ann, id)
		if _, err := r.Reopen(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		if row := w.snap(id).Sandbox; row.State != sandbox.Destroying || row.Incarnation != dying {
			t.Errorf("Reopen changed the row to %+v", row)
		}
		_, err := r.Open(t.Context(), ann, session.WorkRequest{Session: id})
		wantErr(t, "work that does not ask for a machine finds none", err, session.ErrNoMachine)

		wk := r.mustWork(ann, inSession(id))
		row := w.snap(id).Sandbox
		if row.Generation != 2 || row.State != sandbox.Live || row.Incarnation == dying || wk.Sandbox().Ref().Incarnation != row.Incarnation {
			t.Errorf("row %+v", row)
		}
		if box := w.outbox(); len(box) != 1 || box[0].Incarnation != dying || box[0].Generation != 1 {
			t.Errorf("outbox %+v", box)
		}
		w.boxes.Inject(nil)
		r.reclaim()
		w.wantOneMachine(id) // the dying one is killed, the new one is not
		r.reclaim()
		time.Sleep(time.Minute)
		if rep := r.reclaim(); rep.Proven != 1 || len(w.outbox()) > 0 {
			t.Errorf("at last: %+v, outbox %+v", rep, w.outbox())
		}
		if cause := context.Cause(wk.Context()); cause != nil {
			t.Errorf("the new work was stopped: %v", cause)
		}
	})

	inWorld(t, "T-29: a reconciler that took a session on before it was reopened kills the old machine only", immediate, func(t *testing.T, w *world) {
		r, keeper := w.replica(), w.replica()
		id := r.warm()
		dying := w.snap(id).Sandbox.Incarnation
		w.boxes.Inject(on(memory.OpDestroy, 1, memory.Fault{Fail: errOutage}))
		r.fail("inspect", 1, errOutage)
		r.end(ann, id)
		r.meddle(nil)
		keeper.meddle(func(c string, _, nth int) trouble {
			if c == "destroy" && nth == 1 { // decided, and about to kill
				return trouble{hold: func(context.Context) {
					if _, err := r.Reopen(t.Context(), ann, id); err != nil {
						t.Errorf("Reopen: %v", err)
					}
					r.mustWork(ann, inSession(id))
				}}
			}
			return trouble{}
		})
		rep := keeper.reclaim()
		if slices.ContainsFunc(w.boxes.Machines(), has(dying)) {
			t.Error("the dying machine lives on")
		}
		w.wantOneMachine(id)
		if rep.Failed > 0 {
			t.Errorf("Reclaim: %+v", rep)
		}
	})
}
