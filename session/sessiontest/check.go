package sessiontest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Options are what may differ between stores that all keep the contract. nil is the zero value.
type Options struct {
	// Precision is the store's unit of time; moments are cut to it. 0 = a microsecond.
	Precision time.Duration
}

func (o *Options) precision() time.Duration {
	if o == nil || o.Precision == 0 {
		return time.Microsecond
	}
	return o.Precision
}

// check is one rule of a contract and what shows it. run is given a fresh instance.
type check[P any] struct {
	name string
	rule string
	run  func(P)
}

// runAll runs every check as a subtest.
func runAll[P any](t *testing.T, checks []check[P], opts *Options, open func(*testing.T, bench) P) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(open(t, newBench(t, c.rule, opts))) })
	}
}

// bench is what a check works at: a TB that tells the rule with every
// failure, a clock, and a source of ids.
type bench struct {
	testing.TB
	rule      string
	clock     *Clock
	precision time.Duration
	ids       *int
}

func newBench(t testing.TB, rule string, opts *Options) bench {
	return bench{TB: t, rule: rule, clock: NewClock(), precision: opts.precision(), ids: new(int)}
}

func (b bench) Errorf(format string, args ...any) {
	b.Helper()
	b.TB.Errorf("%s\n\trule: %s", fmt.Sprintf(format, args...), b.rule)
}

func (b bench) Fatalf(format string, args ...any) {
	b.Helper()
	b.TB.Fatalf("%s\n\trule: %s", fmt.Sprintf(format, args...), b.rule)
}

// same fails where got differs from want.
func (b bench) same(what string, got, want any) {
	b.Helper()
	if d := diff(got, want); d != "" {
		b.Errorf("%s:\n%s", what, d)
	}
}

// id mints an id: a UUID, all of them different, later ones greater.
func (b bench) id() string {
	*b.ids++
	return fmt.Sprintf("01990000-0000-7000-8000-%012x", *b.ids)
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

// number counts the errors for which is holds.
func number(errs []error, is func(error) bool) (n int) {
	for _, err := range errs {
		if is(err) {
			n++
		}
	}
	return n
}

func isNil(err error) bool { return err == nil }

// others returns the first error that is neither nil nor one for which is holds.
func others(errs []error, is func(error) bool) error {
	for _, err := range errs {
		if err != nil && !is(err) {
			return err
		}
	}
	return nil
}

// cancelled is a context that has ended already.
func cancelled(b testing.TB) context.Context {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	return ctx
}
