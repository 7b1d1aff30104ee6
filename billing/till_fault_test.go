package billing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// What becomes of work whose ledger can't be asked is the host's to say, by
// operation, and to be seen in the ticket.
func TestFaultPolicies(t *testing.T) {
	const closed, open = billing.FailClosed, billing.FailOpen
	refused := &billing.RefusedError{Decision: billing.AdmitDecision{Reason: billing.RefusedCredit}}
	for _, c := range []struct {
		rule         string
		err          error
		admit, renew billing.FaultPolicy
		starts, goes bool
	}{
		{"closed is closed", errAway, closed, closed, false, false},
		{"open at the start only", errAway, open, closed, true, false},
		{"open at renewing only", errAway, closed, open, false, true},
		{"open is open", errAway, open, open, true, true},
		{"a driver's own words are a fault too", errDriver, open, open, true, true},
		{"also where they say that others were in the way", errBusy, open, open, true, true},
		{"so is a reply that was lost", fmt.Errorf("%w: hold", billing.ErrUnknown), open, open, true, true},
		{"and a ledger that takes too long", context.DeadlineExceeded, open, open, true, true},
		{"a no is a no, and no fault", refused, open, open, false, false},
		{"so is an id of something else", billing.ErrConflict, open, open, false, false},
		{"and a field that is wrong", &access.FieldError{Field: "TTL"}, open, open, false, false},
		{"and more than can be told", &billing.OverflowError{What: "account"}, open, open, false, false},
	} {
		s := newShop(t)
		s.policy[billing.OpAdmit], s.policy[billing.OpRenew] = c.admit, c.renew
		held := s.begun(t)
		s.ledger.before = always(c.err)

		in := intent()
		in.ID, in.Work = "hold-2", "work-2"
		ticket, err := s.Admit(t.Context(), in)
		if c.starts && (err != nil || !ticket.Unheld || !ticket.Until.IsZero() || ticket.Intent != in) ||
			!c.starts && (!errors.Is(err, c.err) || ticket != (billing.Ticket{})) {
			t.Errorf("%s: start: %+v, %v", c.rule, ticket, err)
		}
		next, err := s.Settle(t.Context(), held, used(0, 600))
		if !errors.Is(err, c.err) || next.Unheld != c.goes || next.Grace != c.goes || c.goes && !next.Until.Equal(second(1500)) || !c.goes && next != held {
			t.Errorf("%s: renew: %+v, %v", c.rule, next, err)
		}
		if last, err := s.Settle(t.Context(), held, lastly(used(0, 600))); !errors.Is(err, c.err) || last != held {
			t.Errorf("%s: what is over does not go on: %+v, %v", c.rule, last, err)
		}
		s.ledger.before = nil
		if next, err := s.Settle(t.Context(), next, used(0, 700)); err != nil || next.Grace || next.Unheld {
			t.Errorf("%s: grace ends with the first answer: %+v, %v", c.rule, next, err)
		}
	}
}

// Work that was let in without a hold gets one, and is charged for all of its time, as soon as the ledger is back.
func TestHoldOnceTheLedgerIsBack(t *testing.T) {
	s := newShop(t)
	s.policy[billing.OpAdmit], s.policy[billing.OpRenew] = billing.FailOpen, billing.FailOpen
	s.ledger.before = always(errAway)
	ticket, err := s.Admit(t.Context(), intent())
	if err != nil || !ticket.Unheld {
		t.Fatalf("%+v, %v", ticket, err)
	}
	if ticket, err = s.Settle(t.Context(), ticket, used(0, 0)); !errors.Is(err, errAway) || !ticket.Unheld || !ticket.Until.IsZero() {
		t.Fatalf("%+v, %v", ticket, err)
	}
	s.at(3000)
	s.ledger.before = nil
	u := used(0, 3000)
	u.TTL = time.Hour
	ticket, err = s.Settle(t.Context(), ticket, u)
	if err != nil || ticket.Unheld || !ticket.Until.Equal(second(6600)) || s.spent(t) != 3000 || s.standing(t).Holds != 1 {
		t.Fatalf("%+v, %v, charged %v", ticket, err, s.spent(t))
	}
	if _, err = s.Settle(t.Context(), ticket, lastly(used(3000, 3100))); err != nil || s.spent(t) != 3100 || s.standing(t).Holds != 0 {
		t.Errorf("%v, charged %v", err, s.spent(t))
	}
}

// Where the ledger refuses once it is back, the work is over, and charged for.
func TestRefusedOnceTheLedgerIsBack(t *testing.T) {
	s := newShop(t)
	s.policy[billing.OpAdmit] = billing.FailOpen
	s.ledger.before = always(errAway)
	ticket, err := s.Admit(t.Context(), intent())
	if err != nil {
		t.Fatal(err)
	}
	s.ledger.before, s.terms.Floor = nil, credit
	if _, err := s.Settle(t.Context(), ticket, used(0, 60)); refusal(err) != billing.RefusedCredit || s.spent(t) != 60 {
		t.Errorf("%v, charged %v", err, s.spent(t))
	}
}

// A hold that can't be placed for work that goes on without one is a fault as any other: the span is
// posted, the host has the say, and the same settle again places it.
func TestHoldThatCannotBePlaced(t *testing.T) {
	for _, policy := range []billing.FaultPolicy{billing.FailOpen, billing.FailClosed} {
		s := newShop(t)
		s.policy[billing.OpAdmit], s.policy[billing.OpRenew] = billing.FailOpen, policy
		s.ledger.before = only(0, errAway)
		ticket, err := s.Admit(t.Context(), intent())
		if err != nil {
			t.Fatal(err)
		}
		s.ledger.before = only(2, errAway)
		next, err := s.Settle(t.Context(), ticket, used(0, 90))
		if !errors.Is(err, errAway) || next.Grace != (policy == billing.FailOpen) || !next.Unheld || s.spent(t) != 90 {
			t.Errorf("open %v: %+v, %v, charged %v", policy == billing.FailOpen, next, err, s.spent(t))
		}
		next, err = s.Settle(t.Context(), next, used(0, 90))
		if err != nil || next.Grace || next.Unheld || next.Until.IsZero() || s.spent(t) != 90 || s.standing(t).Holds != 1 {
			t.Errorf("open %v: again: %+v, %v, charged %v", policy == billing.FailOpen, next, err, s.spent(t))
		}
	}
}

// The hold was placed at the start and its reply lost, and the terms have changed
// since: the next one has an id of its own. Two works never share a hold.
func TestLostHoldAtOtherTerms(t *testing.T) {
	s := newShop(t)
	s.policy[billing.OpAdmit] = billing.FailOpen
	s.ledger.after = only(0, billing.ErrUnknown)
	ticket, err := s.Admit(t.Context(), intent())
	if err != nil || !ticket.Unheld {
		t.Fatalf("%+v, %v", ticket, err)
	}
	s.terms.Estimate = 200
	ticket, err = s.Settle(t.Context(), ticket, used(0, 60))
	if err != nil || ticket.Unheld || ticket.Intent.ID == "hold-1" || s.standing(t).Held != 300 {
		t.Fatalf("%+v, %v, %+v", ticket, err, s.standing(t))
	}
	if _, err := s.Settle(t.Context(), ticket, lastly(used(60, 90))); err != nil || s.spent(t) != 90 {
		t.Errorf("%v, charged %v", err, s.spent(t))
	}
	if got := s.states(t); !slices.Equal(got, []billing.HoldState{billing.HoldOpen, billing.HoldSettled}) {
		t.Errorf("holds: %v", got) // that whose reply was lost runs out
	}
}

// An outage that lasted longer than the hold ends the hold, not the work: it
// gets another, if the account allows one. Where it fails closed it is over.
func TestOutageLongerThanTheHold(t *testing.T) {
	for _, policy := range []billing.FaultPolicy{billing.FailOpen, billing.FailClosed} {
		s := newShop(t)
		s.policy[billing.OpRenew] = policy
		ticket := s.begun(t)
		s.ledger.before = always(errAway)
		for n := 300; n <= 3000; n += 300 {
			s.at(n)
			ticket, _ = s.Settle(t.Context(), ticket, used(0, n))
		}
		s.ledger.before = nil
		s.at(3300)
		next, err := s.Settle(t.Context(), ticket, used(0, 3300))
		if s.spent(t) != 3300 {
			t.Errorf("charged %v", s.spent(t))
		}
		if policy == billing.FailClosed {
			if refusal(err) != billing.RefusedHoldEnded {
				t.Errorf("closed: %v", err)
			}
			continue
		}
		if err != nil || next.Unheld || !next.Until.Equal(second(4200)) || next.Intent.ID == ticket.Intent.ID {
			t.Fatalf("open: %+v, %v", next, err)
		}
		if _, err := s.Settle(t.Context(), next, lastly(used(3300, 3400))); err != nil || s.spent(t) != 3400 {
			t.Errorf("%v, charged %v", err, s.spent(t))
		}
		if got := s.states(t); !slices.Equal(got, []billing.HoldState{billing.HoldExpired, billing.HoldSettled}) {
			t.Errorf("holds: %v", got)
		}
	}
}

// The hold was placed at the start, its reply was lost, and it has run out by the time the ledger is back.
func TestLostHoldThatRanOut(t *testing.T) {
	for _, swept := range []bool{false, true} {
		s := newShop(t)
		s.policy[billing.OpAdmit] = billing.FailOpen
		s.ledger.after = only(0, billing.ErrUnknown)
		ticket, err := s.Admit(t.Context(), intent())
		if err != nil || !ticket.Unheld {
			t.Fatalf("%+v, %v", ticket, err)
		}
		s.at(2000)
		if swept {
			if _, err := s.ledger.Expire(t.Context(), 0, 10); err != nil {
				t.Fatal(err)
			}
		}
		ticket, err = s.Settle(t.Context(), ticket, used(0, 2000))
		if err != nil || ticket.Unheld || !ticket.Until.Equal(second(2900)) || s.standing(t).Holds != 1 {
			t.Fatalf("swept %v: %+v, %v, %+v", swept, ticket, err, s.standing(t))
		}
		if _, err := s.Settle(t.Context(), ticket, lastly(used(2000, 2100))); err != nil || s.spent(t) != 2100 {
			t.Errorf("%v, charged %v", err, s.spent(t))
		}
	}
}

// story is a work from its start to its end, told to a gate: each call is made again until it is answered.
func (s *shop) story(t testing.TB) {
	t.Helper()
	ticket := billing.Ticket{}
	until := func(call func() (billing.Ticket, error)) {
		t.Helper()
		for range 3 {
			next, err := call()
			if err == nil {
				ticket = next
				return
			}
			if refusal(err) != 0 {
				t.Fatal(err)
			}
		}
		t.Fatal("there is no answer")
	}
	ctx := t.Context()
	until(func() (billing.Ticket, error) { return s.Admit(ctx, intent()) })
	until(func() (billing.Ticket, error) { return s.Settle(ctx, ticket, used(0, 0)) })
	for n := 300; n <= 1800; n += 300 {
		s.at(n)
		until(func() (billing.Ticket, error) { return s.Settle(ctx, ticket, used(n-300, n)) })
	}
	s.at(1810)
	until(func() (billing.Ticket, error) { return s.Settle(ctx, ticket, lastly(used(1800, 1810))) })
}

// Whichever call does not arrive, and whichever reply is lost: repeated as it
// was it does what it should have done, once. (T-63, T-71)
func TestAnyLostCall(t *testing.T) {
	for _, lose := range []func(*faulty, int){
		func(f *faulty, n int) { f.before = only(n, errAway) },
		func(f *faulty, n int) { f.after = only(n, billing.ErrUnknown) },
		func(f *faulty, n int) { f.after = only(n, fmt.Errorf("%w: %w", billing.ErrUnknown, errAway)) },
	} {
		calls := 1
		for n := -1; n < calls; n++ {
			s := newShop(t)
			lose(s.ledger, n)
			s.story(t)
			if got := s.spent(t); got != 1810 {
				t.Errorf("call %d is lost: charged %v, want 1810", n, int64(got))
			}
			if st := s.standing(t); st.Holds != 0 || !slices.Equal(s.states(t), []billing.HoldState{billing.HoldSettled}) {
				t.Errorf("call %d is lost: %+v, %v", n, st, s.states(t))
			}
			if n < 0 {
				calls = len(s.ledger.calls)
			}
		}
		if calls != 9 {
			t.Errorf("the story has %d calls, want 9", calls)
		}
	}
}

// A settle that failed leaves the window to the next, and to the last: it is
// neither free nor charged twice. (T-63)
func TestFailedSettlesLeaveTheWindow(t *testing.T) {
	for _, lost := range []bool{false, true} {
		s := newShop(t)
		ticket := s.begun(t)
		s.ledger.before = always(errAway)
		if lost {
			s.ledger.before, s.ledger.after = nil, always(billing.ErrUnknown)
		}
		for n := 60; n < 600; n += 60 {
			if _, err := s.Settle(t.Context(), ticket, used(0, n)); err == nil {
				t.Fatal("it was answered")
			}
		}
		s.ledger.before, s.ledger.after = nil, nil
		if _, err := s.Settle(t.Context(), ticket, lastly(used(0, 600))); err != nil || s.spent(t) != 600 {
			t.Errorf("replies lost %v: %v, charged %v", lost, err, s.spent(t))
		}
	}
}
