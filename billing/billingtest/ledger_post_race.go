package billingtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func postRaceChecks() []check {
	return []check{
		{"race-ticks", "Of several tickers of one meter each span is posted by one, whatever the others make of it. (T-62)", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			const tickers, spans = 4, 12
			posted := make([]int, tickers)
			errs := parallel(tickers, func(i int) error {
				for n := range spans {
					// Each has an end of its own, as clocks of several processes do.
					from, to := at.Add(time.Duration(n)*time.Minute), at.Add(time.Duration(n+1)*time.Minute+time.Duration(i)*time.Second)
					for {
						got, err := b.ledger.Post(b.Context(), span(u, from, to.Sub(from), to.Sub(from).Microseconds()))
						if err != nil {
							return err
						}
						var mark *billing.MarkError
						if errors.As(got[0].Err, &mark) {
							if from = mark.Through; from.Before(to) {
								continue
							}
							break
						}
						if got[0].Err != nil {
							return got[0].Err
						}
						if !got[0].Repeated {
							posted[i]++
						}
						break
					}
				}
				return nil
			})
			for _, err := range errs {
				b.ends("ticker", err, "")
			}
			all := b.statement(alice)
			sum := 0
			for _, n := range posted {
				sum += n
			}
			if len(all) != sum {
				b.Errorf("%d entries, and the tickers have posted %d", len(all), sum)
			}
			through := at
			for _, e := range all {
				if !e.From.Equal(through) {
					b.Errorf("entry %s begins at %v, want %v, where the one before ended", e.ID, e.From, through)
				}
				through = e.To
			}
			b.same("mark", b.mark(keyOf(u)), billing.Mark{MarkKey: keyOf(u), Through: through, Total: through.Sub(at).Microseconds(), Of: u})
			if want := at.Add(spans*time.Minute + (tickers-1)*time.Second); !through.Equal(want) {
				b.Errorf("posted through %v, want %v", through, want)
			}
			b.verify(alice)
		}},
		{"race-same-span", "Of many calls with one span one charges it, and the others say that it was. (T-71)", func(b *bench) {
			p := span(b.use(alice), b.now().Add(-time.Hour), time.Minute, 10)
			got := make([]billing.Posted, 16)
			for _, err := range parallel(len(got), func(i int) error {
				answers, err := b.ledger.Post(b.Context(), p)
				if err == nil {
					got[i] = answers[0]
				}
				return err
			}) {
				b.ends("Post", err, "")
			}
			fresh := 0
			for _, g := range got {
				if !g.Repeated {
					fresh++
				}
				b.same("posted", g, billing.Posted{Charged: 10, Repeated: g.Repeated})
			}
			if fresh != 1 {
				b.Errorf("%d calls say that they have charged it, want one", fresh)
			}
			b.stands(alice, billing.Standing{Debt: 10, Spent: 10})
		}},
		{"race-spend", "What many works use at once of one account is charged to the micro.", func(b *bench) {
			b.give(alice, 100, nil)
			b.give(alice, 100, nil)
			at, works := b.now().Add(-time.Hour), make([]billing.Use, 16)
			for i := range works {
				works[i] = b.use(alice)
			}
			for _, err := range parallel(len(works), func(i int) error {
				for n := range 4 {
					got, err := b.ledger.Post(b.Context(), span(works[i], at.Add(time.Duration(n)*time.Minute), time.Minute, 5))
					if err = errors.Join(err, errOf(got)); err != nil {
						return err
					}
				}
				return nil
			}) {
				b.ends("Post", err, "")
			}
			b.stands(alice, billing.Standing{Debt: 16*4*5 - 200, Spent: 16 * 4 * 5})
			for i, e := range b.statement(alice) {
				if e.N != int64(i+1) {
					b.Errorf("entry %d is at place %d", i+1, e.N)
				}
			}
			b.verify(alice)
		}},
		{"race-payers", "Calls that post for the same payers in another order don't get in each other's way.", func(b *bench) {
			at := b.now().Add(-time.Hour)
			const callers, rounds = 4, 6
			calls := make([][][]billing.Post, callers)
			for i := range calls {
				for range rounds {
					some := []billing.Post{
						span(b.use(alice), at, time.Minute, 1), span(b.use(bob), at, time.Minute, 1), span(b.use("carol"), at, time.Minute, 1),
					}
					if i%2 == 1 {
						slices.Reverse(some)
					}
					calls[i] = append(calls[i], some)
				}
			}
			for _, err := range parallel(callers, func(i int) error {
				for _, some := range calls[i] {
					got, err := b.ledger.Post(b.Context(), some...)
					if err = errors.Join(err, errOf(got)); err != nil {
						return err
					}
				}
				return nil
			}) {
				b.ends("Post", err, "")
			}
			b.stands(alice, billing.Standing{Debt: callers * rounds, Spent: callers * rounds})
			b.verify(alice, bob, "carol")
		}},
		{"race-meters", "Calls that move the same meters in another order don't get in each other's way either, whoever pays.", func(b *bench) {
			at := b.now().Add(-time.Hour)
			u, v := b.use(alice), b.use(bob)
			for n := range 6 {
				from := at.Add(time.Duration(n) * time.Minute)
				for _, err := range parallel(4, func(i int) error {
					some := []billing.Post{span(u, from, time.Minute, 1), span(v, from, time.Minute, 1)}
					if i%2 == 1 {
						slices.Reverse(some)
					}
					got, err := b.ledger.Post(b.Context(), some...)
					return errors.Join(err, errOf(got))
				}) {
					b.ends("Post", err, "")
				}
			}
			b.stands(alice, billing.Standing{Debt: 6, Spent: 6})
			b.stands(bob, billing.Standing{Debt: 6, Spent: 6})
			b.verify(alice, bob)
		}},
		{"race-grant", "A purchase that arrives many times at once counts once. (case 62)", func(b *bench) {
			g := billing.Grant{ID: "purchase", Payer: alice, Amount: 100, Source: "top-up"}
			for _, err := range parallel(16, func(int) error {
				got, err := b.ledger.Grant(b.Context(), g)
				if err == nil && got.Remaining != 100 {
					err = fmt.Errorf("%+v", got)
				}
				return err
			}) {
				b.ends("Grant", err, "")
			}
			b.stands(alice, billing.Standing{Available: 100})
			b.verify(alice)
		}},
		{"race-expire", "What expires is taken back once, however many sweep.", func(b *bench) {
			b.give(alice, 100, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Hour) })
			b.give(alice, 1000, nil)
			b.hold(b.ask(alice))
			b.clock.Step(2 * time.Hour)
			reports := make([]billing.ExpireReport, 8)
			for _, err := range parallel(len(reports), func(i int) (err error) {
				reports[i], err = b.ledger.Expire(b.Context(), 0, 10)
				return err
			}) {
				b.ends("Expire", err, "")
			}
			var sum billing.ExpireReport
			for _, r := range reports {
				sum.Holds, sum.Grants, sum.Amount = sum.Holds+r.Holds, sum.Grants+r.Grants, sum.Amount+r.Amount
			}
			b.same("taken back by all of them", sum, billing.ExpireReport{Holds: 1, Grants: 1, Amount: 100})
			b.verify(alice)
		}},
	}
}

// errOf is the first error of some answers.
func errOf(all []billing.Posted) error {
	for _, p := range all {
		if p.Err != nil {
			return p.Err
		}
	}
	return nil
}
