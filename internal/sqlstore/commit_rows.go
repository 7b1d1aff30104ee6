package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/session"
)

// versioned expects and writes the sessions and sandboxes of c.
func (w commit) versioned(ctx context.Context, c session.Change) error {
	var steps []rowStep
	for _, g := range c.Expect {
		steps = append(steps, rowStep{g.Sandbox != "", string(g.Session) + string(g.Sandbox), func() error { return w.expect(ctx, g) }})
	}
	if s := c.Session; s != nil {
		steps = append(steps, rowStep{false, string(s.ID), func() error { return w.session(ctx, *s) }})
	}
	if r := c.Sandbox; r != nil {
		steps = append(steps, rowStep{true, string(r.ID), func() error { return w.sandbox(ctx, *r, c.Session) }})
	}
	if w.store.writer == nil {
		for _, id := range c.Delete { // later, but its turn among the sessions is now
			steps = append(steps, rowStep{false, string(id), func() error {
				_, err := w.found(ctx, lockSession, string(id))
				return err
			}})
		}
	}
	slices.SortStableFunc(steps, rowStep.compare)
	for _, s := range steps {
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// rowStep is what is done with one row.
type rowStep struct {
	sandbox bool
	id      string
	do      func() error
}

func (s rowStep) compare(other rowStep) int {
	if s.sandbox != other.sandbox {
		if s.sandbox {
			return 1
		}
		return -1
	}
	return strings.Compare(s.id, other.id)
}

const (
	sessionVersion = `SELECT version FROM bunkroom_sessions WHERE id = ? FOR SHARE`
	sandboxVersion = `SELECT version FROM bunkroom_sandboxes WHERE id = ? FOR SHARE`
	lockSession    = `SELECT 1 FROM bunkroom_sessions WHERE id = ? FOR UPDATE`
)

func (w commit) expect(ctx context.Context, g session.Guard) error {
	what, id, text := "session", string(g.Session), sessionVersion
	if g.Session == "" {
		what, id, text = "sandbox", string(g.Sandbox), sandboxVersion
	}
	var stored int64
	if err := w.row(ctx, text, id).Scan(&stored); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if stored != g.Version {
		return fmt.Errorf("%w: %s %s has version %d, not %d", session.ErrStale, what, id, stored, g.Version)
	}
	return nil
}
