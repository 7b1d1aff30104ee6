package billingtest

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// remaining expects that the grants of alice have this left, in this order.
func (b *bench) remaining(want ...string) {
	b.Helper()
	var got []string
	for _, g := range b.balance(alice).Grants {
		got = append(got, fmt.Sprintf("%s %d", g.ID, int64(g.Remaining)))
	}
	b.same("what grants have left", got, want)
}

func burnChecks() []check {
	return []check{
		{"burn-order", "Grants are spent by priority, then the one that expires first, then the older, then by id; one charge may take several.", func(b *bench) {
			now := b.now()
			for _, g := range []billing.Grant{
				{ID: "never-old", Priority: 1, GrantedAt: now.Add(-2 * time.Hour)},
				{ID: "never-new-b", Priority: 1, GrantedAt: now.Add(-time.Hour)},
				{ID: "never-new-a", Priority: 1, GrantedAt: now.Add(-time.Hour)},
				{ID: "late", Priority: 1, ExpiresAt: now.Add(48 * time.Hour)},
				{ID: "soon", Priority: 1, ExpiresAt: now.Add(24 * time.Hour)},
				{ID: "first", Priority: -1},
				{ID: "last", Priority: 2, ExpiresAt: now.Add(time.Hour)},
			} {
				b.give(alice, 10, func(to *billing.Grant) {
					g.Payer, g.Amount, g.Source = to.Payer, to.Amount, to.Source
					if g.GrantedAt.IsZero() {
						g.GrantedAt = now.Add(-90 * time.Minute)
					}
					*to = g
				})
			}
			b.remaining("first 10", "soon 10", "late 10", "never-old 10", "never-new-a 10", "never-new-b 10", "last 10")
			b.spend(alice, 5)
			b.remaining("first 5", "soon 10", "late 10", "never-old 10", "never-new-a 10", "never-new-b 10", "last 10")
			b.spend(alice, 27)
			b.remaining("never-old 8", "never-new-a 10", "never-new-b 10", "last 10")
			b.spend(alice, 19)
			b.remaining("never-new-b 9", "last 10")
			b.spend(alice, 18)
			b.remaining("last 1")
			b.spend(alice, 2)
			b.remaining()
			b.stands(alice, billing.Standing{Debt: 1, Spent: 71})
			b.verify(alice)
		}},
		{"burn-given-later", "A grant pays for nothing that was used before it was given.", func(b *bench) {
			now := b.now()
			b.give(alice, 100, func(g *billing.Grant) { g.ID, g.GrantedAt = "g", now.Add(-time.Hour) })
			u := b.use(alice)
			b.post(span(u, now.Add(-3*time.Hour), time.Hour, 10))
			b.remaining("g 100")
			b.stands(alice, billing.Standing{Available: 100, Debt: 10, Spent: 10})
			b.post(span(u, now.Add(-2*time.Hour), 90*time.Minute, 10)) // up to half an hour ago
			b.remaining("g 90")
			b.verify(alice)
		}},
		{"burn-expired-before", "A grant pays for nothing that was used after it had expired, also where it was not taken back yet.", func(b *bench) {
			b.give(alice, 100, func(g *billing.Grant) { g.ID, g.ExpiresAt = "g", b.now().Add(time.Hour) })
			b.clock.Step(2 * time.Hour)
			b.spend(alice, 10)
			b.remaining("g 100")
			b.stands(alice, billing.Standing{Debt: 10, Spent: 10})
			b.verify(alice)
		}},
		{"burn-expired-since", "A grant that has expired still pays for what was used before, until it is taken back.", func(b *bench) {
			now := b.now()
			b.give(alice, 100, func(g *billing.Grant) { g.ID, g.ExpiresAt = "g", now.Add(time.Hour) })
			b.give(alice, 100, func(g *billing.Grant) { g.ID = "other" })
			u := b.use(alice)
			b.clock.Step(2 * time.Hour)
			b.post(span(u, now.Add(10*time.Minute), 30*time.Minute, 10))
			b.remaining("g 90", "other 100")
			b.stands(alice, billing.Standing{Available: 100, Spent: 10})
			b.swept(0)
			b.remaining("other 100")
			b.post(span(u, now.Add(40*time.Minute), 10*time.Minute, 10))
			b.remaining("other 90")
			b.verify(alice)
		}},
		{"burn-edges", "A span is half-open: a grant pays for one that ends when it expires, and not for one that ends when it begins to count.", func(b *bench) {
			now := b.now()
			b.give(alice, 100, func(g *billing.Grant) {
				g.ID, g.GrantedAt, g.ExpiresAt = "g", now, now.Add(time.Hour)
			})
			b.clock.Step(2 * time.Hour)
			u := b.use(alice)
			b.post(span(u, now.Add(-time.Hour), time.Hour, 1)) // before
			b.remaining("g 100")
			b.post(span(u, now, time.Hour, 2)) // all the time
			b.remaining("g 98")
			b.post(span(u, now.Add(time.Hour), time.Microsecond, 4)) // after
			b.remaining("g 98")
			b.stands(alice, billing.Standing{Debt: 5, Spent: 7})
		}},
		{"burn-future", "A grant that counts only later is shown, and neither counts nor pays before.", func(b *bench) {
			now := b.now()
			b.give(alice, 1000, func(g *billing.Grant) { g.ID, g.GrantedAt = "g", now.Add(time.Hour) })
			b.remaining("g 1000")
			b.refused(b.ask(alice), billing.RefusedCredit)
			b.spend(alice, 10)
			b.remaining("g 1000")
			b.clock.Step(2 * time.Hour)
			r := b.ask(alice)
			r.Terms.MaxDebt = 10
			b.hold(r)
			b.spend(alice, 10)
			b.remaining("g 990")
			b.verify(alice)
		}},
		{"burn-own", "Nobody's grants pay for another.", func(b *bench) {
			b.give(alice, 100, func(g *billing.Grant) { g.ID = "g" })
			b.spend(bob, 10)
			b.remaining("g 100")
			b.stands(bob, billing.Standing{Debt: 10, Spent: 10})
		}},
	}
}
