package billing_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// refusal is why err refuses; 0 where it does not.
func refusal(err error) billing.AdmitReason {
	var no *billing.RefusedError
	if errors.As(err, &no) {
		return no.Decision.Reason
	}
	return 0
}

// A run of an hour on a hold of 15 minutes, renewed every five, costs an hour.
func TestAnHourIsChargedAsAnHour(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	for n := 300; n < 3600; n += 300 {
		s.at(n)
		next, err := s.Settle(t.Context(), ticket, used(n-300, n))
		if err != nil || !next.Until.Equal(second(n+900)) || next.Unheld {
			t.Fatalf("at %d: %+v, %v", n, next, err)
		}
		ticket = next
		if st := s.standing(t); st.Held != 100 || st.Holds != 1 {
			t.Fatalf("at %d: %+v", n, st)
		}
	}
	s.at(3600)
	if _, err := s.Settle(t.Context(), ticket, lastly(used(3300, 3600))); err != nil {
		t.Fatal(err)
	}
	if got := s.spent(t); got != 3600 {
		t.Errorf("an hour costs %v micros, want 3600", int64(got))
	}
	if st := s.standing(t); st.Holds != 0 || !slices.Equal(s.states(t), []billing.HoldState{billing.HoldSettled}) {
		t.Errorf("something is left: %+v, %v", st, s.states(t))
	}
}

// A hold that is not renewed in time can't go on; what was used is charged all the same.
func TestWithoutRenewal(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	s.at(900)
	next, err := s.Settle(t.Context(), ticket, used(0, 900))
	if refusal(err) != billing.RefusedHoldEnded || s.spent(t) != 900 {
		t.Fatalf("%+v, %v, charged %v", next, err, s.spent(t))
	}
	s.at(4000)
	if _, err := s.Settle(t.Context(), next, lastly(used(900, 930))); err != nil {
		t.Errorf("what was used after: %v", err)
	}
	if s.spent(t) != 930 || !slices.Equal(s.states(t), []billing.HoldState{billing.HoldExpired}) {
		t.Errorf("charged %v, hold %v", s.spent(t), s.states(t))
	}
}

// Running out while it runs: the span is charged, into debt, and the next start is refused.
func TestRunningOut(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	s.at(600)
	if _, err := s.Settle(t.Context(), ticket, used(0, credit+5)); refusal(err) != billing.RefusedDebt {
		t.Errorf("%v", err)
	}
	if s.spent(t) != credit+5 || s.standing(t).Debt != 5 {
		t.Errorf("charged %v, %+v", s.spent(t), s.standing(t))
	}
	in := intent()
	in.ID, in.Work = "hold-2", "work-2"
	if _, err := s.Admit(t.Context(), in); refusal(err) != billing.RefusedDebt {
		t.Errorf("the next: %v", err)
	}
}

// What has no price does not start, and the ledger is not even asked.
func TestNoTariffNoStart(t *testing.T) {
	s := newShop(t)
	s.policy[billing.OpAdmit] = billing.FailOpen
	s.ledger.before = always(errAway)
	in := intent()
	in.Meter = "gpu"
	var none *billing.NoTariffError
	if ticket, err := s.Admit(t.Context(), in); !errors.As(err, &none) || none.Meter != "gpu" || ticket != (billing.Ticket{}) {
		t.Errorf("%+v, %v", ticket, err)
	}
	if len(s.ledger.calls) != 0 {
		t.Errorf("the ledger was asked: %q", s.ledger.calls)
	}
	s.policy[billing.OpRenew] = billing.FailOpen
	ticket := billing.Ticket{Intent: in, Until: second(900)}
	if next, err := s.Settle(t.Context(), ticket, used(0, 5)); !errors.As(err, &none) || next != ticket {
		t.Errorf("a price that was taken off the list is no fault of the ledger: %+v, %v", next, err)
	}
}

// Terms are the payer's plan's, asked for every decision, and no longer than that.
func TestTermsAreAskedAnew(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	s.terms.Floor = credit
	if _, err := s.Settle(t.Context(), ticket, used(0, 5)); refusal(err) != billing.RefusedCredit {
		t.Errorf("%v", err)
	}
	if !slices.Equal(s.plans, []access.Plan{"pro", "pro", "pro"}) {
		t.Errorf("asked for %q", s.plans)
	}
}

// What a ticket asks for is what is posted: the session's payer, session and project, and nothing of who asked. (T-56, S-15)
func TestWhatIsPosted(t *testing.T) {
	s := newShop(t)
	in := intent()
	in.Project, in.Class = "web", "large"
	ticket, err := s.Admit(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(billing.Ticket{Intent: in, Until: second(900)}, ticket); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Settle(t.Context(), ticket, lastly(used(0, 7))); err != nil {
		t.Fatal(err)
	}
	events, err := s.ledger.Unexported(t.Context(), 10)
	if err != nil || len(events) != 1 {
		t.Fatalf("%+v, %v", events, err)
	}
	want := billing.Use{Meter: "runtime", Class: "large", Resource: "work-1", Payer: "ann", Session: "session-1", Project: "web"}
	if e := events[0]; e.Use != want || e.Quantity != 7_000_000 || e.Amount != 7 {
		t.Errorf("%+v", e)
	}
}

// A hold may be prolonged for another time than it was placed for.
func TestUsageTTL(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	u := used(0, 10)
	u.TTL = time.Hour
	if next, err := s.Settle(t.Context(), ticket, u); err != nil || !next.Until.Equal(second(3600)) {
		t.Errorf("%+v, %v", next, err)
	}
}

// Settles that overlap charge every second once, whoever comes first. (T-62)
func TestOverlappingSettles(t *testing.T) {
	for range 20 {
		s := newShop(t)
		ticket := s.begun(t)
		s.at(60)
		var all sync.WaitGroup
		for _, u := range []billing.Usage{used(0, 60), used(0, 45), used(0, 60), used(0, 50)} {
			all.Go(func() {
				if _, err := s.Settle(t.Context(), ticket, u); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := s.spent(t); got != 60 {
			t.Fatalf("charged %v, want 60", int64(got))
		}
	}
}

// A span that begins after the watermark would leave something out: nothing is posted.
func TestNothingIsLeftOut(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	var mark *billing.MarkError
	if _, err := s.Settle(t.Context(), ticket, used(5, 60)); !errors.As(err, &mark) || !mark.Through.Equal(noon) {
		t.Errorf("%v", err)
	}
	if s.spent(t) != 0 {
		t.Errorf("charged %v", s.spent(t))
	}
}

func TestRelease(t *testing.T) { // T-61
	s := newShop(t)
	ticket, err := s.Admit(t.Context(), intent())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Release(t.Context(), ticket); err != nil {
			t.Error(err)
		}
	}
	if st := s.standing(t); st.Held != 0 || s.spent(t) != 0 {
		t.Errorf("%+v, charged %v", st, s.spent(t))
	}
	if _, err := s.Admit(t.Context(), intent()); !errors.Is(err, billing.ErrClosed) {
		t.Errorf("what was released is let in again: %v", err)
	}
	other := intent()
	other.ID = "hold-of-nobody"
	if err := s.Release(t.Context(), billing.Ticket{Intent: other}); err != nil {
		t.Errorf("what never was held: %v", err)
	}
	s.ledger.before = always(errAway)
	if err := s.Release(t.Context(), billing.Ticket{Intent: other, Free: true}); err != nil {
		t.Errorf("what is free asks no ledger: %v", err)
	}
}

// Of 64 who ask at once with credit for one, one is let in; once there is credit for another, one more. (case 61)
func TestParallelAdmissions(t *testing.T) {
	s := newShop(t)
	s.terms = billing.Terms{Estimate: 100, Floor: credit - 101, InFlight: 1000}
	ask := func(round string) (in int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for n := range 64 {
			all.Go(func() {
				i := intent()
				i.ID, i.Work = billing.HoldID(round)+billing.HoldID(rune('A'+n)), round+string(rune('A'+n))
				_, err := s.Admit(t.Context(), i)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					in++
				} else if refusal(err) != billing.RefusedCredit {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return in
	}
	if n := ask("first"); n != 1 {
		t.Errorf("%d were let in with credit for one", n)
	}
	for range 64 {
		if _, err := s.ledger.Grant(t.Context(), billing.Grant{ID: "refill", Payer: "ann", Amount: 100, Source: "top-up"}); err != nil {
			t.Error(err)
		}
	}
	if n := ask("second"); n != 1 {
		t.Errorf("%d were let in with credit for one more", n)
	}
}

func TestNewTillRefuses(t *testing.T) {
	terms := func(access.Plan) billing.Terms { return billing.Terms{} }
	for field, c := range map[string]billing.TillConfig{
		"Ledger":   {Terms: terms},
		"Terms":    {Ledger: newShop(t).ledger},
		"Lateness": {Ledger: newShop(t).ledger, Terms: terms, Lateness: -1},
	} {
		var invalid *access.FieldError
		if till, err := billing.NewTill(c); till != nil || !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
