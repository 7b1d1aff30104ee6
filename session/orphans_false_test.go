package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Rule 10 and case 33: whatever is not surely ours, or may still be somebody's, is left alone.
func TestNoFalseOrphans(t *testing.T) {
	for rule, labels := range map[string][]string{
		"case 33: another deployment's": {sandbox.LabelDeployment, "staging"},
		"one without a deployment":      {sandbox.LabelDeployment, ""},
		"one without a sandbox":         {sandbox.LabelSandbox, ""},
		"one whose generation is none":  {sandbox.LabelGeneration, "0"},
		"one of generation -1":          {sandbox.LabelGeneration, "-1"},
		"one of a generation in words":  {sandbox.LabelGeneration, "first"},
	} {
		inWorld(t, "never touched: "+rule, immediate, func(t *testing.T, w *world) {
			w.stray("gone", 1, labels...)
			r, _ := w.sweeper()
			for range 5 {
				if p := r.sweep(session.SweepOptions{}).Providers[0]; p.Foreign != 1 || p.Listed != 1 {
					t.Errorf("%+v", p)
				}
				time.Sleep(time.Hour)
			}
			if len(w.outbox()) > 0 {
				t.Errorf("outbox %+v", w.outbox())
			}
		})
	}

	inWorld(t, "case 30: what is listed and, asked for by id, is not there is not buried", lagging, func(t *testing.T, w *world) {
		r, l := w.sweeper()
		orphan := r.forgotten()
		old := w.listed()
		w.boxes.Kill(orphan)
		l.set(func(l *listing) { l.alter = func([]sandbox.Listed) []sandbox.Listed { return old } })
		r.sweep(session.SweepOptions{})
		for range 3 {
			time.Sleep(10 * time.Minute)
			wantSwept(t, "a stale list", r.sweep(session.SweepOptions{}), session.SweepSkipped)
		}
		if len(w.outbox()) > 0 {
			t.Errorf("outbox %+v", w.outbox())
		}
	})

	inWorld(t, "case 30: a list that flaps has what it did not show forgotten; seen twice means with no pass between that found otherwise", lagging, func(t *testing.T, w *world) {
		r, l := w.sweeper()
		r.forgotten()
		pass := func(alter func([]sandbox.Listed) []sandbox.Listed, want ...session.SweepAction) {
			t.Helper()
			l.set(func(l *listing) { l.alter = alter })
			wantSwept(t, "pass", r.sweep(session.SweepOptions{}), want...)
			time.Sleep(10 * time.Minute)
		}
		nothing := func([]sandbox.Listed) []sandbox.Listed { return nil }
		for range 3 {
			pass(nil, session.SweepSuspected)
			pass(nothing)
		}
		pass(nil, session.SweepSuspected)
		pass(nil, session.SweepBuried)
		pass(nothing)
		pass(nil)
		if len(w.outbox()) != 1 {
			t.Errorf("outbox %+v", w.outbox())
		}
	})

	inWorld(t, "a list that broke off has nothing forgotten: it did not say otherwise", lagging, func(t *testing.T, w *world) {
		r, l := w.sweeper()
		r.forgotten()
		r.sweep(session.SweepOptions{})
		time.Sleep(10 * time.Minute)
		l.set(func(l *listing) {
			l.fault, l.alter = errOutage, func([]sandbox.Listed) []sandbox.Listed { return nil }
		})
		rep, err := r.Sweep(t.Context(), session.SweepOptions{})
		wantErr(t, "Sweep", err, errOutage)
		if !rep.Incomplete || !errors.Is(rep.Providers[0].Err, errOutage) {
			t.Errorf("%+v", rep)
		}
		l.set(func(l *listing) { l.fault, l.alter = nil, nil })
		wantSwept(t, "the next pass", r.sweep(session.SweepOptions{}), session.SweepBuried)
	})

	for _, broken := range []error{nil, errOutage} {
		inWorld(t, fmt.Sprintf("what a row comes to name is forgotten, and buried no earlier than two passes after it is nobody's again; the list that showed it ended with %v", broken), lagging, func(t *testing.T, w *world) {
			r, l := w.sweeper()
			s, _ := r.spawn(ann)
			row := w.snap(s.ID).Sandbox
			stray := w.stray(row.ID, 1)
			wantSwept(t, "no row names it", r.sweep(session.SweepOptions{}), session.SweepSuspected)
			time.Sleep(10 * time.Minute)
			row.State, row.Generation, row.Incarnation, row.Name, row.Provider = sandbox.Live, 1, stray, string(row.ID)+"-g1", "memory"
			commit := func(c session.Change) {
				t.Helper()
				if _, err := w.db.Sessions().Commit(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			commit(session.Change{Sandbox: &row})
			l.set(func(l *listing) { l.fault = broken })
			rep, err := r.Sweep(t.Context(), session.SweepOptions{})
			if !errors.Is(err, broken) || rep.Providers[0].Named != 1 {
				t.Errorf("a row names it: %+v, %v", rep, err)
			}
			l.set(func(l *listing) { l.fault = nil })
			row.Version++
			row.State = sandbox.None
			commit(session.Change{Sandbox: &row})
			wantSwept(t, "none again", r.sweep(session.SweepOptions{}), session.SweepSuspected)
			time.Sleep(10 * time.Minute)
			wantSwept(t, "none for the grace", r.sweep(session.SweepOptions{}), session.SweepBuried)
		})
	}

	for what, skew := range map[string]time.Duration{"fast": 10 * time.Minute, "slow": -10 * time.Minute} {
		inWorld(t, "a provider's clock that is ten minutes "+what+" has nothing alive buried, and orphans all the same", lagging, func(t *testing.T, w *world) {
			r, l := w.sweeper()
			born := map[sandbox.Incarnation]time.Time{}
			l.set(func(l *listing) {
				l.alter = func(all []sandbox.Listed) []sandbox.Listed {
					for i, m := range all {
						if born[m.Ref.Incarnation].IsZero() {
							born[m.Ref.Incarnation] = time.Now().Add(skew)
						}
						all[i].CreatedAt = born[m.Ref.Incarnation]
					}
					return all
				}
			})
			orphan, used := r.forgotten(), r.warm()
			for range 12 { // and what is being made meanwhile is somebody's from before it is there
				s, _ := r.spawn(ann)
				w.boxes.Inject(on(memory.OpCreate, w.created()+1, memory.Fault{Lose: true}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				r.work(ctx, ann, inSession(s.ID))
				cancel()
				r.sweep(session.SweepOptions{})
				time.Sleep(3 * time.Minute)
				r.sweep(session.SweepOptions{})
				r.reclaim()
			}
			w.reclaimed(r)
			if w.alive(orphan) || w.snap(used).Sandbox.State != sandbox.Live {
				t.Errorf("orphan alive: %v; the used one: %+v", w.alive(orphan), w.snap(used).Sandbox)
			}
			w.converge(r)
			if n := len(w.boxes.Machines()); n != 13 {
				t.Errorf("%d machines live, want all 13 that sessions have", n)
			}
		})
	}
}

// The insert rests on the row as it was read: whatever happens to the sandbox
// between the sweep's look and its commit, no machine in use is buried.
func TestSweepIsOvertaken(t *testing.T) {
	for _, at := range []string{"known", "inspect", "commit"} {
		inWorld(t, "somebody writes the sandbox's row just before the sweep's "+at, lagging, func(t *testing.T, w *world) {
			r, _ := w.sweeper()
			s, _ := r.spawn(ann)
			row := w.snap(s.ID).Sandbox
			stray := w.stray(row.ID, 1)
			r.sweep(session.SweepOptions{})
			time.Sleep(10 * time.Minute)
			r.meddle(func(c string, _, nth int) trouble {
				if c != at || nth > 1 {
					return trouble{}
				}
				return trouble{hold: func(ctx context.Context) { // the one that is about to be buried becomes the session's
					row.State, row.Generation, row.Incarnation, row.Name, row.Provider = sandbox.Live, 1, stray, string(row.ID)+"-g1", "memory"
					if _, err := w.db.Sessions().Commit(ctx, session.Change{Sandbox: &row, Unclaimed: stray}); err != nil {
						t.Error(err)
					}
				}}
			})
			rep := r.sweep(session.SweepOptions{})
			if n := rep.Providers[0].Buried; n > 0 || len(w.outbox()) > 0 {
				t.Errorf("a machine in use was buried: %+v, outbox %+v", rep, w.outbox())
			}
			want := []session.SweepAction{session.SweepSkipped}
			if at == "known" {
				want = nil
			}
			wantSwept(t, at, rep, want...)
			r.meddle(nil)
			w.converge(r)
		})
	}

	inWorld(t, "what was buried first can't be adopted any more", lagging, func(t *testing.T, w *world) {
		r, _ := w.sweeper()
		s, _ := r.spawn(ann)
		row := w.snap(s.ID).Sandbox
		stray := w.stray(row.ID, 1)
		r.sweep(session.SweepOptions{})
		time.Sleep(10 * time.Minute)
		wantSwept(t, "sweep", r.sweep(session.SweepOptions{}), session.SweepBuried)
		row.State, row.Generation, row.Incarnation = sandbox.Live, 1, stray
		_, err := w.db.Sessions().Commit(t.Context(), session.Change{Sandbox: &row, Unclaimed: stray})
		wantErr(t, "adoption", err, session.ErrClaimed)
	})

	inWorld(t, "two sweeps at once, in one process and in two, bury an orphan once and nothing else", lagging, func(t *testing.T, w *world) {
		a, _ := w.sweeper()
		b, _ := w.sweeper()
		used := a.warm()
		a.forgotten()
		a.forgotten()
		for range 3 {
			for _, err := range together(6, func(i int) error {
				_, err := []*replica{a, b}[i%2].Sweep(t.Context(), session.SweepOptions{})
				return err
			}) {
				if err != nil {
					t.Error(err)
				}
			}
			time.Sleep(10 * time.Minute)
		}
		if box := w.outbox(); len(box) != 2 || w.snap(used).Sandbox.State != sandbox.Live {
			t.Errorf("outbox %+v", box)
		}
		w.converge(a)
		w.wantOneMachine(used)
	})
}
