package session

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Store keeps rows. Every rule is in [Decide]; a store holds none but the
// ones a [Change] spells out. All methods may be called concurrently, from
// many processes. The store's own clock dates everything: callers send durations.
//
// Errors other than those named are the database's own.
type Store interface {
	// Load reads what a names in one round trip, at one instant. ErrNotFound.
	Load(ctx context.Context, a Address) (Snapshot, error)

	// Commit writes all of c or nothing and returns the clock it stamped c
	// with: what was written is c.Stamped(clock). The outcomes:
	//
	//   nil         it was written
	//   ErrStale    nothing was written: a row has another version than c expects, or is not there
	//   ErrExists   nothing was written: a row to insert has an id that is taken
	//   ErrClaimed  nothing was written: the outbox names c.Unclaimed
	//   *LimitError nothing was written: it would exceed one of c.Limits
	//   ErrUnknown  the reply was lost; load and look
	//
	// Any other error: nothing was written. Inside a host's transaction a
	// refused Commit leaves the transaction usable and without a trace.
	Commit(ctx context.Context, c Change) (clock time.Time, err error)

	// List reads a page of sessions, most recently active first, with their
	// newest conversations, in at most two queries however many there are.
	// The order is (LastActiveAt, ID), both descending. A malformed q.After is a
	// *access.FieldError for "After".
	List(ctx context.Context, q ListQuery) (Page, error)

	// Due yields the work of a reconciler, longest waiting first: by when it
	// was last written or marked with Change.Waited, so that what can't be
	// finished does not starve the rest. It reads a page before it yields, so
	// that the caller may commit while it ranges, and holds no more than a page, however many are asked for:
	// what is not due any more by then is left out, and nothing comes twice. One kind is
	// read after the other: what becomes of another kind meanwhile may come as that, too. If ctx ends, no page more comes, but its error.
	Due(ctx context.Context, q DueQuery) iter.Seq2[Due, error]

	// Touch raises LastActiveAt of the session, and of the conversation where
	// one is named, to the store's clock. It lowers nothing, raises no
	// version, and is nothing to base a decision on. What is not there is not an error.
	Touch(ctx context.Context, a Address) error

	// Known says what the rows have of machines, for each of keys in its
	// order, in one query and at one instant. At most [MaxKnown] keys.
	Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]Known, error)

	// Names reads a page of what the rows and the outbox name, in no order that
	// means anything, at most [MaxNames] machines: of each sandbox that is
	// creating, live or destroying the machine of its generation, without an
	// incarnation where that is not known, and each entry of the outbox. after is Next of
	// the page before; empty begins. What is written meanwhile may be missing:
	// whoever misses a name asks Known for it. A malformed after is a *access.FieldError.
	Names(ctx context.Context, after string) (NamesPage, error)

	// Missing counts the machines of one provider that are missing: of sandboxes
	// that are live those whose AbsentSince is set, and of sandboxes that are lost
	// those that were last written within q.Lately, leaving out what was lost with
	// its host. It counts no further than q.Limit.
	Missing(ctx context.Context, q MissingQuery) (int, error)

	// Stored reads a page of the sandboxes whose storage may be charged for:
	// those that are live with MeasuredBytes over 0, and those whose StoredUsed
	// is over what StorageCharged has noted; each with its session or environment, in the order of their
	// ids, which is that of bytes, at most limit and [MaxKnown]. after is the last id of
	// the page before; empty begins. Fewer than limit: that was all.
	Stored(ctx context.Context, after sandbox.ID, limit int) ([]Snapshot, error)

	// StorageCharged notes up to what StoredUsed sandboxes were charged for, so
	// that Stored leaves out what has no more to come, however much of it there
	// is. It lowers nothing, raises no version, and is nothing to base a decision
	// on. What is not there is not an error. At most [MaxKnown].
	StorageCharged(ctx context.Context, charged []StorageCharged) error

	// Owned lists at most limit of what a purge of t deletes, in the order in
	// which it does: sessions, environments, and with t.History conversations;
	// of one session its conversations first, while they can still be told to be its own.
	// What is listed can be handed to Change.Delete as it is.
	Owned(ctx context.Context, t PurgeTarget, limit int) ([]Address, error)

	// Environments reads a page of the environments of a project that were
	// not deleted, newest first: by (CreatedAt, ID), both descending. A
	// malformed q.After is a *access.FieldError for "After".
	Environments(ctx context.Context, q EnvironmentQuery) (EnvironmentPage, error)
}

// Address is a way in. Exactly one of its ids is set, except that with both
// Session and Conversation the snapshot is the session's, and its Conversation
// is the named one wherever that is bound, or zero: "is it there already?".
// A snapshot had through an environment has no session.
type Address struct {
	Session      ID
	Conversation ConversationID
	Environment  EnvironmentID
}

// Change is what one decision writes: all of it or nothing.
//
// A row is written with the version it was read at (0 = insert) and stored
// with the next one. ErrStale if the stored version is another.
type Change struct {
	// Session is a session to insert or replace. Of a replaced one only Name
	// and EndedAt can change.
	Session *Session
	// End stamps Session.EndedAt with the clock.
	End bool
	// Environment is an environment to insert or replace. Of a replaced one
	// only Name and DeletedAt can change.
	Environment *Environment
	// Retire stamps Environment.DeletedAt with the clock.
	Retire bool
	// Sandbox is a sandbox to insert or replace; Stamps are applied to it.
	// A second sandbox for one session or environment is ErrStale.
	Sandbox *sandbox.Row
	Stamps  sandbox.Stamps
	// Conversation is a conversation to insert. There is no other way to
	// write one's session: no code can express a rebind.
	Conversation *Conversation
	// Amend changes what may change of a conversation that is there.
	Amend *Amendment
	// Expect are rows that the decision rests on and does not write.
	Expect []Guard
	// Bury are tombstones to insert, unless the outbox has them already.
	Bury []sandbox.Tombstone
	// Mark are tombstones to replace and Prove tombstones to remove, each only
	// if its Attempts is still as it was read (Mark: one less than written); else ErrStale.
	Mark  []sandbox.Tombstone
	Prove []sandbox.Tombstone
	// Unclaimed must not be an incarnation that the outbox names for Sandbox.ID, or ErrClaimed.
	Unclaimed sandbox.Incarnation
	// Waited are sandboxes that were looked at and not written. It moves them
	// to the end of what is Due, raises no version, and is nothing to base a
	// decision on. What is not there is not an error.
	Waited []sandbox.ID
	// Idle must be a sandbox that nobody works in: no work lease names it,
	// expired or not, in the same instant; else sandbox.ErrWorking.
	Idle sandbox.ID
	// Delete are rows to delete, of which each address names one; a session
	// comes before the environment it borrows. A sandbox
	// goes with its session or environment, leaving its tombstone in the
	// outbox. The conversations of a session stay and are bound to none. An
	// environment that a session borrows is ErrStale.
	// What is not there is not an error.
	Delete []Address
	// Limits are counted after the write, under a lock on what is counted.
	Limits []Limit
}

// Empty reports whether c writes nothing.
func (c Change) Empty() bool {
	return c.Session == nil && c.Environment == nil && c.Sandbox == nil && c.Conversation == nil && c.Amend == nil &&
		len(c.Bury)+len(c.Mark)+len(c.Prove)+len(c.Waited)+len(c.Delete) == 0
}

// Stamped returns a copy of c as it is stored when the store's clock shows
// clock: with all moments set and all versions raised. Drivers write it,
// callers learn from it what was written.
func (c Change) Stamped(clock time.Time) Change {
	if c.Session != nil {
		s := *c.Session
		if s.Version == 0 {
			s.CreatedAt, s.LastActiveAt = clock, clock
		}
		if c.End {
			s.EndedAt = clock
		}
		s.Version++
		c.Session = &s
	}
	if c.Environment != nil {
		e := *c.Environment
		if e.Version == 0 {
			e.CreatedAt = clock
		}
		if c.Retire {
			e.DeletedAt = clock
		}
		e.Version++
		c.Environment = &e
	}
	if c.Sandbox != nil {
		row := c.Stamps.Apply(*c.Sandbox, clock)
		row.Version++
		c.Sandbox = &row
	}
	if c.Conversation != nil {
		v := *c.Conversation
		v.CreatedAt, v.LastActiveAt = clock, clock
		c.Conversation = &v
	}
	if c.Amend != nil {
		a := *c.Amend
		a.At = clock
		c.Amend = &a
	}
	c.Bury, c.Mark = slices.Clone(c.Bury), slices.Clone(c.Mark)
	for i, t := range c.Bury {
		c.Bury[i] = t.Stamped(clock)
	}
	for i, t := range c.Mark {
		c.Mark[i] = t.Stamped(clock)
	}
	return c
}

// Amendment is what becomes of a conversation that is there.
type Amendment struct {
	// Was is the conversation as it was loaded: where it is not there any more, or is closed or shared
	// otherwise than that, it is ErrStale.
	Was    Conversation
	Shared bool
	Close  bool      // one that is closed stays as it was closed
	At     time.Time // the store's clock; stamped
}

// Becomes is the conversation once the stamped amendment is written.
func (a Amendment) Becomes() Conversation {
	v := a.Was
	v.Shared = a.Shared
	if a.Close && v.ClosedAt.IsZero() {
		v.ClosedAt = a.At
	}
	return v
}

// Guard expects a row to have a version; 0 = not to be there. Exactly one id is set.
type Guard struct {
	Session     ID
	Environment EnvironmentID
	Sandbox     sandbox.ID
	Version     int64
}

// Limit is a ceiling over many rows.
type Limit struct {
	Kind  LimitKind
	Scope string // whose: the owner, the payer or the session, by Kind
	Max   int    // 0 or less = nothing at all
}

// LimitKind says what a [Limit] counts.
type LimitKind uint8

// The kinds. The zero value counts nothing and is refused by every store.
const (
	_ LimitKind = iota
	// SessionsPerOwner counts the sessions of an owner that have not ended.
	SessionsPerOwner
	// MachinesPerPayer counts a payer's sandboxes that are creating, live or
	// destroying, and the payer's tombstones.
	MachinesPerPayer
	// ConversationsPerSession counts the open conversations of a session.
	ConversationsPerSession
	// SlotsPerPayer counts the sessions of a payer that are worked in. Leases enforce it.
	SlotsPerPayer
)

func (k LimitKind) String() string {
	switch k {
	case SessionsPerOwner:
		return "sessions per owner"
	case MachinesPerPayer:
		return "machines per payer"
	case ConversationsPerSession:
		return "conversations per session"
	case SlotsPerPayer:
		return "sessions worked in per payer"
	}
	return "nothing"
}

// ListQuery asks for a page of the sessions of one project, or of one owner's
// personal ones: exactly the sessions of which one access decision holds.
type ListQuery struct {
	Project access.ProjectID // empty = Owner's personal sessions
	Owner   access.UserID    // with Project: only this owner's; required without
	Session ID               // only this one; empty = all
	Ended   bool             // ended ones too
	Limit   int              // 1 to MaxListed
	After   string           // Page.Next of the page before
}

// Page is a page of a list.
type Page struct {
	Items []Summary
	Next  string // for ListQuery.After; empty = this is the last page
}

// DueKind is a set of what a reconciler looks for.
type DueKind uint8

// The kinds.
const (
	DueCreating   DueKind = 1 << iota // sandboxes that are creating past their deadline
	DueDestroying                     // sandboxes that are destroying
	DueTombstones                     // the outbox
	DueLive                           // sandboxes that are live and were not looked at for DueQuery.Unseen
	DueIdle                           // sandboxes of sessions that are live, and the session's LastActiveAt is DueQuery.Idle ago
)

// DueQuery asks for what is due.
type DueQuery struct {
	Kinds DueKind
	// Hosts are the hosts the caller can act for. What is bound to another
	// host is left out; what is bound to none is always included.
	Hosts []string
	// OnlyHosts leaves out what is bound to no host, too. Then DueCreating
	// does not wait for the deadline: it is for hosts that are gone, where
	// nobody is creating anything any more.
	OnlyHosts bool
	// Limit is the most items of each kind.
	Limit int
	// Unseen and Idle are how long ago; see DueLive and DueIdle.
	Unseen, Idle time.Duration
}

// Due is one item of a reconciler's work: a sandbox's snapshot, or a tombstone.
type Due struct {
	Kind      DueKind
	Snapshot  Snapshot          // with the sandbox's session or environment; DueTombstones: Now, and the tombstone's Sandbox row if it still exists
	Tombstone sandbox.Tombstone // DueTombstones
}

// Known is what the rows have of one machine.
type Known struct {
	Now     time.Time   // the store's clock
	Sandbox sandbox.Row // of its sandbox; zero = there is none
	// Buried: the outbox names the machine, or all of its generation.
	Buried bool
	// Outbox is how many entries the outbox has of the sandbox, of whatever generation.
	Outbox int
}

// NamesPage is a page of what the rows and the outbox name.
type NamesPage struct {
	Items []sandbox.TombstoneKey
	Next  string // for Names; empty = this is the last page
}

// MaxNames is the most names on a page.
const MaxNames = 10_000

// MaxKnown is the most machines that are asked for at once.
const MaxKnown = 1000

// StorageCharged says how much of what a sandbox's disks have held was charged for.
type StorageCharged struct {
	Sandbox sandbox.ID
	Used    int64 // the StoredUsed that the charge went by
}

// MissingQuery asks how many machines of a provider are missing.
type MissingQuery struct {
	Provider string        // required
	Lately   time.Duration // what was lost longer ago counts no more; 0 = none does
	Limit    int           // at least 1
}

// EnvironmentQuery asks for a page of the environments of one project.
type EnvironmentQuery struct {
	Project access.ProjectID // required
	Limit   int              // 1 to MaxListed
	After   string           // EnvironmentPage.Next of the page before
}

// EnvironmentPage is a page of environments.
type EnvironmentPage struct {
	Items []EnvironmentSummary
	Next  string // for EnvironmentQuery.After; empty = this is the last page
}

// EnvironmentSummary is an environment as lists show it.
type EnvironmentSummary struct {
	Environment Environment
	Machine     sandbox.State // of its sandbox
}

// PurgeTarget says whose rows are purged. Exactly one of Session, Project and User is set.
type PurgeTarget struct {
	Session ID
	Project access.ProjectID // its sessions and environments
	User    access.UserID    // the sessions that the user opened
	// History purges the conversations too: those of the session, of the
	// project, or of the user. Without it they stay, bound to no session.
	History bool
}
