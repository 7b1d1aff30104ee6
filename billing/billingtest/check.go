package billingtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// Options say how much is tried. nil is the zero value.
type Options struct {
	// Operations is how many random operations are compared with a book; 0 = 400.
	Operations int
	// Callers is how many ask at once where only one may be let in; 0 = 64.
	Callers int
}

func (o *Options) operations() int {
	if o == nil || o.Operations == 0 {
		return 400
	}
	return o.Operations
}

func (o *Options) callers() int {
	if o == nil || o.Callers == 0 {
		return 64
	}
	return o.Callers
}

// check is one rule of the contract and what shows it. run is given a fresh ledger.
type check struct {
	name string
	rule string
	run  func(*bench)
}

// bench is where a ledger is checked: a TB that tells the rule with every
// failure, the ledger, its clock, and a source of ids.
type bench struct {
	testing.TB
	rule   string
	opts   *Options
	clock  *Clock
	ledger billing.Ledger
	ids    *int
}

// newBench opens a ledger, and lets its clock come to the next noon in UTC, so that no
// check is in the way of a midnight by chance.
func newBench(t testing.TB, c check, opts *Options, open func(*Clock) billing.Ledger) *bench {
	clock := NewClock()
	b := &bench{TB: t, rule: c.rule, opts: opts, clock: clock, ledger: open(clock), ids: new(int)}
	now := b.now()
	noon := now.Truncate(24 * time.Hour).Add(36 * time.Hour)
	b.clock.Step(noon.Sub(now))
	return b
}

func (b *bench) Errorf(format string, args ...any) {
	b.Helper()
	b.TB.Errorf("%s\n\trule: %s", fmt.Sprintf(format, args...), b.rule)
}

func (b *bench) Fatalf(format string, args ...any) {
	b.Helper()
	b.TB.Fatalf("%s\n\trule: %s", fmt.Sprintf(format, args...), b.rule)
}

// same fails where got differs from want.
func (b *bench) same(what string, got, want any) {
	b.Helper()
	if d := diff(got, want, 0); d != "" {
		b.Errorf("%s:\n%s", what, d)
	}
}

// id mints an id: all of them are different, and later ones greater.
func (b *bench) id() string {
	*b.ids++
	return fmt.Sprintf("01990000-0000-7000-8000-%012x", *b.ids)
}

// names expects that an error is told with its subject.
func (b *bench) names(err error, subject string) {
	b.Helper()
	if err != nil && !strings.Contains(err.Error(), subject) {
		b.Errorf("error %q does not name its subject %s", err, subject)
	}
}

// outcome is what an error says, in a word; "" = nothing went wrong.
func outcome(err error) string {
	var (
		field   *access.FieldError
		mark    *billing.MarkError
		refused *billing.RefusedError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &field):
		return "field " + field.Field
	case errors.As(err, &mark):
		return fmt.Sprintf("%s of %s is through %v, not %v", mark.Meter, mark.Resource, mark.Through.UTC(), mark.From.UTC())
	case errors.As(err, &refused) && refused == nil:
		return "" // Posted.Refused, of what was not refused
	case errors.As(err, &refused):
		return "refused " + string(refused.Payer) + ": " + refused.Decision.Reason.String()
	case errors.As(err, new(*billing.OverflowError)):
		return "overflow"
	}
	for word, sentinel := range map[string]error{
		"not found": billing.ErrNotFound, "conflict": billing.ErrConflict, "closed": billing.ErrClosed, "unknown": billing.ErrUnknown,
	} {
		if errors.Is(err, sentinel) {
			return word
		}
	}
	return "error: " + err.Error()
}

// ends expects that an error says just this.
func (b *bench) ends(what string, err error, want string) {
	b.Helper()
	if got := outcome(err); got != want {
		b.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
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

// cancelled is a context that has ended already.
func cancelled(b testing.TB) context.Context {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	return ctx
}
