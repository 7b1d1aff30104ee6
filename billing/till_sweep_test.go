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

// sweeps is a ledger that answers what there is to sweep.
type sweeps struct {
	billing.Ledger
	answers []billing.ExpireReport
	err     error // after them
	asked   []time.Duration
}

func (l *sweeps) Expire(_ context.Context, lateness time.Duration, limit int) (rep billing.ExpireReport, err error) {
	if limit != billing.MaxPosts {
		return rep, fmt.Errorf("asked for %d", limit)
	}
	l.asked = append(l.asked, lateness)
	if len(l.answers) == 0 {
		return rep, l.err
	}
	rep, l.answers = l.answers[0], l.answers[1:]
	return rep, nil
}

// A sweep ends what is over: holds nobody renewed, and grants a while after they have expired.
func TestSweep(t *testing.T) {
	for _, c := range []struct {
		lateness time.Duration
		kept     int // hours after it has expired that the grant still has something left
	}{{0, 23}, {time.Hour, 0}} {
		s := newShop(t)
		till, err := billing.NewTill(billing.TillConfig{
			Ledger: s.ledger, Terms: func(access.Plan) billing.Terms { return s.terms }, Lateness: c.lateness,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.begun(t)
		g := billing.Grant{ID: "monthly", Payer: "ann", Amount: 50, Source: "monthly", ExpiresAt: second(3600)}
		if _, err := s.ledger.Grant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		left := func() int {
			if err := till.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			b, err := s.ledger.Balance(t.Context(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			return len(b.Grants)
		}
		s.at(899)
		if left() != 2 || !slices.Equal(s.states(t), []billing.HoldState{billing.HoldOpen}) {
			t.Errorf("swept too early: holds %v", s.states(t))
		}
		s.at(3600 + c.kept*3600)
		if left() != 2 || !slices.Equal(s.states(t), []billing.HoldState{billing.HoldExpired}) {
			t.Errorf("holds %v", s.states(t))
		}
		s.at(3600 + c.kept*3600 + 3600)
		if n := left(); n != 1 {
			t.Errorf("%d grants have something left, want the other", n)
		}
	}
}

// A sweep goes on until there is no more, or until somebody else is at the rest.
func TestSweepGoesOn(t *testing.T) {
	more := billing.ExpireReport{Holds: 1, Capped: true}
	for _, c := range []struct {
		rule    string
		answers []billing.ExpireReport
		err     error
		asked   int
	}{
		{"nothing to do", []billing.ExpireReport{{}}, nil, 1},
		{"as long as there is more", []billing.ExpireReport{more, {Grants: 1, Capped: true}, {Holds: 1}}, nil, 3},
		{"not where it can do nothing about it", []billing.ExpireReport{more, {Capped: true}, more}, nil, 2},
		{"until an error", []billing.ExpireReport{more}, errAway, 2},
	} {
		l := &sweeps{answers: c.answers, err: c.err}
		till, err := billing.NewTill(billing.TillConfig{Ledger: l, Terms: func(access.Plan) billing.Terms { return billing.Terms{} }})
		if err != nil {
			t.Fatal(err)
		}
		if err := till.Sweep(t.Context()); !errors.Is(err, c.err) || len(l.asked) != c.asked || l.asked[0] != 24*time.Hour {
			t.Errorf("%s: %v, asked %v", c.rule, err, l.asked)
		}
	}
}
