package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bunkroom/bunkroom/session"
)

// doomed are the rows that a change deletes, as JSON arrays of their ids; empty = none.
type doomed struct{ sessions, environments, conversations string }

// doomedBy sorts what c deletes.
func doomedBy(c session.Change) doomed {
	var sessions, environments, conversations []string
	for _, a := range c.Delete {
		sessions = append(sessions, string(a.Session))
		environments = append(environments, string(a.Environment))
		conversations = append(conversations, string(a.Conversation))
	}
	return doomed{idsJSON(sessions), idsJSON(environments), idsJSON(conversations)}
}

// idsJSON are the ids that are set as a statement takes them. What is no text is in no row, and left out.
func idsJSON(ids []string) string {
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" || !textual(id) })
	if len(ids) == 0 {
		return ""
	}
	text, err := json.Marshal(ids)
	if err != nil { // they are strings
		panic(err)
	}
	return string(text)
}

// Whoever deletes comes to all rows that go, or are unbound, in the one order
// of all writes before it deletes the first: the cascades would have another.
const (
	lockSessions      = `SELECT count(*) FROM (SELECT 1 FROM bunkroom_sessions WHERE id IN IDS(?) ORDER BY id FOR UPDATE) AS n`
	lockEnvironments  = `SELECT count(*) FROM (SELECT 1 FROM bunkroom_environments WHERE id IN IDS(?) ORDER BY id FOR UPDATE) AS n`
	lockSandboxes     = `SELECT count(*) FROM (SELECT 1 FROM bunkroom_sandboxes WHERE id IN IDS(?) OR session_id IN IDS(?) OR environment_id IN IDS(?) ORDER BY id FOR UPDATE) AS n`
	lockConversations = `SELECT count(*) FROM (SELECT 1 FROM bunkroom_conversations WHERE id IN IDS(?) OR session_id IN IDS(?) ORDER BY id FOR UPDATE) AS n`
)

// lockDoomed locks what c deletes, and along with that whatever else c comes to.
func (w *commit) lockDoomed(ctx context.Context, d doomed) error {
	c := w.Change
	var sessions, environments, sandboxes []string
	for _, a := range c.Delete {
		sessions, environments = append(sessions, string(a.Session)), append(environments, string(a.Environment))
	}
	for _, g := range c.Expect {
		sessions, environments, sandboxes = append(sessions, string(g.Session)), append(environments, string(g.Environment)), append(sandboxes, string(g.Sandbox))
	}
	if s := c.Session; s != nil {
		sessions, environments = append(sessions, string(s.ID)), append(environments, string(s.Environment))
	}
	if e := c.Environment; e != nil {
		environments = append(environments, string(e.ID))
	}
	if r := c.Sandbox; r != nil {
		sessions, environments, sandboxes = append(sessions, string(r.Session)), append(environments, string(r.Environment)), append(sandboxes, string(r.ID))
	}
	if v := c.Conversation; v != nil {
		sessions = append(sessions, string(v.Session))
	}
	for _, id := range c.Waited {
		sandboxes = append(sandboxes, string(id))
	}
	for _, lock := range []struct {
		text string
		ids  []string
	}{
		{lockSessions, []string{idsJSON(sessions)}},
		{lockEnvironments, []string{idsJSON(environments)}},
		{lockSandboxes, []string{idsJSON(sandboxes), d.sessions, d.environments}},
		{lockConversations, []string{d.conversations, d.sessions}},
	} {
		var args []any
		some := false
		for _, ids := range lock.ids {
			some = some || ids != ""
			args = append(args, cmp.Or(ids, "[]"))
		}
		if !some {
			continue
		}
		if _, err := w.found(ctx, lock.text, args...); err != nil {
			return err
		}
	}
	return nil
}

const (
	// Deleting a session or an environment takes its sandbox along, whose
	// trigger buries the machine. Deleting a session unbinds its conversations.
	deleteSessions      = `DELETE FROM bunkroom_sessions WHERE id IN IDS(?)`
	deleteEnvironments  = `DELETE FROM bunkroom_environments WHERE id IN IDS(?)`
	deleteConversations = `DELETE FROM bunkroom_conversations WHERE id IN IDS(?)`
	borrowed            = `SELECT environment_id FROM bunkroom_sessions WHERE environment_id IN IDS(?) LIMIT 1`
	// A fence goes where no lease is left that it could fence. Should the id be used again it begins above it.
	deleteFences = `DELETE FROM bunkroom_fences WHERE kind = ? AND name IN IDS(?)
		AND NOT EXISTS (SELECT 1 FROM bunkroom_leases AS l WHERE l.kind = bunkroom_fences.kind AND l.name = bunkroom_fences.name)`
)

// delete deletes sessions first, so that they borrow nothing any more.
func (w *commit) delete(ctx context.Context, d doomed) error {
	if d.sessions != "" {
		if err := w.deleteFenced(ctx, deleteSessions, d.sessions, session.LeaseWork); err != nil {
			return err
		}
	}
	if d.environments != "" {
		// Whoever is about to borrow one has locked it, or waits to.
		var id session.EnvironmentID
		switch err := w.row(ctx, borrowed, d.environments).Scan(str(&id)); {
		case err == nil:
			return fmt.Errorf("%w: environment %s: a session borrows it", session.ErrStale, id)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if _, err := w.exec(ctx, deleteEnvironments, d.environments); err != nil {
			return err
		}
	}
	if d.conversations != "" {
		return w.deleteFenced(ctx, deleteConversations, d.conversations, session.LeaseTurn)
	}
	return nil
}

func (w *commit) deleteFenced(ctx context.Context, text, ids string, kind session.LeaseKind) error {
	if _, err := w.exec(ctx, text, ids); err != nil {
		return err
	}
	if _, err := w.exec(ctx, raiseForgotten, int64(kind), ids, int64(math.MaxInt64), int64(kind)); err != nil {
		return err
	}
	_, err := w.exec(ctx, deleteFences, int64(kind), ids)
	return err
}
