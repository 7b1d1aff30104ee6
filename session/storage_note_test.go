package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
)

// A sweep's cost does not grow with history: what was charged to its end is not looked at again.
func TestStorageThatWasChargedIsLeftAlone(t *testing.T) {
	const hour = 3600
	inWorld(t, "once all is charged a sweep looks at nothing, however many sandboxes have ended, and at what has come since", immediate, func(t *testing.T, w *world) {
		const many = 40
		r := w.replica(w.metered(nil))
		var ids []session.ID
		for range many {
			s, _ := r.spawn(ann)
			r.keeps(s.ID, 10)
			ids = append(ids, s.ID)
		}
		time.Sleep(time.Hour)
		for _, id := range ids {
			r.end(ann, id)
		}
		if rep := r.storage(); rep.Looked != many || rep.Charged != many {
			t.Errorf("the first sweep: %+v", rep)
		}
		for range 3 {
			time.Sleep(time.Hour)
			if rep := r.storage(); rep != (session.StorageReport{}) {
				t.Errorf("a later sweep: %+v", rep)
			}
		}
		w.wantStored("an hour each", "ann", many*10*hour)

		if _, err := r.Reopen(t.Context(), ann, ids[0]); err != nil {
			t.Fatal(err)
		}
		r.keeps(ids[0], 4)
		time.Sleep(time.Hour)
		r.end(ann, ids[0])
		if rep := r.storage(); rep.Looked != 1 || rep.Charged != 1 {
			t.Errorf("what has come since: %+v", rep)
		}
		if rep := r.storage(); rep.Looked != 0 {
			t.Errorf("and once that is charged: %+v", rep)
		}
		w.wantStored("and an hour of 4", "ann", many*10*hour+4*hour)
	})

	inWorld(t, "what a clock that is set back finds charged beyond its time is charged once that time is past, and not taken for charged", immediate, func(t *testing.T, w *world) {
		var back time.Duration
		w.db = memory.New(&memory.Options{Now: func() time.Time { return time.Now().Add(-back) }})
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		time.Sleep(time.Hour)
		r.storage()
		time.Sleep(30 * time.Minute)
		r.end(ann, s.ID)
		back = 2 * time.Hour
		if rep := r.storage(); rep.Looked != 1 || rep.Charged != 0 || rep.Quiet != 1 {
			t.Errorf("before: %+v", rep)
		}
		back = 0
		if rep := r.storage(); rep.Charged != 1 {
			t.Errorf("after: %+v", rep)
		}
		w.wantStored("an hour and a half", "ann", 15*hour)
		if rep := r.storage(); rep.Looked != 0 {
			t.Errorf("and then: %+v", rep)
		}
	})
}

// Whatever befalls whichever call between the charge and the note of it,
// nothing is charged twice and nothing is lost. (T-66)
func TestStorageSweepCrashesAtEveryCall(t *testing.T) {
	for name, fault := range map[string]sessiontest.Fault{"fails": {Fail: errOutage}, "is done, and its reply lost": {Lose: true}} {
		for posting, post := range map[string]brittle{"": {}, ", beside a ledger that fails": {fails: true}, ", beside a ledger whose reply is lost": {fails: true, after: true}} {
			t.Run("a call that "+name+posting, func(t *testing.T) {
				n, reached := 0, true
				for reached {
					n++
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, immediate)
						calm := w.replica(w.metered(nil))
						for range 3 {
							s, _ := calm.spawn(ann)
							calm.keeps(s.ID, 10)
							time.Sleep(time.Hour)
							calm.end(ann, s.ID)
						}
						reached = false
						ledger := post
						ledger.Ledger = w.db.Ledger()
						crashing := w.replica(w.metered(&ledger), func(c *session.Config) {
							seen := 0
							c.Store, c.Leases = sessiontest.Faulty(c.Store, c.Leases, func(sessiontest.Call) sessiontest.Fault {
								if seen++; seen != n {
									return sessiontest.Fault{}
								}
								reached = true
								return fault
							})
						})
						if _, err := crashing.ChargeStorage(t.Context()); reached && err == nil {
							t.Errorf("call %d went wrong, and nobody was told", n)
						}
						time.Sleep(time.Hour)
						calm.storage()
						w.wantStored("three hours in all", "ann", 3*10*3600)
						if rep := calm.storage(); rep.Looked != 0 {
							t.Errorf("then: %+v", rep)
						}
					})
				}
				if want := 2 + b2i(!post.fails); n != want {
					t.Errorf("%d calls were reached, want %d: the page, and the note of what was charged", n-1, want-1)
				}
			})
		}
	}
}
