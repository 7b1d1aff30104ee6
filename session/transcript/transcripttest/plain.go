package transcripttest

import (
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
					for _, fence := range []int64{5, 7, 8} {
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
	}
}
