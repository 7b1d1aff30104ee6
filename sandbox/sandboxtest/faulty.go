package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Method is a method of a [sandbox.Provider], or of a power that it has.
type Method string

// The methods that can go wrong.
const (
	Create   Method = "Create"
	Inspect  Method = "Inspect"
	Attach   Method = "Attach"
	Destroy  Method = "Destroy"
	List     Method = "List"     // of a sandbox.Lister
	Reap     Method = "Reap"     // of a sandbox.Reaper
	Measure  Method = "Measure"  // of a sandbox.Measurer
	Restrict Method = "Restrict" // of a sandbox.Guard
)

// Call is one call of a provider.
type Call struct {
	Seq    int // 1 for the first call of all, and so on
	Nth    int // 1 for the first call of its Method, and so on
	Method Method
	// Ref is what the call names: of a Create the name only, of a List nothing.
	Ref sandbox.Ref
}

// Fault is what goes wrong with one call. The zero value is nothing; fields
// combine, and take effect in the order in which they stand here.
type Fault struct {
	// Hold is waited for before anything is done; nil = nothing is. Where the
	// caller's context ends first nothing is done, and the caller gets the context's cause.
	Hold <-chan struct{}
	// Fail is answered, and nothing is done. To a Create, sandbox.ErrNotSent
	// says that nothing ever will be; any other error leaves it open. Of a
	// List it comes After so many machines.
	Fail  error
	After int
	// Late, of a Create or Destroy, puts the call off until it is closed,
	// whatever becomes of the caller meanwhile: the caller is answered at
	// once, a Create as by Lose, a Destroy as accepted. Whoever makes it closes it.
	Late <-chan struct{}
	// Twice makes the call again right after it. The second answer is dropped.
	Twice bool
	// HoldReply is waited for after everything is done; nil = nothing is.
	// Where the caller's context ends first, the caller gets the context's cause.
	HoldReply <-chan struct{}
	// Lose drops the answer, after everything is done: the caller gets an
	// error that says nothing of what happened.
	Lose bool
}

// errNoReply is what a caller gets whose answer was lost.
var errNoReply = errors.New("sandboxtest: no reply from the provider")

// Faulty returns p with the faults of script, which is asked about every call,
// one at a time, in the order of Call.Seq, before anything is done. script
// must not wait for anything; a channel does the waiting. A nil script never faults.
//
// What is a [sandbox.Lister], [sandbox.Reaper], [sandbox.Measurer] or [sandbox.Guard] still is, and has faults there
// too; other powers of p are not passed on. The handles are p's own.
func Faulty(p sandbox.Provider, script func(Call) Fault) sandbox.Provider {
	return &faulty{Provider: p, script: script, nth: map[Method]int{}}
}

type faulty struct {
	sandbox.Provider
	script func(Call) Fault

	mu  sync.Mutex // held while the script is asked, so that it need not be safe for concurrent use
	seq int
	nth map[Method]int
}

func (f *faulty) ask(method Method, ref sandbox.Ref) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.nth[method]++
	if f.script == nil {
		return Fault{}
	}
	return f.script(Call{Seq: f.seq, Nth: f.nth[method], Method: method, Ref: ref})
}

func await(ctx context.Context, opened <-chan struct{}) error {
	if opened == nil {
		return nil
	}
	select {
	case <-opened: // also where ctx has ended: what happens is then not left to chance
		return nil
	default:
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t Fault) before(ctx context.Context) error {
	if err := await(ctx, t.Hold); err != nil {
		return err
	}
	return t.Fail
}

func (t Fault) after(ctx context.Context) error {
	if err := await(ctx, t.HoldReply); err != nil {
		return err
	}
	if t.Lose {
		return errNoReply
	}
	return nil
}

// late makes a call once t.Late is closed, in its own time.
func (t Fault) late(ctx context.Context, call func(context.Context) error) {
	ctx = context.WithoutCancel(ctx)
	go func() {
		<-t.Late
		for range t.times() {
			_ = call(ctx) // nobody is left to hear of it
		}
	}()
}

func (t Fault) times() int {
	if t.Twice {
		return 2
	}
	return 1
}

func about(method Method, ref sandbox.Ref, err error) error {
	return fmt.Errorf("%s machine %s (%s): %w", method, ref.Name, ref.Incarnation, err)
}

func (f *faulty) Create(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
	ref := sandbox.Ref{Name: r.Name}
	t := f.ask(Create, ref)
	if t.Late != nil {
		if err := t.before(ctx); err != nil {
			return sandbox.Machine{}, about(Create, ref, err)
		}
		t.late(ctx, func(ctx context.Context) error { _, err := f.Provider.Create(ctx, r); return err })
		t.Lose = true
		return sandbox.Machine{}, about(Create, ref, t.after(ctx))
	}
	return one(ctx, t, Create, ref, func() (sandbox.Machine, error) { return f.Provider.Create(ctx, r) }, nil)
}

func (f *faulty) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	return one(ctx, f.ask(Inspect, ref), Inspect, ref, func() ([]sandbox.Found, error) { return f.Provider.Inspect(ctx, ref) }, nil)
}

func (f *faulty) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	return one(ctx, f.ask(Attach, ref), Attach, ref, func() (sandbox.Sandbox, error) { return f.Provider.Attach(ctx, ref) },
		func(sb sandbox.Sandbox) { _ = sb.Close() }) // nobody has it
}

func (f *faulty) Destroy(ctx context.Context, ref sandbox.Ref) error {
	t := f.ask(Destroy, ref)
	call := func(ctx context.Context) error { return f.Provider.Destroy(ctx, ref) }
	if t.Late != nil {
		err := t.before(ctx)
		if err == nil {
			t.late(ctx, call)
			err = t.after(ctx)
		}
		if err != nil {
			err = about(Destroy, ref, err)
		}
		return err
	}
	_, err := one(ctx, t, Destroy, ref, func() (struct{}, error) { return struct{}{}, call(ctx) }, nil)
	return err
}

// one makes one call with the fault t. drop is told of each answer that the caller does not get.
func one[A any](ctx context.Context, t Fault, method Method, ref sandbox.Ref, call func() (A, error), drop func(A)) (answer A, err error) {
	var none A
	if err := t.before(ctx); err != nil {
		return none, about(method, ref, err)
	}
	answer, err = call()
	dropped := func(a A, err error) {
		if err == nil && drop != nil {
			drop(a)
		}
	}
	if t.Twice {
		dropped(call())
	}
	if lost := t.after(ctx); lost != nil {
		dropped(answer, err)
		return none, about(method, ref, lost)
	}
	return answer, err
}

// As passes on the powers of a provider to list, to reap, to measure and to restrict.
func (f *faulty) As(target any) bool {
	switch power := target.(type) {
	case *sandbox.Lister:
		inner, has := sandbox.As[sandbox.Lister](f.Provider)
		if has {
			*power = faultyLister{f, inner}
		}
		return has
	case *sandbox.Reaper:
		inner, has := sandbox.As[sandbox.Reaper](f.Provider)
		if has {
			*power = faultyReaper{f, inner}
		}
		return has
	case *sandbox.Measurer:
		inner, has := sandbox.As[sandbox.Measurer](f.Provider)
		if has {
			*power = faultyMeasurer{f, inner}
		}
		return has
	case *sandbox.Guard:
		inner, has := sandbox.As[sandbox.Guard](f.Provider)
		if has {
			*power = faultyGuard{f, inner}
		}
		return has
	}
	return false
}

type faultyLister struct {
	*faulty
	inner sandbox.Lister
}

func (f faultyLister) List(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		t := f.ask(List, sandbox.Ref{})
		if err := await(ctx, t.Hold); err != nil {
			yield(sandbox.Listed{}, err)
			return
		}
		left := t.After
		for l, err := range f.inner.List(ctx, deployment) {
			if t.Fail != nil && left == 0 {
				break
			}
			left--
			if !yield(l, err) || err != nil {
				return
			}
		}
		err := t.Fail
		if err == nil {
			err = t.after(ctx)
		}
		if err != nil {
			yield(sandbox.Listed{}, fmt.Errorf("%s: %w", List, err))
		}
	}
}

type faultyReaper struct {
	*faulty
	inner sandbox.Reaper
}

func (f faultyReaper) Reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	_, err := one(ctx, f.ask(Reap, ref), Reap, ref, func() (struct{}, error) { return struct{}{}, f.inner.Reap(ctx, ref, tag) }, nil)
	return err
}

type faultyMeasurer struct {
	*faulty
	inner sandbox.Measurer
}

func (f faultyMeasurer) Measure(ctx context.Context, ref sandbox.Ref) (int64, error) {
	return one(ctx, f.ask(Measure, ref), Measure, ref, func() (int64, error) { return f.inner.Measure(ctx, ref) }, nil)
}

type faultyGuard struct {
	*faulty
	inner sandbox.Guard
}

func (f faultyGuard) Restrict(ctx context.Context, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
	return one(ctx, f.ask(Restrict, ref), Restrict, ref, func() (string, error) { return f.inner.Restrict(ctx, ref, rules) }, nil)
}
