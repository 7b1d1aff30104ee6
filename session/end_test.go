package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// warm is a session whose machine lives, with no work in it.
func (r *replica) warm() session.ID {
	r.w.Helper()
	s, _ := r.spawn(ann)
	closeWork(r.w, r.mustWork(ann, inSession(s.ID)))
	return s.ID
}

func wantReport(t testing.TB, what string, got, want session.EndReport) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestEnd(t *testing.T) {
	inWorld(t, "T-18/T-17: the intent is committed before the provider is called, and Destroyed only after the proof", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		r.meddle(nil)
		wantReport(t, "End", r.end(ann, id), session.EndReport{Ended: true, Destroyed: true})
		// end; kill; two not-found answers, each committed
		want := []string{"commit", "destroy", "inspect", "commit", "inspect", "commit"}
		if diff := cmp.Diff(want, r.only("commit", "destroy", "inspect")); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		row := w.snap(id).Sandbox
		if row.State != sandbox.None || row.DestroyedAt.IsZero() || len(w.boxes.Machines()) > 0 {
			t.Errorf("row %+v, machines %+v", row, w.boxes.Machines())
		}
		if v, err := r.Get(t.Context(), ann, id); err != nil || len(v.Conversations) != 1 || !v.Session.Ended() {
			t.Errorf("S-03: an ended session keeps its conversations: %+v, %v", v, err)
		}
	})

	inWorld(t, "T-16: ending twice kills once, whoever asks again", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		r.end(ann, id)
		ended := w.snap(id).Session
		killed := w.asked(memory.OpDestroy)
		time.Sleep(time.Minute)
		for _, again := range []*replica{r, w.replica()} {
			wantReport(t, "End again", again.end(ada, id), session.EndReport{})
		}
		if got := w.snap(id).Session; got != ended || w.asked(memory.OpDestroy) != killed {
			t.Errorf("session %+v, was %+v; %d kills, were %d", got, ended, w.asked(memory.OpDestroy), killed)
		}
	})

	inWorld(t, "T-16/T-19: an end that comes late never hits the successor: kills name the incarnation", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		old := w.snap(id).Sandbox.Ref()
		r.end(ann, id)
		if _, err := r.Reopen(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		closeWork(t, r.mustWork(ann, inSession(id)))
		next := w.snap(id).Sandbox
		if next.Generation != 2 || next.Name == old.Name || next.Incarnation == old.Incarnation {
			t.Errorf("successor %+v of %+v", next, old)
		}
		for _, c := range w.boxes.Calls() {
			if c.Op == memory.OpDestroy && c.Incarnation != old.Incarnation {
				t.Errorf("T-19: destroyed %+v", c)
			}
		}
		w.wantOneMachine(id)
	})

	inWorld(t, "T-28: ending a session that never had a machine needs no provider", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		wantReport(t, "End", r.end(ann, s.ID), session.EndReport{Ended: true})
		if calls := w.boxes.Calls(); len(calls) > 0 {
			t.Errorf("the provider was asked %+v", calls)
		}
	})

	inWorld(t, "T-17: where the proof takes time End says Pending, and never Destroyed", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		wantReport(t, "End", r.end(ann, id), session.EndReport{Ended: true, Pending: true})
		if len(w.boxes.Machines()) != 0 {
			t.Error("the kill itself need not wait")
		}
		wantReport(t, "End again", r.end(ann, id), session.EndReport{Pending: true})
	})

	pending, proven := session.EndReport{Ended: true, Pending: true}, session.EndReport{Ended: true, Destroyed: true}
	for what, c := range map[string]struct {
		fault func() memory.Fault // latches are of the bubble they are made in
		want  session.EndReport
	}{
		"fails":                       {func() memory.Fault { return memory.Fault{Fail: errOutage} }, pending},
		"is done and its answer lost": {func() memory.Fault { return memory.Fault{Lose: true} }, proven},
		"is accepted and done later": {func() memory.Fault {
			late := new(memory.Latch)
			time.AfterFunc(time.Hour, late.Open)
			return memory.Fault{Late: late}
		}, pending},
		"is done and never answered": {func() memory.Fault { return memory.Fault{HoldReply: new(memory.Latch)} }, pending},
	} {
		inWorld(t, "T-17: a kill that "+what+": the report tells what was proven, and the Keeper finishes", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			id := r.warm()
			w.boxes.Inject(always(memory.OpDestroy, c.fault()))
			wantReport(t, "End", r.end(ann, id), c.want)
			if state := w.snap(id).Sandbox.State; c.want.Pending != (state == sandbox.Destroying) {
				t.Errorf("%+v, row %v", c.want, state)
			}
			w.boxes.Inject(nil)
			time.Sleep(2 * time.Hour)
			r.reclaim()
			if state := w.snap(id).Sandbox.State; state != sandbox.None || len(w.boxes.Machines()) > 0 {
				t.Errorf("after the Keeper: row %v, machines %+v", state, w.boxes.Machines())
			}
		})
	}

	inWorld(t, "T-20: a provider that can't be asked proves nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: errOutage}))
		wantReport(t, "End", r.end(ann, id), session.EndReport{Ended: true, Pending: true})
		if rep := r.reclaim(); rep.Failed != 1 || rep.Proven != 0 {
			t.Errorf("Reclaim: %+v", rep)
		}
		w.boxes.Inject(nil)
		if rep := r.reclaim(); rep.Proven != 1 {
			t.Errorf("Reclaim: %+v", rep)
		}
	})

	inWorld(t, "T-17: where a Keeper proves it first nothing is pending, and this call claims nothing", immediate, func(t *testing.T, w *world) {
		r, keeper := w.replica(), w.replica()
		id := r.warm()
		r.meddle(func(c string, _, nth int) trouble {
			if c == "inspect" && nth == 1 {
				return trouble{late: func(context.Context) {
					if rep := keeper.reclaim(); rep.Proven != 1 {
						t.Errorf("Reclaim: %+v", rep)
					}
				}}
			}
			return trouble{}
		})
		wantReport(t, "End", r.end(ann, id), session.EndReport{Ended: true})
	})

	inWorld(t, "rule 1: an end is carried through although its caller is gone", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.warm()
		ctx, cancel := context.WithCancel(t.Context())
		r.meddle(func(c string, _, _ int) trouble {
			if c == "destroy" {
				return trouble{hold: func(context.Context) { cancel() }}
			}
			return trouble{}
		})
		rep, err := r.End(ctx, ann, id)
		if err != nil || !rep.Destroyed {
			t.Errorf("End: %+v, %v", rep, err)
		}
	})
}
