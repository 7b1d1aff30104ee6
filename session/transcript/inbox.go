package transcript

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Lane says when an input is delivered.
type Lane string

// The lanes. Steers and synthetic inputs go between the steps of a turn that is under way,
// follow-ups when it would stop, one at a time. A barrier, as a compaction or a change
// of the configuration, is done alone: nothing that was admitted after it is delivered before it.
const (
	LaneSteer     Lane = "steer"
	LaneFollowUp  Lane = "follow_up"
	LaneSynthetic Lane = "synthetic"
	LaneBarrier   Lane = "barrier"
)

// InputState is how far an input is.
type InputState string

// The states of an input. The last four are final.
const (
	InputPending   InputState = "pending"
	InputClaimed   InputState = "claimed"   // a turn prepares it; pending again once that turn has ended
	InputPromoted  InputState = "promoted"  // the entry of its id is in the tree
	InputCancelled InputState = "cancelled" // somebody took it back
	InputExpired   InputState = "expired"   // it was not delivered in time
	InputDead      InputState = "dead"      // it could not be delivered
)

// NewInput is something to be said in a conversation once its turn comes.
type NewInput struct {
	// Entry is what it becomes, but for what a claim may still make of it. Its
	// ID is the input's, and what a retry is recognised by. Of a barrier it is
	// what tells what is to be done, and need not become an entry of that kind.
	Entry   NewEntry
	Lane    Lane
	After   Position      // what it is to follow; zero: the head, or Ref
	Ref     string        // the ref it is for; empty: none
	Wait    time.Duration // not delivered before that has passed
	Life    time.Duration // not delivered after that has passed; 0: ever
	Billing string        // the host's own, of whatever was asked as it was admitted
}

// Input is an input that was admitted.
type Input struct {
	NewInput
	State    InputState
	Version  int64 // rises with every change
	Order    int64 // those of a lane are delivered in this order, which may be changed; the numbers mean nothing else
	Admitted int64 // the Seq at which it came
	Promoted int64 // the Seq of its entry
	Fence    int64 // of the turn that claims it
	// CancelAsked: somebody has taken it back while it was claimed. Whoever has
	// the claim can't promote it any more.
	CancelAsked bool
	Attempts    int       // that have failed
	LastError   string    // of the last attempt
	NotBefore   time.Time // zero: at once
	Expires     time.Time // zero: never
	CreatedAt   time.Time
}

// Admitted is the answer to an input that has come.
type Admitted struct {
	Input   Input
	Created bool // it was not there before
	// InTurn: a turn is under way, which can't end by [Change.EndIdle] without having
	// looked at it. Else nobody will, unless a turn is begun. What a turn leaves that is broken off, or that ended
	// while inputs were held or the input had to wait, is what [Inbox.Waiting] lists.
	InTurn bool
}

// Inbox keeps the inputs that wait, in the same place as the [Store] of the
// same transcripts: [Change.Promote] makes entries of them in one commit.
// All methods may be called concurrently.
type Inbox interface {
	// Admit adds an input that [NewInput.Check] lets pass. Twice with one id
	// and content is once, whatever has become of it meanwhile; *InputConflictError: the id is that of an input
	// which came with other content. *PromotedError: it is that of an entry. *LimitError: max inputs
	// wait already, not counting those whose time is over; at least 1. Where it takes those to be as many, the first
	// [ExpireBatch] that are [Input.Due] expire by the same commit. ErrNotFound and ErrArchived as for a commit, ErrNotFound also where there is nothing to follow, and
	// ErrBusy while the transcript is imported; a turn that is under way is no obstacle.
	Admit(ctx context.Context, conversation access.ConversationID, in NewInput, max int) (Admitted, error)

	// Input reads an input by its id, whatever its state. ErrNotFound: there is none, as once it is
	// forgotten; see [Store.Forget].
	Input(ctx context.Context, conversation access.ConversationID, id EntryID) (Input, error)

	// Inputs lists inputs by (Order, Admitted): those of the states given; of none given, those that wait.
	// At most limit, from 1 to [MaxListed], those after the one given by its id, whatever its state; empty begins. ErrNotFound: no such input.
	Inputs(ctx context.Context, conversation access.ConversationID, after EntryID, limit int, states ...InputState) ([]Input, error)

	// ChangeInput does what a command says, and returns the input as it is then;
	// see [DecideInput] for its refusals. ErrNotFound and ErrArchived as for a commit.
	ChangeInput(ctx context.Context, conversation access.ConversationID, id EntryID, cmd InputCommand) (Input, error)

	// Waiting lists at most limit conversations that are not in a turn and have
	// an input that could be delivered now, in the order of their ids: those after the one given; empty begins. What
	// a process that died has left in a turn is listed by [Store.Unfinished].
	Waiting(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error)

	// Expire makes at most limit inputs InputExpired, from 1 to [MaxListed], the first in their order that are [Input.Due], by one
	// commit, and returns how many: fewer than limit, there are none left. It needs no turn, and is no obstacle to
	// one. ErrNotFound and ErrArchived as for a commit.
	Expire(ctx context.Context, conversation access.ConversationID, limit int) (expired int, err error)

	// Expired lists at most limit conversations in which Expire has something to do now, in a turn or
	// not, in the order of their ids: those after the one given; empty begins.
	Expired(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error)
}

// InputCommand is one thing to do to an input: exactly one of its parts is given.
type InputCommand struct {
	// Version is that which the input has to have, else *VersionError; 0: any.
	Version int64
	Edit    *NewEntry // other content; its ID, which may be empty, is ignored
	Lane    Lane      // another lane
	Move    *Move     // to another place in its lane
	Cancel  bool
	Claim   int64 // the fence of the turn that is to prepare it
	Release int64 // the fence of the turn that gives its claim back
	Fail    *Failure
	Expire  bool // it is too late for it
}

// Move is a place in a lane: right before another input of that lane, or after it.
type Move struct {
	Before, After EntryID // one of them
}

// Failure is an attempt to deliver that has failed.
type Failure struct {
	Fence int64         // of the turn that has the claim
	Error string        // at most [MaxLastError] bytes of UTF-8 without NUL
	Wait  time.Duration // until it may be tried again
	// Attempts is how many there may be at all; with that many it is dead. 0: it is dead at once.
	Attempts int
}
