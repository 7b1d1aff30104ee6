package sqlstore

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Due reads the page of one kind after the other. Where one can't be read, the
// error is yielded in its place and the others still follow.
func (s sessions) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	return func(yield func(session.Due, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(session.Due{}, err)
			return
		}
		if q.Limit < 1 {
			yield(session.Due{}, field("Limit", "must be at least 1"))
			return
		}
		for _, kind := range []session.DueKind{session.DueCreating, session.DueDestroying, session.DueTombstones, session.DueLive, session.DueIdle} {
			if q.Kinds&kind == 0 {
				continue
			}
			for found, err := range s.duePages(ctx, kind, q) {
				if err != nil {
					if !yield(session.Due{Kind: kind}, err) {
						return
					}
					continue
				}
				for i := range found { // no rows are open: the caller may commit
					if !yield(found[i], nil) {
						return
					}
				}
			}
		}
	}
}

// duePage is how many are held at a time: each takes a kilobyte.
const duePage = 500

// duePages reads what is of one kind: of more than a page first which they are,
// and then a page of them at a time, without those that are not due any more.
func (s sessions) duePages(ctx context.Context, kind session.DueKind, q session.DueQuery) iter.Seq2[[]session.Due, error] {
	return func(yield func([]session.Due, error) bool) {
		whole := func(of []sandbox.TombstoneKey) (found []session.Due, err error) {
			err = s.read(ctx, func(ctx context.Context, on place) (err error) {
				found, err = on.due(ctx, kind, q, of)
				return err
			})
			return found, err
		}
		if q.Limit <= duePage {
			yield(whole(nil))
			return
		}
		var keys []sandbox.TombstoneKey
		err := s.read(ctx, func(ctx context.Context, on place) (err error) {
			keys, err = on.dueKeys(ctx, kind, q)
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for page := range slices.Chunk(keys, duePage) {
			found, err := whole(page)
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// dueKeys are the keys of what is of one kind; of a sandbox it is its ID alone.
func (p place) dueKeys(ctx context.Context, kind session.DueKind, q session.DueQuery) (keys []sandbox.TombstoneKey, err error) {
	list, _, err := p.dueList(ctx, kind, q)
	if err != nil {
		return nil, err
	}
	longest(list, kind, q.Limit)
	if kind == session.DueTombstones {
		list.ColumnExpr("o.sandbox_id, o.generation, o.incarnation")
	} else {
		list.ColumnExpr("b.id, 0, ''")
	}
	rows, err := list.Rows(ctx)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var k sandbox.TombstoneKey
		if err := rows.Scan(&k.Sandbox, &k.Generation, &k.Incarnation); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// due reads what is of one kind, in its order; with keys only those of them that still are, in theirs.
func (p place) due(ctx context.Context, kind session.DueKind, q session.DueQuery, keys []sandbox.TombstoneKey) ([]session.Due, error) {
	list, now, err := p.dueList(ctx, kind, q)
	if err != nil {
		return nil, err
	}
	columns, id := []string{sandboxColumns, sessionColumns, environmentColumns}, "b.id"
	if kind == session.DueTombstones {
		columns, id = []string{sandboxColumns, tombstoneColumns}, "o.sandbox_id"
	}
	for _, c := range columns {
		list.ColumnExpr(c)
	}
	order := make(map[sandbox.TombstoneKey]int, len(keys))
	if keys == nil {
		longest(list, kind, q.Limit)
	} else { // and not in its order, for which a database might go through all that there is
		ids := make([]string, len(keys))
		for i, k := range keys {
			ids[i], order[k] = string(k.Sandbox), i
		}
		list.Where("? IN (?)", bun.Ident(id), bun.List(ids))
	}
	rows, err := list.Rows(ctx)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []session.Due
	for rows.Next() {
		d := session.Due{Kind: kind, Snapshot: session.Snapshot{Now: now}}
		rest := append(sessionInto(&d.Snapshot.Session), environmentInto(&d.Snapshot.Environment)...)
		if kind == session.DueTombstones {
			rest = tombstoneInto(&d.Tombstone)
		}
		if err := rows.Scan(append(sandboxInto(&d.Snapshot.Sandbox), rest...)...); err != nil {
			return nil, err
		}
		if _, asked := order[dueKey(&d)]; keys == nil || asked {
			found = append(found, d)
		}
	}
	if keys != nil {
		slices.SortFunc(found, func(a, b session.Due) int { return cmp.Compare(order[dueKey(&a)], order[dueKey(&b)]) })
	}
	return found, rows.Err()
}

// dueKey is the key of what is due, as dueKeys has it.
func dueKey(d *session.Due) sandbox.TombstoneKey {
	if d.Kind == session.DueTombstones {
		return d.Tombstone.TombstoneKey
	}
	return sandbox.TombstoneKey{Sandbox: d.Snapshot.Sandbox.ID}
}

// longest has a dueList find those that wait longest, at most so many, in the order of an index.
func longest(list *bun.SelectQuery, kind session.DueKind, most int) {
	order := "b.since, b.version, b.id"
	if kind == session.DueTombstones {
		order = "o.since, o.attempts, o.sandbox_id, o.generation, o.incarnation"
	}
	list.OrderExpr(order).Limit(int64(most))
}

// dueList is the query for what is of one kind, without its columns and in no order, and the clock that it goes by.
func (p place) dueList(ctx context.Context, kind session.DueKind, q session.DueQuery) (*bun.SelectQuery, time.Time, error) {
	hosts := make([]string, 0, len(q.Hosts))
	for _, h := range q.Hosts {
		if access.CheckID("Hosts", h) == nil { // another can't be anybody's
			hosts = append(hosts, h)
		}
	}
	now, err := p.clock(ctx)
	if err != nil {
		return nil, now, err
	}
	list := p.store.bun.NewSelect().Conn(p.conn())
	boundTo := func(column string) {
		if q.OnlyHosts {
			list.Where("? IN (?)", bun.Ident(column), bun.List(hosts))
			return
		}
		list.Where("? = '' OR ? IN (?)", bun.Ident(column), bun.Ident(column), bun.List(hosts))
	}
	sandboxes := func(s sandbox.State) {
		list.TableExpr(p.store.named("bunkroom_sandboxes AS b")).
			Join(p.store.named("LEFT JOIN bunkroom_sessions AS s ON s.id = b.session_id")).
			Join(p.store.named("LEFT JOIN bunkroom_environments AS e ON e.id = b.environment_id")).
			Where("b.state = ?", s.String())
		boundTo("b.host")
	}
	switch kind {
	case session.DueCreating:
		sandboxes(sandbox.Creating)
		if !q.OnlyHosts {
			list.Where("b.deadline IS NULL OR b.deadline <= ?", now.UnixMicro())
		}
	case session.DueDestroying:
		sandboxes(sandbox.Destroying)
	case session.DueLive:
		sandboxes(sandbox.Live)
		if q.Unseen > 0 {
			list.Where("b.since <= ?", now.Add(-q.Unseen).UnixMicro())
		}
	case session.DueIdle:
		sandboxes(sandbox.Live)
		list.Where("s.id IS NOT NULL AND s.ended_at IS NULL") // which sandboxes of environments have none of
		if q.Idle > 0 {
			list.Where("s.last_active_at <= ?", now.Add(-q.Idle).UnixMicro())
		}
	case session.DueTombstones:
		list.TableExpr(p.store.named("bunkroom_outbox AS o")).
			Join(p.store.named("LEFT JOIN bunkroom_sandboxes AS b ON b.id = o.sandbox_id"))
		boundTo("o.host")
	}
	return list, now, nil
}
