package transcript

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Forgotten is what [Store.Forget] has removed.
type Forgotten struct {
	Facts  int
	Inputs int
	More   bool // there are more that are as old
}

// CheckForget refuses what [Store.Forget] can't be asked for, by a *access.FieldError.
func CheckForget(conversation access.ConversationID, older time.Duration, limit int) error {
	if err := access.CheckID("Conversation", conversation); err != nil {
		return err
	}
	if older < 0 {
		return &access.FieldError{Field: "older", Rule: "not negative"}
	}
	if limit < 1 || limit > MaxListed {
		return &access.FieldError{Field: "limit", Rule: fmt.Sprintf("1 to %d", MaxListed)}
	}
	return nil
}

// Done reports whether an input is in one of the states that are final.
func (s InputState) Done() bool {
	switch s {
	case InputPromoted, InputCancelled, InputExpired, InputDead:
		return true
	}
	return false
}

// IdleQuery asks for transcripts that were left alone, to archive or delete
// them: by age, or with the sizes that their rows tell. They are looked at in the order of their ids.
type IdleQuery struct {
	For    time.Duration // that nothing was committed; what only keeps words or forgets facts does not count
	Status Status        // [Active], [Archived] or [Importing]; empty: any of them
	After  access.ConversationID
	// Limit is how many are looked at, so that a page may have fewer, or none, and others follow it. As everywhere.
	Limit int
}

// IdlePage is a page of such transcripts.
type IdlePage struct {
	Transcripts []Transcript
	Next        access.ConversationID // After of the page after this; empty: that was all
}

// Check refuses a query that no store has to look at, by a *access.FieldError.
func (q IdleQuery) Check() error {
	if q.For < 0 {
		return &access.FieldError{Field: "For", Rule: "not negative"}
	}
	switch q.Status {
	case "", Active, Archived, Importing:
	default:
		return &access.FieldError{Field: "Status", Rule: "active, archived, importing or empty"}
	}
	if err := access.CheckOptionalID("After", q.After); err != nil {
		return err
	}
	_, err := Page(q.Limit)
	return err
}
