package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// mountListing is the statement for a page, and its arguments. There are a few
// of them, by what is asked, and each is prepared once.
func mountListing(q mount.ListQuery, after token) (text string, args []any) {
	var b strings.Builder
	b.WriteString(`SELECT ` + mountColumns + ` FROM bunkroom_mounts WHERE scope = ? AND purpose = ''`)
	args = append(args, q.Scope)
	where := func(condition string, with ...any) {
		b.WriteString(" AND " + condition)
		args = append(args, with...)
	}
	if q.Session != "" {
		where("session_id = ? AND session_id <> ''", string(q.Session)) // which it is; the index says so too
	}
	if q.Agent != "" {
		where("agent = ? AND agent <> ''", string(q.Agent))
	}
	if !q.Archived {
		where("archived_at IS NULL")
	}
	if q.After != "" {
		where("(created_at, id) > (?, ?)", after.at.UnixMicro(), after.id)
	}
	b.WriteString(" ORDER BY created_at, id LIMIT ?")
	return b.String(), append(args, q.Limit+1) // one more, to know whether there is more
}

func (s mounts) List(ctx context.Context, q mount.ListQuery) (mount.Page, error) {
	if q.Scope == "" {
		return mount.Page{}, field("Scope", "must be set")
	}
	if err := mountLimit("Limit", q.Limit); err != nil {
		return mount.Page{}, err
	}
	var after token
	if q.After != "" {
		var ok bool
		if after, ok = parseToken(q.After); !ok {
			return mount.Page{}, field("After", "must be Next of an earlier page")
		}
	}
	text, args := mountListing(q, after)
	var page mount.Page
	err := s.read(ctx, func(ctx context.Context, on place) (err error) {
		page.Items, err = on.mounts(ctx, text, args...)
		return err
	})
	if err != nil {
		return mount.Page{}, err
	}
	if len(page.Items) > q.Limit {
		page.Items = page.Items[:q.Limit]
		last := page.Items[q.Limit-1]
		page.Next = token{last.CreatedAt, string(last.ID)}.String()
	}
	return page, nil
}

func mountLimit(name string, limit int) error {
	if limit < 1 || limit > mount.MaxListed {
		return field(name, fmt.Sprintf("must be 1 to %d", mount.MaxListed))
	}
	return nil
}

// mounts are the rows that a statement answers with.
func (p place) mounts(ctx context.Context, text string, args ...any) (found []mount.Row, err error) {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var r mount.Row
	into := mountInto(&r)
	for rows.Next() {
		if err := rows.Scan(into...); err != nil { // every column is set, also where it is NULL
			return nil, err
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// Rows to delete are locked in one order, and looked at again once they are: whoever was faster may have used one.
const (
	scopeMounts    = `SELECT id FROM bunkroom_mounts WHERE scope = ? ORDER BY slug LIMIT ?`
	sessionMounts  = `SELECT id FROM bunkroom_mounts WHERE session_id = ? AND session_id <> '' ORDER BY scope, created_at, id LIMIT ?`
	archivedMounts = `SELECT id FROM bunkroom_mounts WHERE archived_at IS NOT NULL AND archived_at <= ? ORDER BY archived_at, id LIMIT ?`
	oneMount       = `SELECT id FROM bunkroom_mounts WHERE id = ?`
	scanMounts     = `SELECT ` + mountColumns + ` FROM bunkroom_mounts WHERE id > ? ORDER BY id LIMIT ?`
	deleteMounts   = `WITH d AS MATERIALIZED (`
	ofThoseMounts  = ` FOR UPDATE) DELETE FROM bunkroom_mounts WHERE id IN (SELECT id FROM d) RETURNING ` + mountColumns
)

func (s mounts) Delete(ctx context.Context, t mount.Target, limit int) ([]mount.Row, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if err := mountLimit("limit", limit); err != nil {
		return nil, err
	}
	var gone []mount.Row
	err := s.write(ctx, nil, func(ctx context.Context, on place, clock time.Time) (err error) {
		which, args := mountTarget(t, clock)
		gone, err = on.mounts(ctx, deleteMounts+which+ofThoseMounts, append(args, limit)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// mountTarget is the statement that finds what is meant to go, and its arguments but for the limit.
func mountTarget(t mount.Target, clock time.Time) (text string, args []any) {
	long := clock.Add(-t.Archived).UnixMicro()
	switch {
	case t.Scope != "":
		return scopeMounts, []any{t.Scope}
	case t.Session != "":
		return sessionMounts, []any{string(t.Session)}
	case t.ID == "":
		return archivedMounts, []any{long}
	}
	text, args = oneMount, []any{string(t.ID)}
	if t.Version != 0 {
		text, args = text+` AND version = ?`, append(args, t.Version)
	}
	if t.Archived > 0 {
		text, args = text+` AND archived_at IS NOT NULL AND archived_at <= ?`, append(args, long)
	}
	return text + ` LIMIT ?`, args
}

func (s mounts) Scan(ctx context.Context, after mount.ID, limit int) (found []mount.Row, err error) {
	if err := mountLimit("limit", limit); err != nil {
		return nil, err
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(ctx context.Context, on place) (err error) {
		found, err = on.mounts(ctx, scanMounts, string(after), limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (s mounts) Tombstones(ctx context.Context, t mount.Target, after mount.ID, limit int) ([]mount.Tombstone, error) {
	if err := mountLimit("limit", limit); err != nil {
		return nil, err
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	text, args := `SELECT id, scope, session_id FROM bunkroom_mount_tombstones WHERE id > ?`, []any{string(after)}
	if t.Scope != "" {
		text, args = text+` AND scope = ?`, append(args, t.Scope)
	}
	if t.Session != "" {
		text, args = text+` AND session_id = ? AND session_id <> ''`, append(args, string(t.Session))
	}
	var left []mount.Tombstone
	err := s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, text+` ORDER BY id LIMIT ?`, append(args, limit)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t mount.Tombstone
			if err := rows.Scan(str(&t.ID), str(&t.Scope), str(&t.Session)); err != nil {
				return err
			}
			left = append(left, t)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return left, nil
}

const forgetMounts = `DELETE FROM bunkroom_mount_tombstones WHERE id IN IDS(?)`

func (s mounts) Forget(ctx context.Context, ids []mount.ID) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return s.write(ctx, nil, func(ctx context.Context, on place, _ time.Time) error {
		_, err := on.exec(ctx, forgetMounts, string(text))
		return err
	})
}
