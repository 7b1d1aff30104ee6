package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

const (
	// unusedFences are names that nobody has a lease on: a lease of one holder
	// that has expired long ago is none.
	unusedFences = `SELECT f.kind, f.name FROM bunkroom_fences AS f WHERE f.used_on < ?
		AND NOT EXISTS (SELECT 1 FROM bunkroom_leases AS l WHERE l.kind = f.kind AND l.name = f.name AND (l.kind = 1 OR l.until_at > ?))
		ORDER BY f.used_on, f.kind, f.name LIMIT ?`
	forgetExpired = `DELETE FROM bunkroom_leases WHERE kind = ? AND kind <> 1 AND name IN IDS(?) AND until_at <= ?`
	// Fences that go are remembered by the greatest of them.
	raiseForgotten = `INSERT INTO bunkroom_forgotten (kind, fence)
		SELECT f.kind, max(f.fence) FROM bunkroom_fences AS f WHERE f.kind = ? AND f.name IN IDS(?) AND f.used_on < ?
		GROUP BY f.kind HAVING max(f.fence) > COALESCE((SELECT g.fence FROM bunkroom_forgotten AS g WHERE g.kind = ?), 0)
		ON CONFLICT (kind) DO UPDATE SET fence = excluded.fence WHERE bunkroom_forgotten.fence < excluded.fence`
	forgetFences = deleteFences + ` AND used_on < ?`
)

// Forget looks for what is unused first, and then looks again at each with the
// lock under which it would be acquired: whoever acquires it later sees what was forgotten.
func (s leases) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	switch {
	case unused <= 0:
		return 0, field("unused", "must be over 0")
	case limit < 1:
		return 0, field("limit", "must be at least 1")
	}
	var since time.Time
	names, locks := map[session.LeaseKind][]string{}, keys{}
	err := s.read(ctx, func(ctx context.Context, on place) error {
		now, err := on.clock(ctx)
		if err != nil {
			return err
		}
		since = now.Add(-unused)
		rows, err := on.rows(ctx, unusedFences, dayOf(since), micros(since), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var kind session.LeaseKind
			var name string
			if err := rows.Scan(num(&kind), str(&name)); err != nil {
				return err
			}
			names[kind], locks = append(names[kind], name), append(locks, leaseKey(kind, name))
		}
		return rows.Err()
	})
	if err != nil || len(locks) == 0 {
		return 0, err
	}
	err = s.write(ctx, locks, func(ctx context.Context, on place, _ time.Time) error {
		for _, kind := range slices.Sorted(maps.Keys(names)) { // the one order in which all come to what is forgotten
			if err := on.forget(ctx, int64(kind), idsJSON(names[kind]), since); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(locks), nil
}

func (p place) forget(ctx context.Context, kind int64, names string, since time.Time) error {
	for _, do := range []struct {
		text string
		args []any
	}{
		{forgetExpired, []any{kind, names, micros(since)}},
		{raiseForgotten, []any{kind, names, dayOf(since), kind}},
		{forgetFences, []any{kind, names, dayOf(since)}},
	} {
		if _, err := p.exec(ctx, do.text, do.args...); err != nil {
			return err
		}
	}
	return nil
}

// dayOf is the day of t, as the days are counted on which fences were used.
func dayOf(t time.Time) int64 { return t.Unix() / int64(24*time.Hour/time.Second) }
