package transcripttest

import (
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// compares expects how two paths differ, by their entries, and the same the other way round.
func (b *bench) compares(x, y transcript.Path, base transcript.EntryID) {
	b.Helper()
	onX, onY := b.path(x.Conversation, x.At), b.path(y.Conversation, y.At)
	depth := int64(0)
	want := transcript.BeforeRoot()
	if base != "" {
		want, depth = transcript.After(base), b.get(x.Conversation, base).Depth
	}
	for _, turned := range []bool{false, true} {
		if turned {
			x, y, onX, onY = y, x, onY, onX
		}
		what := fmt.Sprintf("%v and %v", x, y)
		c, err := transcript.Compare(b.Context(), b.store, x, y, enough)
		if err != nil {
			b.Errorf("%s: %v", what, err)
			continue
		}
		if c.Base != want || c.Depth != depth {
			b.Errorf("%s: they part %v, at depth %d; want %v, at %d", what, c.Base, c.Depth, want, depth)
			continue
		}
		b.same(what+": only the one", ids(c.OnlyA), ids(onX[depth:]))
		b.same(what+": only the other", ids(c.OnlyB), ids(onY[depth:]))
	}
}

func compareChecks() []check {
	on := func(c access.ConversationID, at transcript.EntryID) transcript.Path {
		return transcript.Path{Conversation: c, At: transcript.After(at)}
	}
	return []check{
		{"compare", "Two paths of a tree have in common what is on both, and Compare tells that and the rest of each.", func(b *bench) {
			b.create(talk)
			parents := b.bush()
			up := func(id transcript.EntryID) (path []transcript.EntryID) {
				for ; id != ""; id = parents[id] {
					path = append(path, id)
				}
				return path
			}
			for x := range parents {
				for _, y := range []transcript.EntryID{"a", "e", "i", "l", "n", "o", "r", "s"} {
					base := transcript.EntryID("")
					for _, id := range up(x) {
						if slices.Contains(up(y), id) {
							base = id
							break
						}
					}
					b.compares(on(talk, x), on(talk, y), base)
				}
			}
			b.compares(transcript.Path{Conversation: talk}, transcript.Path{Conversation: talk, At: transcript.BeforeRoot()}, "")
			b.commit(transcript.Change{Head: transcript.After("i")})
			b.compares(transcript.Path{Conversation: talk}, on(talk, "l"), "b")
			if _, err := transcript.Compare(b.Context(), b.store, on(talk, "i"), on(talk, "l"), 2); !as[*transcript.LimitError](err) {
				b.Errorf("with more than it may read: got error %v, want *LimitError", err)
			}
			if _, err := transcript.Compare(b.Context(), b.store, on(talk, "i"), on(talk, "zz"), 2); !is(transcript.ErrNotFound)(err) {
				b.Errorf("with nothing: got error %v, want ErrNotFound", err)
			}
		}},
		{"compare-forks", "A fork has in common with its source and with other forks what it began with, however it was made, also once the source is gone.", func(b *bench) {
			b.create(talk)
			b.bush()
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("k"), ByReference: byReference})
				b.grow(to, head(), "t", "u")
				b.grow(to, transcript.After("f"), "v")
				b.fork(transcript.Fork{From: to, To: "of " + to, At: transcript.After("t"), ByReference: !byReference})
				b.grow("of "+to, head(), "w")
				b.fork(transcript.Fork{From: talk, To: "short " + to, At: transcript.After("g"), ByReference: byReference})
				b.grow("short "+to, head(), "t")
			})
			b.grow(talk, transcript.After("k"), "t") // another one of that id
			among := func() {
				both(func(_ bool, to access.ConversationID) {
					b.compares(on("of "+to, "w"), on(to, "u"), "t")
					b.compares(on("short "+to, "t"), on(to, "u"), "g")
					b.compares(on("short "+to, "t"), on(to, "v"), "f")
				})
				b.compares(on(other, "u"), on(third, "t"), "k")
				b.compares(on("of "+other, "w"), on("of "+third, "w"), "k")
				b.compares(on("short "+other, "t"), on("of "+third, "w"), "g")
			}
			both(func(_ bool, to access.ConversationID) {
				b.compares(on(to, "u"), on(talk, "t"), "k")
				b.compares(on(to, "v"), on(talk, "r"), "f")
				b.compares(on("of "+to, "w"), on(talk, "o"), "g")
				b.compares(on(to, "u"), on(talk, "n"), "")
			})
			among()
			b.commit(transcript.Change{Status: transcript.Deleted})
			among()
			b.purge(4)
			among()
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			b.compares(on(talk, "b"), on(other, "b"), "")
		}},
	}
}
