package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// halfMade is a session whose machine a process was having made when it died;
// with an environment it is that one's. What goes wrong at the provider is fault.
func (w *world) halfMade(borrows bool, fault memory.Fault) session.ID {
	w.Helper()
	r := w.replica()
	var s session.Session
	if borrows {
		s, _ = r.borrow(ann, r.newEnvironment(ann))
	} else {
		s, _ = r.spawn(ann)
	}
	w.boxes.Inject(on(memory.OpCreate, w.created()+1, fault))
	r.meddle(func(c string, _, _ int) trouble {
		if c == "create" {
			return trouble{after: errCrash, kill: true}
		}
		return trouble{}
	})
	_, err := r.work(w.Context(), ann, inSession(s.ID))
	wantErr(w, "Open by the process that dies", err, errCrash)
	w.boxes.Inject(nil)
	return s.ID
}

// passes has the keepers make one pass each, all at once, and counts what they did.
func (w *world) passes(keepers []*replica) map[session.ReclaimAction]int {
	w.Helper()
	did := map[session.ReclaimAction]int{}
	reports := make([]session.ReclaimReport, len(keepers))
	errs := together(len(keepers), func(i int) (err error) {
		reports[i], err = keepers[i].Reclaim(w.Context(), session.ReclaimOptions{})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		w.Errorf("Reclaim: %v", err)
	}
	for _, rep := range reports {
		for _, item := range rep.Items {
			did[item.Action]++
			if item.Err != nil {
				w.Errorf("%s: %v", item.Action, item.Err)
			}
		}
	}
	return did
}

// Rule 9, with nobody left but two Keepers, and for both that a sandbox may belong to.
func TestKeepersWaitForWhatIsStarting(t *testing.T) {
	for what, borrows := range map[string]bool{"a session's": false, "an environment's": true} {
		inWorld(t, "rule 9: "+what+" machine that is starting is granted more time, and adopted once it runs", lagging, func(t *testing.T, w *world) {
			keepers := []*replica{w.replica(), w.replica()}
			id := w.halfMade(borrows, memory.Fault{Status: sandbox.StatusStarting})
			first := w.snap(id).Sandbox
			if did := w.passes(keepers); len(did) > 0 {
				t.Errorf("before the deadline: %v", did)
			}
			time.AfterFunc(5*time.Minute, w.letRun)
			last, adopted, renewed := first.Deadline, 0, 0
			for range 20 {
				time.Sleep(30 * time.Second)
				did := w.passes(keepers)
				adopted += did[session.ReclaimAdopted]
				if did[session.ReclaimKilled]+did[session.ReclaimGivenUp] > 0 {
					t.Errorf("%v", did)
				}
				row := w.snap(id).Sandbox
				switch {
				case row.State == sandbox.Live:
				case row.State != sandbox.Creating || row.Deadline.Before(last) || row.Deadline.After(first.MaxDeadline) || row.MaxDeadline != first.MaxDeadline:
					t.Errorf("row %+v, first %+v", row, first)
				case row.Deadline.After(last):
					last = row.Deadline
					renewed++
				}
			}
			// Of a window of 75 s, renewed at 90 s, 180 s and 270 s; at the next deadline it runs.
			if adopted != 1 || renewed != 3 {
				t.Errorf("adopted %d times, the deadline renewed %d times", adopted, renewed)
			}
			wk := keepers[0].mustWork(ann, session.WorkRequest{Session: id})
			if row := w.snap(id).Sandbox; row.Generation != 1 || wk.Sandbox().Ref().Incarnation != row.Incarnation || w.created() != 1 {
				t.Errorf("row %+v, %d creates", row, w.created())
			}
			closeWork(t, wk)
			for range 60 { // of its generation there may be more: that none is takes the horizon to prove
				w.passes(keepers)
				time.Sleep(30 * time.Second)
			}
			w.wantOneMachine(id)
			if len(w.outbox()) > 0 {
				t.Errorf("outbox %+v", w.outbox())
			}
		})

		inWorld(t, "rule 9: "+what+" machine that never runs is given up at the hard maximum, killed and proven gone", lagging, func(t *testing.T, w *world) {
			keepers := []*replica{w.replica(), w.replica()}
			id := w.halfMade(borrows, memory.Fault{Status: sandbox.StatusStarting})
			most := w.snap(id).Sandbox.MaxDeadline
			if d := time.Until(most); d != 750*time.Second {
				t.Errorf("an attempt lasts %v at most, want ten windows of 75 s", d)
			}
			for time.Now().Before(most) {
				if row := w.snap(id).Sandbox; row.State != sandbox.Creating || row.Deadline.After(most) {
					t.Fatalf("%v before the maximum: row %+v", time.Until(most), row)
				}
				w.passes(keepers)
				time.Sleep(10 * time.Second)
			}
			if did := w.passes(keepers); did[session.ReclaimGivenUp] != 1 {
				t.Errorf("at the maximum: %v", did)
			}
			for range 30 {
				time.Sleep(30 * time.Second)
				w.passes(keepers)
			}
			if row := w.snap(id).Sandbox; row.State != sandbox.None || row.Attempts != 1 || len(w.boxes.Machines()) > 0 || len(w.outbox()) > 0 {
				t.Errorf("row %+v, machines %+v, outbox %+v", row, w.boxes.Machines(), w.outbox())
			}
			closeWork(t, keepers[1].mustWork(ann, inSession(id)))
			if row := w.snap(id).Sandbox; row.Generation != 2 || row.Attempts != 0 {
				t.Errorf("row %+v", row)
			}
		})

		inWorld(t, "rule 9: what whoever wants to work learns meanwhile of "+what+" machine is when to come again, from either process", lagging, func(t *testing.T, w *world) {
			keepers := []*replica{w.replica(), w.replica()}
			id := w.halfMade(borrows, memory.Fault{Status: sandbox.StatusStarting})
			time.Sleep(80 * time.Second)
			w.passes(keepers)
			for _, r := range keepers {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := r.work(ctx, ann, inSession(id))
				if e := wantType[*sandbox.ProvisioningError](t, "Open", err); e.RetryAfter <= 0 || e.RetryAfter > 75*time.Second {
					t.Errorf("%+v", e)
				}
			}
			w.letRun()
			closeWork(t, keepers[1].mustWork(ann, inSession(id)))
			if w.created() != 1 {
				t.Errorf("%d creates", w.created())
			}
		})
	}
}

// Rule 5, rule 3: a provider whose names are not unique has made two machines of one generation.
func TestKeepersAndDuplicates(t *testing.T) {
	for what, borrows := range map[string]bool{"a session": false, "an environment": true} {
		twins := func(t *testing.T, w *world) (id session.ID, kept, spare sandbox.Incarnation) {
			id = w.halfMade(borrows, memory.Fault{Twice: true})
			all := w.boxes.Machines()
			if len(all) != 2 || all[0].Name != all[1].Name {
				t.Fatalf("machines %+v", all)
			}
			time.Sleep(2 * time.Minute)
			return id, min(all[0].Incarnation, all[1].Incarnation), max(all[0].Incarnation, all[1].Incarnation)
		}
		killed := func(w *world) (all []sandbox.Incarnation) {
			for _, c := range w.boxes.Calls() {
				if c.Op == memory.OpDestroy {
					all = append(all, c.Incarnation)
				}
			}
			return all
		}

		inWorld(t, "of two machines of "+what+" two Keepers adopt one; the other is killed by its generation's tombstone, the adopted one never", unknown, func(t *testing.T, w *world) {
			keepers := []*replica{w.replica(), w.replica()}
			id, kept, spare := twins(t, w)
			if did := w.passes(keepers); did[session.ReclaimAdopted] != 1 {
				t.Errorf("the first pass: %v", did)
			}
			row := w.snap(id).Sandbox
			if row.State != sandbox.Live || row.Incarnation != kept || row.Generation != 1 {
				t.Errorf("row %+v, want %s live", row, kept)
			}
			if box := w.outbox(); len(box) != 1 || box[0].TombstoneKey != (sandbox.TombstoneKey{Sandbox: row.ID, Generation: 1}) {
				t.Errorf("outbox %+v", box)
			}
			wk := keepers[0].mustWork(ann, session.WorkRequest{Session: id})
			write(t, wk, "f", "x")
			for range 80 { // the horizon, the lag and then some
				w.passes(keepers)
				time.Sleep(30 * time.Second)
			}
			if all := killed(w); !slices.Contains(all, spare) || slices.Contains(all, kept) {
				t.Errorf("killed %v, want %s and never %s", all, spare, kept)
			}
			if cause := context.Cause(wk.Context()); cause != nil || read(t, wk, "f") != "x" {
				t.Errorf("the work in the adopted one was stopped for %v", cause)
			}
			w.wantOneMachine(id)
			if len(w.outbox()) > 0 {
				t.Errorf("outbox %+v", w.outbox())
			}
		})

		inWorld(t, "so they do where whoever wants to work adopts first, while a Keeper looks", unknown, func(t *testing.T, w *world) {
			keeper, r := w.replica(), w.replica()
			id, kept, spare := twins(t, w)
			var wk *session.Work
			keeper.meddle(func(c string, _, nth int) trouble {
				if c == "inspect" && nth == 1 {
					return trouble{late: func(context.Context) { wk = r.mustWork(ann, inSession(id)) }}
				}
				return trouble{}
			})
			keeper.reclaim()
			keeper.meddle(nil)
			for range 80 {
				w.passes([]*replica{keeper, r})
				time.Sleep(30 * time.Second)
			}
			if all := killed(w); !slices.Contains(all, spare) || slices.Contains(all, kept) {
				t.Errorf("killed %v, want %s and never %s", all, spare, kept)
			}
			if cause := context.Cause(wk.Context()); cause != nil || wk.Sandbox().Ref().Incarnation != kept {
				t.Errorf("works in %+v, stopped for %v", wk.Sandbox().Ref(), cause)
			}
			w.wantOneMachine(id)
		})

		inWorld(t, "where "+what+" is torn down before the spare one is gone, both die and both are proven", unknown, func(t *testing.T, w *world) {
			keepers := []*replica{w.replica(), w.replica()}
			id, _, _ := twins(t, w)
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			w.passes(keepers)
			if e := w.snap(id).Session.Environment; e != "" {
				keepers[1].deleteEnvironment(ann, e)
			} else {
				keepers[1].end(ann, id)
			}
			if n := len(w.boxes.Machines()); n != 2 {
				t.Errorf("%d machines, though no kill was heard", n)
			}
			w.boxes.Inject(nil)
			for range 80 {
				w.passes(keepers)
				time.Sleep(30 * time.Second)
			}
			if row := w.snap(id).Sandbox; row.State != sandbox.None || len(w.boxes.Machines())+len(w.outbox()) > 0 {
				t.Errorf("row %+v, machines %+v, outbox %+v", row, w.boxes.Machines(), w.outbox())
			}
		})
	}
}
