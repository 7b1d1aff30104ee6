package transcript

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// CloseOptions are the options of [Turn.Close].
type CloseOptions struct {
	// Hold keeps all inputs from being delivered until a change says Resume, in the same commit that ends the turn.
	Hold bool
	// Drain takes all inputs back that wait as it is called, and returns them, so that they can be put back to where they were typed.
	Drain bool
}

// Finish ends the turn if nothing waits. Else it returns what to say next, as
// Deliver does at a stop, and the turn goes on: either this turn looks at what came, or whoever sent it was told that there is none. There is
// no third outcome. It is called once nothing of the turn runs any more: what is open then is settled
// as interrupted, and its draft given up.
//
// Called again, it returns nothing, and no error. ErrFenced: the turn was lost, or Close has ended it. After any
// other error the turn goes on, and it may be called again.
func (t *Turn) Finish(ctx context.Context) (waiting []Input, err error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.leave()
	if t.finished {
		return nil, nil
	}
	for {
		next, err := t.Deliver(ctx, true)
		if err != nil || len(next) > 0 {
			return next, err
		}
		if err := t.settle(ctx); err != nil {
			return nil, t.because(err)
		}
		switch err := t.end(ctx, Change{EndIdle: true}); {
		case err == nil:
			t.finished = true
			t.giveBack(ctx)
			return nil, nil
		case !errors.Is(err, ErrWaiting):
			return nil, err
		}
		// Something came in between, or is due by the store's clock first.
		if !pause(ctx, t.turns.lease/1000) {
			return nil, context.Cause(ctx)
		}
	}
}

// Close ends the turn whatever waits, unless Finish has ended it: what is left
// of the turn's own is settled as interrupted, and inputs wait on, for whoever begins the next; see [Inbox.Waiting]. opts, which may be nil, says
// what else becomes of them. It returns what it has drained.
// It does so whether or not ctx has ended, in at most half a minute, and gives the lease back
// even where that fails. What the turn has started through [Turn.Sandbox] is stopped first, as its context ends.
//
// Called again, it returns the same. ErrFenced: the turn was lost before. After an error something may be left open, which the next
// turn settles, and until then Admit may say that a turn is under way.
func (t *Turn) Close(ctx context.Context, opts *CloseOptions) ([]Input, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := t.enter(ctx); err != nil { // behind a Finish that hangs: the lease runs out
		t.loses(session.ErrClosed)
		return nil, err
	}
	defer t.leave()
	if t.finished || t.closed {
		return t.drained, t.err
	}
	if opts == nil {
		opts = &CloseOptions{}
	}
	t.closed = true
	lost := t.mayAct()
	t.stop(session.ErrClosed)
	if lost == nil {
		if opts.Drain {
			t.drained, t.err = t.drain(ctx)
		}
		t.err = errors.Join(t.err, t.settle(ctx))
	}
	// Where it was lost and nobody has taken over yet, it need not look as if somebody acted.
	switch err := t.end(ctx, Change{End: true, Hold: opts.Hold && lost == nil}); {
	case lost != nil:
		t.err = lost
	case err != nil:
		t.err = errors.Join(t.err, err)
	}
	t.giveBack(ctx)
	return t.drained, t.err
}

// drain takes back what waits, as long as nobody else can say it.
func (t *Turn) drain(ctx context.Context) (drained []Input, err error) {
	for in, err := range waitingIn(ctx, t.turns.inbox, t.conversation) {
		if err != nil {
			return drained, err
		}
		now, taken, err := takeBack(ctx, t.turns.inbox, t.conversation, in)
		if err != nil {
			return drained, err
		}
		if taken { // of what this turn has claimed the claim ends with it
			drained = append(drained, now)
		}
	}
	return drained, nil
}

// end ends the turn in the store. A reply that was lost is asked for again:
// that the turn was ended then says that it was this that has ended it.
func (t *Turn) end(ctx context.Context, c Change) error {
	c.Conversation, c.Fence = t.conversation, t.fence
	var err error
	for range attempts {
		_, err = t.turns.store.Commit(ctx, c)
		if !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			break
		}
		t.unsure = true
	}
	if !errors.Is(err, ErrFenced) {
		return err
	}
	if t.unsure {
		row, lost := t.turns.store.Load(ctx, t.conversation)
		switch {
		case lost != nil:
			return fmt.Errorf("%w: the end of turn %d of %s: %w", ErrUnknown, t.fence, t.conversation, lost)
		case row.Fence == t.fence && !row.InTurn:
			return nil
		}
	}
	t.loses(fmt.Errorf("%w: %w", session.ErrFenced, err))
	return err
}

// giveBack releases the lease, so that nobody has to wait for its end.
func (t *Turn) giveBack(ctx context.Context) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := t.release(ctx); err != nil {
		t.turns.log.WarnContext(ctx, "lease not given back", "conversation", t.conversation, "turn", t.fence, "error", err)
	}
}

// enter waits for another call of Finish or Close.
func (t *Turn) enter(ctx context.Context) error {
	select {
	case t.ending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Turn) leave() { <-t.ending }

// pause waits, and reports whether ctx lets it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
