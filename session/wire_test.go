package session_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// errCrash is what the calls of a process return that was killed: there is nobody to see it.
var errCrash = errors.New("test: this process is dead")

// errOutage is what a call returns that could not be made.
var errOutage = errors.New("test: no connection")

// trouble is what befalls one call that leaves a replica. The zero value is nothing.
type trouble struct {
	hold   func(context.Context)                      // called before anything is done
	before error                                      // answered, and nothing is done
	after  error                                      // answered, after everything is done
	late   func(context.Context)                      // called after everything is done, before the answer
	answer func(ctx context.Context, err error) error // makes of the answer what is heard of it
	kill   bool                                       // the process is dead from here on: before the call, or after it where after is set
}

// wire is between a replica and all that it calls. It numbers and records the
// calls, and does to them what the test wants.
type wire struct {
	mu     sync.Mutex
	script func(call string, n, nth int) trouble // n counts all calls, nth those of this name
	log    []string
	nth    map[string]int
	dead   bool
	open   int // handles that were had and not closed
}

func newWire() *wire { return &wire{nth: map[string]int{}} }

// meddle asks script about every call from now on, which is again the first.
func (w *wire) meddle(script func(call string, n, nth int) trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script, w.log, w.nth = script, nil, map[string]int{}
}

// fail makes the nth call of that name fail with err before it is made; 0 = every one.
func (w *wire) fail(call string, nth int, err error) {
	w.meddle(func(c string, _, n int) trouble {
		if c == call && (nth == 0 || n == nth) {
			return trouble{before: err}
		}
		return trouble{}
	})
}

// lose makes the nth call of that name happen and its reply get lost.
func (w *wire) lose(call string, nth int, err error) {
	w.meddle(func(c string, _, n int) trouble {
		if c == call && n == nth {
			return trouble{after: err}
		}
		return trouble{}
	})
}

// calls are the names of the calls since the last meddle, in order.
func (w *wire) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// count is how many calls of these names there were.
func (w *wire) count(names ...string) (n int) {
	for _, c := range w.calls() {
		if slices.Contains(names, c) {
			n++
		}
	}
	return n
}

// only are the calls of these names, in order.
func (w *wire) only(names ...string) []string {
	return slices.DeleteFunc(w.calls(), func(c string) bool { return !slices.Contains(names, c) })
}

func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

func (w *wire) call(ctx context.Context, name string, do func() error) error {
	w.mu.Lock()
	if w.dead {
		w.mu.Unlock()
		return errCrash
	}
	w.log = append(w.log, name)
	w.nth[name]++
	var tr trouble
	if w.script != nil {
		tr = w.script(name, len(w.log), w.nth[name])
	}
	w.dead = w.dead || tr.kill && tr.after == nil
	dead := w.dead
	w.mu.Unlock()
	if dead {
		return errCrash
	}
	if tr.hold != nil {
		tr.hold(ctx)
	}
	if tr.before != nil {
		return tr.before
	}
	err := do()
	if tr.late != nil {
		tr.late(ctx)
	}
	if tr.after != nil {
		if tr.kill {
			w.kill()
		}
		return tr.after
	}
	if tr.answer != nil {
		return tr.answer(ctx, err)
	}
	return err
}

// handles counts the handles on machines that are open: by has more or less.
func (w *wire) handles(by int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += by
	return w.open
}

type wiredStore struct {
	session.Store
	line *wire
	w    *world
}

func (s *wiredStore) Load(ctx context.Context, a session.Address) (out session.Snapshot, err error) {
	err = s.line.call(ctx, "load", func() (err error) { out, err = s.Store.Load(ctx, a); return })
	return out, err
}

func (s *wiredStore) Commit(ctx context.Context, c session.Change) (clock time.Time, err error) {
	s.w.note(c)
	err = s.line.call(ctx, "commit", func() (err error) { clock, err = s.Store.Commit(ctx, c); return })
	return clock, err
}

// note remembers what there may be from now on, and fails the test where a
// session that borrows its sandbox gets one of its own.
func (w *world) note(c session.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := c.Session; s != nil {
		w.sessions[s.ID] = true
		w.borrowers[s.ID] = s.Environment != ""
	}
	if e := c.Environment; e != nil {
		w.environments[e.ID] = true
	}
	if b := c.Sandbox; b != nil && w.borrowers[b.Session] {
		w.Errorf("rule 13: sandbox %s of its own for session %s, which borrows one", b.ID, b.Session)
	}
}

func (s *wiredStore) Environments(ctx context.Context, q session.EnvironmentQuery) (p session.EnvironmentPage, err error) {
	err = s.line.call(ctx, "list", func() (err error) { p, err = s.Store.Environments(ctx, q); return })
	return p, err
}

func (s *wiredStore) List(ctx context.Context, q session.ListQuery) (p session.Page, err error) {
	err = s.line.call(ctx, "list", func() (err error) { p, err = s.Store.List(ctx, q); return })
	return p, err
}

func (s *wiredStore) Touch(ctx context.Context, a session.Address) error {
	return s.line.call(ctx, "touch", func() error { return s.Store.Touch(ctx, a) })
}

func (s *wiredStore) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	return func(yield func(session.Due, error) bool) {
		name := map[session.DueKind]string{
			session.DueCreating: "due creating", session.DueDestroying: "due destroying", session.DueTombstones: "due tombstones",
			session.DueLive: "due live", session.DueIdle: "due idle",
		}[q.Kinds]
		if err := s.line.call(ctx, name, func() error { return nil }); err != nil {
			yield(session.Due{}, err)
			return
		}
		s.Store.Due(ctx, q)(yield)
	}
}

type wiredLeases struct {
	session.Leases
	line *wire
}

func (s wiredLeases) Acquire(ctx context.Context, l session.Lease) (out session.Lease, err error) {
	err = s.line.call(ctx, "acquire", func() (err error) { out, err = s.Leases.Acquire(ctx, l); return })
	return out, err
}

func (s wiredLeases) Renew(ctx context.Context, l session.Lease) (out session.Lease, err error) {
	err = s.line.call(ctx, "renew", func() (err error) { out, err = s.Leases.Renew(ctx, l); return })
	return out, err
}

func (s wiredLeases) Release(ctx context.Context, l session.Lease) error {
	return s.line.call(ctx, "free", func() error { return s.Leases.Release(ctx, l) })
}

func (s wiredLeases) Expired(ctx context.Context, limit int) (out []session.Lease, err error) {
	err = s.line.call(ctx, "expired", func() (err error) { out, err = s.Leases.Expired(ctx, limit); return })
	return out, err
}

func (s wiredLeases) Works(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) (out []session.Lease, err error) {
	err = s.line.call(ctx, "works", func() (err error) { out, err = s.Leases.Works(ctx, v, through, after, limit); return })
	return out, err
}

type wiredDirectory struct {
	access.Directory
	line *wire
}

func (s wiredDirectory) Facts(ctx context.Context, q access.Question) (f access.Facts, err error) {
	err = s.line.call(ctx, "ask", func() (err error) { f, err = s.Directory.Facts(ctx, q); return })
	return f, err
}

type wiredGate struct {
	billing.Gate
	line *wire
}

func (s wiredGate) Admit(ctx context.Context, in billing.Intent) (t billing.Ticket, err error) {
	err = s.line.call(ctx, "admit", func() (err error) { t, err = s.Gate.Admit(ctx, in); return })
	return t, err
}

func (s wiredGate) Settle(ctx context.Context, t billing.Ticket, u billing.Usage) (out billing.Ticket, err error) {
	out = t
	err = s.line.call(ctx, "settle", func() (err error) { out, err = s.Gate.Settle(ctx, t, u); return })
	return out, err
}

func (s wiredGate) Abandon(ctx context.Context, a billing.Abandoned) error {
	return s.line.call(ctx, "abandon", func() error { return s.Gate.Abandon(ctx, a) })
}

func (s wiredGate) Release(ctx context.Context, t billing.Ticket) error {
	return s.line.call(ctx, "release", func() error { return s.Gate.Release(ctx, t) })
}

// wiredProvider also watches over every call that reaches the provider: the
// intent to make a machine is committed, and no machine that a row names as live is destroyed.
type wiredProvider struct {
	sandbox.Provider
	line *wire
	w    *world
}

func (s wiredProvider) Create(ctx context.Context, r sandbox.CreateRequest) (m sandbox.Machine, err error) {
	err = s.line.call(ctx, "create", func() (err error) {
		intended := slices.ContainsFunc(append(s.w.all(), s.w.allEnvironments()...), func(sn session.Snapshot) bool {
			return sn.Sandbox.Name == r.Name && sn.Sandbox.State != sandbox.None
		})
		buried := slices.ContainsFunc(s.w.outbox(), func(t sandbox.Tombstone) bool { return t.Name == r.Name })
		if !intended && !buried {
			s.w.Errorf("rule 1: no intent to make machine %s was committed before the provider was called", r.Name)
		}
		m, err = s.Provider.Create(ctx, r)
		return
	})
	return m, err
}

func (s wiredProvider) Destroy(ctx context.Context, ref sandbox.Ref) error {
	return s.line.call(ctx, "destroy", func() error {
		doomed := false
		for _, sn := range append(s.w.all(), s.w.allEnvironments()...) {
			row := sn.Sandbox
			if row.State == sandbox.Live && row.Incarnation == ref.Incarnation {
				s.w.Errorf("rule 4: machine %s is destroyed while a row names it as live", ref.Incarnation)
			}
			doomed = doomed || row.State == sandbox.Destroying && row.Name == ref.Name
		}
		// Rows first: what is to be destroyed may move from there to the outbox, and never back.
		doomed = doomed || slices.ContainsFunc(s.w.outbox(), func(t sandbox.Tombstone) bool { return t.Name == ref.Name })
		if !doomed && slices.ContainsFunc(s.w.boxes.Machines(), has(ref.Incarnation)) {
			s.w.Errorf("rule 1: no intent to destroy machine %s was committed before the provider was called", ref.Incarnation)
		}
		return s.Provider.Destroy(ctx, ref)
	})
}

func (s wiredProvider) Inspect(ctx context.Context, ref sandbox.Ref) (found []sandbox.Found, err error) {
	err = s.line.call(ctx, "inspect", func() (err error) { found, err = s.Provider.Inspect(ctx, ref); return })
	return found, err
}

func (s wiredProvider) Attach(ctx context.Context, ref sandbox.Ref) (sb sandbox.Sandbox, err error) {
	err = s.line.call(ctx, "attach", func() (err error) { sb, err = s.Provider.Attach(ctx, ref); return })
	if err != nil {
		if sb != nil { // a driver that can't answer any more keeps no handle
			sb.Close()
		}
		return nil, err
	}
	s.line.handles(1)
	return &wiredSandbox{Sandbox: sb, line: s.line}, nil
}

// wiredSandbox records when a handle is closed. What it wraps shows through.
type wiredSandbox struct {
	sandbox.Sandbox
	line   *wire
	closed sync.Once
}

func (s *wiredSandbox) Close() error {
	s.closed.Do(func() { s.line.handles(-1) })
	return errors.Join(s.line.call(context.Background(), "close", func() error { return nil }), s.Sandbox.Close())
}

func (s *wiredSandbox) As(target any) bool {
	switch t := target.(type) {
	case *sandbox.Binder:
		return sandbox.PassOn(s.Sandbox, t)
	}
	return sandbox.PassOnFiles(s.Sandbox, target)
}
