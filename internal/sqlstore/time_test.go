package sqlstore_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Where the process lives in another zone than UTC, moments are stored as UTC
// integers and read back as the same moments, in UTC. (T-58)
func TestMomentsAreUTC(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("IST", 5*3600+1800)
	t.Cleanup(func() { time.Local = local })
	now := time.Date(2026, 3, 4, 1, 2, 3, 456_789_123, time.Local)
	db := migrated(t, &sqlite.Options{Now: func() time.Time { return now }})

	c := spawn("p")
	c.End = true
	c.Sandbox.State, c.Sandbox.NotBefore = sandbox.Creating, now.Add(time.Hour).Truncate(time.Microsecond)
	c.Stamps = sandbox.Stamps{Deadline: time.Minute}
	clock, err := db.Sessions().Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	micros := now.UnixMicro()
	if clock.Location() != time.UTC || clock.UnixMicro() != micros || clock.Nanosecond()%1000 != 0 {
		t.Errorf("the clock shows %v, want %v in UTC and whole microseconds", clock, now)
	}
	for query, want := range map[string]int64{
		"SELECT created_at FROM bunkroom_sessions":                                     micros,
		"SELECT ended_at FROM bunkroom_sessions":                                       micros,
		"SELECT last_active_at FROM bunkroom_conversations":                            micros,
		"SELECT not_before FROM bunkroom_sandboxes":                                    micros + time.Hour.Microseconds(),
		"SELECT deadline FROM bunkroom_sandboxes":                                      micros + time.Minute.Microseconds(),
		"SELECT since FROM bunkroom_sandboxes":                                         micros,
		"SELECT count(*) FROM bunkroom_conversations WHERE typeof(closed_at) = 'null'": 1,
	} {
		if got := int64(count(t, db, query)); got != want {
			t.Errorf("%s: got %d, want %d", query, got, want)
		}
	}
	got := load(t, db.Sessions(), session.Address{Session: c.Session.ID})
	for _, at := range []time.Time{got.Now, got.Session.CreatedAt, got.Session.EndedAt, got.Sandbox.NotBefore, got.Sandbox.Deadline} {
		if at.Location() != time.UTC {
			t.Errorf("read back in %v: %v", at.Location(), at)
		}
	}
	if !got.Sandbox.NotBefore.Equal(c.Sandbox.NotBefore) || !got.Session.EndedAt.Equal(clock) {
		t.Errorf("got %v and %v", got.Sandbox.NotBefore, got.Session.EndedAt)
	}
}
