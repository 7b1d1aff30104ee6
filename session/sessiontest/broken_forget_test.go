package sessiontest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenForgettingFails(t *testing.T) {
	for _, x := range []broken[session.Leases]{
		{name: "counts fences anew once they are forgotten", open: forgetsFences, fails: []string{"forget-fences"}, also: []string{"forget-expired", "forget-works", "race-forget"}},
		{name: "never forgets", open: neverForgets, fails: []string{"forget-expired", "forget-bounded", "forget-input"}},
		{name: "forgets what has expired just now", open: forgetsEarly, fails: []string{"forget-expired"}, also: []string{"forget-bounded"}},
		{name: "forgets works that have expired", open: forgetsWorks, fails: []string{"forget-works"}, also: []string{"forget-held"}},
		{name: "forgets what was acquired long ago, whoever has it", open: forgetsHeld, fails: []string{"forget-held"}},
		{name: "forgets all at once", open: forgetsAll, fails: []string{"forget-bounded"}, also: []string{"forget-expired", "forget-held"}},
		{name: "forgets where it should refuse", open: neverRefuses, fails: []string{"forget-input"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, leaseChecks(), x.only, func(b bench) *leaseBench {
				return &leaseBench{b, x.open(b.clock)}
			}))
		})
	}
}

// forgetsFences begins at one again after it has forgotten something.
func forgetsFences(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	var base, last int64
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			mu.Lock()
			defer mu.Unlock()
			l, err := s.Acquire(ctx, l)
			last = max(last, l.Fence)
			if l.Fence > base {
				l.Fence -= base
			}
			return l, err
		},
		renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Renew(ctx, shifted(&mu, &base, l))
			if err != nil {
				got, err = s.Renew(ctx, l)
			}
			got.Fence = l.Fence
			return got, err
		},
		release: func(ctx context.Context, l session.Lease) error {
			if err := s.Release(ctx, shifted(&mu, &base, l)); err != nil {
				return err
			}
			return s.Release(ctx, l)
		},
		forget: func(ctx context.Context, unused time.Duration, limit int) (int, error) {
			n, err := s.Forget(ctx, unused, limit)
			mu.Lock()
			defer mu.Unlock()
			if n > 0 {
				base = last
			}
			return n, err
		},
	}
}

// shifted is l with the fence that is stored.
func shifted(mu *sync.Mutex, base *int64, l session.Lease) session.Lease {
	mu.Lock()
	defer mu.Unlock()
	l.Fence += *base
	return l
}

// forgetting is a sound store but for what forget does.
func forgetting(clock *Clock, forget func(session.Leases) func(context.Context, time.Duration, int) (int, error)) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, forget: forget(s)}
}

func neverForgets(clock *Clock) session.Leases {
	return forgetting(clock, func(s session.Leases) func(context.Context, time.Duration, int) (int, error) {
		return func(ctx context.Context, unused time.Duration, limit int) (int, error) {
			if unused <= 0 || limit < 1 {
				return s.Forget(ctx, unused, limit)
			}
			return 0, ctx.Err()
		}
	})
}

func forgetsEarly(clock *Clock) session.Leases {
	return forgetting(clock, func(s session.Leases) func(context.Context, time.Duration, int) (int, error) {
		return func(ctx context.Context, unused time.Duration, limit int) (int, error) {
			return s.Forget(ctx, min(unused, time.Minute), limit)
		}
	})
}

func forgetsWorks(clock *Clock) session.Leases {
	return forgetting(clock, func(s session.Leases) func(context.Context, time.Duration, int) (int, error) {
		return func(ctx context.Context, unused time.Duration, limit int) (int, error) {
			all, _ := s.Expired(ctx, 1000)
			for _, l := range all {
				_ = s.Release(ctx, l)
			}
			return s.Forget(ctx, unused, limit)
		}
	})
}

// forgetsHeld goes by when a name was acquired, and not by how long it is had.
func forgetsHeld(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	since := map[session.Lease]time.Time{}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			l, err := s.Acquire(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && l.For > time.Hour {
				since[l] = clock.Now()
			}
			return l, err
		},
		forget: func(ctx context.Context, unused time.Duration, limit int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			for l, at := range since {
				if clock.Now().Sub(at) > unused && ctx.Err() == nil {
					_ = s.Release(ctx, l)
					delete(since, l)
				}
			}
			return s.Forget(ctx, unused, limit)
		},
	}
}

func forgetsAll(clock *Clock) session.Leases {
	return forgetting(clock, func(s session.Leases) func(context.Context, time.Duration, int) (int, error) {
		return func(ctx context.Context, unused time.Duration, limit int) (int, error) {
			return s.Forget(ctx, unused, limit*1000)
		}
	})
}

func neverRefuses(clock *Clock) session.Leases {
	s := memory.New(&memory.Options{Now: clock.Now}).Leases()
	return twisted{Leases: s, forget: func(ctx context.Context, unused time.Duration, limit int) (int, error) {
		return s.Forget(ctx, max(unused, time.Nanosecond), max(limit, 1))
	}}
}
