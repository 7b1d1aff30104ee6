package billingtest

import (
	"errors"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func holdRaceChecks() []check {
	return []check{
		{"race-hold", "Of many callers with credit for one, one is let in. (case 61)", func(b *bench) {
			b.give(alice, 271, nil)
			var asked []billing.HoldRequest
			for range b.opts.callers() {
				asked = append(asked, b.ask(alice))
			}
			b.admits(1, billing.RefusedCredit, asked)
			b.stands(alice, billing.Standing{Available: 271, Held: 20, Holds: 1})
		}},
		{"race-in-flight", "Of many callers at once no more are let in than may be in flight.", func(b *bench) {
			b.give(alice, 1_000_000, nil)
			var asked []billing.HoldRequest
			for range b.opts.callers() {
				r := b.ask(alice)
				r.Terms.InFlight = 5
				asked = append(asked, r)
			}
			b.admits(min(5, len(asked)), billing.RefusedInFlight, asked)
		}},
		{"race-refill", "Who is let in, and goes again, makes room for just one other. (case 61)", func(b *bench) {
			b.give(alice, 271, nil)
			var asked []billing.HoldRequest
			for range b.opts.callers() {
				asked = append(asked, b.ask(alice))
			}
			first := b.admits(1, billing.RefusedCredit, asked)
			b.release(b.hold(first[0]))
			b.admits(1, billing.RefusedCredit, slices.DeleteFunc(asked, func(r billing.HoldRequest) bool { return r.ID == first[0].ID }))
		}},
		{"race-same-hold", "Many calls at once with one id are one hold.", func(b *bench) {
			b.give(alice, 271, nil)
			r := b.ask(alice)
			got := make([]billing.Hold, 16)
			for _, err := range parallel(len(got), func(i int) (err error) {
				got[i], err = b.ledger.Hold(b.Context(), r)
				return err
			}) {
				b.ends("Hold", err, "")
			}
			for _, h := range got {
				b.same("hold", h, got[0])
			}
			b.stands(alice, billing.Standing{Available: 271, Held: 20, Holds: 1})
		}},
		{"race-close", "Of settle and release at the same time one comes to pass, and the other is told. (T-61)", func(b *bench) {
			b.give(alice, 100_000, nil)
			for range 8 {
				h := b.hold(b.ask(alice))
				at := b.now().Add(-time.Minute)
				var posted []billing.Posted
				var released billing.Hold
				errs := parallel(2, func(i int) (err error) {
					if i == 0 {
						posted, err = b.ledger.Post(b.Context(), on(h, last(span(h.Use, at, time.Minute, 10))))
						return errors.Join(err, posted[0].Err)
					}
					released, err = b.ledger.Release(b.Context(), h.ID)
					return err
				})
				switch is := b.held(h); is.State {
				case billing.HoldSettled:
					b.ends("settle", errs[0], "")
					b.ends("release", errs[1], "closed")
					b.same("hold", posted[0].Hold, is)
				case billing.HoldReleased:
					b.ends("settle", errs[0], "closed")
					b.ends("release", errs[1], "")
					b.same("hold", released, is)
				default:
					b.Errorf("hold: %+v, which is neither settled nor released", is)
				}
			}
			b.verify(alice)
		}},
	}
}

// admits asks all at once, of whom n must be let in, and returns those.
func (b *bench) admits(n int, otherwise billing.AdmitReason, asked []billing.HoldRequest) (in []billing.HoldRequest) {
	b.Helper()
	errs := parallel(len(asked), func(i int) error {
		_, err := b.ledger.Hold(b.Context(), asked[i])
		return err
	})
	for i, err := range errs {
		var refused *billing.RefusedError
		switch {
		case err == nil:
			in = append(in, asked[i])
		case !errors.As(err, &refused) || refused.Decision.Reason != otherwise:
			b.Errorf("Hold: %v, want %q", err, otherwise)
		}
	}
	if len(in) != n {
		b.Fatalf("of %d callers %d were let in, want %d", len(asked), len(in), n)
	}
	return in
}
