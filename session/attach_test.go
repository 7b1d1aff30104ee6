package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// stuckAttach is a provider whose Attach takes no notice of its context.
type stuckAttach struct {
	sandbox.Provider
	free   chan struct{}
	closed *atomic.Int32
}

func (p stuckAttach) Attach(_ context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	<-p.free
	sb, err := p.Provider.Attach(context.Background(), ref)
	if err != nil {
		return nil, err
	}
	return counted{sb, p.closed}, nil
}

// counted counts how often a handle is closed.
type counted struct {
	sandbox.Sandbox
	closed *atomic.Int32
}

func (c counted) Close() error {
	c.closed.Add(1)
	return c.Sandbox.Close()
}

// A broken driver holds nobody who opens work for longer than they want to wait.
func TestStuckAttach(t *testing.T) {
	for what, c := range map[string]struct {
		patience, want time.Duration
	}{
		"until the caller's context ends":               {10 * time.Second, 10 * time.Second},
		"for no longer than a call to a provider takes": {time.Hour, time.Minute},
	} {
		inWorld(t, "an Attach that takes no notice of its context is waited for "+what+", and a handle that comes late is closed", immediate, func(t *testing.T, w *world) {
			free, closed := make(chan struct{}), new(atomic.Int32)
			r := w.replica(func(c *session.Config) { c.Sandboxes[0] = stuckAttach{c.Sandboxes[0], free, closed} })
			s, _ := r.spawn(ann)
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			begun := time.Now()
			_, err := r.work(ctx, ann, inSession(s.ID))
			wantErr(t, "Open", err, context.DeadlineExceeded)
			if took := time.Since(begun); took != c.want {
				t.Errorf("Open took %v, want %v", took, c.want)
			}
			w.gate.wantEndedOnce(t)
			w.wantSlotsFree()
			close(free)
			time.Sleep(time.Second)
			if n := closed.Load(); n != 1 || r.handles(0) != 0 {
				t.Errorf("the late handle was closed %d times, %d are open", n, r.handles(0))
			}
			closeWork(t, r.mustWork(ann, inSession(s.ID)))
		})
	}
}
