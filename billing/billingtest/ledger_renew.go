package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// renewed is a part of h's work, a minute up to now, that asks to go on for 15 more.
func (b *bench) renewed(h billing.Hold) billing.Post {
	p := on(h, span(h.Use, b.now().Add(-time.Minute), time.Minute, 10))
	p.Renew = 15 * time.Minute
	return p
}

func renewChecks() []check {
	return []check{
		{"renew", "A post prolongs its hold from now, and never shortens it.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			b.clock.Step(10 * time.Minute)
			before := b.now().Add(15 * time.Minute)
			p := b.renewed(h)
			got := b.post(p)
			if after := b.now().Add(15 * time.Minute); got.Hold.Until.Before(before) || got.Hold.Until.After(after) {
				b.Errorf("renewed until %v, want from %v to %v", got.Hold.Until, before, after)
			}
			want := h
			want.Until = got.Hold.Until
			b.same("posted", got, billing.Posted{Charged: 10, Hold: want})
			b.same("hold", b.held(h), want)
			p.From, p.To, p.Renew = p.To, p.To.Add(time.Second), time.Minute
			b.same("posted, to go on for less", b.post(p), billing.Posted{Charged: 10, Hold: want})
			p.From, p.To, p.Renew = p.To, p.To.Add(time.Second), 0
			b.same("posted, and not asked to go on", b.post(p), billing.Posted{Charged: 10, Hold: want})
			b.same("hold", b.held(h), want)
		}},
		{"renew-own", "A hold is not in the way of its own renewal.", func(b *bench) {
			b.give(alice, 281, nil)
			r := b.ask(alice)
			r.Terms.InFlight = 1
			h := b.hold(r)
			p := b.renewed(h)
			p.Terms.InFlight = 1
			if got := b.post(p); got.Refused != nil { // 271 are left: just enough for one
				b.Errorf("refused: %v", got.Refused)
			}
		}},
		{"renew-in-flight", "What was let in goes on where fewer may be in flight since; nothing new is let in then.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			b.hold(b.ask(alice))
			b.clock.Step(10 * time.Minute)
			p := b.renewed(h)
			p.Terms.InFlight = 1
			if got := b.post(p); got.Refused != nil || !got.Hold.Until.After(h.Until) {
				b.Errorf("posted %+v, want it renewed", got)
			}
			r := b.ask(alice)
			r.Terms.InFlight = 1
			b.refused(r, billing.RefusedInFlight)
		}},
		{"renew-refused", "Where the account does not allow a renewal the span is posted all the same, the hold runs out when it would have, and the answer says why.", func(b *bench) {
			b.give(alice, 280, nil)
			h := b.hold(b.ask(alice))
			b.clock.Step(10 * time.Minute)
			got := b.post(b.renewed(h))
			b.ends("renewal", got.Refused, "refused alice: out of credit")
			b.same("posted", got, billing.Posted{Charged: 10, Hold: h, Refused: got.Refused})
			b.same("hold", b.held(h), h)
			b.stands(alice, billing.Standing{Available: 270, Held: 20, Holds: 1, Spent: 10})
			b.give(alice, 1000, nil)
			p := on(h, span(h.Use, b.mark(keyOf(h.Use)).Through, time.Second, 0))
			p.Renew = time.Hour
			if again := b.post(p); again.Refused != nil || !again.Hold.Until.After(h.Until) {
				b.Errorf("with credit again: %+v, want it renewed", again)
			}
			b.verify(alice)
		}},
		{"renew-ended", "A hold that has expired is not renewed; what was used is posted all the same. (lifecycle: settle after expiry)", func(b *bench) {
			b.give(alice, 1000, nil)
			h, swept := b.hold(b.ask(alice)), b.hold(b.ask(alice))
			b.clock.Step(20 * time.Minute)
			got := b.post(b.renewed(h))
			b.ends("renewal", got.Refused, "refused alice: hold ended")
			if got.Charged != 10 || got.Hold.State != billing.HoldExpired || !got.Hold.Until.Equal(h.Until) {
				b.Errorf("posted %+v, want 10 charged and the hold expired", got)
			}
			b.same("hold", b.held(h), got.Hold)
			b.swept(0)
			got = b.post(b.renewed(swept))
			b.ends("renewal of what was swept", got.Refused, "refused alice: hold ended")
			b.stands(alice, billing.Standing{Available: 980, Spent: 20})
			b.post(last(on(h, span(h.Use, b.mark(keyOf(h.Use)).Through, time.Second, 5))))
			b.stands(alice, billing.Standing{Available: 975, Spent: 25})
			b.verify(alice)
		}},
		{"renew-again", "A post that is repeated because its reply was lost renews its hold, and charges nothing more.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			b.clock.Step(10 * time.Minute)
			p := b.renewed(h)
			first := b.post(p)
			b.clock.Step(5 * time.Minute)
			again := b.post(p)
			if !again.Repeated || again.Charged != 10 || !again.Hold.Until.After(first.Hold.Until) {
				b.Errorf("posted %+v, then %+v, want it repeated and renewed", first, again)
			}
			b.stands(alice, billing.Standing{Available: 990, Held: 20, Holds: 1, Spent: 10})
		}},
		{"renew-begun", "A span of no length says that work begins, renews, and posts no entry.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			b.clock.Step(5 * time.Minute)
			p := on(h, span(h.Use, b.now(), 0, 0))
			p.Renew = 15 * time.Minute
			got := b.post(p)
			if got.Charged != 0 || got.Repeated || !got.Hold.Until.After(h.Until) {
				b.Errorf("posted %+v, want the hold renewed", got)
			}
			b.same("entries", len(b.statement(alice)), 1)
		}},
	}
}
