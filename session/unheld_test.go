package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// unholdable is a ledger that places no hold while it is full.
type unholdable struct{ *dark }

func (l unholdable) Hold(context.Context, billing.HoldRequest) (billing.Hold, error) {
	return billing.Hold{}, errOutage
}

// Work that was let in without a hold, and whose process dies before it has got one, has an account that is closed.
func TestWorkThatNeverHadAHoldIsAbandoned(t *testing.T) {
	for what, posts := range map[string]time.Duration{"when it begins": 0, "for minutes": 5 * time.Minute} {
		inWorld(t, "lifecycle §3: the ledger takes what is posted "+what+", and no hold; then its process dies: it is charged up to the last heartbeat and for one interval, and its meter closed", immediate, func(t *testing.T, w *world) {
			l := &dark{Ledger: w.db.Ledger()}
			dead := w.replica(w.tilled(unholdable{l}, open, perMicrosecond("", 1)))
			r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)))
			s, _ := dead.spawn(ann)
			wk := dead.mustWork(ann, inSession(s.ID))
			time.Sleep(posts)
			synctest.Wait() // a heartbeat is due at the same instant
			before, key := w.ran("ann"), billing.MarkKey{Resource: wk.ID(), Meter: billing.MeterRuntime}
			lease, err := w.db.Leases().Held(t.Context(), session.LeaseWork, string(s.ID))
			if err != nil {
				t.Fatal(err)
			}
			heard := lease.Until.Add(-time.Minute)
			dead.kill()
			time.Sleep(3 * time.Minute)
			for range 2 { // twice is once
				r.slots(t)
			}
			marks, err := w.db.Ledger().Marks(t.Context(), []billing.MarkKey{key})
			if err != nil || !marks[0].Closed {
				t.Fatalf("its watermark is %+v, %v", marks, err)
			}
			if want := heard.Add(20 * time.Second); !marks[0].Through.Equal(want) && !(before > 0 && marks[0].Through.After(want)) {
				t.Errorf("charged through %v, want %v", marks[0].Through, want)
			}
			if got := w.ran("ann"); got < before || got == 0 || len(w.expired()) > 0 {
				t.Errorf("charged %v, before %v, expired %+v", got, before, w.expired())
			}
		})
	}
}
