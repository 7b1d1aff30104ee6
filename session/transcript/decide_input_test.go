package transcript_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// what a command may come to, as letters: where it is carried out the state then, else why not.
func outcome(f transcript.InputFacts, cmd transcript.InputCommand) string {
	in, err := transcript.DecideInput(f, cmd)
	var late *transcript.TooLateError
	var version *transcript.VersionError
	var field *access.FieldError
	switch {
	case errors.As(err, &late):
		return "late:" + string(late.State)
	case errors.As(err, &version):
		return "stale"
	case errors.As(err, &field):
		return "field"
	case errors.Is(err, transcript.ErrFenced):
		return "fenced"
	case errors.Is(err, transcript.ErrArchived):
		return "archived"
	case err != nil:
		return err.Error()
	case in.Version == f.Input.Version:
		return "same"
	case in.Version != f.Input.Version+1:
		return fmt.Sprintf("version %d", in.Version)
	case in.CancelAsked && in.State == transcript.InputClaimed:
		return "asked"
	}
	return string(in.State)
}

// The whole product of states, commands and turns: what becomes of an input.
// The turn that is under way, or was the last, has fence 5.
func TestDecideInput(t *testing.T) {
	e := transcript.NewEntry{ID: "other", Kind: transcript.KindUser}
	commands := []struct {
		name string
		cmd  transcript.InputCommand
	}{
		{"edit", transcript.InputCommand{Edit: &e}},
		{"lane", transcript.InputCommand{Lane: follow}},
		{"move", transcript.InputCommand{Move: &transcript.Move{Before: "2"}}},
		{"cancel", transcript.InputCommand{Cancel: true}},
		{"claim", transcript.InputCommand{Claim: 5}},
		{"release", transcript.InputCommand{Release: 5}},
		{"fail", transcript.InputCommand{Fail: &transcript.Failure{Fence: 5, Attempts: 2, Error: "no luck"}}},
		{"fail at last", transcript.InputCommand{Fail: &transcript.Failure{Fence: 5, Attempts: 1}}},
		{"expire", transcript.InputCommand{Expire: true}},
		{"nothing", transcript.InputCommand{}},
	}
	const late = "late:"
	all := func(s string) [10]string { return [10]string{s, s, s, s, s, s, s, s, s, s} }
	final := func(state transcript.InputState) [10]string { return all(late + string(state)) }
	again := func(row [10]string) [10]string { row[3] = "same"; return row }
	rows := []struct {
		name    string
		in      transcript.Input
		inTurn  bool
		outcome [10]string
	}{
		{"pending in a turn", waits(1, steer, expired), true,
			[10]string{"pending", "pending", "pending", "cancelled", "claimed", "late:pending", "late:pending", "late:pending", "expired", "field"}},
		{"pending outside of one", waits(1, steer, expired), false,
			[10]string{"pending", "pending", "pending", "cancelled", "fenced", "fenced", "fenced", "fenced", "expired", "field"}},
		{"claimed by the turn", waits(1, steer, expired, claimedBy(5)), true,
			[10]string{"late:claimed", "late:claimed", "late:claimed", "asked", "same", "pending", "pending", "dead", "late:claimed", "late:claimed"}},
		{"claimed by it and taken back", waits(1, steer, expired, claimedBy(5), takenBack), true,
			[10]string{"late:claimed", "late:claimed", "late:claimed", "same", "late:cancelled", "cancelled", "cancelled", "cancelled", "late:claimed", "late:claimed"}},
		{"claimed by an older turn", waits(1, steer, expired, claimedBy(4)), true,
			[10]string{"pending", "pending", "pending", "cancelled", "claimed", "late:pending", "late:pending", "late:pending", "expired", "field"}},
		{"claimed by a turn that has ended", waits(1, steer, expired, claimedBy(5)), false,
			[10]string{"pending", "pending", "pending", "cancelled", "fenced", "fenced", "fenced", "fenced", "expired", "field"}},
		{"claimed by an older turn and taken back", waits(1, steer, expired, claimedBy(4), takenBack), true, again(final(transcript.InputCancelled))},
		{"claimed by a turn that has ended and taken back", waits(1, steer, expired, claimedBy(5), takenBack), false, again(final(transcript.InputCancelled))},
	}
	for _, state := range []transcript.InputState{transcript.InputPromoted, transcript.InputCancelled, transcript.InputExpired, transcript.InputDead} {
		for _, inTurn := range []bool{true, false} {
			row := final(state)
			if state == transcript.InputCancelled {
				row = again(row)
			}
			in := waits(1, steer, expired)
			in.State = state
			rows = append(rows, struct {
				name    string
				in      transcript.Input
				inTurn  bool
				outcome [10]string
			}{string(state), in, inTurn, row})
		}
	}
	for _, row := range rows {
		for i, c := range commands {
			f := transcript.InputFacts{
				Transcript: transcript.Transcript{Conversation: "talk", Status: transcript.Active, Fence: 5, InTurn: row.inTurn, LastSeq: 9},
				Input:      row.in, Clock: midday, Order: 77, Room: true,
			}
			what := c.name + " of what is " + row.name
			if got := outcome(f, c.cmd); got != row.outcome[i] {
				t.Errorf("%s: got %q, want %q", what, got, row.outcome[i])
			}
			stale := c.cmd
			stale.Version = 2
			if got := outcome(f, stale); got != "stale" {
				t.Errorf("%s by another version: got %q", what, got)
			}
			if cmd := c.cmd; cmd.Claim+cmd.Release > 0 || cmd.Fail != nil {
				for _, fence := range []int64{4, 6} {
					other := transcript.InputCommand{}
					switch {
					case cmd.Claim > 0:
						other.Claim = fence
					case cmd.Release > 0:
						other.Release = fence
					default:
						other.Fail = &transcript.Failure{Fence: fence}
					}
					want := "fenced"
					if got := row.outcome[i]; got[:min(5, len(got))] == late && row.in.State != transcript.InputPending && got != "late:pending" &&
						!(row.in.State == transcript.InputClaimed && row.in.Fence == 5 && row.inTurn) {
						want = got // it is final
					}
					if got := outcome(f, other); got != want {
						t.Errorf("%s, by turn %d: got %q, want %q", what, fence, got, want)
					}
				}
			}
			f.Transcript.Status = transcript.Archived
			if got := outcome(f, c.cmd); got != "archived" {
				t.Errorf("%s in an archive: got %q", what, got)
			}
		}
	}
}

// What a command does besides to the state.
func TestDecideInputDoes(t *testing.T) {
	facts := func(in transcript.Input) transcript.InputFacts {
		return transcript.InputFacts{
			Transcript: transcript.Transcript{Status: transcript.Active, Fence: 5, InTurn: true, LastSeq: 9}, Input: in, Clock: midday, Order: 77, Room: true,
		}
	}
	do := func(in transcript.Input, cmd transcript.InputCommand) transcript.Input {
		t.Helper()
		out, err := transcript.DecideInput(facts(in), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	e := transcript.NewEntry{ID: "other", Kind: transcript.KindSynthetic}
	if out := do(waits(1, steer), transcript.InputCommand{Edit: &e}); out.Entry.ID != "1" || out.Entry.Kind != transcript.KindSynthetic || e.ID != "other" {
		t.Errorf("edited: %+v", out)
	}
	if out := do(waits(1, steer), transcript.InputCommand{Move: &transcript.Move{After: "2"}}); out.Order != 77 {
		t.Errorf("moved: %+v", out)
	}
	if out := do(waits(1, steer), transcript.InputCommand{Claim: 5}); out.Fence != 5 {
		t.Errorf("claimed: %+v", out)
	}
	out := do(waits(1, steer, claimedBy(5)), transcript.InputCommand{Fail: &transcript.Failure{Fence: 5, Error: "no luck", Wait: time.Minute, Attempts: 9}})
	if out.Fence != 0 || out.Attempts != 1 || out.LastError != "no luck" || !out.NotBefore.Equal(midday.Add(time.Minute)) {
		t.Errorf("failed: %+v", out)
	}
	f := facts(waits(1, steer))
	if fact := f.Fact(out); fact != (transcript.Fact{Seq: 10, Kind: transcript.FactInput, Entry: "1", Input: transcript.InputPending}) {
		t.Errorf("the fact: %+v", fact)
	}
	f.Room = false
	if got := outcome(f, transcript.InputCommand{Move: &transcript.Move{After: "2"}}); got != "field" {
		t.Errorf("moved to no place: %q", got)
	}
	f.Clock = midday.Add(-time.Hour)
	if got := outcome(f, transcript.InputCommand{Expire: true}); got != "field" {
		t.Errorf("put away before its time: %q", got)
	}
}
