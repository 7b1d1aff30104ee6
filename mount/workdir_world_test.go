package mount_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// locks are the locks of folders as one storage has them, for several managers.
type locks struct {
	before  func(context.Context) error // before Lock; nil = nothing
	release func() error                // before Release; nil = nothing
	note    func(string)                // told what is done; nil = nobody

	mu     sync.Mutex
	held   map[mount.ID]*lock
	epochs map[mount.ID]int64
}

func newLocks() *locks {
	return &locks{held: map[mount.ID]*lock{}, epochs: map[mount.ID]int64{}}
}

func (l *locks) Lock(ctx context.Context, row mount.Row, owner string) (mount.Hold, error) {
	if l.before != nil {
		if err := l.before(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[row.ID]; h != nil {
		return nil, &mount.InUseError{Mount: row.ID, Holder: h.owner}
	}
	l.epochs[row.ID]++
	h := &lock{l: l, id: row.ID, owner: owner, epoch: l.epochs[row.ID], done: make(chan struct{})}
	l.held[row.ID] = h
	l.tell("lock")
	return h, nil
}

func (l *locks) tell(what string) {
	if l.note != nil {
		l.note(what)
	}
}

// count is how many are held.
func (l *locks) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// lose takes every lock away from whoever holds it.
func (l *locks) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, h := range l.held {
		h.err = why
		close(h.done)
		delete(l.held, id)
	}
}

type lock struct {
	l     *locks
	id    mount.ID
	owner string
	epoch int64
	done  chan struct{}
	err   error
}

func (h *lock) Epoch() int64          { return h.epoch }
func (h *lock) Done() <-chan struct{} { return h.done }

func (h *lock) Err() error {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	return h.err
}

func (h *lock) Release(context.Context) error {
	if h.l.release != nil {
		if err := h.l.release(); err != nil {
			return err
		}
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	if h.l.held[h.id] == h {
		delete(h.l.held, h.id)
		close(h.done)
		h.l.tell("unlock")
	}
	return nil
}

// diary is what was done, in order.
type diary struct {
	mu  sync.Mutex
	all []string
}

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, what)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// keeping is a mounter that notes what it does, and whose folders may say that they are fenced.
type keeping struct {
	mount.Mounter
	note   func(string)
	fenced bool

	mu    sync.Mutex
	specs []mount.Spec
}

func (k *keeping) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	m, err := k.Mounter.Mount(ctx, s)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.specs = append(k.specs, s)
	k.mu.Unlock()
	k.note("mount " + fmt.Sprint(s.Row.Kind))
	return &kept{Mount: m, by: k}, nil
}

type kept struct {
	mount.Mount
	by   *keeping
	once sync.Once
}

func (m *kept) Fenced() bool { return m.by.fenced }

func (m *kept) Release(ctx context.Context) error {
	err := m.Mount.Release(ctx)
	if err == nil {
		m.once.Do(func() { m.by.note("unmount") })
	}
	return err
}

// inProcess is the manager of one process of the host, over locks that others have too.
func (w *world) inProcess(l *locks, change func(*mount.Config)) *mount.Manager {
	return w.manager(func(c *mount.Config) {
		c.Locker = l
		if change != nil {
			change(c)
		}
	})
}

// workdir carries what must be carried. The caller releases it.
func (w *world) workdir(m *mount.Manager, sb sandbox.Sandbox, holder string) mount.Workdir {
	w.t.Helper()
	r := request("")
	r.Holder = holder
	d, err := m.CarryWorkdir(w.t.Context(), sb, r)
	if err != nil {
		w.t.Fatalf("CarryWorkdir: %v", err)
	}
	if d.Outcome.State != mount.Mounted || d.Outcome.Cause != nil || d.Outcome.Path != sb.Workdir() || d.Outcome.Mode != mount.Exclusive {
		w.t.Fatalf("outcome %+v", d.Outcome)
	}
	return d
}

func (w *world) release(d mount.Workdir) {
	w.t.Helper()
	for range 2 {
		if err := d.Release(w.t.Context()); err != nil {
			w.t.Errorf("Release: %v", err)
		}
	}
}
