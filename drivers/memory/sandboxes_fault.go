package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// ErrNoReply is what a caller gets whose answer was lost: whether anything was done is unknown.
var ErrNoReply = access.NewSentinel("memory: no reply from the provider", 503, "no_reply", "The sandbox did not answer. Try again shortly.")

// Op is a method of [Sandboxes] that a script can meddle with.
type Op string

// The operations.
const (
	OpCreate   Op = "create"
	OpInspect  Op = "inspect"
	OpAttach   Op = "attach"
	OpDestroy  Op = "destroy"
	OpList     Op = "list"
	OpReap     Op = "reap"
	OpMeasure  Op = "measure"
	OpRestrict Op = "restrict"
)

// Call is one call of the provider.
type Call struct {
	Seq         int // 1 for the first call of all, and so on
	Nth         int // 1 for the first call of its Op, and so on
	Op          Op
	Name        string              // of a List the deployment
	Incarnation sandbox.Incarnation // empty for a Create or List, and where only the name was given
}

// Fault is what goes wrong with one call. The zero value is nothing; fields
// combine, and take effect in the order in which they stand here.
//
// A Fault does what it says even where [sandbox.Caps] claim that it can't
// happen. A test of code that relies on the claims stays within them.
type Fault struct {
	// Hold is waited for before anything is done. Where the caller's context
	// ends first nothing is done, and the caller gets the context's cause.
	Hold *Latch
	// Fail is answered, and nothing is done. To a Create, sandbox.ErrNotSent
	// says that nothing ever will be; any other error leaves it open.
	Fail error
	// Late, of a Create or Destroy, puts off what was asked for until the
	// latch opens. A Create is answered with ErrNoReply, a Destroy as accepted.
	Late *Latch
	// Twice, of a Create, makes two machines of the one name; the first is the answer.
	Twice bool
	// Hidden, of a Create, makes a machine that Inspect, Attach and Destroy
	// don't see until the latch opens.
	Hidden *Latch
	// Status, of a Create, is the state the machine is born in; zero means
	// running. One that is starting is answered with sandbox.ErrStarting; see [Sandboxes.SetStatus].
	Status sandbox.Status
	// Unseen, of an Inspect, Attach, Measure or Restrict, answers that there is no such machine; of a List, that there is none.
	Unseen bool
	// HoldReply is waited for after everything is done. Where the caller's
	// context ends first, the caller gets the context's cause.
	HoldReply *Latch
	// Lose answers ErrNoReply, after everything is done.
	Lose bool
}

func (f Fault) before(ctx context.Context) error {
	if f.Hold != nil {
		if err := f.Hold.wait(ctx); err != nil {
			return err
		}
	}
	return f.Fail
}

func (f Fault) after(ctx context.Context) error {
	if f.HoldReply != nil {
		if err := f.HoldReply.wait(ctx); err != nil {
			return err
		}
	}
	if f.Lose {
		return ErrNoReply
	}
	return nil
}

// Latch holds things back until it is opened. The zero value is shut; once
// open it stays open. It must not be copied after first use. It is safe for concurrent use.
type Latch struct {
	mu      sync.Mutex
	isOpen  bool
	touched bool
	opened  chan struct{}
	reached chan struct{}
	held    []func()
}

// Open lets go of everything that is held back and of all that comes later.
// What was put off ([Fault].Late, Hidden) has happened, in the order in which
// it was asked for, when Open returns. Opening twice does nothing.
func (l *Latch) Open() {
	l.mu.Lock()
	if l.opened != nil && !l.isOpen {
		close(l.opened)
	}
	l.isOpen = true
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, f := range held {
		f()
	}
}

// Reached is closed once something has come to the latch: a call that waits
// at it, or an effect that it puts off.
func (l *Latch) Reached() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reached == nil {
		l.reached = make(chan struct{})
		if l.touched {
			close(l.reached)
		}
	}
	return l.reached
}

// touch notes that something has come. l.mu is held.
func (l *Latch) touch() {
	if !l.touched && l.reached != nil {
		close(l.reached)
	}
	l.touched = true
}

func (l *Latch) wait(ctx context.Context) error {
	l.mu.Lock()
	l.touch()
	if l.isOpen {
		l.mu.Unlock()
		return nil
	}
	if l.opened == nil {
		l.opened = make(chan struct{})
	}
	opened := l.opened
	l.mu.Unlock()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// then does f when the latch opens, or at once where it is open.
func (l *Latch) then(f func()) {
	l.mu.Lock()
	l.touch()
	open := l.isOpen
	if !open {
		l.held = append(l.held, f)
	}
	l.mu.Unlock()
	if open {
		f()
	}
}

// Inject asks script, from now on, what goes wrong with each call of Create,
// Inspect, Attach, Destroy, List, Reap and Measure; nil ends that. Calls are put to it one at a
// time, in the order of Call.Seq, before they do anything; a List is called
// when its sequence is first asked for a machine. It must not call
// those seven methods itself nor wait for anything (a [Latch] does the waiting); it may use all others.
func (s *Sandboxes) Inject(script func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// ask records a call and returns what goes wrong with it.
func (s *Sandboxes) ask(op Op, ref sandbox.Ref) Fault {
	s.asking.Lock()
	defer s.asking.Unlock()
	s.mu.Lock()
	s.nth[op]++
	c := Call{Seq: len(s.calls) + 1, Nth: s.nth[op], Op: op, Name: ref.Name, Incarnation: ref.Incarnation}
	s.calls = append(s.calls, c)
	script := s.script
	s.mu.Unlock()
	if script == nil {
		return Fault{}
	}
	return script(c)
}

// Calls returns the calls made so far, in order.
func (s *Sandboxes) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Machine is what there truly is, whatever callers are told.
type Machine struct {
	Name        string
	Incarnation sandbox.Incarnation
	Labels      map[string]string
	Spec        sandbox.Spec
	Status      sandbox.Status
	Hidden      bool // not to be seen yet; see Fault.Hidden
	Processes   int  // that run
}

// Machines lists every machine that is alive, sorted by name; those of one
// name in the order of their birth. The result is the caller's.
func (s *Sandboxes) Machines() []Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Machine
	for _, m := range s.machines {
		all = append(all, Machine{
			Name:        m.ref.Name,
			Incarnation: m.ref.Incarnation,
			Labels:      maps.Clone(m.labels),
			Spec:        sandbox.Spec{Image: m.spec.Image, Env: slices.Clone(m.spec.Env)},
			Status:      m.status,
			Hidden:      m.hidden,
			Processes:   len(m.procs),
		})
	}
	slices.SortStableFunc(all, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Kill makes a machine vanish with its files, as by a crash: what ran in it
// ends with sandbox.ErrLost. It reports whether there was such a machine.
func (s *Sandboxes) Kill(i sandbox.Incarnation) bool {
	return s.destroy(i, true, boxStop{cause: sandbox.ErrLost, lost: true})
}

// SetStatus sets the state of a machine: let one that is starting run, let one
// fall asleep or fail. What runs in it is left alone. It reports whether there is such a machine.
func (s *Sandboxes) SetStatus(i sandbox.Incarnation, status sandbox.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if m.ref.Incarnation == i {
			m.status = status
			return true
		}
	}
	return false
}
