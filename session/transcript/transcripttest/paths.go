package transcripttest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// bush makes a tree of many branches in talk, and returns its entries by their
// parents; each entry is named for its place.
func (b *bench) bush() map[transcript.EntryID]transcript.EntryID {
	b.Helper()
	parents := map[transcript.EntryID]transcript.EntryID{}
	grow := func(after transcript.EntryID, chain ...transcript.EntryID) {
		b.Helper()
		at := transcript.After(after)
		if after == "" {
			at = transcript.BeforeRoot()
		}
		b.grow(talk, at, chain...)
		for _, id := range chain {
			parents[id], after = after, id
		}
	}
	grow("", "a", "b", "c", "d", "e")
	grow("b", "f", "g", "h")
	grow("e", "i")           // goes on in the first
	grow("g", "j", "k")      // a branch of a branch
	grow("b", "l")           // a second from the same place
	grow("", "m", "n")       // another root
	grow("h", "o")           // goes on in a branch
	grow("k", "p", "q", "r") // and in a branch of a branch
	grow("a", "s")
	return parents
}

// through is the path to an entry by its parents, root first.
func through(parents map[transcript.EntryID]transcript.EntryID, id transcript.EntryID) (out []transcript.EntryID) {
	for ; id != ""; id = parents[id] {
		out = append([]transcript.EntryID{id}, out...)
	}
	return out
}

func pathChecks() []check {
	return []check{
		{"path", "A path is all that leads from a position to the root, newest first, in pages that go on where they ended.", func(b *bench) {
			b.create(talk)
			parents := b.bush()
			for id := range parents {
				want := through(parents, id)
				for _, limit := range []int{0, 1, 2, 3, len(want), len(want) + 1} {
					got := b.pathWith(transcript.PathQuery{Conversation: talk, From: transcript.After(id), Limit: limit})
					b.same(fmt.Sprintf("the path to %s in pages of %d", id, limit), ids(got), want)
				}
			}
			page, err := b.store.Path(b.Context(), transcript.PathQuery{Conversation: talk, From: transcript.After("e"), Limit: 2})
			if err != nil {
				b.Fatalf("Path: %v", err)
			}
			b.same("the first page", ids(page.Entries), []transcript.EntryID{"e", "d"})
			b.same("goes on", page.Next, transcript.After("c"))
		}},
		{"path-default", "A page without a limit has fifty.", func(b *bench) {
			b.create(talk)
			all := numbered("e", 60)
			b.grow(talk, head(), all...)
			page, err := b.store.Path(b.Context(), transcript.PathQuery{Conversation: talk})
			if err != nil || len(page.Entries) != transcript.DefaultListed || page.Next != transcript.After(all[9]) {
				b.Errorf("got %d, %v, %v", len(page.Entries), page.Next, err)
			}
			timeline, err := b.store.Timeline(b.Context(), transcript.TimelineQuery{Conversation: talk})
			if err != nil || len(timeline.Entries) != transcript.DefaultListed {
				b.Errorf("got %d of the timeline, %v", len(timeline.Entries), err)
			}
			headers, err := b.store.Headers(b.Context(), transcript.HeaderQuery{Conversation: talk})
			if err != nil || len(headers.Headers) != transcript.DefaultListed {
				b.Errorf("got %d headers, %v", len(headers.Headers), err)
			}
			facts, err := b.store.Since(b.Context(), talk, 0, 0)
			if err != nil || len(facts.Facts) != transcript.DefaultListed || !facts.More {
				b.Errorf("got %d facts, %v, %v", len(facts.Facts), facts.More, err)
			}
			last, err := b.store.Path(b.Context(), transcript.PathQuery{Conversation: talk, Limit: 60})
			if err != nil || len(last.Entries) != 60 || !last.Next.IsZero() {
				b.Errorf("a page of just all has %d and goes on %v, %v", len(last.Entries), last.Next, err)
			}
		}},
		{"path-through", "A path ends at the entry it is to go through, on whatever page; one that is not on it is *PathError.", func(b *bench) {
			b.create(talk)
			b.bush()
			for _, limit := range []int{0, 1, 2} {
				got := b.pathWith(transcript.PathQuery{Conversation: talk, From: transcript.After("k"), Through: "f", Limit: limit})
				b.same("the path to k through f", ids(got), []transcript.EntryID{"f", "g", "j", "k"})
			}
			b.same("from itself", ids(b.pathWith(transcript.PathQuery{Conversation: talk, From: transcript.After("k"), Through: "k"})), []transcript.EntryID{"k"})
			b.commit(drafts(asks("draft")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"draft"}})
			for _, id := range []transcript.EntryID{"c", "h", "p", "zz", "draft"} {
				_, err := b.store.Path(b.Context(), transcript.PathQuery{Conversation: talk, From: transcript.After("k"), Through: id, Limit: 1})
				var pe *transcript.PathError
				if !errors.As(err, &pe) || pe.Entry != id {
					b.Errorf("through %s: got error %v, want *PathError that names it", id, err)
				}
			}
		}},
		{"path-grows", "Pages of a path stay what they are while the tree grows.", func(b *bench) {
			b.create(talk)
			all := numbered("e", 9)
			b.grow(talk, head(), all...)
			q := transcript.PathQuery{Conversation: talk, Limit: 2}
			var got []transcript.EntryID
			for i := 0; ; i++ {
				page, err := b.store.Path(b.Context(), q)
				if err != nil {
					b.Fatalf("Path: %v", err)
				}
				got = append(got, ids(page.Entries)...)
				if page.Next.IsZero() {
					break
				}
				q.From = page.Next
				b.grow(talk, head(), transcript.EntryID(fmt.Sprintf("later %d", i)))
				b.grow(talk, transcript.After(all[3]), transcript.EntryID(fmt.Sprintf("beside %d", i)))
			}
			slices.Reverse(got)
			b.same("the path", got, all)
		}},
		{"spans", "By their spans two paths are compared: what they have in common is what they begin with.", func(b *bench) {
			b.create(talk)
			parents := b.bush()
			b.same("before the root", b.spans(talk, transcript.BeforeRoot()), []transcript.Span{})
			b.same("to the head", b.spans(talk, head()), b.spans(talk, transcript.After("s")))
			for x := range parents {
				one, path := b.spans(talk, transcript.After(x)), through(parents, x)
				depth := int64(0)
				for _, s := range one {
					if s.From != depth+1 || s.To < s.From {
						b.Fatalf("the spans to %s are %+v", x, one)
					}
					depth = s.To
				}
				if depth != int64(len(path)) {
					b.Errorf("the spans to %s are %+v, of %d entries", x, one, len(path))
				}
				for y := range parents {
					want, other := 0, through(parents, y)
					for want < min(len(path), len(other)) && path[want] == other[want] {
						want++
					}
					if got := transcript.Common(one, b.spans(talk, transcript.After(y))); got != int64(want) {
						b.Errorf("%s and %s have %d entries in common, want %d", x, y, got, want)
					}
				}
			}
		}},
		{"spans-few", "A path without branches is one span, however long.", func(b *bench) {
			b.create(talk)
			for i := range 20 {
				b.grow(talk, head(), numbered(fmt.Sprintf("e%02d ", i), 10)...)
			}
			if got := b.spans(talk, head()); len(got) != 1 || got[0].From != 1 || got[0].To != 200 {
				b.Errorf("got %+v", got)
			}
		}},
	}
}
