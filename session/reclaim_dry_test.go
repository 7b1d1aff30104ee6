package session_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestReclaimDryRun(t *testing.T) {
	inWorld(t, "a dry run asks and tells, item by item and with reasons, and neither writes nor destroys anything", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		seen, vanished := r.warm(), r.warm()
		time.Sleep(time.Hour)
		w.boxes.Kill(w.snap(vanished).Sandbox.Incarnation)
		r.reclaim() // not found once
		time.Sleep(15 * time.Minute)
		r.abandoned(memory.Fault{Lose: true})
		r.abandoned(memory.Fault{Fail: errOutage})
		r.abandoned(memory.Fault{Status: sandbox.StatusStarting})
		r.dying()
		r.orphan()

		before := func() any { return []any{w.rows(), w.outbox(), w.boxes.Machines()} }
		was := before()
		r.meddle(nil)
		dry := session.ReclaimOptions{DryRun: true}
		for range 3 {
			rep := r.pass(dry)
			wantActions(t, "creating", rep, session.DueCreating, session.ReclaimAdopted, session.ReclaimGivenUp, session.ReclaimWaited)
			wantActions(t, "destroying", rep, session.DueDestroying, session.ReclaimKilled)
			wantActions(t, "outbox", rep, session.DueTombstones, session.ReclaimKilled)
			wantActions(t, "live", rep, session.DueLive, session.ReclaimSeen, session.ReclaimLost)
			if rep.Proven+rep.Failed != 0 || rep.Incomplete {
				t.Errorf("%+v", rep)
			}
		}
		if n := r.count("commit", "destroy", "create", "attach"); n > 0 {
			t.Errorf("a dry run called %v", r.calls())
		}
		if diff := cmp.Diff(was, before()); diff != "" {
			t.Errorf("a dry run has changed something (-before +after)\n%s", diff)
		}
		rep := r.reclaim()
		wantActions(t, "for real", rep, session.DueCreating, session.ReclaimAdopted, session.ReclaimProven, session.ReclaimWaited)
		wantActions(t, "for real", rep, session.DueLive, session.ReclaimSeen, session.ReclaimLost)
		if row := w.snap(seen).Sandbox; row.State != sandbox.Live {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "a dry run proves nothing: what would be proven is told as such, and counted by the pass that does it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		row := w.snap(r.dying()).Sandbox
		w.boxes.Kill(row.Incarnation)
		if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Sandbox: &row, Stamps: sandbox.Stamps{Absent: true}}); err != nil {
			t.Fatal(err)
		}
		rep := r.pass(session.ReclaimOptions{DryRun: true})
		wantActions(t, "dry", rep, session.DueDestroying, session.ReclaimProven)
		if rep.Proven != 0 {
			t.Errorf("a dry run proved %d gone", rep.Proven)
		}
		if rep := r.reclaim(); rep.Proven != 1 {
			t.Errorf("for real: %+v", rep)
		}
	})

	inWorld(t, "a dry run tells of failures and of what is capped as a pass does, and notes neither", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 3 {
			r.dying()
			r.orphan()
		}
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: errOutage}))
		for range 2 {
			rep := r.pass(session.ReclaimOptions{DryRun: true, Limit: 2})
			if rep.Failed != 4 || rep.Capped != session.DueDestroying|session.DueTombstones {
				t.Errorf("%+v", rep)
			}
		}
		for _, tomb := range w.outbox() {
			if tomb.Attempts != 0 || tomb.LastError != "" {
				t.Errorf("outbox %+v", tomb)
			}
		}
	})

	inWorld(t, "a dry run tells that the budget would be exceeded", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 3 {
			w.boxes.Kill(w.snap(r.warm()).Sandbox.Incarnation)
		}
		time.Sleep(time.Hour)
		r.reclaim()
		time.Sleep(10 * time.Minute)
		rep := r.pass(session.ReclaimOptions{DryRun: true, Budget: 2})
		wantActions(t, "over the budget", rep, session.DueLive, repeated(session.ReclaimSpared, 3)...)
		if !rep.Tripped {
			t.Errorf("%+v", rep)
		}
		wantActions(t, "within", r.pass(session.ReclaimOptions{DryRun: true, Budget: 3}), session.DueLive, repeated(session.ReclaimLost, 3)...)
	})
}

// rows are all sandboxes of the world, by the session they belong to.
func (w *world) rows() map[session.ID]sandbox.Row {
	all := map[session.ID]sandbox.Row{}
	for _, s := range w.all() {
		all[s.Session.ID] = s.Sandbox
	}
	return all
}
