package sqlstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// remade is a further migration that makes the table of sandboxes anew, as one
// must: DELETE first, so that the trigger fires, then drop, create, re-arm.
const remade = `DELETE FROM bunkroom_sandboxes;
--bun:split
DROP TABLE bunkroom_sandboxes;
--bun:split
CREATE TABLE bunkroom_sandboxes (id TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL);
--bun:split
CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN OLD.state <> 'none'
BEGIN
    INSERT INTO bunkroom_outbox (sandbox_id, generation, name, provider, payer, deployment, since) VALUES (OLD.id, 0, '', '', '', '', 0);
END;
--bun:split
DROP INDEX bunkroom_sessions_owner;
--bun:split
DROP VIEW bunkroom_schema;
--bun:split
CREATE VIEW bunkroom_schema AS SELECT NEXT AS version;
`

// upgraded is a store on db that wants the present schema and then next.
func upgraded(t *testing.T, db *sqlstore.Config, next string) *sqlstore.DB {
	t.Helper()
	version := latest(t) + 1
	all := fstest.MapFS{fmt.Sprintf("%04d_remade.tx.up.sql", version): {Data: []byte(strings.Replace(next, "NEXT", strconv.Itoa(version), 1))}}
	files, err := fs.ReadDir(sqlstore.Migrations("sqlite"), ".")
	for _, f := range files {
		text, fault := fs.ReadFile(sqlstore.Migrations("sqlite"), f.Name())
		all[f.Name()], err = &fstest.MapFile{Data: text}, errors.Join(err, fault)
	}
	if err != nil {
		t.Fatal(err)
	}
	db.Dialect = sqlstore.Dialect{
		Bun: sqlitedialect.New(), Text: strings.Clone, Begin: []string{"BEGIN IMMEDIATE"}, Lock: "DELETE FROM bunkroom_fences WHERE 0",
		Objects:    "SELECT type, name FROM sqlite_schema",
		RolledBack: func(error) bool { return false },
		Migrations: all,
	}
	s, err := sqlstore.New(*db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A migration that makes the sandboxes anew buries what may be alive, on a
// fresh database and on one at the previous version with machines in every
// state, and the new table has its trigger. (S-39, T-32)
func TestUpgradeBuriesAndReArms(t *testing.T) {
	db := migrated(t, nil)
	for state := sandbox.None; state <= sandbox.Destroying; state++ {
		c := spawn("p")
		c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation, c.Sandbox.Name = state, 1, "i", state.String()
		commit(t, db.Sessions(), c)
	}
	later := upgraded(t, &sqlstore.Config{DB: db.SQL()}, remade)
	if e, ok := errors.AsType[*sqlstore.SchemaError](later.CheckSchema(t.Context())); !ok || e.Found != latest(t) || e.Wanted != latest(t)+1 {
		t.Errorf("before: got %v", e)
	}
	if err := errors.Join(later.Migrate(t.Context()), later.CheckSchema(t.Context())); err != nil {
		t.Fatal(err)
	}
	var buried []string
	rows, err := db.SQL().QueryContext(t.Context(), "SELECT name FROM bunkroom_outbox ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		buried = append(buried, name)
	}
	if want := []string{"creating", "destroying", "live", "lost"}; !slices.Equal(buried, want) {
		t.Errorf("buried %v, want %v", buried, want)
	}
	run(t, db, "INSERT INTO bunkroom_sandboxes VALUES ('new', 'live'); DELETE FROM bunkroom_sandboxes")
	if n := count(t, db, "SELECT count(*) FROM bunkroom_outbox WHERE sandbox_id = 'new'"); n != 1 {
		t.Errorf("the new table's trigger buried %d, want 1", n)
	}

	fresh := upgraded(t, &sqlstore.Config{DB: empty(t, nil).SQL()}, remade)
	if err := errors.Join(fresh.Migrate(t.Context()), fresh.CheckSchema(t.Context())); err != nil {
		t.Error(err)
	}
}

// A migration that fails leaves the version before it as it is, with its rows.
func TestFailedUpgrade(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	commit(t, db.Sessions(), c)
	later := upgraded(t, &sqlstore.Config{DB: db.SQL()}, remade+"--bun:split\nCREATE TABEL typo;\n")
	if err := later.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "_remade") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if err := db.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if got := load(t, db.Sessions(), session.Address{Session: c.Session.ID}); got.Sandbox.ID != c.Sandbox.ID {
		t.Errorf("got %+v", got.Sandbox)
	}
	// The connection that failed went back without its transaction.
	commit(t, db.Sessions(), spawn("p"))
}
