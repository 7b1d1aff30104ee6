package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/migrate"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/session"
)

// schemaError is the SchemaError that CheckSchema must answer with.
func schemaError(t *testing.T, db *sqlite.DB) *sqlite.SchemaError {
	t.Helper()
	e, ok := errors.AsType[*sqlite.SchemaError](db.CheckSchema(t.Context()))
	if !ok {
		t.Fatalf("CheckSchema: got %v, want a SchemaError", db.CheckSchema(t.Context()))
	}
	return e
}

// latest is the version of the schema: how many migrations there are.
func latest(t *testing.T) int {
	t.Helper()
	files, err := fs.ReadDir(sqlstore.Migrations("sqlite"), ".")
	if err != nil || len(files) < 2 {
		t.Fatalf("migrations %v, %v", files, err)
	}
	return len(files)
}

// A database without the schema says what it has and what is wanted; after
// Migrate, once or again, it is as it should be, and its rows are still there.
func TestMigrate(t *testing.T) {
	db := empty(t, nil)
	if e := schemaError(t, db); e.Found != 0 || e.Wanted != latest(t) || !strings.Contains(e.Error(), fmt.Sprintf("version 0, wanted %d", latest(t))) {
		t.Errorf("got %+v: %v", e, e)
	}
	for range 3 {
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.CheckSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		commit(t, db.Sessions(), spawn("p"))
	}
	if n := count(t, db, "SELECT count(*) FROM bunkroom_sessions"); n != 3 {
		t.Errorf("%d sessions, want 3", n)
	}
}

// Whatever somebody removed is named, above all the trigger, which a table
// that was made anew silently lacks. (T-32, S-39)
func TestCheckSchemaNamesWhatIsMissing(t *testing.T) {
	var all []string
	for _, name := range objects(t, migrated(t, nil).SQL(), "bunkroom_") {
		all = append(all, "bunkroom_"+name)
	}
	if len(all) < 20 || !slices.Contains(all, "bunkroom_sandboxes_bury") {
		t.Fatalf("the schema has only %v", all)
	}
	for _, name := range all {
		db := migrated(t, nil)
		var kind string
		if err := db.SQL().QueryRowContext(t.Context(), "SELECT type FROM sqlite_schema WHERE name = ?", name).Scan(&kind); err != nil {
			t.Fatal(err)
		}
		run(t, db, "PRAGMA foreign_keys = 0; DROP "+kind+" "+name)
		e := schemaError(t, db)
		if kind == "view" { // without it nobody can tell the version
			if e.Found != 0 {
				t.Errorf("without %s: got %+v", name, e)
			}
			continue
		}
		if !slices.Contains(e.Missing, kind+" "+name) || e.Found != latest(t) || !strings.Contains(e.Error(), name) || kind != "table" && len(e.Missing) != 1 {
			t.Errorf("without %s: got %+v: %v", name, e, e)
		}
	}
	db := migrated(t, nil)
	run(t, db, "CREATE TABLE keep AS SELECT * FROM bunkroom_sandboxes; DROP TABLE bunkroom_sandboxes; ALTER TABLE keep RENAME TO bunkroom_sandboxes")
	if e := schemaError(t, db); !slices.Contains(e.Missing, "trigger bunkroom_sandboxes_bury") {
		t.Errorf("a table made anew: got %+v", e)
	}
}

// A schema that a later program has migrated will do, and is left alone.
func TestLaterSchemaWillDo(t *testing.T) {
	db := migrated(t, nil)
	later := latest(t) + 1
	run(t, db, fmt.Sprintf("DROP VIEW bunkroom_schema; CREATE VIEW bunkroom_schema AS SELECT %d AS version; DROP INDEX bunkroom_sessions_owner", later))
	if err := errors.Join(db.CheckSchema(t.Context()), db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
		t.Error(err)
	}
	if n := count(t, db, "SELECT version FROM bunkroom_schema"); n != later {
		t.Errorf("version %d, want %d", n, later)
	}
}

// Any number of callers migrate at once; each returns with the schema in place.
func TestMigrateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			db, err := sqlite.Open(t.Context(), path, nil) // a pool each, as processes have
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			defer db.Close()
			if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

// A migration that fails leaves nothing behind, and can be tried again.
func TestMigrateIsAllOrNothing(t *testing.T) {
	db := empty(t, nil)
	run(t, db, "CREATE TABLE bunkroom_outbox (mine INTEGER)") // the host's, in the way
	before := count(t, db, "SELECT count(*) FROM sqlite_schema")
	if err := db.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "bunkroom_outbox") {
		t.Fatalf("got %v, want an error that names the table", err)
	}
	if after := count(t, db, "SELECT count(*) FROM sqlite_schema"); after != before {
		t.Errorf("%d objects in the schema, want %d as before", after, before)
	}
	run(t, db, "DROP TABLE bunkroom_outbox")
	if err := db.Migrate(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := empty(t, nil).Migrate(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: got %v", err)
	}
}

// Two prefixes are two sets of tables in one database.
func TestPrefix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	var stores []*sqlite.DB
	for _, prefix := range []string{"", "a_", "b"} {
		db, err := sqlite.Open(t.Context(), path, &sqlite.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, db)
	}
	c := spawn("p")
	commit(t, stores[1].Sessions(), c)
	for i, db := range stores {
		page, err := db.Sessions().List(t.Context(), session.ListQuery{Project: "p", Limit: 1})
		if err != nil || len(page.Items) != map[int]int{1: 1}[i] {
			t.Errorf("store %d: %+v, %v", i, page.Items, err)
		}
	}
	for _, bad := range []string{"A", "1a", "_a", "a-b", "a b", `a"`, "sqlite_x", "pg_x", "a\n", strings.Repeat("a", 32)} {
		for _, err := range []error{
			second(sqlite.Open(t.Context(), path, &sqlite.Options{Prefix: bad})),
			second(sqlite.Migrations(bad)),
		} {
			if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Prefix" {
				t.Errorf("prefix %q: got %v, want a FieldError of Prefix", bad, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// The migrations are files that another tool can run, with the prefix asked
// for: bun/migrate does, and the result is the same schema.
func TestMigrationsForOtherTools(t *testing.T) {
	files, err := sqlite.Migrations("other_")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(files, "0001_schema.tx.up.sql"); err != nil {
		t.Error(err)
	}
	text, err := fs.ReadFile(files, "0001_schema.tx.up.sql")
	if err != nil || strings.Contains(string(text), "bunkroom_") || !strings.Contains(string(text), "CREATE TABLE other_sessions") {
		t.Errorf("the prefix is not in place: %v", err)
	}

	path := filepath.Join(t.TempDir(), "test.db")
	db, err := sqlite.Open(t.Context(), path, &sqlite.Options{Prefix: "other_"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := migrate.NewMigrations()
	if err := found.Discover(files); err != nil {
		t.Fatal(err)
	}
	m := migrate.NewMigrator(bun.NewDB(db.SQL(), sqlitedialect.New()), found)
	if err := m.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.CheckSchema(t.Context()), db.Migrate(t.Context())); err != nil {
		t.Error(err)
	}
	if got, want := objects(t, db.SQL(), "other_"), objects(t, migrated(t, nil).SQL(), "bunkroom_"); !slices.Equal(got, want) {
		t.Errorf("bun/migrate made %v, Migrate %v", got, want)
	}
}

// objects are the names in a schema that begin with prefix, without it.
func objects(t *testing.T, db *sql.DB, prefix string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE name LIKE ? || '%' ORDER BY name", prefix)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(name, prefix))
	}
	return names
}
