package memory

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Sandboxes is a [sandbox.Provider] for tests. Its machines have real files,
// in memory, and no real processes: a command is a Go function, registered
// with Handle under the program's name. Whatever can go wrong between a caller
// and a provider can be scripted, call by call; see [Sandboxes.Inject].
//
//	boxes := memory.NewSandboxes(nil)
//	boxes.Handle("git", func(ctx context.Context, c *memory.Command) int { return 0 })
//	sb, err := boxes.Open(ctx, "test")
//
// Nothing in it is random and nothing waits for the clock except a command's
// own Timeout and KillGrace, so that tests may run in a testing/synctest
// bubble. It is a [sandbox.Lister], a [sandbox.Reaper], a
// [sandbox.Measurer] and a [sandbox.Guard], and its handles are [sandbox.Binder], [sandbox.Symlinker],
// [sandbox.AttrSetter], [sandbox.ProcessLister] and [sandbox.Watcher]. Modes are kept and not enforced.
// Machines live as long as the value. It is safe for concurrent use.
type Sandboxes struct {
	info sandbox.Info
	now  func() time.Time

	asking sync.Mutex // held while the script is asked, so that it need not be safe for concurrent use

	inBinds sync.Mutex // held while something is put, moved or removed in a bind

	mu       sync.Mutex // guards what follows, and all that belongs to a machine or a handle
	machines []*boxMachine
	born     int
	written  int64 // files, ever
	handlers map[string]Handler
	rest     Handler
	script   func(Call) Fault
	calls    []Call
	nth      map[Op]int
}

var (
	_ sandbox.Provider = (*Sandboxes)(nil)
	_ sandbox.Lister   = (*Sandboxes)(nil)
	_ sandbox.Reaper   = (*Sandboxes)(nil)
	_ sandbox.Measurer = (*Sandboxes)(nil)
	_ sandbox.Guard    = (*Sandboxes)(nil)
)

// SandboxOptions are the options of [NewSandboxes]. The zero value is all defaults.
type SandboxOptions struct {
	// Name is the provider's name; empty means "memory".
	Name string
	// Caps is what the provider claims of itself; nil means: confined, binds
	// per process and at the working directory, networks that can be restricted, unique names, no horizon and no lag, kill by incarnation. It
	// changes the claims only; what truly happens is up to [Sandboxes.Inject]. But
	// at the working directory nothing is bound unless that is claimed.
	Caps *sandbox.Caps
	// Host is the id of this host. Setting it binds machines to it
	// (Caps.HostBound): refs of another host are then ErrWrongHost.
	Host string
	// Now is the clock of birth, of modification times and durations; nil means time.Now.
	Now func() time.Time
}

// boxWorkdir is the working directory of every machine.
const boxWorkdir = "/workspace"

// NewSandboxes returns a provider that has no machines yet. A nil opts is all defaults.
func NewSandboxes(opts *SandboxOptions) *Sandboxes {
	o := SandboxOptions{}
	if opts != nil {
		o = *opts
	}
	caps := sandbox.Caps{
		ShellConfined:   true,
		BindsPerProcess: true,
		BindsWorkdir:    true,
		Egress:          sandbox.EgressGuarded,
		CreateHorizon:   sandbox.Immediate,
		VisibilityLag:   sandbox.Immediate,
		UniqueNames:     true,
		KillBy:          sandbox.KillByIncarnation,
	}
	if o.Caps != nil {
		caps = *o.Caps
	}
	caps.HostBound = caps.HostBound || o.Host != ""
	if caps.HostBound {
		o.Host = cmp.Or(o.Host, "memory-host")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sandboxes{
		info:     sandbox.Info{Provider: cmp.Or(o.Name, "memory"), Host: o.Host, Caps: caps},
		now:      o.Now,
		handlers: map[string]Handler{},
		nth:      map[Op]int{},
	}
}

// boxMachine is one machine. Its fields are guarded by Sandboxes.mu.
type boxMachine struct {
	ref        sandbox.Ref
	spec       sandbox.Spec
	labels     map[string]string
	born       time.Time
	status     sandbox.Status
	hidden     bool // exists, and is not seen
	gone       bool
	root       *boxNode // "/", which holds the working directory
	procs      map[*boxProcess]struct{}
	past       []*boxProcess        // that have ended, the latest last
	started    int                  // processes, ever
	rules      []sandbox.EgressRule // of a machine that was restricted
	restricted bool
	watches    map[*boxWatch]struct{}
}

// Open makes the machine called name, or finds it, and returns a handle on it:
// Create and Attach in one. The caller closes the handle.
func (s *Sandboxes) Open(ctx context.Context, name string) (sandbox.Sandbox, error) {
	m, err := s.Create(ctx, sandbox.CreateRequest{Name: name})
	if err != nil {
		return nil, err
	}
	return s.Attach(ctx, m.Ref)
}

// Info tells the name, the host and the claims the provider was made with.
func (s *Sandboxes) Info() sandbox.Info { return s.info }
