//go:build unix

package dir

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// rootVar names, in a process of its own, the root whose lock it is to take.
const rootVar = "BUNKROOM_TEST_DIR_ROOT"

// One at a time has the lock of a folder, whoever asks through whichever
// mounter over the root, and the second is told by whom it is held.
func TestLockOneAtATime(t *testing.T) {
	root := t.TempDir()
	a, b := open(t, root), open(t, root)
	first, err := a.Lock(t.Context(), spec().Row, "a process with a long name")
	if err != nil || first.Epoch() != 1 {
		t.Fatalf("Lock: %+v, %v", first, err)
	}
	for name, m := range map[string]*Mounter{"the same mounter": a, "another over the root": b} {
		_, err := m.Lock(t.Context(), spec().Row, "late")
		if used, ok := errors.AsType[*mount.InUseError](err); !ok || used.Holder != "a process with a long name" || used.Mount != mountID {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := spec().Row
	other.Scope = "project:other"
	apart, err := b.Lock(t.Context(), other, "b")
	if err != nil {
		t.Fatalf("the folder of another scope: %v", err)
	}
	for range 2 {
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	select {
	case <-first.Done():
	default:
		t.Error("released, and not done")
	}
	if first.Err() != nil {
		t.Errorf("Err after a release: %v", first.Err())
	}
	second, err := b.Lock(t.Context(), spec().Row, "b")
	if err != nil || second.Epoch() != 2 {
		t.Fatalf("Lock once it was released: %+v, %v", second, err)
	}
	for _, h := range []mount.Hold{apart, second} {
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	folder, err := a.Mount(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder.HostDir()); err != nil || len(left) > 0 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

// A lock ends with the process that has it, however that ends, and its epoch stays.
func TestLockEndsWithItsProcess(t *testing.T) {
	if root := os.Getenv(rootVar); root != "" {
		if _, err := open(t, root).Lock(t.Context(), spec().Row, "the dead"); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		select {} // until it is killed
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	child := exec.Command(exe, "-test.run=^TestLockEndsWithItsProcess$")
	child.Env = append(os.Environ(), rootVar+"="+root)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("held\n"))
	if _, err := out.Read(said); err != nil || string(said) != "held\n" {
		t.Errorf("the other process said %q, %v", said, err)
	}
	m := open(t, root)
	_, err = m.Lock(t.Context(), spec().Row, "b")
	if used, ok := errors.AsType[*mount.InUseError](err); !ok || used.Holder != "the dead" {
		t.Errorf("while it lives: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	next, err := m.Lock(t.Context(), spec().Row, "b")
	if err != nil || next.Epoch() != 2 {
		t.Fatalf("once it is dead: %+v, %v", next, err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLockRefuses(t *testing.T) {
	root := t.TempDir()
	m := open(t, root)
	_, err := m.Lock(t.Context(), mount.Row{ID: "../x", Scope: "project:p"}, "a")
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Row.ID" {
		t.Errorf("a row without a canonical id: %v", err)
	}
	h, err := m.Lock(t.Context(), spec().Row, strings.Repeat("long ", 100))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h, err = m.Lock(t.Context(), spec().Row, "short"); err != nil || h.Epoch() != 2 {
		t.Fatalf("after a longer record: %+v, %v", h, err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	rel, err := place(spec().Row)
	if err == nil {
		err = os.WriteFile(root+"/"+locks+"/"+rel, []byte("not a record"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(t.Context(), spec().Row, "a"); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("what is no record is guessed at: %v", err)
	}
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(t.Context(), spec().Row, "a"); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("the root has vanished: %v", err)
	}
}
