//go:build linux

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// serviceOn is a host whose sandboxes are p's and whose folders are below root.
func serviceOn(t *testing.T, p sandbox.Provider, root string) *session.Service {
	t.Helper()
	folders, err := dir.New(root)
	if err != nil {
		t.Fatal(err)
	}
	db, people := memory.New(nil), memory.NewDirectory()
	people.AddProject("shop", "ann", "free")
	people.SetCode("ann", "shop", true)
	people.AddAgent("shop", "coder", true)
	mounts, err := mount.New(mount.Config{Store: db.Mounts(), Mounter: folders, Locker: folders, Policy: mount.Required})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: people, Mounts: mounts,
		Sandboxes: []sandbox.Provider{p}, KeySecret: []byte("0123456789abcdef0123456789abcdef"), Deployment: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openWork(t *testing.T, s *session.Service, q session.WorkRequest) *session.Work {
	t.Helper()
	w, err := s.Open(t.Context(), access.Actor{User: "ann"}, q)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func closed(t *testing.T, w *session.Work) {
	t.Helper()
	if _, err := w.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Real processes work in the session's own folder, with the agent's beside it,
// and so do those of a second work (mounts trap 13); what they write is
// there in the next machine, and never in the machine's own directory.
func TestProcessesInADurableWorkdir(t *testing.T) {
	root, ann := t.TempDir(), access.Actor{User: "ann"}
	s := serviceOn(t, openAt(t, root, false), t.TempDir())
	made, talk, err := s.Spawn(t.Context(), ann, session.Spawn{Project: "shop", Agent: "coder", DurableWorkdir: true})
	if err != nil {
		t.Fatal(err)
	}
	q := session.WorkRequest{Conversation: talk.ID, Ensure: true}
	a := openWork(t, s, q)
	b := openWork(t, s, session.WorkRequest{Session: made.ID})
	if out := sh(t, a.Sandbox(), `pwd; echo one >kept; mkdir sub; echo mine >"$BUNKROOM_AGENT_DIR/note"; readlink agent-files; ls agent-files/*/note | wc -l`); out != "/workspace\n/workspace-agent\n1\n" {
		t.Errorf("a process says %q", out)
	}
	if out := sh(t, b.Sandbox(), "cat kept; mv kept sub/moved; rm agent-files"); out != "one\n" {
		t.Errorf("a process of the second work says %q", out)
	}
	closed(t, b)
	if out := sh(t, a.Sandbox(), "cat sub/moved; mkdir agent-files; echo late >agent-files/late"); out != "one\n" {
		t.Errorf("once the second work has ended: %q", out)
	}
	a.Freshen(t.Context()) // mounts trap 42, where the sandbox is warm
	if out := sh(t, a.Sandbox(), `readlink agent-files; cat "$BUNKROOM_AGENT_DIR/late"`); out != "/workspace-agent\nlate\n" {
		t.Errorf("at the next turn: %q", out)
	}
	own, err := filepath.Glob(filepath.Join(root, "machines", "*", "workspace", "*"))
	if err != nil || len(own) > 0 {
		t.Errorf("in the machine's own directory: %q, %v", own, err)
	}
	closed(t, a)

	if _, err := s.End(t.Context(), ann, made.ID); err != nil {
		t.Fatal(err)
	}
	q.Reopen = true
	w := openWork(t, s, q)
	if out := sh(t, w.Sandbox(), "cat sub/moved; readlink agent-files"); out != "one\n/workspace-agent\n" {
		t.Errorf("in the next machine: %q", out)
	}
	closed(t, w)
	if left, err := os.ReadDir(filepath.Join(root, "machines")); err != nil || len(left) != 1 {
		t.Errorf("machines %v, %v", left, err)
	}
}

// Unconfined, the working directory is a directory of the host and can't be
// another: such sessions are refused by name, and no machine is made.
func TestUnconfinedHasNoDurableWorkdir(t *testing.T) {
	root, ann := t.TempDir(), access.Actor{User: "ann"}
	s := serviceOn(t, openAt(t, root, true), t.TempDir())
	made, _, err := s.Spawn(t.Context(), ann, session.Spawn{Project: "shop", Agent: "coder", DurableWorkdir: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Open(t.Context(), ann, session.WorkRequest{Session: made.ID, Ensure: true})
	if e, ok := errors.AsType[*session.WorkdirError](err); !ok || e.Provider != "local" {
		t.Errorf("Open: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "machines")); err != nil || len(left) > 0 {
		t.Errorf("machines %v, %v", left, err)
	}
}
