package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// hosted returns a database with a table of the host's own, and begins a
// transaction in which the host has written a row of it.
func hosted(t *testing.T) (*sqlite.DB, *sql.Tx) {
	t.Helper()
	db := migrated(t, nil)
	run(t, db, "CREATE TABLE orders (n INTEGER)")
	tx, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // does nothing where the test has ended it
	if _, err := tx.Exec("INSERT INTO orders VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	return db, tx
}

// What is committed inside the host's transaction is seen there at once, by
// others once the host commits, and by nobody if it rolls back.
func TestHostTransaction(t *testing.T) {
	for _, keep := range []bool{true, false} {
		db, tx := hosted(t)
		in := db.In(tx)
		c := spawn("p")
		written := commit(t, in.Sessions(), c)
		if got := load(t, in.Sessions(), session.Address{Session: c.Session.ID}); got.Session != *written.Session {
			t.Errorf("inside: got %+v", got.Session)
		}
		if page, err := in.Sessions().List(t.Context(), session.ListQuery{Project: "p", Limit: 5}); err != nil || len(page.Items) != 1 {
			t.Errorf("List inside: got %+v, %v", page, err)
		}
		lease, err := in.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "n", Holder: "h", For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		row, err := in.Mounts().GetOrCreate(t.Context(), mount.Row{ID: "m", Scope: "s", Slug: "slug", Kind: mount.KindAgent})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("outside, before the host commits: got %v, want ErrNotFound", err)
		}
		end := tx.Rollback
		if keep {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		_, loaded := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID})
		_, renewed := db.Leases().Renew(t.Context(), lease)
		_, found := db.Mounts().Find(t.Context(), row.Scope, row.Slug)
		if (loaded == nil) != keep || (renewed == nil) != keep || (found == nil) != keep || (count(t, db, "SELECT count(*) FROM orders") == 1) != keep {
			t.Errorf("kept %t: Load %v, Renew %v, Find %v", keep, loaded, renewed, found)
		}
	}
}

// A commit that is refused inside the host's transaction leaves no trace in
// it, whatever it had written by then, and the transaction goes on.
func TestRefusedInHostTransaction(t *testing.T) {
	one := func(k session.LimitKind) []session.Limit { return []session.Limit{{Kind: k, Scope: "alice", Max: 1}} }
	for _, refused := range []struct {
		name  string
		want  error
		spoil func(c *session.Change, old session.Change)
	}{
		{"stale guard", session.ErrStale, func(c *session.Change, old session.Change) {
			c.Expect = []session.Guard{{Session: old.Session.ID, Version: 7}}
		}},
		{"an id that is taken", session.ErrExists, func(c *session.Change, old session.Change) { c.Conversation.ID = old.Conversation.ID }},
		{"claimed", session.ErrClaimed, func(c *session.Change, _ session.Change) { c.Sandbox.ID, c.Unclaimed = "gone", "i" }},
		{"limit", new(session.LimitError), func(c *session.Change, _ session.Change) { c.Limits = one(session.SessionsPerOwner) }},
		{"a tombstone that is not there", session.ErrStale, func(c *session.Change, old session.Change) {
			c.Delete = []session.Address{{Session: old.Session.ID}}
			c.Prove = []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: "absent"}}}
		}},
		{"an environment that a session borrows", session.ErrStale, func(c *session.Change, old session.Change) {
			c.Delete = []session.Address{{Session: old.Session.ID}, {Environment: "lent"}}
		}},
		{"an environment that is not there", session.ErrStale, func(c *session.Change, _ session.Change) { c.Session.Environment = "absent" }},
		{"an environment of another version", session.ErrStale, func(c *session.Change, _ session.Change) {
			c.Session.Environment, c.Expect = "lent", []session.Guard{{Environment: "lent", Version: 2}}
		}},
		{"a sandbox that somebody works in", sandbox.ErrWorking, func(c *session.Change, old session.Change) { c.Idle = old.Sandbox.ID }},
		{"a constraint of the schema", nil, func(c *session.Change, _ session.Change) { c.Sandbox.Version = -1 }},
	} {
		t.Run(refused.name, func(t *testing.T) {
			db, tx := hosted(t)
			in := db.In(tx).Sessions()
			old := spawn("p")
			old.Bury = []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: "gone", Generation: 1, Incarnation: "i"}}}
			commit(t, in, old)
			commit(t, in, session.Change{Environment: &session.Environment{ID: "lent", Project: "lender"}})
			commit(t, in, session.Change{Session: &session.Session{ID: "borrower", Owner: "bob", Project: "lender", Environment: "lent"}})
			if _, err := db.In(tx).Leases().Acquire(t.Context(), session.Lease{
				Kind: session.LeaseWork, Name: "w", Holder: "w", Payer: "w", Slots: 1, Sandbox: old.Sandbox.ID, For: time.Minute,
			}); err != nil {
				t.Fatal(err)
			}
			bad := spawn("p")
			refused.spoil(&bad, old)
			_, err := in.Commit(t.Context(), bad)
			limit, isLimit := refused.want.(*session.LimitError)
			switch {
			case isLimit && !errors.As(err, &limit), !isLimit && refused.want != nil && !errors.Is(err, refused.want), err == nil:
				t.Fatalf("got %v, want %v", err, refused.want)
			}
			good := spawn("p")
			commit(t, in, good)
			if err := tx.Commit(); err != nil {
				t.Fatalf("the host's commit: %v", err)
			}
			page, err := db.Sessions().List(t.Context(), session.ListQuery{Project: "p", Limit: 10})
			if err != nil || len(page.Items) != 2 || page.Items[0].Session.ID != good.Session.ID || page.Items[1].Session.ID != old.Session.ID {
				t.Errorf("got %+v, %v, want what was not refused", page.Items, err)
			}
			if n := count(t, db, "SELECT count(*) FROM orders"); n != 1 {
				t.Errorf("the host's row: %d", n)
			}
		})
	}
}

// A host transaction may hold the pool's only connection.
func TestHostTransactionOnOneConnection(t *testing.T) {
	db := migrated(t, nil)
	db.SQL().SetMaxOpenConns(1)
	for range 3 {
		commit(t, db.Sessions(), spawn("p")) // statements become prepared
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := spawn("p")
		commit(t, db.In(tx).Sessions(), c)
		load(t, db.In(tx).Sessions(), session.Address{Conversation: c.Conversation.ID})
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		load(t, db.Sessions(), session.Address{Conversation: c.Conversation.ID})
	}
}

// Once the host has ended its transaction, its stores answer with the
// database's error and write nothing.
func TestEndedHostTransaction(t *testing.T) {
	db, tx := hosted(t)
	in := db.In(tx)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	c := spawn("p")
	if _, err := in.Sessions().Commit(t.Context(), c); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("Commit: got %v, want sql.ErrTxDone", err)
	}
	if _, err := in.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID}); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("Load: got %v, want sql.ErrTxDone", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.Sessions().Commit(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit with an ended context: got %v", err)
	}
}

// The limit of a payer's machines counts what the same host transaction wrote,
// and a limit and its count are of one kind each. (T-28)
func TestLimitsCountTheirOwn(t *testing.T) {
	db := migrated(t, nil)
	tx, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	in := db.In(tx).Sessions()
	open := func(state sandbox.State, end bool, limits ...session.Limit) error {
		c := spawn("")
		c.End, c.Limits = end, limits
		c.Sandbox.State, c.Sandbox.Payer = state, "payer"
		_, err := in.Commit(t.Context(), c)
		return err
	}
	sessions := func(most int) session.Limit {
		return session.Limit{Kind: session.SessionsPerOwner, Scope: "alice", Max: most}
	}
	machines := func(most int) session.Limit {
		return session.Limit{Kind: session.MachinesPerPayer, Scope: "payer", Max: most}
	}
	for i, step := range []struct {
		state   sandbox.State
		end     bool
		limit   session.Limit
		refused bool
	}{
		{sandbox.Live, true, sessions(0), false},       // ended: not open, but it has a machine
		{sandbox.None, false, machines(1), false},      // open, without a machine
		{sandbox.Creating, false, machines(1), true},   // the second machine
		{sandbox.Creating, false, machines(2), false},  //
		{sandbox.Lost, false, machines(2), false},      // lost is none
		{sandbox.Destroying, true, machines(2), true},  // destroying is one still
		{sandbox.Destroying, true, machines(3), false}, //
		{sandbox.None, false, sessions(3), true},       // three are open by now
		{sandbox.None, false, sessions(4), false},      //
	} {
		err := open(step.state, step.end, step.limit)
		limit, refused := errors.AsType[*session.LimitError](err)
		if err != nil && !refused || refused != step.refused || refused && (limit.Kind != step.limit.Kind || limit.Max != step.limit.Max) {
			t.Errorf("step %d: got %v, want refused %t", i, err, step.refused)
		}
	}
	for _, k := range []session.LimitKind{0, session.SlotsPerPayer, 99} {
		if err := open(sandbox.None, false, session.Limit{Kind: k, Max: 1000}); !errors.As(err, new(*access.FieldError)) {
			t.Errorf("limit kind %d: got %v, want a FieldError", k, err)
		}
	}
}
