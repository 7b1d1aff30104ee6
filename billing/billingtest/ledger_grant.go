package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func grantChecks() []check {
	return []check{
		{"grant", "A grant is kept with all that it says, and has an entry.", func(b *bench) {
			before := b.now()
			g := billing.Grant{
				ID: "g", Payer: alice, Amount: 100, Source: "top-up", Priority: -7,
				GrantedAt: before.Add(-time.Hour), ExpiresAt: before.Add(time.Hour), Repay: true,
				Remaining: 999, // is the ledger's
			}
			want := g
			want.Remaining = 100
			got, err := b.ledger.Grant(b.Context(), g)
			b.ends("Grant", err, "")
			b.same("grant", got, want)
			b.same("grants", b.balance(alice).Grants, []billing.Grant{want})
			all := b.statement(alice)
			if len(all) != 1 {
				b.Fatalf("entries: %+v, want one", all)
			}
			b.dated("posted", all[0].PostedAt, before)
			b.same("entry", all[0], billing.Entry{
				ID: billing.GrantEntryID("g"), N: 1, Kind: billing.EntryGrant, Payer: alice, Amount: 100, Grant: "g",
				PostedAt: all[0].PostedAt, Postings: all[0].Postings,
			})
			b.verify(alice)
		}},
		{"grant-dated", "A grant that does not say from when it counts does so from when it is posted.", func(b *bench) {
			before := b.now()
			g := b.give(alice, 100, func(g *billing.Grant) { g.GrantedAt = time.Time{} })
			b.dated("granted", g.GrantedAt, before)
			b.same("expires", g.ExpiresAt, time.Time{})
		}},
		{"grant-again", "The same grant twice is given once, and answers as it is now, also where all of it is spent. (case 62)", func(b *bench) {
			g := billing.Grant{ID: "g", Payer: alice, Amount: 100, Source: "top-up"}
			first := b.give(alice, 100, func(to *billing.Grant) { *to = g })
			b.clock.Step(time.Hour)
			b.same("given twice", b.give(alice, 100, func(to *billing.Grant) { *to = g }), first)
			b.same("given as it was answered", b.give(alice, 100, func(to *billing.Grant) { *to = first }), first)
			b.stands(alice, billing.Standing{Available: 100})
			b.spend(alice, 30)
			left := first
			left.Remaining = 70
			b.same("given again", b.give(alice, 100, func(to *billing.Grant) { *to = g }), left)
			b.spend(alice, 170)
			left.Remaining = 0
			b.same("given again once it is spent", b.give(alice, 100, func(to *billing.Grant) { *to = g }), left)
			b.stands(alice, billing.Standing{Debt: 100, Spent: 200})
			b.verify(alice)
		}},
		{"grant-again-expired", "A grant that was taken back is not given again.", func(b *bench) {
			g := b.give(alice, 100, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			b.clock.Step(2 * time.Hour)
			b.swept(0)
			want := g
			want.Remaining = 0
			b.same("given again", b.give(alice, 100, func(to *billing.Grant) { *to = g }), want)
			b.stands(alice, billing.Standing{})
		}},
		{"grant-expired", "A grant that has expired already is a *FieldError, and is not given.", func(b *bench) {
			g := billing.Grant{
				ID: "g", Payer: alice, Amount: 100, Source: "monthly", GrantedAt: b.now().Add(-2 * time.Hour), ExpiresAt: b.now().Add(-time.Hour),
			}
			got, err := b.ledger.Grant(b.Context(), g)
			b.ends("Grant", err, "field ExpiresAt")
			b.same("what is not given", got, billing.Grant{})
			b.same("entries", b.statement(alice), []billing.Entry(nil))
			b.give(alice, 100, func(to *billing.Grant) { to.ID = "g" }) // the id is still free
			b.verify(alice)
		}},
		{"grant-other", "The same id with other content is ErrConflict, and changes nothing. (case 62)", func(b *bench) {
			g := b.give(alice, 100, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			for name, edit := range map[string]func(*billing.Grant){
				"payer":                  func(g *billing.Grant) { g.Payer = bob },
				"amount":                 func(g *billing.Grant) { g.Amount++ },
				"source":                 func(g *billing.Grant) { g.Source = "other" },
				"priority":               func(g *billing.Grant) { g.Priority++ },
				"expiry":                 func(g *billing.Grant) { g.ExpiresAt = g.ExpiresAt.Add(time.Microsecond) },
				"no expiry":              func(g *billing.Grant) { g.ExpiresAt = time.Time{} },
				"beginning":              func(g *billing.Grant) { g.GrantedAt = g.GrantedAt.Add(time.Microsecond) },
				"word on what it repays": func(g *billing.Grant) { g.Repay = true },
			} {
				other := g
				edit(&other)
				_, err := b.ledger.Grant(b.Context(), other)
				b.ends("Grant with another "+name, err, "conflict")
				b.names(err, string(g.ID))
			}
			b.same("grants", b.balance(alice).Grants, []billing.Grant{g})
			b.stands(bob, billing.Standing{})
			b.verify(alice, bob)
		}},
		{"grant-overflow", "More than an account can hold is an *OverflowError, and is not given.", func(b *bench) {
			b.give(alice, 1<<62, nil)
			_, err := b.ledger.Grant(b.Context(), billing.Grant{ID: "more", Payer: alice, Amount: 1 << 62, Source: "top-up"})
			b.ends("Grant", err, "overflow")
			b.stands(alice, billing.Standing{Available: 1 << 62})
			b.give(bob, 1<<62, func(g *billing.Grant) { g.ID = "more" }) // the id is still free
			b.verify(alice, bob)
		}},
	}
}
