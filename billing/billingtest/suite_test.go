package billingtest

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// recorder is a TB for a check that is expected to fail: it remembers that
// instead of failing the test. All else is the test's.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    strings.Builder
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// failing runs checks, those named or else all, and returns what the failing ones had to say.
func failing(t *testing.T, only []string, open func(*Clock) billing.Ledger) map[string]string {
	said := map[string]string{}
	for _, c := range ledgerChecks() {
		if only != nil && !slices.Contains(only, c.name) {
			continue
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // Fatalf ends the goroutine
			defer close(done)
			c.run(newBench(r, c, nil, open))
		}()
		<-done
		if r.Failed() {
			said[c.name] = r.log.String()
			if !strings.Contains(said[c.name], "rule: "+c.rule) {
				t.Errorf("check %s fails without its rule: %s", c.name, said[c.name])
			}
		}
	}
	return said
}

func TestEveryCheckHasItsNameAndRule(t *testing.T) {
	seen := map[string]bool{}
	sentence := regexp.MustCompile(`^[A-Z].*\.( \([A-Zcl][^)]*\))?$`)
	for _, c := range ledgerChecks() {
		if c.name == "" || seen[c.name] || !sentence.MatchString(c.rule) {
			t.Errorf("check %q with rule %q: want a name of its own and a sentence", c.name, c.rule)
		}
		seen[c.name] = true
	}
}

func TestDiff(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	one := picture{
		Balance: billing.Balance{Now: at, Grants: []billing.Grant{{ID: "g", Amount: 5}}},
		Entries: []billing.Entry{{ID: "e", Postings: []billing.Posting{{Account: "a", Amount: 1}}}},
	}
	if d := diff(one, one, 0); d != "" {
		t.Errorf("a value differs from itself: %s", d)
	}
	for want, edit := range map[string]func(*picture){
		"Balance.Grants[0].Amount":      func(p *picture) { p.Balance.Grants = []billing.Grant{{ID: "g", Amount: 6}} },
		"Balance.Grants length":         func(p *picture) { p.Balance.Grants = nil },
		"Entries[0].Postings[0].Amount": func(p *picture) { p.Entries = []billing.Entry{{ID: "e", Postings: []billing.Posting{{Account: "a"}}}} },
		"Balance.Now zone":              func(p *picture) { p.Balance.Now = at.In(time.FixedZone("CET", 3600)) },
		"Balance.Now:":                  func(p *picture) { p.Balance.Now = at.Add(time.Nanosecond) },
	} {
		other := one
		edit(&other)
		if d := diff(other, one, 0); !strings.Contains(d, want) || strings.Count(d, "\n") != 0 {
			t.Errorf("got %q, want %s", d, want)
		}
	}
	late := one
	late.Balance.Now = at.Add(time.Second)
	if d := diff(late, one, time.Second); d != "" {
		t.Errorf("within the slack: %s", d)
	}
	late.Balance.Now = time.Time{}
	if d := diff(late, one, 1<<62); d == "" {
		t.Error("a moment that is not set is as good as one that is")
	}
	refused := &billing.RefusedError{Payer: "p", Decision: billing.AdmitDecision{Reason: billing.RefusedDebt}}
	for _, c := range []struct {
		got, want billing.Posted
		same      bool
	}{
		{billing.Posted{Err: fmt.Errorf("a: %w", billing.ErrClosed)}, billing.Posted{Err: billing.ErrClosed}, true},
		{billing.Posted{Err: billing.ErrConflict}, billing.Posted{Err: billing.ErrClosed}, false},
		{billing.Posted{Err: billing.ErrConflict}, billing.Posted{}, false},
		{billing.Posted{}, billing.Posted{Err: errors.New("any")}, false},
		{billing.Posted{Refused: refused}, billing.Posted{Refused: &billing.RefusedError{Payer: "p", Decision: refused.Decision}}, true},
		{billing.Posted{Refused: refused}, billing.Posted{}, false},
		{billing.Posted{}, billing.Posted{Refused: refused}, false},
	} {
		if d := diff(c.got, c.want, 0); (d == "") != c.same {
			t.Errorf("%+v and %+v: %q", c.got, c.want, d)
		}
	}
	if diff(1, "1", 0) == "" {
		t.Error("a number is as good as a text")
	}
}

func TestClock(t *testing.T) {
	c := NewClock()
	var stepped time.Duration
	c.OnStep(func(d time.Duration) { stepped += d })
	start := c.Now()
	c.Step(time.Hour)
	c.Step(-time.Minute)
	if got := c.Now().Sub(start); got != 59*time.Minute || stepped != got {
		t.Errorf("the clock moved by %v and told of %v, want 59m", got, stepped)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opts                *Options
		operations, callers int
	}{
		{nil, 400, 64}, {&Options{}, 400, 64}, {&Options{Operations: 7, Callers: 3}, 7, 3},
	} {
		if c.opts.operations() != c.operations || c.opts.callers() != c.callers {
			t.Errorf("%+v: %d operations, %d callers", c.opts, c.opts.operations(), c.opts.callers())
		}
	}
}
