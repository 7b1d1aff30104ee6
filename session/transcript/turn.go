package transcript

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// Turn is the right to act on a conversation, until it is ended or lost. It
// renews its lease by itself. All methods may be called concurrently.
//
//	turn, err := turns.Begin(ctx, conversation)
//	defer turn.Close(ctx, nil)
//	for {
//		next, err := turn.Deliver(turn.Context(), false)
//		turn.Promote(turn.Context(), next...)
//		// … ask the model, append its answer by Commit, run what it calls …
//		// … once it calls nothing any more:
//		waiting, err := turn.Finish(ctx)
//		if len(waiting) == 0 {
//			return
//		}
//		turn.Promote(turn.Context(), waiting...)
//	}
type Turn struct {
	turns        *Turns
	conversation access.ConversationID
	id           TurnID
	fence        int64

	ctx  context.Context // of what the turn does
	stop context.CancelCauseFunc
	held context.Context // ends when the turn is lost, or over
	lose context.CancelCauseFunc

	safe  atomic.Pointer[time.Time]  // until when, on the local monotonic clock, something may be begun
	clock atomic.Pointer[storeClock] // by the lease as it was renewed last

	// Of Begin, and of the heartbeat from then on.
	lease session.Lease
	until time.Time // of lease, on the local clock
	begun bool      // whether its beginning may have been committed; of Begin

	quit    chan struct{} // closed to end the heartbeat
	beating chan struct{} // closed when it has ended

	ending chan struct{} // holds a token while Finish or Close is under way, and guards what follows
	// finished: Finish has ended it. closed: Close has done what it does, with this outcome.
	finished, closed bool
	unsure           bool // a reply to the end of it was lost: it may have ended
	drained          []Input
	err              error
}

// storeClock is the store's time, as it was at a local one or will be shortly after.
type storeClock struct{ store, local time.Time }

// ID is the turn's own id: the entries that [Turn.Promote] makes carry it, and those that the caller makes may.
func (t *Turn) ID() TurnID { return t.id }

// Fence is what the writes of the turn carry, and the processes that it starts.
func (t *Turn) Fence() int64 { return t.fence }

// Conversation is what it acts on.
func (t *Turn) Conversation() access.ConversationID { return t.conversation }

// Context ends when what the turn does must stop: with the context that it was
// begun with, or with one of the causes session.ErrFenced, its lease being lost, and session.ErrClosed, as it has
// ended; see [context.Cause]. A lease that can't be renewed is given up two graces, of an eighth of its life
// each, before it expires, so that nothing of the turn is going on once the conversation is another's.
func (t *Turn) Context() context.Context { return t.ctx }

// Commit writes a change of this turn: its Conversation and Fence are the
// turn's. Beginning and ending are left to Begin, Finish and Close (*access.FieldError). It is refused, with ErrFenced, once the turn
// has ended or is lost; what was committed before that stands. A context that it was begun with
// and that has ended is no obstacle: what is known by then may be written still. Else as [Store.Commit].
func (t *Turn) Commit(ctx context.Context, c Change) (Committed, error) {
	switch {
	case c.Begin:
		return Committed{}, &access.FieldError{Field: "Begin", Rule: "left to Turns.Begin"}
	case c.End || c.EndIdle:
		return Committed{}, &access.FieldError{Field: "End", Rule: "left to Turn.Finish and Turn.Close"}
	case c.Conversation != "" && c.Conversation != t.conversation:
		return Committed{}, &access.FieldError{Field: "Conversation", Rule: "the turn's, or left out"}
	case c.Fence != 0 && c.Fence != t.fence:
		return Committed{}, &access.FieldError{Field: "Fence", Rule: "the turn's, or left out"}
	}
	if err := t.mayAct(); err != nil {
		return Committed{}, err
	}
	return t.commit(ctx, c)
}

// mayAct refuses what would be begun too late.
func (t *Turn) mayAct() error {
	// A process that was paused wakes here before its heartbeat does.
	if !time.Now().Before(*t.safe.Load()) {
		t.loses(errNotRenewed())
	}
	if cause := context.Cause(t.held); cause != nil {
		return fmt.Errorf("%w: %s: turn %d: %w", ErrFenced, t.conversation, t.fence, cause)
	}
	return nil
}

func errNotRenewed() error { return fmt.Errorf("%w: not renewed in time", session.ErrFenced) }

// loses notes that the conversation is, or will be, another's.
func (t *Turn) loses(cause error) {
	t.lose(cause)
	t.stop(cause)
}

// because says why a step has failed, where that is that the turn was lost meanwhile.
func (t *Turn) because(err error) error {
	if cause := context.Cause(t.held); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %s: turn %d: %w: %v", ErrFenced, t.conversation, t.fence, cause, err)
	}
	return err
}

// commit writes a change with the turn's fence.
func (t *Turn) commit(ctx context.Context, c Change) (Committed, error) {
	c.Conversation, c.Fence = t.conversation, t.fence
	done, err := t.turns.store.Commit(ctx, c)
	if errors.Is(err, ErrFenced) {
		t.loses(fmt.Errorf("%w: %w", session.ErrFenced, err))
	}
	return done, err
}

// attempts is how often a commit is made of which it is not known whether it happened.
const attempts = 3

// write is commit for what may be written again as it is.
func (t *Turn) write(ctx context.Context, c Change) (done Committed, err error) {
	for range attempts {
		if done, err = t.commit(ctx, c); !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			break
		}
	}
	return done, err
}

// settleBatch is how many calls are settled by one commit.
const settleBatch = 200

// settle settles what is open as interrupted, and gives the draft up, in as many commits as that takes.
func (t *Turn) settle(ctx context.Context) error {
	open, err := t.turns.store.Unsettled(ctx, t.conversation)
	if err != nil {
		return err
	}
	var next Change
	if open.Draft != nil {
		next.Abort = []EntryID{open.Draft.ID}
	}
	flush := func() error {
		if len(next.Abort)+len(next.Settle) == 0 {
			return nil
		}
		if err := t.mayAct(); err != nil {
			return err
		}
		_, err := t.write(ctx, next)
		next = Change{}
		return err
	}
	for _, c := range open.Calls {
		next.Settle = append(next.Settle, Settlement{CallAddress: CallAddress{Entry: c.Entry, Call: c.Call.ID}, Status: CallInterrupted})
		if len(next.Settle) == settleBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
