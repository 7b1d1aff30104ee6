package transcripttest

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// mortal is a steer that waits a minute and no longer.
func mortal(id transcript.EntryID) transcript.NewInput {
	in := steer(id)
	in.Life = time.Minute
	return in
}

// expires has so many inputs of talk be put away.
func (b *inboxBench) expires(limit int) int {
	b.Helper()
	n, err := b.box.Expire(b.Context(), talk, limit)
	if err != nil || n > limit {
		b.Fatalf("Expire(%d): %d, %v", limit, n, err)
	}
	return n
}

// tooLate are the conversations of which [transcript.Inbox.Expired] says that something is too late, by pages.
func (b *inboxBench) tooLate(limit int) (all []access.ConversationID) {
	b.Helper()
	after := access.ConversationID("")
	for range 1000 {
		page, err := b.box.Expired(b.Context(), after, limit)
		if err != nil || len(page) > limit {
			b.Fatalf("Expired: %v, %v", page, err)
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		after = page[limit-1]
	}
	b.Fatalf("Expired: the pages don't end")
	return nil
}

func expireChecks() []inboxCheck {
	return []inboxCheck{
		{"admit-expires", "Where as many wait as may, those whose time is over expire as another comes, some at a time: they are no obstacle, and everybody is told.", func(b *inboxBench) {
			b.create(talk)
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.admits(mortal("claimed"), mortal("m1"), mortal("m2"), steer("a"), steer("b"))
			b.changes("claimed", transcript.InputCommand{Claim: 5})
			b.clock.Step(time.Minute)
			if got, err := b.box.Admit(b.Context(), talk, steer("c"), 9); err != nil || !got.Created {
				b.Fatalf("with room for it: got %+v, %v", got, err)
			}
			b.uncalled("a fourth of three", steer("x"), 3, as[*transcript.LimitError])
			after := b.load(talk).LastSeq
			got, err := b.box.Admit(b.Context(), talk, steer("d"), 4)
			if err != nil || !got.Created || got.Input.Admitted != after+3 {
				b.Fatalf("a fourth of four: got %+v, %v, after %d", got, err, after)
			}
			b.same("the input", b.input("d"), got.Input)
			b.same("what happened", b.news(after), []string{"m1 expired", "m2 expired", "d pending"})
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"claimed", "a", "b", "c", "d"})
			if in := b.input("m1"); in.State != transcript.InputExpired || in.Version != 2 {
				b.Errorf("got %+v", in)
			}
			if got, err := b.box.Admit(b.Context(), talk, mortal("m1"), 1); err != nil || got.Created || got.Input.State != transcript.InputExpired {
				b.Errorf("what has expired, again: got %+v, %v", got, err)
			}
			b.sound(talk)
			many := numbered("n", transcript.ExpireBatch+10)
			for _, id := range many {
				b.admits(mortal(id))
			}
			b.clock.Step(time.Minute)
			for i, left := range []int{10, 0} {
				if got, err := b.box.Admit(b.Context(), talk, steer(transcript.EntryID(fmt.Sprint("more ", i))), 10); err != nil || !got.Created {
					b.Fatalf("got %+v, %v", got, err)
				}
				want := append([]transcript.EntryID{"claimed", "a", "b", "c", "d"}, many[len(many)-left:]...)
				for n := range i + 1 {
					want = append(want, transcript.EntryID(fmt.Sprint("more ", n)))
				}
				b.same("what waits", lined(b.inputs()), want)
			}
			b.sound(talk)
		}},
		{"expire-due", "Those whose time is over expire in their order, so many at a time, in a turn or not; what a turn has claimed is left to it.", func(b *inboxBench) {
			b.create(talk)
			later := steer("later")
			later.Life = time.Hour
			b.admits(mortal("a"), mortal("claimed"), mortal("b"), mortal("c"), steer("ever"), later, mortal("d"), mortal("gone"))
			b.changes("gone", transcript.InputCommand{Cancel: true})
			b.changes("d", transcript.InputCommand{Move: &transcript.Move{Before: "a"}})
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.changes("claimed", transcript.InputCommand{Claim: 5})
			if n := b.expires(10); n != 0 {
				b.Errorf("in time %d expire", n)
			}
			b.clock.Step(time.Minute)
			after := b.load(talk).LastSeq
			for _, want := range []int{3, 1} {
				if n := b.expires(3); n != want {
					b.Errorf("%d expire, want %d", n, want)
				}
			}
			b.same("what happened", b.news(after), []string{"d expired", "a expired", "b expired", "c expired"})
			before, inputs := b.picture(talk), b.inputs(states()...)
			if n := b.expires(3); n != 0 {
				b.Errorf("once more %d expire", n)
			}
			b.same("once more", b.picture(talk), before)
			b.same("the inputs once more", b.inputs(states()...), inputs)
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"claimed", "ever", "later"})
			if in := b.input("d"); in.State != transcript.InputExpired || in.Version != 3 {
				b.Errorf("got %+v", in)
			}
			b.sound(talk)
			b.commit(transcript.Change{Fence: 5, End: true})
			if n := b.expires(1); n != 1 || b.input("claimed").State != transcript.InputExpired {
				b.Errorf("given back %d expire: %+v", n, b.input("claimed"))
			}
			b.sound(talk)
			b.commit(transcript.Change{Status: transcript.Archived, CancelWaiting: true})
			if _, err := b.box.Expire(b.Context(), talk, 1); !is(transcript.ErrArchived)(err) {
				b.Errorf("of what is archived: got error %v", err)
			}
			if _, err := b.box.Expire(b.Context(), other, 1); !is(transcript.ErrNotFound)(err) {
				b.Errorf("of what is not there: got error %v", err)
			}
			for _, limit := range []int{-1, 0, transcript.MaxListed + 1} {
				_, err := b.box.Expire(b.Context(), talk, limit)
				b.field("Expire", err)
			}
			_, err := b.box.Expire(b.Context(), "", 1)
			b.field("Expire of nothing", err)
			if _, err := b.box.Expire(b.ended(), talk, 1); err == nil {
				b.Errorf("with a context that has ended: no error")
			}
		}},
		{"expired", "Expired lists just those conversations in which something is too late and is nobody's, in order, by pages.", func(b *inboxBench) {
			all := make([]access.ConversationID, 8)
			for i := range all {
				all[i] = access.ConversationID(fmt.Sprintf("expired %d", i))
				b.create(all[i])
				in := mortal("m")
				if i == 1 {
					in.Life = 0
				}
				for _, in := range []transcript.NewInput{in, steer("ever")} {
					if _, err := b.box.Admit(b.Context(), all[i], in, most); err != nil {
						b.Fatalf("Admit: %v", err)
					}
				}
			}
			b.same("in time", b.tooLate(3), []access.ConversationID{})
			b.commit(transcript.Change{Conversation: all[2], Fence: 1, Begin: true})
			b.commit(transcript.Change{Conversation: all[3], Fence: 1, Begin: true})
			if _, err := b.box.ChangeInput(b.Context(), all[3], "m", transcript.InputCommand{Claim: 1}); err != nil {
				b.Fatalf("ChangeInput: %v", err)
			}
			b.commit(transcript.Change{Conversation: all[4], Hold: true})
			b.commit(transcript.Change{Conversation: all[5], Status: transcript.Archived, CancelWaiting: true})
			b.commit(transcript.Change{Conversation: all[6], Status: transcript.Deleted, CancelWaiting: true})
			b.clock.Step(time.Minute)
			want := []access.ConversationID{all[0], all[2], all[4], all[7]}
			for _, limit := range []int{1, 2, 9} {
				b.same("a minute later", b.tooLate(limit), want)
			}
			for _, c := range []access.ConversationID{all[0], all[2]} {
				if n, err := b.box.Expire(b.Context(), c, 5); n != 1 || err != nil {
					b.Errorf("Expire: %d, %v", n, err)
				}
			}
			b.same("after some of it", b.tooLate(9), want[2:])
			b.commit(transcript.Change{Conversation: all[3], Fence: 1, End: true})
			b.same("given back", b.tooLate(9), []access.ConversationID{all[3], all[4], all[7]})
			for _, limit := range []int{-1, 0, transcript.MaxListed + 1} {
				_, err := b.box.Expired(b.Context(), "", limit)
				b.field("Expired", err)
			}
			_, err := b.box.Expired(b.Context(), access.ConversationID("\xff"), 1)
			b.field("Expired after nothing", err)
			if _, err := b.box.Expired(b.ended(), "", 1); err == nil {
				b.Errorf("with a context that has ended: no error")
			}
		}},
	}
}
