package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// countingLeases counts the names that are forgotten.
type countingLeases struct {
	session.Leases
	forgotten *atomic.Int64
}

func (l countingLeases) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	n, err := l.Leases.Forget(ctx, unused, limit)
	l.forgotten.Add(int64(n))
	return n, err
}

func TestLeasesAreForgotten(t *testing.T) {
	inWorld(t, "what the leases of processes that are gone leave behind is forgotten by whoever keeps house, a while later, however much it is", immediate, func(t *testing.T, w *world) {
		const gone = 450
		for i := range gone {
			name := "late replica/" + time.Duration(i).String()
			if _, err := w.db.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: name, Holder: name, Replica: name, For: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		var n atomic.Int64
		r := w.replica(func(c *session.Config) { c.Leases = countingLeases{c.Leases, &n} })
		stop := r.serve(t)
		time.Sleep(24 * time.Hour)
		if n.Load() != 0 {
			t.Errorf("%d are forgotten after a day", n.Load())
		}
		time.Sleep(7 * 24 * time.Hour)
		if n.Load() != gone {
			t.Errorf("%d are forgotten, want %d and none of those that are had", n.Load(), gone)
		}
		stop()
	})
}
