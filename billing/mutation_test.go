package billing_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/bunkroom/bunkroom/internal/mutanttest"
	"github.com/bunkroom/bunkroom/internal/need"
)

// mutation takes one load-bearing rule out of the pure part of the package.
type mutation struct {
	rule, file, old, new string
}

var mutations = []mutation{
	{"what is left of a micro is carried", "book_post.go", "mark.Left, mark.Total = left, total", "mark.Total = total\n\t_ = left"},
	{"a remainder is counted in the new part of a micro where the price has changed", "money.go", "if left.N > 0 && left.Per != r.Per {", "if false {"},
	{"a watermark moves on from where it is only", "book_post.go", "case !mark.Through.IsZero() && !mark.Through.Equal(p.From):", "case false:"},
	{"the same span is charged once", "book_post.go", "was, ok := b.entries[UsageID(p.Key(), p.From)]\n	if !ok {", "was, ok := b.entries[UsageID(p.Key(), p.From)]\n	if ok || !ok {"},
	{"a hold that was settled or released takes nothing", "book_post.go", "case mark.Closed, hold != nil && (hold.State == HoldSettled || hold.State == HoldReleased):", "case mark.Closed:"},
	{"the last post closes the meter", "book_post.go", "mark.Through, mark.Closed = p.To, p.Last", "mark.Through = p.To"},
	{"a hold that has expired is not renewed", "book_post.go", "case open && expired:", "case open && expired && false:"},
	{"an account is asked again before a hold is renewed", "book_post.go", "if d := Admit(b.standing(h.Payer, h.ID), terms); !d.Allow {", "if d := Admit(b.standing(h.Payer, h.ID), terms); false {"},
	{"what was let in goes on, however much is in flight", "book_post.go", "terms.InFlight = math.MaxInt", "terms.InFlight = min(terms.InFlight, math.MaxInt)"},
	{"a clock set back over a midnight forgets nothing of the later day", "book_post.go", "if today := day(b.now); today > account.Day {", "if today := day(b.now); today != account.Day {"},
	{"nor shows a day without what it has cost", "book.go", "if a.Day >= day(b.now) {", "if a.Day == day(b.now) {"},
	{"what another has paid for is no conflict", "book_post.go", "(was.Use.Payer != p.Payer || !was.To.Equal(p.To))", "was.Use.Payer == p.Payer && !was.To.Equal(p.To)"},
	{"a grant repays only when it counts", "book_grant.go", "g.Repay && g.counts(b.now) && repaid > 0", "g.Repay && repaid > 0"},
	{"what has expired is not given", "book_grant.go", "if !g.ExpiresAt.IsZero() && !b.now.Before(g.ExpiresAt) {", "if false {"},
	{"the span's last microsecond says which grants pay", "book_post.go", "p.To.Add(-time.Microsecond), amount)", "p.To, amount)"},
	{"what no grant covers is owed", "book_post.go", "a.Day, a.Spent, a.Debt = account.Day, spent, debt", "a.Day, a.Spent = account.Day, spent\n\t_ = debt"},
	{"a hold that has expired reserves nothing", "book.go", "id != without && b.now.Before(h.Until)", "id != without"},
	{"the same grant is given once", "book_grant.go", "if was, ok := b.entries[GrantEntryID(g.ID)]; ok {", "if was, ok := b.entries[GrantEntryID(g.ID)]; ok && false {"},
	{"grants pay by their order", "burn.go", "	slices.SortFunc(order, BurnOrder)\n", ""},
	{"at the floor nothing starts", "admit.go", "case spendable.less(estimate) <= t.Floor:", "case spendable.less(estimate) < t.Floor:"},
	{"the day's cap counts what is held", "admit.go", "t.DailyCap.less(s.Spent).less(s.Held)", "t.DailyCap.less(s.Spent)"},
}

// TestMutations takes rules out of the package one by one. Each time the
// mutated package must still compile, and its tests must fail.
func TestMutations(t *testing.T) {
	need.Long(t, "each rule is taken out of the source, which is compiled and tested")
	t.Run("none", func(t *testing.T) {
		if out, failed := mutated(t, mutation{}); failed {
			t.Fatalf("the tests fail without any mutation:\n%s", out)
		}
	})
	mutanttest.Each(t, mutations, func(m mutation) string { return m.rule }, func(t *testing.T, m mutation) {
		if out, failed := mutated(t, m); !failed {
			t.Errorf("no test misses the rule in %s: %s\n%s", m.file, m.old, out)
		}
	})
}

// pure matches the files of tests that need nothing but this package: they are compiled in a moment.
var pure = regexp.MustCompile(`^(admit|book_\w+|burn|money|shelf|storage)_test\.go$`)

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// mutated runs the package's tests without a rule, in short, and reports whether any failed.
func mutated(t *testing.T, m mutation) (out string, failed bool) {
	t.Helper()
	tree := mutanttest.Tree{}
	if m.old != "" {
		tree.Without(t, m.file, m.old, m.new)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if !pure.MatchString(name) {
			tree[filepath.Join(here, name)] = "" // is left out
		}
	}
	raw, err := tree.Run(t, nil, "-test.short", "-test.failfast", "-rapid.nofailfile", "-test.run", "^Test")
	failed = failLine.Match(raw)
	if (err != nil) != failed {
		t.Fatalf("the run broke: %v\n%s", err, raw)
	}
	return mutanttest.Head(raw, 19), failed
}
