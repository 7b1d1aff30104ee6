package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session"
)

const ann = access.UserID("ann")

// needBwrap ends the test where machines can't be confined.
func needBwrap(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		need.Missing(t, need.Bwrap, "no bwrap on PATH")
	}
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not: %s", what)
		}
	}
}

// spawn opens a session of ann's.
func spawn(t testing.TB, p *process) session.ID {
	t.Helper()
	a := must(t, p, "Spawn", SessionCall{Owner: ann, Conversation: session.ConversationID(id.New())}, new(SessionAnswer))
	wantCode(t, "Spawn", a.Answer, "")
	return a.Session
}

// open opens work in a session, if it is allowed.
func open(t testing.TB, p *process, s session.ID, acceptLoss int64) *WorkAnswer {
	t.Helper()
	return must(t, p, "Open", WorkCall{Owner: ann, Session: s, AcceptLoss: acceptLoss}, new(WorkAnswer))
}

func wantCode(t testing.TB, what string, a Answer, code string) {
	t.Helper()
	if a.Code != code {
		t.Fatalf("%s: refused with %q (%s), want %q", what, a.Code, a.Text, code)
	}
}

// sh runs a script in an open work.
func sh(t testing.TB, p *process, work, script string) string {
	t.Helper()
	a := must(t, p, "Run", WorkCall{Work: work, Script: script}, new(WorkAnswer))
	wantCode(t, script, a.Answer, "")
	return a.Output
}

// onHost is a replica on a host of its own, whose disk is at root.
func onHost(name, dsn, root string) role {
	return role{Name: name, DSN: dsn, Root: root, Serve: true}
}

// Hosts as they come and go: a machine is served by its own host alone, by
// whichever process is on it, until an operator says that it is gone. (rule 12)
func TestHostsComeAndGo(t *testing.T) {
	need.Long(t, "it starts several processes and their machines")
	needBwrap(t)
	db, dsn := database(t)
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	a, b := start(t, onHost("a", dsn, one)), start(t, onHost("b", dsn, two))

	s := spawn(t, a)
	w := open(t, a, s, 0)
	wantCode(t, "Open where there is no machine yet", w.Answer, "")
	sh(t, a, w.Work, "echo kept >file")

	var there Answer
	eventually(t, "the other host's replica is told which one serves the machine", func() bool {
		there = open(t, b, s, 0).Answer
		wantCode(t, "Open on another host", there, "elsewhere")
		return there.Replica == "a"
	})
	if home, err := os.ReadFile(filepath.Join(one, "host")); err != nil || there.Host != string(home) {
		t.Fatalf("the machine lives on %q, want %q, %v", there.Host, home, err)
	}

	a.kill()
	wantCode(t, "Open on another host, the machine's own being down", open(t, b, s, 0).Answer, "elsewhere")
	a = start(t, onHost("a", dsn, one))
	w = open(t, a, s, 0)
	wantCode(t, "Open on the same host by another process", w.Answer, "")
	if got := sh(t, a, w.Work, "cat file"); got != "kept\n" {
		t.Errorf("the file has %q", got)
	}
	a.kill()

	gone := must(t, b, "HostGone", HostCall{there.Host}, new(HostAnswer))
	wantCode(t, "HostGone while a process may still serve the host", gone.Answer, "held")
	minuteLater(t, db)
	gone = must(t, b, "HostGone", HostCall{there.Host}, new(HostAnswer))
	wantCode(t, "HostGone", gone.Answer, "")
	if gone.Lost != 1 {
		t.Errorf("HostGone: %d machines lost, want 1", gone.Lost)
	}
	lost := open(t, b, s, 0).Answer
	wantCode(t, "Open of what was on it", lost, "lost")
	if lost.Generation != 1 {
		t.Errorf("lost generation %d, want 1", lost.Generation)
	}
	w = open(t, b, s, lost.Generation)
	wantCode(t, "Open, the loss accepted", w.Answer, "")
	if got := sh(t, b, w.Work, "test ! -e file && echo none"); got != "none\n" {
		t.Errorf("in the new machine: %q", got)
	}
	if closed := must(t, b, "Close", WorkCall{Work: w.Work}, new(WorkAnswer)); closed.Replaced != 1 {
		t.Errorf("the report says that generation %d was replaced, want 1", closed.Replaced)
	}
}

// minuteLater lets every lease run out that is held now.
func minuteLater(t testing.TB, db *postgres.DB) {
	t.Helper()
	if _, err := db.SQL().ExecContext(t.Context(), "UPDATE bunkroom_leases SET until_at = until_at - 60000000"); err != nil {
		t.Fatal(err)
	}
}

// HostCall names a host.
type HostCall struct{ Host string }

// HostAnswer is what became of it.
type HostAnswer struct {
	Answer
	Lost int
}
