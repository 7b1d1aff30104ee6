//go:build linux

package mount_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// confined is a machine on this host, whose processes see what is bound into it.
func (w *world) confined() (open func() sandbox.Sandbox) {
	w.t.Helper()
	p, err := local.New(local.Config{Root: w.t.TempDir()})
	if cannot := (*local.ConfinementError)(nil); errors.As(err, &cannot) {
		need.Missing(w.t, need.Bwrap, cannot.Error())
	} else if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { p.Close() })
	m, err := p.Create(w.t.Context(), sandbox.CreateRequest{Name: "m-g1"})
	if err != nil {
		w.t.Fatal(err)
	}
	return func() sandbox.Sandbox {
		sb, err := p.Attach(w.t.Context(), m.Ref)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { sb.Close() })
		return sb
	}
}

func (w *world) sh(sb sandbox.Sandbox, script string) string {
	w.t.Helper()
	var out bytes.Buffer
	exit, err := sandbox.Run(w.t.Context(), sb, sandbox.Cmd{Argv: []string{"sh", "-ec", script}}, &out, &out)
	if err != nil || exit.Code != 0 {
		w.t.Errorf("%s: %+v, %v: %s", script, exit, err, out.String())
	}
	return out.String()
}

// Mounts traps 13 and 37, over a real FUSE file system and with real processes: of two works
// that share a session's folder the first to end takes nothing from the other;
// the last one's teardown stops what serves the folder, proves that nothing is mounted, and then gives up the lock.
func TestWorkdirOverFUSE(t *testing.T) {
	w, hw, l, did := newWorld(t), newHostWorld(t), newLocks(), &diary{}
	h := hw.host()
	l.note = did.note
	m := w.inProcess(l, func(c *mount.Config) { c.Mounter = &keeping{Mounter: h, note: did.note} })
	attach := w.confined()
	a, b := attach(), attach()
	first, second := w.workdir(m, a, "one"), w.workdir(m, b, "one")
	folder := h.Status(t.Context()).Folders
	if len(folder) != 1 || folder[0].References != 2 || len(hw.server.all()) != 1 {
		t.Fatalf("folders %+v, served %d times", folder, len(hw.server.all()))
	}
	dir := folder[0].Dir
	if out := w.sh(a, "pwd; echo one >kept; cat kept"); out != "/workspace\none\n" {
		t.Errorf("the first work says %q", out)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	w.release(first)
	if out := w.sh(b, "cat kept; echo two >>kept; cat kept"); out != "one\none\ntwo\n" {
		t.Errorf("once the first has ended the second says %q", out)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, state, _ := mount.Prove(dir); state != mount.Attached {
		t.Errorf("before the last is released: %s", state)
	}
	w.release(second)
	hw.gone(dir)
	if all := did.read(); !slices.Equal(all, []string{"lock", "mount 2", "mount 2", "unmount", "unmount", "unlock"}) {
		t.Errorf("what was done: %q", all)
	}
	c := attach()
	third := w.workdir(m, c, "one")
	if out := w.sh(c, "cat kept"); out != "one\ntwo\n" {
		t.Errorf("afterwards it holds %q", out)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	w.release(third)
}

// Traps 38, 46 and 47: a folder that does not come up leaves neither a directory below the
// host's root, nor a process, nor the lock, however often it is tried.
func TestWorkdirThatDoesNotComeUpLeavesNothing(t *testing.T) {
	w, hw, l := newWorld(t), newHostWorld(t), newLocks()
	h := hw.host()
	broken := errors.New("broken")
	hw.server.before = func(context.Context, string) (mount.Serving, error) { return nil, broken }
	m := w.inProcess(l, func(c *mount.Config) { c.Mounter = h })
	sb := w.open("m")
	for range 3 {
		if _, err := m.CarryWorkdir(t.Context(), sb, request("")); !errors.Is(err, broken) {
			t.Fatalf("CarryWorkdir = %v", err)
		}
	}
	mine, err := filepath.Glob(filepath.Join(hw.config.Root, "*", "*"))
	if err != nil || len(mine) > 0 || len(h.Status(t.Context()).Folders) > 0 || l.count() != 0 {
		t.Errorf("left: %q, %v, %+v, %d locks", mine, err, h.Status(t.Context()).Folders, l.count())
	}
	hw.server.before = nil
	w.release(w.workdir(m, sb, "one"))
}

// fencedServing keeps to the lock of its folder.
type fencedServing struct{ mount.Serving }

func (fencedServing) Fenced() bool { return true }

// A Host passes on what its Serving says of late writes, and hands it the lock.
func TestHostPassesFencingOn(t *testing.T) {
	for _, fences := range []bool{true, false} {
		w, hw, l := newWorld(t), newHostWorld(t), newLocks()
		server := &handing{Server: hw.server, fences: fences}
		hw.config.Server = server
		m := w.inProcess(l, func(c *mount.Config) { c.Mounter = hw.host() })
		d := w.workdir(m, w.open("m"), "one")
		if d.Outcome.Fenced != fences || server.spec.Hold == nil || server.spec.Hold.Epoch() != 1 {
			t.Errorf("fenced: %v, want %v; spec %+v", d.Outcome.Fenced, fences, server.spec)
		}
		health, ok := d.Health(t.Context())
		if !ok || health.Liveness != mount.Alive {
			t.Errorf("health %+v, %v", health, ok)
		}
		w.release(d)
		if left, err := os.ReadDir(hw.config.Root); err != nil || len(left) != 2 { // the process's directory and its lock
			t.Errorf("the root holds %v, %v", left, err)
		}
	}
}

// handing is a server that notes what it is asked for.
type handing struct {
	mount.Server
	fences bool
	spec   mount.Spec
}

func (s *handing) Serve(ctx context.Context, spec mount.Spec, dir string) (mount.Serving, error) {
	s.spec = spec
	one, err := s.Server.Serve(ctx, spec, dir)
	if err == nil && s.fences {
		one = fencedServing{one}
	}
	return one, err
}
