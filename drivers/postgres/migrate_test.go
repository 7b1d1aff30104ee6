package postgres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/migrate"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session"
)

// schemaError is the SchemaError that err must be.
func schemaError(t *testing.T, err error) *postgres.SchemaError {
	t.Helper()
	e, ok := errors.AsType[*postgres.SchemaError](err)
	if !ok {
		t.Fatalf("got %v, want a SchemaError", err)
	}
	return e
}

// latest is the version of the schema: how many migrations there are.
func latest(t *testing.T) int {
	t.Helper()
	files, err := postgres.Migrations("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := fs.ReadDir(files, ".")
	if err != nil || len(all) < 2 {
		t.Fatalf("migrations %v, %v", all, err)
	}
	return len(all)
}

// A database without the schema says what it has and what is wanted, and so
// does whatever is asked of it; after Migrate, once or again, it is as it
// should be, and its rows are still there.
func TestMigrate(t *testing.T) {
	_, dsn := schema(t)
	db := opened(t, dsn, nil)
	_, loading := db.Sessions().Load(t.Context(), session.Address{Session: "s"})
	_, committing := db.Sessions().Commit(t.Context(), spawn("p"))
	_, listing := db.Sessions().List(t.Context(), session.ListQuery{Project: "p", Limit: 1})
	for _, err := range []error{db.CheckSchema(t.Context()), loading, committing, listing} {
		if e := schemaError(t, err); e.Found != 0 || e.Wanted != latest(t) || !strings.Contains(e.Error(), "migrate it first") {
			t.Errorf("got %+v: %v", e, e)
		}
	}
	for range 3 {
		if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
			t.Fatal(err)
		}
		commit(t, db.Sessions(), spawn("p"))
	}
	if n := count(t, db, "SELECT count(*) FROM bunkroom_sessions"); n != 3 {
		t.Errorf("%d sessions, want 3", n)
	}
}

// Ten replicas migrate at once, one of them the new version's first; each
// returns with the schema in place. (S-39)
func TestMigrateAtOnce(t *testing.T) {
	_, dsn := schema(t)
	var dbs []*postgres.DB
	for range 10 {
		dbs = append(dbs, opened(t, dsn, nil))
	}
	for i, err := range atOnce(len(dbs), func(i int) error {
		return errors.Join(dbs[i].Migrate(t.Context()), dbs[i].CheckSchema(t.Context()))
	}) {
		if err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
}

// Whatever somebody removed or switched off is named, above all the trigger. (T-32, S-39)
func TestCheckSchemaNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ spoil, missing string }{
		{"DROP TRIGGER bunkroom_sandboxes_bury ON bunkroom_sandboxes", "trigger bunkroom_sandboxes_bury"},
		{"ALTER TABLE bunkroom_sandboxes DISABLE TRIGGER bunkroom_sandboxes_bury", "trigger bunkroom_sandboxes_bury"},
		{"ALTER TABLE bunkroom_sandboxes ENABLE REPLICA TRIGGER bunkroom_sandboxes_bury", "trigger bunkroom_sandboxes_bury"},
		{"DROP FUNCTION bunkroom_bury CASCADE", "function bunkroom_bury"},
		{"DROP TABLE bunkroom_sandboxes; CREATE TABLE bunkroom_sandboxes (id text)", "trigger bunkroom_sandboxes_bury"},
		{"ALTER TABLE bunkroom_outbox DISABLE TRIGGER bunkroom_outbox_keep", "trigger bunkroom_outbox_keep"},
		{"DROP INDEX bunkroom_leases_single", "index bunkroom_leases_single"},
		{"DROP TABLE bunkroom_mounts", "table bunkroom_mounts"},
	} {
		db := migrated(t)
		for _, text := range strings.Split(c.spoil, ";") {
			run(t, db, text)
		}
		if e := schemaError(t, db.CheckSchema(t.Context())); e.Found != latest(t) || !slices.Contains(e.Missing, c.missing) || !strings.Contains(e.Error(), c.missing) {
			t.Errorf("%s: got %+v: %v", c.spoil, e, e)
		}
	}
	db := migrated(t)
	run(t, db, "DROP VIEW bunkroom_schema") // without it nobody can tell the version
	if e := schemaError(t, db.CheckSchema(t.Context())); e.Found != 0 {
		t.Errorf("without the view: got %+v", e)
	}
}

// A schema that a later program has migrated will do, and is left alone.
func TestLaterSchemaWillDo(t *testing.T) {
	db := migrated(t)
	later := latest(t) + 1
	run(t, db, fmt.Sprintf("CREATE OR REPLACE VIEW bunkroom_schema AS SELECT %d AS version", later))
	run(t, db, "DROP INDEX bunkroom_sessions_owner")
	if err := errors.Join(db.CheckSchema(t.Context()), db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
		t.Error(err)
	}
	if n := count(t, db, "SELECT version FROM bunkroom_schema"); n != later {
		t.Errorf("version %d, want %d", n, later)
	}
}

// A migration that fails leaves nothing behind, and can be tried again.
func TestMigrateIsAllOrNothing(t *testing.T) {
	_, dsn := schema(t)
	db := opened(t, dsn, nil)
	run(t, db, "CREATE TABLE bunkroom_outbox (mine integer)") // the host's, in the way
	if err := db.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "bunkroom_outbox") {
		t.Fatalf("got %v, want an error that names the table", err)
	}
	if n := count(t, db, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"); n != 1 {
		t.Errorf("%d relations, want the host's", n)
	}
	run(t, db, "DROP TABLE bunkroom_outbox")
	if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// Two prefixes are two sets of tables in one schema, each with a trigger of its own.
func TestPrefix(t *testing.T) {
	_, dsn := schema(t)
	var stores []*postgres.DB
	for _, prefix := range []string{"", "a_", "b"} {
		db := opened(t, dsn, &postgres.Options{Prefix: prefix})
		if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, db)
	}
	c := spawn("p")
	c.Sandbox.State = 1
	commit(t, stores[1].Sessions(), c)
	commit(t, stores[1].Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	for i, db := range stores {
		if n := len(outbox(t, db.Sessions())); n != map[int]int{1: 1}[i] {
			t.Errorf("store %d: %d tombstones", i, n)
		}
	}
	for _, bad := range []string{"A", "1a", "_a", "a-b", `a"`, "pg_x", strings.Repeat("a", 32)} {
		_, opening := postgres.Open(t.Context(), dsn, &postgres.Options{Prefix: bad})
		_, reading := postgres.Migrations(bad)
		for _, err := range []error{opening, reading} {
			if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Prefix" {
				t.Errorf("prefix %q: got %v, want a FieldError of Prefix", bad, err)
			}
		}
	}
}

// The migrations are files that another tool can run, with the prefix asked
// for: bun/migrate does, and the result is the same schema.
func TestMigrationsForOtherTools(t *testing.T) {
	files, err := postgres.Migrations("other_")
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(files, "0001_schema.tx.up.sql")
	if err != nil || strings.Contains(string(text), "bunkroom_") || !strings.Contains(string(text), "CREATE TABLE other_sessions") {
		t.Errorf("the prefix is not in place: %v", err)
	}
	_, dsn := schema(t)
	db := opened(t, dsn, &postgres.Options{Prefix: "other_"})
	found := migrate.NewMigrations()
	if err := found.Discover(files); err != nil {
		t.Fatal(err)
	}
	m := migrate.NewMigrator(bun.NewDB(db.SQL(), pgdialect.New()), found)
	if err := m.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.CheckSchema(t.Context()), db.Migrate(t.Context())); err != nil {
		t.Error(err)
	}
}

// The schema itself makes impossible what no code should write.
func TestSchemaRules(t *testing.T) {
	db := migrated(t)
	c, other := spawn("p1"), spawn("p2")
	other.Sandbox = nil
	commit(t, db.Sessions(), c)
	commit(t, db.Sessions(), other)
	sid, oid := string(c.Session.ID), string(other.Session.ID)
	const conversation = `INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, created_at, last_active_at) VALUES ($1, $2, $3, $4, 'o', 1, 1)`
	const sandbox = `INSERT INTO bunkroom_sandboxes (id, version, session_id, environment_id, state, since) VALUES ($1, $2, $3, $4, $5, 1)`
	const lease = `INSERT INTO bunkroom_leases (kind, name, holder, fence, until_at) VALUES ($1, $2, $3, 1, 1)`
	run(t, db, lease, 2, "sweep", "a")
	run(t, db, lease, 1, "work", "a") // of work there may be several
	run(t, db, lease, 1, "work", "b")
	for n, bad := range []struct {
		rule string
		text string
		args []any
	}{
		{"an edge into a session of another project", conversation, []any{"c1", sid, "p2", "p2"}},
		{"an edge that hides the session's project", conversation, []any{"c2", sid, "p1", "p2"}},
		{"an edge without the session's project", conversation, []any{"c3", sid, nil, "p1"}},
		{"a project without an edge", conversation, []any{"c4", nil, "p1", "p1"}},
		{"an edge to nothing", conversation, []any{"c5", "absent", "p1", "p1"}},
		{"a second sandbox of a session", sandbox, []any{"b1", 1, sid, nil, "none"}},
		{"a sandbox of nobody", sandbox, []any{"b2", 1, nil, nil, "none"}},
		{"a sandbox of a session and an environment", sandbox, []any{"b3", 1, oid, "e1", "none"}},
		{"a sandbox of a session that is not there", sandbox, []any{"b4", 1, "absent", nil, "none"}},
		{"an unknown state", sandbox, []any{"b5", 1, oid, nil, "asleep"}},
		{"a version of 0", sandbox, []any{"b6", 0, oid, nil, "none"}},
		{"a second holder of a sweep", lease, []any{2, "sweep", "b"}},
	} {
		if _, err := db.SQL().ExecContext(t.Context(), bad.text, bad.args...); err == nil || !strings.Contains(err.Error(), "constraint") {
			t.Errorf("%d, %s: got %v, want a constraint that refuses it", n, bad.rule, err)
		}
	}
}

// No column of sessions or sandboxes names a conversation or an agent. (S-01)
func TestNoColumnNamesAConversationOrAgent(t *testing.T) {
	db := migrated(t)
	for _, word := range []string{"conversation", "agent", "thread", "chat", "page"} {
		n := count(t, db, `SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema()
			AND table_name IN ('bunkroom_sessions', 'bunkroom_sandboxes') AND column_name LIKE '%' || $1 || '%'`, word)
		if n != 0 {
			t.Error(fmt.Sprint(n, " columns name a ", word))
		}
	}
}
