package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// release releases h, which must be well.
func (b *bench) release(h billing.Hold) billing.Hold {
	b.Helper()
	got, err := b.ledger.Release(b.Context(), h.ID)
	if err != nil {
		b.Fatalf("Release(%s): %v", h.ID, err)
	}
	return got
}

// swept has all expire that has.
func (b *bench) swept(lateness time.Duration) (sum billing.ExpireReport) {
	b.Helper()
	for range 1000 {
		rep, err := b.ledger.Expire(b.Context(), lateness, 100)
		if err != nil {
			b.Fatalf("Expire: %v", err)
		}
		sum.Holds, sum.Grants, sum.Amount = sum.Holds+rep.Holds, sum.Grants+rep.Grants, sum.Amount+rep.Amount
		if !rep.Capped {
			return sum
		}
	}
	b.Fatalf("Expire has more to do each time")
	return sum
}

// tail is the end of h's work: a minute up to now.
func (b *bench) tail(h billing.Hold) billing.Post {
	return on(h, last(span(h.Use, b.now().Add(-time.Minute), time.Minute, 10)))
}

// abandons has a till that knows nothing but the ledger give u's work up.
func (b *bench) abandons(u billing.Use, through time.Time) {
	b.Helper()
	tariffs, err := billing.NewTariffs(billing.Priced{Meter: u.Meter, Class: u.Class, Rate: billing.Rate{Price: 1, Per: int64(time.Second / time.Microsecond)}})
	if err != nil {
		b.Fatalf("NewTariffs: %v", err)
	}
	till, err := billing.NewTill(billing.TillConfig{Ledger: b.ledger, Tariffs: tariffs, Terms: func(access.Plan) billing.Terms { return billing.Terms{} }})
	if err != nil {
		b.Fatalf("NewTill: %v", err)
	}
	if err := till.Abandon(b.Context(), billing.Abandoned{Work: u.Resource, Meter: u.Meter, Through: through}); err != nil {
		b.Errorf("Abandon: %v", err)
	}
}

func closeChecks() []check {
	return []check{
		{"mark-of", "A watermark tells whose use was posted last, and what is said twice changes nothing of that, also where the payer or the machine is another since, so that a meter that never had a hold can be closed.", func(b *bench) {
			b.give(alice, 1000, nil)
			b.give(bob, 1000, nil)
			u, at := b.use(alice), b.now().Add(-time.Hour)
			b.posts(span(u, at, 0, 0))
			b.same("mark, begun", b.mark(keyOf(u)).Of, u)
			b.post(span(u, at, time.Minute, 60_000_000))
			v := u
			v.Payer, v.Project = bob, "another project"
			b.post(span(v, at.Add(time.Minute), time.Minute, 60_000_000))
			b.same("mark, since somebody else pays", b.mark(keyOf(u)).Of, v)
			charged := b.balance(bob).Standing.Spent
			for range 2 { // twice is once
				b.abandons(u, at.Add(3*time.Minute))
				b.same("mark, given up", b.mark(keyOf(u)), billing.Mark{
					MarkKey: keyOf(u), Through: at.Add(3 * time.Minute), Total: 180_000_000, Closed: true, Of: v, Left: b.mark(keyOf(u)).Left,
				})
				b.same("charged", b.balance(bob).Standing.Spent, charged+60)
			}
			b.fails(span(v, at.Add(3*time.Minute), time.Minute, 1), "closed")
			b.verify(alice, bob)
		}},
		{"release", "Releasing gives back what was reserved, at once; twice succeeds and changes nothing.", func(b *bench) {
			b.give(alice, 271, nil)
			h := b.hold(b.ask(alice))
			b.refused(b.ask(alice), billing.RefusedCredit)
			before := b.now()
			got := b.release(h)
			b.dated("closed", got.ClosedAt, before)
			want := h
			want.State, want.ClosedAt = billing.HoldReleased, got.ClosedAt
			b.same("released", got, want)
			b.same("released, as it is listed", b.held(h), want)
			b.stands(alice, billing.Standing{Available: 271})
			b.clock.Step(time.Minute)
			b.same("released twice", b.release(h), want)
			b.hold(b.ask(alice))
		}},
		{"release-unknown", "Releasing what is not there is ErrNotFound.", func(b *bench) {
			_, err := b.ledger.Release(b.Context(), "no-such-hold")
			b.ends("Release", err, "not found")
			b.names(err, "no-such-hold")
		}},
		{"settle", "The last post of a hold settles it: what was used is charged, and what was reserved is free.", func(b *bench) {
			b.give(alice, 1000, nil)
			h, before := b.hold(b.ask(alice)), b.now()
			got := b.post(b.tail(h))
			want := h
			want.State, want.ClosedAt = billing.HoldSettled, got.Hold.ClosedAt
			b.dated("closed", got.Hold.ClosedAt, before)
			b.same("posted", got, billing.Posted{Charged: 10, Hold: want})
			b.same("hold", b.held(h), want)
			b.stands(alice, billing.Standing{Available: 990, Spent: 10})
			b.verify(alice)
		}},
		{"settle-more", "What was used is charged also where it is more than was reserved, and more than there is.", func(b *bench) {
			b.give(alice, 271, nil)
			h := b.hold(b.ask(alice))
			p := b.tail(h)
			p.Quantity = 300
			if got := b.post(p); got.Charged != 300 || got.Refused != nil {
				b.Errorf("posted %+v, want 300 charged", got)
			}
			b.stands(alice, billing.Standing{Debt: 29, Spent: 300})
			b.verify(alice)
		}},
		{"settled-final", "What was settled stays settled: releasing it is ErrClosed, and it does not expire. (T-61)", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.post(b.tail(b.hold(b.ask(alice)))).Hold
			_, err := b.ledger.Release(b.Context(), h.ID)
			b.ends("Release", err, "closed")
			b.names(err, string(h.ID))
			b.clock.Step(time.Hour)
			b.same("expired", b.swept(0), billing.ExpireReport{})
			b.fails(on(h, span(h.Use, b.mark(keyOf(h.Use)).Through, time.Minute, 1)), "closed")
			b.same("hold", b.held(h), h)
		}},
		{"released-final", "What was released stays released: nothing can be posted to it, and it does not expire. (T-61)", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.release(b.hold(b.ask(alice)))
			b.fails(b.tail(h), "closed")
			b.clock.Step(time.Hour)
			b.same("expired", b.swept(0), billing.ExpireReport{})
			b.same("hold", b.held(h), h)
			b.stands(alice, billing.Standing{Available: 1000})
		}},
		{"expired-final", "What has expired stays expired: releasing succeeds and changes nothing, and what was used is posted all the same. (T-61)", func(b *bench) {
			b.give(alice, 1000, nil)
			h, other := b.hold(b.ask(alice)), b.hold(b.ask(alice))
			b.clock.Step(time.Hour)
			before := b.now()
			b.same("expired", b.swept(0), billing.ExpireReport{Holds: 2})
			is := b.held(h)
			b.dated("closed", is.ClosedAt, before)
			want := h
			want.State, want.ClosedAt = billing.HoldExpired, is.ClosedAt
			b.same("hold", is, want)
			b.clock.Step(time.Minute)
			b.same("posted", b.post(b.tail(h)), billing.Posted{Charged: 10, Hold: want})
			b.same("hold", b.held(h), want)
			b.fails(on(h, span(h.Use, b.mark(keyOf(h.Use)).Through, time.Minute, 1)), "closed")
			expired := b.held(other)
			b.same("released", b.release(other), expired)
			b.verify(alice)
		}},
		{"settle-late", "A hold that has run out and was not swept yet is settled by its last post.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			b.clock.Step(time.Hour)
			if got := b.post(b.tail(h)); got.Hold.State != billing.HoldSettled || got.Charged != 10 {
				b.Errorf("posted %+v, want it settled and charged 10", got)
			}
			b.same("expired", b.swept(0), billing.ExpireReport{})
		}},
	}
}
