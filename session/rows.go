package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
)

// maxTries is how often a decision is made anew because somebody else wrote first.
const maxTries = 5

// rows is the way to the store that all three parts of the Service share:
// load, decide, commit, and again from the start if the commit came too late.
type rows struct {
	store  Store
	host   host.Host
	limits func(access.Plan) Limits
}

// ceilings are the limits of the payer's plan. Where the host could not say
// which plan that is, none is guessed.
func (r rows) ceilings(f host.Answer) (Limits, error) {
	if f.Fault != nil {
		return Limits{}, fmt.Errorf("%w: plan of the payer: %w", ErrUnavailable, f.Fault)
	}
	return r.limits(f.Plan).withDefaults(), nil
}

// decided is what change has done: the decision, and the snapshot as it is
// once the decision is committed.
type decided struct {
	Snapshot
	Decision
	committed bool // this call wrote something
}

// change loads the snapshot at a, lets decide say what to write, and commits
// it. Where somebody else wrote first, or the reply of the commit was lost, it
// loads and decides anew, [maxTries] times at most.
func (r rows) change(ctx context.Context, a Address, decide func(Snapshot) (Decision, error)) (decided, error) {
	return r.try(ctx, func(int) (Snapshot, error) { return r.store.Load(ctx, a) }, decide)
}

// insert is change for what may not be there yet. An id that was minted just
// now is not looked for before the first try.
func (r rows) insert(ctx context.Context, a Address, minted bool, decide func(Snapshot) (Decision, error)) (decided, error) {
	return r.try(ctx, func(n int) (Snapshot, error) {
		if minted && n == 0 {
			return Snapshot{}, nil
		}
		s, err := r.store.Load(ctx, a)
		if errors.Is(err, ErrNotFound) {
			return Snapshot{}, nil
		}
		return s, err
	}, decide)
}

func (r rows) try(ctx context.Context, load func(n int) (Snapshot, error), decide func(Snapshot) (Decision, error)) (decided, error) {
	var err error
	for n := range maxTries {
		s, fault := load(n)
		switch {
		case fault != nil && errors.Is(err, ErrUnknown): // nor could it be looked up
			return decided{}, fmt.Errorf("%w: %w", err, fault)
		case fault != nil:
			return decided{}, fault
		}
		var out decided
		if out, err = r.commit(ctx, s, decide); err == nil || !retry(err) {
			return out, err
		}
	}
	return decided{}, fmt.Errorf("after %d attempts: %w", maxTries, err)
}

// commit is one round of change, for a snapshot that is loaded already.
func (r rows) commit(ctx context.Context, s Snapshot, decide func(Snapshot) (Decision, error)) (decided, error) {
	d, err := decide(s)
	if err != nil {
		return decided{}, err // and nothing of s: it may be somebody else's
	}
	if d.Change.Empty() {
		return decided{Snapshot: s, Decision: d}, nil
	}
	clock, err := r.store.Commit(ctx, d.Change)
	if err != nil {
		return decided{}, err
	}
	return decided{Snapshot: s.after(d.Change.Stamped(clock)), Decision: d, committed: true}, nil
}

// retry reports whether to load and decide anew is the answer to err.
func retry(err error) bool {
	return errors.Is(err, ErrStale) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrExists)
}

// after is the snapshot once the stamped change is written.
func (s Snapshot) after(c Change) Snapshot {
	if c.Session != nil {
		s.Session = *c.Session
	}
	if c.Environment != nil {
		s.Environment = *c.Environment
	}
	if c.Sandbox != nil {
		s.Sandbox = *c.Sandbox
	}
	if c.Conversation != nil {
		s.Conversation = *c.Conversation
	}
	if c.Amend != nil {
		s.Conversation = c.Amend.Becomes()
	}
	return s
}
