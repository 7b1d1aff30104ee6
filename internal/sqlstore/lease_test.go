package sqlstore_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// Fences of a session's works go with the session, but not while a work that
// they fence was not released; those of a conversation's turns go with it. Those of chores stay for ever.
func TestFencesGoWithTheirSession(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	commit(t, db.Sessions(), c)
	acquire := func(kind session.LeaseKind, name string) session.Lease {
		t.Helper()
		l, err := db.Leases().Acquire(t.Context(), session.Lease{Kind: kind, Name: name, Holder: "h", Payer: "alice", Slots: 5, For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	release := func(l session.Lease) {
		t.Helper()
		if err := db.Leases().Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	fences := func(want int) {
		t.Helper()
		if n := count(t, db, "SELECT count(*) FROM bunkroom_fences"); n != want {
			t.Errorf("%d fences are kept, want %d", n, want)
		}
	}
	release(acquire(session.LeaseSweep, string(c.Session.ID))) // a chore that happens to have the name
	work := acquire(session.LeaseWork, string(c.Session.ID))
	fences(2)
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	fences(2)
	if again := acquire(session.LeaseWork, string(c.Session.ID)); again.Fence != work.Fence {
		t.Errorf("fence %d, want that of the work that goes on, %d", again.Fence, work.Fence)
	}
	release(work)
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	fences(1)

	v := session.ConversationID("v")
	release(acquire(session.LeaseTurn, string(v)))
	fences(2)
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Conversation: v}}})
	fences(1)
}
