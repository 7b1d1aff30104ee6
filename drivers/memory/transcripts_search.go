package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// index are the words of a tree's entries.
type index struct {
	at   map[string][]int // in which of the tree's entries each is, oldest first
	done int              // of how many entries
}

func (s transcriptStore) Index(ctx context.Context, c access.ConversationID, limit int) (indexed int, err error) {
	if limit < 1 || limit > transcript.MaxListed {
		return 0, &access.FieldError{Field: "limit", Rule: fmt.Sprintf("1 to %d", transcript.MaxListed)}
	}
	err = s.of(ctx, c, func(t *tree) error {
		indexed = t.index(limit)
		return nil
	})
	return indexed, err
}

// index keeps the words of some more entries, and returns of how many.
func (t *tree) index(most int) int {
	x := &t.words
	if x.at == nil {
		x.at = map[string][]int{}
	}
	more := t.entries[x.done:]
	more = more[:min(most, len(more))]
	for i, l := range more {
		if l.Aborted {
			continue
		}
		all := transcript.Words(t.searched(l))
		slices.Sort(all)
		for _, word := range slices.Compact(all) {
			x.at[word] = append(x.at[word], x.done+i)
		}
	}
	x.done += len(more)
	return len(more)
}

// searched is the text of an entry that is searched.
func (t *tree) searched(l *leaf) string { return transcript.Searched(l.read(t.blobs).NewEntry) }

func (s transcriptStore) Search(ctx context.Context, q transcript.SearchQuery) (page transcript.SearchPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	err = s.of(ctx, q.Conversation, func(t *tree) error {
		var path []*leaf
		if q.Path {
			if path, err = t.pathTo(q.At); err != nil {
				return err
			}
		}
		t.index(len(t.entries))
		want := transcript.Want(q.Text)
		for _, i := range slices.Backward(t.having(want)) {
			l := t.entries[i]
			switch {
			case q.Before > 0 && l.Seq >= q.Before:
			case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, l.Kind):
			case q.Path && (l.Depth > int64(len(path)) || path[l.Depth-1] != l):
			case len(page.Hits) == limit:
				page.Next = page.Hits[limit-1].Seq
				return nil
			default:
				hit := transcript.Hit{Header: l.header()}
				hit.Snippet, hit.Places = want.Snippet(t.searched(l))
				page.Hits = append(page.Hits, hit)
			}
		}
		return nil
	})
	return page, err
}

// having are the entries that have all that is wanted, oldest first.
func (t *tree) having(want transcript.Wanted) (found []int) {
	sets := make([][]int, 0, len(want.Words)+1)
	for _, word := range want.Words {
		sets = append(sets, t.words.at[word])
	}
	if want.Prefix != "" {
		var any []int
		for word, at := range t.words.at {
			if strings.HasPrefix(word, want.Prefix) {
				any = append(any, at...)
			}
		}
		slices.Sort(any)
		sets = append(sets, slices.Compact(any))
	}
	found = sets[0]
	for _, set := range sets[1:] {
		var both []int
		for _, i := range found {
			if _, there := slices.BinarySearch(set, i); there {
				both = append(both, i)
			}
		}
		found = both
	}
	return found
}
