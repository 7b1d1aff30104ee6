package transcript

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Empty is the row of a transcript that is made: its head is before the root.
// clock is the store's.
func Empty(conversation access.ConversationID, clock time.Time) Transcript {
	return Transcript{Conversation: conversation, Status: Active, Head: BeforeRoot(), Version: 1, CreatedAt: clock, UpdatedAt: clock}
}

// Check refuses a fork that no store has to look at, by a *access.FieldError.
func (f Fork) Check() error {
	if err := access.CheckID("To", f.To); err != nil {
		return err
	}
	if err := access.CheckID("From", f.From); err != nil {
		return err
	}
	if f.To == f.From {
		return &access.FieldError{Field: "To", Rule: "another than From"}
	}
	return f.At.Check("At")
}

// ForkFacts are what a fork rests on: its source as it is at one instant, and
// At there, or its head where At is zero.
type ForkFacts struct {
	Source Transcript
	At     Position // never zero
	Known  Known    // of its entry, where There
	Kind   Kind
	There  bool
}

// End is where the path ends that the fork begins with. ErrNotFound: there is no such
// source, or no such committed entry. *PathError: what is to be left out is not a user's.
func (f Fork) End(facts ForkFacts) (Position, error) {
	at := facts.At
	switch {
	case facts.Source.Status == Deleted:
		return Position{}, fmt.Errorf("%w: %s", ErrNotFound, f.From)
	case at.Root && f.Before:
		return Position{}, &PathError{Rule: "there is none before the root that could be left out"}
	case at.Root:
		return at, nil
	case !facts.There || facts.Known.Aborted:
		return Position{}, fmt.Errorf("%w: entry %s of %s", ErrNotFound, at.Entry, f.From)
	case f.Before && facts.Kind != KindUser:
		return Position{}, &PathError{Entry: at.Entry, Rule: "only a user's entry can be left out"}
	case f.Before:
		return facts.Known.Parent, nil
	}
	return at, nil
}

// Made reports whether a transcript that is there is this fork, made before.
// end is what End says, zero where the source is gone: a retry needs it only where Before.
func (f Fork) Made(there Transcript, end Position) bool {
	switch l := there.Lineage; {
	case l.Conversation != f.From:
		return false
	case f.At.IsZero():
		return true // wherever the head was
	case f.Before:
		return !end.IsZero() && l.At == end
	default:
		return l.At == f.At
	}
}

// Row is the row of the fork, whose path ends at end, and its first fact.
// inherited is the usage of that path; clock is the store's.
func (f Fork) Row(source Transcript, end Position, inherited Usage, clock time.Time) (Transcript, Fact) {
	t := Empty(f.To, clock)
	t.Head = end
	t.Inherited = inherited
	t.Lineage = Lineage{Conversation: f.From, At: end, Seq: source.LastSeq, ByReference: f.ByReference}
	t.LastSeq = source.LastSeq + 1
	return t, Fact{Seq: t.LastSeq, Kind: FactForked, At: end}
}
