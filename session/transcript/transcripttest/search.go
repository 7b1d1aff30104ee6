package transcripttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// search is all pages of a search.
func (b *bench) search(q transcript.SearchQuery) (out []transcript.Hit) {
	b.Helper()
	for range 10_000 {
		page, err := b.store.Search(b.Context(), q)
		if err != nil {
			b.Fatalf("Search(%+v): %v", q, err)
		}
		out = append(out, page.Hits...)
		if page.Next == 0 {
			return out
		}
		q.Before = page.Next
	}
	b.Fatalf("Search(%+v): the pages don't end", q)
	return nil
}

func hitIDs(hits []transcript.Hit) []transcript.EntryID {
	out := []transcript.EntryID{}
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

// finds expects what a text finds, newest first.
func (b *bench) finds(text string, want ...transcript.EntryID) {
	b.Helper()
	b.same(fmt.Sprintf("what %q finds", text), hitIDs(b.search(transcript.SearchQuery{Conversation: talk, Text: text})), append([]transcript.EntryID{}, want...))
}

func searchChecks() []check {
	user := func(id transcript.EntryID, text string) transcript.NewEntry {
		return says(transcript.KindUser, id, text)
	}
	return []check{
		{"search", "A search finds what has all its words, whatever their case, the newest first; the last of them may be the beginning of one.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{
				user("a", "The quick brown fox"), user("b", "a brown dog, quick!"), user("c", "quickly: nothing"), user("d", "BROWN_QUICK"), user("e", "brownish"),
			}})
			b.finds("quick brown", "d", "b", "a")
			b.finds("brown quick", "d", "b", "a")
			b.finds("quick", "d", "c", "b", "a")
			b.finds("quick ", "d", "b", "a")
			b.finds("FOX", "a")
			b.finds("f", "a")
			b.finds("ox")
			b.finds("quick cat")
			b.finds("brown brown br", "d", "b", "a")
			b.same("a kind there is none of", hitIDs(b.search(transcript.SearchQuery{Conversation: talk, Text: "brown", Kinds: []transcript.Kind{transcript.KindAssistant}})), []transcript.EntryID{})
		}},
		{"search-words", "Words are what Words says, in any script.", func(b *bench) {
			b.create(talk)
			long := strings.Repeat("x", transcript.MaxWord)
			b.commit(transcript.Change{Append: []transcript.NewEntry{
				user("a", "Übergröße ÉCOLE"), user("b", "e\u0301cole it's 2½ x_y"), user("c", "我们在北京。"), user("d", "straße ÇA 'quoted\" 12_34"), user("e", long+"yyy"), user("f", "NEAR AND OR NOT *"),
			}})
			b.finds("über", "a")
			b.finds("uber")
			b.finds("école ", "a")
			b.finds("E\u0301COLE ", "b")
			b.finds("s 2 y", "b")
			b.finds("北京", "c")
			b.finds("京 北", "c")
			b.finds("北海")
			b.finds("ça", "d")
			b.finds("12 34 ", "d")
			b.finds("quoted\"", "d")
			b.finds("1", "d")
			b.finds(long+"zzz ", "e")
			b.finds("and near or not ", "f")
			b.finds("x ", "b")
		}},
		{"search-text", "Text and thinking, summaries and the names of tools are searched, what is large too; no payload, no argument and no result. (case 8a)", func(b *bench) {
			b.create(talk)
			thought := says(transcript.KindAssistant, "b", "visible")
			thought.Parts = append(thought.Parts, transcript.Part{Type: transcript.PartThinking, Data: json.RawMessage(`{"text":"pondering"}`)},
				transcript.Part{Type: "image", Data: json.RawMessage(`{"text":"pixels"}`)})
			thought.Payload = json.RawMessage(`{"text":"payload"}`)
			call := calls("c")
			call.Parts = append(call.Parts, transcript.Part{Type: transcript.PartCall, Call: &transcript.Call{
				ID: "cc", Name: "read_file", Arguments: json.RawMessage(`{"text":"argument"}`), Status: transcript.CallSucceeded, Result: json.RawMessage(`{"text":"result"}`),
			}})
			large := user("e", strings.Repeat("filling ", transcript.InlineBytes/8+1)+"needle")
			b.commit(transcript.Change{Append: []transcript.NewEntry{user("a", "first"), thought, call, compacts("d", "c"), large}})
			b.finds("pondering visible", "b")
			b.finds("read file", "c")
			b.finds("summary d ", "d")
			b.finds("needle", "e")
			for _, no := range []string{"pixels", "payload", "argument", "result"} {
				b.finds(no)
			}
			b.commit(transcript.Change{Append: []transcript.NewEntry{user("f", strings.Repeat("filling ", transcript.MaxSearched/8)+"farther")}})
			b.finds("farther")
			b.finds("filling", "f", "e")
		}},
		{"search-hits", "A hit has its header, and how its text reads around the first of the words, with where they are.", func(b *bench) {
			b.create(talk)
			text := strings.Repeat("padding before it all ", 40) + "then the Needle  in\na haystack is NEEDLES " + strings.Repeat("and after it ", 40)
			b.commit(transcript.Change{Append: []transcript.NewEntry{user("a", text), user("b", "needle"), user("c", "else")}, Labels: labels("b", "x").Labels})
			hits := b.search(transcript.SearchQuery{Conversation: talk, Text: "needle"})
			headers := b.headers(transcript.HeaderQuery{Conversation: talk})
			for i, want := range []transcript.Header{headers[1], headers[0]} {
				b.same("the header", hits[i].Header, want)
			}
			b.same("the shortest", hits[0].Snippet, "needle")
			h := hits[1]
			var at []string
			for _, p := range h.Places {
				if p.From < 0 || p.To > len(h.Snippet) || p.From >= p.To {
					b.Fatalf("a place %+v in %d bytes", p, len(h.Snippet))
				}
				at = append(at, h.Snippet[p.From:p.To])
			}
			b.same("the places", at, []string{"Needle", "NEEDLES"})
			if !strings.Contains(h.Snippet, "then the Needle in a haystack") || len(h.Snippet) > 2*transcript.SnippetRunes {
				b.Errorf("it reads %q", h.Snippet)
			}
		}},
		{"search-pages", "A page goes on where the one before it ended, whatever has come since.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), numbered("s", 9)...)
			want := numbered("s", 9)
			slices.Reverse(want)
			for _, limit := range []int{1, 2, 4, 8, 9, 10} {
				b.same(fmt.Sprintf("in pages of %d", limit), hitIDs(b.search(transcript.SearchQuery{Conversation: talk, Text: "what", Limit: limit})), want)
			}
			page, err := b.store.Search(b.Context(), transcript.SearchQuery{Conversation: talk, Text: "what", Limit: 3})
			if err != nil || len(page.Hits) != 3 {
				b.Fatalf("got %d, %v", len(page.Hits), err)
			}
			b.grow(talk, head(), "new")
			b.same("what follows", hitIDs(b.search(transcript.SearchQuery{Conversation: talk, Text: "what", Limit: 3, Before: page.Next})), want[3:])
			b.finds("what new", "new")
			b.same("a default page", len(b.search(transcript.SearchQuery{Conversation: talk, Text: "about"})), 10)
		}},
		{"search-path", "With Path only what is on that path is found; without, of all branches.", func(b *bench) {
			b.create(talk)
			b.bush()
			for _, at := range append([]transcript.EntryID{""}, headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk}))...) {
				q := transcript.SearchQuery{Conversation: talk, Text: "what", Path: true, Limit: 2}
				if at != "" {
					q.At = transcript.After(at)
				}
				want := ids(b.path(talk, q.At))
				slices.Reverse(want)
				b.same(fmt.Sprintf("on the path to %q", at), hitIDs(b.search(q)), want)
			}
			b.same("before the root", hitIDs(b.search(transcript.SearchQuery{Conversation: talk, Text: "what", Path: true, At: transcript.BeforeRoot()})), []transcript.EntryID{})
			all := headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk}))
			slices.Reverse(all)
			b.finds("what", all...)
			if _, err := b.store.Search(b.Context(), transcript.SearchQuery{Conversation: talk, Text: "what", Path: true, At: transcript.After("nothing")}); !is(transcript.ErrNotFound)(err) {
				b.Errorf("on the path to nothing: got error %v, want ErrNotFound", err)
			}
		}},
		{"search-gone", "A draft, what was given up, and what was deleted is never found; nor what another conversation has.", func(b *bench) {
			b.create(talk)
			b.create(other)
			b.grow(talk, head(), "a")
			b.grow(other, head(), "a", "theirs")
			b.commit(drafts(user("d", "what a draft")))
			b.finds("what", "a")
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			b.finds("what", "a")
			b.commit(transcript.Change{Status: transcript.Archived})
			b.finds("what", "a")
			b.commit(transcript.Change{Status: transcript.Deleted})
			if _, err := b.store.Search(b.Context(), transcript.SearchQuery{Conversation: talk, Text: "what"}); !is(transcript.ErrNotFound)(err) {
				b.Errorf("of what is deleted: got error %v, want ErrNotFound", err)
			}
			b.create(talk)
			b.finds("what")
			b.grow(talk, head(), "b")
			b.purge(3)
			b.finds("what", "b")
			b.same("the other's", hitIDs(b.search(transcript.SearchQuery{Conversation: other, Text: "what"})), []transcript.EntryID{"theirs", "a"})
		}},
		{"search-index", "Index keeps words beforehand, at most so many entries' at a time, until there are none left; what it leaves a search does.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), numbered("s", 250)...)
			total := 0
			for {
				n, err := b.store.Index(b.Context(), talk, 40)
				if err != nil || n < 0 || n > 40 {
					b.Fatalf("Index: %d, %v", n, err)
				}
				if total += n; n == 0 {
					break
				}
			}
			if total != 250 {
				b.Errorf("%d entries, want 250", total)
			}
			b.grow(talk, head(), "late")
			if n, err := b.store.Index(b.Context(), talk, 40); n != 1 || err != nil {
				b.Errorf("of one more: %d, %v", n, err)
			}
			b.grow(talk, head(), "later")
			b.same("all", len(b.search(transcript.SearchQuery{Conversation: talk, Text: "what", Limit: 100})), 252)
			if n, err := b.store.Index(b.Context(), talk, 40); n != 0 || err != nil {
				b.Errorf("after a search: %d, %v", n, err)
			}
		}},
		{"search-forks", "A fork finds what it began with and what is its own, also when what it reads is gone and it never searched before.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), numbered("s", 5)...)
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("s0002"), ByReference: byReference})
				b.grow(to, head(), "own")
			})
			b.fork(transcript.Fork{From: third, To: "of a fork", ByReference: true})
			b.grow("of a fork", head(), "last")
			b.grow(talk, head(), "later")
			want := []transcript.EntryID{"own", "s0002", "s0001", "s0000"}
			b.same("of a fork", hitIDs(b.search(transcript.SearchQuery{Conversation: "of a fork", Text: "what", Limit: 2})), append([]transcript.EntryID{"last"}, want...))
			find := func(when string) {
				b.Helper()
				both(func(_ bool, to access.ConversationID) {
					for _, q := range []transcript.SearchQuery{{}, {Path: true}} {
						q.Conversation, q.Text, q.Limit = to, "what", 2
						b.same(when, hitIDs(b.search(q)), want)
					}
				})
			}
			b.commit(transcript.Change{Status: transcript.Deleted})
			if n, err := b.store.Purge(b.Context(), 2); err != nil || n == 0 {
				b.Fatalf("Purge: %d, %v", n, err)
			}
			find("while it is purged")
			b.purge(2)
			find("when it is purged")
			b.same("of a fork, in the end", hitIDs(b.search(transcript.SearchQuery{Conversation: "of a fork", Text: "what"})), append([]transcript.EntryID{"last"}, want...))
		}},
	}
}
