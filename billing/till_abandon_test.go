package billing_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// abandon gives work-1 up, as of the second through.
func (s *shop) abandon(t testing.TB, through int) error {
	t.Helper()
	return s.Abandon(t.Context(), billing.Abandoned{Work: "work-1", Meter: billing.MeterRuntime, Through: second(through)})
}

// What was at work when its process died is charged up to when it was surely
// at work and an interval, once; should the process come back, nothing more.
func TestAbandon(t *testing.T) {
	for _, c := range []struct {
		rule    string
		story   func(*shop, billing.Ticket) billing.Ticket
		through int
		want    billing.Micros
		state   billing.HoldState
	}{
		{"what has just begun", func(_ *shop, k billing.Ticket) billing.Ticket { return k }, 360, 360, billing.HoldSettled},
		{"what was settled before", func(s *shop, k billing.Ticket) billing.Ticket {
			s.at(300)
			k, _ = s.Settle(t.Context(), k, used(0, 300))
			return k
		}, 660, 660, billing.HoldSettled},
		{"what was settled later than that", func(s *shop, k billing.Ticket) billing.Ticket {
			k, _ = s.Settle(t.Context(), k, used(0, 300))
			return k
		}, 200, 300, billing.HoldSettled},
		{"what has run out since", func(s *shop, k billing.Ticket) billing.Ticket {
			s.at(5000)
			_, _ = s.ledger.Expire(t.Context(), 0, 10)
			return k
		}, 360, 360, billing.HoldExpired},
	} {
		s := newShop(t)
		ticket := c.story(s, s.begun(t))
		for range 3 { // twice is once
			if err := s.abandon(t, c.through); err != nil {
				t.Fatalf("%s: %v", c.rule, err)
			}
		}
		if got := s.spent(t); got != c.want || s.standing(t).Holds != 0 || !slices.Equal(s.states(t), []billing.HoldState{c.state}) {
			t.Errorf("%s: charged %v, want %v; holds %v", c.rule, int64(got), int64(c.want), s.states(t))
		}
		for _, u := range []billing.Usage{used(0, 700), used(300, 700), used(int(c.want), 700), used(int(c.want), int(c.want)), lastly(used(0, 700)), lastly(used(int(c.want), 700))} {
			if _, err := s.Settle(t.Context(), ticket, u); refusal(err) != billing.RefusedClosed {
				t.Errorf("%s: the process comes back with %v to %v: %v", c.rule, u.From, u.To, err)
			}
		}
		if got := s.spent(t); got != c.want {
			t.Errorf("%s: and is charged for it: %v", c.rule, int64(got))
		}
		if err := s.Release(t.Context(), ticket); err != nil && !errors.Is(err, billing.ErrClosed) {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

// The last settle's reply was lost with the process: nothing is charged twice,
// and the same settle again does not go on as if the work were still held.
func TestAbandonAfterALostSettle(t *testing.T) {
	s := newShop(t)
	ticket := s.begun(t)
	s.ledger.after = only(2, billing.ErrUnknown)
	if _, err := s.Settle(t.Context(), ticket, used(0, 300)); !errors.Is(err, billing.ErrUnknown) {
		t.Fatal(err)
	}
	if err := s.abandon(t, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), ticket, used(0, 300)); refusal(err) != billing.RefusedHoldEnded || s.spent(t) != 300 {
		t.Errorf("%v, charged %v", err, s.spent(t))
	}
}

// Of what never began nothing is charged, whatever has become of its hold, and it does not begin any more.
func TestAbandonWhatNeverBegan(t *testing.T) {
	s := newShop(t)
	if err := s.abandon(t, 100); err != nil {
		t.Errorf("of what is not known: %v", err)
	}
	ticket, err := s.Admit(t.Context(), intent())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.abandon(t, 100); err != nil {
			t.Fatal(err)
		}
	}
	if s.spent(t) != 0 || !slices.Equal(s.states(t), []billing.HoldState{billing.HoldReleased}) {
		t.Errorf("charged %v, holds %v", s.spent(t), s.states(t))
	}
	if _, err := s.Settle(t.Context(), ticket, used(0, 0)); refusal(err) != billing.RefusedClosed {
		t.Errorf("it begins: %v", err)
	}
	if s.spent(t) != 0 {
		t.Errorf("charged %v", s.spent(t))
	}
}

// Giving up may itself be cut short anywhere, and is then done again.
func TestAbandonCutShort(t *testing.T) {
	for _, begun := range []bool{false, true} {
		for n := range 6 {
			s := newShop(t)
			if begun {
				s.begun(t)
			} else if _, err := s.Admit(t.Context(), intent()); err != nil {
				t.Fatal(err)
			}
			n += len(s.ledger.calls)
			s.ledger.before = only(n, errAway)
			if n%2 == 0 {
				s.ledger.before, s.ledger.after = nil, only(n, billing.ErrUnknown)
			}
			if err := s.abandon(t, 100); err != nil {
				if err := s.abandon(t, 100); err != nil {
					t.Fatal(err)
				}
			}
			want := map[bool]billing.Micros{false: 0, true: 100}[begun]
			if s.spent(t) != want || s.standing(t).Holds != 0 {
				t.Errorf("begun %v, cut at call %d: charged %v, %+v", begun, n, s.spent(t), s.standing(t))
			}
		}
	}
}

// A work may have had several holds; all of them are ended.
func TestAbandonEndsEveryHold(t *testing.T) {
	s := newShop(t)
	s.begun(t)
	s.at(1)
	in := intent()
	in.ID = "hold-1+"
	if _, err := s.Admit(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := s.abandon(t, 100); err != nil || s.spent(t) != 100 || s.standing(t).Holds != 0 {
		t.Errorf("%v, charged %v, %+v", err, s.spent(t), s.standing(t))
	}
}

// A hold that was given back, or is not there for what was done, does not
// swallow the end of the work: it is charged without it.
func TestAbandonWithoutAHold(t *testing.T) {
	for _, c := range []struct {
		rule  string
		story func(t *testing.T, s *shop, k billing.Ticket)
		want  []billing.HoldState
	}{
		{"it was released", func(t *testing.T, s *shop, k billing.Ticket) {
			if err := s.Release(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}, []billing.HoldState{billing.HoldReleased}},
		{"it is released while the work is given up", func(t *testing.T, s *shop, k billing.Ticket) {
			n := len(s.ledger.calls)
			s.ledger.before = func(m int) error {
				if m == n+2 { // marks and holds have been read
					_, err := s.ledger.Ledger.Release(t.Context(), k.Intent.ID)
					return err
				}
				return nil
			}
		}, []billing.HoldState{billing.HoldReleased}},
		{"the newer was released, and the older goes on", func(t *testing.T, s *shop, k billing.Ticket) {
			s.at(1)
			in := intent()
			in.ID = "hold-1+"
			other, err := s.Admit(t.Context(), in)
			if err == nil {
				err = s.Release(t.Context(), other)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []billing.HoldState{billing.HoldSettled, billing.HoldReleased}},
		{"one of another meter is newer", func(t *testing.T, s *shop, k billing.Ticket) {
			s.at(1)
			in := intent()
			in.ID, in.Meter = "hold-of-gpu", "gpu"
			r := billing.HoldRequest{ID: in.ID, Use: billing.Use{Meter: "gpu", Resource: in.Work, Payer: in.Payer}, Terms: s.terms, TTL: in.TTL}
			if _, err := s.ledger.Hold(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}, []billing.HoldState{billing.HoldSettled, billing.HoldReleased}},
	} {
		s := newShop(t)
		c.story(t, s, s.begun(t))
		for range 2 {
			if err := s.abandon(t, 360); err != nil {
				t.Fatalf("%s: %v", c.rule, err)
			}
			if got := s.spent(t); got != 360 || s.standing(t).Holds != 0 || !slices.Equal(s.states(t), c.want) {
				t.Errorf("%s: charged %v, want 360; holds %v", c.rule, int64(got), s.states(t))
			}
		}
	}
}

// Who pays for a work that has begun and never had a hold is known by what it
// has posted: its account can be closed too. What an earlier program has posted does not say so.
func TestAbandonOfWhatNeverHadAHold(t *testing.T) {
	for noted, want := range map[bool]billing.Micros{true: 100, false: 60} {
		s := newShop(t)
		s.terms.InFlight = 0 // so that it gets no hold once the ledger is back
		unheld := billing.Ticket{Intent: intent(), Unheld: true}
		if _, err := s.Settle(t.Context(), unheld, used(0, 60)); refusal(err) != billing.RefusedInFlight {
			t.Fatal(err)
		}
		key := billing.MarkKey{Resource: "work-1", Meter: billing.MeterRuntime}
		till := s.Till
		if !noted {
			tariffs, err := billing.NewTariffs(billing.Priced{Meter: billing.MeterRuntime, Rate: perSecond})
			if err != nil {
				t.Fatal(err)
			}
			config := billing.TillConfig{Ledger: nameless{s.ledger}, Tariffs: tariffs, Terms: func(access.Plan) billing.Terms { return s.terms }}
			if till, err = billing.NewTill(config); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := till.Abandon(t.Context(), billing.Abandoned{Work: "work-1", Meter: billing.MeterRuntime, Through: second(100)}); err != nil {
				t.Error(err)
			}
			marks, err := s.ledger.Marks(t.Context(), []billing.MarkKey{key})
			if err != nil || marks[0].Closed != noted || s.spent(t) != want || len(s.states(t)) != 0 {
				t.Errorf("noted %v: charged %v, want %v, mark %+v, %v", noted, s.spent(t), want, marks, err)
			}
		}
		if _, err := s.Settle(t.Context(), unheld, used(60, 120)); noted && refusal(err) != billing.RefusedClosed {
			t.Errorf("the process comes back: %v", err)
		}
	}
}

// nameless is a ledger whose watermarks were written by a program that did not note whose they are.
type nameless struct{ billing.Ledger }

func (l nameless) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	marks, err := l.Ledger.Marks(ctx, keys)
	for i := range marks {
		marks[i].Of = billing.Use{}
	}
	return marks, err
}
