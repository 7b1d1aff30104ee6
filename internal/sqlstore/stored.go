package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const storedSandboxes = `SELECT NOW(), ` + sandboxColumns + `, ` + sessionColumns + `, ` + environmentColumns + `
	FROM bunkroom_sandboxes AS b LEFT JOIN bunkroom_sessions AS s ON s.id = b.session_id
		LEFT JOIN bunkroom_environments AS e ON e.id = b.environment_id
	WHERE b.id > ? AND (b.measured_bytes > 0 OR b.stored_used > 0) ORDER BY b.id LIMIT ?`

func (s sessions) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	if limit < 1 || limit > session.MaxKnown {
		return nil, field("limit", fmt.Sprintf("must be 1 to %d", session.MaxKnown))
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	var page []session.Snapshot
	var now time.Time
	err := s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, storedSandboxes, string(after), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		var found session.Snapshot
		into := append([]any{moment{&now}}, sandboxInto(&found.Sandbox)...)
		into = append(append(into, sessionInto(&found.Session)...), environmentInto(&found.Environment)...)
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			page = append(page, found)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	now = s.store.at(now)
	for i := range page {
		page[i].Now = now
	}
	return page, nil
}
