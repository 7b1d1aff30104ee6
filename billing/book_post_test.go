package billing_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

var workMark = billing.MarkKey{Resource: "work-1", Meter: billing.MeterRuntime}

func TestPost(t *testing.T) {
	s := newShelf()
	s.grants["g"] = billing.Grant{ID: "g", Payer: "ann", Amount: 40, Source: "test", Remaining: 40, GrantedAt: second(-10)}
	b := s.book(second(60))
	if out := b.Post(span("work-1", 0, 60)); out.Err != nil || out.Charged != 60 || out.Repeated || out.Refused != nil {
		t.Fatalf("%+v", out)
	}
	c := b.Changes()
	want := billing.Changes{
		Accounts: []billing.Account{{Payer: "ann", Debt: 20, Day: 20513, Spent: 60, Entries: 1}},
		Grants:   []billing.Grant{{ID: "g", Payer: "ann", Amount: 40, Source: "test", GrantedAt: second(-10)}},
		Marks:    []billing.Mark{{MarkKey: workMark, Through: second(60), Total: 60_000_000, Of: runtimeOf("work-1")}},
		Entries: []billing.Entry{{
			ID: "usage/runtime/work-1/1772366400000000", N: 1, Kind: billing.EntryUsage, Payer: "ann", Amount: 60, PostedAt: second(60),
			Use: runtimeOf("work-1"), From: noon, To: second(60), Quantity: 60_000_000, Rate: perSecond,
			Postings: []billing.Posting{{Account: "grant:g", Amount: -40}, {Account: "debt:ann", Amount: -20}, {Account: "revenue:runtime", Amount: 60}},
		}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// What is posted after what: on a meter that is posted through the 60th
// second, by a span that began at noon.
func TestPostAfterPost(t *testing.T) {
	with := func(p billing.Post, change func(*billing.Post)) billing.Post { change(&p); return p }
	for _, c := range []struct {
		rule    string
		post    billing.Post
		closed  bool // the meter
		err     error
		through int // of a *MarkError; 0 = none
		again   bool
		to      int // the watermark after it
	}{
		{rule: "the next span begins where the last one ended", post: span("work-1", 60, 90), to: 90},
		{rule: "the same again is done once (T-71, case 62)", post: span("work-1", 0, 60), again: true, to: 60},
		{rule: "the same again with another amount is a conflict (case 62)",
			post: with(span("work-1", 0, 60), func(p *billing.Post) { p.Quantity++ }), err: billing.ErrConflict, to: 60},
		{rule: "and for another session",
			post: with(span("work-1", 0, 60), func(p *billing.Post) { p.Session = "other" }), err: billing.ErrConflict, to: 60},
		{rule: "what another has paid for is no conflict: the project has changed hands meanwhile",
			post: with(span("work-1", 0, 60), func(p *billing.Post) { p.Payer = "bob" }), through: 60, to: 60},
		{rule: "whatever it comes to",
			post: with(span("work-1", 0, 60), func(p *billing.Post) { p.Payer, p.Quantity = "bob", 1 }), through: 60, to: 60},
		{rule: "another payer goes on from there",
			post: with(span("work-1", 60, 90), func(p *billing.Post) { p.Payer = "bob" }), to: 90},
		{rule: "what begins there and ends later overlaps (T-62)", post: span("work-1", 0, 90), through: 60, to: 60},
		{rule: "and what ends earlier", post: span("work-1", 0, 30), through: 60, to: 60},
		{rule: "what begins within overlaps (T-62)", post: span("work-1", 30, 90), through: 60, to: 60},
		{rule: "what begins before overlaps", post: span("work-1", -30, 90), through: 60, to: 60},
		{rule: "what lies before is too late (T-65)", post: span("work-1", -30, 0), through: 60, to: 60},
		{rule: "nothing is left out", post: span("work-1", 61, 90), through: 60, to: 60},
		{rule: "a span of no length posts nothing", post: span("work-1", 60, 60), to: 60},
		{rule: "nor does it move the watermark", post: span("work-1", 90, 90), through: 60, to: 60},
		{rule: "another work has its own", post: span("work-2", 0, 60), to: 60},
		{rule: "a meter that was closed takes nothing", post: span("work-1", 60, 90), closed: true, err: billing.ErrClosed, to: 60},
		{rule: "not even nothing", post: span("work-1", 60, 60), closed: true, err: billing.ErrClosed, to: 60},
		{rule: "but what was posted before it was closed was", post: span("work-1", 0, 60), closed: true, again: true, to: 60},
		{rule: "and so was what closed it",
			post: with(span("work-1", 60, 60), func(p *billing.Post) { p.Last = true }), closed: true, again: true, to: 60},
	} {
		s := newShelf()
		first := s.book(second(60))
		p := span("work-1", 0, 60)
		p.Last = c.closed
		if out := first.Post(p); out.Err != nil {
			t.Fatal(out.Err)
		}
		s.must(t, first)
		b := s.book(second(90))
		out := b.Post(c.post)
		var mark *billing.MarkError
		switch {
		case c.through != 0:
			if !errors.As(out.Err, &mark) || !mark.Through.Equal(second(c.through)) || !mark.From.Equal(c.post.From) || mark.MarkKey != workMark {
				t.Errorf("%s: %v", c.rule, out.Err)
			}
		case !errors.Is(out.Err, c.err):
			t.Errorf("%s: %v, want %v", c.rule, out.Err, c.err)
		}
		if out.Err != nil && !nothing(b.Changes()) {
			t.Errorf("%s: an error, and changes", c.rule)
		}
		if out.Repeated != c.again || c.again && len(b.Changes().Entries) > 0 || c.again && c.post.To.After(c.post.From) && out.Charged != 60 {
			t.Errorf("%s: repeated %v, charged %v", c.rule, out.Repeated, out.Charged)
		}
		s.must(t, b)
		if got := s.marks[workMark].Through; !got.Equal(second(c.to)) {
			t.Errorf("%s: it is posted through %v", c.rule, got)
		}
	}
}

// A hold is for one use, and pays for no other.
func TestPostToAnotherHold(t *testing.T) {
	for what, change := range map[string]func(*billing.Use){
		"payer": func(u *billing.Use) { u.Payer = "bob" }, "work": func(u *billing.Use) { u.Resource = "work-2" },
		"meter": func(u *billing.Use) { u.Meter = "gpu" }, "class": func(u *billing.Use) { u.Class = "large" },
		"session": func(u *billing.Use) { u.Session = "session-2" }, "project": func(u *billing.Use) { u.Project = "web" },
	} {
		b := holdIn(billing.HoldOpen, second(100)).book(second(60))
		p := span("work-1", 0, 60)
		p.Hold = "hold-1"
		change(&p.Use)
		if out := b.Post(p); !errors.Is(out.Err, billing.ErrConflict) || !nothing(b.Changes()) {
			t.Errorf("another %s: %+v", what, out)
		}
	}
}

// A work that begins sets its watermark with a span of no length; nothing is charged before.
func TestBeginning(t *testing.T) {
	s := newShelf()
	b := s.book(second(5))
	if out := b.Post(span("work-1", 5, 5)); out.Err != nil || out.Repeated || out.Charged != 0 {
		t.Fatalf("%+v", out)
	}
	s.must(t, b)
	if m := s.marks[workMark]; !m.Through.Equal(second(5)) || m.Total != 0 || len(s.entries) != 0 {
		t.Errorf("%+v, %d entries", m, len(s.entries))
	}
	var mark *billing.MarkError
	if out := s.book(second(9)).Post(span("work-1", 0, 9)); !errors.As(out.Err, &mark) {
		t.Errorf("a span from before the beginning: %+v", out)
	}
}

// Which grants pay goes by when it was used, not by when it is posted: the span's last microsecond decides.
func TestEligibilityByEventTime(t *testing.T) {
	for _, c := range []struct {
		rule             string
		granted, expires int
		pays             bool
	}{
		{"credit given before pays", -10, 0, true},
		{"credit given when it ended pays nothing of it", 60, 0, false},
		{"nor what is given later", 61, 0, false},
		{"credit given while it went on pays", 59, 0, true},
		{"what expired before it ended pays nothing", -10, 59, false},
		{"what expired as it ended pays, though it is posted much later", -10, 60, true},
	} {
		s := newShelf()
		g := billing.Grant{ID: "g", Payer: "ann", Amount: 100, Source: "test", Remaining: 100, GrantedAt: second(c.granted)}
		if c.expires != 0 {
			g.ExpiresAt = second(c.expires)
		}
		s.grants["g"] = g
		b := s.book(second(3600))
		if out := b.Post(span("work-1", 0, 60)); out.Err != nil || out.Charged != 60 {
			t.Fatalf("%+v", out)
		}
		s.must(t, b)
		if got := s.accounts["ann"].Debt == 0; got != c.pays {
			t.Errorf("%s: it paid: %v", c.rule, got)
		}
	}
}

// Tiny posts, each under a micro, cost what they cost together. (T-70)
func TestPostsCarryTheRemainder(t *testing.T) {
	s := newShelf()
	for n := range 1000 {
		p := span("work-1", 0, 0)
		p.From, p.To = noon.Add(time.Duration(n)*time.Millisecond), noon.Add(time.Duration(n+1)*time.Millisecond)
		p.Quantity, p.Rate = 1000, runtimeRate
		b := s.book(second(10))
		if out := b.Post(p); out.Err != nil {
			t.Fatal(out.Err)
		}
		s.must(t, b)
	}
	want, left, _ := runtimeRate.Charge(1_000_000, billing.Remainder{})
	if got := s.accounts["ann"].Debt; got != want || s.marks[workMark].Left != left || want == 0 {
		t.Errorf("a thousand milliseconds cost %v, a second %v", got, want)
	}
}

// The day is UTC's, whatever zone the ledger's clock or the caller's has. (T-58)
func TestSpentByTheDayOfUTC(t *testing.T) {
	far := time.FixedZone("far", -11*3600)
	s := newShelf()
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for n, at := range []time.Time{midnight.Add(-time.Microsecond), midnight, midnight.Add(24*time.Hour - time.Microsecond), midnight.Add(24 * time.Hour)} {
		b := s.book(at.In(far))
		p := span("work-1", n, n+1)
		p.From, p.To = p.From.In(far), p.To.In(far)
		if out := b.Post(p); out.Err != nil {
			t.Fatal(out.Err)
		}
		s.must(t, b)
		if spent := b.Balance("ann").Spent; spent != []billing.Micros{1, 1, 2, 1}[n] {
			t.Errorf("at %v the day has cost %v", at, spent)
		}
	}
	if e := s.entries[0]; e.From.Location() != time.UTC || e.PostedAt.Location() != time.UTC || !e.From.Equal(noon) {
		t.Errorf("the book has %v and %v", e.From, e.PostedAt)
	}
	if spent := s.book(midnight.Add(48 * time.Hour)).Balance("ann").Spent; spent != 0 {
		t.Errorf("a new day has cost %v", spent)
	}
}

// A clock that is set back over a midnight, and comes over it again, forgets nothing of what the day has cost.
func TestClockBackOverMidnight(t *testing.T) {
	s := newShelf()
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for n, c := range []struct {
		at   time.Time
		want billing.Micros
	}{
		{midnight.Add(-time.Minute), 1}, {midnight.Add(30 * time.Second), 1}, {midnight.Add(-30 * time.Second), 2}, {midnight.Add(30 * time.Second), 3},
	} {
		b := s.book(c.at)
		if out := b.Post(span("work-1", n, n+1)); out.Err != nil {
			t.Fatal(out.Err)
		}
		s.must(t, b)
		if spent := s.book(c.at).Balance("ann").Spent; spent != c.want {
			t.Errorf("at %v the day has cost %v, want %v", c.at, int64(spent), int64(c.want))
		}
	}
}

func TestPostRefusesFields(t *testing.T) {
	for field, change := range map[string]func(*billing.Post){
		"Payer":    func(p *billing.Post) { p.Payer = "" },
		"Resource": func(p *billing.Post) { p.Resource = "" },
		"Meter":    func(p *billing.Post) { p.Meter = "a/b" }, // else two meters could have one id
		"From":     func(p *billing.Post) { p.From = time.Time{} },
		"To":       func(p *billing.Post) { p.To = p.From.Add(-1) },
		"Quantity": func(p *billing.Post) { p.Quantity = -1 },
		"Rate":     func(p *billing.Post) { p.Rate.Per = 0 },
		"Renew":    func(p *billing.Post) { p.Renew = -1 },
	} {
		p := span("work-1", 0, 60)
		change(&p)
		b := billing.NewBook(second(60))
		out := b.Post(p)
		var invalid *access.FieldError
		if !errors.As(out.Err, &invalid) || invalid.Field != field || !nothing(b.Changes()) {
			t.Errorf("%s: %+v", field, out)
		}
	}
	p := span("work-1", 0, 0)
	p.Quantity = 1
	var invalid *access.FieldError
	if out := billing.NewBook(noon).Post(p); !errors.As(out.Err, &invalid) || invalid.Field != "Quantity" {
		t.Errorf("a quantity of no time: %+v", out)
	}
}

func TestPostTooMuch(t *testing.T) {
	for _, c := range []struct {
		what  string
		prior billing.Account
		mark  int64
		rate  billing.Micros
	}{
		{"charge", billing.Account{}, 0, math.MaxInt64},
		{"quantity", billing.Account{}, math.MaxInt64 - 59_999_999, 1},
		{"account", billing.Account{Debt: math.MaxInt64 - 59}, 0, 1},
		{"account", billing.Account{Day: 20513, Spent: math.MaxInt64 - 59}, 0, 1},
	} {
		s := newShelf()
		c.prior.Payer = "ann"
		s.accounts["ann"] = c.prior
		s.marks[workMark] = billing.Mark{MarkKey: workMark, Through: noon, Total: c.mark}
		b := s.book(second(60))
		p := span("work-1", 0, 60)
		p.Rate.Price = c.rate
		out := b.Post(p)
		var over *billing.OverflowError
		if !errors.As(out.Err, &over) || over.What != c.what || !nothing(b.Changes()) {
			t.Errorf("%s: %+v, %+v", c.what, out, b.Changes())
		}
	}
}

// No two spans of use have one id, and none has a grant's.
func TestIDsOfEntries(t *testing.T) {
	ids := map[string]bool{}
	for _, id := range []string{
		billing.UsageID(billing.MarkKey{Resource: "b/c", Meter: "a"}, noon),
		billing.UsageID(billing.MarkKey{Resource: "c", Meter: "a"}, noon),
		billing.UsageID(billing.MarkKey{Resource: "x", Meter: "grant"}, noon),
		billing.UsageID(billing.MarkKey{Resource: "x", Meter: "expiry"}, noon),
		billing.GrantEntryID("x/1772366400000000"),
		billing.ExpiryEntryID("x/1772366400000000"),
		billing.GrantEntryID("x"),
	} {
		if ids[id] {
			t.Errorf("%s is there twice", id)
		}
		ids[id] = true
	}
	k := billing.MarkKey{Resource: "r", Meter: "m"}
	if billing.UsageID(k, noon) != billing.UsageID(k, noon.In(time.FixedZone("east", 7200))) {
		t.Error("the same instant has two ids")
	}
	if billing.UsageID(k, noon) == billing.UsageID(k, noon.Add(time.Microsecond)) {
		t.Error("two instants have one id")
	}
}
