package transcript

import (
	"context"
	"slices"

	"github.com/bunkroom/bunkroom/access"
)

// Path is one of two paths to compare.
type Path struct {
	Conversation access.ConversationID
	At           Position // where it ends; zero: the head
}

// Comparison says what two paths have in common, and what only one of them has.
type Comparison struct {
	// Base is after the last entry that both have, as it is named in both; before the root: there is none.
	Base  Position
	Depth int64 // of that entry; 0: there is none
	// OnlyA and OnlyB are behind it, in the order of the path.
	OnlyA, OnlyB []Entry
}

// Compare compares the paths to two positions, of one conversation or of two. A
// fork, however it was made, has in common with its source and with other forks
// of that what it began with, also once the source is gone. *LimitError: one of them has more than limit entries
// that the other has not, of which none was read. Other errors are those of [Store.Spans] and [Store.Path].
// What is added meanwhile does not matter, unless a position is left to be wherever the head is.
func Compare(ctx context.Context, s Store, a, b Path, limit int) (c Comparison, err error) {
	if limit < 1 {
		return c, &access.FieldError{Field: "limit", Rule: "at least 1"}
	}
	var spans [2][]Span
	both := [2]*Path{&a, &b}
	for i, p := range both {
		if p.At.IsZero() { // once, so that the spans and the entries are of one place
			t, err := s.Load(ctx, p.Conversation)
			if err != nil {
				return c, err
			}
			p.At = t.Head
		}
		if spans[i], err = s.Spans(ctx, p.Conversation, p.At); err != nil {
			return c, err
		}
	}
	depth := Common(spans[0], spans[1])
	var only [2][]Entry
	for _, path := range spans {
		if n := len(path); n > 0 && path[n-1].To-depth > int64(limit) {
			return c, &LimitError{Of: "entries to compare", Max: int64(limit)}
		}
	}
	for i, p := range both {
		if only[i], c.Base, err = down(ctx, s, *p, depth); err != nil {
			return Comparison{}, err
		}
	}
	c.Depth, c.OnlyA, c.OnlyB = depth, only[0], only[1]
	return c, nil
}

// down reads a path to its end, from behind the entry of that depth on, and what those follow.
func down(ctx context.Context, s Store, p Path, depth int64) (only []Entry, base Position, err error) {
	base = p.At
	for q := (PathQuery{Conversation: p.Conversation, From: p.At, Limit: comparePage}); !base.Root; {
		page, err := s.Path(ctx, q)
		if err != nil {
			return nil, base, err
		}
		for _, e := range page.Entries {
			if e.Depth <= depth {
				slices.Reverse(only)
				return only, base, nil
			}
			only, base = append(only, e), e.Parent
		}
		if q.From = page.Next; q.From.IsZero() {
			break
		}
	}
	slices.Reverse(only)
	return only, base, nil
}

// comparePage is small: as a rule two paths part not long before their ends.
const comparePage = 100
