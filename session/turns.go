package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// worksBatch is how many works for turns are read at a time.
const worksBatch = 200

// EndTurns ends what works for the turns of a conversation have started, as
// far as those turns have fences up to through, in whichever process they
// were opened; see [WorkRequest].Turn. It returns nil once none of that runs for certain. It is for who has a later turn, for
// whom no work for an earlier one can be opened any more: transcript.TurnsConfig.EndProcesses does well to be this.
//
// A work of this very process is stopped, with ErrFenced; another's stops with the context that it was opened by, where that is the
// turn's, and else as it next renews itself. What it has started until now is ended from here. None of them is accounted for or given back by this: its holder sees to that, or a Keeper once its lease
// has run out. What is Detached, and whose work was closed and accounted for, was meant to run on, and does.
//
// *ElsewhereError: its machine lives on another host, where it can be asked for again. ErrUnavailable: a provider does not answer, or
// can't end what runs in a machine that is awake; or a machine is on its way out, and it isn't proven that it is gone. What
// could be ended is then ended all the same, and asking again goes on from there. *access.FieldError.
func (k *Keeper) EndTurns(ctx context.Context, conversation ConversationID, through int64) error {
	if err := access.CheckID("conversation", conversation); err != nil {
		return err
	}
	fault := k.endOwn(ctx, conversation, through)
	mute, last := mutes{}, Lease{}
	for {
		page, err := k.leases.Works(ctx, conversation, through, last, worksBatch)
		if err != nil {
			return errors.Join(fault, err)
		}
		for _, l := range page {
			if err := k.endTurn(ctx, l, mute); err != nil {
				fault = errors.Join(fault, fmt.Errorf("session: work %s for turn %d of %s: %w", l.Holder, l.Turn, conversation, err))
			}
			if ctx.Err() != nil {
				return errors.Join(fault, context.Cause(ctx))
			}
			last = l
		}
		if len(page) < worksBatch {
			return fault
		}
	}
}

// endOwn stops the works of this process, and waits for as long as a call of a provider may take.
func (k *Keeper) endOwn(ctx context.Context, conversation ConversationID, through int64) error {
	ctx, cancel := context.WithTimeout(ctx, k.machines.timeout)
	defer cancel()
	return k.fence(ctx, conversation, through)
}

// endTurn ends what one work has started.
func (k *Keeper) endTurn(ctx context.Context, l Lease, mute mutes) error {
	row, err := k.still(ctx, l, mute)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errElsewhere):
		return k.machines.elsewhere(ctx, Snapshot{Session: Session{ID: ID(l.Name)}, Sandbox: row})
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// fence stops the works of this process for turns of a conversation, and returns once what they run is stopped.
func (r *Runner) fence(ctx context.Context, conversation ConversationID, through int64) error {
	var begun []*Work
	r.mu.Lock()
	for _, w := range r.works {
		if w.conversation != conversation || w.turn < 1 || w.turn > through {
			continue
		}
		w.stop(fmt.Errorf("%w: turn %d of %s was taken over", ErrFenced, w.turn, conversation))
		if w.begun { // else it never will
			begun = append(begun, w)
		}
	}
	r.mu.Unlock()
	for _, w := range begun {
		select {
		case <-w.hooked: // its handle is closed, or could not be, and what it has started is ended by its tag
		case <-w.closed:
		case <-ctx.Done():
			return fmt.Errorf("%w: work %s for turn %d of %s was told to stop: %w", ErrUnavailable, w.id, w.turn, conversation, context.Cause(ctx))
		}
	}
	return nil
}

// current refuses a work for a turn that was lost, while it was opened or since:
// whoever has taken that over looks for it no more.
func (w *Work) current(ctx context.Context) error {
	if w.turn == 0 {
		return nil
	}
	held, err := w.runner.leases.Held(ctx, LeaseTurn, string(w.conversation))
	if err == nil && held.Fence == w.turn {
		return nil
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: turn %d of %s", ErrFenced, w.turn, w.conversation)
	}
	return err
}
