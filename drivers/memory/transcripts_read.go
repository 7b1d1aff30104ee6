package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// read is the entry that a leaf is, in memory of its own; with what is large where blobs are given.
func (l *leaf) read(blobs map[string][]byte) transcript.Entry {
	e := l.Entry
	calls := slices.Clone(l.Calls)
	for i := range calls {
		calls[i].Result = bytes.Clone(calls[i].Result)
		calls[i].Blob = clonedBlob(calls[i].Blob)
	}
	if err := transcript.Unseal(&e, l.Body, calls); err != nil {
		panic(err) // it was sealed by the same package
	}
	if blobs == nil {
		return e
	}
	for i := range e.Parts {
		p := &e.Parts[i]
		if p.Blob != nil {
			p.Data, p.Blob = bytes.Clone(blobs[p.Blob.Hash]), nil
		}
		if p.Call != nil && p.Call.Blob != nil {
			p.Call.Result, p.Call.Blob = bytes.Clone(blobs[p.Call.Blob.Hash]), nil
		}
	}
	return e
}

func clonedBlob(b *transcript.Blob) *transcript.Blob {
	if b == nil {
		return nil
	}
	c := *b
	return &c
}

// cloned is an entry in memory of its own.
func cloned(e transcript.NewEntry) transcript.NewEntry {
	e.Parts, e.Payload = slices.Clone(e.Parts), bytes.Clone(e.Payload)
	for i := range e.Parts {
		p := &e.Parts[i]
		p.Data = bytes.Clone(p.Data)
		if p.Call != nil {
			call := *p.Call
			call.Arguments, call.Result = bytes.Clone(call.Arguments), bytes.Clone(call.Result)
			p.Call = &call
		}
	}
	if e.Compaction != nil {
		c := *e.Compaction
		c.Pinned = slices.Clone(c.Pinned)
		e.Compaction = &c
	}
	if e.State != nil {
		d := *e.State
		d.Set, d.Delete = maps.Clone(d.Set), slices.Clone(d.Delete)
		for key, value := range d.Set {
			d.Set[key] = bytes.Clone(value)
		}
		e.State = &d
	}
	return e
}

// read are the entries that leaves are.
func (t *tree) read(leaves []*leaf, blobs bool) []transcript.Entry {
	var large map[string][]byte
	if blobs {
		large = t.blobs
	}
	var out []transcript.Entry
	for _, l := range leaves {
		out = append(out, l.read(large))
	}
	return out
}

// path is what is up to a position, root first. It ends where nothing is.
func (t *tree) path(to transcript.Position) (path []*leaf) {
	for l := t.byID[to.Entry]; l != nil; l = t.byID[l.Parent.Entry] {
		path = append(path, l)
	}
	slices.Reverse(path)
	return path
}

// usage is the sum over leaves.
func (t *tree) usage(leaves []*leaf) (sum transcript.Usage) {
	for _, l := range leaves {
		sum = sum.Add(l.Usage)
	}
	return sum
}

// pathTo is the path to a position that may be asked for; zero is the head.
func (t *tree) pathTo(to transcript.Position) ([]*leaf, error) {
	if to.IsZero() {
		to = t.row.Head
	}
	if l, there := t.byID[to.Entry]; !to.Root && (!there || l.Aborted) {
		return nil, fmt.Errorf("%w: entry %s of %s", transcript.ErrNotFound, to.Entry, t.row.Conversation)
	}
	return t.path(to), nil
}

// along calls do with the path to a position.
func (s transcriptStore) along(ctx context.Context, c access.ConversationID, to transcript.Position, do func(*tree, []*leaf) error) error {
	if err := to.Check("Position"); err != nil {
		return err
	}
	return s.of(ctx, c, func(t *tree) error {
		path, err := t.pathTo(to)
		if err != nil {
			return err
		}
		return do(t, path)
	})
}

func (s transcriptStore) Get(ctx context.Context, c access.ConversationID, ids ...transcript.EntryID) (out []transcript.Entry, err error) {
	if len(ids) > transcript.MaxListed {
		return nil, &access.FieldError{Field: "ids", Rule: fmt.Sprintf("at most %d", transcript.MaxListed)}
	}
	err = s.of(ctx, c, func(t *tree) error {
		for _, id := range ids {
			if l, there := t.byID[id]; there {
				out = append(out, l.read(nil))
			}
		}
		return nil
	})
	return out, err
}

func (s transcriptStore) Path(ctx context.Context, q transcript.PathQuery) (page transcript.PathPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	err = s.along(ctx, q.Conversation, q.From, func(t *tree, path []*leaf) error {
		if q.Through != "" {
			at := slices.IndexFunc(path, func(l *leaf) bool { return l.ID == q.Through })
			if at < 0 {
				return &transcript.PathError{Entry: q.Through, Rule: "it is not on the path"}
			}
			path = path[at:]
		}
		slices.Reverse(path)
		if len(path) > limit {
			path = path[:limit]
			page.Next = path[limit-1].Parent
		}
		page.Entries = t.read(path, q.Blobs)
		return nil
	})
	return page, err
}

func (s transcriptStore) Spans(ctx context.Context, c access.ConversationID, to transcript.Position) (spans []transcript.Span, err error) {
	err = s.along(ctx, c, to, func(_ *tree, path []*leaf) error {
		for _, l := range path {
			if n := len(spans); n > 0 && spans[n-1].Tree == l.rows && spans[n-1].Branch == l.branch {
				spans[n-1].To = l.Depth
				continue
			}
			spans = append(spans, transcript.Span{Tree: l.rows, Branch: l.branch, From: l.Depth, To: l.Depth})
		}
		return nil
	})
	return spans, err
}

func (s transcriptStore) Context(ctx context.Context, c access.ConversationID, at transcript.Position, limit int) (out []transcript.Entry, err error) {
	if limit < 1 {
		return nil, &access.FieldError{Field: "limit", Rule: "at least 1"}
	}
	err = s.along(ctx, c, at, func(t *tree, path []*leaf) error {
		newest := -1
		for i, l := range path {
			if l.Kind == transcript.KindCompaction {
				newest = i
			}
		}
		var kept []*leaf
		if newest >= 0 {
			compaction, from := path[newest].read(nil).Compaction, newest
			for i, l := range path {
				if slices.Contains(compaction.Pinned, l.ID) {
					kept = append(kept, l)
				}
				if l.ID == compaction.FirstKept {
					from = i
				}
			}
			path = append(kept, path[from:]...)
		}
		if len(path) > limit {
			return &transcript.LimitError{Of: "entries in a context", Max: int64(limit)}
		}
		out = t.read(path, false)
		return nil
	})
	return out, err
}

func (s transcriptStore) State(ctx context.Context, c access.ConversationID, at transcript.Position) (state transcript.State, err error) {
	err = s.along(ctx, c, at, func(_ *tree, path []*leaf) error {
		var deltas []transcript.StateDelta
		for _, l := range path {
			if l.Kind == transcript.KindState {
				deltas = append(deltas, *l.read(nil).State)
			}
		}
		state = transcript.Fold(deltas...)
		return nil
	})
	return state, err
}

func (s transcriptStore) PathUsage(ctx context.Context, c access.ConversationID, at transcript.Position) (sum transcript.Usage, err error) {
	err = s.along(ctx, c, at, func(t *tree, path []*leaf) error {
		sum = t.usage(path)
		return nil
	})
	return sum, err
}

func (s transcriptStore) FindCall(ctx context.Context, c access.ConversationID, call transcript.CallID) (out []transcript.Entry, err error) {
	if err := access.CheckID("Call", call); err != nil {
		return nil, err
	}
	err = s.of(ctx, c, func(t *tree) error {
		for _, l := range t.entries {
			if slices.ContainsFunc(l.Calls, func(c transcript.Call) bool { return c.ID == call }) {
				out = append(out, l.read(nil))
			}
		}
		return nil
	})
	return out, err
}

func (s transcriptStore) OpenBlob(ctx context.Context, c access.ConversationID, hash string) (content io.ReadCloser, err error) {
	err = s.of(ctx, c, func(t *tree) error {
		large, there := t.blobs[hash]
		if !there {
			return fmt.Errorf("%w: content %s of %s", transcript.ErrNotFound, strings.ToValidUTF8(hash, ""), c)
		}
		content = io.NopCloser(bytes.NewReader(large)) // which nothing ever changes
		return nil
	})
	return content, err
}
