package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Method is a method of a [session.Store] or [session.Leases].
type Method string

// The methods that can go wrong.
const (
	Load         Method = "Load"
	Commit       Method = "Commit"
	List         Method = "List"
	Due          Method = "Due"
	Touch        Method = "Touch"
	Known        Method = "Known"
	Names        Method = "Names"
	Missing      Method = "Missing"
	Stored       Method = "Stored"
	Charged      Method = "StorageCharged"
	Owned        Method = "Owned"
	Environments Method = "Environments"

	Acquire Method = "Acquire"
	Renew   Method = "Renew"
	Release Method = "Release"
	Expired Method = "Expired"
	Works   Method = "Works"
	Held    Method = "Held"
	Forget  Method = "Forget"
)

// Call is one call of a store or of its leases.
type Call struct {
	Seq    int // 1 for the first call of all, of either, and so on
	Nth    int // 1 for the first call of its Method, and so on
	Method Method
	// What it was asked, of some methods; the caller's, not to be changed.
	Address session.Address  // Load, Touch
	Change  session.Change   // Commit
	Due     session.DueQuery // Due
	Lease   session.Lease    // Acquire, Renew, Release; Held: its Kind and Name
}

// Fault is what goes wrong with one call. The zero value is nothing; fields
// combine, and take effect in the order in which they stand here.
type Fault struct {
	// Hold is waited for before anything is done; nil = nothing is. Where the
	// caller's context ends first nothing is done, and the caller gets the context's cause.
	Hold <-chan struct{}
	// Fail is answered, and nothing is done. Of a Due it comes After so many items.
	Fail  error
	After int
	// HoldReply is waited for after everything is done; nil = nothing is.
	// Where the caller's context ends first the reply is lost, as by Lose.
	HoldReply <-chan struct{}
	// Lose drops the answer, after everything is done: of a Commit the caller
	// gets session.ErrUnknown, of anything else an error that says nothing.
	Lose bool
}

// errNoReply is what a caller gets whose answer was lost.
var errNoReply = errors.New("sessiontest: no reply from the store")

// Faulty returns store and leases with the faults of script, which is asked
// about every call of either, one at a time, in the order of Call.Seq, before
// anything is done. script must not wait for anything; a channel does the
// waiting. A nil script never faults.
func Faulty(store session.Store, leases session.Leases, script func(Call) Fault) (session.Store, session.Leases) {
	a := &asker{script: script, nth: map[Method]int{}}
	return faultyStore{a, store}, faultyLeases{a, leases}
}

// asker puts the calls to the script.
type asker struct {
	script func(Call) Fault

	mu  sync.Mutex // held while the script is asked, so that it need not be safe for concurrent use
	seq int
	nth map[Method]int
}

func (a *asker) ask(c Call) Fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	a.nth[c.Method]++
	c.Seq, c.Nth = a.seq, a.nth[c.Method]
	if a.script == nil {
		return Fault{}
	}
	return a.script(c)
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

// lost is the error of a call whose answer does not arrive, nil where it does.
func (t Fault) lost(ctx context.Context, m Method) error {
	err := await(ctx, t.HoldReply)
	switch {
	case err == nil && t.Lose:
		err = errNoReply
	case err == nil:
		return nil
	}
	if m == Commit {
		return fmt.Errorf("%w: %w", session.ErrUnknown, err)
	}
	return fmt.Errorf("%s: %w", m, err)
}

// one makes one call with its fault.
func one[A any](ctx context.Context, a *asker, c Call, call func() (A, error)) (A, error) {
	var none A
	t := a.ask(c)
	err := await(ctx, t.Hold)
	if err == nil {
		err = t.Fail
	}
	if err != nil {
		return none, fmt.Errorf("%s: %w", c.Method, err)
	}
	answer, err := call()
	if lost := t.lost(ctx, c.Method); lost != nil {
		return none, lost
	}
	return answer, err
}

// none makes one call that answers no more than an error.
func none(ctx context.Context, a *asker, c Call, call func() error) error {
	_, err := one(ctx, a, c, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

type faultyStore struct {
	*asker
	inner session.Store
}

func (f faultyStore) Load(ctx context.Context, at session.Address) (session.Snapshot, error) {
	return one(ctx, f.asker, Call{Method: Load, Address: at}, func() (session.Snapshot, error) { return f.inner.Load(ctx, at) })
}

func (f faultyStore) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	return one(ctx, f.asker, Call{Method: Commit, Change: c}, func() (time.Time, error) { return f.inner.Commit(ctx, c) })
}

func (f faultyStore) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	return one(ctx, f.asker, Call{Method: List}, func() (session.Page, error) { return f.inner.List(ctx, q) })
}

func (f faultyStore) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	return func(yield func(session.Due, error) bool) {
		t := f.ask(Call{Method: Due, Due: q})
		if err := await(ctx, t.Hold); err != nil {
			yield(session.Due{}, fmt.Errorf("%s: %w", Due, err))
			return
		}
		left := t.After
		for d, err := range f.inner.Due(ctx, q) {
			if t.Fail != nil && left == 0 {
				break
			}
			left--
			if !yield(d, err) || err != nil {
				return
			}
		}
		if t.Fail != nil {
			yield(session.Due{}, fmt.Errorf("%s: %w", Due, t.Fail))
			return
		}
		if err := t.lost(ctx, Due); err != nil {
			yield(session.Due{}, err)
		}
	}
}

func (f faultyStore) Touch(ctx context.Context, at session.Address) error {
	return none(ctx, f.asker, Call{Method: Touch, Address: at}, func() error { return f.inner.Touch(ctx, at) })
}

func (f faultyStore) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	return one(ctx, f.asker, Call{Method: Known}, func() ([]session.Known, error) { return f.inner.Known(ctx, keys) })
}

func (f faultyStore) Names(ctx context.Context, after string) (session.NamesPage, error) {
	return one(ctx, f.asker, Call{Method: Names}, func() (session.NamesPage, error) { return f.inner.Names(ctx, after) })
}

func (f faultyStore) Missing(ctx context.Context, q session.MissingQuery) (int, error) {
	return one(ctx, f.asker, Call{Method: Missing}, func() (int, error) { return f.inner.Missing(ctx, q) })
}

func (f faultyStore) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	return one(ctx, f.asker, Call{Method: Stored}, func() ([]session.Snapshot, error) { return f.inner.Stored(ctx, after, limit) })
}

func (f faultyStore) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	return none(ctx, f.asker, Call{Method: Charged}, func() error { return f.inner.StorageCharged(ctx, charged) })
}

func (f faultyStore) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	return one(ctx, f.asker, Call{Method: Owned}, func() ([]session.Address, error) { return f.inner.Owned(ctx, t, limit) })
}

func (f faultyStore) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	return one(ctx, f.asker, Call{Method: Environments}, func() (session.EnvironmentPage, error) { return f.inner.Environments(ctx, q) })
}

type faultyLeases struct {
	*asker
	inner session.Leases
}

func (f faultyLeases) Acquire(ctx context.Context, l session.Lease) (session.Lease, error) {
	return one(ctx, f.asker, Call{Method: Acquire, Lease: l}, func() (session.Lease, error) { return f.inner.Acquire(ctx, l) })
}

func (f faultyLeases) Renew(ctx context.Context, l session.Lease) (session.Lease, error) {
	return one(ctx, f.asker, Call{Method: Renew, Lease: l}, func() (session.Lease, error) { return f.inner.Renew(ctx, l) })
}

func (f faultyLeases) Release(ctx context.Context, l session.Lease) error {
	return none(ctx, f.asker, Call{Method: Release, Lease: l}, func() error { return f.inner.Release(ctx, l) })
}

func (f faultyLeases) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	return one(ctx, f.asker, Call{Method: Expired}, func() ([]session.Lease, error) { return f.inner.Expired(ctx, limit) })
}

func (f faultyLeases) Works(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
	return one(ctx, f.asker, Call{Method: Works}, func() ([]session.Lease, error) { return f.inner.Works(ctx, v, through, after, limit) })
}

func (f faultyLeases) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	return one(ctx, f.asker, Call{Method: Held, Lease: session.Lease{Kind: kind, Name: name}}, func() (session.Lease, error) { return f.inner.Held(ctx, kind, name) })
}

func (f faultyLeases) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	return one(ctx, f.asker, Call{Method: Forget}, func() (int, error) { return f.inner.Forget(ctx, unused, limit) })
}
