package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/pgtest"
	"github.com/bunkroom/bunkroom/session/sessiontest"
)

var (
	server  pgtest.Server
	schemas atomic.Int64 // how many there have been
)

// superuser has a connection that all tests share.
var superuser struct {
	once sync.Once
	db   *sql.DB
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// admin runs statements as the superuser, outside of any test's schema.
func admin(t testing.TB, statements ...string) {
	t.Helper()
	dsn := server.DSN(t)
	superuser.once.Do(func() { superuser.db, superuser.err = sql.Open("pgx", dsn) })
	if superuser.err != nil {
		t.Fatal(superuser.err)
	}
	for _, text := range statements {
		if _, err := superuser.db.ExecContext(context.WithoutCancel(t.Context()), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// schema makes a schema, which goes with the server, and returns its name and
// a data source name with it on the search path.
func schema(t testing.TB) (name, dsn string) {
	t.Helper()
	dsn = server.DSN(t)
	name = fmt.Sprintf("test_%d", schemas.Add(1))
	admin(t, "CREATE SCHEMA "+name)
	return name, dsn + " search_path=" + name
}

// opened opens a database, which is closed when the test ends.
func opened(t testing.TB, dsn string, opts *postgres.Options) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), dsn, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// migrated opens a database with the schema in a schema of its own.
func migrated(t testing.TB) *postgres.DB {
	t.Helper()
	_, dsn := schema(t)
	db := opened(t, dsn, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// fresh is migrated on a server whose clock goes with the suite's.
func fresh(t testing.TB, clock *sessiontest.Clock) *postgres.DB {
	t.Helper()
	return shifted(t, clock)[0]
}

// shifted are two replicas on a server whose clock goes with the
// suite's: a function of the same name comes before the server's own on the search path.
func shifted(t testing.TB, clock *sessiontest.Clock) (both [2]*postgres.DB) {
	t.Helper()
	name, dsn := schema(t)
	admin(t, "CREATE TABLE "+name+".shift AS SELECT interval '0' AS by",
		"CREATE FUNCTION "+name+".clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM "+name+".shift'")
	for i := range both {
		both[i] = opened(t, dsn+",pg_catalog", nil)
	}
	if err := both[0].Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.OnStep(func(d time.Duration) {
		admin(t, fmt.Sprintf("UPDATE %s.shift SET by = by + %d * interval '1 microsecond'", name, d.Microseconds()))
	})
	return both
}

func run(t testing.TB, db *postgres.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.SQL().ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// count is the one number that a query answers with.
func count(t testing.TB, db *postgres.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.SQL().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// pool is a host's own pool.
func pool(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { db.Close() })
	return db
}
