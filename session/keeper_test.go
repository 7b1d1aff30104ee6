package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// abandoned is a session whose create was sent and never answered, its deadline past.
func (r *replica) abandoned(fault memory.Fault) session.ID {
	r.w.Helper()
	s, _ := r.spawn(ann)
	nth := r.w.created() + 1
	r.w.boxes.Inject(on(memory.OpCreate, nth, fault))
	ctx, cancel := context.WithTimeout(r.w.Context(), time.Second)
	defer cancel()
	_, err := r.work(ctx, ann, inSession(s.ID))
	wantType[*sandbox.ProvisioningError](r.w, "Open while the answer is out", err)
	r.w.boxes.Inject(nil)
	time.Sleep(2 * time.Minute)
	return s.ID
}

// dying is a session that has ended and whose machine could not be killed yet.
func (r *replica) dying() session.ID {
	r.w.Helper()
	id := r.warm()
	r.w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
	r.end(ann, id)
	r.w.boxes.Inject(nil)
	return id
}

// orphan is a machine whose session was deleted; it returns the machine.
func (r *replica) orphan() sandbox.Incarnation {
	r.w.Helper()
	id := r.warm()
	i := r.w.snap(id).Sandbox.Incarnation
	if _, err := r.w.db.Sessions().Commit(r.w.Context(), session.Change{Delete: []session.Address{{Session: id}}}); err != nil {
		r.w.Fatal(err)
	}
	return i
}

// actions are what a pass did, by kind and in order.
func actions(rep session.ReclaimReport) map[session.DueKind][]session.ReclaimAction {
	out := map[session.DueKind][]session.ReclaimAction{}
	for _, i := range rep.Items {
		out[i.Kind] = append(out[i.Kind], i.Action)
	}
	return out
}

func TestReclaimReport(t *testing.T) {
	inWorld(t, "a pass tells what it found and did, item by item", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		adopted := r.abandoned(memory.Fault{Lose: true})
		givenUp := r.abandoned(memory.Fault{Fail: errOutage})
		failed := r.abandoned(memory.Fault{Status: sandbox.StatusFailed})
		dead, orphan := r.dying(), r.orphan()
		rep := r.reclaim()
		want := map[session.DueKind][]session.ReclaimAction{
			session.DueCreating:   {session.ReclaimAdopted, session.ReclaimProven, session.ReclaimProven},
			session.DueDestroying: {session.ReclaimProven},
			session.DueTombstones: {session.ReclaimProven},
		}
		if diff := cmp.Diff(want, actions(rep)); diff != "" || rep.Proven != 4 || rep.Failed != 0 || rep.Capped != 0 || rep.Incomplete {
			t.Errorf("%+v (-want +got)\n%s", rep, diff)
		}
		for id, state := range map[session.ID]sandbox.State{adopted: sandbox.Live, givenUp: sandbox.None, failed: sandbox.None, dead: sandbox.None} {
			if got := w.snap(id).Sandbox.State; got != state {
				t.Errorf("session %s: row %v, want %v", id, got, state)
			}
		}
		for _, i := range rep.Items {
			if i.Tombstone.Sandbox == "" || i.Tombstone.Generation != 1 || i.Err != nil {
				t.Errorf("item %+v", i)
			}
		}
		if last := rep.Items[len(rep.Items)-1]; last.Tombstone.Incarnation != orphan {
			t.Errorf("S-03: the machine of a deleted session: %+v, want %s", last, orphan)
		}
		w.wantOneMachine(adopted)
		if rep := r.reclaim(); len(rep.Items) > 0 {
			t.Errorf("the next pass found %+v", rep.Items)
		}
	})

	inWorld(t, "with a lag a pass kills and notes, and proves nothing at once", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		r.dying()
		r.orphan()
		time.Sleep(time.Hour)
		for i, want := range []session.ReclaimAction{session.ReclaimKilled, session.ReclaimWaited, session.ReclaimWaited} {
			rep := r.reclaim()
			wantAll := map[session.DueKind][]session.ReclaimAction{session.DueDestroying: {want}, session.DueTombstones: {want}}
			if diff := cmp.Diff(wantAll, actions(rep)); diff != "" || rep.Proven+rep.Failed != 0 {
				t.Errorf("pass %d: (-want +got)\n%s", i+1, diff)
			}
		}
		if box := w.outbox(); len(box) != 1 || box[0].Attempts != 3 {
			t.Errorf("outbox %+v, want 3 attempts", box)
		}
		time.Sleep(time.Minute)
		if rep := r.reclaim(); rep.Proven != 2 {
			t.Errorf("after the lag: %+v", rep)
		}
	})

	inWorld(t, "what can't be seen to is told with its reason, noted for the operator, and stops nothing else", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		bad := w.snap(r.dying()).Sandbox
		gone := r.orphan()
		good := r.dying()
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpInspect && (c.Incarnation == bad.Incarnation || c.Incarnation == gone) {
				return memory.Fault{Fail: errOutage}
			}
			return memory.Fault{}
		})
		rep := r.reclaim()
		if rep.Failed != 2 || rep.Proven != 1 || rep.Incomplete || w.snap(good).Sandbox.State != sandbox.None {
			t.Errorf("%+v", rep)
		}
		for _, i := range rep.Items {
			if (i.Action == session.ReclaimFailed) != (i.Err != nil) || i.Err != nil && !errors.Is(i.Err, errOutage) {
				t.Errorf("item %+v", i)
			}
		}
		if box := w.outbox(); len(box) != 1 || box[0].LastError == "" || box[0].Attempts != 1 {
			t.Errorf("outbox %+v", box)
		}
		w.boxes.Inject(nil)
		if rep := r.reclaim(); rep.Proven != 2 {
			t.Errorf("the next pass: %+v", rep)
		}
	})

	inWorld(t, "what was had from a provider that is not configured any more is never taken for gone", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		r.orphan()
		bare := w.replica(func(c *session.Config) { c.Sandboxes = nil })
		for range 3 {
			if rep := bare.reclaim(); rep.Failed != 2 || rep.Proven != 0 {
				t.Errorf("%+v", rep)
			}
			time.Sleep(time.Hour)
		}
		if w.snap(id).Sandbox.State != sandbox.Destroying || len(w.outbox()) != 1 {
			t.Error("something was forgotten")
		}
	})

	inWorld(t, "Capped is the truth, of each kind: there was more than the pass took on", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 3 {
			r.dying()
		}
		for range 2 {
			r.orphan()
		}
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: errOutage})) // so that nothing gets less
		for _, c := range []struct {
			limit  int
			capped session.DueKind
			items  int
		}{
			{1, session.DueDestroying | session.DueTombstones, 2},
			{2, session.DueDestroying, 4},
			{3, 0, 5},
			{4, 0, 5},
			{0, 0, 5},
		} {
			rep, err := r.Reclaim(t.Context(), session.ReclaimOptions{Limit: c.limit})
			if err != nil || rep.Capped != c.capped || len(rep.Items) != c.items {
				t.Errorf("Limit %d: capped %v, %d items, %v; want %v and %d", c.limit, rep.Capped, len(rep.Items), err, c.capped, c.items)
			}
		}
	})

	for _, kind := range []string{"due creating", "due destroying", "due tombstones"} {
		inWorld(t, "T-36: that "+kind+" can't be read stops neither of the others, and is told", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			r.dying()
			r.orphan()
			r.abandoned(memory.Fault{Fail: errOutage})
			r.fail(kind, 0, errOutage)
			rep, err := r.Reclaim(t.Context(), session.ReclaimOptions{})
			wantErr(t, "Reclaim", err, errOutage)
			if !rep.Incomplete || len(rep.Items) != 2 || rep.Proven != 2 {
				t.Errorf("%+v", rep)
			}
		})
	}

	inWorld(t, "a pass whose context ends says that it is incomplete", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 3 {
			r.dying()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		r.meddle(func(c string, _, nth int) trouble {
			if c == "inspect" && nth == 3 {
				return trouble{hold: func(context.Context) { cancel(errOutage) }}
			}
			return trouble{}
		})
		rep, err := r.Reclaim(ctx, session.ReclaimOptions{})
		wantErr(t, "Reclaim", err, errOutage)
		if !rep.Incomplete || len(rep.Items) != 1 {
			t.Errorf("%+v", rep)
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
