package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/pgtest"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// rival is something that a process does while another purges what it does it to.
type rival struct {
	name string
	do   func(ctx context.Context, r *replica, v *town) error
}

var rivals = []rival{
	{"cold work", func(ctx context.Context, r *replica, v *town) error {
		s, _, err := r.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: "builder"})
		if err != nil {
			return err
		}
		return tryWork(ctx, r, session.WorkRequest{Session: s.ID, Ensure: true})
	}},
	{"warm work", func(ctx context.Context, r *replica, v *town) error {
		return tryWork(ctx, r, session.WorkRequest{Session: v.sessions["ann p"], Ensure: true})
	}},
	{"work in an environment", func(ctx context.Context, r *replica, v *town) error {
		return tryWork(ctx, r, session.WorkRequest{Session: v.sessions["bob p borrowed"], Ensure: true})
	}},
	{"spawn in an environment", func(ctx context.Context, r *replica, v *town) error {
		_, _, err := r.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: "builder", Environment: v.environments["p"]})
		return err
	}},
	{"end", func(ctx context.Context, r *replica, v *town) error {
		_, err := r.End(ctx, ann, v.sessions["ann p"])
		return err
	}},
	{"end and work again", func(ctx context.Context, r *replica, v *town) error {
		_, err := r.End(ctx, ann, v.sessions["ann p"])
		return errors.Join(err, tryWork(ctx, r, session.WorkRequest{Session: v.sessions["ann p"], Ensure: true, Reopen: true}))
	}},
	{"add a conversation", func(ctx context.Context, r *replica, v *town) error {
		_, err := r.AddConversation(ctx, bob, session.AddConversation{Session: v.sessions["ann p"], Agent: "tester"})
		return err
	}},
	{"delete the environment", func(ctx context.Context, r *replica, v *town) error {
		_, err := r.DeleteEnvironment(ctx, ann, v.environments["p"])
		return err
	}},
	{"reclaim", func(ctx context.Context, r *replica, _ *town) error {
		_, err := r.Reclaim(ctx, session.ReclaimOptions{})
		return err
	}},
	{"purge", func(ctx context.Context, r *replica, _ *town) error {
		_, err := r.Purge(ctx, session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{})
		return err
	}},
	{"purge one session", func(ctx context.Context, r *replica, v *town) error {
		_, err := r.Purge(ctx, session.PurgeTarget{Session: v.sessions["ann p"], History: true}, session.PurgeOptions{})
		return err
	}},
}

func tryWork(ctx context.Context, r *replica, q session.WorkRequest) error {
	wk, err := r.work(ctx, ann, q)
	if err != nil {
		return err
	}
	_, err = wk.Close(ctx)
	return err
}

// expectedInRace fails the test where a rival's error is none that it may get
// when what it works with is purged under it.
func expectedInRace(t testing.TB, what string, err error) {
	t.Helper()
	for _, e := range flat(err) {
		expected := false
		for _, is := range []error{
			session.ErrNotFound, session.ErrEnded, session.ErrStale, session.ErrEnvironmentGone, session.ErrUnavailable, session.ErrClaimed, sandbox.ErrGone,
		} {
			expected = expected || errors.Is(e, is)
		}
		if _, waits := errors.AsType[*sandbox.ProvisioningError](e); !expected && !waits {
			t.Errorf("%s: %v (%T)", what, e, e)
		}
	}
}

// flat are the errors that were joined.
func flat(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && !errors.Is(err, session.ErrUnavailable) {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// A purge that comes whole between any two calls of whatever else is under
// way, and whatever else that comes whole between any two calls of a purge:
// nothing is left of the project after one more purge, and no machine lives.
func TestPurgeAgainstEverything(t *testing.T) {
	whole := session.PurgeTarget{Project: "p", History: true}
	purge := rival{"the purge", func(ctx context.Context, r *replica, _ *town) error {
		_, err := r.Purge(ctx, whole, session.PurgeOptions{})
		return err
	}}
	for _, other := range rivals {
		for _, order := range []struct {
			name          string
			outer, within rival
		}{{"the purge comes between", other, purge}, {"comes into the purge", purge, other}} {
			for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
				t.Run(other.name+", "+order.name+", "+what, func(t *testing.T) {
					for n, reached := 1, true; reached; n++ {
						synctest.Test(t, func(t *testing.T) {
							w := newWorld(t, caps)
							a, b := w.purger(), w.purger()
							v := newTown(w, a)
							reached = false
							a.meddle(func(_ string, i, _ int) trouble {
								if i != n {
									return trouble{}
								}
								reached = true
								return trouble{hold: func(context.Context) {
									ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
									defer cancel()
									expectedInRace(t, order.within.name, order.within.do(ctx, b, v))
								}}
							})
							ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
							defer cancel()
							expectedInRace(t, order.outer.name, order.outer.do(ctx, a, v))
							a.meddle(nil)
							w.convergeTown(a) // rows and machines agree already
							if rep, err := b.Purge(t.Context(), whole, session.PurgeOptions{}); err != nil || !rep.Done {
								t.Errorf("one more purge: %+v, %v", rep, err)
							}
							w.wantPurged(b, whole)
							w.convergeTown(b)
							if machines := len(w.boxes.Machines()); machines != 2 { // eve's and ann's own
								t.Errorf("%d machines live", machines)
							}
						})
						if n > 150 {
							t.Fatal("there is no end of calls")
						}
					}
				})
			}
		}
	}
}

// Rule 13: an environment is deleted for good once no session borrows it.
func TestPurgeOfABorrowedEnvironment(t *testing.T) {
	for _, c := range []struct {
		rule  string
		times int
		want  error
	}{
		{"a session that comes to borrow the environment between a look and its commit is found by the next look", 1, nil},
		{"the purge looks again four times", 4, nil},
		{"and then says that others were faster; nothing is half done", 1000, session.ErrStale},
	} {
		inWorld(t, c.rule, immediate, func(t *testing.T, w *world) {
			a, b := w.purger(), w.purger()
			v := newTown(w, a)
			spawned := 0
			a.meddle(func(call string, _, _ int) trouble {
				if call != "commit" || spawned == c.times {
					return trouble{}
				}
				spawned++
				return trouble{hold: func(ctx context.Context) {
					if _, _, err := b.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: "builder", Environment: v.environments["p"]}); err != nil {
						t.Error(err)
					}
				}}
			})
			rep, err := a.Purge(t.Context(), session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{})
			if !errors.Is(err, c.want) || rep.Done != (c.want == nil) {
				t.Errorf("%+v, %v, want %v", rep, err, c.want)
			}
			if c.want != nil && (rep.Sessions+rep.Environments > 0 || spawned != 5) {
				t.Errorf("%+v after %d tries", rep, spawned)
			}
			a.meddle(nil)
			if rep, err := a.Purge(t.Context(), session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{}); err != nil || !rep.Done {
				t.Errorf("again: %+v, %v", rep, err)
			}
			w.wantPurged(a, session.PurgeTarget{Project: "p", History: true})
			w.convergeTown(a)
		})
	}
}

// On a real database, with real concurrency.
func TestPurgeRaceOnPostgres(t *testing.T) {
	var server pgtest.Server
	t.Cleanup(server.Stop)
	dsn := server.DSN(t)
	boxes := memory.NewSandboxes(nil)
	for name, h := range memory.Coreutils() {
		boxes.Handle(name, h)
	}
	var both []*session.Service
	var db *postgres.DB
	for range 2 {
		var err error
		if db, err = postgres.Open(t.Context(), dsn, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if len(both) == 0 {
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s, err := session.New(session.Config{
			Store: db.Sessions(), Leases: db.Leases(), Directory: newDirectory(), Sandboxes: []sandbox.Provider{boxes}, KeySecret: secret, Deployment: "bunkroom",
			CallTimeout: time.Second, // what was being made when it was purged may come for two seconds
			Limits: func(access.Plan) session.Limits {
				return session.Limits{Sessions: 10000, Machines: 10000, Slots: 10000, Conversations: 10000}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, s)
	}

	var env atomic.Value // the latest; it may have been purged
	open := func(r *session.Service) error {
		e, err := r.CreateEnvironment(t.Context(), ann, session.NewEnvironment{Project: "p"})
		env.Store(e.ID)
		return err
	}
	if err := open(both[0]); err != nil {
		t.Fatal(err)
	}
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	for _, err := range together(8, func(i int) error {
		r, rnd := both[i%2], rand.New(rand.NewPCG(7, uint64(i)))
		for n := range rounds {
			if i < 2 && n%5 == 4 {
				target := session.PurgeTarget{Project: "p", History: rnd.IntN(2) == 0}
				if _, err := r.Purge(t.Context(), target, session.PurgeOptions{}); err != nil && !errors.Is(err, session.ErrStale) {
					return fmt.Errorf("purge: %w", err)
				}
				if err := open(r); err != nil {
					return fmt.Errorf("create environment: %w", err)
				}
				continue
			}
			q := session.Spawn{Project: "p", Agent: "builder"}
			if rnd.IntN(2) == 0 {
				q.Environment = env.Load().(session.EnvironmentID)
			}
			s, _, err := r.Spawn(t.Context(), ann, q)
			expectedInRace(t, "Spawn", err)
			if err != nil {
				continue
			}
			_, err = r.AddConversation(t.Context(), bob, session.AddConversation{Session: s.ID, Agent: "tester"})
			expectedInRace(t, "AddConversation", err)
			wk, err := r.Open(t.Context(), ann, inSession(s.ID))
			if expectedInRace(t, "Open", err); err == nil {
				if _, err := wk.Close(t.Context()); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			if rnd.IntN(2) == 0 {
				_, err := r.End(t.Context(), ann, s.ID)
				expectedInRace(t, "End", err)
			}
			if rnd.IntN(4) == 0 {
				if _, err := r.Reclaim(t.Context(), session.ReclaimOptions{Limit: 5}); err != nil {
					return fmt.Errorf("reclaim: %w", err)
				}
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}

	whole := session.PurgeTarget{Project: "p", History: true}
	if rep, err := both[0].Purge(t.Context(), whole, session.PurgeOptions{}); err != nil || !rep.Done {
		t.Errorf("the last purge: %+v, %v", rep, err)
	}
	if left, err := db.Sessions().Owned(t.Context(), whole, 100); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for due := 1; due > 0; <-tick.C {
		rep, err := both[1].Reclaim(t.Context(), session.ReclaimOptions{})
		if err != nil || rep.Failed > 0 {
			t.Fatalf("Reclaim: %+v, %v", rep, err)
		}
		due = len(rep.Items)
	}
	if all := boxes.Machines(); len(all) > 0 {
		t.Errorf("%d machines live: %+v", len(all), all)
	}
}
