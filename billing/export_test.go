package billing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// service is a metering service: it counts an event by its id, once.
type service struct {
	events map[string]billing.Entry
	calls  int
	ids    []string // in the order they came in
	fail   func(call int) error
	drop   bool // where it fails it keeps nothing, else all
}

func (s *service) Export(_ context.Context, events []billing.Entry) error {
	var err error
	if s.fail != nil {
		err = s.fail(s.calls)
	}
	s.calls++
	if err != nil && s.drop {
		return err
	}
	for _, e := range events {
		s.ids = append(s.ids, e.ID)
		if was, there := s.events[e.ID]; there && (was.Quantity != e.Quantity || !was.From.Equal(e.From)) {
			return fmt.Errorf("%s comes again as something else", e.ID)
		}
		s.events[e.ID] = e
	}
	return err
}

// used250 is a ledger with 250 usage entries of ann's, a second each, and a grant.
func used250(t testing.TB) billing.Ledger {
	t.Helper()
	now := noon
	l := memory.New(&memory.Options{Now: func() time.Time { return now }}).Ledger()
	if _, err := l.Grant(t.Context(), grantOf("g", 100)); err != nil {
		t.Fatal(err)
	}
	for n := range 250 {
		now = second(n)
		if out, err := l.Post(t.Context(), span("work-1", n, n+1)); err != nil || out[0].Err != nil {
			t.Fatal(err, out)
		}
	}
	return l
}

// Every usage entry is handed over once, the oldest first; grants are none.
func TestDeliver(t *testing.T) {
	l := used250(t)
	s := &service{events: map[string]billing.Entry{}}
	rep, err := billing.Deliver(t.Context(), l, s)
	if err != nil || rep.Delivered != 250 || len(s.events) != 250 || len(s.ids) != 250 {
		t.Fatalf("%+v, %v, %d events in %d", rep, err, len(s.events), len(s.ids))
	}
	for n, id := range s.ids {
		if id != billing.UsageID(workMark, second(n)) {
			t.Fatalf("number %d is %s", n, id)
		}
	}
	if rep, err := billing.Deliver(t.Context(), l, s); err != nil || rep.Delivered != 0 || len(s.ids) != 250 {
		t.Errorf("again: %+v, %v", rep, err)
	}
}

// What fails is handed over again by the next call: in the end each counts once.
func TestDeliverAfterFailures(t *testing.T) {
	for _, drop := range []bool{true, false} { // it failed, or its reply was lost
		l := used250(t)
		s := &service{events: map[string]billing.Entry{}, drop: drop, fail: only(1, errAway)}
		rep, err := billing.Deliver(t.Context(), l, s)
		if !errors.Is(err, errAway) || rep.Delivered != 100 {
			t.Errorf("%+v, %v", rep, err)
		}
		rep, err = billing.Deliver(t.Context(), l, s)
		if err != nil || rep.Delivered != 150 || len(s.events) != 250 {
			t.Errorf("kept %v: %+v, %v, %d events", !drop, rep, err, len(s.events))
		}
		if want := map[bool]int{true: 250, false: 350}[drop]; len(s.ids) != want {
			t.Errorf("kept %v: %d were handed over, want %d", !drop, len(s.ids), want)
		}
	}
}

// unmarked is a ledger that can't mark, or whose mark is lost.
type unmarked struct {
	billing.Ledger
	fail func(call int) error
	n    *int
	done bool
}

func (u unmarked) Exported(ctx context.Context, ids []string) error {
	err := u.fail(*u.n)
	*u.n++
	if err != nil && !u.done {
		return err
	}
	return errors.Join(err, u.Ledger.Exported(ctx, ids))
}

// A crash between handing over and marking hands the same events over again, under the same ids.
func TestDeliverTwice(t *testing.T) {
	for _, done := range []bool{false, true} {
		l := used250(t)
		s := &service{events: map[string]billing.Entry{}}
		rep, err := billing.Deliver(t.Context(), unmarked{l, only(2, billing.ErrUnknown), new(int), done}, s)
		if !errors.Is(err, billing.ErrUnknown) || rep.Delivered != 200 {
			t.Errorf("%+v, %v", rep, err)
		}
		if _, err := billing.Deliver(t.Context(), l, s); err != nil || len(s.events) != 250 {
			t.Errorf("%v, %d events", err, len(s.events))
		}
		if want := map[bool]int{false: 300, true: 250}[done]; len(s.ids) != want {
			t.Errorf("%d were handed over, want %d", len(s.ids), want)
		}
	}
}

// Several that deliver at once lose nothing.
func TestDeliverConcurrently(t *testing.T) {
	l := used250(t)
	services := make([]*service, 4)
	errs := make(chan error, len(services))
	for i := range services {
		services[i] = &service{events: map[string]billing.Entry{}}
		go func() {
			_, err := billing.Deliver(t.Context(), l, services[i])
			errs <- err
		}()
	}
	for range services {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	all := map[string]bool{}
	for _, s := range services {
		for id := range s.events {
			all[id] = true
		}
	}
	if len(all) != 250 {
		t.Errorf("%d were handed over", len(all))
	}
}
