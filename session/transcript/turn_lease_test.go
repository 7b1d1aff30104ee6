package transcript_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Cases 3 and 14: a turn whose lease can't be renewed stops two graces before it is anybody else's, and writes nothing from then on.
func TestLeaseLost(t *testing.T) {
	hang := make(chan struct{})
	for what, c := range map[string]struct {
		renew func(nth int) error
		lost  time.Duration // after it was begun
	}{
		"it is not answered":           {func(int) error { <-hang; return errNoConnection }, turnLease * 6 / 8},
		"it fails":                     {func(int) error { return errNoConnection }, turnLease * 6 / 8},
		"it fails once it was renewed": {func(n int) error { return map[bool]error{true: errNoConnection}[n > 1] }, turnLease/3 + turnLease*6/8},
		"it is answered late, and then no more": {func(n int) error {
			if n == 1 {
				time.Sleep(turnLease / 6)
				return nil
			}
			return errNoConnection
		}, turnLease/3 + turnLease*6/8},
		"it is another's, or was, or is gone":  {func(int) error { return session.ErrFenced }, turnLease / 3},
		"the driver panics, and will for ever": {func(int) error { panic("the driver's") }, turnLease * 6 / 8},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang = make(chan struct{})
				h := newHost(t, nil)
				h.create()
				r := h.runner()
				var renewed atomic.Int64
				r.meddle(func(call string, _ int, after bool) error {
					if call != "renew" || after {
						return nil
					}
					return c.renew(int(renewed.Add(1)))
				})
				turn, began := h.begins(r), time.Now()
				if err := turn.Context().Err(); err != nil {
					t.Fatal(err)
				}
				<-turn.Context().Done()
				if cause := context.Cause(turn.Context()); !errors.Is(cause, session.ErrFenced) || time.Since(began).Round(time.Millisecond) != c.lost {
					t.Errorf("it ended after %v, want %v, for %v", time.Since(began), c.lost, cause)
				}
				calls := len(r.called())
				_, err := turn.Commit(t.Context(), transcript.Change{Append: []transcript.NewEntry{question("late")}})
				if !errors.Is(err, transcript.ErrFenced) || !errors.Is(err, session.ErrFenced) {
					t.Errorf("a late commit: %v", err)
				}
				if _, err := turn.Deliver(t.Context(), true); !errors.Is(err, transcript.ErrFenced) {
					t.Errorf("a late delivery: %v", err)
				}
				if _, err := turn.Finish(t.Context()); !errors.Is(err, transcript.ErrFenced) {
					t.Errorf("a late end: %v", err)
				}
				if now := r.called(); len(now) != calls {
					t.Errorf("late, it has called %v", now[calls:])
				}
				time.Sleep(turnLease)
				next := h.begins(h.runner())
				h.tidy(next)
				// It was on its way as the lease ran out.
				if _, err := r.store.Commit(t.Context(), transcript.Change{Conversation: talk, Fence: turn.Fence(), Append: []transcript.NewEntry{question("late")}}); !errors.Is(err, transcript.ErrFenced) {
					t.Errorf("a commit that was under way: %v", err)
				}
				if _, err := turn.Close(t.Context(), nil); !errors.Is(err, transcript.ErrFenced) {
					t.Errorf("Close of what was lost: %v", err)
				}
				if row := h.row(); !row.InTurn || row.Fence != next.Fence() {
					t.Errorf("the late end has ended another's turn: %+v", row)
				}
				closeTurn(t, next)
				close(hang)
			})
		})
	}
}

// A beginning that takes longer than the lease is no beginning.
func TestBeginTooLate(t *testing.T) {
	for _, call := range []string{"load", "end processes", "begin", "unsettled", "settle"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, nil)
				h.leaves(1)
				time.Sleep(turnLease)
				r := h.runner()
				r.meet = func(now string, _ int, after bool) error {
					switch {
					case now == "renew" && !after:
						return errNoConnection
					case now == call && after:
						time.Sleep(turnLease)
					}
					return nil
				}
				if _, err := r.Begin(t.Context(), talk); !errors.Is(err, transcript.ErrFenced) || !errors.Is(err, session.ErrFenced) {
					t.Errorf("got %v", err)
				}
				next := h.begins(h.runner())
				h.tidy(next)
				closeTurn(t, next)
			})
		})
	}
}

// What was begun before its context ended is written; what is known by then can be written still, and the lease is kept until it is given back.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		stopped := errors.New("somebody has pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		turn, err := h.runner().Begin(ctx, talk)
		if err != nil {
			t.Fatal(err)
		}
		cancel(stopped)
		if cause := context.Cause(turn.Context()); cause != stopped {
			t.Errorf("it ended for %v", cause)
		}
		time.Sleep(time.Hour)
		if _, err := turn.Commit(t.Context(), transcript.Change{Append: []transcript.NewEntry{question("as far as I came")}}); err != nil {
			t.Errorf("what was known by then: %v", err)
		}
		if _, err := turn.Close(ctx, nil); err != nil {
			t.Errorf("Close: %v", err)
		}
		if h.row().InTurn {
			t.Error("it is in a turn")
		}
		if _, err := h.runner().Begin(ctx, talk); !errors.Is(err, context.Canceled) {
			t.Errorf("Begin with a context that has ended: %v", err)
		}
	})
}
