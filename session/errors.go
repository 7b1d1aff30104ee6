package session

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// The outcomes, wrapped with the subject; compare with errors.Is.
var (
	// ErrNotFound: there is no such session or conversation, or it is not the
	// actor's to know of. The two can't be told apart.
	ErrNotFound = access.NewSentinel("session: not found", 404, "not_found", "Not found.")
	// ErrEnded: the session has ended. Reopen it first, or ask for that with the request.
	ErrEnded = access.NewSentinel("session: ended", 409, "ended", "The session has ended. Reopen it first.")
	// ErrEnvironmentGone: the environment that the session borrows was deleted.
	// The session never gets another sandbox instead.
	ErrEnvironmentGone = access.NewSentinel("session: environment gone", 410, "environment_gone", "This environment is not there any more, or never was.")
	// ErrNoSession: the conversation is bound to no session, so that there is nothing to work in.
	ErrNoSession = access.NewSentinel("session: conversation has no session", 409, "no_session", "This conversation has no session to work in.")
	// ErrNoMachine: the sandbox has no machine, and the request did not ask for one to be made.
	ErrNoMachine = access.NewSentinel("session: sandbox has no machine", 409, "no_machine", "The session's sandbox is not running.")
	// ErrUnavailable: the machine can't be reached, or what is needed to decide
	// could not be found out. Nothing has changed; retry later.
	ErrUnavailable = access.NewSentinel("session: unavailable", 503, "unavailable", "The session can't be reached right now. Try again shortly.")
	// ErrConversationTaken: the id given for a new conversation belongs to something else.
	ErrConversationTaken = access.NewSentinel("session: conversation unavailable", 409, "conversation_unavailable", "This conversation is not available.")
	// ErrConversationClosed: nothing is said in the conversation any more.
	ErrConversationClosed = access.NewSentinel("session: conversation closed", 409, "conversation_closed", "This conversation is closed.")
	// ErrStale: somebody else wrote first, again and again. Retry.
	ErrStale = access.NewSentinel("session: stale", 409, "conflict", "Somebody else changed this at the same time. Try again.")
	// ErrExists: an id to insert is taken.
	ErrExists = access.NewSentinel("session: exists", 409, "exists", "This exists already.")
	// ErrClaimed: the machine is on its way out and can't be used again.
	ErrClaimed = access.NewSentinel("session: machine claimed by the outbox", 409, "machine_claimed", "The sandbox's machine is being removed. Try again shortly.")
	// ErrUnknown: a commit's reply was lost; it may have happened.
	ErrUnknown = access.NewSentinel("session: outcome of commit unknown", 503, "unknown_outcome", "It is not known whether this happened. Check before you try again.")
	// ErrOutOfCredit ends a work whose payer's account allows no more.
	ErrOutOfCredit = access.NewSentinel("session: out of credit", 402, "payment_required", "There is not enough credit for this.")
	// ErrRevoked ends a work whose opener may not do it any more, or of whom
	// nobody could say so for too long.
	ErrRevoked = access.NewSentinel("session: access revoked", 403, "revoked", "You don't have access to this any more.")
	// ErrFenced ends a work whose lease was lost, and refuses whoever holds none.
	ErrFenced = access.NewSentinel("session: lease lost", 409, "lease_lost", "The work was interrupted. Try again.")
	// ErrDraining refuses new work, and ends what runs too long, while the process shuts down.
	ErrDraining = access.NewSentinel("session: draining", 503, "draining", "The server is shutting down. Try again shortly.")
	// ErrClosed ends the context of a work that was closed.
	ErrClosed = access.NewSentinel("session: work closed", 409, "work_closed", "The work has ended.")
)

// LimitError says that a ceiling was reached. Something must end first.
type LimitError struct {
	Kind  LimitKind
	Scope string // whose ceiling
	Max   int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("session: limit reached: %v: at most %d for %s", e.Kind, e.Max, e.Scope)
}

// Problem tells which ceiling, not whose.
func (e *LimitError) Problem() (status int, code, sentence string) {
	switch e.Kind {
	case SessionsPerOwner:
		return 429, "session_limit", "You have as many open sessions as you may. End one first."
	case ConversationsPerSession:
		return 429, "conversation_limit", "This session has as many conversations as it may have."
	}
	return 429, "work_limit", "As much is running as may run at once. Wait for something to end, or end it."
}

// HeldError says that somebody else has the lease.
type HeldError struct {
	Kind   LeaseKind
	Name   string
	Holder string
	Until  time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("session: lease %d on %s held by %s until %v", e.Kind, e.Name, e.Holder, e.Until)
}

// Problem does not tell who.
func (e *HeldError) Problem() (status int, code, sentence string) {
	return 409, "held", "Somebody else is doing this right now."
}

// ElsewhereError says that the session's machine is bound to another host.
type ElsewhereError struct {
	Session ID     // empty: of an environment
	Host    string // the id of that host
	// Replica is a process that serves that host, by its Config.Replica; empty
	// where none has said so lately: then the host is down, or its Keeper is.
	Replica string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("session: %s: machine lives on host %s (replica %q)", e.Session, e.Host, e.Replica)
}

// Problem is the same for every host.
func (e *ElsewhereError) Problem() (status int, code, sentence string) {
	return 421, "elsewhere", "This session lives on another server."
}
