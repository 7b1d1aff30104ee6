package sandbox

import (
	"context"
	"time"
)

// Provider makes machines, finds them and destroys them. Its callers commit
// what they are about to do before they call it, and never repeat a Create:
// see [Decide].
//
// All methods may be called from many goroutines and many processes at once.
// An error that is not one of those named below means that the outcome is
// unknown: it may have happened.
type Provider interface {
	// Info tells the provider's name and what its answers are worth. It is
	// constant for the life of the Provider.
	Info() Info

	// Create makes the machine named r.Name, or finds the one that has that
	// name already (Adopted). A name stands for one generation of one sandbox
	// and is never used again. The machine is born without secrets and mounts and with the
	// provider's shortest time to live.
	//
	// ErrNotSent: surely nothing was asked of the provider, and nothing will
	// happen. ErrStarting: it exists and is not ready yet. Any other error
	// leaves open whether a machine exists or still comes into being.
	Create(ctx context.Context, r CreateRequest) (Machine, error)

	// Inspect lists the machines that ref names: by incarnation where it has
	// one, else all that have the name. It never wakes a machine. An empty
	// list is the provider's own word that it sees none; it is not yet proof
	// of absence (see Caps.VisibilityLag). Anything that could not be found
	// out is an error. ErrWrongHost: only another host can tell.
	Inspect(ctx context.Context, ref Ref) ([]Found, error)

	// Attach returns a handle on the machine ref.Incarnation, waking it where
	// it sleeps. ErrGone: the provider's own word that it sees no such
	// machine. ErrStale: the name now belongs to another incarnation.
	// ErrWrongHost: it lives on another host. ErrInvalid: ref names no
	// incarnation. The caller closes the handle; closing never destroys the machine.
	Attach(ctx context.Context, ref Ref) (Sandbox, error)

	// Destroy ends the machine ref.Incarnation and deletes its files. Where
	// Caps.KillBy is KillByName it ends what has the name, but nothing at all
	// if that is another incarnation. nil means accepted, or not there: it is
	// not proof that the machine is gone. Destroying twice succeeds.
	// ErrInvalid: ref names no incarnation. ErrWrongHost: only another host can.
	Destroy(ctx context.Context, ref Ref) error
}

// Ref says which machine is meant.
type Ref struct {
	// Provider is the name of the provider.
	Provider string
	// Name is the machine's name with the provider, one for each generation.
	Name string
	// Incarnation is the provider's identity of the machine; empty where only the name is known.
	Incarnation Incarnation
	// Host is the id of the host the machine is bound to; empty where it can be reached from anywhere.
	Host string
}

// Spec says what kind of machine is wanted. It is stored with the intent to make one.
type Spec struct {
	// Class is the size of the machine, in the host's own words. What it costs
	// goes by it; a provider that has sizes may read it. Empty where there is one size.
	Class string `json:"class,omitempty"`
	// Image is the provider's word for what the machine starts from; empty is its default.
	Image string `json:"image,omitempty"`
	// Env are variables, "NAME=value", that every process of the sandbox sees. No secrets.
	Env []string `json:"env,omitempty"`
	// MachineDisk is how many bytes the files of the machine may take in all,
	// where it may write and whatever writes them; 0 = no limit. More can't be written. A provider that can't hold
	// exactly this, which is in [Caps].Limits, refuses it with a [*LimitError]: the size of one file, or what
	// goes through FS, is not the total of a machine.
	MachineDisk int64 `json:"machineDisk,omitempty"`
}

// The labels every machine carries, so that a sweep can tell ours from others'.
const (
	LabelDeployment = "bunkroom-deployment"
	LabelSandbox    = "bunkroom-sandbox"
	LabelGeneration = "bunkroom-generation"
)

// CreateRequest is what Create is asked for.
type CreateRequest struct {
	Name   string // see [Name]
	Spec   Spec
	Labels map[string]string // LabelDeployment, LabelSandbox, LabelGeneration
}

// Machine is the answer of Create.
type Machine struct {
	Ref     Ref  // with its incarnation
	Adopted bool // it existed before this call
}

// Status is what a provider says of a machine that exists.
type Status uint8

// The statuses.
const (
	StatusUnknown  Status = iota
	StatusStarting        // it exists and is not ready yet
	StatusRunning
	StatusStopped // it exists and sleeps; Attach wakes it, or the first process that is started
	StatusFailed  // it exists and will never run; destroy it
)

func (s Status) String() string {
	switch s {
	case StatusStarting:
		return "starting"
	case StatusRunning:
		return "running"
	case StatusStopped:
		return "stopped"
	case StatusFailed:
		return "failed"
	}
	return "unknown"
}

// Found is one machine that a provider sees.
type Found struct {
	Incarnation Incarnation
	Status      Status
}

// Info names a provider and tells what its answers are worth.
type Info struct {
	// Provider is its name, stored with each sandbox it has a machine for. It must not change.
	Provider string
	// Host is the id of this host where Caps.HostBound is set, else empty. It
	// outlives restarts of the process.
	Host string
	Caps Caps
}

// Caps tells what a provider's answers are worth and what its operations mean.
// The zero value of each field claims nothing.
type Caps struct {
	// HostBound: a machine can be reached from the host that made it only.
	HostBound bool
	// ShellConfined: a process sees the sandbox's own files and nothing of the
	// host's. Where it is false, running a command is access to the host.
	ShellConfined bool
	// BindsPerProcess: what a handle binds (see Binder) is seen by the
	// processes started from that handle only. Where it is false, everybody
	// who works in the machine can reach it.
	BindsPerProcess bool
	// BindsWorkdir: a directory can be bound at the working directory itself
	// (see Binder), so that what is written there is kept elsewhere than in the machine.
	BindsWorkdir bool
	// Egress says whether the network can be restricted.
	Egress Egress
	// Limits are those of Cmd.Limits, and of Spec, that the provider holds, each in the meaning that its field has.
	Limits LimitSet
	// CreateHorizon is how long after it was sent a Create whose answer was
	// lost may still make a machine. Zero means unknown and counts as [UnknownHorizon]; see [Immediate].
	CreateHorizon time.Duration
	// VisibilityLag is how long a machine that was made or destroyed may stay
	// unseen or seen. Zero means unknown and counts as [UnknownLag]; see [Immediate].
	VisibilityLag time.Duration
	// UniqueNames: two machines never have one name at the same time.
	UniqueNames bool
	// KillBy says what Destroy goes by.
	KillBy KillBy
	// MinTTL is the shortest time to live a machine can be born with; 0 = none.
	MinTTL time.Duration
}

// Immediate, as a CreateHorizon or VisibilityLag, says that there is none.
const Immediate time.Duration = -1

// What an unknown horizon and an unknown lag count as.
const (
	UnknownHorizon = 15 * time.Minute
	UnknownLag     = time.Minute
)

// Horizon is CreateHorizon with zero read as unknown and Immediate as 0.
func (c Caps) Horizon() time.Duration { return known(c.CreateHorizon, UnknownHorizon) }

// Lag is VisibilityLag with zero read as unknown and Immediate as 0.
func (c Caps) Lag() time.Duration { return known(c.VisibilityLag, UnknownLag) }

func known(d, unknown time.Duration) time.Duration {
	switch {
	case d == 0:
		return unknown
	case d < 0:
		return 0
	}
	return d
}

// KillBy says what Destroy goes by.
type KillBy uint8

// The two ways.
const (
	KillByName        KillBy = iota // the provider deletes by name; the driver checks the incarnation just before
	KillByIncarnation               // the provider itself deletes exactly one incarnation
)

// Egress says whether a provider can restrict a machine's network.
type Egress uint8

// The ways.
const (
	EgressUnknown Egress = iota
	EgressOpen           // the network is as the host's and can't be restricted
	EgressGuarded        // it can be restricted: the provider is a Guard, and until it is asked to the network is as EgressOpen says
)
