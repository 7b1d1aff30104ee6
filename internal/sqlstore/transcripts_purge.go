package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const (
	// The newest first: what reads others is newer than they are.
	newestDeleted = `SELECT ` + treeColumns + ` FROM bunkroom_transcripts AS t WHERE t.status = 'deleted' ORDER BY t.tree DESC LIMIT 1 FOR UPDATE`
	whoReads      = `SELECT r.tree FROM bunkroom_transcript_reads AS r WHERE r.source = ? AND r.tree <> r.source ORDER BY r.tree DESC LIMIT 1`
	keepByKey     = `SELECT ` + treeColumns + ` FROM bunkroom_transcripts AS t WHERE t.tree = ? FOR UPDATE`
	copiedTo      = `SELECT e.depth FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq <= ? ORDER BY e.seq DESC LIMIT 1`

	ownParents = `UPDATE bunkroom_transcript_branches SET parent_tree = tree WHERE tree = ? AND parent_tree <> tree`
	ownBase    = `UPDATE bunkroom_transcripts SET base_tree = NULL, base_branch = NULL, base_depth = NULL, base_seq = 0 WHERE tree = ?`
	readAlone  = `DELETE FROM bunkroom_transcript_reads WHERE tree = ? AND source <> tree`

	nthNewest      = `SELECT e.seq FROM bunkroom_transcript_entries AS e WHERE e.tree = ? ORDER BY e.seq DESC LIMIT 1 OFFSET ?`
	removeEntries  = `DELETE FROM bunkroom_transcript_entries WHERE tree = ? AND seq >= ?`
	removeBranches = `DELETE FROM bunkroom_transcript_branches WHERE tree = ? AND branch >= ?`
	removeReads    = `DELETE FROM bunkroom_transcript_reads WHERE tree = ?`
	removeKept     = `DELETE FROM bunkroom_search WHERE tree = ?`
	removeTree     = `DELETE FROM bunkroom_transcripts WHERE tree = ?`
)

// removals remove some of the rows of a tree that nothing refers to.
func removals() []string {
	return []string{
		`DELETE FROM bunkroom_transcript_inputs WHERE (tree, id) IN (SELECT x.tree, x.id FROM bunkroom_transcript_inputs AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_labels WHERE (tree, seq, label) IN (SELECT x.tree, x.seq, x.label FROM bunkroom_transcript_labels AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_refs WHERE (tree, name) IN (SELECT x.tree, x.name FROM bunkroom_transcript_refs AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_drafts WHERE tree IN (SELECT x.tree FROM bunkroom_transcript_drafts AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_facts WHERE (tree, seq) IN (SELECT x.tree, x.seq FROM bunkroom_transcript_facts AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_uses WHERE (tree, hash, seq, since) IN (SELECT x.tree, x.hash, x.seq, x.since FROM bunkroom_transcript_uses AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_blobs WHERE (tree, hash) IN (SELECT x.tree, x.hash FROM bunkroom_transcript_blobs AS x WHERE x.tree = ? LIMIT ?)`,
		`DELETE FROM bunkroom_transcript_calls WHERE (tree, seq, call_id) IN (SELECT x.tree, x.seq, x.call_id FROM bunkroom_transcript_calls AS x WHERE x.tree = ? LIMIT ?)`,
	}
}

// Purge takes the newest of the deleted trees first. Whatever still reads its
// rows is given copies, some at a time, which it does not look at before it has all of them.
func (s transcripts) Purge(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, field("limit", "at least 1")
	}
	err = s.change(ctx, func(ctx context.Context, on place, _ time.Time) error {
		removed = 0
		for removed < limit {
			t, err := scanned(on.row(ctx, newestDeleted))
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			n, err := on.uproot(ctx, t, limit-removed)
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// uproot removes rows of a tree, or copies those that others read: at least one of them, at most so many.
//
// Its newest reader comes first. So whoever reads a fork that gets rows of its own
// has had its own before, and nobody's path leads through rows that are other ones by now.
func (p place) uproot(ctx context.Context, t *tree, most int) (done int, err error) {
	for {
		reader, err := p.reader(ctx, t)
		if err != nil {
			return done, err
		}
		if reader == 0 {
			n, err := p.remove(ctx, t, most-done)
			return done + n, err
		}
		fork, err := scanned(p.row(ctx, keepByKey, reader))
		if err != nil {
			return done, err
		}
		switch newest, err := p.reader(ctx, t); {
		case err != nil:
			return done, err
		case newest != reader: // it was forked until it was locked
			continue
		}
		n, err := p.settle(ctx, fork, most-done)
		if done += n; err != nil || done >= most {
			return done, err
		}
	}
}

// reader is the newest of those that read rows of a tree; 0: nobody does.
func (p place) reader(ctx context.Context, t *tree) (key int64, err error) {
	if err = p.row(ctx, whoReads, t.key).Scan(&key); errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return key, err
}

// settle copies rows that a fork reads, and has it read its own once it has them all.
func (p place) settle(ctx context.Context, t *tree, most int) (copied int, err error) {
	key := t.key
	sees, err := p.sight(ctx, t)
	if err != nil {
		return 0, err
	}
	path, err := p.spans(ctx, t.base)
	if err != nil {
		return 0, err
	}
	var has int64
	if err := p.row(ctx, copiedTo, key, t.baseSeq).Scan(&has); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	for i, s := range path {
		from, to := max(s.first, has+1), min(s.depth, has+int64(most-copied))
		if from > to {
			continue
		}
		if err := p.copyStretch(ctx, t, path, i, from, to, sees.through(s.tree)); err != nil {
			return 0, err
		}
		copied += int(to - from + 1)
		has = to
	}
	if has < t.base.depth {
		return copied, nil
	}
	for _, text := range []string{moveHome, ownParents, ownBase, readAlone} {
		if _, err := p.exec(ctx, text, key); err != nil {
			return 0, err
		}
	}
	return copied, nil
}

// remove removes rows of a tree that nobody else reads. A branch goes with its first entry, and all that is left with the last row.
func (p place) remove(ctx context.Context, t *tree, most int) (removed int, err error) {
	for _, text := range append([]string{p.store.dialect.Words.Remove}, removals()...) {
		n, err := p.exec(ctx, text, t.key, most-removed)
		if removed += int(n); err != nil || removed >= most {
			return removed, err
		}
	}
	var from int64
	if err := p.row(ctx, nthNewest, t.key, most-removed-1).Scan(&from); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	n, err := p.exec(ctx, removeEntries, t.key, from)
	if err != nil {
		return 0, err
	}
	if _, err := p.exec(ctx, removeBranches, t.key, from); err != nil {
		return 0, err
	}
	if removed += int(n); removed >= most {
		return removed, nil
	}
	for _, text := range []string{removeReads, removeKept} {
		if _, err := p.exec(ctx, text, t.key); err != nil {
			return 0, err
		}
	}
	_, err = p.exec(ctx, removeTree, t.key)
	return removed + 1, err
}

const (
	ownPage   = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?`
	sumRows   = `SELECT COALESCE(sum(e.bytes), 0), COALESCE(max(e.seq), 0) FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq > ? AND e.seq <= ?`
	sumLate   = `SELECT COALESCE(sum(c.late), 0) FROM bunkroom_transcript_calls AS c WHERE c.tree = ? AND c.seq > ? AND c.settled_at <= ?`
	sumOpen   = `SELECT count(*) FROM bunkroom_transcript_calls AS c WHERE c.tree = ? AND c.settled_at IS NULL`
	sumInputs = `SELECT count(*) FROM bunkroom_transcript_inputs AS i WHERE i.tree = ? AND i.state IN ('pending', 'claimed')`
	maxFact   = `SELECT COALESCE(max(f.seq), 0) FROM bunkroom_transcript_facts AS f WHERE f.tree = ? AND f.seq <= ?`
)

// Verify holds the tree while it looks, so that nothing is written meanwhile.
func (s transcripts) Verify(ctx context.Context, c access.ConversationID) (faults []string, err error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return nil, err
	}
	err = s.change(ctx, func(ctx context.Context, on place, _ time.Time) error {
		t, err := on.find(ctx, keepTree, c)
		if err != nil {
			return err
		}
		faults, err = on.verify(ctx, t)
		return err
	})
	return faults, err
}

func (p place) verify(ctx context.Context, t *tree) (faults []string, err error) {
	differs := func(what string, kept, is any) {
		if kept != is {
			faults = append(faults, fmt.Sprintf("%s is kept as %v, and is %v", what, kept, is))
		}
	}
	var bytes, late, open, newest, fact, inputs int64
	for _, q := range []struct {
		text string
		args []any
		into []any
	}{
		{sumRows, []any{t.key, t.Lineage.Seq, t.LastSeq}, []any{&bytes, &newest}},
		{sumLate, []any{t.key, t.Lineage.Seq, t.LastSeq}, []any{&late}},
		{sumOpen, []any{t.key}, []any{&open}},
		{sumInputs, []any{t.key}, []any{&inputs}},
		{maxFact, []any{t.key, int64(unread)}, []any{&fact}},
	} {
		if err := p.row(ctx, q.text, q.args...).Scan(q.into...); err != nil {
			return nil, err
		}
	}
	var entries int64
	var sum transcript.Usage
	ends := map[spot]transcript.EntryID{} // of each branch, as far as it was seen
	for after := t.Lineage.Seq; ; {
		found, err := p.entriesOf(ctx, nil, ownPage, t.key, after, int64(unread), transcript.MaxListed)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			after = e.Seq
			entries++
			sum = sum.Add(e.Usage)
			end := ends[spot{branch: e.branch}]
			if ends[spot{branch: e.branch}] = e.ID; e.branch != 0 && e.branch != e.Seq {
				differs("what "+string(e.ID)+" follows", e.Parent.Entry, end)
			}
		}
		if len(found) < transcript.MaxListed {
			break
		}
	}
	differs("the number of entries", t.Entries, entries)
	differs("the number of bytes", t.Bytes, bytes+late)
	differs("the usage", t.Usage, sum)
	differs("the number of open calls", t.open, open)
	differs("the number of inputs that wait", t.inputs, inputs)
	differs("the newest seq", t.LastSeq, max(newest, fact))
	head, err := p.headOf(ctx, t)
	if err != nil {
		return nil, err
	}
	if head == nil {
		return append(faults, fmt.Sprintf("the head is %v, which is not there", t.Head)), nil
	}
	differs("where the head is", t.head, head.spot)
	differs("the sums of the head's path", t.at, head.sums)
	if t.Lineage.Conversation != "" && t.Lineage.At.Entry != "" {
		found, err := p.known(ctx, t, []transcript.EntryID{t.Lineage.At.Entry})
		if err != nil {
			return nil, err
		}
		if k := found[t.Lineage.At.Entry]; k == nil {
			faults = append(faults, fmt.Sprintf("it began with the path to %s, which is not there", t.Lineage.At.Entry))
		} else {
			differs("the inherited usage", t.Inherited, k.sums.usage)
		}
	}
	return slices.Clip(faults), nil
}

// headOf is the entry that the head is at, as its row has it; nil: it is not there.
func (p place) headOf(ctx context.Context, t *tree) (*knownEntry, error) {
	if t.Head.Root {
		return &knownEntry{}, nil
	}
	found, err := p.known(ctx, t, []transcript.EntryID{t.Head.Entry})
	if k := found[t.Head.Entry]; k != nil && !k.Aborted {
		return k, err
	}
	return nil, err
}
