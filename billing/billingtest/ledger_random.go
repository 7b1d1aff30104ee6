package billingtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// slack is how much the clock of a ledger may run while operations are
// compared. Whatever is decided by a time is at least that far from each time at which it is decided.
const slack = 30 * time.Second

func randomChecks() []check {
	return []check{
		{"random", "Whatever is asked in whatever order, a ledger comes to what a book of all its rows comes to; every book adds up; and all of it again changes nothing. (T-71)", func(b *bench) {
			twin := newTwin()
			for seed := range uint64(3) {
				r := &random{
					bench: b, Rand: rand.New(rand.NewPCG(seed, 2026)), twin: twin, base: b.now(), name: fmt.Sprintf("run %d", seed),
				}
				r.run(b.opts.operations() / 3)
			}
		}},
	}
}

// random plays operations to a ledger and to a twin.
type random struct {
	*bench
	*rand.Rand
	twin   *twin
	base   time.Time
	passed time.Duration // since base, as far as the clock was stepped
	name   string        // begins every id

	asked   []billing.HoldRequest
	posted  []billing.Post
	granted []billing.Grant
	again   []func() error // everything that was done
}

func (r *random) run(operations int) {
	r.Helper()
	for n := range operations {
		op := []func(){r.doHold, r.doHold, r.doPost, r.doPost, r.doPost, r.doPost, r.doGrant, r.doRelease, r.doExpire, r.doStep, r.doStep}[r.IntN(11)]
		op()
		if n%25 == 24 {
			r.compare(fmt.Sprintf("after %d operations", n+1))
		}
		if r.Failed() {
			r.Fatalf("%s: the ledger and the book have parted at operation %d", r.name, n)
		}
	}
	r.doExpire()
	r.compare("at the end")
	r.verify(r.payers()...)
	before := r.pictures()
	for _, again := range r.again {
		if err := again(); err != nil {
			r.Errorf("%s: what was done is repeated: %v", r.name, err)
		}
	}
	if d := diff(r.pictures(), before, 0); d != "" {
		r.Errorf("%s: what was done is repeated, and changes something:\n%s", r.name, d)
	}
	r.verify(r.payers()...)
}

func (r *random) payers() []access.UserID {
	return []access.UserID{access.UserID(r.name + " ann"), access.UserID(r.name + " ben"), access.UserID(r.name + " cleo")}
}

func (r *random) resource(n int) string { return fmt.Sprintf("%s work %d", r.name, n) }

const works = 12

// pictures are all accounts, without the clock and without what a repeated renewal prolongs.
func (r *random) pictures() (all []picture) {
	for i, payer := range r.payers() {
		p := r.picture(payer, billing.MarkKey{Resource: r.resource(i), Meter: billing.MeterRuntime})
		p.Holds = nil
		all = append(all, p)
	}
	return all
}

func (r *random) compare(when string) {
	r.Helper()
	expect := func(what string, got, want any) {
		r.Helper()
		if d := diff(got, want, slack); d != "" {
			r.Errorf("%s, %s: %s:\n%s", r.name, when, what, d)
		}
	}
	book := r.twin.book(r.now())
	for _, payer := range r.payers() {
		expect("balance of "+string(payer), r.balance(payer), book.Balance(payer))
		expect("book of "+string(payer), r.statement(payer), r.twin.statement(payer))
	}
	for n := range works {
		got := r.holds(r.resource(n))
		slices.SortFunc(got, func(a, b billing.Hold) int { return cmp.Compare(a.ID, b.ID) })
		expect("holds on "+r.resource(n), got, r.twin.on(r.resource(n)))
		for _, meter := range []billing.Meter{billing.MeterRuntime, billing.MeterStorage} {
			k := billing.MarkKey{Resource: r.resource(n), Meter: meter}
			expect("mark of "+r.resource(n), r.mark(k), r.twin.mark(k))
		}
	}
}

// both makes a call of the ledger and lets a book of the twin decide the same.
func both[T any](r *random, what string, call func(context.Context) (T, error), verb func(*billing.Book) (T, error)) error {
	r.Helper()
	book := r.twin.book(r.now())
	got, err := call(r.Context())
	want, wantErr := verb(book)
	if wantErr == nil {
		r.twin.write(book.Changes())
	}
	if outcome(err) != outcome(wantErr) {
		r.Errorf("%s: got %q (%v), want %q", what, outcome(err), err, outcome(wantErr))
	} else if d := diff(got, want, slack); err == nil && d != "" {
		r.Errorf("%s:\n%s", what, d)
	}
	return err
}

// pick is one of some, or something new.
func pick[T any](r *random, some []T, fresh func() T) T {
	if len(some) > 0 && r.IntN(4) == 0 {
		return some[r.IntN(len(some))]
	}
	return fresh()
}

func (r *random) use() billing.Use {
	return billing.Use{
		Meter: []billing.Meter{billing.MeterRuntime, billing.MeterStorage}[r.IntN(2)], Class: "small",
		Resource: r.resource(r.IntN(works)), Payer: r.payers()[r.IntN(3)], Session: "session",
	}
}

func (r *random) terms() billing.Terms {
	return billing.Terms{
		Estimate: billing.Micros(r.IntN(40)), Floor: billing.Micros(r.IntN(300) - 200), InFlight: 1 + r.IntN(6),
		DailyCap: billing.Micros(r.IntN(2) * 800), MaxDebt: billing.Micros(r.IntN(150)),
	}
}

// doStep moves the clock, mostly on. What it has run by itself it loses.
func (r *random) doStep() {
	step := time.Duration(1+r.IntN(30)) * time.Minute
	if r.IntN(6) == 0 {
		step = -step
	}
	r.passed += step
	r.clock.Step(r.base.Add(r.passed).Sub(r.now()))
}

func (r *random) doHold() {
	in := pick(r, r.asked, func() billing.HoldRequest {
		return billing.HoldRequest{
			ID: billing.HoldID(r.id()), Use: r.use(), Terms: r.terms(), TTL: time.Duration(1+r.IntN(40))*time.Minute + 40*time.Second,
		}
	})
	if r.IntN(8) == 0 { // something else, where it was asked before
		in.Terms.Estimate++
	}
	call := func(ctx context.Context) (billing.Hold, error) { return r.ledger.Hold(ctx, in) }
	if both(r, "Hold", call, func(b *billing.Book) (billing.Hold, error) { return b.Hold(in) }) == nil {
		r.asked = append(r.asked, in)
		r.again = append(r.again, func() error { _, err := call(r.Context()); return err })
	}
}

func (r *random) doPost() {
	var some []billing.Post
	for range 1 + r.IntN(3) {
		p := pick(r, r.posted, r.newPost)
		if p.Quantity > 0 && r.IntN(8) == 0 {
			p.Quantity++
		}
		some = append(some, p)
	}
	var answers []billing.Posted
	both(r, "Post", func(ctx context.Context) (_ []billing.Posted, err error) {
		answers, err = r.ledger.Post(ctx, some...)
		return answers, err
	}, func(b *billing.Book) (want []billing.Posted, _ error) {
		for _, p := range some {
			want = append(want, b.Post(p))
		}
		return want, nil
	})
	for i, got := range answers {
		if p := some[i]; got.Err == nil && p.To.After(p.From) {
			r.posted = append(r.posted, p)
			p.Renew = 0 // which is from now on each time
			r.again = append(r.again, func() error {
				again, err := r.ledger.Post(r.Context(), p)
				return cmp.Or(err, errOf(again))
			})
		}
	}
}

func (r *random) newPost() billing.Post {
	p := billing.Post{Use: r.use(), Quantity: int64(r.IntN(120)), Terms: r.terms(), Last: r.IntN(40) == 0}
	if len(r.asked) > 0 && r.IntN(2) == 0 {
		h := r.asked[r.IntN(len(r.asked))]
		p.Use, p.Hold = h.Use, h.ID
		p.Renew = time.Duration(r.IntN(2)) * (20*time.Minute + 40*time.Second)
	}
	p.Rate = []billing.Rate{{Price: 1, Per: 1}, {Price: 1, Per: 3}, {Price: 7, Per: 1000}, {Price: 0, Per: 1}}[r.IntN(4)]
	p.From = r.twin.mark(p.Key()).Through
	if p.From.IsZero() || r.IntN(10) == 0 {
		p.From = r.base.Add(r.passed - time.Duration(r.IntN(90))*time.Minute - 15*time.Second)
	}
	p.To = r.base.Add(r.passed - time.Duration(r.IntN(30))*time.Minute - 15*time.Second)
	if p.To.Before(p.From) || r.IntN(8) == 0 {
		p.To, p.Quantity = p.From, 0
	}
	return p
}

func (r *random) doRelease() {
	if len(r.asked) == 0 {
		return
	}
	id := r.asked[r.IntN(len(r.asked))].ID
	call := func(ctx context.Context) (billing.Hold, error) { return r.ledger.Release(ctx, id) }
	if both(r, "Release", call, func(b *billing.Book) (billing.Hold, error) { return b.Release(id) }) == nil {
		r.again = append(r.again, func() error { _, err := call(r.Context()); return err })
	}
}

func (r *random) doGrant() {
	g := pick(r, r.granted, func() billing.Grant {
		g := billing.Grant{
			ID: billing.GrantID(r.id()), Payer: r.payers()[r.IntN(3)], Amount: billing.Micros(1 + r.IntN(900)), Source: "monthly",
			Priority: r.IntN(3), Repay: r.IntN(3) == 0,
		}
		if r.IntN(2) == 0 {
			g.GrantedAt = r.base.Add(r.passed + time.Duration(r.IntN(120)-60)*time.Minute - 10*time.Second)
		}
		if r.IntN(2) == 0 {
			g.ExpiresAt = r.base.Add(r.passed + time.Duration(61+r.IntN(300))*time.Minute - 10*time.Second)
		}
		return g
	})
	if r.IntN(4) == 0 {
		g.Amount++
	}
	call := func(ctx context.Context) (billing.Grant, error) { return r.ledger.Grant(ctx, g) }
	if both(r, "Grant", call, func(b *billing.Book) (billing.Grant, error) { return b.Grant(g) }) == nil {
		r.granted = append(r.granted, g)
		r.again = append(r.again, func() error { _, err := call(r.Context()); return err })
	}
}

func (r *random) doExpire() {
	lateness := time.Duration(r.IntN(2)) * 10 * time.Minute
	both(r, "Expire", func(ctx context.Context) (billing.ExpireReport, error) {
		return r.ledger.Expire(ctx, lateness, 10_000)
	}, func(b *billing.Book) (billing.ExpireReport, error) { return b.Expire(lateness), nil })
}
