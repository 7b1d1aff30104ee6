package session

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The ids a host of sessions meets most, under shorter names.
type (
	ID             = access.SessionID
	ConversationID = access.ConversationID
)

// Session is a project-level working context. It has no conversation and no
// agent of its own: many of both share it.
type Session struct {
	ID      ID
	Version int64            // raised by one with every write but a touch
	Project access.ProjectID // empty = personal: its owner's alone
	Owner   access.UserID    // who opened it
	Name    string           // a label; may be empty and need not be unique
	// Environment is the environment it borrows its sandbox from; empty = a sandbox of its own. It never changes.
	Environment access.EnvironmentID

	CreatedAt    time.Time
	LastActiveAt time.Time // sorts lists; only ever raised
	EndedAt      time.Time // zero = not ended
}

// Ended reports whether the session has ended.
func (s Session) Ended() bool { return !s.EndedAt.IsZero() }

func (s Session) facts() access.SessionFacts {
	return access.SessionFacts{Owner: s.Owner, Project: s.Project}
}

// Conversation is one thread with one agent. It is bound to a session when it
// is created, for good, or to none.
type Conversation struct {
	ID      ConversationID
	Session ID               // empty = bound to none
	Project access.ProjectID // its session's; empty = personal
	Owner   access.UserID
	Agent   access.AgentID // empty = the assistant
	Title   string
	Shared  bool // members of the project may read it

	CreatedAt    time.Time
	LastActiveAt time.Time
	ClosedAt     time.Time // zero = open
}

func (c Conversation) facts() access.ConversationFacts {
	return access.ConversationFacts{Owner: c.Owner, Project: c.Project, Shared: c.Shared}
}

// Summary is a session as lists show it.
type Summary struct {
	Session Session
	// Machine is the state of its sandbox's machine.
	Machine sandbox.State
	// Conversations are the newest of its open conversations, at most
	// [MaxListed], by (LastActiveAt, ID), both descending.
	Conversations []Conversation
}

// MaxListed is the most sessions on a page, and the most conversations listed with each.
const MaxListed = 100

// Snapshot is what a store knows of one session at one instant. It is a
// value; a part that is absent is zero.
type Snapshot struct {
	// Now is the store's clock at that instant. Deciders use no other.
	Now          time.Time
	Session      Session
	Sandbox      sandbox.Row // the session's own; inserted with it, and without a machine until work first needs one
	Conversation Conversation
}
