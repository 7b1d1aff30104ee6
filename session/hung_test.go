package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// heldUp makes every call of those kinds wait until it is let go, whatever
// becomes of its context, and fail then.
func (r *replica) heldUp(until <-chan struct{}, calls ...string) {
	r.meddle(func(c string, _, _ int) trouble {
		for _, held := range calls {
			if c == held {
				return trouble{hold: func(context.Context) { <-until }, before: errOutage}
			}
		}
		return trouble{}
	})
}

// A work has stopped a grace before its lease is anybody else's, also where
// what its heartbeat asks takes no notice of the end of its context.
func TestAHungCallDoesNotDelayTheStop(t *testing.T) {
	const lease, grace = time.Minute, time.Minute / 8
	for what, c := range map[string]struct {
		call  string
		after time.Duration // of work, at most
		why   error
	}{
		"the renewal of its lease": {"renew", lease - grace, session.ErrFenced},
		"the gate":                 {"settle", 2*lease - grace, session.ErrOutOfCredit},
	} {
		inWorld(t, what+" hangs", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(ann)
			wk := r.mustWork(ann, inSession(s.ID))
			began := time.Now()
			until := make(chan struct{})
			r.heldUp(until, c.call)
			time.Sleep(c.after)
			wantErr(t, "cause", context.Cause(wk.Context()), c.why)
			if c.call == "renew" && time.Since(began) < lease-2*grace {
				t.Errorf("stopped after %v", time.Since(began))
			}
			began = time.Now()
			_, err := wk.Close(t.Context())
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("Close took %v: %v", took, err)
			}
			close(until)
		})
	}
	inWorld(t, "a COMMIT that is not broken off for half a minute comes after four quick failures", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		began := time.Now()
		r.meddle(func(c string, _, n int) trouble {
			switch {
			case c == "renew" && n < 5:
				return trouble{before: errOutage}
			case c == "renew":
				return trouble{hold: func(context.Context) { time.Sleep(30 * time.Second) }, before: errOutage}
			}
			return trouble{}
		})
		<-wk.Context().Done()
		if took := time.Since(began); took > lease-grace {
			t.Errorf("stopped after %v, want at most %v", took, lease-grace)
		}
		r.meddle(nil)
		closeWork(t, wk)
		time.Sleep(time.Minute) // for the calls that nobody waits for
	})
}

// A process that shuts down closes its works all at once: what hangs for one
// keeps no other waiting.
func TestDrainClosesAllAtOnce(t *testing.T) {
	inWorld(t, "ten works whose gate and leases do not answer take no longer than one", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 10 {
			s, _ := r.spawn(ann)
			r.mustWork(ann, inSession(s.ID))
		}
		r.meddle(func(c string, _, _ int) trouble {
			if c == "settle" || c == "free" {
				return trouble{hold: func(ctx context.Context) { <-ctx.Done() }, before: errOutage}
			}
			return trouble{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := r.Drain(ctx); err == nil {
			t.Error("what hung was closed without an error")
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
