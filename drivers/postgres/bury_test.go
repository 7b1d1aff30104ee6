package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// The delete trigger buries exactly what sandbox.Row.Buried does, in every
// state, however the row is deleted. (T-32, S-03)
func TestTriggerBuriesAsRowDoes(t *testing.T) {
	for _, d := range []struct {
		name string
		do   func(t *testing.T, db *postgres.DB, c session.Change)
	}{
		{"by a commit", func(t *testing.T, db *postgres.DB, c session.Change) {
			commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
		}},
		{"by a cascade from the session", func(t *testing.T, db *postgres.DB, c session.Change) {
			run(t, db, "DELETE FROM bunkroom_sessions WHERE id = $1", string(c.Session.ID))
		}},
		{"by hand", func(t *testing.T, db *postgres.DB, c session.Change) {
			run(t, db, "DELETE FROM bunkroom_sandboxes WHERE id = $1", string(c.Sandbox.ID))
		}},
		{"all at once", func(t *testing.T, db *postgres.DB, _ session.Change) { run(t, db, "DELETE FROM bunkroom_sandboxes") }},
	} {
		t.Run(d.name, func(t *testing.T) {
			db := migrated(t)
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
						if diff := cmp.Diff(want, outbox(t, db.Sessions(), "h1")); diff != "" {
							t.Errorf("state %v, incarnation %q, not before %v (-Buried +trigger):\n%s", state, incarnation, notBefore, diff)
						}
						run(t, db, "DELETE FROM bunkroom_outbox")
					}
				}
			}
		})
	}
}

// The machine of an environment that is deleted goes to the outbox in every
// state but none, however the row goes. (T-31, T-32, T-33)
func TestTriggerBuriesOfEnvironments(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, db *postgres.DB, c session.Change){
		"by a commit": func(t *testing.T, db *postgres.DB, c session.Change) {
			commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Environment: c.Environment.ID}}})
		},
		"by a cascade from the environment": func(t *testing.T, db *postgres.DB, c session.Change) {
			run(t, db, "DELETE FROM bunkroom_environments WHERE id = $1", string(c.Environment.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := migrated(t)
			for state := sandbox.None; state <= sandbox.Destroying; state++ {
				c := lend("p")
				c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation, c.Sandbox.Name = state, 3, "i-3", "bkr-g3"
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
			}
		})
	}
}

// What the outbox has already stays as it is when a row that means the same
// machine is deleted: proof gathered so far is not lost. (T-31, T-33)
func TestTriggerKeepsWhatIsBuried(t *testing.T) {
	db := migrated(t)
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation, c.Sandbox.Name = sandbox.Live, 2, "i-2", "bkr-g2"
	commit(t, db.Sessions(), c)
	same, _ := c.Sandbox.Buried()
	same.Attempts, same.LastError = 4, "not \xff quite \x00 text" // of a provider, which may say anything
	commit(t, db.Sessions(), session.Change{Bury: []sandbox.Tombstone{same}})
	commit(t, db.Sessions(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
	got := outbox(t, db.Sessions())
	if len(got) != 1 || got[0].Attempts != 4 || !strings.HasPrefix(got[0].LastError, "not ") {
		t.Errorf("got %+v", got)
	}
}

// The trigger writes to the outbox beside its table, whatever the search path
// of who deletes finds first. (T-32)
func TestTriggerKeepsToItsSchema(t *testing.T) {
	name, dsn := schema(t)
	db := opened(t, dsn, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	elsewhere := migrated(t)
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Generation = sandbox.Live, 1
	commit(t, db.Sessions(), c)
	run(t, elsewhere, "DELETE FROM "+name+".bunkroom_sandboxes")
	if here, there := len(outbox(t, db.Sessions())), len(outbox(t, elsewhere.Sessions())); here != 1 || there != 0 {
		t.Errorf("%d tombstones beside the table and %d on the search path, want 1 and 0", here, there)
	}
}

// Neither the table can be emptied past the trigger, by itself or along with
// its sessions, nor the outbox, which would forget machines. (T-32)
func TestTruncateIsRefused(t *testing.T) {
	db := migrated(t)
	c := spawn("p")
	c.Sandbox.State = sandbox.Live
	c.Bury = []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: "gone", Generation: 1}}}
	commit(t, db.Sessions(), c)
	for _, text := range []string{
		"TRUNCATE bunkroom_sandboxes", "TRUNCATE bunkroom_sessions CASCADE", "TRUNCATE bunkroom_environments CASCADE",
		"TRUNCATE bunkroom_outbox", "TRUNCATE bunkroom_mounts, bunkroom_outbox",
	} {
		if _, err := db.SQL().ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "must not be truncated") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if got := load(t, db.Sessions(), session.Address{Session: c.Session.ID}); got.Sandbox.State != sandbox.Live || len(outbox(t, db.Sessions())) != 1 {
		t.Errorf("got %+v, outbox %+v", got.Sandbox, outbox(t, db.Sessions()))
	}
}

// The trigger buries for whoever may delete a row, also for one who may not
// write to the outbox; and nobody can have it write with its owner's rights
// for a table of theirs. (T-32)
func TestTriggerBuriesForWhoeverDeletes(t *testing.T) {
	name, dsn := schema(t)
	db := opened(t, dsn, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Incarnation = sandbox.Live, 1, "i-1"
	commit(t, db.Sessions(), c)
	role := name + "_clerk"
	run(t, db, "CREATE ROLE "+role)
	t.Cleanup(func() {
		for _, text := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := db.SQL().Exec(text); err != nil {
				t.Error(err)
			}
		}
	})
	run(t, db, "GRANT USAGE ON SCHEMA "+name+" TO "+role)
	run(t, db, "GRANT SELECT, DELETE ON bunkroom_sandboxes TO "+role)
	conn, err := db.SQL().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	as := func(text string) error {
		_, err := conn.ExecContext(t.Context(), text)
		return err
	}
	if err := errors.Join(as("SET ROLE "+role), as("DELETE FROM bunkroom_sandboxes")); err != nil {
		t.Errorf("a clerk who may delete: %v", err)
	}
	if err := as("INSERT INTO bunkroom_outbox SELECT * FROM bunkroom_outbox"); err == nil {
		t.Error("the clerk may write to the outbox, and the trigger need not do it for them")
	}
	if err := as("CREATE TEMPORARY TABLE mine (id text)"); err != nil {
		t.Fatal(err)
	}
	if err := as("CREATE TRIGGER mine AFTER DELETE ON mine FOR EACH ROW EXECUTE FUNCTION " + name + ".bunkroom_bury()"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("the trigger on a table of the clerk's: %v, want it refused", err)
	}
	if err := as("RESET ROLE"); err != nil {
		t.Error(err)
	}
	if got := outbox(t, db.Sessions()); len(got) != 1 || got[0].Incarnation != "i-1" {
		t.Errorf("outbox %+v", got)
	}
}

// A deleted session leaves its conversations, unbound, in their project. (S-03)
func TestDeleteKeepsConversations(t *testing.T) {
	db := migrated(t)
	for _, project := range []access.ProjectID{"", "p1"} {
		c := spawn(project)
		commit(t, db.Sessions(), c)
		run(t, db, "DELETE FROM bunkroom_sessions WHERE id = $1", string(c.Session.ID))
		got := load(t, db.Sessions(), session.Address{Conversation: c.Conversation.ID})
		if got.Conversation.Session != "" || got.Conversation.Project != project || got.Session.ID != "" {
			t.Errorf("project %q: got %+v", project, got)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM bunkroom_conversations WHERE session_project IS NOT NULL"); n != 0 {
		t.Errorf("%d conversations still refer to a session's project", n)
	}
}
