package postgres_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// hosted returns a database with a table of the host's own, and begins a
// transaction in which the host has written a row of it.
func hosted(t *testing.T) (*postgres.DB, *sql.Tx) {
	t.Helper()
	db := migrated(t)
	run(t, db, "CREATE TABLE orders (n integer)")
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

// A write that is refused inside the host's transaction, or that the database
// itself refuses, leaves no trace in it, and the transaction goes on.
func TestRefusedInHostTransaction(t *testing.T) {
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
		{"limit", new(session.LimitError), func(c *session.Change, _ session.Change) {
			c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: 1}}
		}},
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
		{"a text that Postgres can't hold", nil, func(c *session.Change, _ session.Change) { c.Conversation.Title = "a\x00b" }},
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

// A transaction that goes on seeing what was there when it began can't count
// and can't learn what is taken: writes in it are refused, reads are not.
func TestIsolation(t *testing.T) {
	db := migrated(t)
	for level, ok := range map[sql.IsolationLevel]bool{
		sql.LevelDefault: true, sql.LevelReadCommitted: true, sql.LevelRepeatableRead: false, sql.LevelSerializable: false,
	} {
		tx, err := db.SQL().BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Fatal(err)
		}
		c := spawn("p")
		_, err = db.In(tx).Sessions().Commit(t.Context(), c)
		if e, refused := errors.AsType[*access.FieldError](err); (err == nil) != ok || refused == ok || refused && e.Field != "tx" {
			t.Errorf("%v: got %v", level, err)
		}
		if _, err := db.In(tx).Sessions().List(t.Context(), session.ListQuery{Project: "p", Limit: 5}); err != nil {
			t.Errorf("%v: List: %v", level, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	// Ours are what they must be whatever the database's default.
	run(t, db, "SET default_transaction_isolation = 'serializable'")
	db.SQL().SetMaxOpenConns(1)
	commit(t, db.Sessions(), spawn("p"))
}

// A host transaction may hold the pool's only connection, and goroutines may share it.
func TestHostTransactionOnOneConnection(t *testing.T) {
	db := migrated(t)
	db.SQL().SetMaxOpenConns(1)
	for range 3 {
		commit(t, db.Sessions(), spawn("p")) // statements become prepared
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := db.In(tx).Sessions()
		taken := session.ConversationID(id.New())
		errs := atOnce(8, func(int) error {
			c := spawn("p")
			c.Conversation.ID = taken
			_, err := in.Commit(t.Context(), c)
			return err
		})
		written := 0
		for _, err := range errs {
			if err == nil {
				written++
			} else if !errors.Is(err, session.ErrExists) {
				t.Errorf("got %v", err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		got := load(t, db.Sessions(), session.Address{Conversation: taken})
		if written != 1 || got.Session.ID == "" {
			t.Errorf("%d were written: %+v", written, got)
		}
	}
}
