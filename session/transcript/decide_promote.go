package transcript

import (
	"fmt"
	"slices"
)

// promote makes entries of inputs.
func (d *decision) promote() error {
	if len(d.change.Promote) > 0 && d.Transcript.Held && !d.change.Resume {
		return fmt.Errorf("%w: %s", ErrHeld, d.change.Conversation)
	}
	for _, id := range d.change.Promote {
		in, ok := d.Inputs[id]
		if !ok {
			return fmt.Errorf("%w: input %s of %s", ErrNotFound, id, d.change.Conversation)
		}
		for i, back := range d.plan.Inputs { // of a turn before this, which begins
			if back.Entry.ID == id {
				in.State, in.Fence, in.Version = back.State, back.Fence, back.Version
				d.plan.Inputs = slices.Delete(d.plan.Inputs, i, i+1)
				break
			}
		}
		state := in.State
		switch {
		case in.CancelAsked && in.waits():
			state = InputCancelled
		case in.waits() && in.expired(d.Clock):
			state = InputExpired
		case in.State == InputClaimed && in.Fence == d.change.Fence:
			state = InputPending
		}
		if state != InputPending {
			return &TooLateError{Input: id, State: state}
		}
		if err := d.asAdmitted(in); err != nil {
			return err
		}
		d.promoted(in, d.seqOf(id))
	}
	return nil
}

// asAdmitted refuses an entry that is not what its input is now: that may be
// edited until it is claimed, and who has edited it is to be sure of what is delivered.
func (d *decision) asAdmitted(in Input) error {
	if in.State == InputClaimed || in.Lane == LaneBarrier {
		return nil
	}
	for i, e := range d.change.Append {
		if e.ID != in.Entry.ID {
			continue
		}
		was := in.Entry
		if was.Turn == "" {
			was.Turn = e.Turn
		}
		kept, err := Seal(was)
		if err != nil {
			return err
		}
		if kept.Hash != d.sealed[i].Hash {
			return &InputConflictError{Conversation: d.change.Conversation, Input: in.Entry.ID}
		}
	}
	return nil
}

// seqOf is that of an entry which is appended, or was.
func (d *decision) seqOf(id EntryID) int64 {
	for _, e := range d.plan.Entries {
		if e.ID == id {
			return e.Seq
		}
	}
	return d.Known[id].Seq
}

func (d *decision) promoted(in Input, seq int64) {
	in.State, in.Fence, in.Promoted = InputPromoted, 0, seq
	d.becomes(in)
}

// becomes writes an input as it is from now on.
func (d *decision) becomes(in Input) {
	in.Version++
	d.plan.Inputs = append(d.plan.Inputs, in)
	d.note(Fact{Kind: FactInput, Entry: in.Entry.ID, Input: in.State})
}

// giveBack gives back every claim that is left: no turn is going on but the
// one of this change, which begins or ends.
func (d *decision) giveBack() {
	for _, in := range d.Claimed {
		if d.changed(in) {
			continue // promoted, or given back as the turn began
		}
		in.back(InputPending)
		d.becomes(in)
	}
}

// changed reports whether an input becomes something else by this change already.
func (d *decision) changed(in Input) bool {
	return slices.ContainsFunc(d.plan.Inputs, func(now Input) bool { return now.Entry.ID == in.Entry.ID })
}

// caughtUp promotes what waits still though its entry was appended before,
// without saying so: nothing else could ever be done with it.
func (d *decision) caughtUp() error {
	waits := func(id EntryID) bool {
		in, there := d.Inputs[id]
		return there && in.waits()
	}
	if !slices.ContainsFunc(d.change.Promote, waits) {
		return nil
	}
	if err := d.mayWrite(); err != nil {
		return err
	}
	for _, id := range d.change.Promote {
		if waits(id) {
			d.promoted(d.Inputs[id], d.seqOf(id))
		}
	}
	d.plan.Transcript.UpdatedAt = d.Clock
	return nil
}
