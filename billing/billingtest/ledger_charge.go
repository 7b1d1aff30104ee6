package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func chargeChecks() []check {
	return []check{
		{"charge-parts", "What many parts cost, each of less than a micro, is what the whole costs, to the micro. (T-70)", func(b *bench) {
			b.give(alice, 1000, nil)
			u, at := b.use(alice), b.now().Add(-time.Hour)
			price := billing.Rate{Price: 70_000, Per: 3_600_000_000} // 0.07 an hour
			var sum billing.Micros
			var quantity int64
			for n := range 60 {
				long := time.Duration(n+1) * 1777 * time.Microsecond
				p := billing.Post{Use: u, From: at, To: at.Add(long), Quantity: long.Microseconds(), Rate: price}
				got := b.post(p)
				if again := b.post(p); !again.Repeated || again.Charged != got.Charged { // carries nothing twice
					b.Errorf("posted %+v, then %+v", got, again)
				}
				sum, quantity, at = sum+got.Charged, quantity+p.Quantity, p.To
			}
			whole, left, err := price.Charge(quantity, billing.Remainder{})
			if err != nil || whole == 0 || left.N == 0 {
				b.Fatalf("the whole costs %v and %+v, %v", whole, left, err)
			}
			b.same("charged", sum, whole)
			m := b.mark(keyOf(u))
			b.same("mark", m, billing.Mark{MarkKey: m.MarkKey, Through: at, Total: quantity, Left: left, Of: u})
			b.stands(alice, billing.Standing{Available: 1000 - whole, Spent: whole})
			b.verify(alice)
		}},
		{"charge-meters", "What is left of a micro stays with its meter.", func(b *bench) {
			at, third := b.now().Add(-time.Hour), billing.Rate{Price: 1, Per: 3}
			for range 3 {
				p := span(b.use(alice), at, time.Minute, 2)
				p.Rate = third
				if got := b.post(p); got.Charged != 0 {
					b.Errorf("posted %+v, want nothing charged", got)
				}
			}
			b.stands(alice, billing.Standing{})
		}},
		{"charge-price", "A price that changes counts from the next span on.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := span(u, at, time.Minute, 5)
			p.Rate = billing.Rate{Price: 1, Per: 2}
			b.post(p)
			p = span(u, p.To, time.Minute, 5)
			p.Rate = billing.Rate{Price: 1, Per: 4} // half a micro is two quarters
			b.same("posted", b.post(p), billing.Posted{Charged: 1})
			b.same("left", b.mark(p.Key()).Left, billing.Remainder{N: 3, Per: 4})
			b.verify(alice)
		}},
		{"charge-debt", "What no grant covers is owed, and said so in the book.", func(b *bench) {
			b.give(alice, 10, nil)
			b.spend(alice, 25)
			b.spend(alice, 5)
			b.stands(alice, billing.Standing{Debt: 20, Spent: 30})
			b.same("account", b.balance(alice).Account.Debt, billing.Micros(20))
			for _, e := range b.statement(alice) {
				var sum billing.Micros
				for _, p := range e.Postings {
					sum += p.Amount
				}
				if sum != 0 || len(e.Postings) < 2 {
					b.Errorf("entry %+v, want postings that sum to zero", e)
				}
			}
			b.verify(alice)
		}},
		{"charge-repay", "Only a grant that is to repay pays what is owed; one that is not is there to be spent.", func(b *bench) {
			b.spend(alice, 100)
			b.same("remaining", b.give(alice, 30, nil).Remaining, billing.Micros(30))
			b.stands(alice, billing.Standing{Available: 30, Debt: 100, Spent: 100})
			repay := func(g *billing.Grant) { g.Repay = true }
			g := b.give(alice, 60, repay)
			b.same("remaining", g.Remaining, billing.Micros(0))
			b.stands(alice, billing.Standing{Available: 30, Debt: 40, Spent: 100})
			b.same("repaid twice", b.give(alice, 60, func(again *billing.Grant) { *again = g }), g)
			b.same("remaining", b.give(alice, 60, repay).Remaining, billing.Micros(20))
			b.stands(alice, billing.Standing{Available: 50, Spent: 100})
			b.verify(alice)
		}},
		{"charge-repay-later", "A grant that counts only later repays nothing.", func(b *bench) {
			b.spend(alice, 100)
			g := b.give(alice, 60, func(g *billing.Grant) { g.Repay, g.GrantedAt = true, b.now().Add(time.Hour) })
			b.same("remaining", g.Remaining, billing.Micros(60))
			b.stands(alice, billing.Standing{Debt: 100, Spent: 100})
			b.verify(alice)
		}},
		{"charge-held", "What is charged is not taken from what others reserve, and what is reserved is not spent.", func(b *bench) {
			b.give(alice, 1000, nil)
			h, other := b.hold(b.ask(alice)), b.hold(b.ask(alice))
			p := b.tail(h)
			p.Last = false
			b.post(p)
			b.stands(alice, billing.Standing{Available: 990, Held: 40, Holds: 2, Spent: 10})
			b.same("the other", b.held(other), other)
		}},
	}
}
