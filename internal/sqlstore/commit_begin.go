package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// begin takes the locks of the change, learns the clock and stamps the change.
// Where many write at once, which are far away, it does the first of the steps
// in the same statement, if that can be: it returns those that are left.
//
// A statement sees what was committed before it began, and here it may have
// waited for locks since. So it may only look at a row that was there before
// (which it locks, and then sees as it is by then), or insert one (which
// nothing that is committed hides from).
func (w *commit) begin(ctx context.Context, steps []rowStep) ([]rowStep, error) {
	keys := keysOf(w.Change)
	if own := w.host == nil && w.store.dialect.Keys != ""; own && len(steps) > 0 && steps[0].clocked != nil && len(w.Delete) == 0 {
		if r := w.Sandbox; len(keys) == 0 && len(steps) == 2 && len(w.Expect) == 1 && r != nil && r.Version > 0 {
			return nil, w.sandboxClocked(ctx, w.Expect[0])
		}
		return steps[1:], steps[0].clocked(ctx)
	}
	clock, err := w.lock(ctx, keys)
	if err != nil {
		return nil, err
	}
	w.stamp(clock)
	return steps, nil
}

// LOCKED stands for the query that takes the locks: its row comes once they are held.
const (
	sessionVersionClocked = `WITH k (at, isolation) AS MATERIALIZED (LOCKED)
		SELECT k.at, (SELECT version FROM bunkroom_sessions WHERE id = ? FOR SHARE) FROM k`
	// f: the owner had as many sessions as may be when the statement began, and
	// this is none of them. Who finds that is refused, and waits for nobody. Others
	// are counted once they hold the lock, for it may have become full since.
	insertedClocked = `WITH f (is_full) AS MATERIALIZED (SELECT ` + isFull + `), k AS MATERIALIZED (SELECT l.at FROM (LOCKED) AS l (at, isolation) WHERE (SELECT NOT is_full FROM f)), s AS (
		INSERT INTO bunkroom_sessions (id, version, project, owner, name, durable_workdir, created_at, last_active_at, ended_at)
		SELECT CAST(? AS text), 1, CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS boolean), k.at, k.at, CAST(? AS bigint) FROM k
		ON CONFLICT DO NOTHING RETURNING id, project, created_at)`
	insertSessionClocked = insertedClocked + ` SELECT f.is_full, s.created_at FROM f LEFT JOIN s ON true`
	insertBothClocked    = insertedClocked + `, c AS (INSERT INTO bunkroom_conversations
		(id, session_id, session_project, project, owner, agent, title, shared, created_at, last_active_at, closed_at)
		SELECT CAST(? AS text), s.id, s.project, s.project, CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS boolean),
			s.created_at, s.created_at, CAST(? AS bigint) FROM s
		ON CONFLICT DO NOTHING RETURNING created_at) SELECT f.is_full, c.created_at FROM f LEFT JOIN c ON true`
	// With NULL for what may be, nothing is full.
	isFull = `CAST(? AS bigint) IS NOT NULL AND (` + countSessions + `) >= CAST(? AS bigint)
		AND NOT EXISTS (SELECT 1 FROM bunkroom_sessions WHERE id = ?) AND NOT EXISTS (SELECT 1 FROM bunkroom_conversations WHERE id = ?)`
	// The condition on the session, which depends on no other row, is seen to
	// first: then that is locked, and after it the sandbox.
	updateSandboxClocked = `WITH k (at) AS MATERIALIZED (SELECT NOW())
		UPDATE bunkroom_sandboxes SET
		provider = ?, sandbox_key = ?, payer = ?, deployment = ?, spec = ?, state = ?, generation = ?, name = ?, incarnation = ?, host = ?, nonce = ?,
		deadline = COALESCE(k.at + CAST(? AS bigint), CAST(? AS bigint)), max_deadline = COALESCE(k.at + CAST(? AS bigint), CAST(? AS bigint)),
		not_before = COALESCE(k.at + CAST(? AS bigint), CAST(? AS bigint)), absent_since = COALESCE(k.at + CAST(? AS bigint), CAST(? AS bigint)),
		live_at = COALESCE(k.at + CAST(? AS bigint), CAST(? AS bigint)), destroyed_at = COALESCE(k.at + CAST(? AS bigint), CAST(? AS bigint)),
		attempts = ?, measured_bytes = ?, measured_at = ?, measured_incarnation = ?, stored_used = ?, stored_at = ?, since = k.at, version = ?
		FROM k WHERE id = ? AND version = ? AND (SELECT version FROM bunkroom_sessions WHERE id = ? FOR SHARE) = ?
		RETURNING since`
)

// sandboxClocked replaces the sandbox where its session has the version that
// is expected. It is the commonest of all steps in the life of a machine.
func (w *commit) sandboxClocked(ctx context.Context, g session.Guard) error {
	r, s := *w.Sandbox, w.Stamps
	args, err := described(r)
	if err != nil {
		return err
	}
	for _, stamp := range []struct {
		in    time.Duration // from the clock on
		set   bool
		until time.Time // where it is not set
	}{
		{s.Deadline, s.Deadline > 0, r.Deadline}, {s.MaxDeadline, s.MaxDeadline > 0, r.MaxDeadline}, {s.NotBefore, s.NotBefore > 0, r.NotBefore},
		{0, s.Absent, r.AbsentSince}, {0, s.Live, r.LiveAt}, {0, s.Destroyed, r.DestroyedAt},
	} {
		var in any
		if stamp.set {
			in = stamp.in.Microseconds()
		}
		args = append(args, in, micros(stamp.until))
	}
	args = append(args, r.Attempts, r.MeasuredBytes, micros(r.MeasuredAt), string(r.MeasuredIncarnation), r.StoredUsed, micros(r.StoredAt), r.Version+1,
		string(r.ID), r.Version, string(g.Session), g.Version)
	clock := w.clock
	switch err := w.row(ctx, updateSandboxClocked, args...).Scan(moment{&clock}); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: sandbox %s has another version than %d, or session %s than %d", session.ErrStale, r.ID, r.Version, g.Session, g.Version)
	case err != nil:
		return err
	}
	w.stamp(clock)
	return nil
}

// expectClocked expects a session to have a version that it has had before.
func (w *commit) expectClocked(ctx context.Context, g session.Guard) error {
	var stored int64
	clock := w.clock
	if err := w.row(ctx, sessionVersionClocked, w.store.numbers(keysOf(w.Change)), string(g.Session)).Scan(moment{&clock}, num(&stored)); err != nil {
		return err
	}
	w.stamp(clock)
	return asExpected("session", string(g.Session), stored, g.Version)
}

// sessionClocked inserts the session, which borrows nothing and has not ended
// at once, and along with it the conversation, where that is its own.
func (w *commit) sessionClocked(ctx context.Context) error {
	s, v := *w.Session, w.Conversation
	text, what := insertSessionClocked, fmt.Sprintf("session %s", s.ID)
	args := append(w.fullness(s, v), w.store.numbers(keysOf(w.Change)), string(s.ID), string(s.Project), string(s.Owner), s.Name, s.DurableWorkdir, micros(s.EndedAt))
	w.together = v != nil && v.Session == s.ID && v.Project == s.Project &&
		len(w.Expect)+len(w.Waited) == 0 && (w.Sandbox == nil || w.Sandbox.Version == 0) // no row that others have is to come before it
	if w.together {
		text, what = insertBothClocked, fmt.Sprintf("session %s, or conversation %s", s.ID, v.ID)
		args = append(args, string(v.ID), string(v.Owner), string(v.Agent), v.Title, v.Shared, micros(v.ClosedAt))
	}
	var full bool
	var at time.Time
	switch err := w.row(ctx, text, args...).Scan(flag{&full}, moment{&at}); {
	case err != nil:
		return err
	case full:
		l, _ := w.ownersLimit(s)
		return exceeded(l)
	case at.IsZero():
		return fmt.Errorf("%w: %s", session.ErrExists, what)
	}
	w.stamp(at)
	return nil
}

// fullness are the arguments of isFull: without a limit to keep, none of them counts.
func (w *commit) fullness(s session.Session, v *session.Conversation) []any {
	var conversation string
	if v != nil {
		conversation = string(v.ID)
	}
	l, limited := w.ownersLimit(s)
	if !limited {
		return []any{nil, "", 0, 0, "", ""}
	}
	most := most(l)
	return []any{most, l.Scope, most, most, string(s.ID), conversation}
}

// ownersLimit is how many sessions the owner of s may have, where that is part of the change.
func (w *commit) ownersLimit(s session.Session) (session.Limit, bool) {
	i := slices.IndexFunc(w.Limits, func(l session.Limit) bool {
		return l.Kind == session.SessionsPerOwner && l.Scope == string(s.Owner)
	})
	if i < 0 {
		return session.Limit{}, false
	}
	return w.Limits[i], true
}
