package memory

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/mount"
)

// mountKey is what a mount is found by.
type mountKey struct{ scope, slug string }

type mountStore struct{ db *DB }

var _ mount.Store = mountStore{}

func (s mountStore) GetOrCreate(ctx context.Context, r mount.Row) (mount.Row, error) {
	if err := ctx.Err(); err != nil {
		return mount.Row{}, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	key, now := mountKey{r.Scope, r.Slug}, db.clock()
	row, there := db.mounts[key]
	switch {
	case there:
		if now.After(row.UpdatedAt) {
			row.UpdatedAt = now
		}
	case db.mountIDs[r.ID]:
		return mount.Row{}, fmt.Errorf("memory: mount %s exists with another scope or slug", r.ID)
	default:
		row = r
		row.CreatedAt, row.UpdatedAt = now, now
		db.mountIDs[row.ID] = true
	}
	db.mounts[key] = row
	return row, nil
}

func (s mountStore) Find(ctx context.Context, scope, slug string) (mount.Row, error) {
	if err := ctx.Err(); err != nil {
		return mount.Row{}, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	row, there := s.db.mounts[mountKey{scope, slug}]
	if !there {
		return mount.Row{}, fmt.Errorf("%w: %s in scope %s", mount.ErrNotFound, slug, scope)
	}
	return row, nil
}
