package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// A step of a machine that rests on its session is one statement. What it
// stores is what Change.Stamped says, as that of any other change is; and
// where either row is not as expected it is ErrStale and nothing is stored.
func TestStepIsStoredAsStamped(t *testing.T) {
	db := migrated(t)
	at := time.Date(2026, 5, 6, 7, 8, 9, 123_000, time.UTC)
	full := sandbox.Row{
		Provider: "prov", Key: "k", Payer: "payer", Deployment: "dep", Spec: sandbox.Spec{Image: "debian", Env: []string{"A=it's"}},
		State: sandbox.Live, Generation: 7, Name: "bkr-g7", Incarnation: "i", Host: "h", Nonce: "n",
		Deadline: at, MaxDeadline: at.Add(time.Second), NotBefore: at.Add(2 * time.Second), AbsentSince: at.Add(3 * time.Second), Attempts: 4,
		LiveAt: at.Add(4 * time.Second), DestroyedAt: at.Add(5 * time.Second), MeasuredBytes: 1 << 40, MeasuredAt: at.Add(6 * time.Second), MeasuredIncarnation: "old",
	}
	for _, row := range []sandbox.Row{{State: sandbox.Creating}, full} {
		for _, stamps := range []sandbox.Stamps{
			{}, {Deadline: time.Minute}, {MaxDeadline: time.Hour}, {NotBefore: 1500 * time.Nanosecond}, {Absent: true}, {Live: true}, {Destroyed: true},
			{Deadline: 1, MaxDeadline: 2 * time.Millisecond, NotBefore: 3 * time.Second, Absent: true, Live: true, Destroyed: true},
		} {
			for _, more := range [][]session.Limit{nil, {{Kind: session.MachinesPerPayer, Scope: "payer", Max: 1000}}} { // with a lock it is two statements
				c := commit(t, db.Sessions(), spawn("p"))
				next := row
				next.ID, next.Session, next.Version = c.Sandbox.ID, c.Session.ID, 1
				change := session.Change{
					Sandbox: &next, Stamps: stamps, Limits: more, Expect: []session.Guard{{Session: c.Session.ID, Version: 1}},
				}
				for _, wrong := range []session.Change{
					{Sandbox: &next, Stamps: stamps, Limits: more, Expect: []session.Guard{{Session: c.Session.ID, Version: 2}}},
					{Sandbox: &next, Stamps: stamps, Limits: more, Expect: []session.Guard{{Session: "absent", Version: 1}}},
					{Sandbox: with(next, 2), Stamps: stamps, Limits: more, Expect: change.Expect},
				} {
					if _, err := db.Sessions().Commit(t.Context(), wrong); !errors.Is(err, session.ErrStale) {
						t.Errorf("%+v: got %v, want ErrStale", wrong.Expect, err)
					}
				}
				if got := load(t, db.Sessions(), session.Address{Session: c.Session.ID}); got.Sandbox.Version != 1 {
					t.Fatalf("a step that was refused is stored: %+v", got.Sandbox)
				}
				want := *commit(t, db.Sessions(), change).Sandbox
				for _, m := range []*time.Time{&want.Deadline, &want.MaxDeadline, &want.NotBefore} {
					*m = m.Truncate(time.Microsecond)
				}
				got := load(t, db.Sessions(), session.Address{Session: c.Session.ID})
				if diff := cmp.Diff(want, got.Sandbox); diff != "" {
					t.Errorf("stamps %+v (-stamped +stored):\n%s", stamps, diff)
				}
				if n := count(t, db, "SELECT count(*) FROM bunkroom_sandboxes WHERE id = $1 AND since > $2", string(next.ID), c.Session.CreatedAt.UnixMicro()); n != 1 {
					t.Errorf("stamps %+v: it has not gone to the end of what is due", stamps)
				}
			}
		}
	}
}

// with is a row as read at another version.
func with(r sandbox.Row, version int64) *sandbox.Row {
	r.Version = version
	return &r
}
