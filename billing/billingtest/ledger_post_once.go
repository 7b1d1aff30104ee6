package billingtest

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func postOnceChecks() []check {
	return []check{
		{"post-again", "The same span twice is charged once, and answers as it did, at once and much later. (T-71, case 62)", func(b *bench) {
			b.give(alice, 1000, nil)
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := span(u, at, time.Minute, 10)
			b.same("posted", b.post(p), billing.Posted{Charged: 10})
			b.same("posted again", b.post(p), billing.Posted{Charged: 10, Repeated: true})
			next := span(u, p.To, time.Minute, 5)
			b.post(next)
			b.same("posted after the next", b.post(p), billing.Posted{Charged: 10, Repeated: true})
			b.post(last(span(u, next.To, time.Minute, 1)))
			b.clock.Step(48 * time.Hour)
			want := b.picture(alice, p.Key())
			b.same("posted after the last", b.post(p), billing.Posted{Charged: 10, Repeated: true})
			dearer := p
			dearer.Rate.Price = 100 // a price list that has changed since
			b.same("posted at another price", b.post(dearer), billing.Posted{Charged: 10, Repeated: true})
			b.same("what is seen", b.picture(alice, p.Key()), want)
			if n := len(b.statement(alice)); n != 1+3 {
				b.Errorf("%d entries, want the grant's and three", n)
			}
			b.verify(alice)
		}},
		{"post-other", "The same span with other content is ErrConflict, and changes nothing. (T-71, case 62)", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := span(u, at, time.Minute, 10)
			b.post(p)
			for _, edit := range []func(*billing.Post){
				func(p *billing.Post) { p.Quantity++ },
				func(p *billing.Post) { p.Class = "" },
				func(p *billing.Post) { p.Session = "" },
				func(p *billing.Post) { p.Project = "" },
			} {
				other := p
				edit(&other)
				b.fails(other, "conflict")
				b.names(b.posts(other)[0].Err, u.Resource)
			}
		}},
		{"post-other-payer", "The same span posted while another pays is a *MarkError that says how far somebody else came: both have read the same watermark.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := span(u, at, time.Minute, 10)
			b.post(p)
			other := p
			other.Payer = bob
			want := fmt.Sprintf("runtime of %s is through %v, not %v", u.Resource, p.To, at)
			b.fails(other, want)
			other.To, other.Quantity = other.To.Add(time.Minute), 20
			b.fails(other, want)
			b.stands(bob, billing.Standing{})
			other.From, other.Quantity = p.To, 10
			b.post(other)
			b.stands(bob, billing.Standing{Debt: 10, Spent: 10})
			b.verify(alice, bob)
		}},
		{"post-again-hold", "A last post whose reply was lost is repeated as it was, and says the same.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			p := b.tail(h)
			want := b.post(p)
			want.Repeated = true
			b.clock.Step(time.Hour)
			b.same("posted again", b.post(p), want)
			b.stands(alice, billing.Standing{Available: 990, Spent: 10})
			empty := b.hold(b.ask(alice))
			p = last(on(empty, span(empty.Use, b.now(), 0, 0)))
			want = b.post(p)
			want.Repeated = true
			b.same("posted again, of no length", b.post(p), want)
		}},
		{"post-again-last", "A span that was posted before it was known to be the last is repeated as the last: it charges nothing, and closes.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			p := b.tail(h)
			p.Last = false
			b.post(p)
			got := b.post(last(p))
			if !got.Repeated || got.Charged != 10 || got.Hold.State != billing.HoldSettled {
				b.Errorf("posted %+v, want it repeated and settled", got)
			}
			if m := b.mark(p.Key()); !m.Closed || m.Total != 10 {
				b.Errorf("mark %+v, want it closed", m)
			}
			b.stands(alice, billing.Standing{Available: 990, Spent: 10})
		}},
		{"post-zones", "A moment is the same in every zone, also where a wall clock shows it twice: what is written and answered is UTC. (T-58)", func(b *bench) {
			berlin := time.FixedZone("CEST", 7200)
			winter := time.FixedZone("CET", 3600)
			u := b.use(alice)
			// 02:30 to 03:00 in summer, then 02:00 to 02:30 in winter time, and 02:30 again: the night on which clocks are put back.
			at := time.Date(2025, 10, 26, 0, 30, 0, 0, time.UTC)
			for i, in := range []*time.Location{berlin, winter, winter} {
				from := at.Add(time.Duration(i) * 30 * time.Minute)
				p := span(u, from.In(in), 30*time.Minute, 10)
				b.post(p)
				p.From, p.To = p.From.In(time.FixedZone("", -11*3600)), p.To.UTC()
				b.same("posted again, in another zone", b.post(p), billing.Posted{Charged: 10, Repeated: true})
				m := b.mark(p.Key())
				b.same("through", m.Through, from.Add(30*time.Minute))
			}
			// The night on which an hour is left out.
			at = time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
			u = b.use(alice)
			b.post(span(u, at.In(winter), 30*time.Minute, 10))
			b.post(span(u, at.Add(30*time.Minute).In(berlin), 30*time.Minute, 10))
			for i, e := range b.statement(alice) {
				if e.To.Sub(e.From) != 30*time.Minute || e.ID != billing.UsageID(keyOf(e.Use), e.From) {
					b.Errorf("entry %d: %+v, want half an hour", i, e)
				}
				b.same("zone", e.From, e.From.UTC())
			}
			g := b.give(alice, 100, func(g *billing.Grant) {
				g.GrantedAt, g.ExpiresAt = at.In(berlin), at.AddDate(200, 0, 0).In(berlin) // whatever a ledger's clock shows
			})
			b.same("granted", g.GrantedAt, at)
			b.same("expires", g.ExpiresAt, at.AddDate(200, 0, 0))
			b.verify(alice)
		}},
		{"post-microseconds", "Moments are kept to the microsecond, and what is below makes no difference.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour).Add(3*time.Microsecond)
			p := span(u, at.Add(999), time.Minute, 10)
			b.post(p)
			b.same("through", b.mark(p.Key()).Through, at.Add(time.Minute))
			b.same("posted again", b.post(span(u, at, time.Minute, 10)), billing.Posted{Charged: 10, Repeated: true})
			b.post(span(u, at.Add(time.Minute).Add(1), time.Minute, 10))
			e := b.statement(alice)[1]
			b.same("from", e.From, at.Add(time.Minute))
			b.same("to", e.To, at.Add(2*time.Minute))
			p = span(u, at.Add(2*time.Minute), 0, 1)
			p.To = p.To.Add(999) // is no length
			b.fails(p, "field Quantity")
		}},
	}
}
