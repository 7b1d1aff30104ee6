package billing_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// mutations take one load-bearing rule each out of the pure part of the package.
var mutations = []struct {
	rule, file, old, new string
}{
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
	goTool, err := exec.LookPath("go")
	if err != nil {
		need.Missing(t, "go", err.Error())
	}
	t.Run("none", func(t *testing.T) {
		if out, failed := mutated(t, goTool, "money.go", "", ""); failed {
			t.Fatalf("the tests fail without any mutation:\n%s", out)
		}
	})
	two := make(chan struct{}, 2) // at a time
	t.Run("rules", func(t *testing.T) {
		for _, m := range mutations {
			t.Run(m.rule, func(t *testing.T) {
				t.Parallel()
				two <- struct{}{}
				defer func() { <-two }()
				if out, failed := mutated(t, goTool, m.file, m.old, m.new); !failed {
					t.Errorf("no test misses the rule in %s: %s\n%s", m.file, m.old, out)
				}
			})
		}
	})
}

// pure matches the files of tests that need nothing but this package: they are compiled in a moment.
var pure = regexp.MustCompile(`^(admit|book_\w+|burn|money|shelf|storage)_test\.go$`)

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// mutated compiles the package's tests with file changed, runs them in short, and reports whether any failed.
func mutated(t *testing.T, goTool, file, old, changed string) (out string, failed bool) {
	t.Helper()
	source, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if old != "" {
		if n := bytes.Count(text, []byte(old)); n != 1 {
			t.Fatalf("%s holds the text of the rule %d times, want once: %s", file, n, old)
		}
		text = bytes.Replace(text, []byte(old), []byte(changed), 1)
	}
	dir := t.TempDir()
	other, overlay, binary := filepath.Join(dir, file), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutated.test")
	files := map[string]string{source: other}
	tests, err := filepath.Glob(filepath.Join(filepath.Dir(source), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if !pure.MatchString(filepath.Base(name)) {
			files[name] = "" // is left out
		}
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{other: text, overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), goTool, "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("the mutation does not compile: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.short", "-test.failfast", "-rapid.nofailfile", "-test.run", "^Test")
	run.Env = append(os.Environ(), "BUNKROOM_SKIPS=") // what a mutated program leaves out is no skip of this run
	raw, err := run.CombinedOutput()
	failed = failLine.Match(raw)
	if (err != nil) != failed {
		t.Fatalf("the run broke: %v\n%s", err, raw)
	}
	if short := strings.SplitN(string(raw), "\n", 20); len(short) == 20 {
		raw = []byte(strings.Join(short[:19], "\n"))
	}
	return string(raw), failed
}
