package sqlstore_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/filetest"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// empty returns a database without any schema.
func empty(t testing.TB, opts *sqlite.Options) *sqlite.DB {
	t.Helper()
	return opened(t, filepath.Join(t.TempDir(), "test.db"), opts)
}

func opened(t testing.TB, path string, opts *sqlite.Options) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

var template filetest.Template

// migrated returns a database with the schema.
func migrated(t testing.TB, opts *sqlite.Options) *sqlite.DB {
	t.Helper()
	return opened(t, template.Copy(t, schema), opts)
}

// schema makes a database, whose file is whole once it is closed.
func schema(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

// spawn is the change that opens a session of alice with a sandbox and a conversation.
func spawn(project access.ProjectID) session.Change {
	s := &session.Session{ID: session.ID(id.New()), Owner: "alice", Project: project, Name: "room"}
	return session.Change{
		Session:      s,
		Sandbox:      &sandbox.Row{ID: sandbox.ID(id.New()), Session: s.ID},
		Conversation: &session.Conversation{ID: session.ConversationID(id.New()), Session: s.ID, Project: project, Owner: s.Owner},
	}
}

// commit commits c, which must succeed, and returns what was written.
func commit(t testing.TB, s session.Store, c session.Change) session.Change {
	t.Helper()
	clock, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return c.Stamped(clock)
}

// load loads a session, which must be there.
func load(t testing.TB, s session.Store, a session.Address) session.Snapshot {
	t.Helper()
	snap, err := s.Load(t.Context(), a)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return snap
}

// outbox are all tombstones, longest waiting first.
func outbox(t testing.TB, s session.Store, hosts ...string) []sandbox.Tombstone {
	t.Helper()
	var all []sandbox.Tombstone
	for d, err := range s.Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones, Hosts: hosts, Limit: 1000}) {
		if err != nil {
			t.Fatalf("Due: %v", err)
		}
		all = append(all, d.Tombstone)
	}
	return all
}

// count is the one number that a query answers with.
func count(t testing.TB, db *sqlite.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.SQL().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
