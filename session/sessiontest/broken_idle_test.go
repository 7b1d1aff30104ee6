package sessiontest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
)

// halves are the store and the leases of one database.
type halves struct {
	store  session.Store
	leases session.Leases
}

func TestSoundHalvesPass(t *testing.T) {
	broken[halves]{}.judge(t, together(t, nil, soundHalves))
}

func together(t *testing.T, only []string, open func(*Clock) halves) map[string]string {
	return failing(t, idleChecks(), only, func(b bench) *togetherBench {
		h := open(b.clock)
		return &togetherBench{&storeBench{b, h.store}, &leaseBench{b, h.leases}}
	})
}

func TestBrokenHalvesFail(t *testing.T) {
	for _, x := range []broken[halves]{
		{
			name:  "stops whoever works",
			open:  stopping(func(_ context.Context, _ session.Leases, c *session.Change) { c.Idle = "" }),
			fails: []string{"idle-working", "idle-environment", "idle-named"},
			also:  []string{"idle-others", "race-idle"},
		},
		{
			name: "takes a lease that expired for work that is over",
			open: stopping(func(ctx context.Context, l session.Leases, c *session.Change) {
				over, _ := l.Expired(ctx, 1000)
				for _, e := range over {
					if e.Sandbox == c.Idle {
						c.Idle = ""
					}
				}
			}),
			fails: []string{"idle-working"},
		},
		{
			name:  "takes a work in a session for one in whatever sandbox",
			open:  sandboxless,
			fails: []string{"idle-working", "idle-environment"},
			also:  []string{"idle-named", "idle-others", "race-idle"},
		},
		{
			name:  "looks whether somebody works before it stops",
			open:  looksFirst,
			fails: []string{"race-idle"}, only: []string{"race-idle"},
		},
	} {
		t.Run(x.name, func(t *testing.T) { x.judge(t, together(t, x.only, x.open)) })
	}
}

func soundHalves(clock *Clock) halves {
	db := memory.New(&memory.Options{Now: clock.Now})
	return halves{db.Sessions(), db.Leases()}
}

// stopping spoils a change that asks for a sandbox to be idle.
func stopping(spoil func(context.Context, session.Leases, *session.Change)) func(*Clock) halves {
	return func(clock *Clock) halves {
		h := soundHalves(clock)
		return halves{leases: h.leases, store: wrapped{Store: h.store, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
			if c.Idle != "" {
				spoil(ctx, h.leases, &c)
			}
			return h.store.Commit(ctx, c)
		}}}
	}
}

// sandboxless keeps no sandbox with a lease.
func sandboxless(clock *Clock) halves {
	h := soundHalves(clock)
	return halves{store: h.store, leases: forgetsSandboxes(h.leases)}
}

// looksFirst looks whether somebody works, and then stops the machine without
// looking again. Whoever wants to work comes once it has looked, and it stops
// the machine once the first of them has found that live.
func looksFirst(clock *Clock) halves {
	h := soundHalves(clock)
	var (
		looked = make(chan struct{})
		found  = make(chan struct{})
		once   [2]sync.Once
	)
	return halves{
		store: wrapped{
			Store: h.store,
			commit: func(ctx context.Context, c session.Change) (time.Time, error) {
				if c.Idle == "" {
					return h.store.Commit(ctx, c)
				}
				_, err := h.store.Commit(ctx, session.Change{Idle: c.Idle})
				once[0].Do(func() { close(looked) })
				if err != nil {
					return time.Time{}, err
				}
				<-found
				c.Idle = ""
				return h.store.Commit(ctx, c)
			},
			load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
				s, err := h.store.Load(ctx, a)
				once[1].Do(func() { close(found) })
				return s, err
			},
		},
		leases: twisted{Leases: h.leases, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			<-looked
			return h.leases.Acquire(ctx, l)
		}},
	}
}
