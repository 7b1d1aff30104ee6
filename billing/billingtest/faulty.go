package billingtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// Method is a method of a [billing.Ledger].
type Method string

// The methods, which can all go wrong.
const (
	Hold       Method = "Hold"
	Post       Method = "Post"
	Release    Method = "Release"
	Grant      Method = "Grant"
	Balance    Method = "Balance"
	Statement  Method = "Statement"
	Payers     Method = "Payers"
	Marks      Method = "Marks"
	Holds      Method = "Holds"
	Unexported Method = "Unexported"
	Exported   Method = "Exported"
	Expire     Method = "Expire"
)

// Call is one call of a ledger.
type Call struct {
	Seq    int // 1 for the first call of all, and so on
	Nth    int // 1 for the first call of its Method, and so on
	Method Method
	// What it was asked, of some methods; the caller's, not to be changed.
	Request billing.HoldRequest // Hold
	Posts   []billing.Post      // Post
	Hold    billing.HoldID      // Release
	Grant   billing.Grant       // Grant
	Payer   access.UserID       // Balance, Statement
}

// Fault is what goes wrong with one call. The zero value is nothing; fields
// combine, and take effect in the order in which they stand here.
type Fault struct {
	// Wait is waited for before anything is done; nil = nothing is. Where the
	// caller's context ends first nothing is done, and the caller gets the context's cause.
	Wait <-chan struct{}
	// Fail is answered, and nothing is done.
	Fail error
	// WaitReply is waited for after everything is done; nil = nothing is.
	// Where the caller's context ends first the reply is lost, as by Lose.
	WaitReply <-chan struct{}
	// Lose drops the answer, after everything is done: of what writes the
	// caller gets billing.ErrUnknown, of anything else an error that says nothing.
	Lose bool
}

// errNoReply is what a caller gets whose answer was lost.
var errNoReply = errors.New("billingtest: no reply from the ledger")

// Faulty returns l with the faults of script, which is asked about every call,
// one at a time, in the order of Call.Seq, before anything is done. script must not
// wait for anything; a channel does the waiting. A nil script never faults.
func Faulty(l billing.Ledger, script func(Call) Fault) billing.Ledger {
	return &faulty{inner: l, script: script, nth: map[Method]int{}}
}

type faulty struct {
	inner  billing.Ledger
	script func(Call) Fault

	mu  sync.Mutex // held while the script is asked, so that it need not be safe for concurrent use
	seq int
	nth map[Method]int
}

func (f *faulty) ask(c Call) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.nth[c.Method]++
	c.Seq, c.Nth = f.seq, f.nth[c.Method]
	if f.script == nil {
		return Fault{}
	}
	return f.script(c)
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
	err := await(ctx, t.WaitReply)
	switch {
	case err == nil && t.Lose:
		err = errNoReply
	case err == nil:
		return nil
	}
	switch m {
	case Hold, Post, Release, Grant, Exported, Expire:
		return fmt.Errorf("%w: %s: %w", billing.ErrUnknown, m, err)
	}
	return fmt.Errorf("%s: %w", m, err)
}

// one makes one call with its fault.
func one[A any](ctx context.Context, f *faulty, c Call, call func() (A, error)) (A, error) {
	var none A
	t := f.ask(c)
	err := await(ctx, t.Wait)
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

func (f *faulty) Hold(ctx context.Context, r billing.HoldRequest) (billing.Hold, error) {
	return one(ctx, f, Call{Method: Hold, Request: r}, func() (billing.Hold, error) { return f.inner.Hold(ctx, r) })
}

func (f *faulty) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	return one(ctx, f, Call{Method: Post, Posts: posts}, func() ([]billing.Posted, error) { return f.inner.Post(ctx, posts...) })
}

func (f *faulty) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	return one(ctx, f, Call{Method: Release, Hold: id}, func() (billing.Hold, error) { return f.inner.Release(ctx, id) })
}

func (f *faulty) Grant(ctx context.Context, g billing.Grant) (billing.Grant, error) {
	return one(ctx, f, Call{Method: Grant, Grant: g}, func() (billing.Grant, error) { return f.inner.Grant(ctx, g) })
}

func (f *faulty) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	return one(ctx, f, Call{Method: Balance, Payer: payer}, func() (billing.Balance, error) { return f.inner.Balance(ctx, payer) })
}

func (f *faulty) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	return one(ctx, f, Call{Method: Statement, Payer: q.Payer}, func() (billing.StatementPage, error) { return f.inner.Statement(ctx, q) })
}

func (f *faulty) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	return one(ctx, f, Call{Method: Payers}, func() ([]access.UserID, error) { return f.inner.Payers(ctx, after, limit) })
}

func (f *faulty) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	return one(ctx, f, Call{Method: Marks}, func() ([]billing.Mark, error) { return f.inner.Marks(ctx, keys) })
}

func (f *faulty) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	return one(ctx, f, Call{Method: Holds}, func() ([]billing.Hold, error) { return f.inner.Holds(ctx, resource) })
}

func (f *faulty) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	return one(ctx, f, Call{Method: Unexported}, func() ([]billing.Entry, error) { return f.inner.Unexported(ctx, limit) })
}

func (f *faulty) Exported(ctx context.Context, ids []string) error {
	_, err := one(ctx, f, Call{Method: Exported}, func() (struct{}, error) { return struct{}{}, f.inner.Exported(ctx, ids) })
	return err
}

func (f *faulty) Expire(ctx context.Context, lateness time.Duration, limit int) (billing.ExpireReport, error) {
	return one(ctx, f, Call{Method: Expire}, func() (billing.ExpireReport, error) { return f.inner.Expire(ctx, lateness, limit) })
}
