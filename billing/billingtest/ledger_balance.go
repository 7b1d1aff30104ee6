package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// payers is a page of who has an account.
func (b *bench) payers(after access.UserID, limit int) []access.UserID {
	b.Helper()
	got, err := b.ledger.Payers(b.Context(), after, limit)
	if err != nil {
		b.Fatalf("Payers(%q, %d): %v", after, limit, err)
	}
	if len(got) == 0 {
		return nil
	}
	return got
}

func balanceChecks() []check {
	return []check{
		{"balance-empty", "An account that is not there is empty, and asking does not make one.", func(b *bench) {
			got := b.balance(alice)
			b.same("balance", got, billing.Balance{Now: got.Now, Account: billing.Account{Payer: alice}})
			b.same("payers", b.payers("", 10), []access.UserID(nil))
		}},
		{"balance", "A balance is all of how an account stands, at one instant on the ledger's clock.", func(b *bench) {
			expired := b.give(alice, 500, func(g *billing.Grant) { g.GrantedAt, g.ExpiresAt = b.now(), b.now().Add(time.Hour) })
			b.clock.Step(2 * time.Hour)
			b.spend(alice, 30)
			later := b.give(alice, 1000, func(g *billing.Grant) { g.GrantedAt = b.now().Add(time.Hour) })
			counts := b.give(alice, 400, nil)
			spent := b.give(alice, 10, func(g *billing.Grant) { g.Priority = -1 })
			b.spend(alice, 10)
			r := b.ask(alice)
			r.Terms.MaxDebt = 30
			b.hold(r)
			got := b.balance(alice)
			b.dated("now", got.Now, got.Now.Add(-time.Nanosecond))
			spent.Remaining = 0
			b.same("balance", got, billing.Balance{
				Now:      got.Now,
				Account:  billing.Account{Payer: alice, Debt: 30, Day: got.Account.Day, Spent: 40, Entries: 6},
				Standing: billing.Standing{Available: 400, Debt: 30, Held: 20, Holds: 1, Spent: 40},
				Grants:   []billing.Grant{expired, counts, later},
			})
			if want := got.Now.Unix() / 86_400; got.Account.Day != want {
				b.Errorf("day %d, want %d", got.Account.Day, want)
			}
		}},
		{"balance-clock", "A balance is as of the ledger's clock, to the microsecond.", func(b *bench) {
			before := b.now()
			b.same("now", before, before.Truncate(time.Microsecond))
			b.clock.Step(time.Hour)
			if passed := b.now().Sub(before); passed < time.Hour || passed > time.Hour+time.Minute {
				b.Errorf("the clock moved by %v, want an hour", passed)
			}
			b.clock.Step(-time.Hour)
			if passed := b.now().Sub(before); passed < 0 || passed > time.Minute {
				b.Errorf("the clock moved by %v and back", passed)
			}
		}},
		{"payers", "Payers are paged in the order of their ids, byte by byte; an empty page is the last.", func(b *bench) {
			want := []access.UserID{"A", "B", "Z", "_", "a", "a b", "b", "z", "\u00c4", "\u00e4"}
			for _, i := range []int{3, 9, 0, 5, 7, 1, 8, 2, 6, 4} {
				switch payer := want[i]; i % 3 {
				case 0:
					b.give(payer, 1, nil)
				case 1:
					b.spend(payer, 1)
				default:
					r := b.ask(payer)
					r.Terms.Floor = -1000
					b.hold(r)
				}
			}
			for _, limit := range []int{1, 3, 10, billing.MaxPosts} {
				var got []access.UserID
				for page := b.payers("", limit); len(page) > 0; page = b.payers(page[len(page)-1], limit) {
					if len(page) > limit || len(got) > len(want) {
						b.Fatalf("a page of %d payers, at most %d, after %d", len(page), limit, len(got))
					}
					got = append(got, page...)
				}
				b.same("payers", got, want)
			}
			b.same("payers after one that is not there", b.payers("C", 1), []access.UserID{"Z"})
		}},
		{"marks", "Watermarks are answered in the order of the keys, as often as they are asked for; one that is not there has only its key.", func(b *bench) {
			at := b.now().Add(-time.Hour)
			u := b.use(alice)
			storage := u
			storage.Meter = billing.MeterStorage
			v := b.use(bob)
			b.posts(span(u, at, time.Minute, 1), span(storage, at, 2*time.Minute, 2), last(span(v, at, 3*time.Minute, 3)))
			none := billing.MarkKey{Resource: v.Resource, Meter: billing.MeterStorage}
			keys := []billing.MarkKey{keyOf(v), none, keyOf(storage), keyOf(u), keyOf(v)}
			got, err := b.ledger.Marks(b.Context(), keys)
			b.ends("Marks", err, "")
			closed := billing.Mark{MarkKey: keyOf(v), Through: at.Add(3 * time.Minute), Total: 3, Closed: true, Of: v}
			b.same("marks", got, []billing.Mark{
				closed, {MarkKey: none}, {MarkKey: keyOf(storage), Through: at.Add(2 * time.Minute), Total: 2, Of: storage},
				{MarkKey: keyOf(u), Through: at.Add(time.Minute), Total: 1, Of: u}, closed,
			})
		}},
		{"copies", "What is answered is the caller's: changing it changes nothing in the ledger.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			b.post(b.tail(h))
			k := keyOf(h.Use)
			want := b.picture(alice, k)
			spoilt := b.picture(alice, k)
			spoilt.Balance.Grants[0].Remaining = 0
			spoilt.Holds[0].State = billing.HoldOpen
			for _, some := range [][]billing.Entry{spoilt.Entries, b.unexported(10)} {
				for i := range some {
					for j := range some[i].Postings {
						some[i].Postings[j].Amount = 0
					}
					some[i].Amount = 0
				}
			}
			b.same("what is seen", b.picture(alice, k), want)
			b.verify(alice)
		}},
	}
}
