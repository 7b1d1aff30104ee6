package postgres_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/transcripttest"
)

func TestStore(t *testing.T) {
	sessiontest.TestStore(t, func(t *testing.T, c *sessiontest.Clock) session.Store { return fresh(t, c).Sessions() }, nil)
}

func TestLeases(t *testing.T) {
	sessiontest.TestLeases(t, func(t *testing.T, c *sessiontest.Clock) session.Leases { return fresh(t, c).Leases() }, nil)
}

func TestMounts(t *testing.T) {
	mounttest.TestStore(t, func(t *testing.T) mount.Store { return migrated(t).Mounts() })
}

func TestTogether(t *testing.T) {
	sessiontest.TestTogether(t, func(t *testing.T, c *sessiontest.Clock) (session.Store, session.Leases) {
		db := fresh(t, c)
		return db.Sessions(), db.Leases()
	}, nil)
}

func TestInbox(t *testing.T) {
	transcripttest.TestInbox(t, func(t *testing.T, c *sessiontest.Clock) (transcript.Store, transcript.Inbox) {
		db := fresh(t, c)
		return db.Transcripts(), db.Inbox()
	})
}

func TestTranscripts(t *testing.T) {
	transcripttest.TestStore(t, func(t *testing.T) transcript.Store { return migrated(t).Transcripts() })
}
