//go:build linux

package mount_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// hanging is a world in which nothing is waited for long, and listings are counted.
func hanging(t *testing.T, inside bool) (*hostWorld, *atomic.Int64) {
	w := newHostWorld(t)
	w.server.inside = inside
	w.limits = mount.Limits{Probe: time.Second, FirstDelay: 10 * time.Millisecond, MaxDelay: time.Second}
	w.config.StartTimeout, w.config.StopTimeout = 10*time.Second, 2*time.Second
	w.server.grace = 500 * time.Millisecond
	var listings atomic.Int64
	w.before = func(op, _ string) error {
		if op == "list" {
			listings.Add(1)
		}
		return nil
	}
	return w, &listings
}

// within fails where f takes so long that it must have waited for what hangs.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(40 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// Traps 36 and 76: a probe without a timeout hung on a dead store. A file
// system that never answers costs Mount, Health and Release their bounds, has
// one goroutine in the kernel however often it is asked after, and is cut off in the end, so
// that whoever waits for it goes on.
func TestAFileSystemThatHangs(t *testing.T) {
	w, listings := hanging(t, false)
	w.server.before = func(context.Context, string) (mount.Serving, error) { return nil, nil }
	h := w.host()
	m := w.mount(h, folderOne)
	w.put(m, "kept")
	w.server.last().hang()
	reader := make(chan error, 1)
	eventually(t, "it hangs", func() bool {
		return m.(mount.Reporter).Health(t.Context()).Liveness == mount.Unresponsive
	})
	go func() {
		_, err := os.ReadFile(m.HostDir() + "/note")
		reader <- err
	}()
	before := listings.Load()
	within(t, "Mount", func() {
		for range 3 {
			_, err := h.Mount(t.Context(), hostSpec(folderOne))
			if !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "unresponsive") {
				t.Errorf("Mount = %v", err)
			}
		}
	})
	if n := listings.Load() - before; n != 0 {
		t.Errorf("%d more listings while one hangs", n)
	}
	within(t, "Release", func() { w.release(m) })
	w.gone(m.HostDir())
	within(t, "who read it", func() {
		if err := <-reader; err == nil {
			t.Error("it read what is cut off")
		}
	})
	within(t, "Mount", func() {
		again := w.mount(h, folderOne)
		w.holds(again, "kept")
	})
}

// What this process serves itself can't be killed. Its directory is cut off
// and detached all the same, and the reference stays until it has stopped.
func TestAHangingServingOfThisProcess(t *testing.T) {
	w, _ := hanging(t, true)
	var aborted atomic.Int64
	w.before = func(op, _ string) error {
		if op == "abort" {
			aborted.Add(1)
		}
		return nil
	}
	h := w.host()
	m := w.mount(h, folderOne)
	one := w.server.last()
	one.hang()
	eventually(t, "it hangs", func() bool {
		return m.(mount.Reporter).Health(t.Context()).Liveness == mount.Unresponsive
	})
	within(t, "Release", func() {
		if err := m.Release(t.Context()); err == nil || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("Release = %v", err)
		}
	})
	if _, state, err := mount.Prove(m.HostDir()); state != mount.Detached {
		t.Errorf("trap 76: %s, %v", state, err)
	}
	if aborted.Load() == 0 {
		t.Error("its connection was not cut off")
	}
	one.fsys.answer()
	<-one.Done()
	w.release(m)
	w.gone(m.HostDir())
}

// Close is bounded as Release is.
func TestCloseOfWhatHangs(t *testing.T) {
	w, _ := hanging(t, false)
	h := w.host()
	m := w.mount(h, folderOne)
	w.server.last().hang()
	within(t, "Close", func() { w.close(h) })
	w.gone(m.HostDir())
}

// Trap 35: a call to serve that never returned held everything up. It costs
// the start's bound, and what it brings too late is stopped before anything else is started.
func TestAServeThatDoesNotReturn(t *testing.T) {
	w, _ := hanging(t, false)
	w.config.StartTimeout = 3 * time.Second
	goOn := make(chan struct{})
	var serves atomic.Int64
	w.server.before = func(context.Context, string) (mount.Serving, error) {
		if serves.Add(1) == 1 {
			<-goOn
		}
		return nil, nil
	}
	h := w.host()
	within(t, "Mount", func() {
		if _, err := h.Mount(t.Context(), hostSpec(folderOne)); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("Mount = %v", err)
		}
	})
	within(t, "the Mount of another folder", func() { w.put(w.mount(h, folderTwo), "not held up") })
	close(goOn)
	within(t, "the next Mount", func() {
		eventually(t, "the folder can be had", func() bool {
			m, err := h.Mount(t.Context(), hostSpec(folderOne))
			if err == nil {
				w.put(m, "there")
			}
			return err == nil
		})
	})
	all := w.server.all()
	if len(all) != 3 || !over(all[1]) || over(all[2]) {
		t.Errorf("what came late is not what was stopped: %d were served", len(all))
	}
}

// over reports whether a serving has ended.
func over(s *fuseServing) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// Trap 77: what serves it ends at once, and the caller waited for the whole
// time a start may take all the same. The start ends with it, and says why.
func TestAStartEndsWithWhatServes(t *testing.T) {
	w := newHostWorld(t)
	w.config.StartTimeout = 10 * time.Minute
	why := errors.New("bad keys")
	w.server.before = func(context.Context, string) (mount.Serving, error) { return &deadServing{why}, nil }
	h := w.host()
	within(t, "Mount", func() {
		_, err := h.Mount(t.Context(), hostSpec(folderOne))
		if !errors.Is(err, why) || !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("Mount = %v, want %v", err, why)
		}
	})
	names, err := os.ReadDir(h.Status(t.Context()).Dir)
	if err != nil || len(names) != 0 {
		t.Errorf("trap 46: the stub stays: %v, %v", names, err)
	}
}

// deadServing has died at once.
type deadServing struct{ why error }

func (s *deadServing) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
func (s *deadServing) Err() error                 { return s.why }
func (s *deadServing) Expires() time.Time         { return time.Time{} }
func (s *deadServing) Stop(context.Context) error { return nil }

// idleServing serves nothing, and stops only when it may.
type idleServing struct {
	done  chan struct{}
	stops func() error
}

func (s *idleServing) Done() <-chan struct{} { return s.done }
func (s *idleServing) Err() error            { return nil }
func (s *idleServing) Expires() time.Time    { return time.Time{} }
func (s *idleServing) Stop(context.Context) error {
	if err := s.stops(); err != nil {
		return err
	}
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	return nil
}

// Trap 38: what failed to mount was left half alive, and mounted later over a
// directory that was somebody's by then. A start that fails is stopped, and the
// place is not used again before that is certain.
func TestAFailedStartIsStoppedForCertain(t *testing.T) {
	w := newHostWorld(t)
	w.config.StartTimeout = time.Second
	alive := errors.New("it will not go")
	idle := &idleServing{done: make(chan struct{}), stops: func() error { return alive }}
	var served atomic.Int64
	w.server.before = func(context.Context, string) (mount.Serving, error) {
		if served.Add(1) == 1 {
			return idle, nil
		}
		return nil, nil
	}
	h := w.host()
	for range 2 {
		_, err := h.Mount(t.Context(), hostSpec(folderOne))
		if !errors.Is(err, alive) || !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "stays as it is") {
			t.Errorf("Mount = %v", err)
		}
		if s := h.Status(t.Context()).Folders; len(s) != 1 || s[0].State != "stuck" {
			t.Errorf("Status: %+v", s)
		}
	}
	if n := served.Load(); n != 1 {
		t.Errorf("served %d times over what is not stopped", n)
	}
	w.wantLogged("level=ERROR", "mount not taken down", alive.Error())
	idle.stops = func() error { return nil }
	eventually(t, "it starts in time", func() bool { // the start has little time here
		_, err := h.Mount(t.Context(), hostSpec(folderOne))
		return err == nil
	})
}

// Trap 37: a recursive delete after an unmount that had failed wiped the
// store. Nothing is removed, recursively or not, where it is not certain that
// nothing is mounted: the directory stays, and the error says so.
func TestNothingIsRemovedWithoutProof(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		rule  string
		fails func(op string) bool
	}{
		{"what is mounted can't be read", func(op string) bool { return op == "mountinfo" }},
		{"nothing can be unmounted", func(op string) bool { return op == "unmount" || op == "fusermount" }},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newHostWorld(t)
			var failing atomic.Bool
			var removed atomic.Int64
			w.before = func(op, _ string) error {
				if failing.Load() && (op == "rmdir" || op == "rename") {
					removed.Add(1)
				}
				if failing.Load() && c.fails(op) {
					return broken
				}
				return nil
			}
			h := w.host()
			m := w.mount(h, folderOne)
			w.put(m, "kept")
			failing.Store(true)
			w.server.last().kill() // nothing of it would unmount
			<-w.server.last().Done()
			err := m.Release(t.Context())
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), m.HostDir()+" stays") {
				t.Errorf("Release = %v", err)
			}
			if n := removed.Load(); n != 0 {
				t.Errorf("%d removals without proof", n)
			}
			failing.Store(false)
			w.release(m)
			w.gone(m.HostDir())
			w.holds(w.mount(h, folderOne), "kept")
		})
	}
}

// What the call to unmount says decides nothing: it may fail and have done its work.
func TestTheExitStatusDecidesNothing(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	m := w.mount(h, folderOne)
	w.server.last().onStop = func() error { return nil }
	w.before = nil
	w.release(m)
	w.gone(m.HostDir())

	var calls atomic.Int64
	w.before = func(op, path string) error {
		if op == "unmount" && strings.Count(path, "/") > strings.Count(w.config.Root, "/")+1 {
			calls.Add(1)
			if err := (mount.Kernel{}).Unmount(path); err != nil {
				return err
			}
			return errors.New("it says that it failed")
		}
		return nil
	}
	needRoot(t)
	h = w.host()
	m = w.mount(h, folderOne)
	w.server.last().kill()
	<-w.server.last().Done()
	w.release(m)
	w.gone(m.HostDir())
	if calls.Load() == 0 {
		t.Error("nothing was unmounted by the host")
	}
}
