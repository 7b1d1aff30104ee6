package billing_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// What is left of a micro is carried: a price of a third of a micro is charged
// every third time, and not rounded.
func ExampleRate_Charge() {
	rate := billing.Rate{Price: 1, Per: 3}
	var left billing.Remainder
	for range 4 {
		var amount billing.Micros
		amount, left, _ = rate.Charge(1, left)
		fmt.Println(amount, left.N)
	}
	// Output:
	// 0 1
	// 0 2
	// 0.000001 0
	// 0 1
}

func ExampleNewTariffs() {
	tariffs, err := billing.NewTariffs(
		billing.Priced{Meter: billing.MeterRuntime, Rate: billing.Rate{Price: 80_000, Per: 3_600_000_000}},
		billing.Priced{Meter: billing.MeterRuntime, Class: "large", Rate: billing.Rate{Price: 320_000, Per: 3_600_000_000}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, class := range []billing.Class{"small", "large"} {
		rate, err := tariffs.Rate(billing.MeterRuntime, class)
		fmt.Println(class, rate.Price, err)
	}
	_, err = tariffs.Rate("gpu", "")
	fmt.Println(err)
	// Output:
	// small 0.08 <nil>
	// large 0.32 <nil>
	// billing: no tariff for meter "gpu", class ""
}

func ExampleAdmit() {
	terms := billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 50}
	for _, available := range []billing.Micros{3 * billing.Unit, 270_000} {
		d := billing.Admit(billing.Standing{Available: available}, terms)
		fmt.Println(available, d.Allow, d.Reason)
	}
	// Output:
	// 3 true admitted
	// 0.27 false out of credit
}

func ExampleBurn() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	draws, short := billing.Burn([]billing.Grant{
		{ID: "top-up", Priority: 1, Remaining: 5 * billing.Unit, GrantedAt: now.AddDate(0, -1, 0)},
		{ID: "monthly", Priority: 0, Remaining: 2 * billing.Unit, GrantedAt: now.AddDate(0, 0, -1), ExpiresAt: now.AddDate(0, 1, 0)},
	}, now, 8*billing.Unit)
	for _, d := range draws {
		fmt.Println(d.Grant, d.Amount)
	}
	fmt.Println("owed", short)
	// Output:
	// monthly 2
	// top-up 5
	// owed 1
}

// A ledger fills a book with what it knows, lets it decide and writes what has changed.
func ExampleNewBook() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	book := billing.NewBook(now)
	book.Add(billing.Facts{
		Accounts: []billing.Account{{Payer: "ann", Entries: 1}},
		Grants:   []billing.Grant{{ID: "top-up", Payer: "ann", Amount: 100, Source: "shop", Remaining: 100, GrantedAt: now.Add(-time.Hour)}},
	})
	posted := book.Post(billing.Post{
		Use:  billing.Use{Meter: billing.MeterRuntime, Resource: "work-1", Payer: "ann", Session: "session-1"},
		From: now.Add(-time.Minute), To: now, Quantity: 60_000_000, Rate: billing.Rate{Price: 1, Per: 1_000_000},
	})
	fmt.Println("charged", posted.Charged, posted.Err)
	changes := book.Changes()
	for _, e := range changes.Entries {
		fmt.Println(e.N, e.ID, e.Postings)
	}
	fmt.Println("left", changes.Grants[0].Remaining)
	// Output:
	// charged 0.00006 <nil>
	// 2 usage/runtime/work-1/1772366340000000 [{grant:top-up -0.00006} {revenue:runtime 0.00006}]
	// left 0.00004
}

// A work that runs a quarter of an hour: it is let in, renewed, and over.
func ExampleNewTill() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ledger := memory.New(&memory.Options{Now: func() time.Time { return now }}).Ledger()
	tariffs, err := billing.NewTariffs(billing.Priced{Meter: billing.MeterRuntime, Rate: billing.Rate{Price: 80_000, Per: 3_600_000_000}})
	if err != nil {
		fmt.Println(err)
		return
	}
	till, err := billing.NewTill(billing.TillConfig{
		Ledger:  ledger,
		Tariffs: tariffs,
		Terms: func(access.Plan) billing.Terms {
			return billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 50}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	intent := billing.Intent{ID: "hold-1", Work: "work-1", Payer: "ann", Meter: billing.MeterRuntime, TTL: 15 * time.Minute}
	_, err = till.Admit(ctx, intent)
	fmt.Println(err)

	if _, err := ledger.Grant(ctx, billing.Grant{ID: "purchase-1", Payer: "ann", Amount: billing.Unit, Source: "shop"}); err != nil {
		fmt.Println(err)
		return
	}
	ticket, err := till.Admit(ctx, intent)
	for i := 0; i < 3 && err == nil; i++ {
		began := now
		now = now.Add(5 * time.Minute)
		ticket, err = till.Settle(ctx, ticket, billing.Usage{From: began, To: now, Last: i == 2})
	}
	balance, _ := ledger.Balance(ctx, "ann")
	fmt.Println("left", balance.Available, err)

	verified, err := billing.Verify(ctx, ledger, "ann")
	fmt.Println("charged", verified.Charged, "faults", verified.Faults, err)
	// Output:
	// billing: refused: out of credit: payer ann (limit 250000, remaining 0)
	// left 0.98 <nil>
	// charged 0.02 faults [] <nil>
}

func ExampleVerify() {
	ledger := memory.New(nil).Ledger()
	ctx := context.Background()
	if _, err := ledger.Grant(ctx, billing.Grant{ID: "purchase-1", Payer: "ann", Amount: billing.Unit, Source: "shop"}); err != nil {
		fmt.Println(err)
		return
	}
	verified, err := billing.Verify(ctx, ledger, "ann")
	fmt.Println(verified.Entries, verified.Faults, err)
	// Output: 1 [] <nil>
}
