package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const storedSandboxes = `SELECT NOW(), ` + sandboxColumns + `, ` + sessionColumns + `, ` + environmentColumns + `
	FROM bunkroom_sandboxes AS b LEFT JOIN bunkroom_sessions AS s ON s.id = b.session_id
		LEFT JOIN bunkroom_environments AS e ON e.id = b.environment_id
	WHERE b.id > ? AND ((b.state = 'live' AND b.measured_bytes > 0) OR b.stored_used > b.stored_charged) ORDER BY b.id LIMIT ?`

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

const (
	// lockCharged comes to the rows in the order in which everybody does.
	lockCharged = `SELECT count(*) FROM (SELECT 1 FROM bunkroom_sandboxes WHERE id IN IDS(?) ORDER BY id FOR UPDATE) AS n`
	noteCharged = `UPDATE bunkroom_sandboxes SET stored_charged = k.used FROM ROWS(id text, used bigint) AS k
		WHERE bunkroom_sandboxes.id = k.id AND bunkroom_sandboxes.stored_charged < k.used`
)

func (s sessions) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	if len(charged) > session.MaxKnown {
		return field("charged", fmt.Sprintf("must be at most %d", session.MaxKnown))
	}
	used := map[string]int64{}
	var ids []string
	for _, c := range charged {
		id := string(c.Sandbox)
		if _, twice := used[id]; !twice && textual(id) {
			ids = append(ids, id)
		}
		used[id] = max(used[id], c.Used)
	}
	if len(ids) == 0 {
		return ctx.Err()
	}
	slices.Sort(ids)
	text, args := s.store.table(noteCharged, texts(ids, func(id *string) string { return *id }), numbers(ids, func(id *string) int64 { return used[*id] }))
	return s.write(ctx, nil, func(ctx context.Context, on place, _ time.Time) error {
		if s.store.writer == nil {
			var n int64
			if err := on.row(ctx, lockCharged, idsJSON(slices.Clone(ids))).Scan(&n); err != nil {
				return err
			}
		}
		_, err := on.exec(ctx, text, args...)
		return err
	})
}
