package transcript

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// AdmitFacts are what [DecideAdmit] goes by, at one instant and under a lock on the transcript.
type AdmitFacts struct {
	Transcript Transcript
	There      *Input // of that id; nil: none
	Hash       string // of its content as it was admitted first, see [Sealed]
	Entry      bool   // there is an entry of that id, committed or given up
	After      bool   // there is a committed entry that the input is to follow, or it names none
	Waiting    int    // how many inputs wait that have not expired
	// Due are those of which [Input.Due] says so, the first [ExpireBatch] in their order. They are looked
	// for only where as many inputs wait as may, those that have expired among them.
	Due   []Input
	Clock time.Time
}

// after is when a wait is over; zero: there is none. Two transactions that meet may go by clocks that
// they read in another order than they write in, so that what is due at once must not go by a clock.
func after(clock time.Time, wait time.Duration) time.Time {
	if wait == 0 {
		return time.Time{}
	}
	return clock.Add(wait).Truncate(time.Microsecond)
}

// Admission is what an input that comes is to make: nothing to write where it was there before.
type Admission struct {
	Admitted
	Transcript Transcript // as it is then
	Expired    []Input    // that are put away by it, as they are then
	Facts      []Fact
}

// DecideAdmit says what becomes of an input that [NewInput.Check] lets pass and
// whose content has that hash. It is pure. The refusals are those of [Inbox.Admit].
func DecideAdmit(f AdmitFacts, in NewInput, hash string, most int) (Admission, error) {
	t := f.Transcript
	id := in.Entry.ID
	switch {
	case most < 1:
		return Admission{}, &access.FieldError{Field: "max", Rule: "at least 1"}
	case t.Status == Deleted:
		return Admission{}, fmt.Errorf("%w: %s", ErrNotFound, t.Conversation)
	case f.Entry:
		return Admission{}, &PromotedError{Conversation: t.Conversation, Entry: id}
	case f.There != nil && f.Hash != hash:
		return Admission{}, &InputConflictError{Conversation: t.Conversation, Input: id}
	case f.There != nil: // a retry
		return Admission{Admitted: Admitted{Input: *f.There, InTurn: t.InTurn}, Transcript: t}, nil
	case t.Status == Archived:
		return Admission{}, fmt.Errorf("%w: %s", ErrArchived, t.Conversation)
	case t.Status == Importing: // which may yet come to nothing
		return Admission{}, fmt.Errorf("%w: %s is being imported", ErrBusy, t.Conversation)
	case !f.After:
		return Admission{}, fmt.Errorf("%w: entry %s of %s", ErrNotFound, in.After.Entry, t.Conversation)
	case f.Waiting >= most:
		return Admission{}, &LimitError{Of: "inputs that wait", Max: int64(most)}
	}
	late := expire(t, f.Due, f.Clock)
	t = late.Transcript
	t.LastSeq++
	t.UpdatedAt = f.Clock
	i := Input{
		NewInput: in, State: InputPending, Version: 1, Order: order(t.LastSeq), Admitted: t.LastSeq,
		CreatedAt: f.Clock, NotBefore: after(f.Clock, in.Wait),
	}
	if in.Life > 0 {
		i.Expires = after(f.Clock, in.Life)
	}
	return Admission{
		Admitted:   Admitted{Input: i, Created: true, InTurn: t.InTurn},
		Transcript: t,
		Expired:    late.Inputs,
		Facts:      append(late.Facts, Fact{Seq: t.LastSeq, Kind: FactInput, Entry: id, Input: InputPending}),
	}, nil
}
