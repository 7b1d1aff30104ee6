package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func (s transcripts) Fork(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
	if err := f.Check(); err != nil {
		return transcript.Transcript{}, err
	}
	if forkable(f) {
		row, err := s.forkOnce(ctx, f)
		if !errors.Is(err, errRefused) {
			return row, err
		}
	}
	var row transcript.Transcript
	err := s.change(ctx, func(ctx context.Context, on place, clock time.Time) (err error) {
		row, err = on.fork(ctx, f, clock)
		return err
	})
	if err != nil {
		return transcript.Transcript{}, err
	}
	return row, nil
}

func (p place) fork(ctx context.Context, f transcript.Fork, clock time.Time) (row transcript.Transcript, err error) {
	source, lost := p.find(ctx, readsTree, f.From)
	var (
		facts transcript.ForkFacts
		end   transcript.Position
		k     *knownEntry
	)
	if lost == nil {
		if facts, k, err = p.forkFacts(ctx, source, f); err != nil {
			return row, err
		}
		end, lost = f.End(facts)
	} else if !errors.Is(lost, transcript.ErrNotFound) {
		return row, lost
	}
	if lost != nil {
		return p.forked(ctx, f, end, lost)
	}
	switch {
	case end.Root:
		k = &knownEntry{}
	case end != facts.At:
		found, err := p.known(ctx, source, []transcript.EntryID{end.Entry})
		if err != nil {
			return row, err
		}
		if k = found[end.Entry]; k == nil {
			return row, errDisagrees
		}
	}
	return p.grow(ctx, source, f, end, k, clock)
}

// forked is the fork that is there already; where there is nothing, why none is made.
func (p place) forked(ctx context.Context, f transcript.Fork, end transcript.Position, lost error) (row transcript.Transcript, err error) {
	switch there, err := p.find(ctx, loadTree, f.To); {
	case err == nil && f.Made(there.Transcript, end):
		return there.Transcript, nil
	case err == nil:
		return row, fmt.Errorf("%w: %s", transcript.ErrExists, f.To)
	case !errors.Is(err, transcript.ErrNotFound):
		return row, err
	}
	return row, lost
}

// forkFacts are the facts that a fork rests on, and the entry.
func (p place) forkFacts(ctx context.Context, source *tree, f transcript.Fork) (transcript.ForkFacts, *knownEntry, error) {
	facts := transcript.ForkFacts{Source: source.Transcript, At: f.At}
	if facts.At.IsZero() {
		facts.At = source.Head
	}
	if facts.At.Root {
		return facts, nil, nil
	}
	found, err := p.known(ctx, source, []transcript.EntryID{facts.At.Entry})
	k := found[facts.At.Entry]
	if k != nil {
		facts.Known, facts.Kind, facts.There = k.Known, k.Kind, true
	}
	return facts, k, err
}

// grow makes the fork, which begins with the path to k; the zero k is before the root.
func (p place) grow(ctx context.Context, source *tree, f transcript.Fork, end transcript.Position, k *knownEntry, clock time.Time) (transcript.Transcript, error) {
	row, fact := f.Row(source.Transcript, end, k.sums.usage, clock)
	t := &tree{Transcript: row, head: k.spot, at: k.sums}
	if f.ByReference && k.spot != (spot{}) {
		t.base, t.baseSeq = k.spot, source.LastSeq
	}
	path, err := p.spans(ctx, k.spot)
	if err != nil {
		return row, err
	}
	switch made, err := p.plant(ctx, t); {
	case err != nil:
		return row, err
	case !made:
		return p.forked(ctx, f, end, errDisagrees)
	}
	sees, err := p.sight(ctx, source)
	if err != nil {
		return row, err
	}
	through := func(tree int64) int64 {
		if tree == source.key {
			return source.LastSeq
		}
		return sees.through(tree)
	}
	if f.ByReference {
		err = p.readFrom(ctx, t, path, through)
	} else {
		err = p.copyPath(ctx, t, path, through)
	}
	if err != nil {
		return row, err
	}
	if err := p.takeLabels(ctx, t, source, path); err != nil {
		return row, err
	}
	if f.Refs {
		if err := p.takeRefs(ctx, t, source, path); err != nil {
			return row, err
		}
	}
	return row, p.insert(ctx, intoFacts, [][]any{factArgs(t.key, fact, clock)})
}

// readFrom has a tree read the rows of a path.
func (p place) readFrom(ctx context.Context, t *tree, path []span, through func(tree int64) int64) error {
	done, rows := map[int64]bool{}, [][]any{}
	for _, s := range path {
		if !done[s.tree] {
			rows = append(rows, []any{t.key, s.tree, through(s.tree)})
		}
		done[s.tree] = true
	}
	return p.insert(ctx, intoReads, rows)
}

const moveHome = `UPDATE bunkroom_transcripts SET head_tree = tree WHERE tree = ? AND head_tree <> 0`

// copyPath gives a tree rows of its own for a path.
func (p place) copyPath(ctx context.Context, t *tree, path []span, through func(tree int64) int64) error {
	for i := range path {
		if err := p.copyStretch(ctx, t, path, i, path[i].first, path[i].depth, through(path[i].tree)); err != nil {
			return err
		}
	}
	_, err := p.exec(ctx, moveHome, t.key)
	return err
}

const (
	copyEntries = intoEntries + `SELECT CAST(? AS bigint), e.seq, e.id, e.branch, e.depth, e.parent, e.kind, e.turn, e.actor, e.hash, e.bytes, e.calls,
		e.context, e.whole, e.input, e.output, e.cache_read, e.cache_write, e.cost, e.created_at, e.preview, e.body
		FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ? ORDER BY e.depth`
	copyCalls = intoCalls + `SELECT CAST(? AS bigint), c.seq, c.call_id, CASE WHEN c.settled_at <= r.through_seq THEN c.status ELSE 'interrupted' END,
		CASE WHEN c.settled_at <= r.through_seq THEN c.settled_at ELSE r.through_seq END, CASE WHEN c.settled_at <= r.through_seq THEN c.hash ELSE '' END,
		CASE WHEN c.settled_at <= r.through_seq THEN c.size ELSE 0 END, CASE WHEN c.settled_at <= r.through_seq THEN c.result END
		FROM ROWS1(through_seq bigint) AS r CROSS JOIN bunkroom_transcript_entries AS e JOIN bunkroom_transcript_calls AS c ON c.tree = e.tree AND c.seq = e.seq
		WHERE e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ? AND e.calls > 0`
	copyUses = `INSERT INTO bunkroom_transcript_uses (tree, hash, seq, since)
		SELECT CAST(? AS bigint), u.hash, u.seq, u.since FROM bunkroom_transcript_entries AS e JOIN bunkroom_transcript_uses AS u ON u.tree = e.tree AND u.seq = e.seq
		WHERE u.since <= ? AND e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ?`
	copyBlobs = `INSERT INTO bunkroom_transcript_blobs (tree, hash, size, data)
		SELECT CAST(? AS bigint), b.hash, b.size, b.data FROM bunkroom_transcript_blobs AS b WHERE b.tree = ? AND b.hash IN
			(SELECT u.hash FROM bunkroom_transcript_entries AS e JOIN bunkroom_transcript_uses AS u ON u.tree = e.tree AND u.seq = e.seq
			WHERE u.since <= ? AND e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ?)
		ON CONFLICT DO NOTHING`
)

// copyStretch copies some of a stretch of a path.
func (p place) copyStretch(ctx context.Context, t *tree, path []span, i int, from, to, through int64) error {
	s := path[i]
	if from == s.first {
		args := []any{t.key, s.branch, s.origin, nil, nil, 0}
		if i > 0 {
			args = []any{t.key, s.branch, s.origin, t.key, path[i-1].branch, path[i-1].depth}
		}
		if _, err := p.exec(ctx, openBranch, args...); err != nil {
			return err
		}
	}
	n, err := p.exec(ctx, copyEntries, t.key, s.tree, s.branch, from, to)
	if err != nil {
		return err
	}
	if n != to-from+1 {
		return errUprooted
	}
	if _, err := p.exec(ctx, copyCalls, t.key, through, s.tree, s.branch, from, to); err != nil {
		return err
	}
	if _, err := p.exec(ctx, copyUses, t.key, through, s.tree, s.branch, from, to); err != nil {
		return err
	}
	_, err = p.exec(ctx, copyBlobs, t.key, s.tree, through, s.tree, s.branch, from, to)
	return err
}

const (
	hasLabels  = `SELECT count(*) FROM (SELECT 1 FROM bunkroom_transcript_labels AS l WHERE l.tree = ? LIMIT 1) AS n`
	copyLabels = `INSERT INTO bunkroom_transcript_labels (tree, seq, label)
		SELECT CAST(? AS bigint), l.seq, l.label FROM bunkroom_transcript_labels AS l JOIN bunkroom_transcript_entries AS e ON e.tree = ? AND e.seq = l.seq
		WHERE l.tree = ? AND l.seq >= ? AND e.branch = ? AND e.depth BETWEEN ? AND ?`
)

// takeLabels gives a fork the labels that its source has on a path.
func (p place) takeLabels(ctx context.Context, t, source *tree, path []span) error {
	var has int
	if err := p.row(ctx, hasLabels, source.key).Scan(&has); err != nil || has == 0 {
		return err
	}
	for _, s := range path {
		if _, err := p.exec(ctx, copyLabels, t.key, s.tree, source.key, s.branch, s.branch, s.first, s.depth); err != nil {
			return err
		}
	}
	return nil
}

// takeRefs gives a fork the refs that its source has on a path, or before the root.
func (p place) takeRefs(ctx context.Context, t, source *tree, path []span) error {
	refs, err := p.refs(ctx, source)
	if err != nil {
		return err
	}
	var ids []transcript.EntryID
	for _, r := range refs {
		if !r.At.Root {
			ids = append(ids, r.At.Entry)
		}
	}
	found, err := p.known(ctx, source, ids)
	if err != nil {
		return err
	}
	for _, r := range refs {
		if k := found[r.At.Entry]; r.At.Root || k != nil && covers(path, k.spot) {
			if _, err := p.exec(ctx, writeRef, t.key, r.Name, string(r.At.Entry), 1); err != nil {
				return err
			}
		}
	}
	return nil
}
