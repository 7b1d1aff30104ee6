package sessiontest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
)

func soundLeases(clock *Clock) session.Leases {
	return memory.New(&memory.Options{Now: clock.Now}).Leases()
}

// twisted is a store of leases of which some methods are replaced.
type twisted struct {
	session.Leases
	acquire func(context.Context, session.Lease) (session.Lease, error)
	renew   func(context.Context, session.Lease) (session.Lease, error)
	release func(context.Context, session.Lease) error
	expired func(context.Context, int) ([]session.Lease, error)
	works   func(context.Context, session.ConversationID, int64, session.Lease, int) ([]session.Lease, error)
	had     func(context.Context, session.LeaseKind, string) (session.Lease, error)
	forget  func(context.Context, time.Duration, int) (int, error)
}

func (w twisted) Acquire(ctx context.Context, l session.Lease) (session.Lease, error) {
	if w.acquire != nil {
		return w.acquire(ctx, l)
	}
	return w.Leases.Acquire(ctx, l)
}

func (w twisted) Renew(ctx context.Context, l session.Lease) (session.Lease, error) {
	if w.renew != nil {
		return w.renew(ctx, l)
	}
	return w.Leases.Renew(ctx, l)
}

func (w twisted) Release(ctx context.Context, l session.Lease) error {
	if w.release != nil {
		return w.release(ctx, l)
	}
	return w.Leases.Release(ctx, l)
}

func (w twisted) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	if w.expired != nil {
		return w.expired(ctx, limit)
	}
	return w.Leases.Expired(ctx, limit)
}

func (w twisted) Works(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
	if w.works != nil {
		return w.works(ctx, v, through, after, limit)
	}
	return w.Leases.Works(ctx, v, through, after, limit)
}

func (w twisted) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	if w.had != nil {
		return w.had(ctx, kind, name)
	}
	return w.Leases.Held(ctx, kind, name)
}

func (w twisted) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	if w.forget != nil {
		return w.forget(ctx, unused, limit)
	}
	return w.Leases.Forget(ctx, unused, limit)
}

func TestSoundLeasesPass(t *testing.T) {
	broken[session.Leases]{}.judge(t, failing(t, leaseChecks(), nil, func(b bench) *leaseBench {
		return &leaseBench{b, soundLeases(b.clock)}
	}))
}

func TestBrokenLeasesFail(t *testing.T) {
	for _, x := range []broken[session.Leases]{
		{
			name:  "counts works, not sessions",
			open:  countsWorks,
			fails: []string{"slot-per-session"},
			also:  []string{"forget-held", "held", "kind-apart", "lease-sandbox", "race-kinds", "slot-freed", "slot-expired", "fences", "race-slots", "race-fences", "race-turn", "turn-again", "turn-held", "turn-kept", "turn-works"},
		},
		{
			name:  "forgets a work once it has expired",
			open:  forgetful,
			fails: []string{"slot-expired"},
			also:  []string{"forget-works", "slot-refused", "turn-held"},
		},
		{
			name:  "releases by name",
			open:  releasesByName,
			fails: []string{"kind-takeover", "release", "sweep-expires"},
			also:  []string{"forget-works", "held", "kind-apart", "kind-work-many", "slot-freed", "slot-expired"},
		},
		{
			name:  "starts again at one after a release",
			open:  restarts,
			fails: []string{"kind-fences", "fences"},
			also:  []string{"forget-fences", "held", "kind-apart", "kind-one-holder", "kind-takeover", "renew-fenced", "release"},
		},
		{
			name:  "admits each caller once",
			open:  onceOnly,
			fails: []string{"reentrant"},
			also:  []string{"kind-fences", "lease-sandbox", "turn-again", "turn-kept"},
		},
		{
			name:  "counts slots before it locks",
			open:  countsSlotsFirst,
			fails: []string{"race-slots"}, only: []string{"race-slots"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, leaseChecks(), x.only, func(b bench) *leaseBench {
				return &leaseBench{b, x.open(b.clock)}
			}))
		})
	}
}

// countsWorks takes a slot for every work.
func countsWorks(clock *Clock) session.Leases {
	s := soundLeases(clock)
	const sep = "\x00"
	in := func(l session.Lease) session.Lease {
		if l.Kind == session.LeaseWork {
			l.Name += sep + l.Holder
		}
		return l
	}
	out := func(l session.Lease) session.Lease {
		l.Name, _, _ = strings.Cut(l.Name, sep)
		return l
	}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			l, err := s.Acquire(ctx, in(l))
			return out(l), err
		},
		renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			l, err := s.Renew(ctx, in(l))
			return out(l), err
		},
		release: func(ctx context.Context, l session.Lease) error { return s.Release(ctx, in(l)) },
		expired: func(ctx context.Context, limit int) ([]session.Lease, error) {
			all, err := s.Expired(ctx, limit)
			for i := range all {
				all[i] = out(all[i])
			}
			return all, err
		},
	}
}

// forgetful frees the slots of expired works by itself.
func forgetful(clock *Clock) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		all, _ := s.Expired(ctx, 1000)
		for _, e := range all {
			_ = s.Release(ctx, e)
		}
		return s.Acquire(ctx, l)
	}}
}

// releasesByName releases whatever lease is on the name.
func releasesByName(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	latest := map[string]session.Lease{}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Acquire(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				latest[l.Name] = got
			}
			return got, err
		},
		release: func(ctx context.Context, l session.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				if on, ok := latest[l.Name]; ok {
					l = on
				}
			}
			return s.Release(ctx, l)
		},
	}
}

// restarts counts fences anew once a sweep lease was released.
func restarts(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	base, last := map[string]int64{}, map[string]int64{}
	shift := func(l session.Lease, by int64) session.Lease {
		if l.Fence != 0 {
			l.Fence += by
		}
		return l
	}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			mu.Lock()
			defer mu.Unlock()
			l, err := s.Acquire(ctx, l)
			last[l.Name] = max(last[l.Name], l.Fence)
			return shift(l, -base[l.Name]), err
		},
		renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			mu.Lock()
			defer mu.Unlock()
			by := base[l.Name]
			l, err := s.Renew(ctx, shift(l, by))
			return shift(l, -by), err
		},
		release: func(ctx context.Context, l session.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			err := s.Release(ctx, shift(l, base[l.Name]))
			if ctx.Err() == nil && l.Kind == session.LeaseSweep {
				base[l.Name] = last[l.Name]
			}
			return err
		},
	}
}

// onceOnly refuses who has the lease already.
func onceOnly(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	had := map[session.Lease]session.Lease{}
	return twisted{Leases: s, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		mu.Lock()
		defer mu.Unlock()
		if mine, ok := had[l]; ok {
			if _, err := s.Renew(ctx, mine); err == nil {
				return session.Lease{}, &session.HeldError{Kind: l.Kind, Name: l.Name, Holder: l.Holder, Until: mine.Until}
			}
		}
		got, err := s.Acquire(ctx, l)
		if err == nil {
			had[l] = got
		}
		return got, err
	}}
}

// countsSlotsFirst looks whether there is a slot before it takes one. All who
// are in a rush look before any of them takes.
func countsSlotsFirst(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var (
		looked atomic.Int64
		all    = make(chan struct{})
		mu     sync.Mutex
		taken  = map[string]bool{}
	)
	return twisted{Leases: s, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		mu.Lock()
		free := taken[l.Name] || len(taken) < l.Slots
		mu.Unlock()
		if looked.Add(1) == rush+1 { // and the one who came before the rush
			close(all)
		}
		if l.Holder != "first" {
			<-all
		}
		if !free {
			return session.Lease{}, &session.LimitError{Kind: session.SlotsPerPayer, Scope: string(l.Payer), Max: l.Slots}
		}
		mu.Lock()
		taken[l.Name] = true
		mu.Unlock()
		l.Slots = 2 * rush
		return s.Acquire(ctx, l)
	}}
}
