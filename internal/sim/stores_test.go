package sim

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/pgtest"
	"github.com/bunkroom/bunkroom/session"
)

// stores open each kind of store; what can't be done in a bubble is done first.
var stores = map[string]func(*testing.T) opener{
	"memory":   func(*testing.T) opener { return inMemory },
	"sqlite":   func(*testing.T) opener { return inSQLite },
	"postgres": inPostgres,
}

var server pgtest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

func inSQLite(t *testing.T, now func() time.Time) base {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sim.db"), &sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return base{
		store: db.Sessions(), leases: db.Leases(), ledger: db.Ledger(),
		host: riding(db.SQL(), func(tx *sql.Tx) session.Store { return db.In(tx).Sessions() }),
	}
}

// riding does something in a transaction of the host's, which is kept or rolled back.
func riding(db *sql.DB, in func(*sql.Tx) session.Store) func(context.Context, bool, func(session.Store) error) error {
	return func(ctx context.Context, keep bool, do func(session.Store) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		switch err := do(in(tx)); {
		case err != nil:
			return err
		case keep:
			return tx.Commit()
		}
		return tx.Rollback()
	}
}

// inPostgres makes a schema, in which a function with the name of the server's
// clock comes first on the search path and shows what it was last told: the
// time in the bubble. Each schedule empties the tables, and tells the time before each call.
func inPostgres(t *testing.T) opener {
	t.Helper()
	dsn := server.DSN(t)
	schema := fmt.Sprintf("sim_%d", time.Now().UnixNano())
	admin, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, text := range []string{
		"CREATE SCHEMA " + schema,
		"CREATE UNLOGGED TABLE " + schema + ".shown (at timestamptz)",
		"INSERT INTO " + schema + ".shown VALUES ('2000-01-01')",
		"CREATE FUNCTION " + schema + ".clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT at FROM " + schema + ".shown'",
	} {
		if _, err := admin.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	dsn += " search_path=" + schema + ",pg_catalog"
	db, err := postgres.Open(t.Context(), dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, now func() time.Time) base {
		db, err := postgres.Open(t.Context(), dsn, &postgres.Options{Connections: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		for _, text := range []string{
			"SET synchronous_commit = off", "DELETE FROM bunkroom_sandboxes", "DELETE FROM bunkroom_outbox", "DELETE FROM bunkroom_conversations",
			"DELETE FROM bunkroom_sessions", "DELETE FROM bunkroom_environments", "DELETE FROM bunkroom_leases", "DELETE FROM bunkroom_fences", "DELETE FROM bunkroom_forgotten",
			"DELETE FROM bunkroom_postings", "DELETE FROM bunkroom_entries", "DELETE FROM bunkroom_marks", "DELETE FROM bunkroom_holds",
			"DELETE FROM bunkroom_grants", "DELETE FROM bunkroom_accounts",
		} {
			if _, err := db.SQL().ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		tell := func(ctx context.Context) {
			if _, err := db.SQL().ExecContext(ctx, "UPDATE shown SET at = $1", now()); err != nil {
				t.Errorf("telling the time: %v", err)
			}
		}
		ride := riding(db.SQL(), func(tx *sql.Tx) session.Store { return db.In(tx).Sessions() })
		return base{
			store: toldStore{db.Sessions(), tell}, leases: toldLeases{db.Leases(), tell}, ledger: toldLedger{db.Ledger(), tell},
			host: func(ctx context.Context, keep bool, do func(session.Store) error) error {
				tell(ctx)
				return ride(ctx, keep, do)
			},
		}
	}
}
