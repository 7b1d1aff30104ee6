package sessiontest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenKindsFail(t *testing.T) {
	for _, x := range []broken[session.Leases]{
		{
			name:  "gives a turn to two",
			open:  twoTurns,
			fails: []string{"kind-one-holder", "race-kinds"},
			also:  []string{"forget-expired", "forget-held", "race-forget", "held", "kind-apart", "kind-takeover", "race-turn", "turn-again", "turn-held", "turn-kept", "turn-works"},
		},
		{
			name:  "gives whoever takes a lease over the fence of who had it",
			open:  sameFence,
			fails: []string{"kind-one-holder", "kind-fences", "fences"},
			also:  []string{"forget-fences", "forget-works", "race-forget", "kind-takeover", "race-fences", "race-turn", "release", "renew-fenced", "sweep-expires", "turn-again", "turn-held", "turn-works"},
		},
		{
			name:  "tells who had an expired lease",
			open:  tellsExpired,
			fails: []string{"held", "kind-paused"},
			also:  []string{"forget-expired", "kind-apart"},
		},
		{
			name:  "tells the work that lasts shortest",
			open:  tellsShortest,
			fails: []string{"held"},
		},
		{
			name:  "forgets what is worked in",
			open:  func(clock *Clock) session.Leases { return forgetsSandboxes(soundLeases(clock)) },
			fails: []string{"lease-sandbox", "held"},
		},
		{
			name:  "takes a kind that there is not for a sweep",
			open:  anyKind,
			fails: []string{"kind-unknown"},
		},
		{
			name:  "gives a paused holder the lease again",
			open:  forgiving,
			fails: []string{"kind-paused"},
			also:  []string{"kind-apart", "kind-takeover", "renew-fenced"},
		},
		{
			name:  "takes a shell for a turn",
			open:  oneKind,
			fails: []string{"kind-apart"},
			also:  []string{"forget-expired", "forget-fences", "forget-held", "kind-one-holder", "kind-paused", "kind-takeover", "held", "kind-fences", "turn-held"},
		},
		{
			name:  "drains turns as works",
			open:  drainsTurns,
			fails: []string{"kind-one-holder"},
			also:  []string{"forget-expired", "forget-fences", "forget-held", "kind-apart", "kind-takeover"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, leaseChecks(), x.only, func(b bench) *leaseBench {
				return &leaseBench{b, x.open(b.clock)}
			}))
		})
	}
}

// renamed is s with every lease under another name, or of another kind, inside than outside.
func renamed(s session.Leases, in, out func(session.Lease) session.Lease) twisted {
	each := func(all []session.Lease) []session.Lease {
		for i := range all {
			all[i] = out(all[i])
		}
		return all
	}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Acquire(ctx, in(l))
			return out(got), err
		},
		renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Renew(ctx, in(l))
			return out(got), err
		},
		release: func(ctx context.Context, l session.Lease) error { return s.Release(ctx, in(l)) },
		expired: func(ctx context.Context, limit int) ([]session.Lease, error) {
			all, err := s.Expired(ctx, limit)
			return each(all), err
		},
		had: func(ctx context.Context, k session.LeaseKind, name string) (session.Lease, error) {
			l := in(session.Lease{Kind: k, Name: name})
			got, err := s.Held(ctx, l.Kind, l.Name)
			return out(got), err
		},
	}
}

// twoTurns has a turn for each holder.
func twoTurns(clock *Clock) session.Leases {
	const sep = "\x00"
	s := soundLeases(clock)
	w := renamed(s, func(l session.Lease) session.Lease {
		if l.Kind == session.LeaseTurn {
			l.Name += sep + l.Holder
		}
		return l
	}, func(l session.Lease) session.Lease {
		l.Name, _, _ = strings.Cut(l.Name, sep)
		return l
	})
	w.had = nil
	return w
}

// sameFence has one fence for each name.
func sameFence(clock *Clock) session.Leases {
	s := soundLeases(clock)
	type holding struct {
		kind         session.LeaseKind
		name, holder string
	}
	var mu sync.Mutex
	real := map[holding]int64{}
	w := renamed(s, func(l session.Lease) session.Lease {
		mu.Lock()
		defer mu.Unlock()
		if l.Fence == 1 {
			l.Fence = real[holding{l.Kind, l.Name, l.Holder}]
		}
		return l
	}, func(l session.Lease) session.Lease {
		mu.Lock()
		defer mu.Unlock()
		if l.Fence > 0 {
			real[holding{l.Kind, l.Name, l.Holder}], l.Fence = l.Fence, 1
		}
		return l
	})
	return w
}

// tellsExpired tells who had a lease last where nobody has it.
func tellsExpired(clock *Clock) session.Leases {
	s := soundLeases(clock)
	type on struct {
		kind session.LeaseKind
		name string
	}
	var mu sync.Mutex
	last := map[on]session.Lease{}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Acquire(ctx, l)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				last[on{l.Kind, l.Name}] = got
			}
			return got, err
		},
		release: func(ctx context.Context, l session.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			delete(last, on{l.Kind, l.Name})
			return s.Release(ctx, l)
		},
		had: func(ctx context.Context, k session.LeaseKind, name string) (session.Lease, error) {
			got, err := s.Held(ctx, k, name)
			mu.Lock()
			defer mu.Unlock()
			if l, ok := last[on{k, name}]; ok && errors.Is(err, session.ErrNotFound) {
				return l, nil
			}
			return got, err
		},
	}
}

// tellsShortest tells the first work that was opened, and not the one that lasts longest.
func tellsShortest(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	shortest := map[string]session.Lease{}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Acquire(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			if old, ok := shortest[l.Name]; err == nil && l.Kind == session.LeaseWork && (!ok || got.Until.Before(old.Until)) {
				shortest[l.Name] = got
			}
			return got, err
		},
		had: func(ctx context.Context, k session.LeaseKind, name string) (session.Lease, error) {
			got, err := s.Held(ctx, k, name)
			mu.Lock()
			defer mu.Unlock()
			if l, ok := shortest[name]; ok && err == nil && k == session.LeaseWork && l.Holder != got.Holder && clock.Now().Before(l.Until) {
				return l, nil
			}
			return got, err
		},
	}
}

// forgetsSandboxes keeps no sandbox with a lease.
func forgetsSandboxes(s session.Leases) session.Leases {
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			id := l.Sandbox
			l.Sandbox = ""
			got, err := s.Acquire(ctx, l)
			got.Sandbox = id
			return got, err
		},
		renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Renew(ctx, l)
			got.Sandbox = l.Sandbox
			return got, err
		},
	}
}

// anyKind has kinds that there are not.
func anyKind(clock *Clock) session.Leases {
	return renamed(soundLeases(clock), func(l session.Lease) session.Lease {
		if l.Kind == 0 || l.Kind > session.LeaseHost {
			l.Kind = session.LeaseSweep
		}
		return l
	}, func(l session.Lease) session.Lease { return l })
}

// forgiving renews a lease that expired, if nobody has taken it over.
func forgiving(clock *Clock) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		got, err := s.Renew(ctx, l)
		if errors.Is(err, session.ErrFenced) {
			if again, late := s.Acquire(ctx, l); late == nil {
				return again, nil
			}
		}
		return got, err
	}}
}

// oneKind keeps shells and turns as one.
func oneKind(clock *Clock) session.Leases {
	return renamed(soundLeases(clock), func(l session.Lease) session.Lease {
		if l.Kind == session.LeasePTY {
			l.Kind = session.LeaseTurn
		}
		return l
	}, func(l session.Lease) session.Lease { return l })
}

// drainsTurns gives an expired turn to nobody until it is released.
func drainsTurns(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	draining := map[string]session.Lease{}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			mu.Lock()
			defer mu.Unlock()
			if old, ok := draining[l.Name]; ok && l.Kind == session.LeaseTurn && old.Holder != l.Holder {
				return session.Lease{}, &session.HeldError{Kind: l.Kind, Name: l.Name, Holder: old.Holder, Until: old.Until}
			}
			got, err := s.Acquire(ctx, l)
			if err == nil && l.Kind == session.LeaseTurn {
				draining[l.Name] = got
			}
			return got, err
		},
		release: func(ctx context.Context, l session.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			if old, ok := draining[l.Name]; ok && l.Kind == session.LeaseTurn && old.Holder == l.Holder {
				delete(draining, l.Name)
			}
			return s.Release(ctx, l)
		},
	}
}
