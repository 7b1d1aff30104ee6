package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func (s transcriptStore) Timeline(ctx context.Context, q transcript.TimelineQuery) (page transcript.TimelinePage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	err = s.of(ctx, q.Conversation, func(t *tree) error {
		var found []*leaf
		for _, l := range slices.Backward(t.entries) {
			switch {
			case q.Before > 0 && l.Seq >= q.Before:
			case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, l.Kind):
			case q.Turn != "" && l.Turn != q.Turn:
			default:
				found = append(found, l)
			}
		}
		if len(found) > limit {
			found = found[:limit]
			page.Next = found[limit-1].Seq
		}
		page.Entries = t.read(found, q.Blobs)
		return nil
	})
	return page, err
}

func (s transcriptStore) Headers(ctx context.Context, q transcript.HeaderQuery) (page transcript.HeaderPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	err = s.of(ctx, q.Conversation, func(t *tree) error {
		for _, l := range t.entries {
			switch {
			case l.Seq <= q.After:
			case !q.Of.IsZero() && (l.Aborted || l.Parent != q.Of):
			case !q.Under.IsZero() && !t.under(l, q.Under, int64(q.Levels)):
			case q.Tips && (l.Aborted || l.children > 0):
			case q.Label != "" && !slices.Contains(l.labels, q.Label):
			case len(page.Headers) == limit:
				page.Next = page.Headers[limit-1].Seq
				return nil
			default:
				page.Headers = append(page.Headers, l.header())
			}
		}
		return nil
	})
	return page, err
}

// under reports whether a committed entry is below a position, and not too far away.
func (t *tree) under(l *leaf, top transcript.Position, levels int64) bool {
	if l.Aborted {
		return false
	}
	for away := int64(1); levels == 0 || away <= levels; away++ {
		if l.Parent == top {
			return true
		}
		if l = t.byID[l.Parent.Entry]; l == nil {
			return false
		}
	}
	return false
}

// header is what is listed of an entry.
func (l *leaf) header() transcript.Header {
	return transcript.Header{
		ID: l.ID, Kind: l.Kind, Turn: l.Turn, Actor: l.Actor, Seq: l.Seq, Parent: l.Parent, Depth: l.Depth, Aborted: l.Aborted,
		Preview: l.Preview, Labels: slices.Clone(l.labels), Children: l.children, CreatedAt: l.CreatedAt,
	}
}

func (s transcriptStore) Refs(ctx context.Context, c access.ConversationID) (refs []transcript.Ref, err error) {
	err = s.of(ctx, c, func(t *tree) error {
		refs = slices.SortedFunc(maps.Values(t.refs), func(a, b transcript.Ref) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return refs, err
}

func (s transcriptStore) Since(ctx context.Context, c access.ConversationID, after int64, limit int) (page transcript.FactPage, err error) {
	if after < 0 {
		return page, &access.FieldError{Field: "after", Rule: "not negative"}
	}
	limit, err = transcript.Page(limit)
	if err != nil {
		return page, err
	}
	err = s.of(ctx, c, func(t *tree) error {
		page = transcript.FactPage{Next: after}
		for _, f := range t.happened() {
			switch {
			case f.Seq <= after:
			case len(page.Facts) == limit:
				page.More = true
				return nil
			default:
				page.Facts = append(page.Facts, f)
				page.Next = f.Seq
			}
		}
		return nil
	})
	return page, err
}

// happened is all that happened to a tree, in order: facts, and its own entries.
func (t *tree) happened() (all []transcript.Fact) {
	for _, l := range t.entries {
		kind := transcript.FactAppended
		if l.Aborted {
			kind = transcript.FactAborted
		}
		if !l.inherited {
			all = append(all, transcript.Fact{Seq: l.Seq, Kind: kind, Entry: l.ID})
		}
	}
	for _, f := range t.facts {
		if f.Call != nil {
			call := *f.Call
			call.Arguments = slices.Clone(call.Arguments)
			f.Call = &call
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b transcript.Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

func (s transcriptStore) Unsettled(ctx context.Context, c access.ConversationID) (open transcript.Open, err error) {
	err = s.of(ctx, c, func(t *tree) error {
		open = transcript.Open{Conversation: c, Fence: t.row.Fence, InTurn: t.row.InTurn, Calls: t.open()}
		if t.draft != nil {
			open.Draft = &transcript.Draft{NewEntry: cloned(t.draft.NewEntry), After: t.draft.After}
		}
		return nil
	})
	return open, err
}

// open are the calls that are not settled, in the order of their entries.
func (t *tree) open() (calls []transcript.OpenCall) {
	for _, l := range t.entries {
		for _, c := range l.Calls {
			if !c.Status.Settled() {
				c.Arguments = slices.Clone(c.Arguments)
				calls = append(calls, transcript.OpenCall{Entry: l.ID, Call: c})
			}
		}
	}
	return calls
}

func (s transcriptStore) Unfinished(ctx context.Context, after access.ConversationID, limit int) (ids []access.ConversationID, err error) {
	if limit < 1 || limit > transcript.MaxListed {
		return nil, &access.FieldError{Field: "limit", Rule: fmt.Sprintf("1 to %d", transcript.MaxListed)}
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(all *talks, _ time.Time) error {
		for id, t := range all.trees {
			if id > after && t.row.Status != transcript.Deleted && (t.row.InTurn || t.draft != nil || len(t.open()) > 0) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		ids = ids[:min(limit, len(ids))]
		return nil
	})
	return ids, err
}
