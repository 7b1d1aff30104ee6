package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// What a work costs a ledger (a hold, a post, the last post) does not depend
// on how many works there were before.
func BenchmarkLedger(b *testing.B) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	terms := billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 50}
	for _, before := range []int{0, 20_000} {
		b.Run(fmt.Sprintf("after=%d", before), func(b *testing.B) {
			ledger := memory.New(&memory.Options{Now: func() time.Time { return noon }}).Ledger()
			n := 0
			work := func() {
				n++
				payer := access.UserID(fmt.Sprintf("payer-%d", n%10))
				use := billing.Use{Meter: billing.MeterRuntime, Resource: fmt.Sprintf("work-%d", n), Payer: payer}
				h, err := ledger.Hold(b.Context(), billing.HoldRequest{ID: billing.HoldID(use.Resource), Use: use, Terms: terms, TTL: time.Hour})
				if err != nil {
					b.Fatal(err)
				}
				p := billing.Post{
					Use: use, From: noon.Add(-time.Hour), To: noon.Add(-time.Minute), Quantity: 1, Rate: billing.Rate{Price: 1, Per: 1}, Hold: h.ID, Terms: terms, Renew: time.Hour,
				}
				q := p
				q.From, q.To, q.Renew, q.Last = p.To, noon, 0, true
				for _, p := range []billing.Post{p, q} {
					if out, err := ledger.Post(b.Context(), p); err != nil || out[0].Err != nil {
						b.Fatal(out, err)
					}
				}
			}
			for i := range 10 {
				g := billing.Grant{ID: billing.GrantID(fmt.Sprint(i)), Payer: access.UserID(fmt.Sprintf("payer-%d", i)), Amount: 1 << 50, Source: "monthly", GrantedAt: noon.Add(-time.Hour)}
				if _, err := ledger.Grant(b.Context(), g); err != nil {
					b.Fatal(err)
				}
			}
			for range before {
				work()
			}
			for b.Loop() {
				work()
			}
		})
	}
}
