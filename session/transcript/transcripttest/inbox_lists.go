package transcripttest

import (
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func inboxListChecks() []inboxCheck {
	return []inboxCheck{
		{"list", "Inputs are listed in their order, by pages and by state; of no state, those that wait.", func(b *inboxBench) {
			b.create(talk)
			all := numbered("i", 30)
			for i, id := range all {
				b.admits(input([]transcript.Lane{transcript.LaneSteer, transcript.LaneFollowUp}[i%2], id))
			}
			b.changes(all[29], transcript.InputCommand{Move: &transcript.Move{Before: all[1]}})
			b.commit(promotes(all[4]))
			b.changes(all[7], transcript.InputCommand{Cancel: true})
			order := slices.Insert(slices.Clone(all[:29]), 1, all[29])
			waiting := slices.DeleteFunc(slices.Clone(order), func(id transcript.EntryID) bool { return id == all[4] || id == all[7] })
			b.same("all", lined(b.inputs(states()...)), order)
			b.same("those that wait", lined(b.inputs()), waiting)
			b.same("those that are pending", lined(b.inputs(transcript.InputPending)), waiting)
			b.same("those that are done", lined(b.inputs(transcript.InputPromoted, transcript.InputCancelled)), []transcript.EntryID{all[4], all[7]})
			rest, err := b.box.Inputs(b.Context(), talk, all[7], 2) // which does not wait itself
			if err != nil {
				b.Fatalf("Inputs: %v", err)
			}
			b.same("after one that does not wait", lined(rest), []transcript.EntryID{all[8], all[9]})
			one := b.inputs()[0]
			one.Entry.Parts[0].Data[0] = 'x'
			if got := b.inputs()[0]; got.Entry.Parts[0].Data[0] != '{' {
				b.Errorf("what was returned is not the caller's")
			}
		}},
		{"input", "An input is read by its id, whatever has become of it, and by whoever knows its conversation; what is not there is ErrNotFound.", func(b *inboxBench) {
			b.create(talk)
			b.create(other)
			for i, e := range full() {
				b.admits(transcript.NewInput{Entry: e, Lane: transcript.LaneFollowUp, Wait: time.Duration(i) * time.Hour, Life: 9 * time.Hour, Billing: "hold"})
			}
			b.admits(steer("said"), steer("back"), steer("dead"), steer("claimed"), mortal("late"))
			b.changes("back", transcript.InputCommand{Cancel: true})
			b.commit(promotes("said"))
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.changes("claimed", transcript.InputCommand{Claim: 5})
			b.changes("dead", transcript.InputCommand{Claim: 5})
			b.changes("dead", transcript.InputCommand{Fail: &transcript.Failure{Fence: 5, Error: "no"}})
			b.clock.Step(time.Minute)
			b.expires(1)
			for _, want := range b.inputs(states()...) {
				got, err := b.box.Input(b.Context(), talk, want.Entry.ID)
				if err != nil {
					b.Errorf("%s, which is %s: %v", want.Entry.ID, want.State, err)
				}
				b.same("the input", got, want)
			}
			got, err := b.box.Input(b.Context(), talk, "claimed")
			if err != nil {
				b.Fatalf("Input: %v", err)
			}
			got.Entry.Parts[0].Data[0] = 'x'
			if again, err := b.box.Input(b.Context(), talk, "claimed"); err != nil || again.Entry.Parts[0].Data[0] != '{' {
				b.Errorf("what was returned is not the caller's: %v", err)
			}
			ctx := b.Context()
			_, none := b.box.Input(ctx, talk, "zz")
			_, elsewhere := b.box.Input(ctx, other, "claimed")
			_, nowhere := b.box.Input(ctx, third, "claimed")
			for what, err := range map[string]error{"no such input": none, "another conversation's": elsewhere, "no conversation's": nowhere} {
				if !is(transcript.ErrNotFound)(err) {
					b.Errorf("%s: got error %v", what, err)
				}
			}
			_, id := b.box.Input(ctx, talk, "")
			_, conversation := b.box.Input(ctx, "", "claimed")
			b.field("no id", id)
			b.field("no conversation", conversation)
			if _, err := b.box.Input(b.ended(), talk, "claimed"); err == nil {
				b.Errorf("with a context that has ended: no error")
			}
			b.commit(transcript.Change{Fence: 5, End: true})
			b.clock.Step(time.Hour)
			if b.forgets(time.Minute, 1000); b.load(talk).InTurn {
				b.Errorf("the turn goes on")
			}
			if _, err := b.box.Input(ctx, talk, "back"); !is(transcript.ErrNotFound)(err) {
				b.Errorf("what is forgotten: got error %v", err)
			}
		}},
		{"list-refused", "A list that can't be is refused by its field; after what is not there, it is ErrNotFound.", func(b *inboxBench) {
			b.create(talk)
			ctx := b.Context()
			for _, limit := range []int{-1, 0, transcript.MaxListed + 1} {
				_, inputs := b.box.Inputs(ctx, talk, "", limit)
				_, waiting := b.box.Waiting(ctx, "", limit)
				b.field("Inputs", inputs)
				b.field("Waiting", waiting)
			}
			_, state := b.box.Inputs(ctx, talk, "", 1, "x")
			_, id := b.box.Inputs(ctx, talk, "\x00", 1)
			_, nobody := b.box.Inputs(ctx, "", "", 1)
			_, after := b.box.Waiting(ctx, access.ConversationID("\xff"), 1)
			for what, err := range map[string]error{"no state": state, "no id": id, "no conversation": nobody, "after nothing": after} {
				b.field(what, err)
			}
			if _, err := b.box.Inputs(ctx, talk, "zz", 1); !is(transcript.ErrNotFound)(err) {
				b.Errorf("after what is not there: got error %v", err)
			}
			_, inputs := b.box.Inputs(b.ended(), talk, "", 1)
			_, waiting := b.box.Waiting(b.ended(), "", 1)
			if inputs == nil || waiting == nil {
				b.Errorf("with a context that has ended: %v, %v", inputs, waiting)
			}
		}},
	}
}
