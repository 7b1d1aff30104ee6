package memory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// mountKey is what a mount is found by.
type mountKey struct{ scope, slug string }

// folders are the mounts.
type folders struct {
	rows map[mountKey]mount.Row
	keys map[mount.ID]mountKey
	left map[mount.ID]mount.Tombstone // of what is deleted
}

func newFolders() folders {
	return folders{map[mountKey]mount.Row{}, map[mount.ID]mountKey{}, map[mount.ID]mount.Tombstone{}}
}

func (f folders) byID(id mount.ID) (mount.Row, bool) {
	key, there := f.keys[id]
	return f.rows[key], there
}

func (f folders) put(r mount.Row) {
	key := mountKey{r.Scope, r.Slug}
	f.rows[key], f.keys[r.ID] = r, key
}

// insert puts in r as it is when new, unless its id is taken.
func (f folders) insert(r mount.Row, now time.Time) (mount.Row, error) {
	_, there := f.keys[r.ID]
	if _, left := f.left[r.ID]; there || left {
		return mount.Row{}, fmt.Errorf("memory: mount %s exists with another scope or slug, or did", r.ID)
	}
	r.Version, r.UpdatedBy = 1, r.CreatedBy
	r.CreatedAt, r.UpdatedAt = now, now
	r.ArchivedBy, r.ArchivedAt = "", time.Time{}
	f.put(r)
	return r, nil
}

// oldest orders rows as lists do.
func oldest(a, b mount.Row) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

type mountStore struct{ db *DB }

var _ mount.Store = mountStore{}

// locked calls do with the lock held, unless ctx has ended.
func (s mountStore) locked(ctx context.Context, do func(f folders, now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return do(s.db.mounts, s.db.clock())
}

func (s mountStore) GetOrCreate(ctx context.Context, r mount.Row) (row mount.Row, err error) {
	err = s.locked(ctx, func(f folders, now time.Time) (err error) {
		stored, there := f.rows[mountKey{r.Scope, r.Slug}]
		if !there {
			row, err = f.insert(r, now)
			return err
		}
		row = stored.Used(r.CreatedBy, now)
		f.put(row)
		return nil
	})
	return row, err
}

func (s mountStore) Create(ctx context.Context, r mount.Row) (row mount.Row, err error) {
	err = s.locked(ctx, func(f folders, now time.Time) (err error) {
		if _, there := f.rows[mountKey{r.Scope, r.Slug}]; there {
			return fmt.Errorf("%w: %s in scope %s", mount.ErrExists, r.Slug, r.Scope)
		}
		row, err = f.insert(r, now)
		return err
	})
	return row, err
}

func (s mountStore) Find(ctx context.Context, scope, slug string) (row mount.Row, err error) {
	err = s.locked(ctx, func(f folders, _ time.Time) error {
		stored, there := f.rows[mountKey{scope, slug}]
		if !there {
			return fmt.Errorf("%w: %s in scope %s", mount.ErrNotFound, slug, scope)
		}
		row = stored
		return nil
	})
	return row, err
}

func (s mountStore) Get(ctx context.Context, id mount.ID) (row mount.Row, err error) {
	err = s.locked(ctx, func(f folders, _ time.Time) error {
		stored, there := f.byID(id)
		if !there {
			return fmt.Errorf("%w: %s", mount.ErrNotFound, id)
		}
		row = stored
		return nil
	})
	return row, err
}

func (s mountStore) Update(ctx context.Context, id mount.ID, c mount.Change) (row mount.Row, err error) {
	err = s.locked(ctx, func(f folders, now time.Time) (err error) {
		stored, there := f.byID(id)
		if !there {
			return fmt.Errorf("%w: %s", mount.ErrNotFound, id)
		}
		if row, err = stored.Applied(c, now); err == nil {
			f.put(row)
		}
		return err
	})
	return row, err
}
