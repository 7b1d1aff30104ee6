package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func (s sessionStore) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit < 1 || limit > session.MaxKnown {
		return nil, &access.FieldError{Field: "limit", Rule: fmt.Sprintf("must be 1 to %d", session.MaxKnown)}
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	var ids []sandbox.ID
	for id, r := range db.sandboxes {
		if id > after && (r.State == sandbox.Live && r.MeasuredBytes > 0 || r.StoredUsed > r.charged) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	now := db.clock()
	var page []session.Snapshot
	for _, id := range ids[:min(limit, len(ids))] {
		r := db.sandboxes[id].row()
		page = append(page, session.Snapshot{Now: now, Session: db.sessions[r.Session], Environment: db.environments[r.Environment], Sandbox: r})
	}
	return page, nil
}

func (s sessionStore) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(charged) > session.MaxKnown {
		return &access.FieldError{Field: "charged", Rule: fmt.Sprintf("must be at most %d", session.MaxKnown)}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, c := range charged {
		if r, there := db.sandboxes[c.Sandbox]; there && r.charged < c.Used {
			r.charged = c.Used
			db.sandboxes[c.Sandbox] = r
		}
	}
	return nil
}
