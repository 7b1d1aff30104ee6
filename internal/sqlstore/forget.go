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
	// When an earlier program has used a name, which may run still, is not known. It
	// counts from the day on which that is seen: what was used just now is not forgotten.
	undatedFences = `SELECT f.kind, f.name FROM bunkroom_fences AS f WHERE f.used_on = 0 ORDER BY f.kind, f.name LIMIT ?`
	dateFences    = `UPDATE bunkroom_fences SET used_on = ? WHERE kind = ? AND name IN IDS(?) AND used_on = 0`
	forgetFences  = deleteFences + ` AND used_on < ?`
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
	for dated := limit; dated == limit; {
		var err error
		if dated, err = s.date(ctx, limit); err != nil {
			return 0, err
		}
	}
	var since time.Time
	var found fences
	err := s.read(ctx, func(ctx context.Context, on place) error {
		now, err := on.clock(ctx)
		if err != nil {
			return err
		}
		since = now.Add(-unused)
		found, err = on.fences(ctx, unusedFences, dayOf(since), micros(since), limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return s.each(ctx, found, func(ctx context.Context, on place, _ time.Time, kind int64, names string) error {
		return on.forget(ctx, kind, names, since)
	})
}

// date dates at most limit of what has no day, and returns how many that were.
func (s leases) date(ctx context.Context, limit int) (int, error) {
	var found fences
	err := s.read(ctx, func(ctx context.Context, on place) (err error) {
		found, err = on.fences(ctx, undatedFences, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return s.each(ctx, found, func(ctx context.Context, on place, clock time.Time, kind int64, names string) error {
		_, err := on.exec(ctx, dateFences, max(1, dayOf(clock)), kind, names)
		return err
	})
}

// fences are some of them, by their kinds, and the locks under which they are handed out.
type fences struct {
	names map[session.LeaseKind][]string
	locks keys
}

// fences are those that a statement finds.
func (p place) fences(ctx context.Context, text string, args ...any) (fences, error) {
	f := fences{names: map[session.LeaseKind][]string{}}
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return f, err
	}
	defer rows.Close()
	for rows.Next() {
		var kind session.LeaseKind
		var name string
		if err := rows.Scan(num(&kind), str(&name)); err != nil {
			return f, err
		}
		f.names[kind], f.locks = append(f.names[kind], name), append(f.locks, leaseKey(kind, name))
	}
	return f, rows.Err()
}

// each calls do for each kind of f, under the locks of all, and returns how many they are.
func (s leases) each(ctx context.Context, f fences, do func(ctx context.Context, on place, clock time.Time, kind int64, names string) error) (int, error) {
	if len(f.locks) == 0 {
		return 0, nil
	}
	err := s.write(ctx, f.locks, func(ctx context.Context, on place, clock time.Time) error {
		for _, kind := range slices.Sorted(maps.Keys(f.names)) { // the one order in which all come to what is forgotten
			if err := do(ctx, on, clock, int64(kind), idsJSON(slices.Clone(f.names[kind]))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(f.locks), nil
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
