package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// Credit is given, some of it is held for work, and what the work used is
// charged once, however often it is posted.
func ExampleDB_Ledger() {
	ctx := context.Background()
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	now := noon
	ledger := memory.New(&memory.Options{Now: func() time.Time { return now }}).Ledger()

	_, err := ledger.Grant(ctx, billing.Grant{ID: "invoice-1", Payer: "alice", Amount: 1 * billing.Unit, Source: "top-up"})
	fmt.Println("granted:", err)

	use := billing.Use{Meter: billing.MeterRuntime, Resource: "work-1", Payer: "alice", Session: "s1"}
	hold, err := ledger.Hold(ctx, billing.HoldRequest{
		ID: "hold-1", Use: use, TTL: 15 * time.Minute,
		Terms: billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 50},
	})
	fmt.Println("held:", hold.Estimate, hold.Until.Format(time.TimeOnly), err)

	now = noon.Add(10 * time.Minute)
	post := billing.Post{
		Use: use, From: noon, To: now, Quantity: (10 * time.Minute).Microseconds(),
		Rate: billing.Rate{Price: 600_000, Per: time.Hour.Microseconds()}, Hold: hold.ID, Last: true,
	}
	for range 2 {
		posted, err := ledger.Post(ctx, post)
		fmt.Println("posted:", posted[0].Charged, posted[0].Hold.State, posted[0].Repeated, err)
	}

	balance, err := ledger.Balance(ctx, "alice")
	fmt.Println("left:", balance.Spendable(), err)

	_, err = ledger.Hold(ctx, billing.HoldRequest{
		ID: "hold-2", Use: use, TTL: 15 * time.Minute,
		Terms: billing.Terms{Estimate: 20_000, Floor: 1 * billing.Unit, InFlight: 50},
	})
	var refused *billing.RefusedError
	fmt.Println(errors.As(err, &refused), refused.Decision.Reason)
	// Output:
	// granted: <nil>
	// held: 0.02 12:15:00 <nil>
	// posted: 0.1 settled false <nil>
	// posted: 0.1 settled true <nil>
	// left: 0.9 <nil>
	// true out of credit
}
