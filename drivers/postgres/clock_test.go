package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Replicas whose clocks are hours apart agree on everything, since none of
// them is asked: it is the server's that dates rows and ends leases. (T-58)
func TestSkewedReplicas(t *testing.T) {
	_, dsn := schema(t)
	opened(t, dsn, nil) // the server can serve
	var skewed [2]*sqlstore.DB
	for i, by := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		db, err := sqlstore.New(sqlstore.Config{DB: pool(t, dsn), Dialect: postgres.Dialect(), Now: func() time.Time {
			t.Errorf("replica %d asked its own clock", i)
			return time.Now().Add(by)
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		skewed[i] = db
	}
	slow, fast := skewed[0], skewed[1]

	lease, err := slow.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "slow", For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fast.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "fast", For: time.Minute}); !errors.As(err, new(*session.HeldError)) {
		t.Errorf("the fast replica got %v, want a HeldError", err)
	}
	if _, err := slow.Leases().Renew(t.Context(), lease); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if expired, err := fast.Leases().Expired(t.Context(), 5); err != nil || len(expired) > 0 {
		t.Errorf("Expired: %v, %v", expired, err)
	}

	c := spawn("p")
	c.Sandbox.State, c.Stamps = sandbox.Creating, sandbox.Stamps{Deadline: time.Hour}
	c = commit(t, slow.Sessions(), c)
	for _, err := range fast.Sessions().Due(t.Context(), session.DueQuery{Kinds: session.DueCreating, Limit: 5}) {
		t.Errorf("due an hour early: %v", err)
	}
	last := c.Session.LastActiveAt
	for _, db := range []*sqlstore.DB{fast, slow, fast} {
		if err := db.Sessions().Touch(t.Context(), session.Address{Session: c.Session.ID}); err != nil {
			t.Fatal(err)
		}
		got := load(t, db.Sessions(), session.Address{Session: c.Session.ID})
		if at := got.Session.LastActiveAt; at.Before(last) || at.Sub(last) > time.Hour || got.Now.Before(at) {
			t.Errorf("touched at %v, after %v; it is %v", at, last, got.Now)
		}
		last = got.Session.LastActiveAt
	}
	for _, db := range skewed {
		if _, err := db.Mounts().GetOrCreate(t.Context(), mount.Row{ID: "m", Scope: "s", Slug: "slug", Kind: mount.KindAgent}); err != nil {
			t.Error(err)
		}
	}
}
