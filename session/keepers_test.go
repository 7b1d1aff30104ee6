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

// Several keepers, and whoever else is at work at the same time.
func TestReclaimBesideOthers(t *testing.T) {
	inWorld(t, "T-30: two machines of one sandbox are two rows of the outbox, and both are proven", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying() // generation 1
		if _, err := r.Reopen(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		closeWork(t, r.mustWork(ann, inSession(id))) // generation 2; the first goes to the outbox
		w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
		r.end(ann, id)
		if _, err := r.Reopen(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		wk := r.mustWork(ann, inSession(id)) // generation 3
		w.boxes.Inject(nil)
		if box := w.outbox(); len(box) != 2 || box[0].Sandbox != box[1].Sandbox || box[0].Incarnation == box[1].Incarnation {
			t.Fatalf("outbox %+v", box)
		}
		if rep := r.reclaim(); rep.Proven != 2 {
			t.Errorf("%+v", rep)
		}
		w.wantOneMachine(id)
		if got := w.snap(id).Sandbox; got.Incarnation != wk.Sandbox().Ref().Incarnation || got.Generation != 3 {
			t.Errorf("row %+v", got)
		}
	})

	inWorld(t, "T-33: a tombstone that somebody else has seen to meanwhile is left alone", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		r.orphan()
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 {
				return trouble{hold: func(context.Context) {
					if rep := other.reclaim(); rep.Proven != 1 {
						t.Errorf("the other: %+v", rep)
					}
				}}
			}
			return trouble{}
		})
		rep := r.reclaim()
		if rep.Proven+rep.Failed != 0 || rep.Items[0].Action != session.ReclaimSkipped || rep.Items[0].Err != nil {
			t.Errorf("%+v", rep)
		}
	})

	inWorld(t, "so is a row that somebody else has adopted, ended or is waiting for", immediate, func(t *testing.T, w *world) {
		for what, c := range map[string]struct {
			fault memory.Fault
			act   func(other *replica, id session.ID)
			want  session.ReclaimAction
		}{
			"adopted": {memory.Fault{Lose: true}, func(other *replica, id session.ID) { other.mustWork(ann, inSession(id)) }, session.ReclaimSkipped},
			"ended":   {memory.Fault{Lose: true}, func(other *replica, id session.ID) { other.end(ann, id) }, session.ReclaimSkipped},
			"granted more time": {memory.Fault{Status: sandbox.StatusStarting}, func(other *replica, id session.ID) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := other.work(ctx, ann, inSession(id))
				wantType[*sandbox.ProvisioningError](t, "the other", err)
			}, session.ReclaimSkipped},
		} {
			r, other := w.replica(), w.replica()
			id := r.abandoned(c.fault)
			r.meddle(func(call string, _, nth int) trouble {
				if call == "inspect" && nth == 1 {
					return trouble{late: func(context.Context) { c.act(other, id) }}
				}
				return trouble{}
			})
			rep := r.reclaim()
			if rep.Failed > 0 || !slices.ContainsFunc(rep.Items, func(i session.ReclaimItem) bool { return i.Action == c.want }) {
				t.Errorf("%s: %+v, want %s", what, rep, c.want)
			}
		}
	})

	inWorld(t, "a machine that is still starting is granted more time, and waited for", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.abandoned(memory.Fault{Status: sandbox.StatusStarting})
		before := w.snap(id).Sandbox.Deadline
		if rep := r.reclaim(); rep.Failed > 0 || len(rep.Items) != 1 || rep.Items[0].Action != session.ReclaimWaited || rep.Items[0].Err != nil {
			t.Errorf("%+v", rep)
		}
		if row := w.snap(id).Sandbox; row.State != sandbox.Creating || !row.Deadline.After(before) {
			t.Errorf("row %+v", row)
		}
		w.letRun()
		r.settle()
		time.Sleep(2 * time.Minute)
		r.settle()
		w.wantOneMachine(id)
	})

	inWorld(t, "a teardown that somebody else finishes between two looks is left at that", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		r.dying()
		r.meddle(func(c string, _, nth int) trouble {
			if c == "load" && nth == 1 {
				return trouble{hold: func(context.Context) {
					if rep := other.reclaim(); rep.Proven != 1 {
						t.Errorf("the other: %+v", rep)
					}
				}}
			}
			return trouble{}
		})
		if rep := r.reclaim(); rep.Failed+rep.Proven > 0 || rep.Items[0].Action != session.ReclaimSkipped {
			t.Errorf("%+v", rep)
		}
	})

	inWorld(t, "four keepers at once finish everything, and hurt nothing that lives", immediate, func(t *testing.T, w *world) {
		keepers := []*replica{w.replica(), w.replica(), w.replica(), w.replica()}
		var live []session.ID
		for range 5 {
			live = append(live, keepers[0].warm(), keepers[0].abandoned(memory.Fault{Lose: true}))
			keepers[0].dying()
			keepers[0].orphan()
		}
		for range 5 {
			errs := together(len(keepers), func(i int) error {
				rep, err := keepers[i].Reclaim(t.Context(), session.ReclaimOptions{})
				for _, item := range rep.Items {
					err = errors.Join(err, item.Err)
				}
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		}
		if len(w.outbox()) > 0 || len(w.boxes.Machines()) != len(live) {
			t.Errorf("outbox %+v, %d machines, want %d", w.outbox(), len(w.boxes.Machines()), len(live))
		}
		for _, id := range live {
			if state := w.snap(id).Sandbox.State; state != sandbox.Live {
				t.Errorf("session %s: row %v", id, state)
			}
		}
	})
}
