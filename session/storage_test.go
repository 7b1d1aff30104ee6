package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// metered gives a replica a till that charges a micro for every KiB-second,
// and nothing for work. ledger may be nil: then it is the world's own.
func (w *world) metered(ledger billing.Ledger) func(*session.Config) {
	return func(c *session.Config) {
		if ledger == nil {
			ledger = w.db.Ledger()
		}
		prices, err := billing.NewTariffs(
			billing.Priced{Meter: billing.MeterRuntime, Rate: billing.Rate{Price: 0, Per: 1}},
			billing.Priced{Meter: billing.MeterStorage, Rate: billing.Rate{Price: 1, Per: 1}},
		)
		if err != nil {
			w.Fatal(err)
		}
		terms := billing.Terms{InFlight: 10, Floor: -1, MaxDebt: 1 << 40}
		till, err := billing.NewTill(billing.TillConfig{Ledger: ledger, Tariffs: prices, Terms: func(access.Plan) billing.Terms { return terms }})
		if err != nil {
			w.Fatal(err)
		}
		if _, err := ledger.Grant(w.Context(), billing.Grant{ID: "credit of ann", Payer: "ann", Amount: 1 << 40, Source: "test"}); err != nil {
			w.Fatal(err)
		}
		c.Gate, c.Sandboxes = till, []sandbox.Provider{w.boxes}
	}
}

// keeps has a session's sandbox hold one file of so many KiB.
func (r *replica) keeps(id session.ID, kib int) {
	r.w.Helper()
	_, err := r.Run(r.w.Context(), ann, inSession(id), func(ctx context.Context, wk *session.Work) error {
		return sandbox.WriteFile(ctx, wk.Sandbox().FS(), "kept", make([]byte, kib*1024), nil)
	})
	if err != nil {
		r.w.Fatal(err)
	}
	synctest.Wait() // until it is measured
}

// storage charges for storage, and returns what it came to.
func (r *replica) storage() session.StorageReport {
	r.w.Helper()
	rep, err := r.ChargeStorage(r.w.Context())
	if err != nil {
		r.w.Errorf("ChargeStorage: %v", err)
	}
	return rep
}

// stored is what payer was charged for storage, in KiB-seconds.
func (w *world) stored(payer access.UserID) (sum billing.Micros) {
	w.Helper()
	for e, err := range billing.Entries(w.Context(), w.db.Ledger(), payer, 0) {
		if err != nil {
			w.Fatal(err)
		}
		if e.Use.Meter == billing.MeterStorage {
			sum += e.Amount
		}
	}
	book, err := billing.Verify(w.Context(), w.db.Ledger(), payer)
	if err != nil || len(book.Faults) > 0 {
		w.Errorf("the book of %s: %v %v", payer, book.Faults, err)
	}
	return sum
}

func (w *world) wantStored(what string, payer access.UserID, want billing.Micros) {
	w.Helper()
	if got := w.stored(payer); got != want {
		w.Errorf("%s: %s was charged for %d KiB-seconds, want %d", what, payer, got, want)
	}
}

func TestStorageIsCharged(t *testing.T) {
	const hour = 3600
	inWorld(t, "S-15: what a disk holds is charged for as long as it holds it, to the project's payer, with the session and the project and no more", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		for range 3 {
			time.Sleep(time.Hour)
			if rep := r.storage(); rep.Looked != 1 || rep.Charged != 1 || rep.Amount != 10*hour {
				t.Errorf("%+v", rep)
			}
		}
		if rep := r.storage(); rep.Charged != 0 || rep.Quiet != 1 {
			t.Errorf("again at the same time: %+v", rep)
		}
		w.wantStored("three hours", "ann", 30*hour)
		for e, err := range billing.Entries(t.Context(), w.db.Ledger(), "ann", 0) {
			if want := (billing.Use{Meter: billing.MeterStorage, Resource: string(w.snap(s.ID).Sandbox.ID), Payer: "ann", Session: s.ID, Project: "p"}); err == nil && e.Use.Meter == billing.MeterStorage && e.Use != want {
				t.Errorf("charged as %+v, want %+v", e.Use, want)
			}
		}
	})

	inWorld(t, "T-64: what was never measured is charged nothing, and nothing for the time before it was measured", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		w.boxes.Inject(always(memory.OpMeasure, memory.Fault{Fail: errOutage}))
		r.keeps(s.ID, 10)
		time.Sleep(time.Hour)
		if rep := r.storage(); rep.Charged != 0 {
			t.Errorf("%+v", rep)
		}
		w.boxes.Inject(nil)
		r.keeps(s.ID, 10)
		time.Sleep(time.Hour)
		r.storage()
		w.wantStored("one hour of two", "ann", 10*hour)
	})

	inWorld(t, "T-67: a machine that is replaced in mid-interval is charged to its end, and its successor from when it is measured", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		time.Sleep(30 * time.Minute)
		r.end(ann, s.ID)
		time.Sleep(20 * time.Minute)
		if _, err := r.Reopen(t.Context(), ann, s.ID); err != nil {
			t.Fatal(err)
		}
		r.keeps(s.ID, 4)
		time.Sleep(10 * time.Minute)
		r.storage()
		w.wantStored("30 minutes of 10 KiB and 10 of 4", "ann", 10*hour/2+4*hour/6)
		time.Sleep(time.Hour)
		r.storage()
		w.wantStored("and an hour of 4", "ann", 10*hour/2+4*hour/6+4*hour)
	})

	inWorld(t, "the size may shrink, and is measured once an hour", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		time.Sleep(30 * time.Minute)
		r.keeps(s.ID, 2) // not measured
		time.Sleep(30 * time.Minute)
		r.keeps(s.ID, 2)
		time.Sleep(time.Hour)
		r.storage()
		w.wantStored("an hour of 10 and one of 2", "ann", 12*hour)
		if n := w.asked(memory.OpMeasure); n != 2 {
			t.Errorf("measured %d times", n)
		}
	})

	inWorld(t, "an environment is charged to its project's payer, of no session, and its borrowers for nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		id := r.newEnvironment(ann)
		for range 2 {
			s, _ := r.borrow(ann, id)
			r.keeps(s.ID, 10)
		}
		time.Sleep(time.Hour)
		if rep := r.storage(); rep.Looked != 1 {
			t.Errorf("%+v", rep)
		}
		w.wantStored("an hour", "ann", 10*hour)
	})

	inWorld(t, "what is purged is charged up to then", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		time.Sleep(30 * time.Minute)
		if rep, err := r.Purge(t.Context(), session.PurgeTarget{Session: s.ID}, session.PurgeOptions{}); err != nil || !rep.Done {
			t.Errorf("%+v, %v", rep, err)
		}
		w.wantStored("half an hour", "ann", 10*hour/2)
	})
}

func TestStorageIsChargedOnce(t *testing.T) {
	inWorld(t, "T-66: charge and watermark are one: where the ledger fails nothing is lost, and nothing charged twice", immediate, func(t *testing.T, w *world) {
		down := &brittle{Ledger: w.db.Ledger()}
		r := w.replica(w.metered(down))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		for _, lost := range []bool{false, true, false, true} {
			time.Sleep(time.Hour)
			down.fails, down.after = true, lost
			if rep, err := r.ChargeStorage(t.Context()); !errors.Is(err, errOutage) || rep.Failed != 1 {
				t.Errorf("%+v, %v", rep, err)
			}
			down.fails = false
		}
		r.storage()
		w.wantStored("four hours", "ann", 10*4*3600)
	})

	inWorld(t, "T-65: of several that charge at once each hour is charged once", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		for range 5 {
			time.Sleep(time.Hour)
			done := make(chan error)
			for range 4 {
				go func() {
					_, err := r.ChargeStorage(context.Background())
					done <- err
				}()
			}
			for range 4 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		w.wantStored("five hours", "ann", 10*5*3600)
	})

	inWorld(t, "T-69: where nobody can be found who pays nobody is charged, and later whoever pays for all of it", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(bob)
		r.keeps(s.ID, 10)
		w.dir.Blind(access.WantBilling)
		time.Sleep(time.Hour)
		if rep := r.storage(); rep.Unresolved != 1 || rep.Charged != 0 {
			t.Errorf("%+v", rep)
		}
		w.dir.Blind(0)
		time.Sleep(time.Hour)
		r.storage()
		w.wantStored("two hours", "ann", 10*2*3600)
		w.wantStored("nothing", bob.User, 0)
	})

	inWorld(t, "T-68: nothing is woken to be measured or charged", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		time.Sleep(2 * time.Hour)
		before := len(w.boxes.Calls())
		r.storage()
		if calls := w.boxes.Calls()[before:]; len(calls) > 0 {
			t.Errorf("asked the provider: %+v", calls)
		}
	})

	inWorld(t, "a gate that charges nothing has no disk measured, and no pass to make", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Gate, c.Sandboxes = billing.Free{}, []sandbox.Provider{w.boxes} })
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		if rep := r.storage(); rep.Looked != 0 || w.asked(memory.OpMeasure) != 0 {
			t.Errorf("%+v", rep)
		}
	})

	inWorld(t, "the Keeper charges every hour", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		stop := r.serve(t)
		time.Sleep(5*time.Hour + time.Minute)
		stop()
		w.wantStored("five hours", "ann", 10*5*3600)
	})
}

// brittle is a ledger that can't post, or whose reply is lost.
type brittle struct {
	billing.Ledger
	fails, after bool
}

func (l *brittle) Post(ctx context.Context, posts ...billing.Post) (out []billing.Posted, err error) {
	if l.fails && !l.after {
		return nil, errOutage
	}
	if out, err = l.Ledger.Post(ctx, posts...); l.fails {
		return nil, errOutage
	}
	return out, err
}
