package billing_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// faulty is a ledger between which and its caller things go wrong.
type faulty struct {
	billing.Ledger
	mu     sync.Mutex
	calls  []string          // their names
	before func(n int) error // of call n, counted from 0; an error = it does not arrive
	after  func(n int) error // an error = it was done, and this is answered
	holds  []billing.HoldRequest
}

func (f *faulty) call(name string) (n int, before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = len(f.calls)
	f.calls = append(f.calls, name)
	if f.before != nil {
		before = f.before(n)
	}
	if f.after != nil {
		after = f.after(n)
	}
	return n, before, after
}

func through[T any](f *faulty, name string, do func() (T, error)) (T, error) {
	var none T
	_, before, after := f.call(name)
	if before != nil {
		return none, before
	}
	out, err := do()
	if err == nil && after != nil {
		return none, after
	}
	return out, err
}

func (f *faulty) Hold(ctx context.Context, r billing.HoldRequest) (billing.Hold, error) {
	f.mu.Lock()
	f.holds = append(f.holds, r)
	f.mu.Unlock()
	return through(f, "hold", func() (billing.Hold, error) { return f.Ledger.Hold(ctx, r) })
}

func (f *faulty) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	return through(f, "post", func() ([]billing.Posted, error) { return f.Ledger.Post(ctx, posts...) })
}

func (f *faulty) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	return through(f, "release", func() (billing.Hold, error) { return f.Ledger.Release(ctx, id) })
}

func (f *faulty) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	return through(f, "holds", func() ([]billing.Hold, error) { return f.Ledger.Holds(ctx, resource) })
}

func (f *faulty) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	return through(f, "marks", func() ([]billing.Mark, error) { return f.Ledger.Marks(ctx, keys) })
}

// always answers the same to every call.
func always(err error) func(int) error { return func(int) error { return err } }

// only answers err to one call, the nth.
func only(n int, err error) func(int) error {
	return func(m int) error {
		if m == n {
			return err
		}
		return nil
	}
}

var (
	errAway = errors.New("dial: connection refused")
	// errDriver is a fault that a driver has a public sentence for.
	errDriver = access.NewSentinel("driver: not reachable", 503, "database_unreachable", "The database can't be reached.")
	// errBusy is one that gave up, for others changed the same rows each time.
	errBusy = access.NewSentinel("driver: changed meanwhile", 409, "conflict", "This was changed by somebody else. Try again.")
)

// shop is a till with a ledger whose clock is the test's, and an account with credit.
type shop struct {
	*billing.Till
	ledger *faulty
	mu     sync.Mutex
	now    time.Time
	policy map[billing.Operation]billing.FaultPolicy
	terms  billing.Terms
	plans  []access.Plan // that terms were asked for
}

// credit is what ann has at first.
const credit = 1_000_000

func newShop(t testing.TB) *shop {
	t.Helper()
	s := &shop{now: noon, policy: map[billing.Operation]billing.FaultPolicy{}, terms: billing.Terms{Estimate: 100, InFlight: 10}}
	db := memory.New(&memory.Options{Now: func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}})
	s.ledger = &faulty{Ledger: db.Ledger()}
	tariffs, err := billing.NewTariffs(billing.Priced{Meter: billing.MeterRuntime, Rate: perSecond})
	if err != nil {
		t.Fatal(err)
	}
	s.Till, err = billing.NewTill(billing.TillConfig{
		Ledger: s.ledger, Tariffs: tariffs,
		Terms: func(p access.Plan) billing.Terms {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.plans = append(s.plans, p)
			return s.terms
		},
		OnFault: func(op billing.Operation) billing.FaultPolicy { return s.policy[op] },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ledger.Grant(t.Context(), billing.Grant{ID: "g", Payer: "ann", Amount: credit, Source: "test"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// at sets the ledger's clock, in seconds after noon.
func (s *shop) at(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = second(n)
}

// spent is what ann was charged. It is what her book comes to.
func (s *shop) spent(t testing.TB) billing.Micros {
	t.Helper()
	v, err := billing.Verify(t.Context(), s.ledger.Ledger, "ann")
	if err != nil || len(v.Faults) > 0 {
		t.Fatalf("the book: %v, %q", err, v.Faults)
	}
	b, err := s.ledger.Balance(t.Context(), "ann")
	if err != nil || b.Available-b.Debt != credit-v.Charged {
		t.Fatalf("%+v has %v and owes %v after %v (%v)", b.Account, b.Available, b.Debt, v.Charged, err)
	}
	return v.Charged
}

// standing is how ann stands.
func (s *shop) standing(t testing.TB) billing.Standing {
	t.Helper()
	b, err := s.ledger.Balance(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	return b.Standing
}

// holds are the states of the holds of work-1.
func (s *shop) states(t testing.TB) (all []billing.HoldState) {
	t.Helper()
	holds, err := s.ledger.Ledger.Holds(t.Context(), "work-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range holds {
		all = append(all, h.State)
	}
	return all
}

// intent is a work of ann's that would like to start, for 15 minutes at first.
func intent() billing.Intent {
	return billing.Intent{
		ID: "hold-1", Work: "work-1", Payer: "ann", Plan: "pro", Session: "session-1", Meter: billing.MeterRuntime, TTL: 15 * time.Minute,
	}
}

// used is the use of the seconds from to to after noon.
func used(from, to int) billing.Usage { return billing.Usage{From: second(from), To: second(to)} }

func lastly(u billing.Usage) billing.Usage {
	u.Last = true
	return u
}

// begun is a work that was let in and has begun at noon.
func (s *shop) begun(t testing.TB) billing.Ticket {
	t.Helper()
	ticket, err := s.Admit(t.Context(), intent())
	if err == nil {
		ticket, err = s.Settle(t.Context(), ticket, used(0, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}
