package sessiontest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// week is how long names are unused that are forgotten here.
const week = 7 * 24 * time.Hour

// forget forgets what nobody has had for a week, to the last, and returns how many names that were.
func (b *leaseBench) forget() (all int) {
	b.Helper()
	for range 100 {
		n, err := b.leases.Forget(b.Context(), week, 10)
		if err != nil || n < 0 || n > 10 {
			b.Fatalf("Forget: %d names, error %v", n, err)
		}
		if all += n; n < 10 {
			return all
		}
	}
	b.Fatal("Forget has more to forget after a thousand names")
	return all
}

// ages has so much time pass that whatever is not used is forgotten, however coarsely that is kept.
func (b *leaseBench) ages() { b.clock.Step(week + 3*24*time.Hour) }

func forgetChecks() []check[*leaseBench] {
	return []check[*leaseBench]{
		{"forget-fences", "A fence never goes back, also where all that was kept of its kind and name was forgotten, released or expired, again and again.", func(b *leaseBench) {
			last := map[session.LeaseKind]int64{}
			for round := range 3 {
				for _, k := range session.Kinds() {
					for i := range 4 - round {
						l := b.acquire(lease(k, "n", "r"+strconv.Itoa(i)))
						if l.Fence <= last[k] {
							b.Errorf("kind %d: fence %d after %d", k, l.Fence, last[k])
						}
						last[k] = l.Fence
						if k == session.LeaseWork || i%2 == 0 {
							b.release(l)
						} else {
							b.clock.Step(time.Hour)
						}
					}
				}
				b.ages()
				b.forget()
			}
		}},
		{"forget-expired", "What has expired is forgotten once that is long ago, and not before; what is forgotten is forgotten once.", func(b *leaseBench) {
			for _, k := range single() {
				b.acquire(lease(k, "n", "r1"))
			}
			for _, wait := range []time.Duration{0, time.Hour, 2 * 24 * time.Hour, 4 * 24 * time.Hour} {
				b.clock.Step(wait)
				if n := b.forget(); n != 0 {
					b.Errorf("%d names are forgotten too early", n)
				}
			}
			b.ages()
			if n := b.forget(); n != len(single()) {
				b.Errorf("%d names are forgotten, want %d", n, len(single()))
			}
			if n := b.forget(); n != 0 {
				b.Errorf("%d names are forgotten twice", n)
			}
			for _, k := range single() {
				b.free(k, "n")
				b.has(b.acquire(lease(k, "n", "r2")))
			}
		}},
		{"forget-held", "What somebody has is not forgotten, however long ago it was acquired; nor is what was acquired anew since.", func(b *leaseBench) {
			old := map[session.LeaseKind]session.Lease{}
			for _, k := range session.Kinds() {
				b.acquire(lease(k, "again", "r1"))
				l := lease(k, "n", "r1")
				l.For = 100 * 24 * time.Hour
				old[k] = b.acquire(l)
			}
			b.ages()
			anew := map[session.LeaseKind]session.Lease{}
			for _, k := range single() {
				anew[k] = b.acquire(lease(k, "again", "r2"))
			}
			if n := b.forget(); n != 0 {
				b.Errorf("%d names are forgotten", n)
			}
			for _, l := range old {
				b.has(l)
				b.renew(l)
			}
			for _, l := range anew {
				b.has(l)
				b.renew(l)
			}
		}},
		{"forget-works", "A work that was not released is never forgotten: it counts, is listed by Expired, and when had anew it has another fence.", func(b *leaseBench) {
			one, two := b.acquire(work("s1", "w1", alice)), b.acquire(work("s2", "w2", alice))
			b.ages()
			b.forget()
			b.expired(10, one, two)
			b.limited(work("s3", "w3", alice))
			b.release(one)
			b.acquire(work("s3", "w3", alice))
			b.expired(10, two)
			if again := b.acquire(work("s2", "w2", alice)); again.Fence <= two.Fence {
				b.Errorf("fence %d after %d", again.Fence, two.Fence)
			}
			b.release(two)
			b.limited(work("s4", "w4", alice))
		}},
		{"forget-bounded", "No more than limit are forgotten at once, the longest unused first.", func(b *leaseBench) {
			for i := range 7 {
				b.acquire(sweep("chore "+strconv.Itoa(i), "r1"))
				b.clock.Step(24 * time.Hour)
			}
			b.ages()
			for _, want := range []int{3, 3, 1, 0} {
				if n, err := b.leases.Forget(b.Context(), week, 3); err != nil || n != want {
					b.Errorf("%d are forgotten, error %v, want %d", n, err, want)
				}
			}
		}},
		{"forget-input", "Both unused and limit must be over 0, and the context not be done: else nothing is forgotten.", func(b *leaseBench) {
			b.acquire(sweep("chore", "r1"))
			b.ages()
			for _, c := range []struct {
				unused time.Duration
				limit  int
				field  string
			}{{0, 1, "unused"}, {-week, 1, "unused"}, {week, 0, "limit"}, {week, -1, "limit"}} {
				_, err := b.leases.Forget(b.Context(), c.unused, c.limit)
				var fe *access.FieldError
				if !errors.As(err, &fe) || fe.Field != c.field {
					b.Errorf("Forget(%v, %d): got error %v, want a *access.FieldError for %s", c.unused, c.limit, err, c.field)
				}
			}
			ctx := cancelled(b)
			if _, err := b.leases.Forget(ctx, week, 1); !errors.Is(err, ctx.Err()) {
				b.Errorf("got error %v, want %v", err, ctx.Err())
			}
			if n := b.forget(); n != 1 {
				b.Errorf("%d names are forgotten, want 1", n)
			}
		}},
		{"race-forget", "Of 50 callers who acquire what is being forgotten by others at once each has a greater fence than anybody before.", func(b *leaseBench) {
			last := map[string]int64{}
			for i := range racers {
				name := "n" + strconv.Itoa(i%10)
				l := b.acquire(lease(session.LeaseTurn, name, "r"+strconv.Itoa(i)))
				last[name] = l.Fence
				b.release(l)
			}
			b.ages()
			var mu sync.Mutex
			got := map[string]int64{}
			errs := parallel(racers, func(i int) error {
				if i%2 == 0 {
					_, err := b.leases.Forget(b.Context(), week, 3)
					return err
				}
				name := "n" + strconv.Itoa(i%10)
				l, err := b.leases.Acquire(b.Context(), lease(session.LeaseTurn, name, "r"+strconv.Itoa(i)))
				if errors.As(err, new(*session.HeldError)) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				got[name] = l.Fence
				if err == nil && l.Fence <= last[name] {
					return fmt.Errorf("fence %d of %s after %d", l.Fence, name, last[name])
				}
				return err
			})
			if err := others(errs, isNil); err != nil {
				b.Errorf("%v", err)
			}
			b.forget()
			for name, fence := range got {
				held, err := b.leases.Held(b.Context(), session.LeaseTurn, name)
				if err != nil || held.Fence != fence {
					b.Errorf("%s: got %+v and error %v, want fence %d", name, held, err, fence)
				}
			}
		}},
	}
}
