//go:build linux

package mount_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
)

// hostRoot is a directory for a host.
func hostRoot(t testing.TB) string { return mounttest.HostRoot(t) }

// hostWorld is a host over real FUSE mounts.
type hostWorld struct {
	t      testing.TB
	server *fuseServer
	log    *lockedBuffer
	config mount.HostConfig
	limits mount.Limits
	before func(op, path string) error
}

func newHostWorld(t testing.TB) *hostWorld {
	t.Helper()
	w := &hostWorld{t: t, server: newFUSEServer(t), log: &lockedBuffer{}}
	w.config = mount.HostConfig{
		Server: w.server, Root: hostRoot(t), StopTimeout: 5 * time.Second,
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	w.limits = mount.Limits{Probe: 5 * time.Second, FirstDelay: 10 * time.Millisecond, MaxDelay: time.Second}
	return w
}

// host returns a host that is closed at the end of the test.
func (w *hostWorld) host() *mount.Host {
	w.t.Helper()
	h, err := mount.NewHostOn(w.t.Context(), w.config, w.limits, w.before)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.close(h) })
	return h
}

func (w *hostWorld) close(h *mount.Host) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		w.t.Errorf("Close: %v", err)
	}
}

// hostSpec is one of a folder of its own for each name.
func hostSpec(id mount.ID) mount.Spec {
	return mount.Spec{Row: mount.Row{ID: id, Scope: "project:web"}}
}

const (
	folderOne mount.ID = "0192f0c1-2ab4-7cde-8f01-000000000001"
	folderTwo mount.ID = "0192f0c1-2ab4-7cde-8f01-000000000002"
)

func (w *hostWorld) mount(h *mount.Host, id mount.ID) mount.Mount {
	w.t.Helper()
	m, err := h.Mount(w.t.Context(), hostSpec(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *hostWorld) put(m mount.Mount, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(m.HostDir(), "note"), []byte(text), 0o600); err != nil {
		w.t.Error(err)
	}
}

func (w *hostWorld) holds(m mount.Mount, text string) {
	w.t.Helper()
	if got, err := os.ReadFile(filepath.Join(m.HostDir(), "note")); err != nil || string(got) != text {
		w.t.Errorf("the note reads %q, %v; want %q", got, err, text)
	}
}

func (w *hostWorld) release(m mount.Mount) {
	w.t.Helper()
	if err := m.Release(w.t.Context()); err != nil {
		w.t.Errorf("Release: %v", err)
	}
}

// gone says that nothing of m is left on this host.
func (w *hostWorld) gone(dir string) {
	w.t.Helper()
	if _, state, err := mount.Prove(dir); state != mount.Detached {
		w.t.Errorf("%s: %s, %v", dir, state, err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("%s is still there: %v", dir, err)
	}
}

// eventually waits for what nobody tells.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func TestHostIsAMounter(t *testing.T) {
	for name, inside := range map[string]bool{"by a child": false, "by this process": true} {
		t.Run(name, func(t *testing.T) {
			mounttest.TestMounter(t, func(t *testing.T) mount.Mounter {
				w := newHostWorld(t)
				w.server.inside = inside
				return w.host()
			})
		})
	}
}

// Trap 47: the directory is derived from the folder, so that a folder never
// has two; and nothing but the process's own directory is left when it is given up.
func TestHostDirectoryIsTheFoldersOwn(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	first := w.mount(h, folderOne)
	dir := first.HostDir()
	w.put(first, "kept")
	w.release(first)
	w.gone(dir)
	again := w.mount(h, folderOne)
	if again.HostDir() != dir {
		t.Errorf("first at %s, then at %s", dir, again.HostDir())
	}
	if other := w.mount(h, folderTwo); other.HostDir() == dir {
		t.Error("two folders have one directory")
	}
	w.holds(again, "kept")
	if rel, err := filepath.Rel(w.config.Root, dir); err != nil || strings.Count(rel, "/") != 1 {
		t.Errorf("%s is not Root/<process>/<digits>", dir)
	}
	w.close(h)
	entries, err := os.ReadDir(w.config.Root)
	if err != nil || len(entries) != 0 {
		t.Errorf("the root holds %v, %v", entries, err)
	}
}
