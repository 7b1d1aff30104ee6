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

func grantOf(id billing.GrantID, amount billing.Micros) billing.Grant {
	return billing.Grant{ID: id, Payer: "ann", Amount: amount, Source: "top-up"}
}

func TestGrant(t *testing.T) {
	b := billing.NewBook(noon.Add(123))
	got, err := b.Grant(grantOf("g", 100))
	want := grantOf("g", 100)
	want.Remaining, want.GrantedAt = 100, noon
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v: %s", err, diff)
	}
	if diff := cmp.Diff(billing.Changes{
		Accounts: []billing.Account{{Payer: "ann", Entries: 1}},
		Grants:   []billing.Grant{want},
		Entries: []billing.Entry{{ID: "grant/g", N: 1, Kind: billing.EntryGrant, Payer: "ann", Amount: 100, PostedAt: noon, Grant: "g",
			Postings: []billing.Posting{{Account: "source:top-up", Amount: -100}, {Account: "grant:g", Amount: 100}}}},
	}, b.Changes()); diff != "" {
		t.Error(diff)
	}
	if st := b.Balance("ann"); st.Available != 100 || st.Account.Payer != "ann" || len(st.Grants) != 1 {
		t.Errorf("%+v", st)
	}
}

// The same id is the same grant, and with other content a conflict. (case 62)
func TestGrantTwice(t *testing.T) {
	first := grantOf("g", 100)
	first.Priority, first.ExpiresAt = 1, second(3600)
	s := newShelf()
	b := s.book(noon)
	given, err := b.Grant(first)
	if err != nil {
		t.Fatal(err)
	}
	p := span("work-1", 0, 30)
	if out := b.Post(p); out.Err != nil {
		t.Fatal(out.Err)
	}
	s.must(t, b)
	given.Remaining = 70

	for _, c := range []struct {
		rule   string
		change func(*billing.Grant)
		same   bool
	}{
		{"just the same", func(*billing.Grant) {}, true},
		{"as it was answered", func(g *billing.Grant) { *g = given }, true},
		{"in another zone", func(g *billing.Grant) { g.ExpiresAt = g.ExpiresAt.In(time.FixedZone("east", 7200)) }, true},
		{"whatever it says is left", func(g *billing.Grant) { g.Remaining = 5 }, true},
		{"another amount", func(g *billing.Grant) { g.Amount++ }, false},
		{"another source", func(g *billing.Grant) { g.Source = "monthly" }, false},
		{"another priority", func(g *billing.Grant) { g.Priority++ }, false},
		{"another end", func(g *billing.Grant) { g.ExpiresAt = time.Time{} }, false},
		{"another beginning", func(g *billing.Grant) { g.GrantedAt = second(1) }, false},
		{"with repayment", func(g *billing.Grant) { g.Repay = true }, false},
		{"for another payer", func(g *billing.Grant) { g.Payer = "bob" }, false},
	} {
		g := first
		c.change(&g)
		b := s.book(second(60))
		got, err := b.Grant(g)
		if c.same && (err != nil || cmp.Diff(given, got) != "") || !c.same && !errors.Is(err, billing.ErrConflict) {
			t.Errorf("%s: %v, %s", c.rule, err, cmp.Diff(given, got))
		}
		if !nothing(b.Changes()) {
			t.Errorf("%s: it changed %+v", c.rule, b.Changes())
		}
	}
}

// A grant pays what is owed only where it is told to. (Late events: a credit granted later can't pay an earlier charge.)
func TestRepay(t *testing.T) {
	for _, c := range []struct {
		rule                    string
		repay                   bool
		amount, owed, left, got billing.Micros
	}{
		{"what is not told to repay does not", false, 100, 60, 100, 60},
		{"what is pays all that is owed", true, 100, 60, 40, 0},
		{"or as much as it has", true, 40, 60, 0, 20},
		{"and nothing where nothing is owed", true, 100, 0, 100, 0},
	} {
		s := newShelf()
		s.accounts["ann"] = billing.Account{Payer: "ann", Debt: c.owed, Day: 1, Spent: 5}
		g := grantOf("g", c.amount)
		g.Repay = c.repay
		b := s.book(noon)
		if _, err := b.Grant(g); err != nil {
			t.Fatal(err)
		}
		s.must(t, b) // which sums the postings
		if left, owed := s.grants["g"].Remaining, s.accounts["ann"].Debt; left != c.left || owed != c.got {
			t.Errorf("%s: %v left, %v owed", c.rule, left, owed)
		}
	}
}

// What is owed now is repaid by what counts now: not by what counts only later.
func TestRepayOfLater(t *testing.T) {
	for _, c := range []struct {
		rule          string
		granted, owed int
	}{{"from this moment on", 0, 40}, {"since before", -1, 40}, {"from the next moment on", 1, 100}} {
		s := newShelf()
		s.accounts["ann"] = billing.Account{Payer: "ann", Debt: 100}
		g := grantOf("g", 60)
		g.Repay, g.GrantedAt = true, second(c.granted)
		b := s.book(noon)
		if _, err := b.Grant(g); err != nil {
			t.Fatal(err)
		}
		s.must(t, b)
		if owed := s.accounts["ann"].Debt; owed != billing.Micros(c.owed) || int(s.grants["g"].Remaining) != c.owed-40 {
			t.Errorf("%s: %v is owed, %v left", c.rule, int64(owed), int64(s.grants["g"].Remaining))
		}
	}
}

// What has expired is not given; what was given before it expired was.
func TestGrantThatHasExpired(t *testing.T) {
	g := grantOf("g", 100)
	g.GrantedAt, g.ExpiresAt = second(-120), second(60)
	s := newShelf()
	b := s.book(second(60))
	var invalid *access.FieldError
	if _, err := b.Grant(g); !errors.As(err, &invalid) || invalid.Field != "ExpiresAt" || !nothing(b.Changes()) {
		t.Errorf("the moment it expires: %v", err)
	}
	b = s.book(second(60).Add(-time.Microsecond))
	given, err := b.Grant(g)
	if err != nil {
		t.Fatalf("the moment before: %v", err)
	}
	s.must(t, b)
	b = s.book(second(3600))
	if again, err := b.Grant(g); err != nil || again != given || !nothing(b.Changes()) {
		t.Errorf("again, much later: %+v, %v", again, err)
	}
}

// A grant that counts only later is there, and is not available yet.
func TestGrantsOfLater(t *testing.T) {
	g := grantOf("g", 100)
	g.GrantedAt, g.ExpiresAt = second(60), second(120)
	s := newShelf()
	b := s.book(noon)
	if _, err := b.Grant(g); err != nil {
		t.Fatal(err)
	}
	s.must(t, b)
	for at, want := range map[int]billing.Micros{59: 0, 60: 100, 119: 100, 120: 0} {
		if st := s.book(second(at)).Balance("ann"); st.Available != want || len(st.Grants) != 1 {
			t.Errorf("at the %dth second: %+v", at, st)
		}
	}
}

func TestExpire(t *testing.T) {
	for _, c := range []struct {
		rule     string
		at       time.Time
		lateness time.Duration
		taken    billing.Micros
	}{
		{"before it expires nothing is taken back", second(59), 0, 0},
		{"when it expires all that is left is", second(60), 0, 70},
		{"not before the lateness has passed", second(119), time.Minute, 0},
		{"and then it is", second(120), time.Minute, 70},
		{"a lateness below 0 is none", second(59), -time.Hour, 0},
	} {
		s := newShelf()
		g := grantOf("g", 100)
		g.ExpiresAt = second(60)
		b := s.book(noon)
		for _, g := range []billing.Grant{g, grantOf("stays", 5)} {
			if _, err := b.Grant(g); err != nil {
				t.Fatal(err)
			}
		}
		if out := b.Post(span("work-1", 0, 30)); out.Err != nil || out.Charged != 30 {
			t.Fatalf("%+v", out)
		}
		s.must(t, b)
		b = s.book(c.at)
		rep := b.Expire(c.lateness)
		if rep.Amount != c.taken || (rep.Grants == 1) != (c.taken > 0) {
			t.Errorf("%s: %+v", c.rule, rep)
		}
		s.must(t, b)
		if left := s.grants["g"].Remaining; left != 70-c.taken || s.grants["stays"].Remaining != 5 {
			t.Errorf("%s: %v is left", c.rule, left)
		}
		b = s.book(c.at)
		if again := b.Expire(c.lateness); again != (billing.ExpireReport{}) || !nothing(b.Changes()) {
			t.Errorf("%s: and again %+v", c.rule, again)
		}
	}
}

// What was used before a grant expired is paid by it, though it is posted after, until it is taken back.
func TestLateUseOfAnExpiredGrant(t *testing.T) {
	for _, taken := range []bool{false, true} {
		s := newShelf()
		g := grantOf("g", 100)
		g.GrantedAt, g.ExpiresAt = noon, second(60)
		b := s.book(noon)
		if _, err := b.Grant(g); err != nil {
			t.Fatal(err)
		}
		if taken {
			s.must(t, b)
			b = s.book(second(3600))
			b.Expire(time.Minute)
			s.must(t, b)
			b = s.book(second(3600))
		}
		if out := b.Post(span("work-1", 0, 60)); out.Err != nil {
			t.Fatal(out.Err)
		}
		if owed := b.Balance("ann").Debt; owed != map[bool]billing.Micros{false: 0, true: 60}[taken] {
			t.Errorf("taken back %v: %v is owed", taken, owed)
		}
	}
}

func TestGrantRefuses(t *testing.T) {
	for field, change := range map[string]func(*billing.Grant){
		"ID":        func(g *billing.Grant) { g.ID = "" },
		"Payer":     func(g *billing.Grant) { g.Payer = "" },
		"Source":    func(g *billing.Grant) { g.Source = "" },
		"Amount":    func(g *billing.Grant) { g.Amount = 0 },
		"ExpiresAt": func(g *billing.Grant) { g.GrantedAt, g.ExpiresAt = noon, noon },
	} {
		g := grantOf("g", 1)
		change(&g)
		b := billing.NewBook(noon)
		_, err := b.Grant(g)
		var invalid *access.FieldError
		if !errors.As(err, &invalid) || invalid.Field != field || !nothing(b.Changes()) {
			t.Errorf("%s: %v", field, err)
		}
	}
	b := billing.NewBook(noon)
	if _, err := b.Grant(grantOf("most", math.MaxInt64)); err != nil {
		t.Fatal(err)
	}
	var over *billing.OverflowError
	if _, err := b.Grant(grantOf("one", 1)); !errors.As(err, &over) || over.What != "account" {
		t.Errorf("more than can be told: %v", err)
	}
}
