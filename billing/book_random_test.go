package billing_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// randomBook is a shelf, and what must be true of it at every moment.
type randomBook struct {
	t       *rapid.T
	s       *shelf
	now     time.Time
	terms   billing.Terms
	charged map[billing.MarkKey]billing.Micros
}

var payers = []access.UserID{"ann", "bob"}

// TestBookProperties has two payers' works hold, post, renew, settle, release,
// expire and be granted credit in any order, with a clock that steps both ways.
func TestBookProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &randomBook{t: t, s: newShelf(), now: noon, charged: map[billing.MarkKey]billing.Micros{}}
		r.terms = billing.Terms{
			Estimate: billing.Micros(rapid.IntRange(0, 20).Draw(t, "estimate")),
			Floor:    billing.Micros(rapid.IntRange(-30, 10).Draw(t, "floor")), InFlight: rapid.IntRange(1, 4).Draw(t, "in flight"),
			DailyCap: billing.Micros(rapid.IntRange(0, 2).Draw(t, "cap") * 100), MaxDebt: billing.Micros(rapid.IntRange(0, 30).Draw(t, "max debt")),
		}
		t.Repeat(map[string]func(*rapid.T){
			"": r.check,
			"clock": func(t *rapid.T) {
				r.now = r.now.Add(time.Duration(rapid.IntRange(-20, 60).Draw(t, "seconds")) * time.Second)
			},
			"hold": r.hold,
			"post": r.post,
			"release": func(*rapid.T) {
				id := r.holdID()
				r.do(func(b *billing.Book) error { _, err := b.Release(id); return err })
			},
			"grant": r.grant,
			"expire": func(t *rapid.T) {
				lateness := time.Duration(rapid.IntRange(0, 1).Draw(t, "lateness")) * time.Minute
				r.do(func(b *billing.Book) error { b.Expire(lateness); return nil })
			},
		})
		r.replay()
	})
}

func (r *randomBook) book() *billing.Book { return r.s.book(r.now) }

// do has a verb change the shelf. It is decided twice: the changes are the same both times, and none with an error.
func (r *randomBook) do(verb func(*billing.Book) error) {
	b := r.book()
	err := verb(b)
	c := b.Changes()
	if err != nil && !nothing(c) {
		r.t.Fatalf("%v, and changes %+v", err, c)
	}
	if diff := gocmp.Diff(c, b.Changes()); diff != "" {
		r.t.Fatalf("asked twice the changes differ: %s", diff)
	}
	if !slices.IsSortedFunc(c.Holds, func(a, b billing.Hold) int { return cmp.Compare(a.ID, b.ID) }) ||
		!slices.IsSortedFunc(c.Grants, func(a, b billing.Grant) int { return cmp.Compare(a.ID, b.ID) }) ||
		!slices.IsSortedFunc(c.Accounts, func(a, b billing.Account) int { return cmp.Compare(a.Payer, b.Payer) }) {
		r.t.Fatalf("changes have no order: %+v", c)
	}
	if err := r.s.put(c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *randomBook) work() (string, access.UserID) {
	n := rapid.IntRange(0, 3).Draw(r.t, "work")
	return fmt.Sprintf("work-%d", n), payers[n%2]
}

func (r *randomBook) holdID() billing.HoldID {
	return billing.HoldID(fmt.Sprintf("hold-%d", rapid.IntRange(0, 7).Draw(r.t, "hold")))
}

func (r *randomBook) use() billing.Use {
	work, payer := r.work()
	u := runtimeOf(work)
	u.Payer = payer
	return u
}

func (r *randomBook) hold(t *rapid.T) {
	req := billing.HoldRequest{ID: r.holdID(), Use: r.use(), Terms: r.terms, TTL: time.Duration(rapid.IntRange(1, 90).Draw(t, "ttl")) * time.Second}
	_, known := r.s.holds[req.ID]
	r.do(func(b *billing.Book) error {
		_, err := b.Hold(req)
		st := b.Balance(req.Payer).Standing
		if err == nil && !known && (st.Spendable() <= r.terms.Floor || st.Holds > r.terms.InFlight || st.Debt > r.terms.MaxDebt) {
			t.Fatalf("let in, and now at %+v, with the terms %+v", st, r.terms)
		}
		return err
	})
}

func (r *randomBook) post(t *rapid.T) {
	p := billing.Post{Use: r.use(), Rate: perSecond, Terms: r.terms, Last: rapid.IntRange(0, 9).Draw(t, "last") == 0}
	if rapid.Bool().Draw(t, "held") {
		p.Hold = r.holdID()
		if h, there := r.s.holds[p.Hold]; there {
			p.Use = h.Use
		}
	}
	if rapid.Bool().Draw(t, "renew") {
		p.Renew = time.Minute
	}
	p.From = r.s.marks[p.Key()].Through
	if p.From.IsZero() || rapid.IntRange(0, 3).Draw(t, "anywhere") == 0 {
		p.From = r.now.Add(time.Duration(rapid.IntRange(-30, 0).Draw(t, "from")) * time.Second)
	}
	length := time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond
	p.To, p.Quantity = p.From.Add(length), length.Microseconds()
	before := r.s.marks[p.Key()]
	r.do(func(b *billing.Book) error {
		out := b.Post(p)
		if out.Err == nil && !out.Repeated {
			r.charged[p.Key()] += out.Charged
		}
		return out.Err
	})
	// The same post again, as after a reply that was lost, charges nothing more.
	if after := r.s.marks[p.Key()]; after != before && length > 0 {
		r.do(func(b *billing.Book) error {
			out := b.Post(p)
			if out.Err != nil || !out.Repeated || len(b.Changes().Entries) > 0 {
				t.Fatalf("posted again: %+v", out)
			}
			return out.Err
		})
	}
}

func (r *randomBook) grant(t *rapid.T) {
	g := billing.Grant{
		ID: billing.GrantID(fmt.Sprintf("grant-%d", rapid.IntRange(0, 30).Draw(t, "grant"))), Payer: rapid.SampledFrom(payers).Draw(t, "payer"),
		Amount: billing.Micros(rapid.IntRange(1, 50).Draw(t, "amount")), Source: "test", Priority: rapid.IntRange(0, 1).Draw(t, "priority"),
		Repay: rapid.Bool().Draw(t, "repay"),
	}
	if rapid.Bool().Draw(t, "expires") {
		g.ExpiresAt = r.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
	}
	r.do(func(b *billing.Book) error {
		_, err := b.Grant(g)
		if err != nil && !errors.Is(err, billing.ErrConflict) {
			t.Fatal(err)
		}
		return err
	})
}

// check is what is true at every moment.
func (r *randomBook) check(t *rapid.T) {
	charged := map[billing.MarkKey]billing.Micros{}
	ends := map[billing.MarkKey]time.Time{}
	quantity := map[billing.MarkKey]int64{}
	for _, e := range r.s.entries {
		if e.Kind != billing.EntryUsage {
			continue
		}
		k := billing.MarkKey{Resource: e.Use.Resource, Meter: e.Use.Meter}
		if end := ends[k]; !e.To.After(e.From) || !end.IsZero() && !end.Equal(e.From) {
			t.Fatalf("%s begins at %v, and the one before it ended at %v", e.ID, e.From, end)
		}
		charged[k] += e.Amount
		quantity[k] += e.Quantity
		ends[k] = e.To
	}
	for k, end := range ends {
		m := r.s.marks[k]
		whole, _, err := perSecond.Charge(m.Total, billing.Remainder{})
		if err != nil || !m.Through.Equal(end) || m.Total != quantity[k] || whole != charged[k] || charged[k] != r.charged[k] {
			t.Fatalf("%+v: posted through %v, %d of it, charged %v, which costs %v; answered %v", m, end, quantity[k], charged[k], whole, r.charged[k])
		}
	}
}

// replay folds the whole log: the balances are what it says.
func (r *randomBook) replay() {
	sums := map[string]billing.Micros{}
	count := map[access.UserID]int64{}
	for _, e := range r.s.entries {
		if count[e.Payer]++; e.N != count[e.Payer] {
			r.t.Fatalf("entry %s is at place %d of %s's book", e.ID, e.N, e.Payer)
		}
		for _, p := range e.Postings {
			sums[p.Account] += p.Amount
		}
	}
	for id, g := range r.s.grants {
		if sums["grant:"+string(id)] != g.Remaining {
			r.t.Fatalf("%s has %v, by the log %v", id, g.Remaining, sums["grant:"+string(id)])
		}
	}
	for payer, a := range r.s.accounts {
		if a.Debt != -sums["debt:"+string(payer)] || a.Entries != count[payer] {
			r.t.Fatalf("%+v: by the log it owes %v and has %d entries", a, -sums["debt:"+string(payer)], count[payer])
		}
	}
	var all billing.Micros
	for _, sum := range sums {
		all += sum
	}
	if all != 0 {
		r.t.Fatalf("all accounts together have %v", all)
	}
}
