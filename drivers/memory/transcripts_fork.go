package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Fork always copies: what a fork by reference is to answer is what a copy answers.
func (s transcriptStore) Fork(ctx context.Context, f transcript.Fork) (row transcript.Transcript, err error) {
	if err := f.Check(); err != nil {
		return row, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		source, lost := all.find(f.From)
		var (
			facts transcript.ForkFacts
			end   transcript.Position
		)
		if lost == nil {
			facts = source.forkable(f)
			end, lost = f.End(facts)
		}
		switch there, err := all.find(f.To); {
		case err == nil && f.Made(there.row, end):
			row = there.row
			return nil
		case err == nil:
			return fmt.Errorf("%w: %s", transcript.ErrExists, f.To)
		case lost != nil:
			return lost
		}
		row = all.fork(source, f, end, now).row
		return nil
	})
	return row, err
}

// forkable are the facts that a fork rests on.
func (t *tree) forkable(f transcript.Fork) transcript.ForkFacts {
	facts := transcript.ForkFacts{Source: t.row, At: f.At}
	if facts.At.IsZero() {
		facts.At = t.row.Head
	}
	if l, there := t.byID[facts.At.Entry]; there {
		facts.There, facts.Kind = true, l.Kind
		facts.Known = transcript.Known{Seq: l.Seq, Depth: l.Depth, Parent: l.Parent, Hash: l.Hash, Aborted: l.Aborted}
	}
	return facts
}

// fork plants a tree with a path of another.
func (all *talks) fork(source *tree, f transcript.Fork, end transcript.Position, now time.Time) *tree {
	path := source.path(end)
	row, fact := f.Row(source.row, end, source.usage(path), now)
	t := all.plant(row)
	t.tell(now, fact)
	for _, from := range path {
		l := *from
		l.inherited, l.children, l.labels = true, 0, slices.Clone(from.labels)
		l.Calls = slices.Clone(from.Calls)
		for i := range l.Calls {
			if c := &l.Calls[i]; !c.Status.Settled() {
				c.Status = transcript.CallInterrupted
			}
		}
		t.put(&l)
		l.branch = from.branch
		for _, blob := range l.named() {
			t.blobs[blob] = source.blobs[blob]
		}
	}
	for _, r := range source.refs {
		if f.Refs && (r.At.Root || t.byID[r.At.Entry] != nil) {
			r.Version = 1
			t.refs[r.Name] = r
		}
	}
	return t
}

// named are the hashes of what is large in an entry.
func (l *leaf) named() (hashes []string) {
	e := l.read(nil)
	for _, p := range e.Parts {
		if p.Blob != nil {
			hashes = append(hashes, p.Blob.Hash)
		}
		if p.Call != nil && p.Call.Blob != nil {
			hashes = append(hashes, p.Call.Blob.Hash)
		}
	}
	return hashes
}

func (s transcriptStore) Purge(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, &access.FieldError{Field: "limit", Rule: "at least 1"}
	}
	err = s.locked(ctx, func(all *talks, _ time.Time) error {
		for len(all.purges) > 0 && removed < limit {
			left := all.purges[0]
			n := min(*left, limit-removed)
			removed += n
			if *left -= n; *left == 0 {
				all.purges = all.purges[1:]
			}
		}
		return nil
	})
	return removed, err
}

func (s transcriptStore) Verify(ctx context.Context, c access.ConversationID) (faults []string, err error) {
	err = s.of(ctx, c, func(t *tree) error {
		faults = t.verify()
		return nil
	})
	return faults, err
}

func (t *tree) verify() (faults []string) {
	differs := func(what string, kept, is any) {
		if kept != is {
			faults = append(faults, fmt.Sprintf("%s is kept as %v, and is %v", what, kept, is))
		}
	}
	var (
		entries, bytes, newest int64
		sum                    transcript.Usage
		seq                    int64
	)
	for _, l := range t.entries {
		if !l.inherited {
			entries++
			bytes += l.Bytes
			sum = sum.Add(l.Usage)
		}
		depth := int64(0)
		if parent := t.byID[l.Parent.Entry]; parent != nil {
			depth = parent.Depth
			if parent.Seq >= l.Seq {
				faults = append(faults, fmt.Sprintf("entry %s is older than what it follows", l.ID))
			}
		}
		differs(fmt.Sprintf("the depth of %s", l.ID), l.Depth, depth+1)
		if l.Seq <= seq {
			faults = append(faults, fmt.Sprintf("entry %s is out of order", l.ID))
		}
		seq = l.Seq
		newest = max(newest, l.Seq)
	}
	for _, f := range t.facts {
		newest = max(newest, f.Seq)
	}
	differs("the number of entries", t.row.Entries, entries)
	differs("the number of bytes", t.row.Bytes, bytes)
	differs("the usage", t.row.Usage, sum)
	differs("the inherited usage", t.row.Inherited, t.usage(t.path(t.row.Lineage.At)))
	differs("the newest seq", t.row.LastSeq, newest)
	if _, there := t.byID[t.row.Head.Entry]; !there && !t.row.Head.Root {
		faults = append(faults, fmt.Sprintf("the head is %v, which is not there", t.row.Head))
	}
	return faults
}
