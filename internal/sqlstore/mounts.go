package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

type mounts struct{ view }

var _ mount.Store = mounts{}

const (
	getOrCreateMount = `INSERT INTO bunkroom_mounts (` + mountColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (scope, slug) DO UPDATE SET updated_at = CASE
			WHEN bunkroom_mounts.updated_at < excluded.updated_at THEN excluded.updated_at ELSE bunkroom_mounts.updated_at END
		RETURNING ` + mountColumns
	findMount = `SELECT ` + mountColumns + ` FROM bunkroom_mounts WHERE scope = ? AND slug = ?`
)

func (s mounts) GetOrCreate(ctx context.Context, r mount.Row) (mount.Row, error) {
	var stored mount.Row
	err := s.write(ctx, nil, func(ctx context.Context, on place, clock time.Time) error {
		at := micros(clock)
		return on.row(ctx, getOrCreateMount, string(r.ID), r.Scope, r.Slug, int64(r.Kind), string(r.Agent), r.Name, string(r.CreatedBy), at, at).
			Scan(mountInto(&stored)...)
	})
	if err != nil {
		return mount.Row{}, err
	}
	return stored, nil
}

func (s mounts) Find(ctx context.Context, scope, slug string) (mount.Row, error) {
	var stored mount.Row
	err := s.read(ctx, func(ctx context.Context, on place) error {
		return on.row(ctx, findMount, scope, slug).Scan(mountInto(&stored)...)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return mount.Row{}, fmt.Errorf("%w: %s in scope %s", mount.ErrNotFound, slug, scope)
	case err != nil:
		return mount.Row{}, err
	}
	return stored, nil
}
