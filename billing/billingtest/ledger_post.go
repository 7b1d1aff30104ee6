package billingtest

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func postChecks() []check {
	return []check{
		{"post", "A post writes an entry with all that it says, from wherever it begins, and moves the watermark.", func(b *bench) {
			b.give(alice, 1000, nil)
			u, before := b.use(alice), b.now()
			p := billing.Post{
				Use: u, From: before.Add(-time.Hour), To: before.Add(-time.Minute), Quantity: 7, Rate: billing.Rate{Price: 5, Per: 2},
			}
			b.same("mark, before", b.mark(p.Key()), billing.Mark{MarkKey: p.Key()})
			b.same("posted", b.post(p), billing.Posted{Charged: 17})
			b.same("mark", b.mark(p.Key()), billing.Mark{MarkKey: p.Key(), Through: p.To, Total: 7, Left: billing.Remainder{N: 1, Per: 2}, Of: u})
			all := b.statement(alice)
			if len(all) != 2 {
				b.Fatalf("entries: %+v, want the grant's and the usage's", all)
			}
			got := all[1]
			b.dated("posted", got.PostedAt, before)
			b.same("entry", got, billing.Entry{
				ID: billing.UsageID(p.Key(), p.From), N: 2, Kind: billing.EntryUsage, Payer: alice, Amount: 17, PostedAt: got.PostedAt,
				Use: u, From: p.From, To: p.To, Quantity: 7, Rate: p.Rate, Postings: got.Postings,
			})
			b.stands(alice, billing.Standing{Available: 983, Spent: 17})
			b.verify(alice)
		}},
		{"post-carried", "An entry says what it carried from the one before.", func(b *bench) {
			u, at := b.use(alice), b.now()
			p := billing.Post{Use: u, From: at.Add(-2 * time.Minute), To: at.Add(-time.Minute), Quantity: 1, Rate: billing.Rate{Price: 1, Per: 3}}
			b.post(p)
			p.From, p.To, p.Quantity = p.To, at, 2
			if got := b.post(p); got.Charged != 1 {
				b.Errorf("posted %+v, want 1 charged", got)
			}
			b.same("carried", b.statement(alice)[1].Carried, billing.Remainder{N: 1, Per: 3})
		}},
		{"post-mark", "A post begins where the watermark is: one that begins elsewhere is a *MarkError that says where, and nothing of it is written. (T-62)", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			b.post(span(u, at, time.Minute, 10))
			through := at.Add(time.Minute)
			for _, from := range []time.Time{through.Add(time.Microsecond), through.Add(-time.Microsecond), at.Add(-time.Hour)} {
				b.fails(span(u, from, time.Hour, 5), fmt.Sprintf("runtime of %s is through %v, not %v", u.Resource, through, from))
				b.fails(span(u, from, 0, 0), fmt.Sprintf("runtime of %s is through %v, not %v", u.Resource, through, from))
			}
			b.post(span(u, through, time.Minute, 10))
			b.verify(alice)
		}},
		{"post-overtaken", "Where somebody else has posted from the same time up to another, it is a *MarkError that says how far they came. (T-62)", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			b.post(span(u, at, time.Minute, 10))
			for _, long := range []time.Duration{time.Second, 2 * time.Minute} {
				b.fails(span(u, at, long, 10), fmt.Sprintf("runtime of %s is through %v, not %v", u.Resource, at.Add(time.Minute), at))
			}
		}},
		{"post-never-back", "Nothing moves a watermark back: neither a late post nor the end of the work. (T-65)", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			b.post(span(u, at, time.Minute, 10))
			b.post(span(u, at.Add(time.Minute), time.Minute, 10))
			want := b.mark(keyOf(u))
			b.posts(span(u, at, time.Minute, 10), span(u, at, 0, 0), last(span(u, at, 0, 0)), span(u, at, 2*time.Minute, 20), last(span(u, at.Add(-time.Minute), time.Minute, 1)))
			b.same("mark", b.mark(want.MarkKey), want)
		}},
		{"post-nothing", "What costs nothing, or is nothing, moves the watermark as anything does, so that it is not charged later. (T-64)", func(b *bench) {
			b.give(alice, 1000, nil)
			u, at := b.use(alice), b.now().Add(-time.Hour)
			b.post(span(u, at, time.Minute, 0))
			free := span(u, at.Add(time.Minute), time.Minute, 7)
			free.Rate = billing.Rate{Per: 1}
			b.post(free)
			b.same("mark", b.mark(free.Key()), billing.Mark{MarkKey: free.Key(), Through: free.To, Total: 7, Of: u})
			for _, e := range b.statement(alice)[1:] {
				if e.Amount != 0 || len(e.Postings) != 0 {
					b.Errorf("entry %+v, want it to charge nothing", e)
				}
			}
			b.post(span(u, free.To, time.Minute, 3))
			b.stands(alice, billing.Standing{Available: 997, Spent: 3})
			b.verify(alice)
		}},
		{"post-begin", "A span of no length sets the first watermark, and posts no entry.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := span(u, at, 0, 0)
			b.same("posted", b.post(p), billing.Posted{})
			b.same("mark", b.mark(p.Key()), billing.Mark{MarkKey: p.Key(), Through: at, Of: u})
			b.post(p)
			b.same("entries", b.statement(alice), []billing.Entry(nil))
			b.fails(span(u, at.Add(time.Second), time.Minute, 1), fmt.Sprintf("runtime of %s is through %v, not %v", u.Resource, at, at.Add(time.Second)))
			b.post(span(u, at, time.Minute, 1))
		}},
		{"post-last", "The last post closes the meter: nothing can be posted to it any more, with a hold or without.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := last(span(u, at, time.Minute, 10))
			b.post(p)
			b.same("mark", b.mark(p.Key()), billing.Mark{MarkKey: p.Key(), Through: p.To, Total: 10, Closed: true, Of: u})
			b.fails(span(u, p.To, time.Minute, 10), "closed")
			b.fails(span(u, p.To, 0, 0), "closed")
			b.fails(last(span(u, p.To, time.Minute, 10)), "closed")
			b.names(b.posts(span(u, p.To, time.Minute, 10))[0].Err, u.Resource)
			empty := b.use(alice)
			b.post(last(span(empty, at, 0, 0))) // that never used anything
			b.fails(span(empty, at, time.Minute, 10), "closed")
			other := u
			other.Meter = billing.MeterStorage // a meter of its own
			b.post(span(other, at, time.Minute, 10))
		}},
		{"post-hold", "A post to a hold that is not there is ErrNotFound, and to one that is for something else ErrConflict; nothing of it is written.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			p := b.tail(h)
			p.Hold = "no-such-hold"
			b.fails(p, "not found")
			b.names(b.posts(p)[0].Err, "no-such-hold")
			for _, edit := range []func(*billing.Post){
				func(p *billing.Post) { p.Payer = bob },
				func(p *billing.Post) { p.Resource = "other" },
				func(p *billing.Post) { p.Class = "other" },
				func(p *billing.Post) { p.Session = "other" },
			} {
				p := b.tail(h)
				edit(&p)
				b.fails(p, "conflict")
			}
			b.same("hold", b.held(h), h)
		}},
		{"post-payers", "A meter goes on where it was when another pays: each is charged for the own spans.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			b.post(span(u, at, time.Minute, 10))
			u.Payer = bob
			b.post(span(u, at.Add(time.Minute), time.Minute, 5))
			u.Payer = alice
			b.post(span(u, at.Add(2*time.Minute), time.Minute, 1))
			b.stands(alice, billing.Standing{Debt: 11, Spent: 11})
			b.stands(bob, billing.Standing{Debt: 5, Spent: 5})
			b.verify(alice, bob)
		}},
		{"post-overflow", "What is more than can be told is an *OverflowError, and nothing of it is written.", func(b *bench) {
			u, at := b.use(alice), b.now().Add(-time.Hour)
			p := span(u, at, time.Minute, 1<<62)
			p.Rate = billing.Rate{Price: 4, Per: 1}
			b.fails(p, "overflow")
			p.Rate = billing.Rate{Price: 1, Per: 1}
			b.post(p)
			p.From, p.To = p.To, p.To.Add(time.Minute)
			b.fails(p, "overflow") // the debt of the account
			p.Rate.Price = 0
			b.fails(p, "overflow") // the quantity of the meter
			u.Resource = "other"
			b.fails(span(u, at, time.Minute, 1<<62), "overflow")
			b.stands(alice, billing.Standing{Debt: 1 << 62, Spent: 1 << 62})
			b.verify(alice)
		}},
	}
}
