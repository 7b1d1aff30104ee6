package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// T-20, T-23: what can't be found out changes nothing.
func TestOutageIsNotAbsence(t *testing.T) {
	for what, fault := range map[string]func(c memory.Call) memory.Fault{
		"the attach fails": always(memory.OpAttach, memory.Fault{Fail: errOutage}),
		"the attach never answers": func(c memory.Call) memory.Fault {
			if c.Op == memory.OpAttach {
				return memory.Fault{Hold: new(memory.Latch)}
			}
			return memory.Fault{}
		},
		"the machine is said to be gone, and whether it is can't be asked": func(c memory.Call) memory.Fault {
			switch c.Op {
			case memory.OpAttach:
				return memory.Fault{Unseen: true}
			case memory.OpInspect:
				return memory.Fault{Fail: errOutage}
			}
			return memory.Fault{}
		},
		"the answer of the inspect is lost": func(c memory.Call) memory.Fault {
			return memory.Fault{Unseen: c.Op == memory.OpAttach, Lose: c.Op == memory.OpInspect}
		},
		"the attach alone does not see it, the inspect does": always(memory.OpAttach, memory.Fault{Unseen: true}),
	} {
		inWorld(t, "T-20/T-23: "+what+": ErrUnavailable, nothing is written, no second machine", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			id := r.warm()
			before := w.snap(id)
			w.boxes.Inject(fault)
			r.meddle(nil)
			_, err := r.work(t.Context(), ann, inSession(id))
			wantErr(t, "Open", err, session.ErrUnavailable)
			if status, code, _ := problem(t, err); status != 503 || code != "unavailable" {
				t.Errorf("Problem: %d %s", status, code)
			}
			if n := r.count("commit", "create"); n > 0 {
				t.Errorf("called %v", r.calls())
			}
			if diff := cmp.Diff(before.Sandbox, w.snap(id).Sandbox); diff != "" {
				t.Errorf("row (-before +after)\n%s", diff)
			}
			w.boxes.Inject(nil)
			r.mustWork(ann, inSession(id))
			w.wantOneMachine(id)
		})
	}

	inWorld(t, "rule 8: a machine that is younger than the lag and not seen is unknown, whatever the answers", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			return memory.Fault{Unseen: c.Op == memory.OpInspect || c.Op == memory.OpAttach}
		})
		for range 3 {
			_, err := r.work(t.Context(), ann, inSession(s.ID))
			wantErr(t, "Open", err, session.ErrUnavailable)
			time.Sleep(10 * time.Second)
		}
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.Live || !row.AbsentSince.IsZero() {
			t.Errorf("row %+v", row)
		}
		w.boxes.Inject(nil)
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "rule 8: with a lag of a minute a machine is lost after two answers a minute apart; until then ErrUnavailable", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
		for range 3 { // at 0 s, 29 s and 58 s
			_, err := r.work(t.Context(), ann, inSession(id))
			wantErr(t, "Open inside the lag", err, session.ErrUnavailable)
			time.Sleep(29 * time.Second)
		}
		_, err := r.work(t.Context(), ann, inSession(id))
		e := wantType[*sandbox.LostError](t, "Open after the lag", err)
		if e.Generation != 1 || w.created() != 1 {
			t.Errorf("%+v; %d machines were asked for", e, w.created())
		}
	})

	inWorld(t, "rule 6: a sighting after a first not-found clears it", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			return memory.Fault{Unseen: c.Op == memory.OpAttach || c.Op == memory.OpInspect}
		})
		_, err := r.work(t.Context(), ann, inSession(id))
		wantErr(t, "Open", err, session.ErrUnavailable)
		if w.snap(id).Sandbox.AbsentSince.IsZero() {
			t.Fatal("the first not-found is not noted")
		}
		w.boxes.Inject(nil)
		closeWork(t, r.mustWork(ann, inSession(id)))
		if row := w.snap(id).Sandbox; !row.AbsentSince.IsZero() || row.State != sandbox.Live {
			t.Errorf("row %+v", row)
		}
	})
}

func TestOnlyEnsureMakesMachines(t *testing.T) {
	inWorld(t, "T-24/S-10: work in an ended session is refused, and brings nothing back", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		r.end(ann, id)
		r.meddle(nil)
		for _, q := range []session.WorkRequest{{Session: id}, inSession(id), {Session: id, Ensure: true, AcceptLoss: 1}} {
			_, err := r.work(t.Context(), ann, q)
			wantErr(t, "Open", err, session.ErrEnded)
		}
		if n := r.count("commit", "admit", "acquire", "create"); n > 0 || !w.snap(id).Session.Ended() {
			t.Errorf("called %v", r.calls())
		}
	})
	inWorld(t, "S-10: asked for in the request the session is reopened, and gets a new machine", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		r.end(ann, id)
		wk := r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true})
		if snap := w.snap(id); snap.Session.Ended() || snap.Sandbox.Generation != 2 || wk.Sandbox().Ref().Incarnation != snap.Sandbox.Incarnation {
			t.Errorf("%+v", snap)
		}
	})
	inWorld(t, "T-25: where there is no machine, or none any more, only Ensure has one made", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		bare := session.WorkRequest{Session: s.ID}
		_, err := r.work(t.Context(), ann, bare)
		wantErr(t, "a session that never had one", err, session.ErrNoMachine)
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.None || w.created() != 0 {
			t.Errorf("row %+v, %d creates", row, w.created())
		}
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		closeWork(t, r.mustWork(ann, bare)) // a warm one is attached to
		w.boxes.Kill(w.snap(s.ID).Sandbox.Incarnation)
		_, err = r.work(t.Context(), ann, bare)
		wantErr(t, "one that has vanished", err, session.ErrNoMachine)
		if w.created() != 1 {
			t.Errorf("%d creates", w.created())
		}
	})
}

// Rule 15: an agent must not wake in an empty directory unawares.
func TestLoss(t *testing.T) {
	inWorld(t, "rule 15: the loss is told, accepted by its generation, and reported", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		lost := w.snap(id).Sandbox
		w.boxes.Kill(lost.Incarnation)
		time.Sleep(time.Second)

		for range 2 {
			_, err := r.work(t.Context(), ann, inSession(id))
			e := wantType[*sandbox.LostError](t, "Open", err)
			if e.Generation != 1 || !e.LastSeen.Equal(lost.LiveAt) {
				t.Errorf("%+v, want generation 1, last seen %v", e, lost.LiveAt)
			}
		}
		for _, wrong := range []int64{-1, 2, 99} {
			_, err := r.work(t.Context(), ann, session.WorkRequest{Session: id, Ensure: true, AcceptLoss: wrong})
			wantType[*sandbox.LostError](t, "Open that accepts the loss of another generation", err)
		}
		if w.created() != 1 {
			t.Errorf("%d creates before the loss is accepted", w.created())
		}
		wk := r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, AcceptLoss: 1})
		if rep := closeWork(t, wk); rep.Replaced != 1 {
			t.Errorf("Report.Replaced %d, want 1", rep.Replaced)
		}
		// The loss of generation 1 is not that of generation 2, and reports nothing again.
		wk = r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, AcceptLoss: 1})
		if rep := closeWork(t, wk); rep.Replaced != 0 {
			t.Errorf("Report.Replaced %d, want 0", rep.Replaced)
		}
		w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
		_, err := r.work(t.Context(), ann, session.WorkRequest{Session: id, Ensure: true, AcceptLoss: 1})
		if e := wantType[*sandbox.LostError](t, "Open", err); e.Generation != 2 {
			t.Errorf("lost generation %d, want 2", e.Generation)
		}
	})

	inWorld(t, "rule 6: lost is no proof of death: what turns up again is killed, not used", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		zombie := w.snap(id).Sandbox.Incarnation
		w.boxes.Inject(func(c memory.Call) memory.Fault { // never seen, though it lives
			return memory.Fault{Unseen: c.Op == memory.OpAttach || c.Op == memory.OpInspect}
		})
		_, err := r.work(t.Context(), ann, inSession(id))
		wantType[*sandbox.LostError](t, "Open", err)
		if box := w.outbox(); len(box) != 1 || box[0].Incarnation != zombie {
			t.Fatalf("outbox %+v", box)
		}
		w.boxes.Inject(nil)
		wk := r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, AcceptLoss: 1})
		if wk.Sandbox().Ref().Incarnation == zombie {
			t.Error("the lost machine is used again")
		}
		if rep := r.reclaim(); rep.Proven != 1 {
			t.Errorf("Reclaim: %+v", rep)
		}
		w.wantOneMachine(id)
	})

	inWorld(t, "rule 15: of two that accept one loss at once, one machine comes", immediate, func(t *testing.T, w *world) {
		replicas := []*replica{w.replica(), w.replica()}
		id := replicas[0].warm()
		w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
		_, err := replicas[0].work(t.Context(), ann, inSession(id))
		wantType[*sandbox.LostError](t, "Open", err)
		errs := together(2, func(i int) error {
			_, err := replicas[i].work(t.Context(), ann, session.WorkRequest{Session: id, Ensure: true, AcceptLoss: 1})
			return err
		})
		if err := errors.Join(errs...); err != nil || w.created() != 2 {
			t.Errorf("%v; %d creates, want 2 in all", err, w.created())
		}
		w.wantOneMachine(id)
	})
}
