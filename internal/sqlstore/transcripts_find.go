package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// knownEntry is an entry that is there, and where.
type knownEntry struct {
	transcript.Known
	ID   transcript.EntryID
	Kind transcript.Kind
	spot spot // branch 0 of one that was given up
	sums sums
}

const knownColumns = `e.tree, e.branch, e.seq, e.id, e.depth, e.parent, e.kind, e.hash, e.context, e.whole, e.input, e.output, e.cache_read, e.cache_write, e.cost`

func (k *knownEntry) into() []any {
	return append([]any{&k.spot.tree, num(&k.spot.branch), &k.Seq, (*string)(&k.ID), &k.Depth, (*string)(&k.Parent.Entry), (*string)(&k.Kind), &k.Hash, &k.sums.context, &k.sums.whole},
		usageInto(&k.sums.usage)...)
}

// (By the sign databases keep to the id, of which there is one, and leave the index of all seqs.)
const (
	ownEntry  = `SELECT ` + knownColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND +e.seq > ? AND e.id = ?`
	ownMany   = `SELECT ` + knownColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND +e.seq > ? AND e.id IN IDS(?)`
	readEntry = `SELECT ` + knownColumns + ` FROM bunkroom_transcript_reads AS r JOIN bunkroom_transcript_entries AS e ON e.tree = r.source
		WHERE r.tree = ? AND r.source <> r.tree AND +e.seq <= r.through_seq AND e.id = ?`
	readMany = `SELECT ` + knownColumns + ` FROM bunkroom_transcript_reads AS r JOIN bunkroom_transcript_entries AS e ON e.tree = r.source
		WHERE r.tree = ? AND r.source <> r.tree AND +e.seq <= r.through_seq AND e.id IN IDS(?)`
)

// known are the entries of these ids that a tree has, its own or not.
func (p place) known(ctx context.Context, t *tree, ids []transcript.EntryID) (map[transcript.EntryID]*knownEntry, error) {
	found := make(map[transcript.EntryID]*knownEntry, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	own, read, asked := ownEntry, readEntry, any(string(ids[0]))
	if len(ids) > 1 {
		texts := make([]string, len(ids))
		for i, id := range ids {
			texts[i] = string(id)
		}
		own, read, asked = ownMany, readMany, idsJSON(texts)
	}
	if err := p.knownIn(ctx, found, nil, own, t.key, t.baseSeq, asked); err != nil || !t.reads() || len(found) == len(ids) {
		return found, err
	}
	base, err := p.spans(ctx, t.base)
	if err != nil {
		return nil, err
	}
	return found, p.knownIn(ctx, found, base, read, t.key, asked)
}

// knownIn adds what a statement finds: of others' rows what is on the path that a fork began with.
func (p place) knownIn(ctx context.Context, found map[transcript.EntryID]*knownEntry, base []span, text string, args ...any) error {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		k := &knownEntry{}
		if err := rows.Scan(k.into()...); err != nil {
			return err
		}
		k.Parent.Root, k.Aborted = k.Parent.Entry == "", k.spot.branch == 0
		k.spot.depth = k.Depth
		if base == nil || covers(base, k.spot) {
			found[k.ID] = k
		}
	}
	return rows.Err()
}

// span is a stretch of a path, and whose rows it is in.
type span struct {
	spot          // its last
	origin, first int64
}

// covers reports whether an entry is on a path.
func covers(path []span, at spot) bool {
	return slices.ContainsFunc(path, func(s span) bool {
		return s.tree == at.tree && s.branch == at.branch && s.first <= at.depth && at.depth <= s.depth
	})
}

const (
	pathSpans = `WITH RECURSIVE p (n, tree, branch, depth) AS (
		SELECT 0, CAST(? AS bigint), CAST(? AS bigint), CAST(? AS bigint)
		UNION ALL SELECT p.n + 1, b.parent_tree, b.parent_branch, b.parent_depth FROM p BRANCHES AND b.parent_tree IS NOT NULL)
		SELECT p.tree, p.branch, b.origin, b.parent_depth + 1, p.depth FROM p BRANCHES ORDER BY p.n DESC`
	joinBranch = `JOIN bunkroom_transcript_branches AS b ON b.tree = p.tree AND b.branch = p.branch`
	// lookBranch looks each up, as lookMarks does.
	lookBranch = `JOIN LATERAL (SELECT * FROM bunkroom_transcript_branches AS b WHERE b.tree = p.tree AND b.branch = p.branch LIMIT 1) AS b ON true`
)

// spans are the stretches of the path to an entry, root first.
func (p place) spans(ctx context.Context, to spot) (path []span, err error) {
	if to == (spot{}) {
		return nil, nil
	}
	join := joinBranch
	if p.store.dialect.Lateral {
		join = lookBranch
	}
	rows, err := p.rows(ctx, strings.ReplaceAll(pathSpans, "BRANCHES", join), to.tree, to.branch, to.depth)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s span
		if err := rows.Scan(&s.tree, &s.branch, &s.origin, &s.first, &s.depth); err != nil {
			return nil, err
		}
		path = append(path, s)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(path) == 0 || path[0].first != 1 || path[len(path)-1].spot != to {
		return nil, errUprooted
	}
	return path, nil
}

// position is an entry that a path may end with; before the root it is nil.
func (p place) position(ctx context.Context, t *tree, at transcript.Position) (*knownEntry, error) {
	switch {
	case at.IsZero() || at == t.Head:
		if t.Head.Root {
			return nil, nil
		}
		return &knownEntry{Known: transcript.Known{Depth: t.head.depth}, ID: t.Head.Entry, spot: t.head, sums: t.at}, nil
	case at.Root:
		return nil, nil
	}
	found, err := p.known(ctx, t, []transcript.EntryID{at.Entry})
	if err != nil {
		return nil, err
	}
	k, there := found[at.Entry]
	if !there || k.Aborted {
		return nil, fmt.Errorf("%w: entry %s of %s", transcript.ErrNotFound, at.Entry, t.Conversation)
	}
	return k, nil
}

// along calls do with an entry that may end a path, nil before the root; zero is the head.
func (s transcripts) along(ctx context.Context, c access.ConversationID, at transcript.Position, do func(ctx context.Context, on place, t *tree, to *knownEntry) error) error {
	if err := at.Check("Position"); err != nil {
		return err
	}
	_, err := s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		to, err := on.position(ctx, t, at)
		if err != nil {
			return err
		}
		return do(ctx, on, t, to)
	})
	return err
}

// at is where an entry is; nil is before the root.
func (k *knownEntry) at() spot {
	if k == nil {
		return spot{}
	}
	return k.spot
}

func (s transcripts) Spans(ctx context.Context, c access.ConversationID, to transcript.Position) (spans []transcript.Span, err error) {
	err = s.along(ctx, c, to, func(ctx context.Context, on place, t *tree, to *knownEntry) error {
		path, err := on.spans(ctx, to.at())
		spans = nil
		for _, s := range path {
			spans = append(spans, transcript.Span{Tree: strconv.FormatInt(s.origin, 10), Branch: s.branch, From: s.first, To: s.depth})
		}
		return err
	})
	return spans, err
}

func (s transcripts) PathUsage(ctx context.Context, c access.ConversationID, at transcript.Position) (sum transcript.Usage, err error) {
	err = s.along(ctx, c, at, func(_ context.Context, _ place, _ *tree, to *knownEntry) error {
		if to != nil {
			sum = to.sums.usage
		}
		return nil
	})
	return sum, err
}
