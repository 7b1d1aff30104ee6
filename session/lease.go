package session

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Leases keeps who does what until when. The store's clock decides; callers
// send durations and measure what they hold on their own monotonic clock,
// from before they asked.
//
// A work lease is one admitted use of a session's sandbox: a session may have
// many, and all of them together hold one slot, which counts once against the
// payer's limit. One that expired drains: it counts until whoever has made
// sure that its processes are dead releases it. Every other kind of lease has one holder, and is anybody's once it expired. See [LeaseKind].
//
// A work lease may be for a turn of a conversation. It is acquired while that turn's lease is held, and not later; and whoever
// acquires a later turn finds it by Works, so that nothing is started for a turn that nobody who takes it over knows of.
//
// All methods may be called concurrently, from many processes.
type Leases interface {
	// Acquire takes the lease, or returns the one its holder has already,
	// renewed. *HeldError: a lease of one holder that somebody else has.
	// *LimitError: the session would be one more than l.Slots sessions worked in by
	// l.Payer. The answer has Fence and Until set; a fence is greater than every earlier one of that Kind and Name.
	//
	// ErrFenced, before any of these: l.Turn is set, and the lease of that turn of l.Conversation is not held with that fence:
	// it was taken over, has expired or was released, or never was. That is looked at in the commit that l is written
	// by. *access.FieldError: l.Turn is negative, or set without l.Conversation, or of another kind.
	Acquire(ctx context.Context, l Lease) (Lease, error)

	// Renew prolongs a lease that has not expired, by l.For from now.
	// ErrFenced: it expired, was released, or is somebody else's.
	Renew(ctx context.Context, l Lease) (Lease, error)

	// Release gives a lease up, expired or not. The last work lease of a
	// session frees its slot. Releasing twice succeeds, and never releases
	// another holder's, nor one that its holder has acquired anew since: that has another fence.
	Release(ctx context.Context, l Lease) error

	// Expired lists at most limit work leases that were never released,
	// longest expired first. Each still counts: its processes may be running.
	// Whoever has made sure that they are not releases it.
	Expired(ctx context.Context, limit int) ([]Lease, error)

	// Works lists at most limit work leases that were never released, expired or not, for the turns of a
	// conversation with fences up to through: by Turn, then Name, then Holder, and of them those that come after
	// the last one of the page before; the zero Lease is before all. Those for no turn are none of them. All that
	// were acquired for earlier turns before a turn's lease was acquired are among them. *access.FieldError: there is no conversation, or limit is not over 0.
	Works(ctx context.Context, conversation ConversationID, through int64, after Lease, limit int) ([]Lease, error)

	// Held returns the lease of that kind and name that has not expired; of a
	// work lease, which may have many holders, the one that lasts longest.
	// ErrNotFound: nobody has it.
	Held(ctx context.Context, kind LeaseKind, name string) (Lease, error)

	// Forget drops what is kept of names that nobody has a lease on and that were
	// acquired last longer than unused ago, at most limit of them, longest unused first; it returns
	// how many, and fewer than limit say that there is no more. A lease of one holder that
	// was not released must have expired that long ago too. A work lease that was not
	// released stays, expired or not, and all that is kept of its name.
	//
	// No fence goes back for it: whatever is acquired afterwards has a greater
	// one than any that was forgotten. *access.FieldError: unused or limit is not over 0.
	Forget(ctx context.Context, unused time.Duration, limit int) (int, error)
}

// LeaseKind is what a lease is for.
type LeaseKind uint8

// The kinds.
const (
	LeaseWork LeaseKind = 1 // one use of a session's sandbox; Name is the session's id
	// LeaseSweep merely saves work: whatever is done under it must be safe without it. Name is the chore's.
	LeaseSweep LeaseKind = 2
	// LeaseTurn is the right to act on a conversation, whose id is Name. The
	// fence is checked by whatever is written under it; who takes it over ends the processes of older fences first. Works are opened for it: see Lease.Turn.
	LeaseTurn LeaseKind = 3
	// LeasePTY is the right to forward a shell's input and output; Name is the shell's id.
	LeasePTY LeaseKind = 4
	// LeaseHost tells which replica serves a host; Name is the host's id.
	LeaseHost LeaseKind = 5
)

// Kinds are all kinds of leases.
func Kinds() []LeaseKind { return []LeaseKind{LeaseWork, LeaseSweep, LeaseTurn, LeasePTY, LeaseHost} }

// Lease is a claim to do something for a while.
type Lease struct {
	Kind   LeaseKind
	Name   string // what it is on
	Holder string // who has it: the work's id, the replica
	// Replica is the process the holder lives in; of a work lease as no other
	// process ever is, even one that is restarted under the same name.
	Replica string
	// Payer and Slots, of a work lease: whose slot it takes, and how many the payer may have.
	Payer access.UserID
	Slots int
	// Sandbox, of a work lease, is the sandbox that is worked in.
	Sandbox sandbox.ID
	// Conversation, of a work lease, is what the work is for; empty where it is for none. Turn is the fence of the
	// conversation's turn that it is for, as of LeaseTurn; 0 = it is for no turn.
	Conversation ConversationID
	Turn         int64
	// For is how long it shall last.
	For time.Duration

	Fence int64     // set by Acquire
	Until time.Time // set by Acquire and Renew, on the store's clock
}
