package billingtest

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func holdChecks() []check {
	return []check{
		{"hold", "A hold is what was asked for, open, dated by the ledger, and reserved.", func(b *bench) {
			b.give(alice, 1000, nil)
			r, before := b.ask(alice), b.now()
			h := b.hold(r)
			b.dated("opened", h.OpenedAt, before)
			b.same("hold", h, billing.Hold{
				ID: r.ID, Use: r.Use, Estimate: 20, State: billing.HoldOpen, OpenedAt: h.OpenedAt, Until: h.OpenedAt.Add(r.TTL),
			})
			b.same("hold, as it is listed", b.held(h), h)
			b.stands(alice, billing.Standing{Available: 1000, Held: 20, Holds: 1})
			b.same("entries, for a hold is none", len(b.statement(alice)), 1)
		}},
		{"hold-credit", "Work starts only where more than the floor is left once its estimate is reserved, beside what other holds reserve.", func(b *bench) {
			b.give(alice, 270, nil)
			r := b.ask(alice)
			if d := b.refused(r, billing.RefusedCredit).Decision; d.Limit != 250 || d.Remaining != 270 {
				b.Errorf("refused with %+v, want a floor of 250 and 270 left", d)
			}
			b.give(alice, 1, nil)
			b.hold(r)
			b.refused(b.ask(alice), billing.RefusedCredit)
			b.give(alice, 20, nil)
			b.hold(b.ask(alice))
		}},
		{"hold-unknown", "An account that is not there yet has nothing, and a refused hold does not make one.", func(b *bench) {
			r := b.ask(alice)
			b.refused(r, billing.RefusedCredit)
			b.same("holds", b.holds(r.Resource), []billing.Hold(nil))
			b.same("payers", b.payers("", 10), []access.UserID(nil))
			b.stands(alice, billing.Standing{})
		}},
		{"hold-overdraft", "A floor below zero is an overdraft, which a new account has too.", func(b *bench) {
			r := b.ask(alice)
			r.Terms.Floor = -41
			b.hold(r)
			b.stands(alice, billing.Standing{Held: 20, Holds: 1})
			b.same("payers", b.payers("", 10), []access.UserID{alice})
			again := b.ask(alice)
			again.Terms.Floor = -41
			b.hold(again)
			third := b.ask(alice)
			third.Terms.Floor = -41
			b.refused(third, billing.RefusedCredit)
		}},
		{"hold-in-flight", "No more holds are open at once than the terms say, whatever the credit.", func(b *bench) {
			b.give(alice, 10_000, nil)
			b.give(bob, 10_000, nil)
			ask := func(payer access.UserID) billing.HoldRequest {
				r := b.ask(payer)
				r.Terms.InFlight = 2
				return r
			}
			first := b.hold(ask(alice))
			b.hold(ask(alice))
			if d := b.refused(ask(alice), billing.RefusedInFlight).Decision; d.Limit != 2 || d.Remaining != 0 {
				b.Errorf("refused with %+v, want a limit of 2 and none left", d)
			}
			b.hold(ask(bob))
			b.release(first)
			b.hold(ask(alice))
			b.refused(ask(alice), billing.RefusedInFlight)
		}},
		{"hold-debt", "Who owes more than the terms say starts nothing, whatever the credit.", func(b *bench) {
			b.spend(alice, 100)
			b.give(alice, 10_000, nil)
			r := b.ask(alice)
			r.Terms.MaxDebt = 99
			b.refused(r, billing.RefusedDebt)
			r.Terms.MaxDebt = 100
			b.hold(r)
			b.stands(alice, billing.Standing{Available: 10_000, Debt: 100, Held: 20, Holds: 1, Spent: 100})
		}},
		{"hold-debt-counts", "What is owed counts against what may be spent.", func(b *bench) {
			b.spend(alice, 100)
			b.give(alice, 370, nil)
			r := b.ask(alice)
			r.Terms.MaxDebt = 100
			b.refused(r, billing.RefusedCredit)
			b.give(alice, 1, nil)
			b.hold(r)
		}},
		{"hold-daily-cap", "No work starts that could make a day cost more than its cap, with what is reserved.", func(b *bench) {
			b.give(alice, 10_000, nil)
			b.spend(alice, 60)
			ask := func() billing.HoldRequest {
				r := b.ask(alice)
				r.Terms.DailyCap = 100
				return r
			}
			b.hold(ask())
			b.hold(ask())
			if d := b.refused(ask(), billing.RefusedDailyCap).Decision; d.Limit != 100 || d.Remaining != 0 {
				b.Errorf("refused with %+v, want a cap of 100 and nothing left", d)
			}
		}},
		{"hold-again", "The same id with the same content is the same hold, reserved once, as it is now, also where there is no credit any more. (case 62)", func(b *bench) {
			b.give(alice, 271, nil)
			r := b.ask(alice)
			h := b.hold(r)
			b.clock.Step(time.Minute)
			b.same("the same again", b.hold(r), h)
			later := r
			later.TTL, later.Terms.Floor = time.Hour, 10_000 // are no part of what is held
			b.same("the same on other terms", b.hold(later), h)
			b.stands(alice, billing.Standing{Available: 271, Held: 20, Holds: 1})
			closed := b.release(h)
			b.same("the same once it was released", b.hold(r), closed)
			b.stands(alice, billing.Standing{Available: 271})
		}},
		{"hold-other", "The same id with other content is ErrConflict, and changes nothing. (case 62)", func(b *bench) {
			b.give(alice, 1000, nil)
			b.give(bob, 1000, nil)
			r := b.ask(alice)
			h := b.hold(r)
			for name, edit := range map[string]func(*billing.HoldRequest){
				"meter":    func(r *billing.HoldRequest) { r.Meter = "other" },
				"class":    func(r *billing.HoldRequest) { r.Class = "" },
				"resource": func(r *billing.HoldRequest) { r.Resource += "'" },
				"payer":    func(r *billing.HoldRequest) { r.Payer = bob },
				"session":  func(r *billing.HoldRequest) { r.Session = "" },
				"project":  func(r *billing.HoldRequest) { r.Project = "" },
				"estimate": func(r *billing.HoldRequest) { r.Terms.Estimate++ },
			} {
				other := r
				edit(&other)
				_, err := b.ledger.Hold(b.Context(), other)
				b.ends("Hold with another "+name, err, "conflict")
				b.names(err, string(r.ID))
			}
			b.same("the hold", b.held(h), h)
			b.stands(alice, billing.Standing{Available: 1000, Held: 20, Holds: 1})
			b.stands(bob, billing.Standing{Available: 1000})
		}},
		{"hold-expired", "A hold that has expired reserves nothing, whether it has been swept or not.", func(b *bench) {
			b.give(alice, 271, nil)
			r := b.ask(alice)
			h := b.hold(r)
			b.refused(b.ask(alice), billing.RefusedCredit)
			b.clock.Step(r.TTL - time.Minute)
			b.refused(b.ask(alice), billing.RefusedCredit)
			b.clock.Step(2 * time.Minute)
			b.stands(alice, billing.Standing{Available: 271})
			b.hold(b.ask(alice))
			b.same("the one that has expired", b.held(h), h)
		}},
		{"holds", "Holds are listed by resource, whatever their state, the oldest first.", func(b *bench) {
			b.give(alice, 10_000, nil)
			ask := func(id billing.HoldID) billing.HoldRequest {
				r := b.ask(alice)
				r.ID, r.Resource = id, "work"
				return r
			}
			var all []billing.Hold
			for _, id := range []billing.HoldID{"c", "a", "d", "b"} {
				all = append(all, b.hold(ask(id)))
				b.clock.Step(time.Second)
			}
			b.hold(b.ask(alice)) // on something else
			all[1] = b.release(all[1])
			all[2] = b.post(on(all[2], last(span(all[2].Use, b.now(), 0, 0)))).Hold
			b.same("holds", b.holds("work"), all)
			b.same("holds on nothing", b.holds("other"), []billing.Hold(nil))
		}},
	}
}
