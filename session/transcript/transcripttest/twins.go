package transcripttest

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// source fills talk with something of everything.
func (b *bench) source() {
	b.Helper()
	b.create(talk)
	b.bush()
	b.commit(transcript.Change{Append: full()})
	image := says(transcript.KindUser, "image", "look")
	image.Parts = append(image.Parts, transcript.Part{Type: "image", Data: data(2*transcript.InlineBytes, "i")})
	work := calls("work", "open", "running", "large", "small")
	work.Usage = transcript.Usage{Input: 5, CostMicros: 9}
	b.commit(transcript.Change{Append: []transcript.NewEntry{
		image, sets("set", transcript.StateDelta{Set: values("k", `"v"`)}), work, asks("after work"), compacts("folded", "work", "image"), asks("newest"),
	}})
	b.commit(starts("work", "running"))
	b.commit(settles("work", "large", transcript.CallSucceeded, string(data(2*transcript.InlineBytes, "r"))))
	b.commit(settles("work", "small", transcript.CallFailed, `{"exit":1}`))
	b.commit(transcript.Change{Append: []transcript.NewEntry{asks("beside")}, After: transcript.After("work"), KeepHead: true})
	b.commit(transcript.Change{
		Labels: []transcript.LabelChange{{Entry: "image", Label: "x"}, {Entry: "newest", Label: "y"}, {Entry: "beside", Label: "x"}},
		Refs:   []transcript.RefChange{{Name: "here", To: transcript.After("work")}, {Name: "there", To: transcript.After("beside")}},
	})
	b.commit(drafts(asks("given up")))
	b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
}

// use does to a fork what is done to any transcript. n makes the ids its own.
func (b *bench) use(c access.ConversationID, n int) {
	b.Helper()
	id := func(what string) transcript.EntryID { return transcript.EntryID(fmt.Sprintf("%s %d", what, n)) }
	do := func(change transcript.Change) transcript.Committed {
		b.Helper()
		change.Conversation = c
		return b.commit(change)
	}
	work := calls(id("work"), "w1", "w2")
	work.Usage = transcript.Usage{Output: int64(n + 1)}
	do(transcript.Change{Fence: int64(n + 1), Begin: true, Append: []transcript.NewEntry{asks(id("on")), work}, Labels: labels("image", string(id("own"))).Labels})
	s := settles(id("work"), "w1", transcript.CallSucceeded, string(data(2*transcript.InlineBytes, "w")))
	s.Fence, s.End = int64(n+1), true
	do(s)
	do(transcript.Change{After: transcript.After("image"), Append: []transcript.NewEntry{ // a branch of what it began with
		sets(id("set"), transcript.StateDelta{Set: values("k", fmt.Sprint(n)), Delete: []string{"a"}}),
		compacts(id("folded"), "image", "state"), asks(id("branch")),
	}})
	do(transcript.Change{Head: transcript.After("work")})
	if done := do(transcript.Change{Append: []transcript.NewEntry{sets("set", transcript.StateDelta{Set: values("k", `"v"`)})}}); !done.Retried {
		b.Errorf("%s: what it began with is not known again", c)
	}
	denied := func(what string, change transcript.Change, refusal func(error) bool) {
		b.Helper()
		before := b.load(c)
		change.Conversation = c
		if _, err := b.store.Commit(b.Context(), change); err == nil || !refusal(err) {
			b.Errorf("%s: got error %v", what, err)
		}
		b.same(what+": the row after a refusal", b.load(c), before)
	}
	denied("other content of what it began with", transcript.Change{Append: []transcript.NewEntry{calls("image")}}, as[*transcript.EntryConflictError])
	denied("what is only in the source", labels("beside", "x"), is(transcript.ErrNotFound))
	denied("keeping what is on another branch", transcript.Change{
		After: transcript.After(id("branch")), Append: []transcript.NewEntry{compacts(id("no"), id("on"))},
	}, as[*transcript.PathError])
	do(transcript.Change{
		Append: []transcript.NewEntry{asks(id("second"))},
		Refs:   []transcript.RefChange{{Name: "here", To: transcript.After(id("second")), Version: -1}, {Name: string(id("r")), To: transcript.After("image")}},
	})
	do(drafts(asks(id("given up"))))
	do(transcript.Change{Abort: []transcript.EntryID{id("given up")}, Append: []transcript.NewEntry{asks(id("last"))}})
	do(transcript.Change{Labels: []transcript.LabelChange{{Entry: "image", Label: "x", Remove: n%2 == 0}, {Entry: id("given up"), Label: "z"}}})
	b.sound(c)
}

// alike expects two transcripts to be seen as the same.
func (b *bench) alike(when string, one, two access.ConversationID) {
	b.Helper()
	b.same(fmt.Sprintf("%s: %s, as against %s", when, two, one), b.picture(two).anonymous(), b.picture(one).anonymous())
}

func twinChecks() []check {
	twins := func(b *bench) {
		b.Helper()
		both(func(byReference bool, to access.ConversationID) {
			b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("newest"), ByReference: byReference, Refs: true})
		})
	}
	return []check{
		{"twins", "A fork by reference answers every query as one by copy does: at first, while it is used, while its source goes on, is deleted, purged, and made again. (cases 9, 10, 19, 55, 59)", func(b *bench) {
			b.source()
			twins(b)
			b.alike("at first", other, third)
			at := b.picture(other).anonymous()
			b.commit(settles("work", "open", transcript.CallSucceeded, `{"late":1}`))
			b.commit(transcript.Change{Labels: []transcript.LabelChange{{Entry: "image", Label: "late"}, {Entry: "newest", Label: "y", Remove: true}}})
			b.grow(talk, transcript.After("image"), "late branch")
			b.grow(talk, transcript.After("newest"), "late")
			b.alike("after the source went on", other, third)
			b.same("the fork, after the source went on", b.picture(other).anonymous(), at)
			for n := range 2 {
				b.use(other, n)
				b.use(third, n)
				b.alike("after use", other, third)
			}
			b.commit(transcript.Change{Status: transcript.Archived})
			b.alike("after the source was archived", other, third)
			b.commit(transcript.Change{Status: transcript.Deleted})
			b.alike("after the source was deleted", other, third)
			want := b.picture(other)
			for range 2 {
				if n, err := b.store.Purge(b.Context(), 5); err != nil || n == 0 {
					b.Fatalf("Purge: %d, %v", n, err)
				}
				b.alike("while the source is purged", other, third)
			}
			b.purge(5)
			b.alike("after the source was purged", other, third)
			b.create(talk) // another
			b.commit(transcript.Change{Append: []transcript.NewEntry{says(transcript.KindUser, "image", "something else"), calls("work", "open")}})
			b.same("the copy, after all that", b.picture(other), want)
			b.alike("after the source was made again", other, third)
			b.use(other, 2)
			b.use(third, 2)
			b.alike("in the end", other, third)
		}},
		{"twin-forks", "Forks of forks are as good, whichever way either was made, and outlive what they are from.", func(b *bench) {
			b.source()
			twins(b)
			b.use(other, 0)
			b.use(third, 0)
			var all []access.ConversationID
			for _, from := range []access.ConversationID{other, third} {
				for _, byReference := range []bool{false, true} {
					for _, at := range []transcript.EntryID{"work", "work 0"} {
						to := access.ConversationID(fmt.Sprintf("of %s at %s, %v", from, at, byReference))
						b.fork(transcript.Fork{From: from, To: to, At: transcript.After(at), ByReference: byReference, Refs: true})
						all = append(all, to)
					}
				}
			}
			before := map[access.ConversationID]picture{}
			picture := func(c access.ConversationID) picture {
				p := b.picture(c).anonymous()
				p.Row.Lineage = transcript.Lineage{} // they are from two
				return p
			}
			for i, c := range all {
				before[c] = picture(c)
				b.same(string(c), before[c], before[all[i%2]])
			}
			for _, gone := range []access.ConversationID{third, talk, other} {
				b.commit(transcript.Change{Conversation: gone, Status: transcript.Deleted})
				b.purge(7)
				for _, c := range all {
					b.same(fmt.Sprintf("%s, after %s is gone", c, gone), picture(c), before[c])
				}
			}
			for _, c := range all {
				if l := b.load(c).Lineage; l.Conversation != other && l.Conversation != third {
					b.Errorf("the lineage of %s is %+v", c, l)
				}
				b.use(c, 1)
			}
		}},
		{"twin-lists", "Pages of a fork go across what it began with and what is its own.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), numbered("s", 7)...)
			want := append(numbered("s", 5), "own 1", "own 2", "own 3")
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("s0004"), ByReference: byReference})
				b.grow(to, head(), "own 1", "own 2", "own 3")
				for _, limit := range []int{1, 2, 3, 5, 8, 9} {
					what := fmt.Sprintf("by reference %v, in pages of %d: ", byReference, limit)
					b.same(what+"the path", ids(b.pathWith(transcript.PathQuery{Conversation: to, Limit: limit})), want)
					b.same(what+"the headers", headerIDs(b.headers(transcript.HeaderQuery{Conversation: to, Limit: limit})), want)
					timeline := b.timeline(transcript.TimelineQuery{Conversation: to, Limit: limit})
					for i, e := range timeline {
						if e.ID != want[len(want)-1-i] {
							b.Errorf("%sthe timeline is %v", what, ids(timeline))
							break
						}
					}
				}
				b.same("through what it began with", ids(b.pathWith(transcript.PathQuery{Conversation: to, Through: "s0003", Limit: 2})), want[3:])
				given, err := b.store.Get(b.Context(), to, "own 2", "s0005", "s0001")
				if err != nil {
					b.Fatalf("Get: %v", err)
				}
				b.same("Get across", ids(given), []transcript.EntryID{"own 2", "s0001"})
			})
		}},
	}
}
