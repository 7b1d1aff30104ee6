package billing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/billing"
)

// A book that is told only the sums of the holds that no verb is about decides
// just like one that is shown every hold.
func TestHeldIsAsGoodAsTheHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := second(60)
		account := billing.Facts{
			Accounts: []billing.Account{{Payer: "ann", Entries: 1}},
			Grants:   []billing.Grant{{ID: "g", Payer: "ann", Amount: 100, Source: "test", Remaining: 100, GrantedAt: second(-3600)}},
		}
		rows, sums := account, account
		held := billing.Held{Payer: "ann"}
		for i := range rapid.IntRange(0, 5).Draw(t, "holds") {
			id := billing.HoldID(rune('a' + i))
			h := billing.Hold{
				ID: id, Use: runtimeOf("work-" + string(id)), Estimate: billing.Micros(rapid.IntRange(0, 40).Draw(t, "estimate")), State: billing.HoldOpen,
				OpenedAt: second(-900), Until: now.Add(time.Duration(rapid.IntRange(-1, 2).Draw(t, "until")) * time.Second),
			}
			rows.Holds = append(rows.Holds, h)
			switch {
			case i == 0: // the verbs are about it
				sums.Holds = append(sums.Holds, h)
			case now.Before(h.Until):
				held.Estimate, held.Holds = held.Estimate+h.Estimate, held.Holds+1
			}
		}
		if held.Holds > 0 {
			sums.Held = []billing.Held{held}
		}
		ask := holdRequest("new", "work-new", billing.Micros(rapid.IntRange(0, 40).Draw(t, "asked")))
		ask.Terms.InFlight = rapid.IntRange(0, 6).Draw(t, "in flight")
		renewal := span("work-a", 0, 60)
		renewal.Hold, renewal.Renew, renewal.Terms = "a", time.Minute, ask.Terms
		verbs := rapid.Permutation([]string{"hold", "renew", "release"}).Draw(t, "verbs")
		decide := func(f billing.Facts) (said []any) {
			b := billing.NewBook(now)
			b.Add(f)
			for _, verb := range verbs {
				switch verb {
				case "hold":
					h, err := b.Hold(ask)
					said = append(said, h, err != nil)
				case "renew":
					out := b.Post(renewal)
					said = append(said, out.Hold, out.Err != nil, out.Refused)
				case "release":
					h, err := b.Release("a")
					said = append(said, h, err != nil)
				}
			}
			return append(said, b.Balance("ann"), b.Changes())
		}
		if diff := cmp.Diff(decide(rows), decide(sums)); diff != "" {
			t.Fatalf("after %v, by holds and by their sums:\n%s", verbs, diff)
		}
	})
}
