package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

func (s mountStore) List(ctx context.Context, q mount.ListQuery) (page mount.Page, err error) {
	after, err := checkMounts(q)
	if err != nil {
		return mount.Page{}, err
	}
	err = s.locked(ctx, func(f folders, _ time.Time) error {
		var found []mount.Row
		for key, r := range f.rows {
			if key.scope == q.Scope && !r.Protected() && (q.Archived || !r.Archived()) &&
				(q.Session == "" || r.Session == q.Session) && (q.Agent == "" || r.Agent == q.Agent) &&
				(q.After == "" || newest(place{r.CreatedAt, string(r.ID)}, after) < 0) {
				found = append(found, r)
			}
		}
		slices.SortFunc(found, oldest)
		if len(found) > q.Limit {
			found = found[:q.Limit]
			last := found[q.Limit-1]
			page.Next = place{last.CreatedAt, string(last.ID)}.token()
		}
		page.Items = found
		return nil
	})
	return page, err
}

func checkMounts(q mount.ListQuery) (after place, err error) {
	if q.Scope == "" {
		return place{}, &access.FieldError{Field: "Scope", Rule: "must be set"}
	}
	if err := checkMountLimit("Limit", q.Limit); err != nil || q.After == "" {
		return place{}, err
	}
	after, ok := parsePlace(q.After)
	if !ok {
		return place{}, &access.FieldError{Field: "After", Rule: "must be Next of an earlier page"}
	}
	return after, nil
}

func checkMountLimit(field string, limit int) error {
	if limit < 1 || limit > mount.MaxListed {
		return &access.FieldError{Field: field, Rule: fmt.Sprintf("must be 1 to %d", mount.MaxListed)}
	}
	return nil
}

func (s mountStore) Delete(ctx context.Context, t mount.Target, limit int) (gone []mount.Row, err error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if err := checkMountLimit("limit", limit); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(f folders, now time.Time) error {
		for _, r := range f.rows {
			old := r.Archived() && !r.ArchivedAt.After(now.Add(-t.Archived))
			if (t.Scope == "" || r.Scope == t.Scope) && (t.Session == "" || r.Session == t.Session) && (t.Archived == 0 || old) &&
				(t.ID == "" || r.ID == t.ID) && (t.Version == 0 || r.Version == t.Version) {
				gone = append(gone, r)
			}
		}
		slices.SortFunc(gone, oldest)
		gone = gone[:min(limit, len(gone))]
		for _, r := range gone {
			delete(f.rows, mountKey{r.Scope, r.Slug})
			delete(f.keys, r.ID)
			f.left[r.ID] = mount.Tombstone{ID: r.ID, Scope: r.Scope, Session: r.Session}
		}
		return nil
	})
	return gone, err
}

func (s mountStore) Scan(ctx context.Context, after mount.ID, limit int) (found []mount.Row, err error) {
	if err := checkMountLimit("limit", limit); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(f folders, _ time.Time) error {
		for _, r := range f.rows {
			if r.ID > after {
				found = append(found, r)
			}
		}
		slices.SortFunc(found, func(a, b mount.Row) int { return cmp.Compare(a.ID, b.ID) })
		found = found[:min(limit, len(found))]
		return nil
	})
	return found, err
}

func (s mountStore) Tombstones(ctx context.Context, t mount.Target, after mount.ID, limit int) (found []mount.Tombstone, err error) {
	if err := checkMountLimit("limit", limit); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(f folders, _ time.Time) error {
		for id, left := range f.left {
			if id > after && (t.Scope == "" || left.Scope == t.Scope) && (t.Session == "" || left.Session == t.Session) {
				found = append(found, left)
			}
		}
		slices.SortFunc(found, func(a, b mount.Tombstone) int { return cmp.Compare(a.ID, b.ID) })
		found = found[:min(limit, len(found))]
		return nil
	})
	return found, err
}

func (s mountStore) Forget(ctx context.Context, ids []mount.ID) error {
	return s.locked(ctx, func(f folders, _ time.Time) error {
		for _, id := range ids {
			delete(f.left, id)
		}
		return nil
	})
}
