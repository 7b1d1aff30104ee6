package transcript

import (
	"fmt"
	"time"
)

// ExpireBatch is how many inputs a commit puts away, at most, that does so beside something else.
const ExpireBatch = 100

// Due reports whether an input is to be put away: its time is over while it waits. What
// a turn has claimed is that turn's until it is given back.
func (in Input) Due(now time.Time) bool { return in.State == InputPending && in.expired(now) }

// Expiry is what puts inputs away: nothing to write where there are none.
type Expiry struct {
	Transcript Transcript // as it is then
	Inputs     []Input    // as they are then
	Facts      []Fact
}

// DecideExpire says what becomes of inputs at an instant, under a lock on the transcript: those that are
// [Input.Due] expire, in the order given, and the others stay. It is pure. The refusals are those of [Inbox.Expire].
func DecideExpire(t Transcript, inputs []Input, clock time.Time) (Expiry, error) {
	switch t.Status {
	case Deleted:
		return Expiry{}, fmt.Errorf("%w: %s", ErrNotFound, t.Conversation)
	case Archived:
		return Expiry{}, fmt.Errorf("%w: %s", ErrArchived, t.Conversation)
	}
	return expire(t, inputs, clock), nil
}

func expire(t Transcript, inputs []Input, clock time.Time) (e Expiry) {
	for _, in := range inputs {
		if !in.Due(clock) {
			continue
		}
		in.State = InputExpired
		in.Version++
		t.LastSeq++
		t.UpdatedAt = clock
		e.Inputs = append(e.Inputs, in)
		e.Facts = append(e.Facts, Fact{Seq: t.LastSeq, Kind: FactInput, Entry: in.Entry.ID, Input: in.State})
	}
	e.Transcript = t
	return e
}

// emptyQueue leaves nothing that waits in what is archived or deleted: nobody would look at it any more.
func (d *decision) emptyQueue(to Status) error {
	var queue []Input
	alive := false
	for _, in := range d.Queue {
		if d.changed(in) {
			continue
		}
		queue = append(queue, in)
		alive = alive || !in.expired(d.Clock)
	}
	switch {
	case alive && !d.change.CancelWaiting:
		return fmt.Errorf("%w: %s", ErrWaiting, d.change.Conversation)
	case to == Deleted: // they go with it
		return nil
	case len(queue) > MaxCancelled:
		return fmt.Errorf("%w: %s: more than %d at once: take them back first", ErrWaiting, d.change.Conversation, MaxCancelled)
	}
	Sort(queue)
	for _, in := range queue {
		if in.expired(d.Clock) {
			in.back(InputExpired)
		} else {
			in.back(InputCancelled)
		}
		d.becomes(in)
	}
	return nil
}
