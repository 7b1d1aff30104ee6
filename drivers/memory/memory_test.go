package memory_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/transcripttest"
)

// S-36: what hosts test with keeps the contract that production keeps.

func TestSessions(t *testing.T) {
	sessiontest.TestStore(t, func(_ *testing.T, clock *sessiontest.Clock) session.Store {
		return memory.New(&memory.Options{Now: clock.Now}).Sessions()
	}, nil)
}

func TestLeases(t *testing.T) {
	sessiontest.TestLeases(t, func(_ *testing.T, clock *sessiontest.Clock) session.Leases {
		return memory.New(&memory.Options{Now: clock.Now}).Leases()
	}, nil)
}

func TestTogether(t *testing.T) {
	sessiontest.TestTogether(t, func(_ *testing.T, clock *sessiontest.Clock) (session.Store, session.Leases) {
		db := memory.New(&memory.Options{Now: clock.Now})
		return db.Sessions(), db.Leases()
	}, nil)
}

func TestMounts(t *testing.T) {
	mounttest.TestStore(t, func(*testing.T) mount.Store { return memory.New(nil).Mounts() })
}

func TestTranscripts(t *testing.T) {
	transcripttest.TestStore(t, func(*testing.T) transcript.Store { return memory.New(nil).Transcripts() })
}

func TestInbox(t *testing.T) {
	transcripttest.TestInbox(t, func(_ *testing.T, c *sessiontest.Clock) (transcript.Store, transcript.Inbox) {
		db := memory.New(&memory.Options{Now: c.Now})
		return db.Transcripts(), db.Inbox()
	})
}
