//go:build linux

package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
)

// faults fails one call, and looks at each that removes something.
type faults struct {
	t       *testing.T
	mu      sync.Mutex
	calls   int
	at      int // which call fails; 0 = none
	failed  string
	removed int
}

var errFault = errors.New("injected")

func (f *faults) before(op, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op == "rmdir" || op == "rename" {
		f.removed++
		f.checkDetached(op, path)
	}
	f.calls++
	if f.calls == f.at {
		f.failed = op
		return fmt.Errorf("%w: %s", errFault, op)
	}
	return nil
}

// checkDetached says that what is being removed has nothing mounted on it. The
// path may go through a directory that is open, and so below what is mounted at it.
func (f *faults) checkDetached(op, path string) {
	dir, name := filepath.Split(path)
	if strings.HasPrefix(dir, "/proc/self/fd/") {
		real, err := os.Readlink(filepath.Clean(dir))
		if err != nil {
			f.t.Errorf("%s %s: %v", op, path, err)
			return
		}
		path = filepath.Join(real, name)
	}
	if _, state, err := mount.Prove(path); state != mount.Detached {
		f.t.Errorf("trap 37: %s %s while it is %s: %v", op, path, state, err)
	}
}

// life is what happens to a folder: begun, mounted, used, dead and served
// again, given up, and the host closed. It stops where something fails.
func (w *hostWorld) life(ctx context.Context, binds *bindServer) (h *mount.Host, held mount.Mount, err error) {
	h, err = mount.NewHostOn(ctx, w.config, w.limits, w.before)
	if err != nil {
		return nil, nil, err
	}
	m, err := h.Mount(ctx, hostSpec(folderOne))
	if err != nil {
		return h, nil, err
	}
	if err := os.WriteFile(filepath.Join(m.HostDir(), "note"), []byte("kept"), 0o600); err != nil {
		return h, m, err
	}
	binds.written = true
	lives := binds.lives()
	binds.last().die()
	eventually(w.t, "it is served again", func() bool {
		return binds.lives() > lives && h.Status(ctx).Folders[0].State == "up"
	})
	if err := m.Release(ctx); err != nil {
		return h, m, err
	}
	return h, nil, h.Close(ctx)
}

func (s *bindServer) lives() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.served)
}

func (s *bindServer) last() *bindServing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[len(s.served)-1]
}

// Whichever call to the kernel fails, no file is lost, nothing is removed
// without proof, and everything can be finished by asking again; the next
// process finds nothing left.
func TestAnyStepMayFail(t *testing.T) {
	needRoot(t)
	for n := 1; ; n++ {
		f := &faults{t: t, at: n}
		w := &hostWorld{t: t, log: &lockedBuffer{}, before: f.before}
		binds := &bindServer{base: t.TempDir()}
		w.config = mount.HostConfig{Server: binds, Root: hostRoot(t), StopTimeout: 5 * time.Second}
		w.limits = mount.Limits{Probe: 5 * time.Second, FirstDelay: time.Millisecond, MaxDelay: time.Second}
		ctx := t.Context()
		h, held, err := w.life(ctx, binds)
		f.mu.Lock()
		failed := f.failed
		f.mu.Unlock()
		what := fmt.Sprintf("call %d (%s)", n, failed)
		if err != nil && !errors.Is(err, errFault) && !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		if held != nil {
			if err := held.Release(ctx); err != nil {
				t.Errorf("%s: the next Release: %v", what, err)
			}
		}
		if h != nil {
			if err := h.Close(ctx); err != nil {
				t.Errorf("%s: the next Close: %v", what, err)
			}
		}
		w.before = nil
		w.config.Server = &bindServer{base: binds.base}
		next, err := mount.NewHostOn(ctx, w.config, w.limits, nil)
		if err != nil {
			t.Fatalf("%s: the next host: %v", what, err)
		}
		m, err := next.Mount(ctx, hostSpec(folderOne))
		if err != nil {
			t.Fatalf("%s: the next host: %v", what, err)
		}
		if binds.written {
			w.holds(m, "kept")
		}
		if err := next.Close(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if names, err := os.ReadDir(w.config.Root); err != nil || len(names) != 0 {
			t.Errorf("%s: the root holds %v, %v", what, names, err)
		}
		if t.Failed() {
			return
		}
		if failed == "" {
			if n < 30 || f.removed == 0 {
				t.Errorf("a life has %d calls, %d of them remove something", n, f.removed)
			}
			return
		}
	}
}

// A process that ends between any two calls leaves what the next can clear.
// Here it does not end, but does nothing more from that call on, and is killed.
func TestTheProcessMayEndAtAnyStep(t *testing.T) {
	needRoot(t)
	need.Long(t, "a process for each call before which it may end")
	for n := 1; n < 200; n++ {
		w := newHostWorld(t)
		died := diesAt(t, w, n)
		within(t, "NewHost", func() {
			h := w.host()
			if s := h.Status(t.Context()); len(s.Leftovers) != 0 {
				t.Errorf("ended before call %d: leftovers %+v", n, s.Leftovers)
			}
			m := w.mount(h, folderOne)
			if got, err := os.ReadFile(filepath.Join(w.server.base, "written")); err == nil && len(got) > 0 {
				w.holds(m, "kept")
			}
			w.close(h)
		})
		if names, err := os.ReadDir(w.config.Root); err != nil || len(names) != 0 {
			t.Errorf("ended before call %d: the root holds %v, %v", n, names, err)
		}
		if t.Failed() || !died {
			return
		}
	}
}

// killSelf ends this process as kill -9 does.
func killSelf() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
