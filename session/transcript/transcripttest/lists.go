package transcripttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func listChecks() []check {
	return []check{
		{"timeline", "The timeline has all entries of all branches, newest first, in pages; of some kinds or of one turn, if asked.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: full()})
			b.commit(drafts(asks("d")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			b.grow(talk, transcript.BeforeRoot(), "x", "y")
			all := b.timeline(transcript.TimelineQuery{Conversation: talk})
			if len(all) != len(full())+3 {
				b.Errorf("got %d entries", len(all))
			}
			for i := range all[1:] {
				if all[i].Seq <= all[i+1].Seq {
					b.Errorf("seq %d is before %d", all[i].Seq, all[i+1].Seq)
				}
			}
			for _, limit := range []int{1, 3, len(all), len(all) + 1} {
				b.same(fmt.Sprintf("in pages of %d", limit), b.timeline(transcript.TimelineQuery{Conversation: talk, Limit: limit}), all)
			}
			for what, c := range map[string]struct {
				q    transcript.TimelineQuery
				keep func(transcript.Entry) bool
			}{
				"of a kind": {transcript.TimelineQuery{Kinds: []transcript.Kind{transcript.KindUser}}, func(e transcript.Entry) bool { return e.Kind == transcript.KindUser }},
				"of two kinds": {transcript.TimelineQuery{Kinds: []transcript.Kind{transcript.KindState, "something of a later version"}},
					func(e transcript.Entry) bool {
						return e.Kind == transcript.KindState || e.Kind == "something of a later version"
					}},
				"of a turn":     {transcript.TimelineQuery{Turn: "turn 1"}, func(e transcript.Entry) bool { return e.Turn == "turn 1" }},
				"of no turn":    {transcript.TimelineQuery{Turn: "turn 2"}, func(transcript.Entry) bool { return false }},
				"of both":       {transcript.TimelineQuery{Turn: "turn 1", Kinds: []transcript.Kind{transcript.KindUser}}, func(e transcript.Entry) bool { return e.Turn == "turn 1" && e.Kind == transcript.KindUser }},
				"before an old": {transcript.TimelineQuery{Before: all[4].Seq}, func(e transcript.Entry) bool { return e.Seq < all[4].Seq }},
			} {
				c.q.Conversation, c.q.Limit = talk, 2
				want := slices.DeleteFunc(slices.Clone(all), func(e transcript.Entry) bool { return !c.keep(e) })
				b.same(what, ids(b.timeline(c.q)), ids(want))
			}
		}},
		{"timeline-grows", "While the tree grows, pages of the timeline bring nothing twice and leave nothing out.", func(b *bench) {
			b.create(talk)
			all := numbered("e", 9)
			b.grow(talk, head(), all...)
			q := transcript.TimelineQuery{Conversation: talk, Limit: 2}
			var got []transcript.EntryID
			for i := 0; ; i++ {
				page, err := b.store.Timeline(b.Context(), q)
				if err != nil {
					b.Fatalf("Timeline: %v", err)
				}
				got = append(got, ids(page.Entries)...)
				if page.Next == 0 {
					break
				}
				q.Before = page.Next
				b.grow(talk, transcript.After(all[i]), transcript.EntryID(fmt.Sprintf("later %d", i)))
			}
			slices.Reverse(got)
			b.same("the timeline", got, all)
		}},
		{"headers", "A header is an entry without its content, with its labels and how many follow it.", func(b *bench) {
			b.create(talk)
			e := says(transcript.KindAssistant, "b", "\x00"+strings.Repeat("ü\n  x ", 100))
			e.Turn = "turn 1"
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), e, calls("c", "c1"), compacts("k", "c")}})
			b.grow(talk, transcript.After("a"), "d")
			b.commit(drafts(asks("given up")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			b.commit(labels("b", "x"))
			byID := map[transcript.EntryID]transcript.Header{}
			for _, h := range b.headers(transcript.HeaderQuery{Conversation: talk, Limit: 2}) {
				byID[h.ID] = h
			}
			children := map[transcript.EntryID]int{"a": 2, "b": 1, "c": 1}
			for _, e := range b.timeline(transcript.TimelineQuery{Conversation: talk}) {
				sealed, err := transcript.Seal(e.NewEntry)
				if err != nil {
					b.Fatalf("Seal: %v", err)
				}
				want := transcript.Header{
					ID: e.ID, Kind: e.Kind, Turn: e.Turn, Actor: e.Actor, Seq: e.Seq, Parent: e.Parent, Depth: e.Depth, Aborted: e.Aborted,
					Preview: sealed.Preview, Children: children[e.ID], CreatedAt: e.CreatedAt,
				}
				if e.ID == "b" {
					want.Labels = []string{"x"}
				}
				b.same("the header of "+string(e.ID), byID[e.ID], want)
			}
			if p := []rune(byID["b"].Preview); len(p) != transcript.PreviewRunes || strings.ContainsAny(string(p), "\n") {
				b.Errorf("the preview is %q", string(p))
			}
		}},
		{"headers-of", "Headers are those of the whole tree, of what follows an entry, of tips, or of what has a label, in the order of seq.", func(b *bench) {
			b.create(talk)
			b.bush()
			b.commit(drafts(asks("given up")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			for _, id := range []transcript.EntryID{"b", "f", "i", "o", "given up"} {
				b.commit(labels(id, "x"))
			}
			for what, c := range map[string]struct {
				q    transcript.HeaderQuery
				want string
			}{
				"all":                {transcript.HeaderQuery{}, "a b c d e f g h i j k l m n o p q r s given up"},
				"roots":              {transcript.HeaderQuery{Of: transcript.BeforeRoot()}, "a m"},
				"children of b":      {transcript.HeaderQuery{Of: transcript.After("b")}, "c f l"},
				"of a tip":           {transcript.HeaderQuery{Of: transcript.After("l")}, ""},
				"of s":               {transcript.HeaderQuery{Of: transcript.After("s")}, ""}, // but what was given up
				"of nothing":         {transcript.HeaderQuery{Of: transcript.After("zz")}, ""},
				"tips":               {transcript.HeaderQuery{Tips: true}, "i l n o r s"},
				"labelled":           {transcript.HeaderQuery{Label: "x"}, "b f i o given up"},
				"labelled tips":      {transcript.HeaderQuery{Label: "x", Tips: true}, "i o"},
				"tips that follow b": {transcript.HeaderQuery{Of: transcript.After("b"), Tips: true}, "l"},
				"labelled children":  {transcript.HeaderQuery{Of: transcript.After("b"), Label: "x"}, "f"},
			} {
				for _, limit := range []int{0, 1, 2} {
					c.q.Conversation, c.q.Limit = talk, limit
					got := []string{}
					for _, id := range headerIDs(b.headers(c.q)) {
						got = append(got, string(id))
					}
					if strings.Join(got, " ") != c.want {
						b.Errorf("%s in pages of %d: got %v, want %s", what, limit, got, c.want)
					}
				}
			}
			after := b.get(talk, "q").Seq
			b.same("after q", headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, After: after})), []transcript.EntryID{"r", "s", "given up"})
		}},
	}
}

func openChecks() []check {
	return []check{
		{"unsettled", "What is unfinished is every call that is not settled, complete, and the draft.", func(b *bench) {
			b.create(talk)
			b.same("of nothing", b.open(), transcript.Open{Conversation: talk})
			b.commit(transcript.Change{Append: full()[:2]})
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("b", "c1", "c2")}, After: transcript.BeforeRoot()})
			b.commit(starts("b", "c2"))
			want := transcript.Open{Conversation: talk}
			for _, p := range b.get(talk, full()[1].ID).Parts {
				if p.Call != nil && !p.Call.Status.Settled() {
					want.Calls = append(want.Calls, transcript.OpenCall{Entry: full()[1].ID, Call: *p.Call})
				}
			}
			want.Calls = append(want.Calls, transcript.OpenCall{Entry: "b", Call: b.call("b", "c1")}, transcript.OpenCall{Entry: "b", Call: b.call("b", "c2")})
			if len(want.Calls) != 5 || want.Calls[4].Call.Status != transcript.CallRunning || len(want.Calls[4].Call.Arguments) == 0 {
				b.Errorf("got %+v", want.Calls)
			}
			b.same("what is unfinished", b.open(), want)
			for _, c := range want.Calls {
				b.commit(settles(c.Entry, c.Call.ID, transcript.CallInterrupted, ""))
			}
			b.same("all settled", b.open(), transcript.Open{Conversation: talk})
		}},
		{"unfinished", "Unfinished lists what has an open call, a draft or a turn, by id, in pages that lose and repeat nothing.", func(b *bench) {
			name := func(i int) access.ConversationID {
				return access.ConversationID(fmt.Sprintf("01990000-0000-7000-8000-%012x", i))
			}
			var want []access.ConversationID
			for i := range 12 {
				c := name(i)
				b.create(c)
				var change transcript.Change
				switch i % 4 {
				case 0:
					change.Append = []transcript.NewEntry{calls("a", "c1")}
				case 1:
					change = drafts(asks("a"))
				case 2:
					change.Fence, change.Begin = 1, true
				case 3:
					change.Append = []transcript.NewEntry{asks("a")}
				}
				change.Conversation = c
				b.commit(change)
				if i%4 != 3 {
					want = append(want, c)
				}
			}
			list := func(limit int, between func([]access.ConversationID)) []access.ConversationID {
				var got []access.ConversationID
				after := access.ConversationID("")
				for range 100 {
					page, err := b.store.Unfinished(b.Context(), after, limit)
					if err != nil || len(page) > limit {
						b.Fatalf("Unfinished: %d, %v", len(page), err)
					}
					if len(page) == 0 {
						break
					}
					got = append(got, page...)
					after = page[len(page)-1]
					between(page)
				}
				return got
			}
			read := func([]access.ConversationID) {}
			for _, limit := range []int{1, 2, 9, 100} {
				b.same(fmt.Sprintf("in pages of %d", limit), list(limit, read), want)
			}
			finish := func(page []access.ConversationID) {
				for _, c := range page {
					open, err := b.store.Unsettled(b.Context(), c)
					if err != nil {
						b.Fatalf("Unsettled: %v", err)
					}
					change := transcript.Change{Conversation: c}
					if open.InTurn {
						change.Fence, change.End = open.Fence, true
					}
					for _, call := range open.Calls {
						change.Settle = append(change.Settle, settles(call.Entry, call.Call.ID, transcript.CallInterrupted, "").Settle...)
					}
					if open.Draft != nil {
						change.Abort = []transcript.EntryID{open.Draft.ID}
					}
					b.commit(change)
				}
			}
			b.same("while they are finished", list(2, finish), want)
			b.same("afterwards", list(100, read), []access.ConversationID{})
		}},
	}
}
