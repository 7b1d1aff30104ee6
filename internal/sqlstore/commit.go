package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func (s sessions) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	if err := checkChange(c); err != nil {
		return time.Time{}, err
	}
	w := &commit{Change: c}
	err := s.within(ctx, func(ctx context.Context, on place) error {
		w.place = on
		return w.all(ctx)
	})
	if err != nil {
		return time.Time{}, err
	}
	return w.clock, nil
}

// checkChange refuses what no decision should ever have made.
func checkChange(c session.Change) error {
	if s := c.Session; s != nil && s.ID == "" {
		return field("Session", "must have an id")
	}
	if s := c.Session; s != nil && s.Environment != "" && s.Project == "" {
		return field("Session", "must have a project where it has an environment")
	}
	if v := c.Conversation; v != nil && v.ID == "" {
		return field("Conversation", "must have an id")
	}
	if c.Amend != nil && c.Amend.Was.ID == "" {
		return field("Amend", "must name a conversation")
	}
	if r := c.Sandbox; r != nil && (r.ID == "" || (r.Session == "") == (r.Environment == "")) {
		return field("Sandbox", "must have an id and belong to either a session or an environment")
	}
	if e := c.Environment; e != nil && (e.ID == "" || e.Project == "") {
		return field("Environment", "must have an id and a project")
	}
	for _, g := range c.Expect {
		if set(g.Session != "", g.Environment != "", g.Sandbox != "") != 1 {
			return field("Expect", "must name either a session, an environment or a sandbox")
		}
	}
	for _, a := range c.Delete {
		if set(a.Session != "", a.Environment != "", a.Conversation != "") != 1 {
			return field("Delete", "must name either a session, an environment or a conversation")
		}
	}
	for _, l := range c.Limits {
		if _, ok := counting(l.Kind); !ok {
			return field("Limits", fmt.Sprintf("must be of a kind that a commit counts, not %v", l.Kind))
		}
	}
	return nil
}

// set is how many of them are.
func set(of ...bool) (n int) {
	for _, is := range of {
		if is {
			n++
		}
	}
	return n
}

// commit is one Commit under way.
type commit struct {
	place
	session.Change                                            // stamped as soon as the clock is known
	clock          time.Time                                  // zero until then
	lent           map[session.EnvironmentID]access.ProjectID // environments that are known to stand, and whose they are
	together       bool                                       // the conversation was inserted with its session
}

// stamp stamps the change.
func (w *commit) stamp(clock time.Time) { w.Change, w.clock = w.Stamped(clock), clock }

// all writes the change.
//
// Where many write at once, each row that c expects or writes is locked by the
// statement that looks at it, and everybody comes to the rows in the same
// order: sessions, environments, sandboxes, conversations, the outbox; and those
// of one kind by their ids. What c expects is so until it is committed.
func (w *commit) all(ctx context.Context) error {
	doomed, steps := doomedBy(w.Change), w.steps()
	steps, err := w.begin(ctx, steps)
	if err != nil {
		return err
	}
	if len(w.Delete) > 0 && w.store.writer == nil {
		if err := w.lockDoomed(ctx, doomed); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			return err
		}
	}
	c := w.Change
	if c.Idle != "" {
		if err := w.idle(ctx, c.Idle); err != nil {
			return err
		}
	}
	if c.Unclaimed != "" && c.Sandbox != nil {
		if err := w.unclaimed(ctx, c.Sandbox.ID, c.Unclaimed); err != nil {
			return err
		}
	}
	if c.Conversation != nil && !w.together {
		if err := w.conversation(ctx, *c.Conversation, c.Session); err != nil {
			return err
		}
	}
	if c.Amend != nil {
		if err := w.amend(ctx, *c.Amend); err != nil {
			return err
		}
	}
	if err := w.outbox(ctx, c); err != nil {
		return err
	}
	if err := w.delete(ctx, doomed); err != nil {
		return err
	}
	for _, l := range c.Limits {
		if err := w.limit(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// found reports whether a statement finds a row.
func (w *commit) found(ctx context.Context, text string, args ...any) (bool, error) {
	var one int64
	switch err := w.row(ctx, text, args...).Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

const claimedIncarnation = `SELECT 1 FROM bunkroom_outbox WHERE sandbox_id = ? AND incarnation = ? LIMIT 1`

func (w *commit) unclaimed(ctx context.Context, id sandbox.ID, i sandbox.Incarnation) error {
	claimed, err := w.found(ctx, claimedIncarnation, string(id), string(i))
	if err == nil && claimed {
		err = fmt.Errorf("%w: sandbox %s: %s", session.ErrClaimed, id, i)
	}
	return err
}

const (
	insertSession = `INSERT INTO bunkroom_sessions
		(id, version, project, owner, name, environment_id, durable_workdir, created_at, last_active_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	updateSession = `UPDATE bunkroom_sessions SET version = ?, name = ?, ended_at = ? WHERE id = ? AND version = ?`
)

func (w *commit) session(ctx context.Context, s session.Session) error {
	if s.Version > 1 {
		n, err := w.exec(ctx, updateSession, s.Version, s.Name, micros(s.EndedAt), string(s.ID), s.Version-1)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: session %s has another version than %d, or is not there", session.ErrStale, s.ID, s.Version-1)
		}
		return err
	}
	if s.Environment != "" {
		if err := w.borrow(ctx, s); err != nil {
			return err
		}
	}
	n, err := w.exec(ctx, insertSession, string(s.ID), s.Version, string(s.Project), string(s.Owner), s.Name,
		orNull(s.Environment), s.DurableWorkdir, micros(s.CreatedAt), micros(s.LastActiveAt), micros(s.EndedAt))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: session %s", session.ErrExists, s.ID)
	}
	return err
}

const (
	insertConversation = `INSERT INTO bunkroom_conversations
		(id, session_id, session_project, project, owner, agent, title, shared, created_at, last_active_at, closed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	hasConversation = `SELECT 1 FROM bunkroom_conversations WHERE id = ?`
	sessionProject  = `SELECT project FROM bunkroom_sessions WHERE id = ? FOR KEY SHARE`
)

// inserts reports whether s, which may be nil, is inserted by this change and is the session id.
func inserts(s *session.Session, id session.ID) bool { return s != nil && s.ID == id && s.Version == 1 }

// conversation inserts v. with is the session of the same change, if any:
// where v is bound to that one, there is nothing to look up.
func (w *commit) conversation(ctx context.Context, v session.Conversation, with *session.Session) error {
	var in any // its session's project
	if v.Session != "" {
		project := v.Project
		if inserts(with, v.Session) {
			project = with.Project
		} else if err := w.row(ctx, sessionProject, string(v.Session)).Scan(str(&project)); errors.Is(err, sql.ErrNoRows) {
			if taken, err := w.found(ctx, hasConversation, string(v.ID)); err != nil || taken {
				return orElse(err, fmt.Errorf("%w: conversation %s", session.ErrExists, v.ID))
			}
			return fmt.Errorf("%w: conversation %s: session %s is not there", session.ErrStale, v.ID, v.Session)
		} else if err != nil {
			return err
		}
		if project != v.Project {
			return field("Conversation", "must have the project of its session")
		}
		in = string(project)
	}
	n, err := w.exec(ctx, insertConversation, string(v.ID), orNull(v.Session), in, string(v.Project), string(v.Owner), string(v.Agent),
		v.Title, v.Shared, micros(v.CreatedAt), micros(v.LastActiveAt), micros(v.ClosedAt))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: conversation %s", session.ErrExists, v.ID)
	}
	return err
}

// counting is the statement that counts what a limit is about. It stops at
// one more than is allowed.
func counting(k session.LimitKind) (text string, ok bool) {
	switch k {
	case session.SessionsPerOwner:
		return countSessions, true
	case session.MachinesPerPayer:
		return countMachines, true
	case session.ConversationsPerSession:
		return countConversations, true
	}
	return "", false
}

const (
	countSessions = `SELECT count(*) FROM
		(SELECT 1 FROM bunkroom_sessions WHERE owner = ? AND ended_at IS NULL LIMIT ?) AS n`
	countMachines = `SELECT count(*) FROM
		(SELECT 1 FROM bunkroom_sandboxes WHERE payer = ? AND state IN ('creating', 'live', 'destroying')
		UNION ALL SELECT 1 FROM bunkroom_outbox WHERE payer = ? LIMIT ?) AS n`
	countConversations = `SELECT count(*) FROM
		(SELECT 1 FROM bunkroom_conversations WHERE session_id = ? AND closed_at IS NULL LIMIT ?) AS n`
)

func (w *commit) limit(ctx context.Context, l session.Limit) error {
	text, _ := counting(l.Kind)
	args := []any{l.Scope, most(l) + 1}
	if l.Kind == session.MachinesPerPayer {
		args = []any{l.Scope, l.Scope, most(l) + 1}
	}
	var n int
	if err := w.row(ctx, text, args...).Scan(&n); err != nil {
		return err
	}
	if n > most(l) {
		return exceeded(l)
	}
	return nil
}

// most is how many may be, as a database can be told it.
func most(l session.Limit) int { return min(max(l.Max, 0), math.MaxInt32) }

func exceeded(l session.Limit) error {
	return &session.LimitError{Kind: l.Kind, Scope: l.Scope, Max: l.Max}
}
