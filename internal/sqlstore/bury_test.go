package sqlstore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// The delete trigger buries exactly what sandbox.Row.Buried does, in every
// state, however the row is deleted. (T-32, S-03)
func TestTriggerBuriesAsRowDoes(t *testing.T) {
	deletes := []struct {
		name string
		do   func(t *testing.T, db *sqlite.DB, c session.Change)
	}{
		{"by a commit", func(t *testing.T, db *sqlite.DB, c session.Change) {
			commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
		}},
		{"by a cascade from the session", func(t *testing.T, db *sqlite.DB, c session.Change) {
			run(t, db, "DELETE FROM bunkroom_sessions WHERE id = ?", string(c.Session.ID))
		}},
		{"by hand", func(t *testing.T, db *sqlite.DB, c session.Change) {
			run(t, db, "DELETE FROM bunkroom_sandboxes WHERE id = ?", string(c.Sandbox.ID))
		}},
		{"all at once", func(t *testing.T, db *sqlite.DB, _ session.Change) { run(t, db, "DELETE FROM bunkroom_sandboxes") }},
	}
	for _, d := range deletes {
		t.Run(d.name, func(t *testing.T) {
			db := migrated(t, nil)
			for state := sandbox.None; state <= sandbox.Destroying; state++ {
				for _, incarnation := range []sandbox.Incarnation{"", "i-1"} {
					for _, notBefore := range []time.Time{{}, time.Date(2026, 5, 6, 7, 8, 9, 123_000, time.UTC)} {
						c := spawn("p")
						*c.Sandbox = sandbox.Row{
							ID: c.Sandbox.ID, Session: c.Session.ID, Provider: "prov", Key: "k", Payer: "payer", Deployment: "dep",
							State: state, Generation: 7, Name: "bkr-g7", Incarnation: incarnation, Host: "h1", Nonce: "n",
							NotBefore: notBefore, AbsentSince: time.Unix(1, 0), Attempts: 3,
						}
						c = commit(t, db.Sessions(), c)
						d.do(t, db, c)
						var want []sandbox.Tombstone
						if buried, ok := c.Sandbox.Buried(); ok {
							want = []sandbox.Tombstone{buried}
						}
						got := outbox(t, db.Sessions(), "h1")
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("state %v, incarnation %q, not before %v (-Buried +trigger):\n%s", state, incarnation, notBefore, diff)
						}
						run(t, db, "DELETE FROM bunkroom_outbox")
					}
				}
			}
		})
	}
}

// What the outbox has already stays as it is when a row that means the same
// machine is deleted: proof gathered so far is not lost. Other generations
// and incarnations of the sandbox are rows of their own. (T-31, T-33)
func TestTriggerKeepsWhatIsBuried(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation, c.Sandbox.Name = sandbox.Live, 2, "i-2", "bkr-g2"
	commit(t, db.Sessions(), c)
	same, _ := c.Sandbox.Buried()
	same.Attempts, same.LastError = 4, "unreachable"
	older := same
	older.Generation, older.Incarnation, older.Attempts = 1, "i-1", 9
	nameless := same
	nameless.Incarnation, nameless.Attempts = "", 1
	before := commit(t, db.Sessions(), session.Change{Bury: []sandbox.Tombstone{older, nameless, same}}).Bury
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	got := outbox(t, db.Sessions())
	if len(got) != 3 {
		t.Fatalf("the outbox has %d tombstones, want 3: %+v", len(got), got)
	}
	for _, want := range before {
		found := false
		for _, g := range got {
			found = found || cmp.Equal(want, g)
		}
		if !found {
			t.Errorf("tombstone %+v is not as it was: %+v", want, got)
		}
	}
}

// A deleted session leaves its conversations, unbound, in their project. (S-03)
func TestDeleteKeepsConversations(t *testing.T) {
	db := migrated(t, nil)
	for _, project := range []access.ProjectID{"", "p1"} {
		c := spawn(project)
		commit(t, db.Sessions(), c)
		run(t, db, "DELETE FROM bunkroom_sessions WHERE id = ?", string(c.Session.ID))
		got := load(t, db.Sessions(), session.Address{Conversation: c.Conversation.ID})
		if got.Conversation.Session != "" || got.Conversation.Project != project || got.Session.ID != "" {
			t.Errorf("project %q: got %+v", project, got)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM bunkroom_conversations WHERE session_project IS NOT NULL"); n != 0 {
		t.Errorf("%d conversations still refer to a session's project", n)
	}
}

func run(t testing.TB, db *sqlite.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.SQL().ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
