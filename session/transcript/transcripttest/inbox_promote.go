package transcripttest

import (
	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func promoteChecks() []inboxCheck {
	return []inboxCheck{
		{"promote", "Inputs become the entries of their ids, in the same commit; whatever else is appended comes along.", func(b *inboxBench) {
			b.create(talk)
			b.grow(talk, head(), "first")
			b.admits(steer("a"), input(transcript.LaneBarrier, "k"), steer("b"))
			b.commit(transcript.Change{Fence: 5, Begin: true})
			after := b.load(talk).LastSeq
			c := promotes("b", "a")
			c.Fence = 5
			c.Append[0].Turn = "turn 1"
			c.Append = append(c.Append, transcript.NewEntry{ID: "k", Kind: transcript.KindConfig}, calls("answer", "c1"))
			c.Promote = append(c.Promote, "k")
			done := b.commit(c)
			if done.Transcript.Head != transcript.After("answer") || len(done.Seqs) != 4 {
				b.Errorf("got %+v", done)
			}
			for i, id := range c.Promote {
				if in := b.input(id); in.State != transcript.InputPromoted || in.Promoted != done.Seqs[i] || in.Version != 2 {
					b.Errorf("got %+v of the seqs %v", in, done.Seqs)
				}
			}
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"first", "b", "a", "k", "answer"})
			b.same("what happened", b.news(after), []string{"b promoted", "a promoted", "k promoted"})
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{})
			b.sound(talk)
		}},
		{"promote-refused", "What is not there, was edited since, is of another turn or held is not promoted, nor is anything else written.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"), steer("b"))
			edited := asks("b")
			edited.Parts = []transcript.Part{transcript.TextPart("edited")}
			b.changes("b", transcript.InputCommand{Edit: &edited})
			b.unwritten("one that is not there", promotes("a", "zz"), is(transcript.ErrNotFound), "zz")
			b.unwritten("one that was edited", promotes("a", "b"), as[*transcript.InputConflictError], "b")
			wrong := promotes("a")
			wrong.Expect = transcript.After("b")
			b.unwritten("another head", wrong, as[*transcript.HeadError])
			b.commit(transcript.Change{Hold: true})
			b.unwritten("held", promotes("a"), is(transcript.ErrHeld), string(talk))
			b.commit(transcript.Change{Resume: true})
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.unwritten("of no turn", promotes("a"), is(transcript.ErrInTurn))
			b.commit(transcript.Change{Fence: 6, Begin: true})
			late := promotes("a")
			late.Fence = 5
			b.unwritten("of an older turn", late, is(transcript.ErrFenced))
			now := transcript.Change{Fence: 6, Append: []transcript.NewEntry{edited}, Promote: []transcript.EntryID{"b"}}
			b.commit(now)
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"a"})
		}},
		{"promote-retry", "The same promotion again changes nothing; an input whose entry was appended before is promoted by it.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"), steer("b"))
			first := b.commit(promotes("a"))
			before, inputs := b.picture(talk), b.inputs(states()...)
			again := b.commit(promotes("a"))
			if !again.Retried || again.Seqs[0] != first.Seqs[0] {
				b.Errorf("got %+v, and first %+v", again, first)
			}
			b.same("after a retry", b.picture(talk), before)
			b.same("the inputs after a retry", b.inputs(states()...), inputs)
			b.grow(talk, head(), "b") // by whoever knows nothing of inputs
			done := b.commit(promotes("b"))
			if in := b.input("b"); !done.Retried || in.State != transcript.InputPromoted || in.Promoted != done.Seqs[0] {
				b.Errorf("got %+v, %+v", done, in)
			}
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.commit(transcript.Change{Fence: 5, EndIdle: true})
			b.sound(talk)
		}},
		{"not-in-forks", "What waits is of no fork, and goes with its transcript.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"), steer("b"))
			b.commit(promotes("a"))
			b.commit(transcript.Change{Hold: true})
			for _, f := range []transcript.Fork{{From: talk, To: other}, {From: talk, To: third, ByReference: true}} {
				if t := b.fork(f); t.Held {
					b.Errorf("the fork is held")
				}
				if got, err := b.box.Inputs(b.Context(), f.To, "", most, states()...); err != nil || len(got) > 0 {
					b.Errorf("in a fork wait %v, %v", got, err)
				}
				if got, err := b.box.Admit(b.Context(), f.To, steer("b"), 1); err != nil || !got.Created {
					b.Errorf("in a fork: %+v, %v", got, err)
				}
			}
			b.same("what waits", b.waiting(), []access.ConversationID{other, third})
			for _, c := range []access.ConversationID{talk, other} {
				b.commit(transcript.Change{Conversation: c, Status: transcript.Deleted, CancelWaiting: true})
			}
			b.same("what waits", b.waiting(), []access.ConversationID{third})
			b.create(talk)
			b.same("what waits in one made again", lined(b.inputs(states()...)), []transcript.EntryID{})
			b.admits(steer("b"))
			b.purge(2)
			b.same("after the old one's rows are gone", lined(b.inputs()), []transcript.EntryID{"b"})
		}},
	}
}
