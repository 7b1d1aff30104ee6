package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// writing is a plan that is written, with its tree locked.
type writing struct {
	place
	t     *tree
	known map[transcript.EntryID]*knownEntry
	plan  transcript.Plan
	spots map[transcript.EntryID]*knownEntry // where the new entries are
	open  int64                              // calls that are not settled, more than before
	heard int64                              // inputs that wait, less than before
}

func (w *writing) all(ctx context.Context) error {
	if err := w.entries(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{w.calls, w.marks, w.draft, w.inputs, w.facts} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return w.tree(ctx)
}

// at is where an entry is that was there before or is new; nil is before the root.
func (w *writing) at(p transcript.Position) (*knownEntry, error) {
	if p.Root {
		return nil, nil
	}
	if k := w.spots[p.Entry]; k != nil {
		return k, nil
	}
	if k := w.known[p.Entry]; k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("sqlstore: entry %s was decided on and not looked for", p.Entry)
}

const (
	// lastOfBranch reports whether what follows an entry may go on in its
	// branch: it is the last of one that was opened in this tree.
	lastOfBranch = `SELECT 1 FROM bunkroom_transcript_branches AS b WHERE b.tree = ? AND b.branch = ? AND b.origin = b.tree
		AND NOT EXISTS (SELECT 1 FROM bunkroom_transcript_entries AS e WHERE e.tree = b.tree AND e.branch = b.branch AND e.depth = ?)`
	openBranch = `INSERT INTO bunkroom_transcript_branches (tree, branch, origin, parent_tree, parent_branch, parent_depth) VALUES (?, ?, ?, ?, ?, ?)`
)

// last reports whether what follows an entry may go on in its branch.
func (w *writing) last(ctx context.Context, k *knownEntry) (bool, error) {
	if k == nil || k.spot.tree != w.t.key {
		return false, nil
	}
	var one int64
	switch err := w.row(ctx, lastOfBranch, k.spot.tree, k.spot.branch, k.spot.depth+1).Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// entries inserts the entries, each behind what it follows.
func (w *writing) entries(ctx context.Context) error {
	var rows, calls [][]any
	for _, e := range w.plan.Entries {
		parent, err := w.at(e.Parent)
		if err != nil {
			return err
		}
		k := &knownEntry{Known: transcript.Known{Seq: e.Seq, Depth: e.Depth, Parent: e.Parent}, ID: e.ID, spot: spot{w.t.key, 0, e.Depth}}
		if parent != nil {
			k.sums = parent.sums
		}
		k.sums.usage = k.sums.usage.Add(e.Usage)
		if !e.Aborted {
			if err := w.branch(ctx, k, parent); err != nil {
				return err
			}
			if err := w.sum(k, e); err != nil {
				return err
			}
			w.spots[e.ID] = k
		}
		rows = append(rows, entryArgs(w.t.key, e.Seq, k.spot.branch, e.Depth, e.Parent.Entry, k.sums, e.CreatedAt, e.NewEntry, e.Sealed))
		calls = append(calls, callArgs(w.t.key, e.Seq, e.Calls)...)
		for _, c := range e.Calls {
			if !c.Status.Settled() {
				w.open++
			}
		}
	}
	if err := w.insert(ctx, intoEntries, rows); err != nil {
		return err
	}
	if err := w.insert(ctx, intoCalls, calls); err != nil {
		return err
	}
	for _, e := range w.plan.Entries {
		for hash, data := range e.Blobs {
			if err := w.blob(ctx, hash, data, e.Seq, e.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// branch finds the branch of an entry, and opens it where it is a new one.
func (w *writing) branch(ctx context.Context, k, parent *knownEntry) error {
	if parent != nil {
		_, new := w.spots[parent.ID]
		on := new
		if !new {
			var err error
			if on, err = w.last(ctx, parent); err != nil {
				return err
			}
		}
		if on {
			k.spot.branch = parent.spot.branch
			return nil
		}
	}
	k.spot.branch = k.Seq
	args := []any{w.t.key, k.Seq, w.t.key, nil, nil, 0}
	if parent != nil {
		args = []any{w.t.key, k.Seq, w.t.key, parent.spot.tree, parent.spot.branch, parent.spot.depth}
	}
	_, err := w.exec(ctx, openBranch, args...)
	return err
}

// sum adds to the sums of a path what an entry does to them.
func (w *writing) sum(k *knownEntry, e transcript.Planned) error {
	if e.State != nil && e.State.Whole {
		k.sums.whole = e.Depth
	}
	if e.Compaction == nil {
		return nil
	}
	k.sums.context = e.Depth
	if e.Compaction.FirstKept != "" {
		kept, err := w.at(transcript.After(e.Compaction.FirstKept))
		if err != nil {
			return err
		}
		k.sums.context = kept.Depth
	}
	return nil
}

const (
	insertBlob = `INSERT INTO bunkroom_transcript_blobs (tree, hash, size, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	insertUse  = `INSERT INTO bunkroom_transcript_uses (tree, hash, seq, since) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	startCall  = `UPDATE bunkroom_transcript_calls SET status = 'running' WHERE tree = ? AND seq = ? AND call_id = ? AND status = 'pending'`
	settleCall = `UPDATE bunkroom_transcript_calls SET status = ?, settled_at = ?, late = ?, hash = ?, size = ?, result = ?
		WHERE tree = ? AND seq = ? AND call_id = ? AND settled_at IS NULL`
)

func (w *writing) blob(ctx context.Context, hash string, data []byte, seq, since int64) error {
	if _, err := w.exec(ctx, insertBlob, w.t.key, hash, len(data), data); err != nil {
		return err
	}
	_, err := w.exec(ctx, insertUse, w.t.key, hash, seq, since)
	return err
}

// errDisagrees says that a row is not as it was decided on, though it is locked.
var errDisagrees = errors.New("sqlstore: a row of a transcript is not what was decided on")

func (w *writing) one(ctx context.Context, text string, args ...any) error {
	n, err := w.exec(ctx, text, args...)
	if err == nil && n != 1 {
		err = errDisagrees
	}
	return err
}

// calls starts and settles what was called.
func (w *writing) calls(ctx context.Context) error {
	for _, a := range w.plan.Started {
		if err := w.one(ctx, startCall, w.t.key, w.known[a.Entry].Seq, string(a.Call)); err != nil {
			return err
		}
	}
	for _, f := range w.plan.Facts { // in their order, which the map has not
		if f.Kind != transcript.FactCallSettled {
			continue
		}
		settled := w.plan.Calls[transcript.CallAddress{Entry: f.Entry, Call: f.Call.ID}]
		small, blob, large := settled.Seal()
		seq, result, named := w.known[f.Entry].Seq, any(nil), transcript.Blob{}
		if len(small) > 0 {
			result = string(small)
		}
		if blob != nil {
			named = *blob
			if err := w.blob(ctx, blob.Hash, large, seq, f.Seq); err != nil {
				return err
			}
		}
		if err := w.one(ctx, settleCall, string(settled.Status), f.Seq, len(small)+len(large), named.Hash, named.Size, result, w.t.key, seq, string(f.Call.ID)); err != nil {
			return err
		}
		w.open--
	}
	return nil
}

const (
	writeRef  = `INSERT INTO bunkroom_transcript_refs (tree, name, entry, version) VALUES (?, ?, ?, ?) ON CONFLICT (tree, name) DO UPDATE SET entry = excluded.entry, version = excluded.version`
	removeRef = `DELETE FROM bunkroom_transcript_refs WHERE tree = ? AND name = ?`
	putLabel  = `INSERT INTO bunkroom_transcript_labels (tree, seq, label) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	takeLabel = `DELETE FROM bunkroom_transcript_labels WHERE tree = ? AND seq = ? AND label = ?`
)

// marks writes refs and labels.
func (w *writing) marks(ctx context.Context) error {
	for _, r := range w.plan.Refs {
		text, args := writeRef, []any{w.t.key, r.Name, string(r.To.Entry), r.Version}
		if r.To.IsZero() {
			text, args = removeRef, args[:2]
		}
		if _, err := w.exec(ctx, text, args...); err != nil {
			return err
		}
	}
	for _, l := range w.plan.Labels {
		k, err := w.at(transcript.After(l.Entry))
		if err != nil {
			return err
		}
		text := putLabel
		if l.Remove {
			text = takeLabel
		}
		if _, err := w.exec(ctx, text, w.t.key, k.Seq, l.Label); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) draft(ctx context.Context) error {
	if w.plan.DropDraft {
		w.t.draft = ""
		if _, err := w.exec(ctx, dropDraft, w.t.key); err != nil {
			return err
		}
	}
	if d := w.plan.SaveDraft; d != nil {
		w.t.draft = d.ID
		text, err := draftJSON(d)
		if err != nil {
			return err
		}
		if _, err := w.exec(ctx, saveDraft, w.t.key, text); err != nil {
			return err
		}
	}
	return nil
}

const intoFacts = `INSERT INTO bunkroom_transcript_facts (tree, seq, kind, entry, at_root, call_id, name, status, fence, created_at) `

func (w *writing) facts(ctx context.Context) error {
	rows := make([][]any, len(w.plan.Facts))
	for i, f := range w.plan.Facts {
		rows[i] = factArgs(w.t.key, f, w.plan.Transcript.UpdatedAt)
	}
	return w.insert(ctx, intoFacts, rows)
}

func factArgs(tree int64, f transcript.Fact, at time.Time) []any {
	var call transcript.CallID
	status := string(f.To)
	if f.Call != nil {
		call, status = f.Call.ID, string(f.Call.Status)
	}
	if f.Kind == transcript.FactInput {
		status = string(f.Input)
	}
	return []any{tree, f.Seq, string(f.Kind), string(f.Entry) + string(f.At.Entry), f.At.Root, string(call), f.Ref + f.Label, status, f.Fence, micros(at)}
}

const writeTree = `UPDATE bunkroom_transcripts SET status = ?, version = ?, last_seq = ?, fence = ?, in_turn = ?,
	head_id = ?, head_tree = ?, head_branch = ?, head_depth = ?, head_tip = ?, head_context = ?, head_whole = ?,
	head_input = ?, head_output = ?, head_cache_read = ?, head_cache_write = ?, head_cost = ?,
	entries = ?, bytes = ?, input = ?, output = ?, cache_read = ?, cache_write = ?, cost = ?, draft = ?, open_calls = ?, held = ?, inputs = inputs - ?, updated_at = ?
	WHERE tree = ?`

// tree writes what the tree is then.
func (w *writing) tree(ctx context.Context) error {
	now := w.plan.Transcript
	head := &knownEntry{spot: w.t.head, sums: w.t.at}
	if now.Head != w.t.Head {
		k, err := w.at(now.Head)
		if err != nil {
			return err
		}
		if head = k; k == nil {
			head = &knownEntry{}
		}
	}
	tip := w.t.tip
	if now.Head != w.t.Head || slices.ContainsFunc(w.plan.Entries, func(e transcript.Planned) bool { return !e.Aborted }) {
		var err error
		if tip, err = w.last(ctx, head); err != nil {
			return err
		}
	}
	args := []any{string(now.Status), now.Version, now.LastSeq, now.Fence, now.InTurn,
		string(now.Head.Entry), head.spot.tree, head.spot.branch, head.spot.depth, tip, head.sums.context, head.sums.whole}
	args = append(args, usageArgs(head.sums.usage)...)
	args = append(args, now.Entries, now.Bytes)
	args = append(args, usageArgs(now.Usage)...)
	return w.one(ctx, writeTree, append(args, string(w.t.draft), w.t.open+w.open, now.Held, w.heard, micros(now.UpdatedAt), w.t.key)...)
}
