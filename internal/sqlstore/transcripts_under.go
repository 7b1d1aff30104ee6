package sqlstore

import (
	"context"
	"slices"
	"strings"
)

// What is below an entry is found by branches: the rest of its own and, from
// there on, those that begin on one that was found. No entry is followed to the next.

const (
	// Stretches to begin with are given; of those that end, the end is theirs.
	underBranches = `WITH RECURSIVE p (tree, branch, first, last) AS (
		SELECT r.tree, r.branch, r.first, r.last FROM ROWS(tree bigint, branch bigint, first bigint, last bigint) AS r
		UNION ALL SELECT b.tree, b.branch, b.parent_depth + 1, CAST(9223372036854775807 AS bigint) FROM p BRANCHES)
		SELECT ` + ownHeader + ` FROM (SELECT x.tree, x.seq FROM p ENTRIES ORDER BY x.seq LIMIT ?) AS n
		JOIN bunkroom_transcript_entries AS e ON e.tree = n.tree AND e.seq = n.seq ORDER BY e.seq`
	rootBranches = `SELECT k.branch FROM bunkroom_transcript_branches AS k WHERE k.tree = ? AND k.parent_depth = 0 AND k.branch > ?`

	onBranch  = `bunkroom_transcript_branches AS b WHERE b.parent_tree = p.tree AND b.parent_branch = p.branch AND b.parent_depth BETWEEN p.first - 1 AND p.last AND b.tree = ? AND b.branch > ? AND b.parent_depth < ?`
	ofBranch  = `bunkroom_transcript_entries AS x WHERE x.tree = p.tree AND x.branch = p.branch AND x.depth >= p.first AND x.depth <= p.last AND x.depth <= ? AND x.tree = ? AND x.seq > ?`
	lookEach  = `JOIN LATERAL (SELECT * FROM `
	lookedFor = ` OFFSET 0) AS `
)

// underStatement is underBranches as the dialect looks things up one by one.
func (s *store) underStatement() string {
	branches, entries := "JOIN "+strings.Replace(onBranch, " WHERE ", " ON ", 1), "JOIN "+strings.Replace(ofBranch, " WHERE ", " ON ", 1)
	if s.dialect.Lateral {
		branches, entries = lookEach+onBranch+lookedFor+"b ON true", lookEach+ofBranch+lookedFor+"x ON true"
	}
	return strings.NewReplacer("BRANCHES", branches, "ENTRIES", entries).Replace(underBranches)
}

// below is a stretch that has something of what is below an entry.
type below struct{ tree, branch, first, last int64 }

// under are the oldest of what is below what was asked for: of the path that a fork began with first, and then of its own.
func (h *headers) under(ctx context.Context, after int64, most int) (found []header, err error) {
	t, at := h.t, h.of.at()
	deepest := int64(unread)
	if h.asked.Levels > 0 {
		deepest = at.depth + min(int64(h.asked.Levels), 1<<40)
	}
	var from []below
	on := at == spot{} // the path goes through it
	for _, s := range h.base {
		first := s.first
		if covers([]span{s}, at) {
			on, first = true, at.depth+1
		}
		if !on {
			continue
		}
		from = append(from, below{s.tree, s.branch, first, s.depth})
		if to := min(s.depth, deepest); first <= to && len(found) < most {
			more, err := h.headersOf(ctx, nil, most-len(found), readHeaders, append(slices.Clone(h.shared), s.tree, s.branch, first, to, after, most-len(found))...)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	if len(found) >= most {
		return found, nil
	}
	switch {
	case at == spot{}:
		roots, err := h.roots(ctx)
		if err != nil {
			return nil, err
		}
		from = append(from, roots...)
	case at.tree == t.key:
		from = append(from, below{at.tree, at.branch, at.depth + 1, unread})
	}
	if len(from) == 0 {
		return found, nil
	}
	text, args := h.store.table(h.store.underStatement(),
		numbers(from, func(b *below) int64 { return b.tree }), numbers(from, func(b *below) int64 { return b.branch }),
		numbers(from, func(b *below) int64 { return b.first }), numbers(from, func(b *below) int64 { return b.last }))
	more, err := h.headersOf(ctx, nil, most-len(found), text,
		append(args, t.key, t.baseSeq, deepest, deepest, t.key, max(after, t.baseSeq), most-len(found))...)
	return append(found, more...), err
}

// roots are the tree's own branches that begin at a root.
func (h *headers) roots(ctx context.Context) (from []below, err error) {
	rows, err := h.rows(ctx, rootBranches, h.t.key, h.t.baseSeq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		b := below{h.t.key, 0, 1, unread}
		if err := rows.Scan(&b.branch); err != nil {
			return nil, err
		}
		from = append(from, b)
	}
	return from, rows.Err()
}
