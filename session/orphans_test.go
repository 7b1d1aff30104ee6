package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Ways to leave a machine behind that no row and no outbox entry names; see orphaned.
var waysToOrphan = []string{
	"a create that was done after its tombstone was proven",
	"a row that was deleted past the trigger",
	"a database that was lost and made anew",
	"a database that was restored to when the machine was not there yet",
	"a second machine of one create, beside the one that is used",
}

// orphaned leaves a machine behind in one of these ways.
func (w *world) orphaned(r *replica, way string) sandbox.Incarnation {
	w.Helper()
	switch way {
	case "a create that was done after its tombstone was proven":
		s, _ := r.spawn(ann)
		late := latch(w)
		w.boxes.Inject(on(memory.OpCreate, w.created()+1, memory.Fault{Late: late}))
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if _, err := r.work(ctx, ann, inSession(s.ID)); err == nil {
			w.Fatal("the create was answered")
		}
		w.boxes.Inject(nil)
		time.Sleep(time.Hour)
		w.reclaimed(r)
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.None || len(w.outbox()) > 0 || len(w.boxes.Machines()) > 0 {
			w.Fatalf("not proven: %+v, outbox %+v", row, w.outbox())
		}
		late.Open()
		return w.boxes.Machines()[0].Incarnation
	case "a row that was deleted past the trigger":
		return r.forgotten()
	case "a database that was lost and made anew":
		r.warm()
		w.db = memory.New(nil)
		return w.boxes.Machines()[0].Incarnation
	case "a database that was restored to when the machine was not there yet":
		s, _ := r.spawn(ann)
		backup := w.snap(s.ID)
		closeWork(w, r.mustWork(ann, inSession(s.ID)))
		w.db = memory.New(nil)
		backup.Session.Version, backup.Sandbox.Version = 0, 0
		if _, err := w.db.Sessions().Commit(context.Background(), session.Change{
			Session: &backup.Session, Sandbox: &backup.Sandbox,
			Conversation: &session.Conversation{ID: callersID, Session: s.ID, Project: "p", Owner: "ann"},
		}); err != nil {
			w.Fatal(err)
		}
		return w.boxes.Machines()[0].Incarnation
	case "a second machine of one create, beside the one that is used":
		row := w.snap(r.warm()).Sandbox
		stray := w.stray(row.ID, int(row.Generation))
		if stray == row.Incarnation {
			w.Fatal("the provider adopted it")
		}
		return stray
	}
	w.Fatalf("no such way: %s", way)
	return ""
}

// Rule 10: whatever no row and no outbox entry names is found, buried and only
// then killed, by the reconciler, with proof.
func TestOrphansAreFound(t *testing.T) {
	for _, way := range waysToOrphan {
		for what, caps := range map[string]sandbox.Caps{"lagging": lagging, "unknown": unknown} {
			inWorld(t, way+", "+what, caps, func(t *testing.T, w *world) {
				maker, _ := w.sweeper()
				orphan := w.orphaned(maker, way)
				r, _ := w.sweeper() // what an earlier process has seen is nothing to this one
				others := len(w.boxes.Machines()) - 1
				killed := w.asked(memory.OpDestroy)

				rep := r.sweep(session.SweepOptions{})
				wantSwept(t, "the first pass", rep, session.SweepSuspected)
				if p := rep.Providers[0]; p.Named != others || rep.Items[0].Machine.Incarnation != orphan {
					t.Errorf("%+v, want %s suspected", rep, orphan)
				}
				time.Sleep(4 * time.Minute)
				wantSwept(t, "within the grace", r.sweep(session.SweepOptions{}), session.SweepSuspected)
				time.Sleep(2 * time.Minute)
				if what == "unknown" { // a horizon of a quarter of an hour
					wantSwept(t, "younger than a late create", r.sweep(session.SweepOptions{}), session.SweepYoung)
					time.Sleep(15 * time.Minute)
				}
				if len(w.outbox()) > 0 {
					t.Errorf("outbox %+v: too early", w.outbox())
				}
				rep = r.sweep(session.SweepOptions{})
				wantSwept(t, "the pass after the grace", rep, session.SweepBuried)
				box := w.outbox()
				if len(box) != 1 || box[0].Incarnation != orphan || box[0].Name == "" || box[0].Provider != "memory" || box[0].Deployment != "bunkroom" {
					t.Errorf("outbox %+v, want %s", box, orphan)
				}
				if w.asked(memory.OpDestroy) != killed || !w.alive(orphan) {
					t.Error("a sweep killed")
				}
				if p := r.sweep(session.SweepOptions{}).Providers[0]; p.Named != others+1 {
					t.Errorf("buried machines are named: %+v", p)
				}
				w.reclaimed(r)
				if w.alive(orphan) || len(w.boxes.Machines()) != others || len(w.outbox()) > 0 {
					t.Errorf("machines %+v, outbox %+v", w.boxes.Machines(), w.outbox())
				}
				w.converge(r)
			})
		}
	}

	inWorld(t, "case 32: what was orphaned while no collector ran is found by the first pass after its start and buried by the second, an interval later", immediate, func(t *testing.T, w *world) {
		orphan := w.replica().forgotten()
		time.Sleep(30 * 24 * time.Hour)
		r, _ := w.sweeper()
		wantSwept(t, "first pass", r.sweep(session.SweepOptions{}), session.SweepSuspected)
		time.Sleep(10 * time.Minute)
		wantSwept(t, "second pass", r.sweep(session.SweepOptions{}), session.SweepBuried)
		w.reclaimed(r)
		if w.alive(orphan) {
			t.Error("it lives")
		}
	})
}

// A creator that dies, at whichever step, and whose create is done long after
// everything about it was proven: the machine is somebody's or is found.
func TestOrphansOfACrashAtEveryStep(t *testing.T) {
	for _, late := range []bool{true, false} {
		for _, m := range mishaps {
			t.Run(fmt.Sprintf("late %v, a call that %s", late, m.name), func(t *testing.T) {
				buried := 0
				for n, reached := 1, true; reached; n++ {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, lagging)
						maker := w.replica()
						s, _ := maker.spawn(ann)
						far := latch(t)
						if late {
							w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Late: far}))
						}
						reached = false
						maker.meddle(func(call string, i, _ int) trouble {
							if i == n {
								reached = true
								return m.of(call)
							}
							return trouble{}
						})
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						defer cancel()
						if wk, err := maker.work(ctx, ann, inSession(s.ID)); err == nil {
							wk.Close(ctx)
						}
						w.boxes.Inject(nil)
						r, _ := w.sweeper()
						time.Sleep(10 * time.Minute)
						w.reclaimed(r)
						far.Open()
						for range 3 {
							buried += r.sweep(session.SweepOptions{}).Providers[0].Buried
							time.Sleep(10 * time.Minute)
							w.reclaimed(r)
						}
						w.converge(r)
					})
					if n > 100 {
						t.Fatal("there is no end of calls")
					}
				}
				if late && buried == 0 {
					t.Error("no step left an orphan")
				}
			})
		}
	}
}
