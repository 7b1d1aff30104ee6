package session_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
)

// Work that was closed while it could not be accounted for.
func TestWorkIsSettledLate(t *testing.T) {
	inWorld(t, "what was let in and closed while the ledger was away is charged once that is back, whoever looks first, and keeps its slot until then", immediate, func(t *testing.T, w *world) {
		l := &dark{Ledger: w.db.Ledger()}
		r, other := w.replica(w.tilled(l, open, perMicrosecond("", 1))), w.replica(w.tilled(l, open, perMicrosecond("", 1)))
		w.limits.Slots = 1
		s, _ := r.spawn(ann)
		second, _ := r.spawn(ann)
		l.down.Store(true)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(time.Hour)
		rep, err := wk.Close(t.Context())
		if !errors.Is(err, errOutage) || rep.Used != 0 || !rep.Unheld {
			t.Errorf("Close: %+v, %v", rep, err)
		}
		for range 10 {
			time.Sleep(20 * time.Second)
			r.slots(t)
			other.slots(t)
		}
		other.wantFull("while it is not accounted for", second.ID)
		l.down.Store(false)
		other.slots(t)
		if got := w.ran("ann"); got != 0 {
			t.Errorf("charged %v by a process that knows nothing of it", got)
		}
		r.slots(t)
		if got := w.ran("ann"); got != time.Hour {
			t.Errorf("charged %v, want an hour", got)
		}
		closeWork(t, other.mustWork(ann, inSession(second.ID)))
		time.Sleep(time.Minute)
		r.slots(t)
		if got := w.ran("ann"); got != time.Hour || w.held() > 0 || len(w.expired()) > 0 {
			t.Errorf("charged %v, %d holds, expired %+v", got, w.held(), w.expired())
		}
	})

	inWorld(t, "so is what was never heard to have begun, up to where it was stopped", immediate, func(t *testing.T, w *world) {
		l := &dark{Ledger: w.db.Ledger()}
		r := w.replica(w.tilled(l, closed, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		w.boxes.Inject(func(c memory.Call) memory.Fault { l.down.Store(true); return memory.Fault{} }) // from when the machine is asked for
		wk := r.mustWork(ann, inSession(s.ID))
		began := time.Now()
		<-wk.Context().Done()
		ran := time.Since(began)
		wantErr(t, "Cause", context.Cause(wk.Context()), session.ErrOutOfCredit)
		time.Sleep(time.Hour)
		if _, err := wk.Close(t.Context()); !errors.Is(err, errOutage) {
			t.Errorf("Close: %v", err)
		}
		w.boxes.Inject(nil)
		l.down.Store(false)
		r.slots(t)
		if got := w.ran("ann"); got != ran || ran < time.Minute || len(w.expired()) > 0 {
			t.Errorf("charged %v of %v, expired %+v", got, ran, w.expired())
		}
	})

	// Closed at 50 s, of which all but 30 s are charged already; the ledger was away then, and is back.
	unsettled := func(t *testing.T, w *world) (l *dark, r, other *replica) {
		l = &dark{Ledger: w.db.Ledger()}
		short := func(c *session.Config) { c.Hold = time.Minute }
		r, other = w.replica(w.tilled(l, closed, perMicrosecond("", 1)), short), w.replica(w.tilled(l, closed, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(20*time.Second + time.Millisecond)
		l.down.Store(true)
		time.Sleep(30*time.Second - time.Millisecond)
		if rep, err := wk.Close(t.Context()); !errors.Is(err, errOutage) || rep.Used != 20*time.Second {
			t.Fatalf("Close: %+v, %v", rep, err)
		}
		return l, r, other
	}

	inWorld(t, "lifecycle §3: no other process closes the account while its own one lives, whoever looks first", immediate, func(t *testing.T, w *world) {
		l, r, other := unsettled(t, w)
		time.Sleep(80 * time.Second) // its lease has run out since
		l.down.Store(false)
		other.slots(t)
		if got := w.ran("ann"); got != 20*time.Second || len(w.expired()) != 1 {
			t.Errorf("charged %v, expired %+v", got, w.expired())
		}
		r.slots(t)
		if got := w.ran("ann"); got != 50*time.Second || len(w.expired()) > 0 || w.held() > 0 {
			t.Errorf("charged %v, %d holds, expired %+v", got, w.held(), w.expired())
		}
	})

	inWorld(t, "where that has died another does, up to the last heartbeat and for one interval", immediate, func(t *testing.T, w *world) {
		l, r, other := unsettled(t, w)
		r.kill()
		l.down.Store(false)
		time.Sleep(80 * time.Second)
		other.slots(t)
		if got := w.ran("ann"); got != 20*time.Second {
			t.Errorf("charged %v while it may live", got)
		}
		time.Sleep(time.Minute)
		other.slots(t)
		if got := w.ran("ann"); got != time.Minute || len(w.expired()) > 0 || w.held() > 0 {
			t.Errorf("charged %v, %d holds, expired %+v", got, w.held(), w.expired())
		}
	})

	inWorld(t, "a process that drains tries once more, and else leaves it to others at once", immediate, func(t *testing.T, w *world) {
		l, r, other := unsettled(t, w)
		wantErr(t, "Drain", r.Drain(t.Context()), errOutage)
		time.Sleep(time.Minute)
		l.down.Store(false)
		other.slots(t)
		if got := w.ran("ann"); got != time.Minute || len(w.expired()) > 0 {
			t.Errorf("charged %v, expired %+v", got, w.expired())
		}
	})

	inWorld(t, "and where that comes to something, all is charged", immediate, func(t *testing.T, w *world) {
		l, r, _ := unsettled(t, w)
		l.down.Store(false)
		if err := r.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if got := w.ran("ann"); got != 50*time.Second || w.held() > 0 {
			t.Errorf("charged %v, %d holds", got, w.held())
		}
	})

	inWorld(t, "a lost answer to the last span is asked for again just as it was, and charged once", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(10 * time.Second)
		r.meddle(func(c string, _, _ int) trouble {
			if c == "settle" {
				return trouble{after: errOutage}
			}
			return trouble{}
		})
		rep, err := wk.Close(t.Context())
		wantErr(t, "Close", err, errOutage)
		time.Sleep(time.Hour)
		r.meddle(nil)
		r.slots(t)
		if got := w.ran("ann"); got != 10*time.Second || rep.Used != 0 || len(w.expired()) > 0 {
			t.Errorf("charged %v, %+v, expired %+v", got, rep, w.expired())
		}
	})
}

// What was told to stop is charged no more.
func TestAStopEndsTheMeter(t *testing.T) {
	for what, closes := range map[string]time.Duration{"at once": 0, "an hour later": time.Hour} {
		inWorld(t, "a work that was stopped and closed "+what+" is charged up to the stop, and holds nothing from then on but its lease", immediate, func(t *testing.T, w *world) {
			r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)))
			s, _ := r.spawn(ann)
			wk := r.mustWork(ann, inSession(s.ID))
			time.Sleep(time.Minute + 7*time.Second)
			r.end(ann, s.ID)
			time.Sleep(closes)
			if n := w.held(); closes > 0 && n > 0 {
				t.Errorf("%d holds", n)
			}
			if _, err := w.db.Leases().Held(t.Context(), session.LeaseWork, string(s.ID)); err != nil {
				t.Errorf("its lease: %v", err)
			}
			rep := closeWork(t, wk)
			wantErr(t, "Cause", rep.Cause, session.ErrEnded)
			w.wantRan("stopped", rep, time.Minute+7*time.Second)
		})
	}

	inWorld(t, "also where the heartbeat is held up just then, and hears of the stop late", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		r.meddle(hang("renew"))
		time.Sleep(22 * time.Second) // it renews since two seconds
		r.end(ann, s.ID)
		time.Sleep(20 * time.Second)
		r.meddle(nil)
		w.wantRan("stopped", closeWork(t, wk), 22*time.Second)
	})

	inWorld(t, "where the last span can't be posted it is tried again with the next beats, and is charged all the same", immediate, func(t *testing.T, w *world) {
		l := &dark{Ledger: w.db.Ledger()}
		r := w.replica(w.tilled(l, closed, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(time.Minute)
		l.down.Store(true)
		r.end(ann, s.ID)
		time.Sleep(10 * time.Minute)
		l.down.Store(false)
		time.Sleep(time.Minute)
		if got := w.ran("ann"); got != time.Minute || w.held() > 0 {
			t.Errorf("before it is closed: charged %v, %d holds", got, w.held())
		}
		w.wantRan("stopped", closeWork(t, wk), time.Minute)
	})

	inWorld(t, "a process that was asleep for longer than its lease charges nothing of that", immediate, func(t *testing.T, w *world) {
		var once sync.Once
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)), func(c *session.Config) {
			c.Log = slog.New(onWarning(func() { once.Do(func() { time.Sleep(time.Hour) }) }))
		})
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		r.fail("renew", 1, errOutage) // which is logged: the heartbeat does not come back from there for an hour
		time.Sleep(30 * time.Second)
		if cause := context.Cause(wk.Context()); cause != nil {
			t.Fatalf("stopped for %v", cause)
		}
		time.Sleep(2 * time.Hour)
		rep := closeWork(t, wk)
		wantErr(t, "Cause", rep.Cause, session.ErrFenced)
		w.wantRan("an eighth less than a lease", rep, time.Minute-time.Minute/8)
	})
}

// onWarning does something to whoever logs a warning.
type onWarning func()

func (onWarning) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (f onWarning) Handle(context.Context, slog.Record) error  { f(); return nil }
func (f onWarning) WithAttrs([]slog.Attr) slog.Handler         { return f }
func (f onWarning) WithGroup(string) slog.Handler              { return f }

// What is held is measured here, and not on anybody else's clock.
func TestStepsOfTheStoresClock(t *testing.T) {
	for what, step := range map[string]time.Duration{"back an hour": -time.Hour, "back 20 minutes": -20 * time.Minute, "ahead 39 seconds": 39 * time.Second} {
		inWorld(t, what+": no work is stopped for it, and what it took is charged, no more and no less", immediate, func(t *testing.T, w *world) {
			var off atomic.Int64
			w.db = memory.New(&memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(off.Load())) }})
			r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)), func(c *session.Config) { c.Hold = 15 * time.Minute })
			s, _ := r.spawn(ann)
			wk := r.mustWork(ann, inSession(s.ID))
			time.Sleep(20*time.Minute + 41*time.Second)
			off.Store(int64(step))
			time.Sleep(3 * time.Hour)
			if cause := context.Cause(wk.Context()); cause != nil {
				t.Errorf("stopped for %v", cause)
			}
			w.wantRan("all of it", closeWork(t, wk), 3*time.Hour+20*time.Minute+41*time.Second)
		})
	}
}

func TestWorkWhileTheLedgerIsAway(t *testing.T) {
	inWorld(t, "a host that lets work start and not go on: it stops before a hold would have run out", immediate, func(t *testing.T, w *world) {
		l := &dark{Ledger: w.db.Ledger()}
		r := w.replica(w.tilled(l, func(o billing.Operation) billing.FaultPolicy {
			if o == billing.OpAdmit {
				return billing.FailOpen
			}
			return billing.FailClosed
		}, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		l.down.Store(true)
		wantStopped(t, r.mustWork(ann, inSession(s.ID)), start(t, r.mustWork(ann, inSession(s.ID))), session.ErrOutOfCredit, time.Minute, 2*time.Minute)
	})
	for what, set := range map[string]func(l *dark, on bool){
		"fails": func(l *dark, on bool) { l.down.Store(on) },
		"hangs": func(l *dark, on bool) { l.hangs.Store(on) },
	} {
		inWorld(t, "a host that lets it go on: so it does for hours while the ledger "+what+", and all of it is charged", immediate, func(t *testing.T, w *world) {
			l := &dark{Ledger: w.db.Ledger()}
			r := w.replica(w.tilled(l, open, perMicrosecond("", 1)))
			s, _ := r.spawn(ann)
			wk := r.mustWork(ann, inSession(s.ID))
			time.Sleep(time.Minute)
			set(l, true)
			time.Sleep(3 * time.Hour)
			if cause := context.Cause(wk.Context()); cause != nil {
				t.Errorf("stopped for %v", cause)
			}
			set(l, false)
			time.Sleep(time.Minute)
			if n := w.held(); n != 1 {
				t.Errorf("%d holds", n)
			}
			w.wantRan("all of it", closeWork(t, wk), 3*time.Hour+2*time.Minute)
		})
	}
}
