package session_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestWhatIsPaidForIsWhatThereIs(t *testing.T) {
	// The first call of Place is for who pays, the second for the machine.
	twoMinds := func(c *session.Config) {
		calls := 0
		c.Place = func(session.Placing) (session.Placement, error) {
			if calls++; calls > 1 {
				return session.Placement{Spec: sandbox.Spec{Class: "large"}}, nil
			}
			return session.Placement{Spec: sandbox.Spec{Class: "small"}}, nil
		}
	}
	inWorld(t, "a machine of another size than was asked for is paid for as what it is", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("small", 1), perMicrosecond("large", 100)), twoMinds)
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(time.Minute)
		rep := closeWork(t, wk)
		w.wantRan("a minute", rep, time.Minute)
		for e := range billing.Entries(t.Context(), w.db.Ledger(), "ann", 0) {
			if is := w.snap(s.ID).Sandbox.Spec.Class; e.Kind == billing.EntryUsage && (string(e.Use.Class) != is || e.Amount != billing.Micros(e.Quantity)*100) {
				t.Errorf("charged %v for %q of a machine that is %q", e.Amount, e.Use.Class, is)
			}
		}
		if n := w.held(); n != 0 {
			t.Errorf("%d holds", n)
		}
	})
	inWorld(t, "also where the account can't be asked", immediate, func(t *testing.T, w *world) {
		l := &dark{Ledger: w.db.Ledger()}
		l.down.Store(true)
		r := w.replica(w.tilled(l, open, perMicrosecond("small", 1), perMicrosecond("large", 100)), twoMinds)
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(time.Minute)
		l.down.Store(false)
		closeWork(t, wk)
		if b, err := w.db.Ledger().Balance(t.Context(), "ann"); err != nil || b.Spent != billing.Micros(100*time.Minute/time.Microsecond) {
			t.Errorf("spent %v, %v", b.Spent, err)
		}
	})
	inWorld(t, "what is free is not asked about again", immediate, func(t *testing.T, w *world) {
		w.gate.free = true
		r := w.replica(twoMinds)
		s, _ := r.spawn(ann)
		r.meddle(nil)
		r.mustWork(ann, inSession(s.ID))
		if n := r.count("admit", "release"); n != 1 {
			t.Errorf("called %v", r.calls())
		}
	})
	inWorld(t, "where the first hold can't be given back it expires, and work begins", immediate, func(t *testing.T, w *world) {
		r := w.replica(twoMinds)
		s, _ := r.spawn(ann)
		r.fail("release", 1, errOutage)
		r.mustWork(ann, inSession(s.ID))
		if n := r.count("admit"); n != 2 {
			t.Errorf("called %v", r.calls())
		}
	})
	inWorld(t, "where there is no machine and none is asked for, nobody is asked who pays", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.meddle(nil)
		_, err := r.work(t.Context(), ann, session.WorkRequest{Session: s.ID})
		wantErr(t, "Open", err, session.ErrNoMachine)
		if n := r.count("admit", "acquire", "release"); n > 0 {
			t.Errorf("called %v", r.calls())
		}
	})
}
