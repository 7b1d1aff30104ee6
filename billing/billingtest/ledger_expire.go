package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func expireChecks() []check {
	return []check{
		{"expire-holds", "Expire closes the holds that have expired, and those only, once.", func(b *bench) {
			b.give(alice, 10_000, nil)
			soon := b.ask(alice)
			soon.TTL = 5 * time.Minute
			short, long := b.hold(soon), b.hold(b.ask(alice))
			b.same("expired", b.swept(0), billing.ExpireReport{})
			b.clock.Step(6 * time.Minute)
			before := b.now()
			b.same("expired", b.swept(0), billing.ExpireReport{Holds: 1})
			got := b.held(short)
			b.dated("closed", got.ClosedAt, before)
			want := short
			want.State, want.ClosedAt = billing.HoldExpired, got.ClosedAt
			b.same("the short one", got, want)
			b.same("the long one", b.held(long), long)
			b.clock.Step(time.Minute)
			b.same("expired", b.swept(0), billing.ExpireReport{})
			b.same("the short one", b.held(short), want)
		}},
		{"expire-grants", "What is left of a grant is taken back once it expired longer than lateness ago, once, with an entry.", func(b *bench) {
			g := b.give(alice, 100, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			b.give(alice, 1000, nil)
			b.spend(alice, 30)
			b.clock.Step(90 * time.Minute)
			b.same("expired, within lateness", b.swept(time.Hour), billing.ExpireReport{})
			b.clock.Step(time.Hour)
			before := b.now()
			b.same("expired", b.swept(time.Hour), billing.ExpireReport{Grants: 1, Amount: 70})
			b.same("expired again", b.swept(time.Hour), billing.ExpireReport{})
			all := b.statement(alice)
			got := all[len(all)-1]
			b.dated("posted", got.PostedAt, before)
			b.same("entry", got, billing.Entry{
				ID: billing.ExpiryEntryID(g.ID), N: int64(len(all)), Kind: billing.EntryExpiry, Payer: alice, Amount: 70, Grant: g.ID,
				PostedAt: got.PostedAt, Postings: got.Postings,
			})
			b.same("entries", len(all), 4)
			b.stands(alice, billing.Standing{Available: 1000, Spent: 30})
			b.verify(alice)
		}},
		{"expire-spent", "There is nothing to take back of a grant that was spent, nor of one that never expires.", func(b *bench) {
			b.give(alice, 30, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			b.give(alice, 100, nil)
			b.spend(alice, 30)
			b.clock.Step(1000 * time.Hour)
			b.same("expired", b.swept(0), billing.ExpireReport{})
			b.stands(alice, billing.Standing{Available: 100})
		}},
		{"expire-debt", "What expires pays no debt, and makes none.", func(b *bench) {
			b.spend(alice, 50)
			b.give(alice, 100, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			b.clock.Step(2 * time.Hour)
			b.same("expired", b.swept(0), billing.ExpireReport{Grants: 1, Amount: 100})
			b.stands(alice, billing.Standing{Debt: 50, Spent: 50})
			b.verify(alice)
		}},
		{"expire-capped", "No more is closed and taken back at once than the limit of each, and the report says that there may be more.", func(b *bench) {
			for range 3 {
				b.give(alice, 10, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
				b.give(bob, 10, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			}
			for range 5 {
				r := b.ask(bob)
				r.Terms.Floor = -1000
				b.hold(r)
			}
			b.clock.Step(2 * time.Hour)
			var sum billing.ExpireReport
			for _, want := range []billing.ExpireReport{
				{Holds: 4, Grants: 4, Amount: 40, Capped: true}, {Holds: 1, Grants: 2, Amount: 20}, {},
			} {
				rep, err := b.ledger.Expire(b.Context(), 0, 4)
				b.ends("Expire", err, "")
				b.same("report", rep, want)
				sum.Grants += rep.Grants
			}
			b.same("grants", sum.Grants, 6)
			b.verify(alice, bob)
		}},
	}
}
