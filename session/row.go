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
	EnvironmentID  = access.EnvironmentID
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
	Environment EnvironmentID
	// DurableWorkdir: its working directory is a durable folder of its own (a
	// session mount), so that its files outlast every machine it has. It never changes.
	DurableWorkdir bool

	CreatedAt    time.Time
	LastActiveAt time.Time // sorts lists; only ever raised
	EndedAt      time.Time // zero = not ended
}

// Ended reports whether the session has ended.
func (s Session) Ended() bool { return !s.EndedAt.IsZero() }

func (s Session) facts() access.SessionFacts {
	return access.SessionFacts{Owner: s.Owner, Project: s.Project}
}

// Environment is a sandbox that outlives sessions and that several sessions of its project borrow.
type Environment struct {
	ID        EnvironmentID
	Version   int64            // raised by one with every write
	Project   access.ProjectID // never empty: what is personal has none
	CreatedBy access.UserID    // for the record; it gives no right
	Name      string           // a label; may be empty and need not be unique

	CreatedAt time.Time
	// DeletedAt is when it was deleted; zero = it was not. The row stays, so
	// that no session that borrows it ever gets another sandbox instead, until
	// its project is purged.
	DeletedAt time.Time
}

// Deleted reports whether the environment was deleted.
func (e Environment) Deleted() bool { return !e.DeletedAt.IsZero() }

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
	Environment  Environment // that the session borrows, or that was asked for
	Sandbox      sandbox.Row // the session's own, or its environment's; inserted with that, and without a machine until work first needs one
	Conversation Conversation
}

// owner is the way to the row that the sandbox belongs to, whichever session it was loaded through.
func (s Snapshot) owner() Address {
	if s.Sandbox.Environment != "" {
		return Address{Environment: s.Sandbox.Environment}
	}
	return Address{Session: s.Sandbox.Session}
}

// subject names what the sandbox belongs to, for errors.
func (s Snapshot) subject() string {
	if s.Sandbox.Environment != "" {
		return "environment " + string(s.Sandbox.Environment)
	}
	return "session " + string(s.Sandbox.Session)
}

// gone reports whether there shall be no machine any more: what the sandbox
// belongs to has ended. A session that merely borrows it does not count.
func (s Snapshot) gone() bool {
	if s.Sandbox.Environment != "" {
		return s.Environment.Deleted()
	}
	return s.Session.Ended()
}
