package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// steps are what is to be done with sessions, environments and sandboxes, in
// the one order. They go by what the change is when they are done: stamped.
func (w *commit) steps() (steps []rowStep) {
	add := func(of kind, id string, do func(context.Context) error) {
		steps = append(steps, rowStep{of: of, id: id, do: do})
	}
	for _, g := range w.Expect {
		switch {
		case g.Session != "":
			add(ofSession, string(g.Session), func(ctx context.Context) error {
				return w.expect(ctx, "session", sessionVersion, string(g.Session), g.Version)
			})
			if g.Version != 0 {
				steps[len(steps)-1].clocked = func(ctx context.Context) error { return w.expectClocked(ctx, g) }
			}
		case g.Environment != "":
			add(ofEnvironment, string(g.Environment), func(ctx context.Context) error { return w.expectEnvironment(ctx, g) })
		default:
			add(ofSandbox, string(g.Sandbox), func(ctx context.Context) error {
				return w.expect(ctx, "sandbox", sandboxVersion, string(g.Sandbox), g.Version)
			})
		}
	}
	if e := w.Environment; e != nil {
		add(ofEnvironment, string(e.ID), func(ctx context.Context) error {
			w.stands(e.ID, e.Project)
			return w.environment(ctx, *w.Environment)
		})
	}
	if s := w.Session; s != nil {
		step := rowStep{of: ofSession, id: string(s.ID), do: func(ctx context.Context) error { return w.session(ctx, *w.Session) }}
		if s.Version == 0 { // it is nobody else's yet, and comes after what it borrows
			step.of = ofNewSession
			if s.Environment == "" && !w.End {
				step.clocked = w.sessionClocked
			}
		}
		steps = append(steps, step)
	}
	if r := w.Sandbox; r != nil {
		add(ofSandbox, string(r.ID), func(ctx context.Context) error { return w.sandbox(ctx, *w.Sandbox) })
		switch s, e := w.Session, w.Environment; { // what an inserted one belongs to must be there
		case r.Version > 0:
		case r.Session != "" && (s == nil || s.ID != r.Session || s.Version > 0):
			add(ofSession, string(r.Session), func(ctx context.Context) error { return w.there(ctx, "session", hasSession, string(r.Session), r.ID) })
		case r.Environment != "" && (e == nil || e.ID != r.Environment):
			add(ofEnvironment, string(r.Environment), func(ctx context.Context) error {
				return w.there(ctx, "environment", hasEnvironment, string(r.Environment), r.ID)
			})
		}
	}
	for _, id := range w.Waited {
		add(ofSandbox, string(id), func(ctx context.Context) error {
			_, err := w.exec(ctx, waitedSandbox, micros(w.clock), string(id))
			return err
		})
	}
	slices.SortStableFunc(steps, rowStep.compare)
	return steps
}

// kind is of which kind a row is, in the order in which rows are come to.
type kind uint8

const (
	ofSession kind = iota
	ofEnvironment
	ofNewSession
	ofSandbox
)

// rowStep is what is done with one row.
type rowStep struct {
	of kind
	id string
	do func(context.Context) error
	// clocked is do in one statement with what the first of a write has to do: see begin. May be nil.
	clocked func(context.Context) error
}

func (s rowStep) compare(other rowStep) int {
	if s.of != other.of {
		return int(s.of) - int(other.of)
	}
	return strings.Compare(s.id, other.id)
}

const (
	sessionVersion     = `SELECT version FROM bunkroom_sessions WHERE id = ? FOR SHARE`
	environmentVersion = `SELECT version, project FROM bunkroom_environments WHERE id = ? FOR SHARE`
	sandboxVersion     = `SELECT version FROM bunkroom_sandboxes WHERE id = ? FOR SHARE`
	hasSession         = `SELECT 1 FROM bunkroom_sessions WHERE id = ? FOR KEY SHARE`
	hasEnvironment     = `SELECT 1 FROM bunkroom_environments WHERE id = ? FOR KEY SHARE`
	waitedSandbox      = `UPDATE bunkroom_sandboxes SET since = ? WHERE id = ?`
)

func (w *commit) expect(ctx context.Context, what, text, id string, version int64) error {
	var stored int64
	if err := w.row(ctx, text, id).Scan(&stored); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return asExpected(what, id, stored, version)
}

// asExpected answers ErrStale where a row has another version than is expected.
func asExpected(what, id string, stored, version int64) error {
	if stored != version {
		return fmt.Errorf("%w: %s %s has version %d, not %d", session.ErrStale, what, id, stored, version)
	}
	return nil
}

func (w *commit) expectEnvironment(ctx context.Context, g session.Guard) error {
	var stored int64
	var project access.ProjectID
	if err := w.row(ctx, environmentVersion, string(g.Environment)).Scan(&stored, str(&project)); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := asExpected("environment", string(g.Environment), stored, g.Version); err != nil {
		return err
	}
	if stored != 0 {
		w.stands(g.Environment, project)
	}
	return nil
}

// stands notes that an environment is there, of which project.
func (w *commit) stands(id session.EnvironmentID, project access.ProjectID) {
	if w.lent == nil {
		w.lent = map[session.EnvironmentID]access.ProjectID{}
	}
	w.lent[id] = project
}

func (w *commit) there(ctx context.Context, what, text, id string, of sandbox.ID) error {
	there, err := w.found(ctx, text, id)
	if err == nil && !there {
		err = fmt.Errorf("%w: sandbox %s: %s %s is not there", session.ErrStale, of, what, id)
	}
	return err
}

const worksIn = `SELECT 1 FROM bunkroom_leases WHERE kind = 1 AND sandbox_id = ? LIMIT 1`

// idle refuses where somebody works in a sandbox, or may do so still.
func (w *commit) idle(ctx context.Context, id sandbox.ID) error {
	works, err := w.found(ctx, worksIn, string(id))
	if err == nil && works {
		err = fmt.Errorf("%w: sandbox %s", sandbox.ErrWorking, id)
	}
	return err
}
