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

// spare are schemas that tests are done with. They are used again: to make one takes
// a hundred times as long as to empty one.
var spare struct {
	sync.Mutex
	names []string
}

// emptied returns the name of a schema with all tables and no rows, and a data source name with it on
// the search path. In it is a function of the name of the server's clock, and a table of how far that is ahead.
func emptied(t testing.TB) (name, dsn string) {
	t.Helper()
	spare.Lock()
	if n := len(spare.names); n > 0 {
		name, spare.names = spare.names[n-1], spare.names[:n-1]
	}
	spare.Unlock()
	if name == "" {
		name, dsn = schema(t)
		admin(t, "CREATE TABLE "+name+".shift AS SELECT interval '0' AS by",
			"CREATE FUNCTION "+name+".clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM "+name+".shift'")
		db := opened(t, dsn, nil)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
	t.Cleanup(func() { // after whoever has opened it has closed it
		if t.Failed() { // what is in it may be wanted, and something may hold on to it
			return
		}
		empty(t, name)
		spare.Lock()
		defer spare.Unlock()
		spare.names = append(spare.names, name)
	})
	return name, server.DSN(t) + " search_path=" + name
}

// empty takes all rows out of a schema's tables, whatever refers to them.
func empty(t testing.TB, name string) {
	t.Helper()
	var tables []string
	rows, err := superuser.db.QueryContext(context.WithoutCancel(t.Context()),
		"SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename NOT LIKE '%migration%' AND tablename <> 'shift'", name)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if err := rows.Err(); err != nil || len(tables) == 0 {
		t.Fatalf("%d tables in %s: %v", len(tables), name, err)
	}
	text := "BEGIN; SET LOCAL session_replication_role = replica;"
	for _, table := range tables {
		text += fmt.Sprintf(" DELETE FROM %s.%s;", name, table)
	}
	text += " UPDATE " + name + ".shift SET by = '0'; COMMIT"
	if _, err := superuser.db.ExecContext(context.WithoutCancel(t.Context()), text, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("emptying %s: %v", name, err)
	}
}

// migrated opens a database with the schema in a schema of its own, whose tables the test may change.
func migrated(t testing.TB) *postgres.DB {
	t.Helper()
	_, dsn := schema(t)
	db := opened(t, dsn, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// fresh is a database with the schema and no rows, on a server whose clock goes with the suite's.
func fresh(t testing.TB, clock *sessiontest.Clock) *postgres.DB {
	t.Helper()
	return shifted(t, clock)[0]
}

// shifted are two replicas on a server whose clock goes with the
// suite's: a function of the same name comes before the server's own on the search path.
func shifted(t testing.TB, clock *sessiontest.Clock) (both [2]*postgres.DB) {
	t.Helper()
	name, dsn := emptied(t)
	for i := range both {
		both[i] = opened(t, dsn+",pg_catalog", nil)
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
