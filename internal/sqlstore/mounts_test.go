package sqlstore_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/mount"
)

// before is a store on db with the first n migrations.
func before(t *testing.T, c sqlstore.Config, n int) *sqlstore.DB {
	t.Helper()
	files, err := fs.ReadDir(sqlstore.Migrations("sqlite"), ".")
	if err != nil || len(files) < n {
		t.Fatal(err, len(files))
	}
	some := fstest.MapFS{}
	for _, f := range files[:n] {
		text, err := fs.ReadFile(sqlstore.Migrations("sqlite"), f.Name())
		if err != nil {
			t.Fatal(err)
		}
		some[f.Name()] = &fstest.MapFile{Data: text}
	}
	c.Dialect = sqlstore.Dialect{
		Bun: sqlitedialect.New(), Text: strings.Clone, Begin: []string{"BEGIN IMMEDIATE"}, Lock: "DELETE FROM bunkroom_fences WHERE 0",
		Objects:    "SELECT type, name FROM sqlite_schema",
		RolledBack: func(error) bool { return false },
		Migrations: some,
	}
	s, err := sqlstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// The upsert of the version before there were sessions' mounts and an archive.
const upsertOfVersion4 = `INSERT INTO bunkroom_mounts (id, scope, slug, kind, agent, name, created_by, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (scope, slug) DO UPDATE SET updated_at = CASE
		WHEN bunkroom_mounts.updated_at < excluded.updated_at THEN excluded.updated_at ELSE bunkroom_mounts.updated_at END
	RETURNING id`

// Mounts trap 9: after an upgrade a folder was looked for under another slug,
// and made anew. A row of the version before is found, used and edited as what it was, and
// the version before finds and makes rows in the schema of this one.
func TestMountsOutliveTheUpgrade(t *testing.T) {
	db := empty(t, nil)
	before(t, sqlstore.Config{DB: db.SQL()}, 4)
	const id = mount.ID("0192f0c1-2ab4-7cde-8f01-23455e0c3f1a")
	folder := mount.Folder{Project: "web", Agent: "reviewer"}
	slug, err := mount.AgentSlug(folder.Agent, "")
	if err != nil {
		t.Fatal(err)
	}
	old := func(id mount.ID, slug string) (stored mount.ID) {
		t.Helper()
		if err := db.SQL().QueryRowContext(t.Context(), upsertOfVersion4,
			string(id), "project:web", slug, 1, "reviewer", "default", "ana", 1_000_000, 1_000_000).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		return stored
	}
	old(id, slug)
	if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
		t.Fatal(err)
	}
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: db.Mounts()})
	if err != nil {
		t.Fatal(err)
	}
	row, err := folders.GetOrCreate(t.Context(), folder, "bob")
	want := mount.Row{
		ID: id, Version: 1, Scope: "project:web", Slug: slug, Kind: mount.KindAgent, Agent: "reviewer", Name: "default",
		CreatedBy: "ana", CreatedAt: time.Unix(1, 0).UTC(), UpdatedBy: "bob", UpdatedAt: row.UpdatedAt,
	}
	if err != nil || row != want {
		t.Errorf("got %+v, %v; want %+v", row, err, want)
	}
	if row, err = db.Mounts().Update(t.Context(), id, mount.Change{Archived: new(true)}); err != nil || row.Version != 2 {
		t.Errorf("got %+v, %v", row, err)
	}
	if stored := old("another", slug); stored != id {
		t.Errorf("the version before got %s, want %s", stored, id)
	}
	if stored := old("another", "of its own"); stored != "another" {
		t.Errorf("the version before made %s", stored)
	}
	if row, err := db.Mounts().Get(t.Context(), "another"); err != nil || row.Version != 1 || row.Archived() || row.Protected() {
		t.Errorf("what the version before made: %+v, %v", row, err)
	}
}

// Whoever deletes a mount, and however, leaves a tombstone.
func TestDeletedMountsLeaveTombstones(t *testing.T) {
	db := migrated(t, nil)
	row, err := db.Mounts().GetOrCreate(t.Context(), mount.Row{ID: "m", Scope: "user:ana", Slug: "s", Kind: mount.KindSession, Session: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, "DELETE FROM bunkroom_mounts")
	left, err := db.Mounts().Tombstones(t.Context(), mount.Target{Session: "s1"}, "", 10)
	if want := (mount.Tombstone{ID: row.ID, Scope: "user:ana", Session: "s1"}); err != nil || len(left) != 1 || left[0] != want {
		t.Errorf("got %+v, %v; want %+v", left, err, want)
	}
}

// What is asked of mounts is found by indexes: no table is read from end to
// end, and no list is sorted.
func TestMountPlans(t *testing.T) {
	db, spy := spied(t, nil)
	store := db.Mounts()
	list := func(q mount.ListQuery) func() error {
		q.Scope, q.Limit = "project:p", 20
		return func() error { _, err := store.List(context.Background(), q); return err }
	}
	remove := func(target mount.Target) func() error {
		return func() error { _, err := store.Delete(context.Background(), target, 20); return err }
	}
	left := func(target mount.Target) func() error {
		return func() error {
			_, err := store.Tombstones(context.Background(), target, "m", 20)
			return err
		}
	}
	for _, c := range []struct {
		what  string
		do    func() error
		index string
	}{
		{"find", func() error { _, err := store.Find(t.Context(), "project:p", "s"); return err }, "(scope=? AND slug=?)"},
		{"get", func() error { _, err := store.Get(t.Context(), "m"); return err }, "PRIMARY KEY (id=?)"},
		{"list", list(mount.ListQuery{}), "bunkroom_mounts_listed (scope=?)"},
		{"list with the archive", list(mount.ListQuery{Archived: true}), "bunkroom_mounts_listed (scope=?)"},
		{"list of a session", list(mount.ListQuery{Session: "s"}), "bunkroom_mounts_session (session_id=? AND scope=?)"},
		{"list of an agent", list(mount.ListQuery{Agent: "a"}), "bunkroom_mounts_agent (agent=? AND scope=?)"},
		{"delete of a scope", remove(mount.Target{Scope: "project:p"}), "(scope=?)"},
		{"delete of a session", remove(mount.Target{Session: "s"}), "bunkroom_mounts_session (session_id=?)"},
		{"delete of what is archived", remove(mount.Target{Archived: time.Hour}), "bunkroom_mounts_archived (archived_at"},
		{"delete of one", remove(mount.Target{ID: "m", Version: 1, Archived: time.Hour}), "PRIMARY KEY (id=?)"},
		{"scan", func() error { _, err := store.Scan(t.Context(), "m", 20); return err }, "PRIMARY KEY (id>?)"},
		{"tombstones", left(mount.Target{}), "PRIMARY KEY (id>?)"},
		{"tombstones of a scope", left(mount.Target{Scope: "project:p"}), "(scope=? AND id>?)"},
		{"tombstones of a session", left(mount.Target{Session: "s"}), "(session_id=? AND id>?)"},
		{"forget", func() error { return store.Forget(t.Context(), []mount.ID{"m"}) }, "PRIMARY KEY (id=?)"},
	} {
		spy.reset(nil, nil)
		if err := c.do(); err != nil && !errors.Is(err, mount.ErrNotFound) {
			t.Fatal(err)
		}
		all := strings.Join(plan(t, db, spy.seen()), "\n")
		if !strings.Contains(all, c.index) || strings.Contains(all, "TEMP B-TREE") || strings.Contains(all, "SCAN bunkroom") {
			t.Errorf("%s: want %s, and nothing sorted or read from end to end:\n%s", c.what, c.index, all)
		}
	}
	var field *access.FieldError
	if _, err := store.Tombstones(t.Context(), mount.Target{}, "\x00", 1); !errors.As(err, &field) || field.Field != "after" {
		t.Errorf("an id that is none: got %v", err)
	}
}
