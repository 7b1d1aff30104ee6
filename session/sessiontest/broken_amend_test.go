package sessiontest

import (
	"context"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenAmendmentsFail(t *testing.T) {
	only := []string{"amend", "amend-stale"}
	for _, x := range []broken[session.Store]{
		{
			name: "amends whatever there is",
			open: changed(func(ctx context.Context, s session.Store, c *session.Change) {
				if c.Amend != nil {
					if now, err := s.Load(ctx, session.Address{Conversation: c.Amend.Was.ID}); err == nil {
						a := *c.Amend
						a.Was.Shared, a.Was.ClosedAt, c.Amend = now.Conversation.Shared, now.Conversation.ClosedAt, &a
					}
				}
			}),
			fails: []string{"amend-stale"}, only: only,
		},
		{
			name: "closes what is only shared",
			open: changed(func(_ context.Context, _ session.Store, c *session.Change) {
				if c.Amend != nil {
					a := *c.Amend
					a.Close, c.Amend = true, &a
				}
			}),
			fails: []string{"amend"}, also: []string{"amend-stale"}, only: only,
		},
		{
			name: "closes what is closed anew",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
					got, err := s.Load(ctx, a)
					if !got.Conversation.ClosedAt.IsZero() {
						got.Conversation.ClosedAt = clock.Now()
					}
					return got, err
				}}
			},
			fails: []string{"amend"}, only: only,
		},
		{
			name: "amends apart from what it expects",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
					if c.Amend != nil && len(c.Expect) > 0 {
						if _, err := s.Commit(ctx, session.Change{Amend: c.Amend}); err != nil {
							return time.Time{}, err
						}
						c.Amend = nil
					}
					return s.Commit(ctx, c)
				}}
			},
			fails: []string{"amend-stale"}, only: only,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, storeChecks(), x.only, func(b bench) *storeBench { return &storeBench{b, x.open(b.clock)} }))
		})
	}
}
