package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

type sessions struct{ view }

var _ session.Store = sessions{}

const (
	// A session has a sandbox of its own, or borrows its environment's: never
	// both. (To join on either costs SQLite half as much again.)
	itsSandbox = ` LEFT JOIN bunkroom_environments AS e ON e.id = s.environment_id
		LEFT JOIN bunkroom_sandboxes AS b ON b.id = COALESCE(
			(SELECT o.id FROM bunkroom_sandboxes AS o WHERE o.session_id = s.id),
			(SELECT o.id FROM bunkroom_sandboxes AS o WHERE o.environment_id = s.environment_id))`
	loadSession = `SELECT NOW(), ` + sessionColumns + `, ` + environmentColumns + `, ` + sandboxColumns + `
		FROM bunkroom_sessions AS s` + itsSandbox + ` WHERE s.id = ?`
	loadConversation = `SELECT NOW(), ` + conversationColumns + `, ` + sessionColumns + `, ` + environmentColumns + `, ` + sandboxColumns + `
		FROM bunkroom_conversations AS c LEFT JOIN bunkroom_sessions AS s ON s.id = c.session_id` + itsSandbox + ` WHERE c.id = ?`
	loadBoth = `SELECT NOW(), ` + conversationColumns + `, ` + sessionColumns + `, ` + environmentColumns + `, ` + sandboxColumns + `
		FROM bunkroom_sessions AS s LEFT JOIN bunkroom_conversations AS c ON c.id = ?` + itsSandbox + ` WHERE s.id = ?`
	loadEnvironment = `SELECT NOW(), ` + environmentColumns + `, ` + sandboxColumns + `
		FROM bunkroom_environments AS e LEFT JOIN bunkroom_sandboxes AS b ON b.environment_id = e.id
		WHERE e.id = ?`
)

func (s sessions) Load(ctx context.Context, a session.Address) (session.Snapshot, error) {
	var snap session.Snapshot
	into := slices.Concat(sessionInto(&snap.Session), environmentInto(&snap.Environment), sandboxInto(&snap.Sandbox))
	statement, args := loadSession, []any{string(a.Session)}
	what, id := "session", string(a.Session)
	switch {
	case a.Environment != "":
		into = append(environmentInto(&snap.Environment), sandboxInto(&snap.Sandbox)...)
		statement, args = loadEnvironment, []any{string(a.Environment)}
		what, id = "environment", string(a.Environment)
	case a.Conversation != "":
		into = append(conversationInto(&snap.Conversation), into...)
		statement, args = loadBoth, []any{string(a.Conversation), string(a.Session)}
		if a.Session == "" {
			statement, args = loadConversation, args[:1]
			what, id = "conversation", string(a.Conversation)
		}
	}
	err := s.read(ctx, func(ctx context.Context, on place) error {
		return on.row(ctx, statement, args...).Scan(append([]any{moment{&snap.Now}}, into...)...)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return session.Snapshot{}, fmt.Errorf("%w: %s %s", session.ErrNotFound, what, id)
	case err != nil:
		return session.Snapshot{}, err
	}
	snap.Now = s.store.at(snap.Now) // after the read, so that nothing in it is dated later
	return snap, nil
}

const (
	touchSession      = `UPDATE bunkroom_sessions SET last_active_at = ? WHERE id = ? AND last_active_at < ?`
	touchConversation = `UPDATE bunkroom_conversations SET last_active_at = ? WHERE id = ? AND last_active_at < ?`
	touchItsSession   = `UPDATE bunkroom_sessions SET last_active_at = ?
		WHERE id = (SELECT session_id FROM bunkroom_conversations WHERE id = ?) AND last_active_at < ?`
)

func (s sessions) Touch(ctx context.Context, a session.Address) error {
	return s.write(ctx, nil, func(ctx context.Context, on place, clock time.Time) error {
		touch := func(text, id string) error {
			_, err := on.exec(ctx, text, micros(clock), id, micros(clock))
			return err
		}
		text, id := touchSession, string(a.Session)
		if a.Session == "" {
			text, id = touchItsSession, string(a.Conversation)
		}
		if err := touch(text, id); err != nil || a.Conversation == "" {
			return err
		}
		return touch(touchConversation, string(a.Conversation)) // after its session, as everywhere
	})
}

func field(name, rule string) error { return &access.FieldError{Field: name, Rule: rule} }
