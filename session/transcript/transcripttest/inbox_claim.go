package transcripttest

import (
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// find is the error of a type among those that err wraps.
func find[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// claimed is a turn of fence 5 that has claimed inputs.
func claimed(b *inboxBench, ids ...transcript.EntryID) {
	b.Helper()
	b.create(talk)
	b.grow(talk, head(), "first")
	for _, id := range ids {
		b.admits(steer(id))
	}
	b.commit(transcript.Change{Fence: 5, Begin: true})
	for _, id := range ids {
		if got := b.changes(id, transcript.InputCommand{Claim: 5}); got.State != transcript.InputClaimed || got.Fence != 5 {
			b.Fatalf("got %+v", got)
		}
	}
}

func claimChecks() []inboxCheck {
	fail := func(attempts int) transcript.InputCommand {
		return transcript.InputCommand{Fail: &transcript.Failure{Fence: 5, Error: "no luck", Wait: time.Minute, Attempts: attempts}}
	}
	return []inboxCheck{
		{"claim", "What a turn has claimed is changed by nobody, and is what that turn makes of it; released it waits again.", func(b *inboxBench) {
			claimed(b, "a", "b")
			e, version := asks("a"), b.input("a").Version
			late := stays(transcript.InputClaimed)
			b.unchanged("edited", "a", transcript.InputCommand{Edit: &e}, late)
			b.unchanged("put in another lane", "a", transcript.InputCommand{Lane: transcript.LaneFollowUp}, late)
			b.unchanged("moved", "a", transcript.InputCommand{Move: &transcript.Move{After: "b"}}, late)
			if got := b.changes("a", transcript.InputCommand{Claim: 5}); got.Version != version {
				b.Errorf("claimed again: got %+v", got)
			}
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"a", "b"})
			c := promotes("a")
			c.Fence = 5
			c.Append[0].Parts = append(c.Append[0].Parts, transcript.TextPart("what it refers to"))
			b.commit(c)
			if got := b.changes("b", transcript.InputCommand{Release: 5}); got.State != transcript.InputPending || got.Fence != 0 {
				b.Errorf("got %+v", got)
			}
			b.unchanged("released again", "b", transcript.InputCommand{Release: 5}, stays(transcript.InputPending))
			b.changes("b", transcript.InputCommand{Lane: transcript.LaneFollowUp})
			b.sound(talk)
		}},
		{"claim-fenced", "Only the turn that is under way claims, releases and fails: others are ErrFenced.", func(b *inboxBench) {
			claimed(b, "a", "b")
			b.changes("b", transcript.InputCommand{Release: 5})
			b.commit(transcript.Change{Fence: 6, Begin: true})
			for what, cmd := range map[string]transcript.InputCommand{
				"a claim": {Claim: 5}, "a release": {Release: 5}, "a failure": fail(3), "a claim to come": {Claim: 7},
			} {
				b.unchanged(what, "a", cmd, is(transcript.ErrFenced))
				b.unchanged(what, "b", cmd, is(transcript.ErrFenced))
			}
			b.commit(transcript.Change{Fence: 6, End: true})
			b.unchanged("of a turn that has ended", "b", transcript.InputCommand{Claim: 6}, is(transcript.ErrFenced))
		}},
		{"claims-end", "The claims of a turn that has ended, or was taken over, are nobody's: what is claimed is never lost. (case 32)", func(b *inboxBench) {
			claimed(b, "a", "b")
			after := b.load(talk).LastSeq
			b.changes("b", transcript.InputCommand{Cancel: true})
			b.commit(transcript.Change{Fence: 6, Begin: true}) // the first turn's process has died
			a, gone := b.input("a"), b.input("b")
			if a.State != transcript.InputPending || a.Fence != 0 || gone.State != transcript.InputCancelled || gone.Fence != 0 {
				b.Errorf("after it was taken over: %+v, %+v", a, gone)
			}
			b.same("what happened", b.news(after), []string{"b claimed", "a pending", "b cancelled"})
			b.changes("a", transcript.InputCommand{Claim: 6})
			b.commit(transcript.Change{Fence: 6, End: true})
			if a := b.input("a"); a.State != transcript.InputPending || a.Fence != 0 {
				b.Errorf("after the end: %+v", a)
			}
			e := asks("a")
			e.Parts = []transcript.Part{transcript.TextPart("edited")}
			b.changes("a", transcript.InputCommand{Edit: &e})
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"a"})
			b.commit(transcript.Change{Fence: 7, Begin: true, Append: []transcript.NewEntry{e}, Promote: []transcript.EntryID{"a"}})
			b.commit(transcript.Change{Fence: 7, EndIdle: true})
			b.sound(talk)
		}},
		{"claims-taken-over", "A turn that begins promotes at once what a dead one has claimed.", func(b *inboxBench) {
			claimed(b, "a", "b")
			c := promotes("a")
			c.Fence, c.Begin = 6, true
			b.commit(c)
			if a, other := b.input("a"), b.input("b"); a.State != transcript.InputPromoted || other.State != transcript.InputPending {
				b.Errorf("got %+v and %+v", a, other)
			}
			b.sound(talk)
		}},
		{"claim-cancelled", "What is taken back while it is claimed is not promoted, and is gone once the claim is given back.", func(b *inboxBench) {
			claimed(b, "a", "b", "c")
			for i, id := range []transcript.EntryID{"a", "b", "c"} {
				got := b.changes(id, transcript.InputCommand{Cancel: true})
				if got.State != transcript.InputClaimed || !got.CancelAsked {
					b.Errorf("got %+v", got)
				}
				c := promotes(id)
				c.Fence = 5
				b.unwritten("taken back", c, stays(transcript.InputCancelled), string(id))
				b.same("taken back again", b.changes(id, transcript.InputCommand{Cancel: true}), got)
				switch i {
				case 0:
					got = b.changes(id, transcript.InputCommand{Release: 5})
				case 1:
					got = b.changes(id, fail(10))
				default:
					b.commit(transcript.Change{Fence: 5, EndIdle: true}) // it can't be delivered any more
					got = b.input(id)
				}
				if got.State != transcript.InputCancelled {
					b.Errorf("given back: %+v", got)
				}
			}
		}},
		{"claim-failed", "What could not be delivered is tried again after a while, and is dead after so many attempts.", func(b *inboxBench) {
			claimed(b, "a")
			fence := int64(5)
			fail := func(attempts int) transcript.InputCommand {
				cmd := fail(attempts)
				cmd.Fail.Fence = fence
				return cmd
			}
			for i := 1; i <= 3; i++ {
				got := b.changes("a", fail(3))
				if got.Attempts != i || got.LastError != "no luck" || (got.State == transcript.InputDead) != (i == 3) || got.NotBefore.Before(got.CreatedAt.Add(time.Minute)) {
					b.Fatalf("attempt %d: %+v", i, got)
				}
				if i == 3 {
					break
				}
				b.commit(transcript.Change{Fence: fence, EndIdle: true}) // nothing waits that could be delivered yet
				if got := b.waiting(); len(got) != 0 {
					b.Errorf("before its time there waits %v", got)
				}
				b.clock.Step(time.Minute)
				b.same("what waits", b.waiting(), []any{talk})
				fence++
				b.commit(transcript.Change{Fence: fence, Begin: true})
				b.changes("a", transcript.InputCommand{Claim: fence})
			}
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{})
			b.admits(steer("b"))
			b.changes("b", transcript.InputCommand{Claim: fence})
			if got := b.changes("b", fail(0)); got.State != transcript.InputDead {
				b.Errorf("without another attempt: %+v", got)
			}
		}},
		{"final", "Nothing becomes of what was promoted, taken back, put away or given up: *TooLateError.", func(b *inboxBench) {
			claimed(b, "dead", "cancelled")
			mortal := steer("expired")
			mortal.Life = time.Minute
			b.admits(steer("promoted"), steer("w"), mortal)
			b.clock.Step(time.Minute)
			b.changes("dead", fail(0))
			b.changes("cancelled", transcript.InputCommand{Release: 5})
			b.changes("cancelled", transcript.InputCommand{Cancel: true})
			b.changes("expired", transcript.InputCommand{Expire: true})
			c := promotes("promoted")
			c.Fence = 5
			b.commit(c)
			e := asks("x")
			for _, state := range []transcript.InputState{transcript.InputDead, transcript.InputCancelled, transcript.InputExpired, transcript.InputPromoted} {
				id := transcript.EntryID(state)
				if got := b.input(id); got.State != state {
					b.Fatalf("got %+v", got)
				}
				for what, cmd := range map[string]transcript.InputCommand{
					"edited": {Edit: &e}, "lane": {Lane: transcript.LaneFollowUp}, "move": {Move: &transcript.Move{Before: "w"}}, "cancel": {Cancel: true},
					"claim": {Claim: 5}, "release": {Release: 5}, "fail": fail(9), "expire": {Expire: true},
				} {
					if what == "cancel" && state == transcript.InputCancelled {
						continue
					}
					b.unchanged(fmt.Sprintf("%s of what is %s", what, state), id, cmd, stays(state))
				}
				if state != transcript.InputPromoted {
					c := promotes(id)
					c.Fence = 5
					b.unwritten(fmt.Sprintf("the promotion of what is %s", state), c, stays(state), string(id))
				}
			}
		}},
	}
}
