package mount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Purger deletes mounts for good: the rows, and then what they held. Nobody
// is asked whether it may: that is the host's to decide.
//
// A row that is deleted leaves a tombstone in the same transaction, which
// stands until the content is gone. So a purge may be broken off at any step,
// by a crash too, and be called again: it goes on with what is left. Every
// method returns how many mounts are gone, at most limit, which is 1 to
// [MaxListed], and is called again until that is 0: then nothing is left.
//
// A content that can't be removed keeps nobody from the others: those of the
// call are tried all the same, and the error joins what each of them said.
type Purger struct {
	store  Store
	remove func(context.Context, Tombstone) error
}

// PurgerConfig is the configuration of a [Purger].
type PurgerConfig struct {
	Store Store // required
	// Remove removes all content of a mount whose row is gone. It is required.
	// It succeeds where there is none, may be called for what is removed
	// already, and from several processes at once. nil says that nothing is left,
	// older versions neither: where the storage keeps those, files.Files.Purge needs to be told how to remove them.
	Remove func(context.Context, Tombstone) error
}

// NewPurger returns a purger over a store. The error is a [*access.FieldError].
func NewPurger(c PurgerConfig) (*Purger, error) {
	switch {
	case c.Store == nil:
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	case c.Remove == nil:
		return nil, &access.FieldError{Field: "Remove", Rule: "must be set"}
	}
	return &Purger{c.Store, c.Remove}, nil
}

// DeleteSession deletes the mounts of a session, protected ones included, in
// whichever scope. Those of agents that have worked in it stay.
func (p *Purger) DeleteSession(ctx context.Context, session access.SessionID, limit int) (n int, err error) {
	if err := access.CheckID("session", session); err != nil {
		return 0, err
	}
	return p.purge(ctx, Target{Session: session}, limit)
}

// DeleteScope deletes all mounts of a scope, those of agents included; see [ScopeOf].
func (p *Purger) DeleteScope(ctx context.Context, scope string, limit int) (n int, err error) {
	if scope == "" {
		return 0, &access.FieldError{Field: "scope", Rule: "must not be empty"}
	}
	return p.purge(ctx, Target{Scope: scope}, limit)
}

// DeleteArchived deletes the mounts that have been in the archive for at least
// grace. That must be longer than any work takes: one that began before the
// mount was put away still writes there.
func (p *Purger) DeleteArchived(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	if grace <= 0 {
		return 0, &access.FieldError{Field: "grace", Rule: "must be positive"}
	}
	rows, err := p.store.Delete(ctx, Target{Archived: grace}, limit)
	if err != nil {
		return 0, fmt.Errorf("mount: purge: %w", err)
	}
	left := make([]Tombstone, len(rows))
	for i, r := range rows {
		left[i] = Tombstone{ID: r.ID, Scope: r.Scope, Session: r.Session}
	}
	return p.bury(ctx, left)
}

// Sweep removes what is left of mounts that were deleted, by a purge that was
// broken off or by the host's own SQL: at most limit of them, in the order of
// their ids from behind after on. It returns the last it has looked at, for
// the next call to go on from; empty = there are no more.
func (p *Purger) Sweep(ctx context.Context, after ID, limit int) (last ID, n int, err error) {
	left, err := p.store.Tombstones(ctx, Target{}, after, limit)
	if err != nil {
		return "", 0, fmt.Errorf("mount: sweep: %w", err)
	}
	if len(left) > 0 {
		last = left[len(left)-1].ID
	}
	n, err = p.bury(ctx, left)
	return last, n, err
}

// purge goes by the tombstones: those of an earlier call that was broken off are there too.
func (p *Purger) purge(ctx context.Context, t Target, limit int) (int, error) {
	rows, err := p.store.Delete(ctx, t, limit)
	if err != nil {
		return 0, fmt.Errorf("mount: purge: %w", err)
	}
	left, err := p.store.Tombstones(ctx, t, "", limit)
	if err != nil {
		return 0, fmt.Errorf("mount: purge: %w", err)
	}
	n, err := p.bury(ctx, left)
	if n == 0 && err == nil {
		n = len(rows) // a sweep was faster, and there may be more
	}
	return n, err
}

// bury removes the content of each and forgets those of which that is gone.
func (p *Purger) bury(ctx context.Context, left []Tombstone) (int, error) {
	var gone []ID
	var faults []error
	for _, t := range left {
		if ctx.Err() != nil {
			faults = append(faults, context.Cause(ctx))
			break
		}
		if err := p.remove(ctx, t); err != nil {
			faults = append(faults, fmt.Errorf("mount: purge: content of %s: %w", t.ID, err))
			continue
		}
		gone = append(gone, t.ID)
	}
	if len(gone) > 0 {
		if err := p.store.Forget(context.WithoutCancel(ctx), gone); err != nil {
			return 0, errors.Join(append(faults, fmt.Errorf("mount: purge: %w", err))...)
		}
	}
	return len(gone), errors.Join(faults...)
}
