package sqlstore

import (
	"context"
	"errors"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const (
	// headPath is the newest of the path to the head, as far as they are on the
	// head's branch and that is the tree's own: most pages are. A branch has no gaps, so that a page is a range of depths.
	// (By how many to LIMIT it a database would want to know before it plans, each time.)
	headPath = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e
		WHERE e.tree = (SELECT t.tree FROM bunkroom_transcripts AS t WHERE t.conversation = ?1 AND t.status <> 'deleted' AND t.head_tree = t.tree)
		AND e.branch = (SELECT t.head_branch FROM bunkroom_transcripts AS t WHERE t.conversation = ?1 AND t.status <> 'deleted')
		AND e.depth > (SELECT t.head_depth FROM bunkroom_transcripts AS t WHERE t.conversation = ?1 AND t.status <> 'deleted') - ?2
		AND e.depth <= (SELECT t.head_depth FROM bunkroom_transcripts AS t WHERE t.conversation = ?1 AND t.status <> 'deleted')
		ORDER BY e.depth DESC`
	stretch = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e
		WHERE e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ? ORDER BY e.depth DESC LIMIT ?`
	stretchState = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e
		WHERE e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ? AND e.kind = 'state' ORDER BY e.depth DESC LIMIT ?`
)

// walk reads at most so many entries of a path, newest first, down to a depth.
func (p place) walk(ctx context.Context, t *tree, to spot, down int64, most int) ([]entry, error) {
	if to == (spot{}) {
		return nil, nil
	}
	sees, err := p.sight(ctx, t)
	if err != nil {
		return nil, err
	}
	found, err := p.entriesOf(ctx, sees, stretch, to.tree, to.branch, down, to.depth, most)
	if err != nil || len(found) == most || len(found) > 0 && found[len(found)-1].Depth == down {
		return found, err
	}
	path, err := p.spans(ctx, to)
	if err != nil {
		return nil, err
	}
	want := int(min(int64(most), to.depth-down+1))
	for _, s := range slices.Backward(path[:len(path)-1]) {
		if len(found) >= want || s.depth < down {
			break
		}
		more, err := p.entriesOf(ctx, sees, stretch, s.tree, s.branch, max(down, s.first), s.depth, want-len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	if len(found) != want {
		return nil, errUprooted
	}
	return found, nil
}

func (s transcripts) Path(ctx context.Context, q transcript.PathQuery) (page transcript.PathPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	cut := func(ctx context.Context, on place, found []entry) error {
		page = transcript.PathPage{}
		if len(found) > limit {
			found = found[:limit]
			page.Next = found[limit-1].Parent
		}
		page.Entries, err = on.plain(ctx, found, q.Blobs)
		return err
	}
	if q.From.IsZero() && q.Through == "" {
		whole := false
		err := s.read(ctx, func(ctx context.Context, on place) error {
			found, err := on.entriesOf(ctx, nil, headPath, string(q.Conversation), limit+1)
			if whole = len(found) > limit || len(found) > 0 && found[len(found)-1].Depth == 1; err != nil || !whole {
				return err
			}
			return cut(ctx, on, found)
		})
		if uprooted := errors.Is(err, errUprooted); !uprooted && (err != nil || whole) {
			return page, err
		}
	}
	err = s.along(ctx, q.Conversation, q.From, func(ctx context.Context, on place, t *tree, to *knownEntry) error {
		down, err := on.down(ctx, t, to, q.Through)
		if err != nil {
			return err
		}
		found, err := on.walk(ctx, t, to.at(), down, limit+1)
		if err != nil {
			return err
		}
		return cut(ctx, on, found)
	})
	return page, err
}

// down is the depth of an entry that must be on a path; of none it is the root's.
func (p place) down(ctx context.Context, t *tree, to *knownEntry, through transcript.EntryID) (int64, error) {
	if through == "" {
		return 1, nil
	}
	found, err := p.known(ctx, t, []transcript.EntryID{through})
	if err != nil {
		return 0, err
	}
	path, err := p.spans(ctx, to.at())
	if err != nil {
		return 0, err
	}
	k, there := found[through]
	if !there || k.Aborted || !covers(path, k.spot) {
		return 0, &transcript.PathError{Entry: through, Rule: "it is not on the path"}
	}
	return k.Depth, nil
}

func (s transcripts) Context(ctx context.Context, c access.ConversationID, at transcript.Position, limit int) (out []transcript.Entry, err error) {
	if limit < 1 {
		return nil, field("limit", "at least 1")
	}
	err = s.along(ctx, c, at, func(ctx context.Context, on place, t *tree, to *knownEntry) error {
		out = nil
		if to == nil {
			return nil
		}
		down := max(to.sums.context, 1)
		if to.Depth-down+1 > int64(limit) {
			return &transcript.LimitError{Of: "entries in a context", Max: int64(limit)}
		}
		found, err := on.walk(ctx, t, to.spot, down, int(to.Depth-down+1))
		if err != nil {
			return err
		}
		if to.sums.context > 0 {
			pinned, err := on.pinned(ctx, t, found)
			if err != nil {
				return err
			}
			found = append(found, pinned...)
		}
		if len(found) > limit {
			return &transcript.LimitError{Of: "entries in a context", Max: int64(limit)}
		}
		slices.Reverse(found)
		out, err = on.plain(ctx, found, false)
		return err
	})
	return out, err
}

// pinned are the entries that the newest compaction among these keeps beside
// them. Both are newest first.
func (p place) pinned(ctx context.Context, t *tree, tail []entry) ([]entry, error) {
	for _, e := range tail {
		if e.Compaction == nil {
			continue
		}
		kept, err := p.get(ctx, t, e.Compaction.Pinned)
		if err != nil {
			return nil, err
		}
		if len(kept) != len(e.Compaction.Pinned) {
			return nil, errUprooted
		}
		slices.Reverse(kept)
		return kept, nil
	}
	return nil, nil
}

func (s transcripts) State(ctx context.Context, c access.ConversationID, at transcript.Position) (state transcript.State, err error) {
	err = s.along(ctx, c, at, func(ctx context.Context, on place, t *tree, to *knownEntry) error {
		state = transcript.Fold()
		if to == nil {
			return nil
		}
		path, err := on.spans(ctx, to.spot)
		if err != nil {
			return err
		}
		var deltas []transcript.StateDelta
		for _, s := range path {
			from := max(to.sums.whole, s.first)
			if from > s.depth {
				continue
			}
			found, err := on.entriesOf(ctx, nil, stretchState, s.tree, s.branch, from, s.depth, s.depth-from+1)
			if err != nil {
				return err
			}
			for _, e := range slices.Backward(found) {
				deltas = append(deltas, *e.State)
			}
		}
		state = transcript.Fold(deltas...)
		return nil
	})
	return state, err
}
