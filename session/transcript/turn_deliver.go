package transcript

import (
	"context"

	"github.com/bunkroom/bunkroom/access"
)

// Deliver says what is to be said now: between two steps of the turn, or,
// with stop, where it would end; see [Deliver] for the rule. What comes while it looks waits for the next time.
// Of several that go to different places it says only the first ones that go to one. It
// changes none of them: until [Turn.Promote] has said them, or another commit, they wait, whatever becomes of the turn. What it
// sees whose time is over it puts away, so that everybody is told; where that fails it is only logged, and done another time.
// ErrFenced: the turn has ended, or is lost.
func (t *Turn) Deliver(ctx context.Context, stop bool) ([]Input, error) {
	if err := t.mayAct(); err != nil {
		return nil, err
	}
	row, err := t.turns.store.Load(ctx, t.conversation)
	if err != nil {
		return nil, err
	}
	var all []Input
	for in, err := range waitingIn(ctx, t.turns.inbox, t.conversation) {
		if err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	now, due := t.now(), 0
	for _, in := range all {
		if in.Due(now) {
			due++
		}
	}
	t.putAway(ctx, due)
	chosen := Deliver(all, Boundary{
		Cutoff: row.LastSeq, Stop: stop, Single: t.turns.single, Held: row.Held, Fence: t.fence, Now: now,
	})
	for i, in := range chosen {
		if !in.joins(chosen[0]) {
			return chosen[:i], nil
		}
	}
	return chosen, nil
}

// putAway has so many inputs expire, some at a time, or fewer where it is not that late yet by the store's clock.
func (t *Turn) putAway(ctx context.Context, due int) {
	for due > 0 {
		n, err := t.turns.inbox.Expire(ctx, t.conversation, min(due, ExpireBatch))
		if err != nil {
			t.turns.log.WarnContext(ctx, "inputs not put away", "conversation", t.conversation, "turn", t.fence, "error", err)
		}
		if n == 0 {
			return
		}
		due -= n
	}
}

// joins reports whether it goes where another does, so that one commit can say both.
func (in Input) joins(other Input) bool { return in.After == other.After && in.Ref == other.Ref }

// Promote says what [Turn.Deliver] has given, in one commit: each becomes an
// entry, of this turn where it is of none, and waits no more. They follow what they are for: an entry, or the place of a ref, which
// moves with them and is made where it is not there; else the head. The head goes along. Without inputs it does nothing.
//
// *TooLateError and *InputConflictError: one was taken back or edited meanwhile; ask Deliver again. ErrHeld:
// nothing is delivered any more. ErrFenced: the turn has ended, or is lost. Then all of them wait on.
func (t *Turn) Promote(ctx context.Context, inputs ...Input) (Committed, error) {
	if len(inputs) == 0 {
		return Committed{}, nil
	}
	c := Change{After: inputs[0].After}
	for _, in := range inputs {
		if !in.joins(inputs[0]) {
			return Committed{}, &access.FieldError{Field: "inputs", Rule: "all for one place"}
		}
		e := in.Entry
		if e.Turn == "" {
			e.Turn = t.id
		}
		c.Append, c.Promote = append(c.Append, e), append(c.Promote, e.ID)
	}
	if err := t.mayAct(); err != nil {
		return Committed{}, err
	}
	if name := inputs[0].Ref; name != "" {
		refs, err := t.turns.store.Refs(ctx, t.conversation)
		if err != nil {
			return Committed{}, err
		}
		moved := RefChange{Name: name, To: After(c.Append[len(c.Append)-1].ID)}
		for _, r := range refs {
			if r.Name != name {
				continue
			}
			moved.Version = r.Version
			if c.After.IsZero() && r.At != moved.To { // else it was said before, and this is a retry
				c.After = r.At
			}
		}
		c.Refs = []RefChange{moved}
	}
	return t.write(ctx, c)
}
