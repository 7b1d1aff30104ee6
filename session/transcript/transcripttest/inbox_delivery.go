package transcripttest

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func deliveryChecks() []inboxCheck {
	return []inboxCheck{
		{"end-idle", "A turn does not end of itself while something waits that could be delivered: ErrWaiting, and nothing is written.", func(b *inboxBench) {
			b.create(talk)
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.admits(input(transcript.LaneFollowUp, "a"))
			end := transcript.Change{Fence: 5, EndIdle: true}
			b.unwritten("with a follow-up", end, is(transcript.ErrWaiting), string(talk))
			last := end
			last.Append = []transcript.NewEntry{asks("x")}
			b.unwritten("with a last entry", last, is(transcript.ErrWaiting))
			b.changes("a", transcript.InputCommand{Claim: 5})
			b.unwritten("with one that it has claimed", end, is(transcript.ErrWaiting))
			later := steer("later")
			later.Wait = time.Hour
			b.admits(later)
			c := promotes("a")
			c.Fence, c.EndIdle = 5, true
			b.commit(c) // with what it promotes itself
			if b.load(talk).InTurn {
				b.Errorf("the turn goes on")
			}
			b.unwritten("of a turn that has ended", end, is(transcript.ErrFenced))
			b.same("what waits", b.waiting(), []access.ConversationID{})
			b.clock.Step(time.Hour)
			b.same("an hour later", b.waiting(), []access.ConversationID{talk})
			b.commit(transcript.Change{Fence: 6, Begin: true})
			b.unwritten("an hour later", transcript.Change{Fence: 6, EndIdle: true}, is(transcript.ErrWaiting))
		}},
		{"broken-off", "Where a turn is broken off, what waits goes on waiting, and the host is told. (case 32)", func(b *inboxBench) {
			b.create(talk)
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.admits(steer("a"), steer("b"))
			b.changes("a", transcript.InputCommand{Claim: 5})
			b.same("in a turn", b.waiting(), []access.ConversationID{})
			if all, err := b.store.Unfinished(b.Context(), "", most); err != nil || !slices.Equal(all, []access.ConversationID{talk}) {
				b.Errorf("unfinished are %v, %v", all, err)
			}
			b.commit(transcript.Change{Fence: 5, End: true})
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"a", "b"})
			b.same("after it", b.waiting(), []access.ConversationID{talk})
			if all, err := b.store.Unfinished(b.Context(), "", most); err != nil || len(all) > 0 {
				b.Errorf("unfinished are %v, %v", all, err)
			}
		}},
		{"hold", "While inputs are held nothing is delivered, and nothing is lost; a turn may end.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"))
			b.commit(transcript.Change{Fence: 5, Begin: true})
			after := b.load(talk).LastSeq
			for range 2 {
				b.commit(transcript.Change{Hold: true}) // by anybody
			}
			if !b.load(talk).Held {
				b.Errorf("it is not held")
			}
			c := promotes("a")
			c.Fence = 5
			b.unwritten("held", c, is(transcript.ErrHeld))
			b.commit(transcript.Change{Fence: 5, EndIdle: true})
			b.admits(steer("b"))
			b.same("what waits", b.waiting(), []access.ConversationID{})
			b.grow(talk, head(), "x")
			for range 2 {
				b.commit(transcript.Change{Resume: true})
			}
			b.same("what waits", b.waiting(), []access.ConversationID{talk})
			b.commit(transcript.Change{Hold: true})
			c.Fence, c.Resume = 0, true
			b.commit(c) // both at once
			var kinds []transcript.FactKind
			for _, f := range b.facts(talk, after, 0) {
				kinds = append(kinds, f.Kind)
			}
			b.same("what happened", kinds, []transcript.FactKind{
				transcript.FactHeld, transcript.FactTurnEnded, transcript.FactInput, transcript.FactAppended, transcript.FactResumed, transcript.FactHeld,
				transcript.FactAppended, transcript.FactInput, transcript.FactResumed,
			})
			b.sound(talk)
		}},
		{"waiting", "Waiting lists just those conversations that are idle and have something that would be delivered, in order, by pages.", func(b *inboxBench) {
			random := rand.New(rand.NewPCG(1, 2))
			all := numbered("01990000-0000-7000-8000-00000000", 40)
			var want []access.ConversationID
			for i, id := range all {
				c := access.ConversationID(id)
				b.create(c)
				for n := range random.IntN(4) {
					in := input([]transcript.Lane{transcript.LaneSteer, transcript.LaneBarrier, transcript.LaneFollowUp, transcript.LaneSynthetic}[random.IntN(4)], numbered("i", 4)[n])
					in.Wait = []time.Duration{0, time.Hour}[random.IntN(2)]
					in.Life = []time.Duration{0, 0, time.Minute, 3 * time.Hour}[random.IntN(4)]
					if _, err := b.box.Admit(b.Context(), c, in, most); err != nil {
						b.Fatalf("Admit: %v", err)
					}
				}
				switch i % 8 {
				case 0:
					b.commit(transcript.Change{Conversation: c, Fence: 1, Begin: true})
				case 1:
					b.commit(transcript.Change{Conversation: c, Hold: true})
				case 2:
					b.commit(transcript.Change{Conversation: c, Status: transcript.Archived, CancelWaiting: true})
				}
			}
			for _, step := range []time.Duration{0, 2 * time.Minute, time.Hour} {
				b.clock.Step(step)
				now := b.clock.Now()
				want = nil
				for _, id := range all {
					c := access.ConversationID(id)
					waiting, err := b.box.Inputs(b.Context(), c, "", most)
					if err != nil {
						b.Fatalf("Inputs: %v", err)
					}
					for i := range waiting { // the store's clock need not show what this one does
						in := &waiting[i]
						in.NotBefore = now
						if in.Wait > 0 && step < time.Hour {
							in.NotBefore = now.Add(1)
						}
						if in.Life == time.Minute && step > 0 {
							in.Expires = now
						} else {
							in.Expires = time.Time{}
						}
					}
					t := b.load(c)
					boundary := transcript.Boundary{Cutoff: math.MaxInt64, Stop: true, Held: t.Held, Now: now}
					if !t.InTurn && t.Status == transcript.Active && len(transcript.Deliver(waiting, boundary)) > 0 {
						want = append(want, c)
					}
				}
				if len(want) < 5 || len(want) > 30 {
					b.Fatalf("%d of them wait, which shows nothing", len(want))
				}
				b.same("what waits", b.waiting(), want)
			}
			var pages []access.ConversationID
			for after := access.ConversationID(""); ; {
				page, err := b.box.Waiting(b.Context(), after, 3)
				if err != nil || len(page) > 3 {
					b.Fatalf("Waiting: %v, %v", page, err)
				}
				if len(page) == 0 {
					break
				}
				pages = append(pages, page...)
				after = page[len(page)-1]
			}
			b.same("by pages", pages, want)
		}},
	}
}
