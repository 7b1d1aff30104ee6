package sqlstore_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session"
)

// Fences of a session's works go with the session, but not while a work that
// they fence was not released; those of a conversation's turns go with it. Those of chores stay until they are forgotten.
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

	if again := acquire(session.LeaseWork, string(c.Session.ID)); again.Fence <= work.Fence {
		t.Errorf("fence %d of an id that is used again, after %d", again.Fence, work.Fence)
	} else {
		release(again)
	}
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	fences(1)

	v := session.ConversationID("v")
	release(acquire(session.LeaseTurn, string(v)))
	fences(2)
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Conversation: v}}})
	fences(1)
}

// What is left of a session whose lease outlived its purge, and of processes and shells that
// are gone, is forgotten: no row stays, and a fence of the same name is greater all the same.
func TestNothingIsKeptForNothing(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db := migrated(t, &sqlite.Options{Now: func() time.Time { return now }})
	c := spawn("p")
	commit(t, db.Sessions(), c)
	names := map[session.LeaseKind]string{
		session.LeaseWork: string(c.Session.ID), session.LeaseSweep: "late a/1", session.LeasePTY: "shell", session.LeaseTurn: "conversation", session.LeaseHost: "host",
	}
	acquire := func(kind session.LeaseKind) session.Lease {
		t.Helper()
		l, err := db.Leases().Acquire(t.Context(), session.Lease{Kind: kind, Name: names[kind], Holder: "h", Payer: "alice", Slots: 5, For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	last := map[session.LeaseKind]session.Lease{}
	for range 3 {
		for kind := range names {
			last[kind] = acquire(kind)
			if kind == session.LeasePTY { // a shell that was closed; the others are just gone
				if err := db.Leases().Release(t.Context(), last[kind]); err != nil {
					t.Fatal(err)
				}
			}
		}
		now = now.Add(time.Hour)
	}
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	if err := db.Leases().Release(t.Context(), last[session.LeaseWork]); err != nil {
		t.Fatal(err)
	}
	rows := func(want int) {
		t.Helper()
		leases, fences := count(t, db, "SELECT count(*) FROM bunkroom_leases"), count(t, db, "SELECT count(*) FROM bunkroom_fences")
		if leases > want || fences != want {
			t.Errorf("%d leases and %d fences are kept, want %d", leases, fences, want)
		}
	}
	forget := func(want int) {
		t.Helper()
		if n, err := db.Leases().Forget(t.Context(), 24*time.Hour, 10); n != want || err != nil {
			t.Errorf("%d are forgotten, error %v, want %d", n, err, want)
		}
	}
	rows(len(names))
	forget(0)
	now = now.Add(3 * 24 * time.Hour)
	forget(len(names))
	rows(0)
	forget(0)
	for kind := range names {
		if l := acquire(kind); l.Fence <= last[kind].Fence {
			t.Errorf("kind %d: fence %d after %d", kind, l.Fence, last[kind].Fence)
		}
	}
}

// What an earlier program has handed out, which notes no day and may run
// beside this one, is not forgotten as if it had been long ago: that one would begin anew at 1.
func TestFencesOfEarlierPrograms(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db := migrated(t, &sqlite.Options{Now: func() time.Time { return now }})
	earlier := func(name string) (fence int64) {
		t.Helper()
		if err := db.SQL().QueryRowContext(t.Context(), `INSERT INTO bunkroom_fences (kind, name, fence) VALUES (1, ?, 1)
			ON CONFLICT (kind, name) DO UPDATE SET fence = bunkroom_fences.fence + 1 RETURNING fence`, name).Scan(&fence); err != nil {
			t.Fatal(err)
		}
		return fence
	}
	forget := func(want int) {
		t.Helper()
		for left := want; ; left -= 2 {
			n, err := db.Leases().Forget(t.Context(), 24*time.Hour, 2)
			if err != nil || n != max(0, min(left, 2)) {
				t.Fatalf("%d are forgotten, error %v, want %d", n, err, min(left, 2))
			}
			if n < 2 {
				return
			}
		}
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		earlier(name)
	}
	forget(0)
	if fence := earlier("a"); fence != 2 {
		t.Errorf("fence %d after 1", fence)
	}
	now = now.Add(3 * 24 * time.Hour)
	forget(5)
}

// A work that an earlier program has opened, which may run beside this one, is for no turn; all else is as it was.
func TestWorksOfEarlierPrograms(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db := migrated(t, &sqlite.Options{Now: func() time.Time { return now }})
	run(t, db, `INSERT INTO bunkroom_leases (kind, name, holder, replica, payer, sandbox_id, fence, until_at) VALUES (1, 's', 'w', 'r', 'alice', 'b', 1, 1)`)
	if found, err := db.Leases().Works(t.Context(), "c", 100, session.Lease{}, 10); err != nil || len(found) != 0 {
		t.Errorf("works for turns: %+v, %v", found, err)
	}
	want := session.Lease{Kind: session.LeaseWork, Name: "s", Holder: "w", Replica: "r", Payer: "alice", Sandbox: "b", Fence: 1, Until: time.UnixMicro(1).UTC()}
	if found, err := db.Leases().Expired(t.Context(), 10); err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("expired: %+v, %v, want %+v", found, err, want)
	}
}
