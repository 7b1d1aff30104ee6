package transcript

import (
	"github.com/bunkroom/bunkroom/access"
)

// MaxListed is how many entries, headers or facts a page has at most.
// A Limit of 0 is [DefaultListed]; one that is negative or greater is a *access.FieldError.
const (
	MaxListed     = 1000
	DefaultListed = 50
)

// PathQuery asks for the entries from a position towards the root, newest first.
type PathQuery struct {
	Conversation access.ConversationID
	From         Position // zero: the head
	// Through ends the path: it is the last entry listed. Empty: the root. One
	// that is not on the path is a *PathError.
	Through EntryID
	Limit   int
	Blobs   bool // with what is over InlineBytes
}

// PathPage is a stretch of a path.
type PathPage struct {
	Entries []Entry
	Next    Position // From of the page after this; zero: that was all
}

// TimelineQuery asks for all entries of all branches, aborted ones among them, newest first.
type TimelineQuery struct {
	Conversation access.ConversationID
	Before       int64  // a Seq; 0: from the newest
	Kinds        []Kind // empty: all
	Turn         TurnID // empty: of any
	Limit        int
	Blobs        bool
}

// TimelinePage is a page of the timeline.
type TimelinePage struct {
	Entries []Entry
	Next    int64 // Before of the page after this; 0: that was all
}

// HeaderQuery asks for headers, in the order of Seq.
type HeaderQuery struct {
	Conversation access.ConversationID
	// Of is whose committed children to list; zero: every entry of the tree. What is not there has none.
	Of Position
	// Under is below which position to list committed entries, at any distance,
	// or with Levels at most that many entries away, children being one; zero: not only those. Not with Of.
	Under  Position
	Levels int // 0: any
	// Tips: only committed entries that have no child.
	Tips  bool
	Label string // only entries that have it; empty: all
	After int64  // a Seq; 0: from the oldest
	Limit int
}

// HeaderPage is a page of headers.
type HeaderPage struct {
	Headers []Header
	Next    int64 // After of the page after this; 0: that was all
}

// Fact is one thing that happened to a transcript. Entries are facts
// themselves: what can be read elsewhere is not kept twice.
type Fact struct {
	Seq   int64
	Kind  FactKind
	Entry EntryID    // appended, aborted, labelled, of a call
	Call  *Call      // of a call: complete, as it was then but for the result
	Ref   string     // of a ref
	Label string     // of a label
	At    Position   // of the head and of refs
	To    Status     // of the status
	Fence int64      // of a turn
	Input InputState // of an input, whose id is Entry
}

// FactKind says what happened.
type FactKind string

// What happens.
const (
	FactAppended    FactKind = "entry_appended"
	FactAborted     FactKind = "entry_aborted"
	FactHead        FactKind = "head_moved" // by itself, not by an entry
	FactCallStarted FactKind = "call_started"
	FactCallSettled FactKind = "call_settled"
	FactRefMoved    FactKind = "ref_moved"
	FactRefRemoved  FactKind = "ref_removed"
	FactLabelled    FactKind = "labelled"
	FactUnlabelled  FactKind = "unlabelled"
	FactStatus      FactKind = "status_changed"
	FactTurnBegun   FactKind = "turn_begun"
	FactTurnEnded   FactKind = "turn_ended"
	FactInput       FactKind = "input_changed" // admitted, or changed in any way
	FactHeld        FactKind = "inputs_held"
	FactResumed     FactKind = "inputs_resumed"
	// All facts up to its Seq but what was appended or aborted are gone; see [Store.Forget]. It is read in their place.
	FactForgotten FactKind = "facts_forgotten"
	FactForked    FactKind = "forked" // the first of a fork: what it began with is At, and no fact of its own
)

// FactPage is a page of facts.
type FactPage struct {
	Facts []Fact
	// Next is the Seq to ask on from: of the last fact listed, or where the page has none, the one asked from.
	Next int64
	More bool // there are more already
}

// Open is what a turn has left unfinished: calls that are not settled, and a draft.
type Open struct {
	Conversation access.ConversationID
	Fence        int64 // of the transcript
	InTurn       bool
	Calls        []OpenCall
	Draft        *Draft
}

// OpenCall is a call that is not settled.
type OpenCall struct {
	Entry EntryID
	Call  Call
}
