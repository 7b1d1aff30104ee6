package sandbox

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Event is something that has happened to a sandbox or is wanted of it; see
// the types that implement it. [Decide] says what follows.
type Event interface{ event() }

// Ensure: a caller wants the sandbox to have a machine.
type Ensure struct {
	Nonce      string // the caller's own, new for each attempt
	Provider   string
	Caps       Caps // of Provider
	Host       string
	Key        Key // used where the row has none yet
	Payer      access.UserID
	Deployment string
	Spec       Spec
}

// NotSent: the create of the intent Nonce surely never reached the provider.
type NotSent struct{ Nonce string }

// Unanswered: the outcome of a create is unknown.
type Unanswered struct{}

// Created: a create was answered. As is the machine in the form in which it
// would be buried, so that it can be even where the row is gone by now.
type Created struct{ As Tombstone }

// Attached: a handle on the row's machine was had.
type Attached struct{}

// Unreached: the provider could not be asked about the row's machine.
type Unreached struct{}

// Observed: the provider was asked, from Host, for the machines of
// Generation: for Incarnation, or where that is empty for all of its name.
// Found is its answer; empty is its word that it sees none. The row, and the
// clock in the Facts it is decided with, are from before the provider was
// asked: an answer that somebody else's commit has overtaken is worth nothing.
type Observed struct {
	Generation  int64
	Incarnation Incarnation
	Host        string
	Found       []Found
}

// Stop: the sandbox shall have no machine any more.
type Stop struct{ Why StopReason }

// StopReason says why.
type StopReason uint8

// The reasons.
const (
	StopEnd         StopReason = iota // the session ends
	StopEnvironment                   // the environment is deleted
	StopIdle                          // nobody has worked for long
)

// Reopen: what owns the sandbox is no longer ended.
type Reopen struct{}

// HostGone: an operator says that Host will never come back, and that nothing
// on it runs any more. It is the only proof there can be of a machine bound to it.
type HostGone struct{ Host string }

// Deleted: the row is deleted.
type Deleted struct{}

func (Ensure) event()     {}
func (NotSent) event()    {}
func (Unanswered) event() {}
func (Created) event()    {}
func (Attached) event()   {}
func (Unreached) event()  {}
func (Observed) event()   {}
func (Stop) event()       {}
func (Reopen) event()     {}
func (HostGone) event()   {}
func (Deleted) event()    {}

// Facts is what [Decide] has to know beside the row.
type Facts struct {
	// Now is the store's clock when the row was loaded.
	Now time.Time
	// Ended: what owns the sandbox has ended.
	Ended bool
	// LossAccepted is the generation whose loss the caller accepts; 0 = none.
	LossAccepted int64
	// SessionMount: the working directory is durable, so that a lost machine loses nothing.
	SessionMount bool
	// SlotsLive: somebody works, or holds a shell or a slot.
	SlotsLive bool
	// Caps are those of the row's provider.
	Caps Caps
	// Window is how long a create may take: the call's timeout and a margin.
	Window time.Duration
	// MaxWindow is how long an attempt may last at most, however often the provider says "starting".
	MaxWindow time.Duration
}

// Effect is what to do once a step is committed.
type Effect uint8

// The effects.
const (
	EffectNone    Effect = iota
	EffectCreate         // call Provider.Create for the row, if its deadline has not passed
	EffectAttach         // call Provider.Attach for the row
	EffectInspect        // call Provider.Inspect for the row and decide about what it observes
	EffectDestroy        // call Provider.Destroy for each of Step.Kill, then as EffectInspect
)

func (e Effect) String() string {
	return [...]string{"none", "create", "attach", "inspect", "destroy"}[e]
}

// Step is what follows from an event: what to commit, all at once and only if
// the row still has the version it was decided on, and what to do then. The
// zero Step does nothing.
type Step struct {
	// Write says that Row, with Stamps applied, replaces the stored row.
	Write  bool
	Row    Row
	Stamps Stamps
	// Bury are tombstones to insert; one that is in the outbox already stays as it is.
	Bury []Tombstone
	// Unclaimed must not be named by the outbox, or nothing may be committed.
	Unclaimed Incarnation
	// CountMachine: the payer's machines, counted after the write, must be within the limit.
	CountMachine bool
	// RequireIdle: no lease on the sandbox may be live, in the same statement.
	RequireIdle bool

	// Then is the effect to perform once this is committed.
	Then Effect
	// Kill are the machines EffectDestroy is about.
	Kill []Incarnation
	// Report is what the caller is told once this is committed; nil = it goes well.
	Report error
}
