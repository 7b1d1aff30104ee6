package sqlstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// lend is the change that opens an environment with a sandbox.
func lend(project access.ProjectID) session.Change {
	e := &session.Environment{ID: session.EnvironmentID(id.New()), Project: project, CreatedBy: "alice", Name: "lab"}
	return session.Change{Environment: e, Sandbox: &sandbox.Row{ID: sandbox.ID(id.New()), Environment: e.ID}}
}

// borrow is the change that opens a session which borrows e.
func borrow(e session.Environment) session.Change {
	c := spawn(e.Project)
	c.Session.Environment, c.Sandbox = e.ID, nil
	c.Expect = []session.Guard{{Environment: e.ID, Version: e.Version}}
	return c
}

// The machine of an environment that is deleted goes to the outbox in every
// state but none, however the row goes. (T-31, T-32, T-33)
func TestTriggerBuriesOfEnvironments(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, db *sqlite.DB, c session.Change){
		"by a commit": func(t *testing.T, db *sqlite.DB, c session.Change) {
			commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Environment: c.Environment.ID}}})
		},
		"by a cascade from the environment": func(t *testing.T, db *sqlite.DB, c session.Change) {
			run(t, db, "DELETE FROM bunkroom_environments WHERE id = ?", string(c.Environment.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := migrated(t, nil)
			for state := sandbox.None; state <= sandbox.Destroying; state++ {
				c := lend("p")
				c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation, c.Sandbox.Name = state, 3, "i-3", "bkr-g3"
				c.Sandbox.Payer, c.Sandbox.NotBefore = "payer", time.Date(2026, 5, 6, 7, 8, 9, 123_000, time.UTC)
				c = commit(t, db.Sessions(), c)
				do(t, db, c)
				var want []sandbox.Tombstone
				if buried, ok := c.Sandbox.Buried(); ok {
					want = []sandbox.Tombstone{buried}
				}
				if diff := cmp.Diff(want, outbox(t, db.Sessions())); diff != "" {
					t.Errorf("state %v (-Buried +trigger):\n%s", state, diff)
				}
				run(t, db, "DELETE FROM bunkroom_outbox")
				if n := count(t, db, "SELECT count(*) FROM bunkroom_sandboxes"); n != 0 {
					t.Errorf("state %v: %d sandboxes are left", state, n)
				}
			}
		})
	}
}

// A purge that deletes sessions with the environment they borrowed is one
// change; without one of them nothing of it is written.
func TestDeleteWhatWasLent(t *testing.T) {
	db := migrated(t, nil)
	e := commit(t, db.Sessions(), lend("p"))
	a, b := commit(t, db.Sessions(), borrow(*e.Environment)), commit(t, db.Sessions(), borrow(*e.Environment))
	all := []session.Address{{Session: a.Session.ID}, {Session: b.Session.ID}, {Environment: e.Environment.ID}, {Conversation: a.Conversation.ID}}
	if _, err := db.Sessions().Commit(t.Context(), session.Change{Delete: all[1:]}); !errors.Is(err, session.ErrStale) {
		t.Errorf("with a session that borrows: got %v, want ErrStale", err)
	}
	load(t, db.Sessions(), session.Address{Session: b.Session.ID})
	commit(t, db.Sessions(), session.Change{Delete: all})
	for _, gone := range all {
		if _, err := db.Sessions().Load(t.Context(), gone); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%+v: got %v, want ErrNotFound", gone, err)
		}
	}
	if got := load(t, db.Sessions(), session.Address{Conversation: b.Conversation.ID}); got.Session.ID != "" || got.Conversation.Session != "" {
		t.Errorf("the conversation that stays: %+v", got)
	}
	commit(t, db.Sessions(), session.Change{Delete: all}) // what is not there is not an error
}

// Inside a host's transaction the new reads see what it wrote, and nobody else does.
func TestReadsInHostTransaction(t *testing.T) {
	db, tx := hosted(t)
	in := db.In(tx)
	e := lend("p")
	e.Bury = []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: e.Sandbox.ID, Generation: 1}}}
	e = commit(t, in.Sessions(), e)
	s := commit(t, in.Sessions(), borrow(*e.Environment))
	if _, err := in.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseHost, Name: "h", Holder: "r", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		sessions session.Store
		leases   session.Leases
		seen     bool
	}{{"inside", in.Sessions(), in.Leases(), true}, {"outside", db.Sessions(), db.Leases(), false}} {
		known, err := c.sessions.Known(t.Context(), []sandbox.TombstoneKey{{Sandbox: e.Sandbox.ID, Generation: 1, Incarnation: "i"}})
		if err != nil || (known[0].Sandbox.ID != "") != c.seen || known[0].Buried != c.seen || (known[0].Outbox == 1) != c.seen {
			t.Errorf("%s: Known: %+v, %v", c.name, known, err)
		}
		owned, err := c.sessions.Owned(t.Context(), session.PurgeTarget{Project: "p", History: true}, 10)
		want := []session.Address{{Session: s.Session.ID}, {Environment: e.Environment.ID}, {Conversation: s.Conversation.ID}}
		if err != nil || c.seen != cmp.Equal(want, owned) {
			t.Errorf("%s: Owned: %+v, %v", c.name, owned, err)
		}
		page, err := c.sessions.Environments(t.Context(), session.EnvironmentQuery{Project: "p", Limit: 5})
		if err != nil || (len(page.Items) == 1) != c.seen {
			t.Errorf("%s: Environments: %+v, %v", c.name, page, err)
		}
		if _, err := c.leases.Held(t.Context(), session.LeaseHost, "h"); (err == nil) != c.seen {
			t.Errorf("%s: Held: %v", c.name, err)
		}
	}
}

// What a provider's labels say need not be text: no row has it then, and what
// is asked for along with it is answered all the same.
func TestKnownOfWhatIsNoText(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation = sandbox.Live, 1, "i"
	c = commit(t, db.Sessions(), c)
	keys := []sandbox.TombstoneKey{
		{Sandbox: "\xff", Generation: 1}, {Sandbox: c.Sandbox.ID, Generation: 1, Incarnation: "i"}, {Sandbox: c.Sandbox.ID, Incarnation: "a\x00b"},
		{Sandbox: `"],[`, Generation: -1}, {}, {Sandbox: c.Sandbox.ID, Generation: 1 << 62},
	}
	known, err := db.Sessions().Known(t.Context(), keys)
	if err != nil || len(known) != len(keys) {
		t.Fatalf("got %d answers, %v", len(known), err)
	}
	for i, k := range known {
		if here := i == 1 || i == 2 || i == 5; (k.Sandbox.ID != "") != here || k.Now.IsZero() || k.Buried || k.Outbox != 0 {
			t.Errorf("%+v: got %+v", keys[i], k)
		}
	}
}
