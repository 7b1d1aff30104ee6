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
	newMountColumns = `id, scope, slug, kind, purpose, agent, session_id, name, description, meta, created_by, updated_by, created_at, updated_at`
	insertMount     = `INSERT INTO bunkroom_mounts (` + newMountColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// insertMountClocked takes the database's own clock, so that the statement can be all there is.
	insertMountClocked = `INSERT INTO bunkroom_mounts (` + newMountColumns + `)
		SELECT CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS bigint), CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS text),
			CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS text), k.at, k.at FROM (SELECT NOW() AS at) AS k`
	// As mount.Row.Used has it.
	orUseMount = ` ON CONFLICT (scope, slug) DO UPDATE SET
		version = bunkroom_mounts.version + CASE WHEN bunkroom_mounts.archived_at IS NULL THEN 0 ELSE 1 END,
		archived_at = NULL, archived_by = '', updated_by = excluded.updated_by, updated_at = CASE
			WHEN bunkroom_mounts.updated_at < excluded.updated_at THEN excluded.updated_at ELSE bunkroom_mounts.updated_at END`
	orNoMount       = ` ON CONFLICT (scope, slug) DO NOTHING`
	returningMount  = ` RETURNING ` + mountColumns
	getOrCreate     = insertMount + orUseMount + returningMount
	getOrCreateFast = insertMountClocked + orUseMount + returningMount
	createMount     = insertMount + orNoMount + returningMount
	findMount       = `SELECT ` + mountColumns + ` FROM bunkroom_mounts WHERE scope = ? AND slug = ?`
	getMount        = `SELECT ` + mountColumns + ` FROM bunkroom_mounts WHERE id = ?`
	holdMount       = getMount + ` FOR UPDATE`
	updateMount     = `UPDATE bunkroom_mounts SET version = ?, name = ?, description = ?, meta = ?,
		updated_by = ?, updated_at = ?, archived_by = ?, archived_at = ? WHERE id = ?`
)

// mountArgs are the values of a new row, but for the clock.
func mountArgs(r mount.Row) []any {
	return []any{string(r.ID), r.Scope, r.Slug, int64(r.Kind), string(r.Purpose), string(r.Agent), string(r.Session),
		r.Name, r.Description, r.Meta, string(r.CreatedBy), string(r.CreatedBy)}
}

func (s mounts) GetOrCreate(ctx context.Context, r mount.Row) (mount.Row, error) {
	if s.host == nil {
		stored, err := s.atOnce(ctx, r)
		// Where transactions are not read committed unless they ask for it, the
		// loser of a race is told so: in one that does it is not.
		if err == nil || ctx.Err() != nil || s.store.writer != nil || !s.store.dialect.RolledBack(err) {
			return stored, err
		}
	}
	var stored mount.Row
	return s.written(ctx, func(ctx context.Context, on place, clock time.Time) error {
		return on.row(ctx, getOrCreate, append(mountArgs(r), micros(clock), micros(clock))...).Scan(mountInto(&stored)...)
	}, &stored)
}

// atOnce is GetOrCreate without a transaction around it: one statement is one
// too. It is what every work begins with.
func (s mounts) atOnce(ctx context.Context, r mount.Row) (mount.Row, error) {
	if err := ctx.Err(); err != nil {
		return mount.Row{}, err
	}
	text, args := getOrCreateFast, mountArgs(r)
	if s.store.writer != nil {
		give, err := s.store.alone(ctx)
		if err != nil {
			return mount.Row{}, err
		}
		defer give()
		clock := micros(s.store.at(time.Time{}))
		text, args, ctx = getOrCreate, append(args, clock, clock), context.WithoutCancel(ctx)
	}
	rows, err := place{view: s.view}.mounts(ctx, text, args...) // read to the end, which is where a commit that fails shows
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("sqlstore: get or create of a mount: %d rows", len(rows))
	}
	if err != nil {
		return mount.Row{}, s.store.fault(err)
	}
	return rows[0], nil
}

// written is what do has scanned, if all went well.
func (s mounts) written(ctx context.Context, do func(ctx context.Context, on place, clock time.Time) error, stored *mount.Row) (mount.Row, error) {
	if err := s.write(ctx, nil, do); err != nil {
		return mount.Row{}, err
	}
	return *stored, nil
}

func (s mounts) Create(ctx context.Context, r mount.Row) (mount.Row, error) {
	var stored mount.Row
	return s.written(ctx, func(ctx context.Context, on place, clock time.Time) error {
		err := on.row(ctx, createMount, append(mountArgs(r), micros(clock), micros(clock))...).Scan(mountInto(&stored)...)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s in scope %s", mount.ErrExists, r.Slug, r.Scope)
		}
		return err
	}, &stored)
}

func (s mounts) Find(ctx context.Context, scope, slug string) (mount.Row, error) {
	return s.one(ctx, fmt.Sprintf("%s in scope %s", slug, scope), findMount, scope, slug)
}

func (s mounts) Get(ctx context.Context, id mount.ID) (mount.Row, error) {
	return s.one(ctx, string(id), getMount, string(id))
}

// one is the row that a statement finds.
func (s mounts) one(ctx context.Context, what, text string, args ...any) (stored mount.Row, err error) {
	err = s.read(ctx, func(ctx context.Context, on place) error {
		return on.row(ctx, text, args...).Scan(mountInto(&stored)...)
	})
	if err != nil {
		return mount.Row{}, noMount(err, what)
	}
	return stored, nil
}

// noMount says of no rows what was not found.
func noMount(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: %s", mount.ErrNotFound, what)
	}
	return err
}

func (s mounts) Update(ctx context.Context, id mount.ID, c mount.Change) (mount.Row, error) {
	var stored mount.Row
	return s.written(ctx, func(ctx context.Context, on place, clock time.Time) error {
		var was mount.Row
		err := on.row(ctx, holdMount, string(id)).Scan(mountInto(&was)...)
		if err != nil {
			return noMount(err, string(id))
		}
		if stored, err = was.Applied(c, clock); err != nil || stored == was {
			return err
		}
		_, err = on.exec(ctx, updateMount, stored.Version, stored.Name, stored.Description, stored.Meta,
			string(stored.UpdatedBy), micros(stored.UpdatedAt), string(stored.ArchivedBy), micros(stored.ArchivedAt), string(id))
		return err
	}, &stored)
}
