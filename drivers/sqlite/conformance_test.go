package sqlite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/filetest"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/transcripttest"
)

var template filetest.Template

func fresh(t testing.TB, now func() time.Time) *sqlite.DB {
	t.Helper()
	_, db := shared(t, &sqlite.Options{Now: now})
	return db
}

// shared is a database with the schema, and where its file is, for others to open too.
func shared(t testing.TB, opts *sqlite.Options) (path string, db *sqlite.DB) {
	t.Helper()
	path = template.Copy(t, migrated)
	db, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return path, db
}

// migrated makes a database, whose file is whole once it is closed.
func migrated(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

func TestStore(t *testing.T) {
	sessiontest.TestStore(t, func(t *testing.T, c *sessiontest.Clock) session.Store { return fresh(t, c.Now).Sessions() }, nil)
}

func TestLeases(t *testing.T) {
	sessiontest.TestLeases(t, func(t *testing.T, c *sessiontest.Clock) session.Leases { return fresh(t, c.Now).Leases() }, nil)
}

func TestMounts(t *testing.T) {
	mounttest.TestStore(t, func(t *testing.T) mount.Store { return fresh(t, nil).Mounts() })
}

func TestTogether(t *testing.T) {
	sessiontest.TestTogether(t, func(t *testing.T, c *sessiontest.Clock) (session.Store, session.Leases) {
		db := fresh(t, c.Now)
		return db.Sessions(), db.Leases()
	}, nil)
}

func TestInbox(t *testing.T) {
	transcripttest.TestInbox(t, func(t *testing.T, c *sessiontest.Clock) (transcript.Store, transcript.Inbox) {
		db := fresh(t, c.Now)
		return db.Transcripts(), db.Inbox()
	})
}

func TestTranscripts(t *testing.T) {
	transcripttest.TestStore(t, func(t *testing.T) transcript.Store { return fresh(t, nil).Transcripts() })
}
