package transcript

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// InputFacts are what [DecideInput] goes by, at one instant and under a lock.
type InputFacts struct {
	Transcript Transcript
	Input      Input
	Clock      time.Time
	// Of a Move: what [Move.Place] says. Room: there is such a place.
	Order int64
	Room  bool
}

// Claimed reports whether a turn that is under way has the claim: that of a
// turn which has ended or was taken over is none any more.
func (f InputFacts) Claimed() bool {
	return f.Input.State == InputClaimed && f.Transcript.InTurn && f.Input.Fence == f.Transcript.Fence
}

// Fact is what happened where the input became another: its Seq is the transcript's newest then.
func (f InputFacts) Fact(becomes Input) Fact {
	return Fact{Seq: f.Transcript.LastSeq + 1, Kind: FactInput, Entry: becomes.Entry.ID, Input: becomes.State}
}

// DecideInput is what an input becomes by a command. It is pure; the zero
// command is refused. The refusals: ErrArchived, *VersionError, *TooLateError, ErrFenced,
// *access.FieldError. A command that has been carried out already, as a second Cancel,
// leaves the Version as it is: then there is nothing to write.
func DecideInput(f InputFacts, cmd InputCommand) (Input, error) {
	in := f.Input
	if in.State == InputClaimed && !f.Claimed() {
		in.State, in.Fence = InputPending, 0
		if in.CancelAsked {
			in.State = InputCancelled
		}
	}
	t := f.Transcript
	switch {
	case t.Status == Archived:
		return Input{}, fmt.Errorf("%w: %s", ErrArchived, t.Conversation)
	case cmd.Version != 0 && cmd.Version != in.Version:
		return Input{}, &VersionError{Of: "input", Name: string(in.Entry.ID), Expected: cmd.Version, Actual: in.Version}
	case cmd.Cancel && (in.State == InputCancelled || in.CancelAsked):
		return in, nil // a retry
	case !in.waits():
		return Input{}, &TooLateError{Input: in.Entry.ID, State: in.State}
	}
	fence := max(cmd.Claim, cmd.Release)
	if cmd.Fail != nil {
		fence = cmd.Fail.Fence
	}
	if fence != 0 && (!t.InTurn || fence != t.Fence) {
		return Input{}, fmt.Errorf("%w: input %s: turn %d, not %d", ErrFenced, in.Entry.ID, t.Fence, fence)
	}
	claimed := in.State == InputClaimed
	switch {
	case cmd.Cancel && claimed:
		in.CancelAsked = true
	case cmd.Cancel:
		in.State = InputCancelled
	case cmd.Claim != 0 && in.CancelAsked:
		return Input{}, &TooLateError{Input: in.Entry.ID, State: InputCancelled}
	case cmd.Claim != 0 && claimed:
		return in, nil // a retry
	case cmd.Claim != 0:
		in.State, in.Fence = InputClaimed, cmd.Claim
	case (cmd.Release != 0 || cmd.Fail != nil) && !claimed:
		return Input{}, &TooLateError{Input: in.Entry.ID, State: in.State}
	case cmd.Release != 0:
		in.back(InputPending)
	case cmd.Fail != nil:
		in.Attempts++
		in.LastError = cmd.Fail.Error
		in.NotBefore = after(f.Clock, cmd.Fail.Wait)
		in.back(InputPending)
		if in.Attempts >= cmd.Fail.Attempts && in.State == InputPending {
			in.State = InputDead
		}
	case claimed: // what is being prepared is changed by nobody
		return Input{}, &TooLateError{Input: in.Entry.ID, State: InputClaimed}
	case cmd.Edit != nil:
		edited := *cmd.Edit
		edited.ID = in.Entry.ID
		in.Entry = edited
	case cmd.Lane != "":
		in.Lane = cmd.Lane
	case cmd.Move != nil && !f.Room:
		return Input{}, &access.FieldError{Field: "Move", Rule: "next to another input that waits in the same lane"}
	case cmd.Move != nil:
		in.Order = f.Order
	case cmd.Expire && (in.Expires.IsZero() || in.Expires.After(f.Clock)):
		return Input{}, &access.FieldError{Field: "Expire", Rule: "only of what has expired"}
	case cmd.Expire:
		in.State = InputExpired
	default:
		return Input{}, &access.FieldError{Field: "InputCommand", Rule: "one of its parts"}
	}
	in.Version++
	return in, nil
}

// back gives a claim back; whoever asked for it meanwhile gets it cancelled.
func (in *Input) back(to InputState) {
	in.State, in.Fence = to, 0
	if in.CancelAsked {
		in.State = InputCancelled
	}
}
