package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/bunkroom/bunkroom/session/transcript"
)

const (
	headerColumns = `e.tree, e.branch, e.seq, e.id, e.depth, e.parent, e.kind, e.turn, e.actor, e.preview, e.created_at, `
	// Of the tree's own entries: those that follow in its branch and those that open one, and its labels.
	ownHeader = headerColumns + `(SELECT count(*) FROM bunkroom_transcript_branches AS c
			WHERE c.tree = e.tree AND c.parent_tree = e.tree AND c.parent_branch = e.branch AND c.parent_depth = e.depth)
		+ (SELECT count(*) FROM bunkroom_transcript_entries AS n WHERE n.tree = e.tree AND n.branch = e.branch AND n.depth = e.depth + 1),
		(SELECT PACKED('label', l.label) FROM bunkroom_transcript_labels AS l WHERE l.tree = e.tree AND l.seq = e.seq)`
	// Of those that a fork began with: the next of them, and those of its own.
	readHeader = headerColumns + `(SELECT count(*) FROM bunkroom_transcript_branches AS c
			WHERE c.tree = ? AND c.parent_tree = e.tree AND c.parent_branch = e.branch AND c.parent_depth = e.depth)
		+ CASE WHEN e.tree = ? AND e.branch = ? AND e.depth = ? THEN 0 ELSE 1 END,
		(SELECT PACKED('label', l.label) FROM bunkroom_transcript_labels AS l WHERE l.tree = ? AND l.seq = e.seq)`

	ownHeaders  = `SELECT ` + ownHeader + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq > ? ORDER BY e.seq LIMIT ?`
	ownLabelled = `SELECT ` + ownHeader + ` FROM bunkroom_transcript_labels AS k JOIN bunkroom_transcript_entries AS e ON e.tree = k.tree AND e.seq = k.seq
		WHERE k.tree = ? AND k.seq > ? AND k.label = ? ORDER BY k.seq LIMIT ?`
	ownNext     = `SELECT ` + ownHeader + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.branch = ? AND e.depth = ?`
	ownChildren = `SELECT ` + ownHeader + ` FROM bunkroom_transcript_branches AS k JOIN bunkroom_transcript_entries AS e ON e.tree = k.tree AND e.seq = k.branch
		WHERE k.tree = ? AND k.branch > ? AND k.parent_tree = ? AND k.parent_branch = ? AND k.parent_depth = ? ORDER BY k.branch LIMIT ?`
	ownRoots = `SELECT ` + ownHeader + ` FROM bunkroom_transcript_branches AS k JOIN bunkroom_transcript_entries AS e ON e.tree = k.tree AND e.seq = k.branch
		WHERE k.tree = ? AND k.parent_depth = 0 AND k.branch > ? ORDER BY k.branch LIMIT ?`
	// It goes by the branches, of which there are few, and not by what is in them.
	ownTips = `SELECT ` + ownHeader + ` FROM bunkroom_transcript_branches AS k JOIN bunkroom_transcript_entries AS e ON e.tree = k.tree AND e.branch = k.branch
		AND e.depth = (SELECT n.depth FROM bunkroom_transcript_entries AS n WHERE n.tree = k.tree AND n.branch = k.branch ORDER BY n.depth DESC LIMIT 1)
		WHERE k.tree = ? AND k.branch > ? AND e.seq > ? AND NOT EXISTS (SELECT 1 FROM bunkroom_transcript_branches AS c
			WHERE c.tree = e.tree AND c.parent_tree = e.tree AND c.parent_branch = e.branch AND c.parent_depth = e.depth) ORDER BY e.seq LIMIT ?`

	readHeaders = `SELECT ` + readHeader + ` FROM bunkroom_transcript_entries AS e
		WHERE e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ? AND e.seq > ? ORDER BY e.depth LIMIT ?`
	readLabelled = `SELECT ` + readHeader + ` FROM bunkroom_transcript_labels AS k JOIN bunkroom_transcript_reads AS r ON r.tree = k.tree AND r.source <> r.tree
		JOIN bunkroom_transcript_entries AS e ON e.tree = r.source AND e.seq = k.seq
		WHERE k.tree = ? AND k.seq > ? AND k.label = ? AND k.seq <= r.through_seq ORDER BY k.seq`
)

// header is a header and whose row it is.
type header struct {
	transcript.Header
	tree, branch int64
}

// headersOf are at most so many of those that a statement finds and that are on a path; nil: on any.
func (p place) headersOf(ctx context.Context, path []span, most int, text string, args ...any) (found []header, err error) {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var labels sql.RawBytes
	for len(found) < most && rows.Next() {
		var h header
		if err := rows.Scan(&h.tree, num(&h.branch), &h.Seq, (*string)(&h.ID), &h.Depth, (*string)(&h.Parent.Entry), (*string)(&h.Kind), (*string)(&h.Turn), (*string)(&h.Actor),
			&h.Preview, moment{&h.CreatedAt}, &h.Children, &labels); err != nil {
			return nil, err
		}
		h.Parent.Root, h.Aborted = h.Parent.Entry == "", h.branch == 0
		if len(labels) > 0 {
			var kept []struct{ Label string }
			if err := json.Unmarshal(labels, &kept); err != nil {
				return nil, err
			}
			for _, l := range kept {
				h.Labels = append(h.Labels, l.Label)
			}
			slices.Sort(h.Labels)
		}
		if path == nil || covers(path, spot{h.tree, h.branch, h.Depth}) {
			found = append(found, h)
		}
	}
	return found, rows.Err()
}

// headers lists what a tree has of what is asked for.
type headers struct {
	place
	t      *tree
	base   []span      // the path that a fork began with
	of     *knownEntry // whose children to list, or what is below it
	asked  transcript.HeaderQuery
	shared []any // the arguments of readHeader
}

// some are the oldest after a seq, at most so many.
func (h *headers) some(ctx context.Context, after int64, most int) (found []header, err error) {
	q, t := h.asked, h.t
	own := max(after, t.baseSeq)
	switch {
	case !q.Of.IsZero():
		found, err = h.children(ctx, after, most)
	case !q.Under.IsZero():
		found, err = h.under(ctx, after, most)
	case q.Label != "":
		if h.base != nil {
			if found, err = h.headersOf(ctx, h.base, most, readLabelled, append(slices.Clone(h.shared), t.key, after, q.Label)...); err != nil {
				return nil, err
			}
		}
		more, err := h.headersOf(ctx, nil, most, ownLabelled, t.key, own, q.Label, most)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	case q.Tips:
		if n := len(h.base); n > 0 {
			end := h.base[n-1]
			if found, err = h.headersOf(ctx, nil, most, readHeaders, append(slices.Clone(h.shared), end.tree, end.branch, end.depth, end.depth, after, most)...); err != nil {
				return nil, err
			}
		}
		more, err := h.headersOf(ctx, nil, most, ownTips, t.key, t.baseSeq, own, most)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	default:
		for _, s := range h.base {
			if len(found) >= most {
				break
			}
			more, err := h.headersOf(ctx, nil, most, readHeaders, append(slices.Clone(h.shared), s.tree, s.branch, s.first, s.depth, after, most-len(found))...)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
		if len(found) < most {
			more, err := h.headersOf(ctx, nil, most, ownHeaders, t.key, own, most-len(found))
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found[:min(most, len(found))], err
}

// children are the oldest of those that follow what was asked for.
func (h *headers) children(ctx context.Context, after int64, most int) (found []header, err error) {
	t, at := h.t, h.of.at()
	add := func(text string, args ...any) {
		if err == nil {
			var more []header
			more, err = h.headersOf(ctx, nil, most, text, args...)
			found = append(found, more...)
		}
	}
	for i, s := range h.base { // the next of the path that a fork began with
		switch {
		case covers(h.base[i:i+1], at) && at.depth < s.depth, i == 0 && at == spot{}:
			add(readHeaders, append(slices.Clone(h.shared), s.tree, s.branch, at.depth+1, at.depth+1, after, most)...)
		case i > 0 && h.base[i-1].spot == at:
			add(readHeaders, append(slices.Clone(h.shared), s.tree, s.branch, s.first, s.first, after, most)...)
		}
	}
	own := max(after, t.baseSeq)
	if at == (spot{}) {
		add(ownRoots, t.key, own, most)
	} else {
		if at.tree == t.key {
			add(ownNext, t.key, at.branch, at.depth+1)
		}
		add(ownChildren, t.key, own, at.tree, at.branch, at.depth, most)
	}
	found = slices.DeleteFunc(found, func(h header) bool { return h.Seq <= after })
	slices.SortFunc(found, func(a, b header) int { return int(a.Seq - b.Seq) })
	return found, err
}

func (s transcripts) Headers(ctx context.Context, q transcript.HeaderQuery) (page transcript.HeaderPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	_, err = s.of(ctx, q.Conversation, func(ctx context.Context, on place, t *tree) error {
		page = transcript.HeaderPage{}
		h := headers{place: on, t: t, asked: q}
		if t.reads() {
			if h.base, err = on.spans(ctx, t.base); err != nil {
				return err
			}
			h.shared = []any{t.key, t.base.tree, t.base.branch, t.base.depth, t.key}
		}
		if top := q.Of.Entry + q.Under.Entry; top != "" { // one of them
			found, err := on.known(ctx, t, []transcript.EntryID{top})
			if err != nil {
				return err
			}
			if h.of = found[top]; h.of == nil || h.of.Aborted {
				return nil
			}
		}
		for after := q.After; ; {
			found, err := h.some(ctx, after, limit+1)
			if err != nil {
				return err
			}
			for _, f := range found {
				if after = f.Seq; q.Tips && (f.Aborted || f.Children > 0) || q.Label != "" && !slices.Contains(f.Labels, q.Label) {
					continue
				}
				if len(page.Headers) == limit {
					page.Next = page.Headers[limit-1].Seq
					return nil
				}
				page.Headers = append(page.Headers, f.Header)
			}
			if len(found) <= limit {
				return nil
			}
		}
	})
	return page, err
}
