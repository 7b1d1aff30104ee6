//go:build linux

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Several providers on one root, as in several processes of the host, use one
// init and see each other's processes.
func TestSharedRoot(t *testing.T) {
	root := t.TempDir()
	a, b := openAt(t, root, false), openAt(t, root, false)
	ref := create(t, a, "m-g1")
	if m, err := b.Create(deadline(t), sandbox.CreateRequest{Name: "m-g1"}); err != nil || !m.Adopted || m.Ref != ref {
		t.Fatalf("create by another: %+v, %v", m, err)
	}
	ofA, ofB := attach(t, a, ref), attach(t, b, ref)
	pa := start(t, ofA, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	pb := start(t, ofB, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	if out := sh(t, ofB, "ps -e -o comm | sort | uniq -c | grep -c -e ' 2 sleep' -e ' 1 bwrap'"); out != "2\n" {
		t.Errorf("they don't share an init: %q", sh(t, ofB, "ps -ef"))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, pb); exit.Reason != sandbox.Cancelled {
		t.Errorf("closed with its provider: %+v", exit)
	}
	if out := sh(t, ofA, "ps -e -o comm | grep -c sleep"); out != "1\n" {
		t.Errorf("the other's process is gone with it: %q", out)
	}
	if err := pa.Close(); err != nil {
		t.Fatal(err)
	}
}

// The process of the host that began an init takes it along; the others go on with a new one.
func TestSharedRootLosesItsInit(t *testing.T) {
	root := t.TempDir()
	a, b := openAt(t, root, false), openAt(t, root, false)
	ref := create(t, a, "m-g1")
	sh(t, attach(t, a, ref), "true")
	ofB := attach(t, b, ref)
	if err := sandbox.WriteFile(deadline(t), ofB.FS(), "kept", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	p := start(t, ofB, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Code != 137 || exit.Reason != sandbox.Signalled {
		t.Errorf("its process: %+v", exit)
	}
	if out := sh(t, ofB, "cat kept"); out != "x" {
		t.Errorf("a new process reads %q", out)
	}
}

// A machine that another process of the host destroys is gone for this one.
func TestDestroyedByAnother(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			a, b := openAt(t, root, unconfined), openAt(t, root, unconfined)
			ref := create(t, a, "m-g1")
			sb := attach(t, a, ref)
			p := start(t, sb, sandbox.Cmd{}, "echo ready; exec sleep 1000")
			if err := b.Destroy(deadline(t), ref); err != nil {
				t.Fatal(err)
			}
			if exit := wait(t, p); exit.Reason != sandbox.SandboxEnded {
				t.Errorf("its process: %+v", exit)
			}
			if _, err := sb.FS().Stat(deadline(t), "."); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("stat: %v", err)
			}
			if _, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"true"}}); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("start: %v", err)
			}
			fresh := create(t, b, "m-g1")
			if _, err := sb.FS().Stat(deadline(t), "."); !errors.Is(err, sandbox.ErrStale) {
				t.Errorf("stat once it was replaced: %v", err)
			}
			if found, err := b.Inspect(deadline(t), fresh); err != nil || len(found) != 1 {
				t.Errorf("inspect: %v, %v", found, err)
			}
		})
	}
}

// A confined machine runs while its init does, and is woken by the first process.
func TestStatus(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	ref := create(t, p, "m-g1")
	status := func(p *local.Provider, want sandbox.Status) {
		t.Helper()
		if found, err := p.Inspect(deadline(t), ref); err != nil || len(found) != 1 || found[0].Status != want {
			t.Errorf("inspect: %v, %v, want %v", found, err, want)
		}
	}
	status(p, sandbox.StatusStopped)
	sb := attach(t, p, ref)
	status(p, sandbox.StatusStopped)
	sh(t, sb, "true")
	status(p, sandbox.StatusRunning)
	other := openAt(t, root, false)
	status(other, sandbox.StatusRunning)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	status(other, sandbox.StatusStopped)
	for name, err := range map[string]error{
		"Create":  func() error { _, err := p.Create(deadline(t), sandbox.CreateRequest{Name: "x-g1"}); return err }(),
		"Inspect": func() error { _, err := p.Inspect(deadline(t), ref); return err }(),
		"Attach":  func() error { _, err := p.Attach(deadline(t), ref); return err }(),
		"Destroy": p.Destroy(deadline(t), ref),
	} {
		if !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// Processes can end everything in their machine, its init too. The files stay
// and the next command works: it is tried again only where it surely did not
// run, which is known from what bubblewrap has told and not from its words (T-93, T-94).
func TestInitKilledFromInside(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	for _, kill := range []string{"kill -9 -1", "kill -9 2", "kill -9 1; kill -9 2"} {
		other := start(t, sb, sandbox.Cmd{}, "echo x >kept; echo ready; exec sleep 1000")
		killer, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", kill + "; exec sleep 1000"}})
		if err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, other); exit.Code != 137 {
			t.Errorf("%s: the other ended with %+v", kill, exit)
		}
		// Of "kill -9 -1" only who says it is left, until the init goes: with it goes
		// whatever has been started by then. Once that has ended nothing of it is left.
		if exit := wait(t, killer); exit.Code != 137 {
			t.Errorf("%s: who said so ended with %+v", kill, exit)
		}
		killer.Close()
		if out := sh(t, sb, "cat kept; ps -e -o comm | grep -c sleep || true"); out != "x\n0\n" {
			t.Errorf("%s: afterwards %q", kill, out)
		}
	}
}

// Destroy removes what the sandbox has closed to its owner, and neither
// follows nor removes what links lead to. What was left half removed is removed by New.
func TestDestroyRemovesAll(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(outside, "file"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := openAt(t, root, unconfined)
			messy := func(name string) sandbox.Ref {
				ref := create(t, p, name)
				sb := attach(t, p, ref)
				sh(t, sb, "mkdir -p a/b/c && echo x >a/b/c/file && ln -s "+outside+" a/link && ln -s "+outside+" a/b/link && ln -s .. up && mkfifo pipe && chmod 0 a/b/c && chmod 0 a/b && chmod 555 a")
				sb.Close()
				return ref
			}
			if err := p.Destroy(deadline(t), messy("one-g1")); err != nil {
				t.Fatal(err)
			}
			ref := messy("two-g1")
			trash := filepath.Join(root, "trash", "two-g1@"+string(ref.Incarnation))
			if err := os.Rename(filepath.Join(root, "machines", "two-g1"), trash); err != nil { // as Destroy begins
				t.Fatal(err)
			}
			if found, err := p.Inspect(deadline(t), ref); err != nil || len(found) != 1 || found[0] != (sandbox.Found{Incarnation: ref.Incarnation, Status: sandbox.StatusFailed}) {
				t.Errorf("half destroyed: %v, %v", found, err)
			}
			if unconfined {
				openAt(t, root, unconfined) // New goes on with it
			} else if err := p.Destroy(deadline(t), ref); err != nil {
				t.Fatal(err)
			}
			if found, err := p.Inspect(deadline(t), ref); err != nil || len(found) != 0 {
				t.Errorf("destroyed: %v, %v", found, err)
			}
			for _, dir := range []string{"machines", "trash", "new"} {
				if left, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(left) > 0 {
					t.Errorf("%s holds %v, %v", dir, left, err)
				}
			}
			if got, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(got) != "x" {
				t.Errorf("outside: %q, %v", got, err)
			}
		})
	}
}

// Unconfined, a bind is a link that everybody sees, so that one path can't
// stand for two directories; a link that was left behind is no hindrance.
func TestUnconfinedBinds(t *testing.T) {
	p := open(t, true)
	ref := create(t, p, "m-g1")
	one, two := attach(t, p, ref), attach(t, p, ref)
	a, b := t.TempDir(), t.TempDir()
	at := sandbox.BindRoot(one) + "/folder"
	if err := os.Symlink("/left/behind", at); err != nil {
		t.Fatal(err)
	}
	bind := func(sb sandbox.Sandbox, dir string) error {
		l, _ := sandbox.As[sandbox.Binder](sb)
		_, err := l.Bind(deadline(t), dir, at)
		return err
	}
	if err := bind(one, a); err != nil {
		t.Fatal(err)
	}
	if err := bind(two, b); err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("another directory at the same path: %v", err)
	}
	if err := bind(two, a); err != nil {
		t.Errorf("the same directory: %v", err)
	}
	for _, step := range []struct {
		sb   sandbox.Sandbox
		want bool
	}{{one, true}, {two, false}} {
		step.sb.Close()
		if _, err := os.Readlink(at); (err == nil) != step.want {
			t.Errorf("the link: %v", err)
		}
	}
}
