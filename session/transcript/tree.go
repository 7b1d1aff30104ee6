package transcript

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Position is where in a tree something is or goes: after an entry, or before
// every root. The zero value says neither; where it is allowed, it means "wherever the head is".
type Position struct {
	Entry EntryID
	Root  bool // before every root; Entry is empty
}

// BeforeRoot is the position before every root.
func BeforeRoot() Position { return Position{Root: true} }

// After is the position after an entry.
func After(id EntryID) Position { return Position{Entry: id} }

// IsZero reports whether it says nothing.
func (p Position) IsZero() bool { return p == Position{} }

func (p Position) String() string {
	switch {
	case p.Root:
		return "before the root"
	case p.Entry == "":
		return "nowhere"
	}
	return "after " + string(p.Entry)
}

// Status is how alive a transcript is.
type Status string

// The states of a transcript. One that is archived can be read and restored; one that
// is deleted is gone for everybody, and its rows go with [Store.Purge].
const (
	Active   Status = "active"
	Archived Status = "archived"
	Deleted  Status = "deleted"
	// Importing: it is not whole yet. Only what has no entry becomes that; see [Import].
	Importing Status = "importing"
)

// Transcript is the row of a tree: where its head is, and its sums.
type Transcript struct {
	Conversation access.ConversationID
	Status       Status
	Head         Position // where the next entry goes; never zero
	// Version rises with every commit that moves the head or changes the status.
	Version int64
	LastSeq int64 // of the newest entry or fact
	// Fence is that of the turn which was begun last; InTurn: it was not ended.
	// Then only who has this fence writes what a turn writes.
	Fence  int64
	InTurn bool
	// Held: no input is delivered.
	Held bool
	// Entries and Bytes count what was appended here, not what a fork began with.
	Entries int64
	Bytes   int64 // of content
	// Usage is the sum over the entries appended here; Inherited is that of
	// the path that a fork began with.
	Usage     Usage
	Inherited Usage
	Lineage   Lineage // of a fork
	CreatedAt time.Time
	UpdatedAt time.Time // of the last commit
}

// Lineage says where a fork came from. It stays readable when that is gone.
type Lineage struct {
	Conversation access.ConversationID // empty: it is no fork
	At           Position              // what the fork began with: the path to there
	Seq          int64                 // of what was newest in the source then; the fork's own are greater
	ByReference  bool                  // it reads the rows of its source up to there, as long as those are there
}

// Span is a stretch of a path without a branch, as a store keeps it: entries
// of consecutive depths, each the parent of the next. The path of an entry is
// a few spans, however long it is.
type Span struct {
	Tree     string // in which tree it was written, which a fork's copy keeps; opaque
	Branch   int64  // which stretch of it; the Seq of its first entry
	From, To int64  // the depths, both included
}

// Common is the depth of the last entry that two paths have in common; 0 =
// none. Each is given as its spans, root first; see [Store.Spans].
func Common(a, b []Span) (depth int64) {
	for i := range min(len(a), len(b)) {
		if a[i].Tree != b[i].Tree || a[i].Branch != b[i].Branch {
			return depth
		}
		depth = min(a[i].To, b[i].To)
		if a[i].To != b[i].To {
			return depth
		}
	}
	return depth
}
