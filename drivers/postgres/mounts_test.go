package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// Two first runs at once get one row also where transactions are serializable
// unless they say otherwise: there the loser of the race is told of it, and asks once more. (Mounts trap 5)
func TestMountsOfASerializableDatabase(t *testing.T) {
	for _, level := range []string{`repeatable\ read`, "serializable"} {
		_, dsn := schema(t)
		db := opened(t, dsn+" options='-c default_transaction_isolation="+strings.ReplaceAll(level, `\`, `\\`)+"'", nil)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for round := range 20 {
			var all sync.WaitGroup
			ids := make([]mount.ID, 16)
			for i := range ids {
				all.Go(func() {
					row, err := db.Mounts().GetOrCreate(t.Context(), mount.Row{
						ID: mount.ID(id.New()), Scope: "project:p", Slug: fmt.Sprint("slug ", round), Kind: mount.KindAgent, Agent: "a", CreatedBy: "ana",
					})
					if err != nil {
						t.Errorf("%s: %v", level, err)
					}
					ids[i] = row.ID
				})
			}
			all.Wait()
			for _, id := range ids {
				if id != ids[0] {
					t.Errorf("%s: one got %s, another %s", level, ids[0], id)
				}
			}
		}
	}
}

// A deleted mount leaves a tombstone, whoever deletes it and however, and
// neither table can be emptied past that.
func TestDeletedMountsLeaveTombstones(t *testing.T) {
	name, dsn := schema(t)
	db := opened(t, dsn, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []mount.ID{"m1", "m2"} {
		if _, err := db.Mounts().GetOrCreate(t.Context(), mount.Row{ID: id, Scope: "user:ana", Slug: string(id), Kind: mount.KindSession, Session: "s1"}); err != nil {
			t.Fatal(err)
		}
	}
	role := name + "_clerk"
	run(t, db, "CREATE ROLE "+role)
	t.Cleanup(func() {
		for _, text := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := db.SQL().Exec(text); err != nil {
				t.Error(err)
			}
		}
	})
	run(t, db, "GRANT USAGE ON SCHEMA "+name+" TO "+role)
	run(t, db, "GRANT SELECT, DELETE ON bunkroom_mounts TO "+role)
	conn, err := db.SQL().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	as := func(text string) error {
		_, err := conn.ExecContext(t.Context(), text)
		return err
	}
	if err := errors.Join(as("SET ROLE "+role), as("DELETE FROM bunkroom_mounts WHERE id = 'm1'")); err != nil {
		t.Errorf("a clerk who may delete: %v", err)
	}
	if err := as("DELETE FROM bunkroom_mount_tombstones"); err == nil {
		t.Error("the clerk may write to the tombstones")
	}
	if err := as("CREATE TEMPORARY TABLE mine (id text)"); err != nil {
		t.Fatal(err)
	}
	if err := as("CREATE TRIGGER mine AFTER DELETE ON mine FOR EACH ROW EXECUTE FUNCTION " + name + ".bunkroom_bury_mount()"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("the trigger on a table of the clerk's: %v, want it refused", err)
	}
	if err := as("RESET ROLE"); err != nil {
		t.Error(err)
	}
	for _, table := range []string{"bunkroom_mounts", "bunkroom_mount_tombstones"} {
		if err := as("TRUNCATE " + table); err == nil || !strings.Contains(err.Error(), "must not be truncated") {
			t.Errorf("TRUNCATE %s: got %v", table, err)
		}
	}
	left, err := db.Mounts().Tombstones(t.Context(), mount.Target{}, "", 10)
	if want := (mount.Tombstone{ID: "m1", Scope: "user:ana", Session: "s1"}); err != nil || len(left) != 1 || left[0] != want {
		t.Errorf("tombstones %+v, %v; want %+v", left, err, want)
	}
	if _, err := db.Mounts().Get(t.Context(), "m2"); err != nil {
		t.Error(err)
	}
}

// What is asked of mounts is found by indexes in a large database, and to get
// or make one is one statement, without a transaction around it.
func TestMountPlansAtScale(t *testing.T) {
	db, spy := spied(t, "exec")
	run(t, db, `INSERT INTO bunkroom_mounts (id, scope, slug, kind, agent, session_id, purpose, created_at, updated_at, archived_at)
		SELECT 'm' || i, 'project:p' || i % 50, 's' || i, 1, CASE i % 2 WHEN 0 THEN 'a' || i % 999 ELSE '' END, CASE i % 2 WHEN 1 THEN 's' || i % 5000 ELSE '' END,
			CASE i % 7 WHEN 1 THEN 'attachments' ELSE '' END, i, i, CASE i % 100 WHEN 0 THEN i END FROM generate_series(1, 20000::bigint) AS i`)
	run(t, db, `INSERT INTO bunkroom_mount_tombstones (id, scope, session_id)
		SELECT 'm' || i, 'project:p' || i % 50, CASE i % 2 WHEN 1 THEN 's' || i % 5000 ELSE '' END FROM generate_series(20001, 40000::bigint) AS i`)
	run(t, db, "ANALYZE")
	store := db.Mounts()
	list := func(q mount.ListQuery) func() error {
		q.Scope, q.Limit = "project:p4", 20
		return func() error { _, err := store.List(t.Context(), q); return err }
	}
	left := func(target mount.Target) func() error {
		return func() error { _, err := store.Tombstones(t.Context(), target, "m3", 20); return err }
	}
	for _, c := range []struct {
		what  string
		do    func() error
		index string
	}{
		{"find", func() error { _, err := store.Find(t.Context(), "project:p4", "s4"); return err }, "bunkroom_mounts_scope_slug_key"},
		{"get", func() error { _, err := store.Get(t.Context(), "m4"); return err }, "bunkroom_mounts_pkey"},
		{"list", list(mount.ListQuery{}), "bunkroom_mounts_listed"},
		{"list of a session", list(mount.ListQuery{Session: "s3"}), "bunkroom_mounts_session"},
		{"list of an agent", list(mount.ListQuery{Agent: "a4"}), "bunkroom_mounts_agent"},
		{"tombstones", left(mount.Target{}), "bunkroom_mount_tombstones_pkey"},
		{"tombstones of a scope", left(mount.Target{Scope: "project:p4"}), "bunkroom_mount_tombstones_"},
		{"tombstones of a session", left(mount.Target{Session: "s3"}), "bunkroom_mount_tombstones_session"},
	} {
		plan := spy.plans(t, db, func() {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
		})
		if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, c.index) {
			t.Errorf("%s: want index %s, and no table read from end to end:\n%s", c.what, c.index, plan)
		}
	}
	for what, target := range map[string]mount.Target{
		"bunkroom_mounts_scope_slug_key": {Scope: "project:p4"}, "bunkroom_mounts_session": {Session: "s3"}, "bunkroom_mounts_archived": {Archived: time.Hour},
	} {
		if rows, err := store.Delete(t.Context(), target, 3); err != nil || len(rows) == 0 || len(rows) > 3 {
			t.Errorf("delete by %s: %d rows, %v", what, len(rows), err)
		}
	}
	row := mount.Row{ID: "new", Scope: "project:p4", Slug: "new", Kind: mount.KindAgent, Agent: "a", CreatedBy: "ana"}
	if _, err := store.GetOrCreate(t.Context(), row); err != nil { // prepares what there is to prepare
		t.Fatal(err)
	}
	spy.during(func() {
		if _, err := store.GetOrCreate(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	})
	spy.mu.Lock()
	defer spy.mu.Unlock()
	if len(spy.queries) != 1 {
		t.Errorf("to get or make one took %+v", spy.queries)
	}
}
