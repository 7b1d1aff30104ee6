package transcript

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// The outcomes, wrapped with the subject; compare with errors.Is.
var (
	// ErrNotFound: there is no such transcript, or entry, call, ref or input in it.
	ErrNotFound = access.NewSentinel("transcript: not found", 404, "not_found", "Not found.")
	// ErrExists: there is a transcript for the conversation already, and it is no fork of that.
	ErrExists = access.NewSentinel("transcript: exists", 409, "exists", "This exists already.")
	// ErrArchived: it takes nothing until it is restored.
	ErrArchived = access.NewSentinel("transcript: archived", 409, "archived", "This conversation is archived. Restore it first.")
	// ErrFenced: another turn has begun since, or the turn was ended; nothing was written.
	ErrFenced = access.NewSentinel("transcript: turn lost", 409, "turn_lost", "Somebody else goes on with this conversation.")
	// ErrInTurn: a turn is under way, and what was asked for is not of it.
	ErrInTurn = access.NewSentinel("transcript: turn under way", 409, "in_turn", "Wait until the current turn has ended, or stop it.")
	// ErrWaiting: there are inputs to deliver, or to take back, first: the turn was not ended, or nothing was
	// archived or deleted. See [Change.EndIdle] and [Change.CancelWaiting].
	ErrWaiting = access.NewSentinel("transcript: inputs wait", 409, "inputs_waiting", "There is something to be looked at first.")
	// ErrHeld: nothing is delivered until somebody says [Change.Resume].
	ErrHeld = access.NewSentinel("transcript: inputs are held", 409, "inputs_held", "Nothing is delivered in this conversation until somebody resumes it.")
	// ErrBusy: the database was locked for too long. Nothing was written; retry.
	ErrBusy = access.NewSentinel("transcript: busy", 503, "busy", "Too much is being written right now. Try again shortly.")
	// ErrUnknown: a commit's reply was lost. Repeat the call with the same ids.
	ErrUnknown = access.NewSentinel("transcript: outcome unknown", 503, "unknown_outcome", "It is not known whether this happened. Check before you try again.")
)

// HeadError says that the head is not where the caller expected it. Nothing
// was written: read what has come, decide, and append again.
type HeadError struct {
	Conversation     access.ConversationID
	Expected, Actual Position
}

func (e *HeadError) Error() string {
	return fmt.Sprintf("transcript: %s: the head is %v, not %v", e.Conversation, e.Actual, e.Expected)
}

// Problem is the same wherever the head is.
func (e *HeadError) Problem() (status int, code, sentence string) {
	return 409, "head_moved", "The conversation has moved on. Look at it and try again."
}

// VersionError says that something has another version than the caller expected. Nothing was written.
type VersionError struct {
	Of               string // "head", "ref" or "input"
	Name             string
	Expected, Actual int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("transcript: %s %s has version %d, not %d", e.Of, e.Name, e.Actual, e.Expected)
}

// Problem is the same for everything that has a version.
func (e *VersionError) Problem() (status int, code, sentence string) {
	return 409, "conflict", "Somebody else changed this at the same time. Try again."
}

// EntryConflictError says that the id of an entry is taken, by one with other content. Nothing was written.
type EntryConflictError struct {
	Conversation access.ConversationID
	Entry        EntryID
	Hash, Stored string // of the content given and of that stored; SHA-256, in hex
}

func (e *EntryConflictError) Error() string {
	return fmt.Sprintf("transcript: %s: entry %s is there with content %s, not %s", e.Conversation, e.Entry, e.Stored, e.Hash)
}

// Problem is the same for every entry.
func (e *EntryConflictError) Problem() (status int, code, sentence string) {
	return 409, "entry_conflict", "This was said before, with other content."
}

// SettledError says that a call was settled before, in another way. Nothing was written.
type SettledError struct {
	Entry  EntryID
	Call   CallID
	Status CallStatus // the one it has
}

func (e *SettledError) Error() string {
	return fmt.Sprintf("transcript: call %s of entry %s is %s already", e.Call, e.Entry, e.Status)
}

// Problem is the same for every call.
func (e *SettledError) Problem() (status int, code, sentence string) {
	return 409, "settled", "This has ended already."
}

// PathError says that an entry is not where it has to be: a first kept entry
// that is not on the path of its compaction, a parent that was aborted. Nothing was written.
type PathError struct {
	Entry EntryID
	Rule  string // what it breaks
}

func (e *PathError) Error() string { return fmt.Sprintf("transcript: entry %s: %s", e.Entry, e.Rule) }

// Problem is the same for every rule: an entry's id is the host's own.
func (e *PathError) Problem() (status int, code, sentence string) {
	return 422, "wrong_place", "This can't stand in that place of the conversation."
}

// LimitError says that there is more of something than there may be. Nothing was written.
type LimitError struct {
	Of  string // as "bytes in an entry"
	Max int64
}

func (e *LimitError) Error() string { return fmt.Sprintf("transcript: more than %d %s", e.Max, e.Of) }

// Problem is the same for every limit.
func (e *LimitError) Problem() (status int, code, sentence string) {
	return 413, "too_large", "This is more than a conversation takes."
}

// InputConflictError says that the id of an input is taken, by one with other content. Nothing was written.
type InputConflictError struct {
	Conversation access.ConversationID
	Input        EntryID
}

func (e *InputConflictError) Error() string {
	return fmt.Sprintf("transcript: %s: input %s is there with other content", e.Conversation, e.Input)
}

// Problem is the same for every input.
func (e *InputConflictError) Problem() (status int, code, sentence string) {
	return 409, "input_conflict", "This was sent before, with other content."
}

// PromotedError says that an input is an entry already.
type PromotedError struct {
	Conversation access.ConversationID
	Entry        EntryID
}

func (e *PromotedError) Error() string {
	return fmt.Sprintf("transcript: %s: entry %s is in the tree already", e.Conversation, e.Entry)
}

// Problem is the same for every entry.
func (e *PromotedError) Problem() (status int, code, sentence string) {
	return 409, "promoted", "This was delivered already."
}

// TooLateError says that an input can't be changed any more, or not while it is claimed.
type TooLateError struct {
	Input EntryID
	State InputState
}

func (e *TooLateError) Error() string {
	return fmt.Sprintf("transcript: input %s is %s", e.Input, e.State)
}

// Problem tells what can't be undone from what can be asked again.
func (e *TooLateError) Problem() (status int, code, sentence string) {
	if e.State == InputClaimed {
		return 409, "being_delivered", "This is being delivered right now."
	}
	return 409, "too_late", "It is too late to change this."
}
