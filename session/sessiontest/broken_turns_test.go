package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenTurnsFail(t *testing.T) {
	for _, x := range []broken[session.Leases]{
		{
			name:  "opens works for turns that nobody has",
			open:  opensForLost,
			fails: []string{"turn-held", "turn-again", "turn-refused"},
			also:  []string{"race-turn"},
		},
		{
			name:  "opens works for turns that have expired, if nobody has taken them over",
			open:  opensForExpired,
			fails: []string{"turn-held"},
		},
		{
			name:  "looks at the turn before it locks",
			open:  looksAtTurnFirst,
			fails: []string{"race-turn"}, only: []string{"race-turn"},
		},
		{
			name:  "tells no slot before a turn that was lost",
			open:  slotsBeforeTurns,
			fails: []string{"turn-refused"},
		},
		{
			name:  "lists no works that have expired",
			open:  listsLive,
			fails: []string{"turn-works"},
			also:  []string{"turn-held"},
		},
		{
			name:  "lists what was released",
			open:  listsReleased,
			fails: []string{"turn-again", "turn-works"},
			also:  []string{"turn-kept"},
		},
		{
			name:  "lists works of later turns",
			open:  listsLater,
			fails: []string{"turn-works"},
			also:  []string{"turn-held"},
		},
		{
			name:  "goes on behind the turn and not behind the work",
			open:  pagesByTurn,
			fails: []string{"turn-works"},
		},
		{
			name:  "lists a page in no order",
			open:  listsBackwards,
			fails: []string{"turn-works"},
			also:  []string{"turn-held"},
		},
		{
			name:  "does not keep what a work is for",
			open:  forgetsTurns,
			fails: []string{"turn-kept", "turn-works"},
			also:  []string{"race-turn", "turn-again", "turn-held"},
		},
		{
			name:  "takes a turn for one of any conversation",
			open:  anyTurn,
			fails: []string{"turn-input"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, leaseChecks(), x.only, func(b bench) *leaseBench {
				return &leaseBench{b, x.open(b.clock)}
			}))
		})
	}
}

// unbound opens a work as if it were for no turn.
func unbound(ctx context.Context, s session.Leases, l session.Lease) (session.Lease, error) {
	turn := l.Turn
	l.Turn = 0
	l, err := s.Acquire(ctx, l)
	if err == nil {
		l.Turn = turn
	}
	return l, err
}

func opensForLost(clock *Clock) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		got, err := s.Acquire(ctx, l)
		if errors.Is(err, session.ErrFenced) {
			return unbound(ctx, s, l)
		}
		return got, err
	}}
}

func opensForExpired(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	newest := map[string]session.Lease{}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Acquire(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && l.Kind == session.LeaseTurn {
				newest[l.Name] = got
			}
			if n, ok := newest[string(l.Conversation)]; ok && errors.Is(err, session.ErrFenced) && n.Fence == l.Turn && !clock.Now().Before(n.Until) {
				return unbound(ctx, s, l)
			}
			return got, err
		},
		release: func(ctx context.Context, l session.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			if l.Kind == session.LeaseTurn {
				delete(newest, l.Name)
			}
			return s.Release(ctx, l)
		},
	}
}

// looksAtTurnFirst looks whether a turn is held before it opens a work for it.
// Whoever has looked opens it once the turn was taken over, and its works listed; and one at least has looked before that.
func looksAtTurnFirst(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	type moments struct{ looked, listed chan struct{} }
	of := map[int64]moments{}
	at := func(fence int64) moments {
		if _, ok := of[fence]; !ok {
			of[fence] = moments{make(chan struct{}), make(chan struct{})}
		}
		return of[fence]
	}
	shut := func(c chan struct{}) {
		select {
		case <-c:
		default:
			close(c)
		}
	}
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			if l.Turn == 0 {
				return s.Acquire(ctx, l)
			}
			held, err := s.Held(ctx, session.LeaseTurn, string(l.Conversation))
			if err != nil || held.Fence != l.Turn {
				return session.Lease{}, fmt.Errorf("%w: turn %d of %s", session.ErrFenced, l.Turn, l.Conversation)
			}
			mu.Lock()
			m := at(l.Turn)
			shut(m.looked)
			mu.Unlock()
			<-m.listed
			return unbound(ctx, s, l)
		},
		release: func(ctx context.Context, l session.Lease) error {
			if l.Kind == session.LeaseTurn && l.Holder != "next" {
				mu.Lock()
				m := at(l.Fence)
				mu.Unlock()
				<-m.looked
			}
			return s.Release(ctx, l)
		},
		works: func(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
			found, err := s.Works(ctx, v, through, after, limit)
			mu.Lock()
			defer mu.Unlock()
			for fence, m := range of {
				if fence <= through {
					shut(m.listed)
				}
			}
			return found, err
		},
	}
}

func slotsBeforeTurns(clock *Clock) session.Leases {
	s := soundLeases(clock)
	var mu sync.Mutex
	had := map[string]bool{}
	return twisted{Leases: s, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		mu.Lock()
		defer mu.Unlock()
		got, err := s.Acquire(ctx, l)
		if err == nil {
			had[l.Holder] = true
		}
		if had[l.Holder] || !errors.Is(err, session.ErrFenced) {
			return got, err
		}
		got, limited := unbound(ctx, s, l)
		if errors.As(limited, new(*session.LimitError)) {
			return session.Lease{}, limited
		}
		return session.Lease{}, errors.Join(err, s.Release(ctx, got))
	}}
}

// listing is a sound store but for what its list has.
func listing(clock *Clock, list func(s session.Leases) func(context.Context, session.ConversationID, int64, session.Lease, int) ([]session.Lease, error)) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, works: list(s)}
}

func listsLive(clock *Clock) session.Leases {
	return listing(clock, func(s session.Leases) func(context.Context, session.ConversationID, int64, session.Lease, int) ([]session.Lease, error) {
		return func(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
			if limit < 1 {
				return s.Works(ctx, v, through, after, limit)
			}
			all, err := s.Works(ctx, v, through, after, 1000)
			all = slices.DeleteFunc(all, func(l session.Lease) bool { return !clock.Now().Before(l.Until) })
			return all[:min(len(all), limit)], err
		}
	})
}

func listsReleased(clock *Clock) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, release: func(ctx context.Context, l session.Lease) error {
		if l.Kind == session.LeaseWork && l.Turn > 0 {
			return ctx.Err()
		}
		return s.Release(ctx, l)
	}}
}

func listsLater(clock *Clock) session.Leases {
	return listing(clock, func(s session.Leases) func(context.Context, session.ConversationID, int64, session.Lease, int) ([]session.Lease, error) {
		return func(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
			return s.Works(ctx, v, through+1, after, limit)
		}
	})
}

func pagesByTurn(clock *Clock) session.Leases {
	return listing(clock, func(s session.Leases) func(context.Context, session.ConversationID, int64, session.Lease, int) ([]session.Lease, error) {
		return func(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
			if after.Turn > 0 {
				after.Name = strings.Repeat("\U0010ffff", 8)
			}
			return s.Works(ctx, v, through, after, limit)
		}
	})
}

func listsBackwards(clock *Clock) session.Leases {
	return listing(clock, func(s session.Leases) func(context.Context, session.ConversationID, int64, session.Lease, int) ([]session.Lease, error) {
		return func(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
			all, err := s.Works(ctx, v, through, after, limit)
			slices.Reverse(all)
			return all, err
		}
	})
}

func forgetsTurns(clock *Clock) session.Leases {
	s := soundLeases(clock)
	return twisted{
		Leases: s,
		acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Acquire(ctx, l)
			if err != nil || l.Kind != session.LeaseWork || l.Conversation == "" {
				return got, err
			}
			if err := s.Release(ctx, got); err != nil { // and without what it is for
				return got, err
			}
			bare := l
			bare.Conversation, bare.Turn = "", 0
			got, err = s.Acquire(ctx, bare)
			got.Conversation, got.Turn = l.Conversation, l.Turn
			return got, err
		},
		renew: func(ctx context.Context, l session.Lease) (session.Lease, error) {
			got, err := s.Renew(ctx, l)
			got.Conversation, got.Turn = l.Conversation, l.Turn
			return got, err
		},
	}
}

// anyTurn takes whatever turn there is for none where it makes no sense.
func anyTurn(clock *Clock) session.Leases {
	s := soundLeases(clock)
	return twisted{Leases: s, acquire: func(ctx context.Context, l session.Lease) (session.Lease, error) {
		if l.Turn < 0 || l.Conversation == "" || l.Kind != session.LeaseWork {
			return unbound(ctx, s, l)
		}
		return s.Acquire(ctx, l)
	}}
}
