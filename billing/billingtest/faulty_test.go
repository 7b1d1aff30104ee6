package billingtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/billing/billingtest"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

func ExampleFaulty() {
	ledger := billingtest.Faulty(memory.New(nil).Ledger(), func(c billingtest.Call) billingtest.Fault {
		return billingtest.Fault{Lose: c.Method == billingtest.Grant && c.Nth == 1}
	})
	for range 2 { // a call whose reply was lost is just made again
		g, err := ledger.Grant(context.Background(), purchase)
		fmt.Println(g.Remaining, errors.Is(err, billing.ErrUnknown))
	}
	b, err := ledger.Balance(context.Background(), "alice")
	fmt.Println(b.Available, err)
	// Output:
	// 0 true
	// 0.0001 false
	// 0.0001 <nil>
}

var (
	errFault = errors.New("test: a fault")
	purchase = billing.Grant{ID: "purchase", Payer: "alice", Amount: 100, Source: "top-up"}
)

// Without faults the wrapper is a ledger as good as the one it wraps.
func TestFaultless(t *testing.T) {
	billingtest.TestLedger(t, func(_ *testing.T, clock *billingtest.Clock) billing.Ledger {
		return billingtest.Faulty(memory.New(&memory.Options{Now: clock.Now}).Ledger(), nil)
	}, nil)
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		rule  string
		fault func(shut chan struct{}) billingtest.Fault
		want  error
		done  bool
	}{
		{"a call that fails is not made", func(chan struct{}) billingtest.Fault { return billingtest.Fault{Fail: errFault} }, errFault, false},
		{"one that waits is not made where its context ends first", func(shut chan struct{}) billingtest.Fault { return billingtest.Fault{Wait: shut} }, context.DeadlineExceeded, false},
		{"one whose reply waits was made, for all that its caller knows", func(shut chan struct{}) billingtest.Fault { return billingtest.Fault{WaitReply: shut} }, billing.ErrUnknown, true},
		{"one whose reply is lost was made, for all that its caller knows", func(chan struct{}) billingtest.Fault { return billingtest.Fault{Lose: true} }, billing.ErrUnknown, true},
		{"one that has waited is made", func(shut chan struct{}) billingtest.Fault {
			close(shut)
			return billingtest.Fault{Wait: shut, WaitReply: shut}
		}, nil, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, fault := memory.New(nil).Ledger(), c.fault(make(chan struct{}))
				ledger := billingtest.Faulty(inner, func(billingtest.Call) billingtest.Fault { return fault })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := ledger.Grant(ctx, purchase); !errors.Is(err, c.want) {
					t.Errorf("Grant: error %v, want %v", err, c.want)
				}
				b, err := inner.Balance(t.Context(), "alice")
				if err != nil || (b.Available == 100) != c.done {
					t.Errorf("%+v, %v: want it done: %v", b, err, c.done)
				}
			})
		})
	}
}

// Every method is put to the script, numbered, and what fails is not done.
func TestEveryMethodCanFail(t *testing.T) {
	inner := memory.New(nil).Ledger()
	var seen []billingtest.Call
	fault := billingtest.Fault{Fail: errFault}
	ledger := billingtest.Faulty(inner, func(c billingtest.Call) billingtest.Fault {
		seen = append(seen, c)
		return fault
	})
	ctx := t.Context()
	use := billing.Use{Meter: "m", Resource: "w", Payer: "alice"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	calls := []func() error{
		func() error {
			_, err := ledger.Hold(ctx, billing.HoldRequest{ID: "h", Use: use, Terms: billing.Terms{InFlight: 1, Floor: -1}, TTL: time.Hour})
			return err
		},
		func() error { _, err := ledger.Post(ctx, billing.Post{Use: use, From: at, To: at}); return err },
		func() error { _, err := ledger.Release(ctx, "h"); return err },
		func() error { _, err := ledger.Grant(ctx, purchase); return err },
		func() error { _, err := ledger.Balance(ctx, "alice"); return err },
		func() error {
			_, err := ledger.Statement(ctx, billing.StatementQuery{Payer: "alice", Limit: 1})
			return err
		},
		func() error { _, err := ledger.Payers(ctx, "", 1); return err },
		func() error { _, err := ledger.Marks(ctx, nil); return err },
		func() error { _, err := ledger.Holds(ctx, "w"); return err },
		func() error { _, err := ledger.Unexported(ctx, 1); return err },
		func() error { return ledger.Exported(ctx, nil) },
		func() error { _, err := ledger.Expire(ctx, 0, 1); return err },
	}
	for i, call := range calls {
		if err := call(); !errors.Is(err, errFault) {
			t.Errorf("call %d: error %v, want the fault", i, err)
		}
	}
	if all, err := inner.Payers(ctx, "", 10); err != nil || len(all) != 0 {
		t.Errorf("calls that failed were made: %v, %v", all, err)
	}
	fault = billingtest.Fault{Lose: true}
	unknown := 0
	for i, call := range calls {
		err := call()
		if err == nil {
			t.Errorf("call %d has a reply", i)
		}
		if errors.Is(err, billing.ErrUnknown) {
			unknown++
		}
	}
	if unknown != 6 {
		t.Errorf("%d calls have an unknown outcome, want the six that write", unknown)
	}
	methods := map[billingtest.Method]bool{}
	for i, c := range seen {
		if methods[c.Method] = true; c.Seq != i+1 || c.Nth != i/len(calls)+1 {
			t.Errorf("%s is number %d and its %d.", c.Method, c.Seq, c.Nth)
		}
	}
	if len(methods) != len(calls) || len(seen) != 2*len(calls) {
		t.Errorf("the script was asked about %d methods in %d calls", len(methods), len(seen))
	}
	if seen[0].Request.ID != "h" || seen[1].Posts[0].Use != use || seen[2].Hold != "h" || seen[3].Grant != purchase || seen[4].Payer != "alice" {
		t.Errorf("the script is not told what was asked: %+v", seen[:5])
	}
}
