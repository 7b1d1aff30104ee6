package sessiontest

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/session"
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
func failing[P any](t *testing.T, checks []check[P], only []string, open func(bench) P) map[string]string {
	said := map[string]string{}
	for _, c := range checks {
		if only != nil && !slices.Contains(only, c.name) {
			continue
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // Fatalf ends the goroutine
			defer close(done)
			c.run(open(newBench(r, c.rule, nil)))
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

// broken is an implementation that breaks a rule.
type broken[S any] struct {
	name string
	open func(clock *Clock) S
	// fails are the checks that must fail, also those that may: of a race only the outcome is sure to be seen.
	fails, also []string
	// only are the checks to run; nil = all.
	only []string
}

func (x broken[S]) judge(t *testing.T, said map[string]string) {
	for _, name := range x.fails {
		if _, failed := said[name]; !failed {
			t.Errorf("%s passes", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if !slices.Contains(x.fails, name) && !slices.Contains(x.also, name) {
			t.Errorf("%s fails, which is about something else:\n%s", name, said[name])
		}
	}
}

func TestEveryCheckHasItsNameAndRule(t *testing.T) {
	seen := map[string]bool{}
	sentence := regexp.MustCompile(`^[A-Z].*\.( \([A-Z][^)]*\))?$`)
	check := func(name, rule string) {
		if name == "" || seen[name] || !sentence.MatchString(rule) {
			t.Errorf("check %q with rule %q: want a name of its own and a sentence", name, rule)
		}
		seen[name] = true
	}
	for _, c := range storeChecks() {
		check(c.name, c.rule)
	}
	for _, c := range leaseChecks() {
		check(c.name, c.rule)
	}
	for _, c := range idleChecks() {
		check(c.name, c.rule)
	}
}

func TestFillAndDiff(t *testing.T) {
	var s session.Session
	fill(&s, "seed", NewClock().Now(), time.Microsecond)
	if d := diff(s, s); d == "" {
		t.Errorf("moments in another zone than UTC go unnoticed in %+v", s)
	}
	var zero session.Session
	if got, fields := strings.Count(diff(zero, s), "\n")+1, reflect.TypeFor[session.Session]().NumField(); got != fields {
		t.Errorf("%d fields of a filled session differ from zero, want %d:\n%s", got, fields, diff(zero, s))
	}
	var coarse session.Conversation
	fill(&coarse, "seed", NewClock().Now(), (&Options{Precision: time.Second}).precision())
	for _, at := range []time.Time{coarse.CreatedAt, coarse.LastActiveAt, coarse.ClosedAt} {
		if at.Nanosecond() != 0 {
			t.Errorf("for a store of whole seconds: %v", at)
		}
	}
	type inner struct {
		Texts []string
		Since time.Duration
		OK    bool
	}
	var one, two struct {
		N  uint8
		In inner
	}
	fill(&one, "seed", time.Time{}, time.Microsecond)
	if diff(one, one) != "" {
		t.Errorf("a value differs from itself: %s", diff(one, one))
	}
	two = one
	two.In.Texts = []string{one.In.Texts[0], "other"}
	if d := diff(two, one); !strings.Contains(d, "In.Texts[1]: got \"other\"") {
		t.Errorf("got %q", d)
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
