package billingtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// fuse is a context that ends when it is looked at for the nth time, so that
// a call is cut off at each of its steps in turn.
type fuse struct {
	context.Context
	cut context.CancelFunc

	mu   sync.Mutex
	left int
}

func newFuse(parent context.Context, n int) *fuse {
	ctx, cut := context.WithCancel(parent)
	return &fuse{Context: ctx, cut: cut, left: n}
}

func (f *fuse) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left <= 0 {
		f.cut()
	}
}

func (f *fuse) Done() <-chan struct{} { f.look(); return f.Context.Done() }
func (f *fuse) Err() error            { f.look(); return f.Context.Err() }

// burnt reports whether the context has ended.
func (f *fuse) burnt() bool { return f.Context.Err() != nil }

// maxLooks is more than a call ever looks at its context.
const maxLooks = 1000

// cutOff makes a call again and again, cut off one step later each time, until it is not cut off any more.
// written reports how much the call has written; it must be none or all. It is then made once more, which must succeed.
func (b *bench) cutOff(what string, all int, written func(n int) int, call func(ctx context.Context, n int) error) {
	b.Helper()
	for n := 1; n < maxLooks; n++ {
		f := newFuse(b.Context(), n)
		err := call(f, n)
		uncut := !f.burnt()
		f.cut()
		got := written(n)
		switch {
		case got != 0 && got != all:
			b.Fatalf("%s, cut off at look %d: %v, and %d of %d written", what, n, err, got, all)
		case err == nil && got != all:
			b.Fatalf("%s, cut off at look %d: done, and nothing is written", what, n)
		case err != nil && got != 0 && !errors.Is(err, billing.ErrUnknown):
			b.Fatalf("%s, cut off at look %d: %v, and all is written", what, n, err)
		}
		if err := call(b.Context(), n); err != nil {
			b.Fatalf("%s, repeated: %v", what, err)
		}
		if got := written(n); got != all {
			b.Fatalf("%s, repeated: %d of %d written", what, got, all)
		}
		if uncut {
			return
		}
	}
	b.Fatalf("%s looks at its context more than %d times", what, maxLooks)
}

func cutChecks() []check {
	return []check{
		{"cut-post", "A charge, its entry, its watermark and its hold are written in one transaction: a call that is cut off writes all or nothing, and repeating it completes it. (T-66, T-63)", func(b *bench) {
			b.give(alice, 1_000_000, nil)
			at := b.now().Add(-time.Hour)
			holds := map[int]billing.Hold{}
			posts := func(n int) []billing.Post {
				u := billing.Use{Meter: billing.MeterRuntime, Resource: fmt.Sprintf("work %d", n), Payer: bob}
				h, there := holds[n]
				if !there {
					h = b.hold(b.ask(alice))
					holds[n] = h
				}
				return []billing.Post{last(on(h, span(h.Use, at, time.Minute, 10))), span(u, at, time.Minute, 3), span(u, at.Add(time.Minute), time.Minute, 4)}
			}
			b.cutOff("Post", 6, func(n int) (count int) {
				p := posts(n)
				for _, payer := range []billing.Use{p[0].Use, p[1].Use} {
					for _, e := range b.statement(payer.Payer) {
						if e.Use == payer {
							count++
						}
					}
				}
				if b.mark(p[0].Key()).Closed {
					count++
				}
				if m := b.mark(p[1].Key()); m.Total == 7 {
					count++
				}
				if b.held(holds[n]).State == billing.HoldSettled {
					count++
				}
				return count
			}, func(ctx context.Context, n int) error {
				got, err := b.ledger.Post(ctx, posts(n)...)
				return errors.Join(err, errOf(got))
			})
			b.verify(alice, bob)
		}},
		{"cut-grant", "A grant and its entry are written in one transaction.", func(b *bench) {
			id := func(n int) billing.GrantID { return billing.GrantID(fmt.Sprintf("grant %d", n)) }
			b.cutOff("Grant", 2, func(n int) (count int) {
				for _, g := range b.balance(alice).Grants {
					if g.ID == id(n) {
						count++
					}
				}
				for _, e := range b.statement(alice) {
					if e.Grant == id(n) {
						count++
					}
				}
				return count
			}, func(ctx context.Context, n int) error {
				_, err := b.ledger.Grant(ctx, billing.Grant{ID: id(n), Payer: alice, Amount: 5, Source: "top-up"})
				return err
			})
			b.verify(alice)
		}},
		{"cut-hold", "A hold is there or not: one that was cut off reserves what it says, once, or nothing.", func(b *bench) {
			b.give(alice, 1_000_000, nil)
			asked := map[int]billing.HoldRequest{}
			ask := func(n int) billing.HoldRequest {
				if _, there := asked[n]; !there {
					r := b.ask(alice)
					r.Terms.InFlight = maxLooks
					asked[n] = r
				}
				return asked[n]
			}
			b.cutOff("Hold", 1, func(n int) int { return len(b.holds(ask(n).Resource)) }, func(ctx context.Context, n int) error {
				_, err := b.ledger.Hold(ctx, ask(n))
				return err
			})
			if s := b.balance(alice).Standing; s.Holds != len(asked) || s.Held != billing.Micros(20*len(asked)) {
				b.Errorf("%+v after %d holds of 20", s, len(asked))
			}
		}},
	}
}
