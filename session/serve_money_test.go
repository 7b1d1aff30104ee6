package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// sweptGate is a gate that leaves something to be cleared away.
type sweptGate struct {
	billing.Gate
	sweeps *atomic.Int32
}

func (g sweptGate) Sweep(context.Context) error {
	g.sweeps.Add(1)
	return nil
}

// Where the gate has something to be cleared away the Keeper sees to it.
func TestServeSweepsTheGate(t *testing.T) {
	inWorld(t, "every ten minutes, of two replicas one", immediate, func(t *testing.T, w *world) {
		var sweeps atomic.Int32
		for range 2 {
			w.replica(func(c *session.Config) { c.Gate = sweptGate{billing.Free{}, &sweeps} }).serve(t)
		}
		time.Sleep(59 * time.Minute)
		if n := sweeps.Load(); n != 6 {
			t.Errorf("%d sweeps in an hour, want 6", n)
		}
	})
}
