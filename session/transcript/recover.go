package transcript

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// Recovered is what [Turns.Recover] has done.
type Recovered struct {
	Settled []access.ConversationID // where something was left unfinished
	Expired []access.ConversationID // where inputs were put away, for it was too late for them
	Handed  []access.ConversationID // where something waits
}

// Recover looks for conversations in which something was left unfinished or
// waits, and on which nobody acts: what a process that died was at, and what came while nobody listened. Of
// the former it settles what is open as interrupted, by a turn that it begins and closes; then it
// hands each in which something can be delivered to hand, which begins a turn, or has one begun; nil: nobody does. In
// between, inputs whose time is over expire, also where somebody acts: that needs no turn. It
// does at most limit of each, at least 1, and may be called by many processes at once.
//
// A conversation that it fails with keeps it from no other; the error names all of those. It is done
// with the next call, so that what a runner leaves is unfinished no longer than its lease lasts, and until somebody looks.
func (s *Turns) Recover(ctx context.Context, limit int, hand func(context.Context, access.ConversationID) error) (done Recovered, err error) {
	if limit < 1 {
		return done, &access.FieldError{Field: "limit", Rule: "must be at least 1"}
	}
	var first, second, third error
	done.Settled, first = s.each(ctx, limit, s.store.Unfinished, s.alone(s.recover))
	if ctx.Err() == nil {
		done.Expired, second = s.each(ctx, limit, s.inbox.Expired, s.putAway)
	}
	if hand != nil && ctx.Err() == nil {
		done.Handed, third = s.each(ctx, limit, s.inbox.Waiting, s.alone(hand))
	}
	return done, errors.Join(first, second, third)
}

// errActedOn says that somebody acts on a conversation.
var errActedOn = errors.New("transcript: somebody acts on it")

// alone does something where nobody acts.
func (s *Turns) alone(do func(context.Context, access.ConversationID) error) func(context.Context, access.ConversationID) error {
	return func(ctx context.Context, c access.ConversationID) error {
		switch _, err := s.leases.Held(ctx, session.LeaseTurn, string(c)); {
		case err == nil:
			return errActedOn
		case !errors.Is(err, session.ErrNotFound):
			return err
		}
		return do(ctx, c)
	}
}

// each does something for conversations of a list, until it is done for as many.
func (s *Turns) each(
	ctx context.Context, limit int, list func(context.Context, access.ConversationID, int) ([]access.ConversationID, error), do func(context.Context, access.ConversationID) error,
) (done []access.ConversationID, failed error) {
	after := access.ConversationID("")
	for {
		page, err := list(ctx, after, MaxListed)
		if err != nil {
			return done, errors.Join(failed, err)
		}
		for _, c := range page {
			after = c
			if ctx.Err() != nil {
				return done, errors.Join(failed, context.Cause(ctx))
			}
			err := do(ctx, c)
			switch _, held := errors.AsType[*session.HeldError](err); {
			case held, errors.Is(err, errActedOn), errors.Is(err, ErrNotFound), errors.Is(err, ErrArchived): // somebody was faster
				continue
			case errors.Is(err, ErrBusy) && s.importing(ctx, c): // nobody acts on it before it is whole
				continue
			case err != nil:
				failed = errors.Join(failed, fmt.Errorf("transcript: recovering %s: %w", c, err))
				continue
			}
			if done = append(done, c); len(done) == limit {
				return done, failed
			}
		}
		if len(page) < MaxListed {
			return done, failed
		}
	}
}

func (s *Turns) importing(ctx context.Context, c access.ConversationID) bool {
	row, err := s.store.Load(ctx, c)
	return err == nil && row.Status == Importing
}

// recover leaves nothing open of a conversation.
func (s *Turns) recover(ctx context.Context, c access.ConversationID) error {
	t, err := s.Begin(ctx, c)
	if err != nil {
		return err
	}
	_, err = t.Close(ctx, nil)
	return err
}

// putAway leaves no input of a conversation whose time is over.
func (s *Turns) putAway(ctx context.Context, c access.ConversationID) error {
	for {
		n, err := s.inbox.Expire(ctx, c, ExpireBatch)
		if err != nil || n < ExpireBatch {
			return err
		}
	}
}

// recoverBatch is how many conversations a run of the chore hands on, at most.
const recoverBatch = 1000

// Chore is [Turns.Recover] every so often, for session.Keeper.Serve. Where a replica can end processes of
// its own host only, give the Name something of the host, so that each has its own.
func (s *Turns) Chore(every time.Duration, hand func(context.Context, access.ConversationID) error) session.Chore {
	return session.Chore{Name: "turns", Every: every, Run: func(ctx context.Context) error {
		_, err := s.Recover(ctx, recoverBatch, hand)
		return err
	}}
}
