package transcripttest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// stays matches *TooLateError of a state.
func stays(state transcript.InputState) func(error) bool {
	return func(err error) bool {
		late, ok := find[*transcript.TooLateError](err)
		return ok && late.State == state
	}
}

func changeInputChecks() []inboxCheck {
	stale := func(actual int64) func(error) bool {
		return func(err error) bool {
			ve, ok := find[*transcript.VersionError](err)
			return ok && ve.Of == "input" && ve.Actual == actual
		}
	}
	return []inboxCheck{
		{"change", "While it waits, an input is edited, put in another lane and taken back by its version, each of which is a fact.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"), steer("b"))
			after := b.load(talk).LastSeq
			other, edited := b.input("b"), says(transcript.KindUser, "", "another <text> & more\u2028")
			got := b.changes("a", transcript.InputCommand{Version: 1, Edit: &edited})
			want := b.input("a")
			b.same("the answer", got, want)
			edited.ID = "a"
			b.same("the content", want.Entry, edited)
			b.unchanged("edited as it was", "a", transcript.InputCommand{Version: 1, Edit: &edited}, stale(2))
			b.unchanged("taken back as it was", "a", transcript.InputCommand{Version: 1, Cancel: true}, stale(2))
			got = b.changes("a", transcript.InputCommand{Version: 2, Lane: transcript.LaneFollowUp})
			if got.Lane != transcript.LaneFollowUp || got.Version != 3 {
				b.Errorf("got %+v", got)
			}
			got = b.changes("a", transcript.InputCommand{Version: 3, Cancel: true})
			if got.State != transcript.InputCancelled || got.Version != 4 {
				b.Errorf("got %+v", got)
			}
			b.same("taken back again", b.changes("a", transcript.InputCommand{Cancel: true}), got)
			b.same("what happened", b.news(after), []string{"a pending", "a pending", "a cancelled"})
			b.same("the other", b.input("b"), other)
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"b"})
			b.unchanged("one that is not there", "zz", transcript.InputCommand{Cancel: true}, is(transcript.ErrNotFound))
			b.sound(talk)
		}},
		{"change-refused", "A command has one part that can be: else it is refused by its field.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"))
			e, bad, large := asks("a"), transcript.NewEntry{ID: "a"}, asks("a")
			large.Parts = []transcript.Part{transcript.TextPart(strings.Repeat("x", transcript.MaxEntryBytes))}
			field := as[*access.FieldError]
			for what, cmd := range map[string]transcript.InputCommand{
				"nothing": {}, "a version": {Version: 1}, "two things": {Cancel: true, Edit: &e}, "two others": {Claim: 1, Release: 1},
				"no entry": {Edit: &bad}, "no lane": {Lane: "x"}, "no move": {Move: &transcript.Move{}}, "two moves": {Move: &transcript.Move{Before: "a", After: "b"}},
				"no version": {Version: -1, Cancel: true}, "no turn": {Claim: -1}, "no turn any more": {Release: -1}, "of no turn": {Fail: &transcript.Failure{}},
				"back in time": {Fail: &transcript.Failure{Fence: 1, Wait: -1}}, "less than none": {Fail: &transcript.Failure{Fence: 1, Attempts: -1}},
				"no text": {Fail: &transcript.Failure{Fence: 1, Error: "\x00"}}, "not expired": {Expire: true},
				"before itself": {Move: &transcript.Move{Before: "a"}}, "after what is not there": {Move: &transcript.Move{After: "zz"}},
			} {
				b.unchanged(what, "a", cmd, field)
			}
			b.unchanged("too large", "a", transcript.InputCommand{Edit: &large}, as[*transcript.LimitError])
			if _, err := b.box.ChangeInput(b.Context(), talk, "", transcript.InputCommand{Cancel: true}); !field(err) {
				b.Errorf("of no id: got error %v", err)
			}
		}},
		{"move", "An input goes right before or after another that waits in its lane, and new ones come behind all. (case 31)", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"), steer("b"), steer("c"), steer("d"), input(transcript.LaneFollowUp, "f"), steer("gone"))
			b.changes("gone", transcript.InputCommand{Cancel: true})
			want := []transcript.EntryID{"a", "b", "c", "d", "f"}
			move := func(id transcript.EntryID, m transcript.Move) {
				b.Helper()
				version := b.input(id).Version
				if got := b.changes(id, transcript.InputCommand{Version: version, Move: &m}); got.Version != version+1 {
					b.Errorf("got version %d after %d", got.Version, version)
				}
				want = slices.DeleteFunc(want, func(other transcript.EntryID) bool { return other == id })
				at := slices.Index(want, m.Before+m.After)
				if m.After != "" {
					at++
				}
				want = slices.Insert(want, at, id)
				b.same(fmt.Sprintf("after %s went to %+v", id, m), lined(b.inputs()), want)
			}
			move("d", transcript.Move{Before: "a"})
			move("d", transcript.Move{After: "b"})
			move("a", transcript.Move{After: "c"})
			b.unchanged("next to another lane's", "a", transcript.InputCommand{Move: &transcript.Move{Before: "f"}}, as[*access.FieldError])
			b.unchanged("next to one that does not wait", "a", transcript.InputCommand{Move: &transcript.Move{After: "gone"}}, as[*access.FieldError])
			for i := range 50 { // until there is no number left between two
				move([]transcript.EntryID{"a", "c"}[i%2], transcript.Move{After: "b"})
			}
			for range 10 { // behind the last of its lane, again and again
				move(want[0], transcript.Move{After: want[3]})
			}
			b.admits(steer("new"))
			b.same("with a new one", lined(b.inputs()), append(want, "new"))
			b.sound(talk)
		}},
		{"expire", "Too late for an input is when its time is over: then it is not delivered, and may be put away.", func(b *inboxBench) {
			b.create(talk)
			mortal := steer("a")
			mortal.Life = time.Minute
			b.admits(mortal, steer("b"))
			b.unchanged("in time", "a", transcript.InputCommand{Expire: true}, as[*access.FieldError])
			b.unchanged("one for ever", "b", transcript.InputCommand{Expire: true}, as[*access.FieldError])
			b.clock.Step(time.Minute)
			b.unwritten("too late", promotes("a"), stays(transcript.InputExpired), "a")
			if got := b.changes("a", transcript.InputCommand{Expire: true}); got.State != transcript.InputExpired {
				b.Errorf("got %+v", got)
			}
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"b"})
		}},
	}
}
