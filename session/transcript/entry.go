package transcript

import (
	"encoding/json"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// EntryID names an entry within its conversation. Whoever appends an entry
// makes its id, which is what a retry is recognised by: the same id with the
// same content is the same entry. An entry keeps its id in every fork of its
// conversation, so that nothing inside an entry ever has to be rewritten.
type EntryID string

// TurnID names a turn: what is done between two inputs.
type TurnID string

// CallID names a tool call within its entry.
type CallID string

// Kind says what an entry is. Kinds that this package does not know are kept,
// listed and forked like any other, and left out of the model's context.
type Kind string

// The kinds.
const (
	KindUser       Kind = "user"           // typed by a person
	KindAssistant  Kind = "assistant"      // said by a model
	KindSynthetic  Kind = "synthetic"      // for the model, typed by nobody
	KindContext    Kind = "custom_context" // the host's own, for the model
	KindHidden     Kind = "custom_hidden"  // the host's own, not for the model
	KindCompaction Kind = "compaction"     // stands for what is before its FirstKept
	KindSummary    Kind = "branch_summary" // tells of a branch that was left
	KindConfig     Kind = "config"         // the model, its tools and settings from here on
	KindState      Kind = "state"          // changes what [State] answers
	KindMarker     Kind = "marker"         // a place in the history, for people
)

// Message reports whether entries of the kind may have parts.
func (k Kind) Message() bool {
	switch k {
	case KindUser, KindAssistant, KindSynthetic, KindContext, KindSummary:
		return true
	}
	return false
}

// NewEntry is what is to be appended. It has content of one kind: Parts of a
// message, Compaction, State, or Payload, which is any entry's own JSON beside them.
type NewEntry struct {
	ID      EntryID
	Kind    Kind
	Turn    TurnID          // empty: of none
	Actor   access.UserID   // who said it; empty: nobody in particular
	Parts   []Part          // of a message
	Payload json.RawMessage // a JSON object, or empty
	Usage   Usage           // what it took to make this entry
	// Compaction of a KindCompaction; nil else.
	Compaction *Compaction
	// State of a KindState; nil else.
	State *StateDelta
}

// Entry is a committed entry. It never changes, but for the status and result
// of its tool calls; nor does any of it depend on where it was read from.
type Entry struct {
	NewEntry
	// Seq orders the entries and facts of a conversation: it rises, not always
	// by one, and is given by the store as it commits. A clock orders nothing.
	Seq    int64
	Parent Position // whose child it is
	Depth  int64    // how many entries are on its path, itself among them
	// Aborted: it is a draft that was given up. It has no children, is on no path, and only [Store.Timeline] lists it.
	Aborted   bool
	CreatedAt time.Time
}

// Header is an entry without its content.
type Header struct {
	ID        EntryID
	Kind      Kind
	Turn      TurnID
	Actor     access.UserID
	Seq       int64
	Parent    Position
	Depth     int64
	Aborted   bool
	Preview   string   // the first [PreviewRunes] of its text
	Labels    []string // sorted
	Children  int      // committed ones
	CreatedAt time.Time
}

// PreviewRunes is how much of an entry's text its header has.
const PreviewRunes = 80

// Part is an ordered piece of a message: a tool call, or JSON of some type.
type Part struct {
	Type string          `json:"type"` // "text", "image", "thinking", "tool_call" or any other
	Data json.RawMessage `json:"data,omitempty"`
	Call *Call           `json:"call,omitempty"` // of a "tool_call", which has no Data
	// Blob stands for Data that is over [InlineBytes] and was not asked for.
	Blob *Blob `json:"blob,omitempty"`
}

// The types of parts that this package knows. The Data of text and of thinking
// is an object with a string "text".
const (
	PartText     = "text"
	PartThinking = "thinking"
	PartCall     = "tool_call"
)

// InlineBytes is how large the data of a part, or the result of a call, may be
// to stand in its row. What is larger is a blob of its own, which lists,
// outlines and paths do not read unless asked to.
const InlineBytes = 32 << 10

// Blob names content of a conversation by what it is.
type Blob struct {
	Hash string `json:"hash"` // SHA-256, in hex
	Size int64  `json:"size"` // in bytes
}

// Call is a tool call with all there is to know of it: whoever sees one in
// any state knows what was asked for.
type Call struct {
	ID        CallID          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // JSON; any value
	Status    CallStatus      `json:"status"`
	Result    json.RawMessage `json:"result,omitempty"` // JSON; of one that is settled
	Blob      *Blob           `json:"blob,omitempty"`   // stands for a Result that is over [InlineBytes]
}

// CallStatus is how far a call is.
type CallStatus string

// The states of a call: pending, perhaps running, and then one of the last four, for good.
const (
	CallPending     CallStatus = "pending"
	CallRunning     CallStatus = "running"
	CallSucceeded   CallStatus = "succeeded"
	CallFailed      CallStatus = "failed"
	CallDenied      CallStatus = "denied"      // it was not allowed, and never ran
	CallInterrupted CallStatus = "interrupted" // nobody knows whether it ran, or how far
)

// Settled reports whether the status is final.
func (s CallStatus) Settled() bool {
	switch s {
	case CallSucceeded, CallFailed, CallDenied, CallInterrupted:
		return true
	}
	return false
}

// Compaction says that from here on a model is given Summary instead of
// everything before FirstKept. It removes nothing.
type Compaction struct {
	Summary string `json:"summary"`
	// FirstKept is on the path of the compaction; empty: nothing before the compaction is kept.
	FirstKept EntryID `json:"first_kept,omitempty"`
	// Pinned are entries before FirstKept that are kept nevertheless, at most
	// [MaxPinned], in the order of the path, which they are on.
	Pinned       []EntryID `json:"pinned,omitempty"`
	TokensBefore int64     `json:"tokens_before"` // what the context had; not negative
}

// MaxPinned is how many entries a compaction keeps beside its tail.
const MaxPinned = 100

// StateDelta changes the state that holds from its entry on.
type StateDelta struct {
	Whole  bool                       `json:"whole,omitempty"` // it begins anew from nothing
	Set    map[string]json.RawMessage `json:"set,omitempty"`
	Delete []string                   `json:"delete,omitempty"`
}

// Usage is what models took, in tokens and in millionths of the host's currency.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	CostMicros int64 `json:"cost_micros,omitempty"`
}

// Add is the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.CostMicros + v.CostMicros}
}

// Minus is what u has more than v.
func (u Usage) Minus(v Usage) Usage {
	return Usage{u.Input - v.Input, u.Output - v.Output, u.CacheRead - v.CacheRead, u.CacheWrite - v.CacheWrite, u.CostMicros - v.CostMicros}
}
