package billing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// Asking decides as admitting would, and only reads.
func TestTillAsk(t *testing.T) {
	for _, c := range []struct {
		rule  string
		terms billing.Terms
		other bool // another work has a hold
		want  billing.AdmitReason
	}{
		{"there is credit", billing.Terms{Estimate: 100, InFlight: 1}, false, 0},
		{"there is not enough", billing.Terms{Estimate: 100, InFlight: 1, Floor: credit}, false, billing.RefusedCredit},
		{"too much is in flight", billing.Terms{Estimate: 100, InFlight: 1}, true, billing.RefusedInFlight},
		{"what is held is not there to be spent", billing.Terms{Estimate: credit / 2, InFlight: 2}, true, billing.RefusedCredit},
		{"the day's cap is reached", billing.Terms{Estimate: 100, InFlight: 2, DailyCap: 150}, true, billing.RefusedDailyCap},
		{"the zero terms admit nothing", billing.Terms{}, false, billing.RefusedInFlight},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newShop(t)
			s.terms = c.terms
			if c.other {
				if _, err := s.Admit(t.Context(), intent()); err != nil {
					t.Fatal(err)
				}
			}
			in := intent()
			in.ID, in.Work = "hold-2", "work-2"
			before, calls := s.standing(t), len(s.ledger.calls)
			for range 2 {
				if err := s.Ask(t.Context(), in); refusal(err) != c.want || (err == nil) != (c.want == 0) {
					t.Errorf("Ask: %v", err)
				}
			}
			if after := s.standing(t); after != before || len(s.ledger.calls) != calls {
				t.Errorf("%+v became %+v, by %q", before, after, s.ledger.calls[calls:])
			}
			if _, err := s.Admit(t.Context(), in); refusal(err) != c.want {
				t.Errorf("Admit: %v", err)
			}
		})
	}
}

// What has no price does not start; where nothing is said of what will be used, the account alone is asked.
func TestTillAskAboutTheAccount(t *testing.T) {
	s := newShop(t)
	in := intent()
	in.Meter = "gpu"
	if err := s.Ask(t.Context(), in); !errors.As(err, new(*billing.NoTariffError)) {
		t.Errorf("%v", err)
	}
	in.Meter = ""
	if err := s.Ask(t.Context(), in); err != nil {
		t.Errorf("%v", err)
	}
	in.Payer = "nobody in particular"
	if err := s.Ask(t.Context(), in); refusal(err) != billing.RefusedCredit {
		t.Errorf("an account that is not there: %v", err)
	}
}

// away is a ledger whose balances can't be read.
type away struct {
	billing.Ledger
	err error
}

func (a away) Balance(context.Context, access.UserID) (billing.Balance, error) {
	return billing.Balance{}, a.err
}

// What can't be found out is answered as where work starts: by the host's policy, unless it is an answer.
func TestTillAskOfALedgerThatIsAway(t *testing.T) {
	bad := &access.FieldError{Field: "payer"}
	for _, c := range []struct {
		rule   string
		err    error
		policy billing.FaultPolicy
		want   error
	}{
		{"closed is closed", errAway, billing.FailClosed, errAway},
		{"open is open", errAway, billing.FailOpen, nil},
		{"a driver's own words are a fault too", errDriver, billing.FailOpen, nil},
		{"a field that is wrong is none", bad, billing.FailOpen, bad},
	} {
		var ops []billing.Operation
		till, err := billing.NewTill(billing.TillConfig{
			Ledger: away{err: c.err}, Terms: func(access.Plan) billing.Terms { return billing.Terms{} },
			OnFault: func(op billing.Operation) billing.FaultPolicy { ops = append(ops, op); return c.policy },
		})
		if err != nil {
			t.Fatal(err)
		}
		in := intent()
		in.Meter = ""
		if err := till.Ask(t.Context(), in); err != c.want {
			t.Errorf("%s: %v", c.rule, err)
		}
		if isFault := c.err != error(bad); isFault != slices.Equal(ops, []billing.Operation{billing.OpAdmit}) {
			t.Errorf("%s: the policy was asked for %v", c.rule, ops)
		}
	}
}

// broke is a gate that is no Asker, and writes down what it is asked to do.
type broke struct {
	billing.Gate
	admit, release error
	calls          []string
}

func (b *broke) Admit(_ context.Context, in billing.Intent) (billing.Ticket, error) {
	b.calls = append(b.calls, "admit "+string(in.ID))
	return billing.Ticket{Intent: in}, b.admit
}

func (b *broke) Release(ctx context.Context, t billing.Ticket) error {
	b.calls = append(b.calls, "release "+string(t.Intent.ID))
	return errors.Join(b.release, ctx.Err())
}

// declining is an Asker that wraps a gate which is none.
type declining struct{ *broke }

func (d declining) Ask(context.Context, billing.Intent) error {
	return fmt.Errorf("wrapped: %w", errors.ErrUnsupported)
}

// A gate that can't be asked admits, and gives it back at once, whatever has become of the caller.
func TestAskByAdmitting(t *testing.T) {
	no := &billing.RefusedError{Payer: "ann", Decision: billing.AdmitDecision{Reason: billing.RefusedCredit}}
	for _, c := range []struct {
		rule           string
		admit, release error
		want           error
		calls          []string
	}{
		{"a yes is given back", nil, nil, nil, []string{"admit hold-1", "release hold-1"}},
		{"a yes that can't be given back is one, and expires", nil, errAway, nil, []string{"admit hold-1", "release hold-1"}},
		{"a no is a no", no, nil, no, []string{"admit hold-1"}},
		{"no answer may be a yes, and is given back", errAway, nil, errAway, []string{"admit hold-1", "release hold-1"}},
	} {
		for _, wrapped := range []bool{false, true} {
			t.Run(c.rule, func(t *testing.T) {
				b := &broke{admit: c.admit, release: c.release}
				var gate billing.Gate = b
				if wrapped {
					gate = declining{b}
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := billing.Ask(ctx, gate, intent()); err != c.want || !slices.Equal(b.calls, c.calls) {
					t.Errorf("%v, by %q", err, b.calls)
				}
			})
		}
	}
	if err := billing.Ask(t.Context(), billing.Free{}, intent()); err != nil {
		t.Errorf("Free: %v", err)
	}
}
