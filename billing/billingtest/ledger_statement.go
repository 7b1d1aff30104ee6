package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func (b *bench) page(q billing.StatementQuery) billing.StatementPage {
	b.Helper()
	page, err := b.ledger.Statement(b.Context(), q)
	if err != nil {
		b.Fatalf("Statement(%+v): %v", q, err)
	}
	return page
}

func statementChecks() []check {
	return []check{
		{"statement", "A book has its entries in their order, each at its place, without gaps, of whatever kind.", func(b *bench) {
			b.give(alice, 100, func(g *billing.Grant) { g.ID, g.ExpiresAt = "g", b.now().Add(time.Hour) })
			b.spend(bob, 1)
			b.spend(alice, 10)
			b.clock.Step(2 * time.Hour)
			b.swept(0)
			b.give(alice, 7, func(g *billing.Grant) { g.ID = "h" })
			b.spend(alice, 3)
			type line struct {
				N      int64
				Kind   billing.EntryKind
				Amount billing.Micros
				Grant  billing.GrantID
			}
			var got []line
			for _, e := range b.statement(alice) {
				if e.Payer != alice {
					b.Errorf("entry %s is of %s", e.ID, e.Payer)
				}
				got = append(got, line{e.N, e.Kind, e.Amount, e.Grant})
			}
			b.same("book", got, []line{
				{1, billing.EntryGrant, 100, "g"}, {2, billing.EntryUsage, 10, ""}, {3, billing.EntryExpiry, 90, "g"},
				{4, billing.EntryGrant, 7, "h"}, {5, billing.EntryUsage, 3, ""},
			})
			if n := b.balance(alice).Account.Entries; n != 5 {
				b.Errorf("the account has %d entries, want 5", n)
			}
		}},
		{"statement-pages", "Pages follow one another without a gap or an overlap, and only the last has no Next, also where it is full.", func(b *bench) {
			for range 6 {
				b.spend(alice, 1)
			}
			all := b.statement(alice)
			for limit := 1; limit <= 7; limit++ {
				var got []billing.Entry
				q := billing.StatementQuery{Payer: alice, Limit: limit}
				for pages := 1; ; pages++ {
					page := b.page(q)
					got = append(got, page.Items...)
					if page.Next == 0 {
						if want := (6 + limit - 1) / limit; pages != want {
							b.Errorf("%d pages of %d, want %d", pages, limit, want)
						}
						break
					}
					if len(page.Items) != limit || page.Next != page.Items[limit-1].N {
						b.Fatalf("a page of %d, at most %d, is followed by %d", len(page.Items), limit, page.Next)
					}
					q.After = page.Next
				}
				b.same("pages", got, all)
			}
		}},
		{"statement-after", "A page begins after the entry at that place; after the last there is nothing.", func(b *bench) {
			for range 3 {
				b.spend(alice, 1)
			}
			all := b.statement(alice)
			b.same("after the second", b.page(billing.StatementQuery{Payer: alice, After: 2, Limit: 10}), billing.StatementPage{Items: all[2:]})
			for _, after := range []int64{3, 4, 1 << 62} {
				if page := b.page(billing.StatementQuery{Payer: alice, After: after, Limit: 10}); len(page.Items) != 0 || page.Next != 0 {
					b.Errorf("after %d: %+v, want nothing", after, page)
				}
			}
			if page := b.page(billing.StatementQuery{Payer: bob, Limit: 10}); len(page.Items) != 0 || page.Next != 0 {
				b.Errorf("of an account that is not there: %+v", page)
			}
		}},
		{"statement-grows", "An entry that was read is never changed, and what comes later comes after it.", func(b *bench) {
			b.give(alice, 100, nil)
			b.spend(alice, 10)
			before := b.statement(alice)
			b.exported(b.unexported(10)...)
			b.spend(alice, 100)
			b.give(alice, 100, func(g *billing.Grant) { g.Repay = true })
			after := b.statement(alice)
			b.same("what was there", after[:len(before)], before)
			b.same("entries", len(after), len(before)+2)
		}},
	}
}
