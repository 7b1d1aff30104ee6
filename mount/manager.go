package mount

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Policy says what becomes of work whose folder can't be carried.
type Policy uint8

// The policies.
const (
	BestEffort Policy = iota // it goes on without; the outcome and the guidance say so
	Required                 // it does not start: *MountError
)

// DefaultTimeout bounds the carrying of one mount where Config names no other
// bound: the row, the start of what serves the folder ([DefaultStartTimeout]), and the bind.
const DefaultTimeout = 30 * time.Second

// DefaultInsideTimeout is DefaultTimeout for what mounts inside a sandbox,
// where each step is a call that may take long: a stale mount is detached (10 s),
// the program started (90 s), and the folder looked for (about 60 s).
const DefaultInsideTimeout = 3 * time.Minute

// The bounds of single steps.
const (
	rowTimeout     = 10 * time.Second // the row, within Config.Timeout
	refreshTimeout = 10 * time.Second // what others have written is to be seen
	furnishTimeout = 30 * time.Second // the link and the README
)

// cleanupTimeout is how long a caller waits for an undoing, which goes on when
// its context has ended, and is tried again where it needs longer than that: a Serving may take [DefaultStopTimeout] to stop.
const cleanupTimeout = 10 * time.Second

// EnvAgentDir is the variable that names the agent's folder to its processes.
const EnvAgentDir = "BUNKROOM_AGENT_DIR"

// Config is the configuration of a [Manager].
type Config struct {
	Store   Store   // required
	Mounter Mounter // required, but where there is Inside
	// Inside mounts in sandboxes that nothing can be bound into; nil = those have no folders.
	Inside InsideMounter
	Policy Policy // zero = BestEffort; of agents' folders
	// Locker lets one sandbox at a time work in a session's own folder; nil =
	// sessions have none as their working directories. See [Manager.CarryWorkdir].
	Locker Locker
	// LockTimeout is for the lock of such a folder; 0 = DefaultLockTimeout.
	LockTimeout time.Duration
	// Timeout is for each mount, from the row until the folder lists in the
	// sandbox; 0 = DefaultTimeout, or DefaultInsideTimeout where Inside mounts.
	Timeout time.Duration
	NewID   func() string // mints ids, canonical UUIDs; nil = version 7
	Log     *slog.Logger  // degraded mounts; nil = none
}

// Manager carries durable folders into sandboxes.
type Manager struct {
	folders *Folders
	mounter Mounter
	inside  InsideMounter
	policy  Policy
	timeout time.Duration
	log     *slog.Logger

	locker      Locker
	lockTimeout time.Duration

	mu     sync.Mutex
	places map[place]*tenant
	holds  map[ID]*exclusive
}

// New returns a manager. The error is a [*access.FieldError].
func New(c Config) (*Manager, error) {
	folders, err := NewFolders(FoldersConfig{Store: c.Store, NewID: c.NewID})
	if err != nil {
		return nil, err
	}
	switch {
	case c.Mounter == nil && c.Inside == nil:
		return nil, &access.FieldError{Field: "Mounter", Rule: "must be set"}
	case c.Policy > Required:
		return nil, &access.FieldError{Field: "Policy", Rule: "must be BestEffort or Required"}
	case c.Timeout < 0:
		return nil, &access.FieldError{Field: "Timeout", Rule: "must not be negative"}
	case c.LockTimeout < 0:
		return nil, &access.FieldError{Field: "LockTimeout", Rule: "must not be negative"}
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = DefaultLockTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		folders: folders, mounter: c.Mounter, inside: c.Inside, policy: c.Policy, timeout: c.Timeout, log: c.Log,
		locker: c.Locker, lockTimeout: c.LockTimeout,
		places: map[place]*tenant{}, holds: map[ID]*exclusive{},
	}, nil
}

// place is a target in one machine, tenant the mount that stands there and
// how many carry it. Two mounts never share a place, whatever their ids end in.
type place struct {
	machine sandbox.Ref
	target  string
}

type tenant struct {
	mount ID
	refs  int
}

// shortDigits is how many digits of a mount's id end its target, as long as
// no other mount with the same ones is carried into the same machine.
const shortDigits = 8

// settle gives a mount its target in a machine: stem and the last digits of
// its id, or all of them where another mount stands there.
func (m *Manager) settle(machine sandbox.Ref, stem string, mount ID, digits string) place {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := place{machine, stem + "-" + digits[len(digits)-shortDigits:]}
	if t := m.places[p]; t != nil && t.mount != mount {
		p.target = stem + "-" + digits
	}
	if m.places[p] == nil {
		m.places[p] = &tenant{mount: mount}
	}
	m.places[p].refs++
	return p
}

// leave undoes one settle.
func (m *Manager) leave(p place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.places[p]
	if t.refs--; t.refs == 0 {
		delete(m.places, p)
	}
}

// alone reports whether a place has been settled just once.
func (m *Manager) alone(p place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places[p].refs == 1
}

// detached is a context for undoing what was done under ctx.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
