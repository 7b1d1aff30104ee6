package transcripttest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// TestStore checks a store against the contract of [transcript.Store]. open
// returns one that is empty, and cleans up with t.Cleanup.
func TestStore(t *testing.T, open func(t *testing.T) transcript.Store) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.run(&bench{TB: t, rule: c.rule, store: open(t)}) })
	}
}

func checks() []check {
	return slices.Concat(rowChecks(), inputChecks(), appendChecks(), plainChecks(), retryChecks(), headChecks(), callChecks(), draftChecks(), turnChecks(),
		nameChecks(), statusChecks(), pathChecks(), contextChecks(), listChecks(), underChecks(), searchChecks(), sinceChecks(), openChecks(), blobChecks(),
		forkChecks(), twinChecks(), compareChecks(), purgeChecks(), raceChecks())
}

// check is one rule of the contract and what shows it. run is given a fresh store.
type check struct {
	name string
	rule string
	run  func(*bench)
}

// bench is what a check works at: a TB that tells the rule with every failure, and the store.
type bench struct {
	testing.TB
	rule  string
	store transcript.Store
}

func (b *bench) Errorf(format string, args ...any) {
	b.Helper()
	b.TB.Errorf("%s\n\trule: %s", fmt.Sprintf(format, args...), b.rule)
}

func (b *bench) Fatalf(format string, args ...any) {
	b.Helper()
	b.TB.Fatalf("%s\n\trule: %s", fmt.Sprintf(format, args...), b.rule)
}

// same fails where got differs from want in anything but what is nil of it, and what is empty.
func (b *bench) same(what string, got, want any) {
	b.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	g, w := flat(got), flat(want)
	var lines []string
	for _, at := range slices.Sorted(maps.Keys(union(g, w))) {
		if g[at] != w[at] {
			lines = append(lines, fmt.Sprintf("\t%s: got %s, want %s", at, short(g[at]), short(w[at])))
		}
	}
	if len(lines) > 12 {
		lines = append(lines[:12], fmt.Sprintf("\tand %d more", len(lines)-12))
	}
	if len(lines) > 0 {
		b.Errorf("%s:\n%s", what, strings.Join(lines, "\n"))
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func short(s string) string {
	switch {
	case s == "":
		return "nothing"
	case len(s) > 120:
		return fmt.Sprintf("%s… (%d bytes)", s[:100], len(s))
	}
	return s
}

// flat is all that there is in a value, by where it is, as JSON.
func flat(v any) map[string]string {
	text, err := json.Marshal(v)
	if err != nil { // something in it is no JSON, as after it was written over
		return map[string]string{"": err.Error()}
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		panic(err)
	}
	out := map[string]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			if len(v) == 0 {
				out[at] = "{}"
			}
			for key, inner := range v {
				walk(at+"."+key, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s[%04d]", at, i), inner)
			}
		case string:
			if len(v) > 4096 {
				v = fmt.Sprintf("%s… %x", v[:64], sha256.Sum256([]byte(v)))
			}
			out[at] = fmt.Sprintf("%q", v)
		default:
			out[at] = fmt.Sprint(v)
		}
	}
	walk("", tree)
	return out
}

// parallel calls f from n goroutines at once and returns what each of them answered.
func parallel(n int, f func(i int) error) []error {
	var (
		errs  = make([]error, n)
		start = make(chan struct{})
		done  sync.WaitGroup
	)
	for i := range n {
		done.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	done.Wait()
	return errs
}

// ended is a context that has ended already.
func (b *bench) ended() context.Context {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	return ctx
}
