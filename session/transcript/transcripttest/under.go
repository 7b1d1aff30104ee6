package transcripttest

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func underChecks() []check {
	return []check{
		{"headers-under", "What is below a position is listed at any distance, or as many levels deep as is asked for, in the order of seq; nothing of other branches, nor what was given up.", func(b *bench) {
			b.create(talk)
			parents := b.bush()
			b.commit(drafts(asks("given up")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			b.commit(labels("i", "x"))
			b.underAll(talk, parents)
			b.same("tips below b", headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, Under: transcript.After("b"), Tips: true, Limit: 2})), []transcript.EntryID{"i", "l", "o", "r"})
		}},
		{"headers-under-forks", "Below what a fork began with is what is its own, and nothing of its source's other branches.", func(b *bench) {
			b.create(talk)
			b.bush()
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("k"), ByReference: byReference})
				parents := map[transcript.EntryID]transcript.EntryID{"a": "", "b": "a", "f": "b", "g": "f", "j": "g", "k": "j"}
				grow := func(after transcript.EntryID, chain ...transcript.EntryID) {
					b.grow(to, transcript.After(after), chain...)
					for _, id := range chain {
						parents[id], after = after, id
					}
				}
				grow("k", "t", "u")
				grow("b", "v", "w")
				grow("v", "x")
				grow("t", "y")
				b.grow(to, transcript.BeforeRoot(), "z")
				parents["z"] = ""
				b.underAll(to, parents)
			})
		}},
	}
}

// underAll expects of every position what is below it, by the parents of all.
func (b *bench) underAll(c access.ConversationID, parents map[transcript.EntryID]transcript.EntryID) {
	b.Helper()
	all := b.headers(transcript.HeaderQuery{Conversation: c})
	for _, top := range append([]transcript.EntryID{""}, headerIDs(all)...) {
		for levels := range 5 {
			want := []transcript.EntryID{}
			for _, h := range all {
				id, known := h.ID, false
				for away := 1; ; away++ {
					if id, known = parents[id]; !known || levels > 0 && away > levels {
						break
					}
					if id == top {
						want = append(want, h.ID)
						break
					}
				}
			}
			q := transcript.HeaderQuery{Conversation: c, Under: transcript.After(top), Levels: levels}
			if top == "" {
				q.Under = transcript.BeforeRoot()
			}
			if _, committed := parents[top]; top != "" && !committed {
				want = nil
			}
			for _, q.Limit = range []int{0, 3} {
				b.same(fmt.Sprintf("%s: %d levels below %q, in pages of %d", c, levels, top, q.Limit), headerIDs(b.headers(q)), want)
			}
		}
	}
}
