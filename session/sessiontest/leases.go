package sessiontest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// TestLeases runs the suite of session.Leases. open returns a fresh, empty
// store that goes by clock, and cleans up with t.Cleanup. opts may be nil.
func TestLeases(t *testing.T, open func(t *testing.T, clock *Clock) session.Leases, opts *Options) {
	t.Helper()
	runAll(t, leaseChecks(), opts, func(t *testing.T, b bench) *leaseBench {
		return &leaseBench{b, open(t, b.clock)}
	})
}

func leaseChecks() []check[*leaseBench] {
	return slices.Concat(holdChecks(), slotChecks(), kindChecks(), turnChecks(), forgetChecks())
}

// leaseBench is where a store of leases is checked.
type leaseBench struct {
	bench
	leases session.Leases
}

// work is a work lease that payer, who may have two slots, wants on a session for a minute.
func work(name, holder string, payer access.UserID) session.Lease {
	return session.Lease{
		Kind: session.LeaseWork, Name: name, Holder: holder, Replica: "replica of " + holder,
		Payer: payer, Slots: 2, For: time.Minute,
	}
}

// sweep is a sweep lease that a replica wants on a chore for a minute.
func sweep(name, holder string) session.Lease {
	return session.Lease{Kind: session.LeaseSweep, Name: name, Holder: holder, Replica: holder, For: time.Minute}
}

// acquire acquires l, which must succeed.
func (b *leaseBench) acquire(l session.Lease) session.Lease {
	b.Helper()
	got, err := b.leases.Acquire(b.Context(), l)
	if err != nil {
		b.Fatalf("Acquire(%+v): %v", l, err)
	}
	if got.Fence == 0 || got.Until.IsZero() {
		b.Errorf("Acquire(%+v): got fence %d, until %v", l, got.Fence, got.Until)
	}
	want := l
	want.Fence, want.Until = got.Fence, got.Until
	b.same("acquired lease", got, want)
	return got
}

// limited expects that there is no slot for l.
func (b *leaseBench) limited(l session.Lease) {
	b.Helper()
	got, err := b.leases.Acquire(b.Context(), l)
	var le *session.LimitError
	if !errors.As(err, &le) {
		b.Fatalf("Acquire(%+v): got %+v and error %v, want a *LimitError", l, got, err)
	}
	if want := (session.LimitError{Kind: session.SlotsPerPayer, Scope: string(l.Payer), Max: l.Slots}); *le != want {
		b.Errorf("got %+v, want %+v", *le, want)
	}
}

// held expects that somebody else has l's lease.
func (b *leaseBench) held(l session.Lease, by session.Lease) {
	b.Helper()
	got, err := b.leases.Acquire(b.Context(), l)
	var he *session.HeldError
	if !errors.As(err, &he) {
		b.Fatalf("Acquire(%+v): got %+v and error %v, want a *HeldError", l, got, err)
	}
	b.same("error", *he, session.HeldError{Kind: l.Kind, Name: l.Name, Holder: by.Holder, Until: by.Until})
}

func (b *leaseBench) renew(l session.Lease) session.Lease {
	b.Helper()
	got, err := b.leases.Renew(b.Context(), l)
	if err != nil {
		b.Fatalf("Renew(%+v): %v", l, err)
	}
	want := l
	want.Until = got.Until
	b.same("renewed lease", got, want)
	return got
}

// fenced expects that l can't be renewed, and that the error says whose it was.
func (b *leaseBench) fenced(l session.Lease) {
	b.Helper()
	got, err := b.leases.Renew(b.Context(), l)
	if !errors.Is(err, session.ErrFenced) {
		b.Fatalf("Renew(%+v): got %+v and error %v, want ErrFenced", l, got, err)
	}
	if !strings.Contains(err.Error(), l.Name) {
		b.Errorf("error %q does not name its subject %s", err, l.Name)
	}
}

func (b *leaseBench) release(l session.Lease) {
	b.Helper()
	if err := b.leases.Release(b.Context(), l); err != nil {
		b.Fatalf("Release(%+v): %v", l, err)
	}
}

// expired expects that these are the leases that have expired, in this order.
func (b *leaseBench) expired(limit int, want ...session.Lease) {
	b.Helper()
	got, err := b.leases.Expired(b.Context(), limit)
	if err != nil {
		b.Fatalf("Expired: %v", err)
	}
	want = slices.Clone(want)
	for i := range want { // what was asked for is not part of what is kept
		want[i].Slots, want[i].For = 0, 0
	}
	for i := range got {
		got[i].Slots, got[i].For = 0, 0
	}
	b.same("expired leases", got, want)
}

func holdChecks() []check[*leaseBench] {
	return []check[*leaseBench]{
		{"sweep-one-holder", "A sweep lease has one holder; anybody else is told who, in a *HeldError, until it is released.", func(b *leaseBench) {
			l := b.acquire(sweep("chore", "r1"))
			b.held(sweep("chore", "r2"), l)
			b.acquire(sweep("another chore", "r2"))
			b.release(l)
			l = b.acquire(sweep("chore", "r2"))
			b.held(sweep("chore", "r1"), l)
		}},
		{"sweep-expires", "An expired sweep lease is anybody's; who had it can neither renew it nor release its successor's.", func(b *leaseBench) {
			old := b.acquire(sweep("chore", "r1"))
			b.clock.Step(time.Hour)
			next := b.acquire(sweep("chore", "r2"))
			b.fenced(old)
			b.release(old)
			b.held(sweep("chore", "r1"), next)
			if next.Fence <= old.Fence {
				b.Errorf("fence %d after %d", next.Fence, old.Fence)
			}
		}},
		{"reentrant", "Who has a lease already gets it again, renewed, with the same fence.", func(b *leaseBench) {
			for _, l := range []session.Lease{sweep("chore", "r1"), work("s1", "w1", alice)} {
				first := b.acquire(l)
				b.clock.Step(30 * time.Second)
				again := b.acquire(l)
				if again.Fence != first.Fence {
					b.Errorf("fence %d, want the same as before, %d", again.Fence, first.Fence)
				}
				if d := again.Until.Sub(first.Until); d < 30*time.Second {
					b.Errorf("acquired again half a minute later it lasts %v longer", d)
				}
				b.clock.Step(45 * time.Second) // past the first Until, not past the second
				b.renew(first)
			}
		}},
		{"renew", "Renew prolongs a lease by For from now, and leaves its fence.", func(b *leaseBench) {
			for _, l := range []session.Lease{sweep("chore", "r1"), work("s1", "w1", alice)} {
				l = b.acquire(l)
				for range 5 {
					b.clock.Step(45 * time.Second)
					next := b.renew(l)
					if d := next.Until.Sub(l.Until); d < 45*time.Second || d > 55*time.Second {
						b.Errorf("renewed 45 seconds later it lasts %v longer", d)
					}
					l = next
				}
				l.For = time.Hour
				b.renew(l)
				b.clock.Step(50 * time.Minute)
				b.renew(l)
			}
		}},
		{"renew-fenced", "A lease that has expired, was released, is somebody else's or was had anew can't be renewed: ErrFenced, and it stays as it is.", func(b *leaseBench) {
			for _, fresh := range []session.Lease{sweep("chore", "r1"), work("s1", "w1", alice)} {
				b.fenced(fresh) // never had
				l := b.acquire(fresh)
				stranger, forger := l, l
				stranger.Holder, forger.Fence = "somebody else", l.Fence+1
				b.fenced(stranger)
				b.fenced(forger)
				b.renew(l)
				b.clock.Step(time.Hour)
				b.fenced(l)
				anew := b.acquire(fresh)
				if anew.Fence <= l.Fence {
					b.Errorf("had anew after it expired: fence %d, want more than %d", anew.Fence, l.Fence)
				}
				b.fenced(l)
				b.renew(anew)
				b.release(anew)
				b.fenced(anew)
			}
		}},
		{"fences", "A fence is greater than every earlier one of its kind and name, whoever had that, released or not.", func(b *leaseBench) {
			var last int64
			more := func(l session.Lease) {
				b.Helper()
				if l.Fence <= last {
					b.Errorf("fence %d of %s after %d", l.Fence, l.Holder, last)
				}
				last = max(last, l.Fence)
			}
			for i := range 4 {
				l := b.acquire(sweep("chore", strconv.Itoa(i)))
				more(l)
				b.release(l)
			}
			last = 0
			for i := range 4 {
				l := b.acquire(work("s1", "work "+strconv.Itoa(i), alice))
				more(l)
				if i%2 == 0 {
					b.release(l)
				}
			}
			b.clock.Step(time.Hour)
			more(b.acquire(work("s1", "late", alice)))
			more(b.acquire(work("s1", "work 0", alice))) // released before
		}},
		{"release", "Releasing twice, or what was never had, succeeds; nobody releases another holder's or a later lease.", func(b *leaseBench) {
			never := sweep("chore", "nobody")
			never.Fence = 1
			b.release(never)
			l := b.acquire(sweep("chore", "r1"))
			stranger := l
			stranger.Holder = "r2"
			b.release(stranger)
			b.held(sweep("chore", "r2"), l)
			b.release(l)
			b.release(l)
			next := b.acquire(sweep("chore", "r1"))
			b.release(l) // the earlier one
			b.held(sweep("chore", "r2"), next)

			w := b.acquire(work("s1", "w1", alice))
			stranger = w
			stranger.Holder = "w2"
			b.release(stranger)
			other := w
			other.Name = "s2"
			b.release(other)
			b.renew(w)
			b.release(w)
			b.release(w)
		}},
		{"lease-cancelled", "Where the context is done before the call, the call answers with its error and changes nothing.", func(b *leaseBench) {
			ctx := cancelled(b)
			l := b.acquire(sweep("chore", "r1"))
			_, err := b.leases.Acquire(ctx, sweep("another chore", "r2"))
			errs := []error{err}
			_, err = b.leases.Renew(ctx, l)
			errs = append(errs, err, b.leases.Release(ctx, l))
			_, err = b.leases.Held(ctx, session.LeaseSweep, "chore")
			errs = append(errs, err)
			_, err = b.leases.Expired(ctx, 1)
			errs = append(errs, err)
			_, err = b.leases.Works(ctx, "c1", 1, session.Lease{}, 1)
			for _, err := range append(errs, err) {
				if !errors.Is(err, ctx.Err()) {
					b.Errorf("got error %v, want %v", err, ctx.Err())
				}
			}
			b.held(sweep("chore", "r2"), l)
			b.acquire(sweep("another chore", "r1"))
		}},
		{"race-sweep", "Of 50 callers who want one sweep lease at once exactly one gets it.", func(b *leaseBench) {
			errs := parallel(racers, func(i int) error {
				_, err := b.leases.Acquire(b.Context(), sweep("chore", strconv.Itoa(i)))
				return err
			})
			if n := number(errs, isNil); n != 1 {
				b.Errorf("%d have it", n)
			}
			if err := others(errs, func(err error) bool { return errors.As(err, new(*session.HeldError)) }); err != nil {
				b.Errorf("one was answered with %v", err)
			}
		}},
	}
}
