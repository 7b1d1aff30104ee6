package sqlstore

import (
	"context"

	"github.com/bunkroom/bunkroom/session"
)

// What is owned is read kind by kind in the order of an index, each up to the
// limit, and put together in the order in which it is deleted. The number
// before an id says what it is of.
const (
	ofSessionSession  = `SELECT * FROM (SELECT 1 AS what, id FROM bunkroom_sessions WHERE id = ? LIMIT ?) AS s`
	ofProjectSessions = `SELECT * FROM (SELECT 1 AS what, id FROM bunkroom_sessions
		WHERE project = ? AND project <> '' ORDER BY last_active_at, id LIMIT ?) AS s`
	ofProjectEnvironments = `SELECT * FROM (SELECT 2 AS what, id FROM bunkroom_environments WHERE project = ? ORDER BY id LIMIT ?) AS e`
	ofUserSessions        = `SELECT * FROM (SELECT 1 AS what, id FROM bunkroom_sessions WHERE owner = ? ORDER BY project, last_active_at, id LIMIT ?) AS s`
	// Those of a session are found through it, and so are the first to go.
	ofSessionConversations = `SELECT * FROM (SELECT 0 AS what, id FROM bunkroom_conversations WHERE session_id = ? LIMIT ?) AS c`
	ofProjectConversations = `SELECT * FROM (SELECT 3 AS what, id FROM bunkroom_conversations
		WHERE project = ? AND project <> '' ORDER BY id LIMIT ?) AS c`
	ofUserConversations = `SELECT * FROM (SELECT 3 AS what, id FROM bunkroom_conversations WHERE owner = ? ORDER BY id LIMIT ?) AS c`

	andOwned   = ` UNION ALL `
	ownedFirst = ` ORDER BY what, id LIMIT ?`
)

// owned is the statement for a target, whose id and the limit are its
// arguments, as many times as kinds says, and the limit once more.
func owned(t session.PurgeTarget) (text, id string, kinds int, err error) {
	if set(t.Session != "", t.Project != "", t.User != "") != 1 {
		return "", "", 0, field("target", "must have exactly one of Session, Project and User")
	}
	switch {
	case t.Session != "" && t.History:
		return ofSessionConversations + andOwned + ofSessionSession, string(t.Session), 2, nil
	case t.Session != "":
		return ofSessionSession, string(t.Session), 1, nil
	case t.Project != "" && t.History:
		return ofProjectSessions + andOwned + ofProjectEnvironments + andOwned + ofProjectConversations, string(t.Project), 3, nil
	case t.Project != "":
		return ofProjectSessions + andOwned + ofProjectEnvironments, string(t.Project), 2, nil
	case t.History:
		return ofUserSessions + andOwned + ofUserConversations, string(t.User), 2, nil
	}
	return ofUserSessions, string(t.User), 1, nil
}

func (s sessions) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	text, id, kinds, err := owned(t)
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, field("limit", "must be at least 1")
	}
	var args []any
	for range kinds {
		args = append(args, id, limit)
	}
	var all []session.Address
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, text+ownedFirst, append(args, limit)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var what int64
			var id string
			if err := rows.Scan(&what, &id); err != nil {
				return err
			}
			all = append(all, ownedAddress(what, id))
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func ownedAddress(what int64, id string) session.Address {
	switch what {
	case 1:
		return session.Address{Session: session.ID(id)}
	case 2:
		return session.Address{Environment: session.EnvironmentID(id)}
	}
	return session.Address{Conversation: session.ConversationID(id)}
}
