package sessiontest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// rush is how many works are opened at once.
const rush = 200

func slotChecks() []check[*leaseBench] {
	isLimit := func(err error) bool { return errors.As(err, new(*session.LimitError)) }
	return []check[*leaseBench]{
		{"slot-per-session", "A session that is worked in takes one slot of its payer, however many works it has.", func(b *leaseBench) {
			for i := range 5 {
				b.acquire(work("s1", "w1-"+strconv.Itoa(i), alice))
			}
			b.acquire(work("s2", "w2", alice))
			b.limited(work("s3", "w3", alice))
			b.acquire(work("s1", "one more", alice))
			none := work("s2", "even then", alice)
			none.Slots = 0 // no more slots for the payer; this one is taken already
			b.acquire(none)
		}},
		{"slot-per-payer", "Slots are counted for each payer, and Slots of 0 or less are none.", func(b *leaseBench) {
			b.acquire(work("s1", "w1", alice))
			b.acquire(work("s2", "w2", alice))
			b.limited(work("s3", "w3", alice))
			b.acquire(work("s3", "w3", bob))
			for _, n := range []int{0, -1} {
				l := work("s4", "w4", "carol")
				l.Slots = n
				b.limited(l)
			}
			b.acquire(work("s4", "w4", "carol"))
			for i := range 5 { // sweeps take none
				b.acquire(sweep("chore "+strconv.Itoa(i), "r1"))
			}
			b.acquire(work("s5", "w5", "carol"))
		}},
		{"slot-freed", "The last release of a session's works frees its slot, and no earlier one does.", func(b *leaseBench) {
			one, two := b.acquire(work("s1", "w1", alice)), b.acquire(work("s1", "w2", alice))
			b.acquire(work("s2", "w3", alice))
			b.release(one)
			b.release(one)
			b.limited(work("s3", "w4", alice))
			b.release(two)
			b.acquire(work("s3", "w4", alice))
			b.limited(work("s1", "w1", alice))
		}},
		{"slot-expired", "A work lease that has expired counts until it is released, and is listed by Expired until then, longest expired first.", func(b *leaseBench) {
			long := work("s1", "w1", alice)
			long.For = 2 * time.Minute
			one := b.acquire(long)
			two := b.acquire(work("s2", "w2", alice))
			b.clock.Step(time.Second)
			three := b.acquire(work("s2", "w3", bob))
			b.acquire(sweep("chore", "r1")) // never listed
			b.expired(10)
			b.clock.Step(90 * time.Second)
			four := b.acquire(work("s2", "w4", alice))
			b.clock.Step(45 * time.Second)
			b.expired(10, two, three, one)
			b.expired(1, two)
			b.limited(work("s3", "w5", alice))
			b.release(one)
			b.expired(10, two, three)
			b.acquire(work("s3", "w5", alice))
			b.release(two)
			b.release(three)
			b.expired(10)
			b.renew(four)
		}},
		{"slot-refused", "What was refused takes nothing: neither a slot nor a place among the expired.", func(b *leaseBench) {
			one := b.acquire(work("s1", "w1", alice))
			two := b.acquire(work("s2", "w2", alice))
			b.limited(work("s3", "w3", alice))
			b.clock.Step(time.Hour)
			b.expired(10, one, two)
			refused := work("s3", "w3", alice)
			refused.Fence = 1
			b.fenced(refused)
			b.release(one)
			b.acquire(work("s4", "w4", alice))
		}},
		{"race-slots", "Of 200 sessions that want the last slot at once exactly one gets it; works of sessions that have one are all admitted.", func(b *leaseBench) {
			b.acquire(work("s0", "first", alice))
			errs := parallel(rush, func(i int) error {
				l := work("s"+strconv.Itoa(i), "w"+strconv.Itoa(i), alice)
				_, err := b.leases.Acquire(b.Context(), l)
				if i == 0 && err != nil {
					return fmt.Errorf("a work of a session that has its slot: %s", err)
				}
				return err
			})
			if n := number(errs, isNil); n != 2 {
				b.Errorf("%d were admitted, want the last slot's and the one that needs none", n)
			}
			if err := others(errs, isLimit); err != nil {
				b.Errorf("one was answered with %v", err)
			}
			b.limited(work("late", "w", alice))
		}},
		{"race-fences", "Of 50 works that are opened in one session at once each has a fence of its own.", func(b *leaseBench) {
			var mu sync.Mutex
			seen := map[int64]int{}
			errs := parallel(racers, func(i int) error {
				l, err := b.leases.Acquire(b.Context(), work("s1", "w"+strconv.Itoa(i), alice))
				mu.Lock()
				defer mu.Unlock()
				seen[l.Fence]++
				return err
			})
			if err := others(errs, isNil); err != nil {
				b.Errorf("%v", err)
			}
			if len(seen) != racers {
				b.Errorf("%d fences for %d works", len(seen), racers)
			}
		}},
	}
}
