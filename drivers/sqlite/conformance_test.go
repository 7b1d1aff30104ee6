package sqlite_test

import (
	"path/filepath"
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

func fresh(t testing.TB, now func() time.Time) *sqlite.DB {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bunkroom.db"), &sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
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
