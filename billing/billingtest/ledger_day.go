package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func dayChecks() []check {
	return []check{
		{"day", "What a day has cost begins anew at midnight in UTC, wherever the process or its clock is. (T-58)", func(b *bench) {
			b.give(alice, 10_000, nil)
			r := b.ask(alice)
			r.Terms.DailyCap = 100
			b.spend(alice, 90) // at noon
			b.refused(r, billing.RefusedDailyCap)
			b.clock.Step(7 * time.Hour) // 19:00, which is tomorrow where the clock is
			b.refused(r, billing.RefusedDailyCap)
			b.spend(alice, 1)
			if s := b.balance(alice).Spent; s != 91 {
				b.Errorf("spent %d on that day, want 91", int64(s))
			}
			b.clock.Step(6 * time.Hour) // 01:00
			if s := b.balance(alice).Spent; s != 0 {
				b.Errorf("spent %d on the next day, want 0", int64(s))
			}
			b.hold(r)
			b.spend(alice, 5)
			if s := b.balance(alice).Spent; s != 5 {
				b.Errorf("spent %d on the next day, want 5", int64(s))
			}
			b.clock.Step(240 * time.Hour)
			if s := b.balance(alice).Spent; s != 0 {
				b.Errorf("spent %d on a day on which nothing happened", int64(s))
			}
			b.verify(alice)
		}},
		{"day-back", "A ledger's clock that is set back over a midnight forgets nothing of what a day has cost.", func(b *bench) {
			b.give(alice, 10_000, func(g *billing.Grant) { g.GrantedAt = b.now().Add(-100 * time.Hour) })
			b.clock.Step(13 * time.Hour) // 01:00
			b.spend(alice, 50)
			b.clock.Step(-2 * time.Hour) // 23:00, and the day before
			if s := b.balance(alice).Spent; s != 50 {
				b.Errorf("spent %d, want the 50 that the clock has seen already", int64(s))
			}
			b.spend(alice, 1)
			b.clock.Step(2 * time.Hour)
			if s := b.balance(alice).Spent; s != 51 {
				b.Errorf("spent %d on that day, want 51", int64(s))
			}
			r := b.ask(alice)
			r.Terms.DailyCap = 60
			b.refused(r, billing.RefusedDailyCap)
			b.verify(alice)
		}},
		{"day-posted", "A charge counts on the day on which it is posted, whenever that was used.", func(b *bench) {
			p := span(b.use(alice), b.now().Add(-30*time.Hour), time.Hour, 10)
			b.post(p)
			b.stands(alice, billing.Standing{Debt: 10, Spent: 10})
			b.clock.Step(24 * time.Hour)
			b.post(p) // is not charged again
			b.stands(alice, billing.Standing{Debt: 10})
		}},
		{"clock-back", "A ledger's clock that is set back by an hour makes no span negative, charges nothing twice and loses nothing.", func(b *bench) {
			b.give(alice, 10_000, nil)
			h := b.hold(b.ask(alice))
			start := b.now()
			tick := func() string { // as a work does that goes by this clock
				m := b.mark(keyOf(h.Use))
				from := m.Through
				if from.IsZero() {
					from = start
				}
				to := b.now()
				p := on(h, billing.Post{Use: h.Use, From: from, To: to, Rate: each, Renew: 15 * time.Minute})
				p.Quantity = max(int64(to.Sub(from)/time.Second), 0)
				return outcome(b.posts(p)[0].Err)
			}
			ticks := []struct {
				step time.Duration
				want string
			}{
				{5 * time.Minute, ""}, {5 * time.Minute, ""}, {-time.Hour, "field To"}, {30 * time.Minute, "field To"}, {20 * time.Minute, "field To"}, {15 * time.Minute, ""},
			}
			for i, c := range ticks {
				b.clock.Step(c.step)
				if got := tick(); got != c.want {
					b.Errorf("tick %d: got %q, want %q", i, got, c.want)
				}
			}
			m := b.mark(keyOf(h.Use))
			if long := m.Through.Sub(start); long < 15*time.Minute || m.Total < 15*60-int64(len(ticks)) {
				b.Errorf("posted %v and %d seconds, want a quarter of an hour", long, m.Total)
			}
			through := start
			for _, e := range b.statement(alice)[1:] {
				if !e.From.Equal(through) || !e.To.After(e.From) {
					b.Errorf("entry from %v to %v, want it to begin at %v", e.From, e.To, through)
				}
				through = e.To
			}
			b.verify(alice)
		}},
		{"clock-back-hold", "A hold that a clock set back makes longer is never renewed to be shorter.", func(b *bench) {
			b.give(alice, 10_000, func(g *billing.Grant) { g.GrantedAt = b.now().Add(-2 * time.Hour) })
			h := b.hold(b.ask(alice))
			b.clock.Step(-time.Hour)
			p := on(h, span(h.Use, b.now(), 0, 0))
			p.Renew = 15 * time.Minute
			b.same("renewed", b.post(p), billing.Posted{Hold: h})
			b.stands(alice, billing.Standing{Available: 10_000, Held: 20, Holds: 1})
		}},
	}
}
