package sqlstore

import (
	"context"
	"iter"

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
			var found []session.Due
			err := s.read(ctx, func(ctx context.Context, on place) (err error) {
				found, err = on.due(ctx, kind, q)
				return err
			})
			if err != nil {
				if !yield(session.Due{Kind: kind}, err) {
					return
				}
				continue
			}
			for _, d := range found { // no rows are open: the caller may commit
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// due reads what is of one kind.
func (p place) due(ctx context.Context, kind session.DueKind, q session.DueQuery) ([]session.Due, error) {
	hosts := make([]string, 0, len(q.Hosts))
	for _, h := range q.Hosts {
		if access.CheckID("Hosts", h) == nil { // another can't be anybody's
			hosts = append(hosts, h)
		}
	}
	now, err := p.clock(ctx)
	if err != nil {
		return nil, err
	}
	list := p.store.bun.NewSelect().Conn(p.conn()).Limit(int64(q.Limit))
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
			ColumnExpr(sandboxColumns).ColumnExpr(sessionColumns).ColumnExpr(environmentColumns).
			Where("b.state = ?", s.String()).
			OrderExpr("b.since, b.version, b.id")
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
			Join(p.store.named("LEFT JOIN bunkroom_sandboxes AS b ON b.id = o.sandbox_id")).
			ColumnExpr(sandboxColumns).ColumnExpr(tombstoneColumns).
			OrderExpr("o.since, o.attempts, o.sandbox_id, o.generation, o.incarnation")
		boundTo("o.host")
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
		found = append(found, d)
	}
	return found, rows.Err()
}
