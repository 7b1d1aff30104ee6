package mount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
)

// The defaults of [HostConfig].
const (
	DefaultStartTimeout = 15 * time.Second
	DefaultStopTimeout  = 30 * time.Second
	DefaultRestarts     = 30
)

// HostConfig is the configuration of a [Host].
type HostConfig struct {
	Server Server // required
	// Root is the directory below which folders appear: absolute, and without
	// white space. It is made where it is missing, and is this user's alone.
	// It may not be in a temporary directory, which anybody cleans up. Several
	// processes may have one root. Required.
	Root string
	// StartTimeout is how long a folder has from the call of Serve until it
	// lists; 0 = DefaultStartTimeout.
	StartTimeout time.Duration
	// StopTimeout is how long a Serving has to write out and stop; 0 = DefaultStopTimeout.
	StopTimeout time.Duration
	// Restarts is how many times in an hour a folder that died is served
	// again; 0 = DefaultRestarts. Beyond that it waits.
	Restarts int
	// Log hears of folders that died, of directories that could not be
	// detached, and of what dead processes left; nil = none.
	Log *slog.Logger
}

// Host makes folders appear on this host, by a [Server], and owns them: one
// directory and one [Serving] for each folder, however many references there are.
//
// Directories are Root/<process>/<digits of the folder>, for each process one of
// its own, which it has locked while it lives. What a dead process has left mounted is
// found and detached by the next [NewHost] over the same root.
//
// Nothing is removed that is not proved to be detached ([Proof]), and never
// recursively. What can't be proved stays, is logged, and makes the call fail that wanted it gone;
// where that leaves nobody with a reference to release, it is tried again by and by.
//
// # Who else sees the directories
//
// Where this process may mount (as root), its directory is a private mount of its own:
// what is mounted below shows in no other mount namespace that exists already, and nothing can
// be written below it but into folders that are mounted. A namespace for the whole process
// can't be had: a namespace belongs to a thread, the runtime starts threads as it
// likes and moves goroutines between them, and what enters a new one has to do so
// before the runtime starts. Any process of this user, and root, can therefore reach the
// directories. Confined sandboxes see only what is bound into them, at its path
// in the sandbox, and not the root; a bind that stands when its folder dies
// stays dead, and processes that start later have the folder again.
//
// Hosts run on Linux. Elsewhere NewHost returns sandbox.ErrUnsupported.
type Host struct {
	server   Server
	kernel   kernel
	log      *slog.Logger
	work     *workplace
	left     []Leftover
	limits   limits
	restarts int

	mu      sync.Mutex
	closed  bool
	folders map[folderKey]*hosted
	strays  []Leftover
}

// limits are the durations that a host goes by.
type limits struct {
	start, stop, probe time.Duration
	firstDelay         time.Duration // before a folder that died is served again
	maxDelay           time.Duration
}

// folderKey is what makes a folder one: neither its slug nor whose it is.
type folderKey struct {
	scope string
	id    ID
}

// digits name a folder's directory. They depend on the folder alone, so that a
// folder never has a second directory in one process.
func (k folderKey) digits() string {
	d, _ := hexDigits(ID(id.Named(k.scope+"\x00"+string(k.id), "bunkroom", "host")))
	return d
}

var _ Mounter = (*Host)(nil)

// NewHost returns a host that owns a directory below c.Root, after clearing
// what dead processes have left there; what could not be cleared is in its
// Status, and is no error. A [*access.FieldError] names a bad field;
// ErrUnavailable: the root can't be used. The caller closes the host.
func NewHost(ctx context.Context, c HostConfig) (*Host, error) {
	k, err := newKernel()
	if err != nil {
		return nil, err
	}
	return newHost(ctx, c, k, limits{probe: DefaultProbeTimeout, firstDelay: time.Second, maxDelay: 30 * time.Second})
}

func newHost(ctx context.Context, c HostConfig, k kernel, l limits) (*Host, error) {
	switch {
	case c.Server == nil:
		return nil, &access.FieldError{Field: "Server", Rule: "must be set"}
	case c.StartTimeout < 0:
		return nil, &access.FieldError{Field: "StartTimeout", Rule: "must not be negative"}
	case c.StopTimeout < 0:
		return nil, &access.FieldError{Field: "StopTimeout", Rule: "must not be negative"}
	case c.Restarts < 0:
		return nil, &access.FieldError{Field: "Restarts", Rule: "must not be negative"}
	}
	root, err := checkRoot(c.Root)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Restarts == 0 {
		c.Restarts = DefaultRestarts
	}
	l.start, l.stop = c.StartTimeout, c.StopTimeout
	if l.start == 0 {
		l.start = DefaultStartTimeout
	}
	if l.stop == 0 {
		l.stop = DefaultStopTimeout
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	left, err := clearRoot(ctx, k, root, l.probe)
	if err != nil {
		return nil, err
	}
	for _, o := range left {
		c.Log.ErrorContext(ctx, "leftover of a dead process not cleared", "dir", o.Dir, "cause", o.Err)
	}
	work, err := openWorkplace(k, root)
	if err != nil {
		return nil, err
	}
	if work.shared != nil {
		c.Log.InfoContext(ctx, "mounts are not private to this process's namespace", "dir", work.dir, "cause", work.shared)
	}
	return &Host{
		server: c.Server, kernel: k, log: c.Log, work: work, left: left, limits: l, restarts: c.Restarts,
		folders: map[folderKey]*hosted{},
	}, nil
}

// Mount makes the folder appear, or returns another reference to it where it
// has appeared already and lists. A call that comes while the folder is being
// stopped waits for that. Where ctx ends on the way, what was begun is
// undone after the call has returned, and Close waits for it.
//
// The mount it returns is a [Refresher] and a [Reporter].
func (h *Host) Mount(ctx context.Context, s Spec) (Mount, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Row.Scope == "" {
		return nil, &access.FieldError{Field: "Row.Scope", Rule: "must not be empty"}
	}
	if canonical, ok := id.Canonical(string(s.Row.ID)); !ok || canonical != string(s.Row.ID) {
		return nil, &access.FieldError{Field: "Row.ID", Rule: "must be a canonical UUID"}
	}
	f, err := h.claim(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", s.Row.ID, err)
	}
	if err := f.ready(ctx); err != nil {
		h.unclaim(ctx, f)
		return nil, fmt.Errorf("mount %s: %w", s.Row.ID, err)
	}
	return &hostedMount{f: f}, nil
}

// claim takes a reference to the folder, which begins to start where it has not.
func (h *Host) claim(ctx context.Context, s Spec) (*hosted, error) {
	k := folderKey{s.Row.Scope, s.Row.ID}
	for {
		h.mu.Lock()
		f := h.folders[k]
		switch {
		case h.closed:
			h.mu.Unlock()
			return nil, errHostClosed
		case f == nil:
			f = newHosted(h, s)
			h.folders[k] = f
			f.begin(ctx)
		case f.state == stuck:
			f.begin(ctx)
		case f.state == stopping:
			changed := f.changed
			h.mu.Unlock()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		f.refs++
		h.mu.Unlock()
		return f, nil
	}
}

// unclaim gives a reference up that nobody has been handed.
func (h *Host) unclaim(ctx context.Context, f *hosted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.refs--
	if f.refs == 0 && f.state != gone && f.state != stuck {
		f.askStop(ctx)
	}
}

// Close stops every folder, whether or not there are references, which are of
// no use from then on; nothing more is mounted. An error names what could
// not be stopped and detached, or that ctx has ended: its directory stays, and Close may be called again. Closing
// twice succeeds.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	var asked []*stop
	for _, f := range h.folders {
		asked = append(asked, f.askStop(ctx))
	}
	h.mu.Unlock()
	var failed []error
	for _, s := range asked {
		if err := s.wait(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	h.mu.Lock()
	work := h.work
	h.work = nil
	h.mu.Unlock()
	if work == nil {
		return nil
	}
	if err := work.close(ctx); err != nil {
		h.mu.Lock()
		h.work = work
		h.mu.Unlock()
		return fmt.Errorf("mount: directory of this process: %w", err)
	}
	return nil
}

var (
	errHostClosed = fmt.Errorf("%w: the host is closed", ErrUnavailable)
	errNotMounted = errors.New("mount: nothing is mounted there")
	errNoAnswer   = errors.New("mount: it does not answer")
)
