package transcripttest

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// plain makes transcripts to which an append is as most are: at the head, which is the last of its
// branch, with no draft kept. A store may have a shorter way for these, on which it must not look at less.
// The other is a fork by reference of the first, with entries of its own.
func (b *bench) plain() []access.ConversationID {
	b.Helper()
	b.create(talk)
	b.grow(talk, head(), "a", "b")
	b.fork(transcript.Fork{From: talk, To: other, ByReference: true})
	b.grow(other, head(), "c", "d")
	return []access.ConversationID{talk, other}
}

func plainChecks() []check {
	shapes := func() map[string][]transcript.NewEntry {
		return map[string][]transcript.NewEntry{
			"an entry": {asks("new")}, "two entries": {asks("new"), asks("newer")}, "a call": {calls("new", "c1")},
		}
	}
	return []check{
		{"plain-turn", "To go on at the end of a branch takes the turn, as all else does: what is of none is ErrInTurn, and of another ErrFenced. (case 3, invariant 13)", func(b *bench) {
			for _, c := range b.plain() {
				b.commit(transcript.Change{Conversation: c, Fence: 5, Begin: true})
				b.commit(transcript.Change{Conversation: c, Fence: 7, Begin: true})
				for what, entries := range shapes() {
					change := transcript.Change{Conversation: c, Append: entries}
					b.refuses(what+" of no turn", change, is(transcript.ErrInTurn), string(c))
					for _, change.Fence = range []int64{5, 8} {
						b.refuses(what+" of another turn", change, is(transcript.ErrFenced), string(c))
					}
				}
				b.commit(transcript.Change{Conversation: c, Fence: 7, Append: []transcript.NewEntry{asks("in turn")}})
				b.commit(transcript.Change{Conversation: c, Fence: 7, End: true})
				for what, entries := range shapes() {
					for _, fence := range []int64{7, 8} {
						change := transcript.Change{Conversation: c, Fence: fence, Append: entries}
						b.refuses(what+" of a turn that is over, or to come", change, is(transcript.ErrFenced), string(c))
					}
				}
				b.grow(c, head(), "of none")
				b.sound(c)
			}
		}},
		{"plain-known", "What goes on at the end of a branch under the id of an entry that is there is a retry or refused, whoever's row that is. (invariant 9)", func(b *bench) {
			for _, c := range b.plain() {
				given := drafts(asks("given up"))
				given.Conversation = c
				b.commit(given)
				b.commit(transcript.Change{Conversation: c, Abort: []transcript.EntryID{"given up"}})
				newest := b.load(c).Head.Entry
				for _, id := range []transcript.EntryID{"a", "b", newest} {
					b.refuses("other content for "+string(id), transcript.Change{Conversation: c, Append: []transcript.NewEntry{calls(id, "c1")}},
						as[*transcript.EntryConflictError], string(id), string(c))
					b.refuses(string(id)+" with another", transcript.Change{Conversation: c, Append: []transcript.NewEntry{asks("new"), asks(id)}}, as[*transcript.PathError])
					before := b.picture(c)
					if done := b.commit(transcript.Change{Conversation: c, Append: []transcript.NewEntry{asks(id)}}); !done.Retried {
						b.Errorf("%s again is no retry in %s", id, c)
					}
					b.same(string(id)+" again", b.picture(c), before)
				}
				b.refuses("what was given up", transcript.Change{Conversation: c, Append: []transcript.NewEntry{asks("given up")}},
					as[*transcript.EntryConflictError], "given up", string(c))
			}
		}},
		{"plain-draft", "A draft that goes on at the end of a branch is a draft no more. (invariant 4)", func(b *bench) {
			for _, c := range b.plain() {
				kept := drafts(asks("d1"))
				kept.Conversation = c
				b.commit(kept)
				b.commit(transcript.Change{Conversation: c, Append: []transcript.NewEntry{asks("d1")}})
				p := b.picture(c)
				if p.Open.Draft != nil || p.Row.Head != transcript.After("d1") {
					b.Errorf("the draft is %+v, the head %v", p.Open.Draft, p.Row.Head)
				}
				unfinished, err := b.store.Unfinished(b.Context(), "", transcript.MaxListed)
				if err != nil || len(unfinished) > 0 {
					b.Errorf("unfinished are %v, %v", unfinished, err)
				}
				b.sound(c)
			}
		}},
		{"plain-kept", "What goes on at the end of a branch is kept as it is, alone and with others: its turn, who acts, what is its own.", func(b *bench) {
			for _, c := range b.plain() {
				entry := func(id transcript.EntryID) transcript.NewEntry {
					e := calls(id, "c1")
					e.Parts[1].Call.Status = transcript.CallPending
					e.Turn, e.Actor, e.Payload = transcript.TurnID("turn of "+id), access.UserID("who says "+id), data(40, "p")
					e.Usage = transcript.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CostMicros: 5}
					return e
				}
				for _, part := range [][]transcript.NewEntry{{entry("one")}, {entry("two"), entry("three")}} {
					b.commit(transcript.Change{Conversation: c, Append: part})
					for _, e := range part {
						b.same(string(e.ID), b.get(c, e.ID).NewEntry, e)
					}
				}
			}
		}},
		{"plain-expect", "What goes on at the end of a branch expects its head there, and follows what it is told to. (invariant 5)", func(b *bench) {
			for _, c := range b.plain() {
				was := b.load(c).Head.Entry
				joined := "a" + was // of two ids
				b.grow(c, head(), joined)
				for what, change := range map[string]transcript.Change{
					"what the head was":         {Expect: transcript.After(was)},
					"what it was, and before":   {Expect: transcript.After("a"), After: transcript.After(was)},
					"before the root":           {Expect: transcript.BeforeRoot()},
					"what the head was, beside": {Expect: transcript.After(was), After: transcript.After(joined)},
				} {
					change.Conversation, change.Append = c, []transcript.NewEntry{asks("new")}
					b.refuses("after "+what, change, as[*transcript.HeadError], string(c))
				}
				b.commit(transcript.Change{Conversation: c, Expect: transcript.After(joined), After: transcript.After(was), Append: []transcript.NewEntry{asks("beside")}})
				b.same("the parent", b.get(c, "beside").Parent, transcript.After(was))
				b.commit(transcript.Change{Conversation: c, Expect: transcript.After("beside"), After: transcript.After("beside"), Append: []transcript.NewEntry{asks("on")}})
				b.same("the parent", b.get(c, "on").Parent, transcript.After("beside"))
				b.sound(c)
			}
		}},
		{"plain-open", "A call of what goes on at the end of a branch is unfinished until it is settled. (case 5, invariant 6)", func(b *bench) {
			for _, c := range b.plain() {
				b.commit(transcript.Change{Conversation: c, Append: []transcript.NewEntry{calls("one", "c1"), calls("two", "c2", "c3")}})
				b.commit(transcript.Change{Conversation: c, Append: []transcript.NewEntry{calls("three", "c4")}})
				for i, at := range []transcript.CallAddress{{Entry: "one", Call: "c1"}, {Entry: "two", Call: "c2"}, {Entry: "two", Call: "c3"}, {Entry: "three", Call: "c4"}} {
					open := b.picture(c).Open.Calls
					if len(open) != 4-i || open[0].Entry != at.Entry || open[0].Call.ID != at.Call {
						b.Errorf("with %d settled, open are %+v", i, open)
					}
					unfinished, err := b.store.Unfinished(b.Context(), "", transcript.MaxListed)
					if err != nil || len(unfinished) != 1 || unfinished[0] != c {
						b.Errorf("with %d settled, unfinished are %v, %v", i, unfinished, err)
					}
					b.sound(c)
					b.commit(transcript.Change{Conversation: c, Settle: []transcript.Settlement{{CallAddress: at, Status: transcript.CallSucceeded}}})
				}
				if open := b.picture(c).Open.Calls; len(open) > 0 {
					b.Errorf("open are %+v", open)
				}
				b.sound(c)
			}
		}},
		{"plain-sums", "Each of what goes on at the end of a branch adds to the sums of its path, and of the transcript. (invariant 10)", func(b *bench) {
			for _, c := range b.plain() {
				var all []transcript.NewEntry
				for i, id := range []transcript.EntryID{"one", "two", "three"} {
					e, n := asks(id), int64(i+1)
					e.Usage = transcript.Usage{Input: n, Output: 10 * n, CacheRead: 100 * n, CacheWrite: 1000 * n, CostMicros: 10_000 * n}
					all = append(all, e)
				}
				for _, part := range [][]transcript.NewEntry{all[:2], all[2:]} {
					b.commit(transcript.Change{Conversation: c, Append: part})
				}
				var sum transcript.Usage
				for _, e := range all {
					sum = sum.Add(e.Usage)
					if usage, err := b.store.PathUsage(b.Context(), c, transcript.After(e.ID)); err != nil || usage != sum {
						b.Errorf("the path to %s took %+v, %v; want %+v", e.ID, usage, err, sum)
					}
				}
				if t := b.load(c); t.Usage != sum {
					b.Errorf("%s took %+v, want %+v", c, t.Usage, sum)
				}
				b.sound(c)
			}
		}},
		{"plain-row", "Who goes on at the end of a branch is answered the row as it is then, all of it, and so is who loads it, alone or among many.", func(b *bench) {
			spent := asks("spent")
			spent.Usage = transcript.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CostMicros: 5}
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), spent}})
			b.fork(transcript.Fork{From: talk, To: other, ByReference: true})
			b.fork(transcript.Fork{From: talk, To: third})
			b.fork(transcript.Fork{From: talk, To: "of nothing", At: transcript.BeforeRoot()})
			for _, c := range []access.ConversationID{talk, other, third, "of nothing"} {
				b.grow(c, head(), "first")
				for i, change := range []transcript.Change{{}, {Hold: true}, {Fence: 5, Begin: true}, {Fence: 5, Hold: true}} {
					change.Conversation = c
					b.commit(change)
					more := transcript.Change{Conversation: c, Fence: change.Fence, Append: []transcript.NewEntry{asks(transcript.EntryID(fmt.Sprint("e", i)))}}
					b.same(fmt.Sprintf("the answer of %s, %d", c, i), b.commit(more).Transcript, b.load(c))
					many, err := b.store.LoadMany(b.Context(), c)
					if err != nil || len(many) != 1 {
						b.Fatalf("LoadMany: %v, %v", many, err)
					}
					b.same(fmt.Sprintf("one of many, %s, %d", c, i), many[0], b.load(c))
				}
			}
		}},
		{"plain-dated", "What goes on at the end of a branch is of the moment of its commit, and so is the transcript then.", func(b *bench) {
			for _, c := range b.plain() {
				was := b.load(c)
				for i, id := range numbered("e", 1000) { // clocks count microseconds, or what they can
					done := b.grow(c, head(), id)
					e := b.get(c, id)
					if now := done.Transcript.UpdatedAt; !e.CreatedAt.Equal(now) || now.Before(was.UpdatedAt) || !b.load(c).UpdatedAt.Equal(now) {
						b.Fatalf("entry of %v in a transcript of %v", e.CreatedAt, now)
					}
					if done.Transcript.UpdatedAt.After(was.UpdatedAt) {
						break
					}
					if i == 999 {
						b.Errorf("it is of %v still", was.UpdatedAt)
					}
				}
			}
		}},
		{"plain-bytes", "More content than a change may have is *LimitError, wherever in an entry it is.", func(b *bench) {
			c := b.plain()[0]
			const each = transcript.MaxBatchBytes/3 + 1
			for what, fill := range map[string]func(*transcript.NewEntry){
				"in parts":    func(e *transcript.NewEntry) { e.Parts[0].Data = data(each, "x") },
				"in payloads": func(e *transcript.NewEntry) { e.Payload = data(each, "x") },
			} {
				entries := []transcript.NewEntry{asks("one"), asks("two"), asks("three")}
				for i := range entries {
					fill(&entries[i])
				}
				before := b.load(c)
				if _, err := b.store.Commit(b.Context(), transcript.Change{Conversation: c, Append: entries}); !as[*transcript.LimitError](err) {
					b.Errorf("%s: got error %v", what, err)
				}
				b.same(what+": the row after a refusal", b.load(c), before)
			}
		}},
		{"plain-fork", "A fork by reference at the head has the labels of its path, and answers as one by copy does. (cases 9, 10)", func(b *bench) {
			b.source()
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, ByReference: byReference})
			})
			b.same("what is labelled", b.picture(other).Labelled, map[string][]transcript.EntryID{"x": {"image"}, "y": {"newest"}})
			b.alike("at first", other, third)
			b.use(other, 0)
			b.use(third, 0)
			b.alike("after use", other, third)
		}},
	}
}
