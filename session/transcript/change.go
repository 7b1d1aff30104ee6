package transcript

import (
	"github.com/bunkroom/bunkroom/access"
)

// Change is what one commit writes to one transcript: all of it, or nothing.
// Every part may be left out. Commits to one transcript happen one after the other.
type Change struct {
	Conversation access.ConversationID

	// Fence is that of the turn which this is part of: of the lease of kind
	// turn that the caller holds. A fence lower than the transcript's, or of a turn
	// that was ended, is ErrFenced. Zero: of no turn; then a change that appends,
	// moves the head, or starts or settles calls is ErrInTurn while there is one.
	Fence int64
	// Begin makes Fence the transcript's; where its turn is under way already, nothing is
	// changed. A turn that was ended is never begun again, however late a repetition comes: ErrFenced. It
	// waits for the commit that is under way, so that whoever has
	// begun a turn sees all that older turns will ever have written.
	Begin bool
	// End ends the turn of Fence, after everything else of the change. Every
	// claim of an input that it has is given back.
	End bool
	// EndIdle ends it only if nothing waits that could be delivered at its end,
	// else ErrWaiting. Whoever admits an input therefore either sees the turn go on,
	// which then looks at it, or sees that there is none, and begins one: there is no third outcome.
	EndIdle bool

	// Expect is where the head has to be, else *HeadError; zero: wherever it is.
	Expect Position
	// Version is that which the head has to have, else *VersionError; 0: any.
	Version int64

	// Append is a chain: the first entry follows After, each other the one
	// before it, and the head moves to the last. After zero is the head. Entries
	// that are all there already, with the same content and in that place, are a
	// retry: nothing of the change is written, and it succeeds.
	Append []NewEntry
	After  Position
	// KeepHead leaves the head where it is.
	KeepHead bool
	// Promote are inputs that become the entries of Append with their ids, each as
	// it is now, but for a Turn where it has none; what this turn has claimed, and a barrier, may have become
	// anything. *InputConflictError: it was edited since. *TooLateError: it does not wait any more, was taken
	// back, or is too late. ErrHeld: nothing is delivered. ErrNotFound: there is no such input.
	// A retry of an append promotes those that wait nevertheless.
	Promote []EntryID
	// Head moves the head; no entry is written, none is lost. Not with Append.
	Head Position

	Start  []CallAddress // pending calls that are running from now on
	Settle []Settlement
	// Draft keeps an entry that is not finished; nil: none. See [Draft].
	Draft *Draft
	// Abort gives drafts up: each becomes an aborted entry. A draft that is
	// among Append is committed by that, and is not to be named here.
	Abort []EntryID

	Refs   []RefChange
	Labels []LabelChange
	// Status archives, restores or deletes; empty: it stays. Not within a turn. What is archived
	// leaves nothing open: calls that are not settled are interrupted by the same commit, and a draft is given up.
	Status Status
	// CancelWaiting has the commit that archives or deletes take back all inputs that wait. Without it that is
	// ErrWaiting, unless the time of all of them is over. What is archived has them cancelled, or expired, one by
	// one: with more than [MaxCancelled] it is ErrWaiting in any case, and they are to be taken back before.
	CancelWaiting bool

	// Hold keeps all inputs from being delivered, until a change says Resume. A
	// turn may end meanwhile whatever waits: who resumes looks whether one is to be begun, as [Inbox.Waiting] does.
	Hold, Resume bool

	// MaxBytes is how many bytes of content the transcript may have after
	// Append, else *LimitError; 0: any number.
	MaxBytes int64
}

// CallAddress names a call.
type CallAddress struct {
	Entry EntryID
	Call  CallID
}

// Settlement gives a call its final status. The same again is a retry and
// changes nothing; another is *SettledError.
type Settlement struct {
	CallAddress
	Status CallStatus
	Result []byte // JSON; nil: none
}

// Draft is an entry that is being made, as an answer that streams in: saved
// again and again under one id, whole each time, it is neither on a path nor
// listed, and survives its process. Within a turn there is at most one; a
// second id in the same turn is *PathError. It ends by being appended or aborted.
type Draft struct {
	NewEntry
	After Position // zero: the head
}

// RefChange moves, makes or removes a named pointer to a position.
type RefChange struct {
	Name string
	To   Position // zero: it is removed
	// Version is that which the ref has to have, else *VersionError: 0 = there
	// is none yet; negative = any, or none.
	Version int64
}

// Ref is a named pointer into a tree: the name of a branch.
type Ref struct {
	Name    string
	At      Position
	Version int64 // rises when it is moved; starts at 1
}

// LabelChange puts a label on an entry, or takes it off. Either twice is as once.
type LabelChange struct {
	Entry  EntryID
	Label  string
	Remove bool
}

// Committed is what a commit has made of a transcript.
type Committed struct {
	Transcript Transcript // after it
	// Seqs are those of Append, in its order.
	Seqs []int64
	// Retried: all of Append was there before, and nothing was written but what Promote says.
	Retried bool
}

// The most of each that a change, or a transcript, may have.
const (
	MaxAppend     = 1000     // entries
	MaxParts      = 1000     // of an entry
	MaxEntryBytes = 32 << 20 // of content, of an entry
	MaxBatchBytes = 64 << 20 // of content, of a change
	MaxRefs       = 1000     // of a transcript
	MaxLabels     = 100      // of an entry
	MaxCancelled  = 1000     // inputs, by a change that archives
	MaxNesting    = 1000     // levels of JSON in each other: what is kept together is read by packages that stop at 10,000
	MaxName       = 256      // bytes of a ref, a label, or the name of a tool or a part's type
)
