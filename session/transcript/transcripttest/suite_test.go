package transcripttest

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/session/transcript"
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

// said runs a check on a store and returns what it has to say where it fails; "" = it passes.
func said(t *testing.T, c check, s transcript.Store) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine
		defer close(done)
		c.run(&bench{TB: r, rule: c.rule, store: s})
	}()
	<-done
	switch {
	case !r.failed:
		return ""
	case !strings.Contains(r.log.String(), "rule: "+c.rule):
		t.Errorf("check %s fails without its rule: %s", c.name, r.log.String())
	}
	return r.log.String()
}

// broken is a store that breaks a rule.
type broken struct {
	name  string
	open  func() transcript.Store
	fails string // the checks that must fail, separated by spaces
	// passes are checks of its neighbourhood that must not, so that what fails fails for that rule.
	passes string
}

func judge(t *testing.T, all []broken) {
	byName := map[string]check{}
	for _, c := range checks() {
		byName[c.name] = c
	}
	for _, x := range all {
		t.Run(x.name, func(t *testing.T) {
			for _, name := range slices.Concat(strings.Fields(x.fails), strings.Fields(x.passes)) {
				c, there := byName[name]
				if !there {
					t.Fatalf("there is no check %s", name)
				}
				switch log, fails := said(t, c, x.open()), slices.Contains(strings.Fields(x.fails), name); {
				case fails && log == "":
					t.Errorf("%s passes", name)
				case !fails && log != "":
					t.Errorf("%s fails, which is about something else:\n%s", name, log)
				}
			}
		})
	}
}

func TestEveryCheckHasItsNameAndRule(t *testing.T) {
	seen := map[string]bool{}
	sentence := regexp.MustCompile(`^[A-Z0-9].*\.( \([a-z][^)]*\))?$`)
	for _, c := range checks() {
		if c.name == "" || seen[c.name] || !sentence.MatchString(c.rule) {
			t.Errorf("check %q with rule %q: want a name of its own and a sentence", c.name, c.rule)
		}
		seen[c.name] = true
	}
}

// Every check fails for some broken store: else nobody knows that it can.
func TestEveryCheckCanFail(t *testing.T) {
	can := map[string]bool{}
	for _, x := range slices.Concat(brokenWrites(), brokenPlain(), brokenTurns(), brokenReads(), brokenLists(), brokenSearches(), brokenForks()) {
		for _, name := range strings.Fields(x.fails) {
			can[name] = true
		}
	}
	for _, c := range checks() {
		if !can[c.name] {
			t.Errorf("no broken store fails %s", c.name)
		}
	}
}

func TestSameAndFlat(t *testing.T) {
	entry := full()[1]
	for _, c := range []struct {
		got, want any
		differs   bool
	}{
		{entry, full()[1], false},
		{entry, full()[2], true},
		{[]int{}, []int(nil), false},
		{[]int{0}, []int{}, true},
		{map[string]int{"a": 0}, map[string]int{}, true},
		{int64(1) << 60, int64(1)<<60 + 1, true},
		{transcript.Position{Root: true}, transcript.Position{}, true},
	} {
		log := said(t, check{"same", "They are the same.", func(b *bench) { b.same("values", c.got, c.want) }}, nil)
		if (log != "") != c.differs {
			t.Errorf("%+v and %+v: got %q", c.got, c.want, log)
		}
	}
}
