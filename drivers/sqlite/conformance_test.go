package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/transcripttest"
)

// template is a file with the schema, which is made once: to make it takes
// longer than most of what is done to it.
var template struct {
	once sync.Once
	file []byte
	err  error
}

func fresh(t testing.TB, now func() time.Time) *sqlite.DB {
	t.Helper()
	template.once.Do(func() { template.file, template.err = migrated(filepath.Join(t.TempDir(), "template.db")) })
	path := filepath.Join(t.TempDir(), "bunkroom.db")
	if err := errors.Join(template.err, os.WriteFile(path, template.file, 0o600)); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), path, &sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// migrated makes a database at path and returns its file, which is whole once it is closed.
func migrated(path string) ([]byte, error) {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.Migrate(ctx), db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
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
