package sessiontest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// lease is a lease of that kind for a minute. A work lease takes one of alice's slots.
func lease(kind session.LeaseKind, name, holder string) session.Lease {
	if kind == session.LeaseWork {
		return work(name, holder, alice)
	}
	return session.Lease{Kind: kind, Name: name, Holder: holder, Replica: "replica of " + holder, For: time.Minute}
}

// single are the kinds of which a name has one holder.
func single() (kinds []session.LeaseKind) {
	for _, k := range session.Kinds() {
		if k != session.LeaseWork {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// has expects that Held answers want, without what was only asked for.
func (b *leaseBench) has(want session.Lease) {
	b.Helper()
	got, err := b.leases.Held(b.Context(), want.Kind, want.Name)
	if err != nil {
		b.Fatalf("Held(%d, %s): %v, want %+v", want.Kind, want.Name, err, want)
	}
	got.For, got.Slots, want.For, want.Slots = 0, 0, 0, 0
	b.same("held lease", got, want)
}

// free expects that nobody has the lease.
func (b *leaseBench) free(kind session.LeaseKind, name string) {
	b.Helper()
	if got, err := b.leases.Held(b.Context(), kind, name); !errors.Is(err, session.ErrNotFound) {
		b.Fatalf("Held(%d, %s): got %+v and error %v, want ErrNotFound", kind, name, got, err)
	}
}

func kindChecks() []check[*leaseBench] {
	return []check[*leaseBench]{
		{"kind-one-holder", "Turn, pty, sweep and host have one holder: anybody else is told who, in a *HeldError, until it expired or was released.", func(b *leaseBench) {
			for _, k := range single() {
				one := b.acquire(lease(k, "n", "r1"))
				b.held(lease(k, "n", "r2"), one)
				b.clock.Step(30 * time.Second)
				one = b.renew(one)
				b.held(lease(k, "n", "r2"), one)
				b.clock.Step(time.Hour)
				two := b.acquire(lease(k, "n", "r2"))
				b.held(lease(k, "n", "r1"), two)
				b.release(two)
				three := b.acquire(lease(k, "n", "r1"))
				if one.Fence >= two.Fence || two.Fence >= three.Fence {
					b.Errorf("kind %d: fences %d, %d, %d", k, one.Fence, two.Fence, three.Fence)
				}
			}
		}},
		{"kind-work-many", "Work has many holders at once: none is refused for another's sake.", func(b *leaseBench) {
			one, two := b.acquire(lease(session.LeaseWork, "s1", "w1")), b.acquire(lease(session.LeaseWork, "s1", "w2"))
			b.release(one)
			b.renew(two)
		}},
		{"kind-takeover", "Of whoever lost a lease to another nothing has an effect any more: a renewal is ErrFenced, a release releases nothing.", func(b *leaseBench) {
			for _, k := range single() {
				old := b.acquire(lease(k, "n", "r1"))
				b.clock.Step(time.Hour)
				next := b.acquire(lease(k, "n", "r2"))
				b.fenced(old)
				b.release(old)
				usurper := old
				usurper.Fence = next.Fence // the right fence makes it no holder
				b.fenced(usurper)
				b.release(usurper)
				b.has(next)
				b.held(lease(k, "n", "r1"), next)
				b.renew(next)

				b.clock.Step(time.Hour)
				again := b.acquire(lease(k, "n", "r1")) // had anew by the first
				b.fenced(old)
				b.release(old)
				b.release(next)
				b.has(again)
			}
		}},
		{"kind-paused", "A holder that was paused past the end of its lease gets ErrFenced, though nobody took it over.", func(b *leaseBench) {
			for _, k := range session.Kinds() {
				l := b.acquire(lease(k, "n", "r1"))
				b.clock.Step(59 * time.Second)
				l = b.renew(l)
				b.clock.Step(time.Minute) // to the very end: until is the first moment without it
				b.fenced(l)
				b.free(k, "n")
			}
		}},
		{"kind-fences", "A fence never restarts: not after a release, not after an expiry, whoever comes and in whatever order, of every kind.", func(b *leaseBench) {
			for _, k := range session.Kinds() {
				var last int64
				for i := range 8 {
					l := b.acquire(lease(k, "n", "r"+strconv.Itoa(i%3)))
					if l.Fence <= last {
						b.Errorf("kind %d: fence %d after %d", k, l.Fence, last)
					}
					last = l.Fence
					if i%2 == 1 {
						b.clock.Step(time.Hour)
					}
					b.release(l)
				}
				l := b.acquire(lease(k, "n", "r"))
				if again := b.acquire(lease(k, "n", "r")); again.Fence != l.Fence || l.Fence <= last {
					b.Errorf("kind %d: fence %d, and had again %d, after %d", k, l.Fence, again.Fence, last)
				}
				b.release(l)
			}
		}},
		{"kind-apart", "Leases of different kinds or names do not disturb each other, whatever happens to one of them.", func(b *leaseBench) {
			held := map[session.LeaseKind]session.Lease{}
			for i, k := range session.Kinds() {
				held[k] = b.acquire(lease(k, "n", "r"+strconv.Itoa(i)))
				other := lease(k, "another", "r1")
				other.For = time.Hour
				b.acquire(other)
			}
			for _, k := range session.Kinds() {
				for _, l := range held {
					b.has(l)
				}
				b.release(held[k])
				delete(held, k)
				b.free(k, "n")
			}
			turn, pty, w := b.acquire(lease(session.LeaseTurn, "n", "r1")), b.acquire(lease(session.LeasePTY, "n", "r2")), b.acquire(lease(session.LeaseWork, "n", "r3"))
			b.clock.Step(30 * time.Second)
			w = b.renew(w)
			b.clock.Step(45 * time.Second)
			b.fenced(turn)
			b.fenced(pty)
			b.has(w)
			b.expired(10) // only works are anybody's to release
			b.acquire(lease(session.LeaseTurn, "n", "r4"))
			b.free(session.LeasePTY, "n")
			b.renew(w)
		}},
		{"kind-unknown", "A lease of a kind that there is not is a *access.FieldError for Kind, whatever is asked of it.", func(b *leaseBench) {
			for _, k := range []session.LeaseKind{0, session.LeaseHost + 1, 200} {
				l := lease(k, "n", "r1")
				l.Fence = 1
				_, acquired := b.leases.Acquire(b.Context(), l)
				_, renewed := b.leases.Renew(b.Context(), l)
				_, held := b.leases.Held(b.Context(), k, "n")
				for what, err := range map[string]error{"Acquire": acquired, "Renew": renewed, "Release": b.leases.Release(b.Context(), l), "Held": held} {
					var fe *access.FieldError
					if !errors.As(err, &fe) || fe.Field != "Kind" {
						b.Errorf("%s of kind %d: got error %v, want a *access.FieldError for Kind", what, k, err)
					}
				}
			}
		}},
		{"held", "Held returns who has a lease that has not expired, with all that was acquired; of works the one that lasts longest; and ErrNotFound, which names it, where nobody has.", func(b *leaseBench) {
			for _, k := range session.Kinds() {
				b.free(k, "n")
				l := lease(k, "n", "r1")
				if k == session.LeaseWork {
					l.Sandbox = "sandbox 1"
				}
				l = b.acquire(l)
				b.has(l)
				b.free(k, "N")
				b.clock.Step(30 * time.Second)
				l = b.renew(l)
				b.has(l)
				b.clock.Step(2 * time.Minute)
				b.free(k, "n")
				if _, err := b.leases.Held(b.Context(), k, "a name"); !strings.Contains(fmt.Sprint(err), "a name") {
					b.Errorf("error %q does not name its subject", err)
				}
				b.release(l)
				b.free(k, "n")
			}
			short, long := lease(session.LeaseWork, "s1", "w1"), lease(session.LeaseWork, "s1", "w2")
			short.For, long.For, short.Sandbox, long.Sandbox = time.Minute, time.Hour, "b1", "b1"
			long = b.acquire(long)
			short = b.acquire(short)
			b.has(long)
			b.release(long)
			b.has(short)
		}},
		{"lease-sandbox", "The sandbox that is worked in is kept, renewed or not, and answered by Held and Expired.", func(b *leaseBench) {
			l := lease(session.LeaseWork, "s1", "w1")
			l.Sandbox = sandbox.ID("the sandbox")
			l = b.acquire(l)
			b.has(l)
			b.clock.Step(time.Second)
			l = b.renew(l)
			b.has(l)
			again := lease(session.LeaseWork, "s1", "w1")
			again.Sandbox = l.Sandbox
			l = b.acquire(again)
			b.clock.Step(time.Hour)
			b.expired(10, l)
			got, err := b.leases.Expired(b.Context(), 10)
			if err != nil || len(got) != 1 || got[0].Sandbox != "the sandbox" {
				b.Errorf("Expired: got %+v and error %v, want the sandbox", got, err)
			}
		}},
		{"race-kinds", "Of 50 callers who want one lease at once exactly one gets it, of every kind that has one holder; of works each does.", func(b *leaseBench) {
			for _, k := range session.Kinds() {
				errs := parallel(racers, func(i int) error {
					_, err := b.leases.Acquire(b.Context(), lease(k, "n", strconv.Itoa(i)))
					return err
				})
				want := 1
				if k == session.LeaseWork {
					want = racers
				}
				if n := number(errs, isNil); n != want {
					b.Errorf("kind %d: %d have it, want %d", k, n, want)
				}
				if err := others(errs, func(err error) bool { return errors.As(err, new(*session.HeldError)) }); err != nil {
					b.Errorf("kind %d: one was answered with %v", k, err)
				}
			}
		}},
	}
}
