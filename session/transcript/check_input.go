package transcript

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/access"
)

// Check refuses a command that no store has to look at: it has none or several
// parts, or one that can't be. A *access.FieldError names the field; *LimitError: the content is too large.
func (cmd InputCommand) Check() error {
	parts := 0
	for _, given := range []bool{
		cmd.Edit != nil, cmd.Lane != "", cmd.Move != nil, cmd.Cancel, cmd.Claim != 0, cmd.Release != 0, cmd.Fail != nil, cmd.Expire,
	} {
		if given {
			parts++
		}
	}
	switch {
	case parts != 1:
		return &access.FieldError{Field: "InputCommand", Rule: "one of its parts"}
	case cmd.Version < 0:
		return &access.FieldError{Field: "Version", Rule: "not negative"}
	case cmd.Claim < 0:
		return &access.FieldError{Field: "Claim", Rule: "not negative"}
	case cmd.Release < 0:
		return &access.FieldError{Field: "Release", Rule: "not negative"}
	case cmd.Lane != "":
		return cmd.Lane.check()
	case cmd.Move != nil:
		return cmd.Move.check()
	case cmd.Fail != nil:
		return cmd.Fail.check()
	case cmd.Edit != nil:
		edit := *cmd.Edit
		if edit.ID == "" {
			edit.ID = "of the input"
		}
		if err := edit.check(); err != nil {
			return within("Edit", err)
		}
		_, err := Seal(edit)
		return err
	}
	return nil
}

func (l Lane) check() error {
	switch l {
	case LaneSteer, LaneFollowUp, LaneSynthetic, LaneBarrier:
		return nil
	}
	return &access.FieldError{Field: "Lane", Rule: "steer, follow_up, synthetic or barrier"}
}

func (m Move) check() error {
	if (m.Before == "") == (m.After == "") {
		return &access.FieldError{Field: "Move", Rule: "before an input or after one"}
	}
	return access.CheckID("Move", m.Before+m.After)
}

func (f Failure) check() error {
	switch {
	case f.Fence < 1:
		return &access.FieldError{Field: "Fail.Fence", Rule: "of a turn"}
	case f.Wait < 0:
		return &access.FieldError{Field: "Fail.Wait", Rule: "not negative"}
	case f.Attempts < 0:
		return &access.FieldError{Field: "Fail.Attempts", Rule: "not negative"}
	case len(f.Error) > MaxLastError || !utf8.ValidString(f.Error) || strings.Contains(f.Error, "\x00"):
		return &access.FieldError{Field: "Fail.Error", Rule: fmt.Sprintf("at most %d bytes of UTF-8 without NUL", MaxLastError)}
	}
	return nil
}

// CheckInputs refuses a list of inputs that no store has to look at, by a *access.FieldError.
func CheckInputs(after EntryID, limit int, states []InputState) error {
	for _, state := range states {
		switch state {
		case InputPending, InputClaimed, InputPromoted, InputCancelled, InputExpired, InputDead:
		default:
			return &access.FieldError{Field: "states", Rule: "pending, claimed, promoted, cancelled, expired or dead"}
		}
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return err
	}
	return checkLimit(limit)
}

// CheckWaiting refuses a list of conversations that no store has to look at, by a *access.FieldError.
func CheckWaiting(after access.ConversationID, limit int) error {
	if err := access.CheckOptionalID("after", after); err != nil {
		return err
	}
	return checkLimit(limit)
}

// CheckExpire refuses what [Inbox.Expire] can't be asked for, by a *access.FieldError.
func CheckExpire(conversation access.ConversationID, limit int) error {
	if err := access.CheckID("Conversation", conversation); err != nil {
		return err
	}
	return checkLimit(limit)
}

func checkLimit(limit int) error {
	if limit < 1 || limit > MaxListed {
		return &access.FieldError{Field: "limit", Rule: fmt.Sprintf("1 to %d", MaxListed)}
	}
	return nil
}

// MaxLastError is how many bytes may be kept of what an attempt has failed with.
const MaxLastError = 4096

// Check refuses an input by its own content.
func (in NewInput) Check() error {
	if err := in.Entry.check(); err != nil {
		return within("Entry", err)
	}
	if err := in.Lane.check(); err != nil {
		return err
	}
	if err := in.After.Check("After"); err != nil {
		return err
	}
	switch {
	case in.Ref != "" && !in.After.IsZero():
		return &access.FieldError{Field: "Ref", Rule: "empty where After is given"}
	case in.Wait < 0:
		return &access.FieldError{Field: "Wait", Rule: "not negative"}
	case in.Life < 0:
		return &access.FieldError{Field: "Life", Rule: "not negative"}
	}
	if err := access.CheckOptionalID("Billing", in.Billing); err != nil {
		return err
	}
	if in.Ref != "" {
		return checkName("Ref", in.Ref)
	}
	return nil
}
