package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenStoresOfEnvironmentsFail(t *testing.T) {
	for _, x := range []broken[session.Store]{
		{
			name: "overwrites whatever version of an environment it finds",
			open: changed(func(ctx context.Context, s session.Store, c *session.Change) {
				if c.Environment != nil && c.Environment.Version > 0 {
					if got, err := s.Load(ctx, session.Address{Environment: c.Environment.ID}); err == nil {
						e := *c.Environment
						e.Version, c.Environment = got.Environment.Version, &e
					}
				}
			}),
			fails: []string{"environment-version"},
			also:  []string{"all-or-nothing"},
		},
		{
			name: "expects nothing of environments",
			open: changed(func(_ context.Context, _ session.Store, c *session.Change) {
				c.Expect = slices.DeleteFunc(slices.Clone(c.Expect), func(g session.Guard) bool { return g.Environment != "" })
			}),
			fails: []string{"environment-guard"},
			also:  []string{"all-or-nothing", "two-ids"},
		},
		{
			name:  "never retires",
			open:  changed(func(_ context.Context, _ session.Store, c *session.Change) { c.Retire = false }),
			fails: []string{"environment-retire", "borrowed-deleted", "environments-of-a-project"},
			also:  []string{"all-or-nothing", "due-environments", "environment-replace"},
		},
		{
			name:  "moves an environment to another project",
			open:  moving,
			fails: []string{"environment-replace"},
		},
		{
			name:  "deletes an environment under whoever borrows it",
			open:  undermining,
			fails: []string{"borrowed-kept"},
			also:  []string{"all-or-nothing", "delete-refused", "race-borrow"},
		},
		{
			name: "opens a session without the environment that it can't have",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
					at, err := s.Commit(ctx, c)
					if err != nil && c.Session != nil && c.Session.Environment != "" {
						v := *c.Session
						v.Environment, c.Session = "", &v
						return s.Commit(ctx, c)
					}
					return at, err
				}}
			},
			fails: []string{"environment-dangling"},
		},
		{
			name: "shows who borrows no sandbox",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
					got, err := s.Load(ctx, a)
					if got.Session.Environment != "" {
						got.Sandbox = sandbox.Row{}
					}
					return got, err
				}}
			},
			fails: []string{"environment-load", "borrowed-deleted"},
			also:  []string{"environment-for-good"},
		},
		{
			name: "shows who borrows no deleted environment",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
					got, err := s.Load(ctx, a)
					if got.Session.ID != "" && got.Environment.Deleted() {
						got.Environment, got.Sandbox = session.Environment{}, sandbox.Row{}
					}
					return got, err
				}}
			},
			fails: []string{"borrowed-deleted"},
		},
		{
			name:  "lists deleted environments",
			open:  listingDeleted,
			fails: []string{"environments-of-a-project"},
			also:  []string{"environment-replace", "environments-pages"},
		},
		{
			name: "repeats the last item of a page of environments on the next",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, envs: func(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
					p, err := s.Environments(ctx, q)
					if err == nil && p.Next != "" && q.Limit > 1 {
						q.Limit--
						short, err := s.Environments(ctx, q)
						p.Next = short.Next
						return p, err
					}
					return p, err
				}}
			},
			fails: []string{"environments-pages"},
			also:  []string{"environments-last-page", "environments-order"},
		},
		{
			name:  "deletes conversations with their session",
			open:  withThreads,
			fails: []string{"delete-conversations", "owned-purge"},
			also:  []string{"delete-each-kind"},
		},
		{
			name: "takes the first id of two",
			open: changed(func(_ context.Context, _ session.Store, c *session.Change) {
				c.Expect, c.Delete = slices.Clone(c.Expect), slices.Clone(c.Delete)
				for i, g := range c.Expect {
					if g.Session != "" {
						c.Expect[i] = session.Guard{Session: g.Session, Version: g.Version}
					}
				}
				for i, a := range c.Delete {
					if a.Session != "" {
						c.Delete[i] = session.Address{Session: a.Session}
					}
				}
			}),
			fails: []string{"two-ids"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, storeChecks(), x.only, func(b bench) *storeBench {
				return &storeBench{b, x.open(b.clock)}
			}))
		})
	}
}

// moving writes all of a replaced environment.
func moving(clock *Clock) session.Store {
	s := sound(clock)
	var mu sync.Mutex
	moved := map[session.EnvironmentID]access.ProjectID{}
	return wrapped{
		Store: s,
		commit: func(ctx context.Context, c session.Change) (time.Time, error) {
			at, err := s.Commit(ctx, c)
			if err == nil && c.Environment != nil && c.Environment.Version > 0 {
				mu.Lock()
				defer mu.Unlock()
				moved[c.Environment.ID] = c.Environment.Project
			}
			return at, err
		},
		load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
			got, err := s.Load(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			if p, ok := moved[got.Environment.ID]; ok {
				got.Environment.Project = p
			}
			return got, err
		},
	}
}

// undermining deletes environments that are borrowed.
func undermining(clock *Clock) session.Store {
	s := sound(clock)
	var mu sync.Mutex
	gone := map[session.EnvironmentID]bool{}
	return wrapped{
		Store: s,
		commit: func(ctx context.Context, c session.Change) (time.Time, error) {
			at, err := s.Commit(ctx, c)
			if !errors.Is(err, session.ErrStale) {
				return at, err
			}
			rest := c
			rest.Delete = slices.DeleteFunc(slices.Clone(c.Delete), func(a session.Address) bool { return a.Environment != "" })
			if at, err = s.Commit(ctx, rest); err == nil {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range c.Delete {
					gone[a.Environment] = true
				}
			}
			return at, err
		},
		load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
			got, err := s.Load(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			if id := got.Environment.ID; id != "" && gone[id] {
				if a.Environment == id {
					return session.Snapshot{}, fmt.Errorf("%w: environment %s", session.ErrNotFound, id)
				}
				got.Environment, got.Sandbox = session.Environment{}, sandbox.Row{}
			}
			return got, err
		},
	}
}

// listingDeleted lists deleted environments after the others.
func listingDeleted(clock *Clock) session.Store {
	s := sound(clock)
	var mu sync.Mutex
	var ids []session.EnvironmentID
	return wrapped{
		Store: s,
		commit: func(ctx context.Context, c session.Change) (time.Time, error) {
			at, err := s.Commit(ctx, c)
			if err == nil && c.Environment != nil && c.Stamped(at).Environment.Deleted() {
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, c.Environment.ID)
			}
			return at, err
		},
		envs: func(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
			p, err := s.Environments(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				got, lost := s.Load(ctx, session.Address{Environment: id})
				if err == nil && lost == nil && p.Next == "" && len(p.Items) < q.Limit && got.Environment.Project == q.Project {
					p.Items = append(p.Items, session.EnvironmentSummary{Environment: got.Environment, Machine: got.Sandbox.State})
				}
			}
			return p, err
		},
	}
}

// withThreads deletes the conversations of a session that it deletes.
func withThreads(clock *Clock) session.Store {
	return changed(func(ctx context.Context, s session.Store, c *session.Change) {
		var all []session.Address
		for _, a := range c.Delete {
			if a.Session != "" {
				theirs, _ := s.Owned(ctx, session.PurgeTarget{Session: a.Session, History: true}, 1000)
				all = append(all, slices.DeleteFunc(theirs, func(a session.Address) bool { return a.Conversation == "" })...)
			}
		}
		c.Delete = append(all, c.Delete...)
	})(clock)
}
