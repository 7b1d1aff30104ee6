//go:build linux

package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// However many want a new folder at once, it is served once; and who gives up
// on the way takes it from nobody.
func TestOneServingHoweverManyReferences(t *testing.T) {
	w := newHostWorld(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.server.before = func(context.Context, string) (mount.Serving, error) {
		once.Do(func() { close(arrived) })
		<-goOn
		return nil, nil
	}
	h := w.host()
	impatient, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := h.Mount(impatient, hostSpec(folderOne))
		gaveUp <- err
	}()
	<-arrived
	const callers = 20
	mounts := make([]mount.Mount, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if mounts[i], err = h.Mount(t.Context(), hostSpec(folderOne)); err != nil {
				t.Errorf("Mount: %v", err)
			}
		})
	}
	eventually(t, "all wait", func() bool {
		s := h.Status(t.Context()).Folders
		return len(s) == 1 && s[0].References == callers+1 && s[0].State == "starting"
	})
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	close(goOn)
	all.Wait()
	if t.Failed() {
		return
	}
	if n := len(w.server.all()); n != 1 {
		t.Errorf("served %d times", n)
	}
	for _, m := range mounts[1:] {
		w.release(m)
	}
	w.put(mounts[0], "the last one still writes")
	w.release(mounts[0])
	w.gone(mounts[0].HostDir())
}

// Trap 13: the first to go pulled the folder from under the second. A
// reference gives itself up and nothing else, also when asked twice.
func TestNobodysReleaseTakesItFromAnother(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	first, second := w.mount(h, folderOne), w.mount(h, folderOne)
	for range 3 {
		w.release(first)
	}
	w.put(second, "mine")
	w.holds(second, "mine")
	w.release(second)
	third := w.mount(h, folderOne)
	w.release(first)
	w.release(second)
	w.holds(third, "mine")
}

// Who comes while the folder is being stopped waits for that, and gets it anew.
func TestMountWaitsForTheStop(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	first := w.mount(h, folderOne)
	w.put(first, "written out")
	stopping, goOn := make(chan struct{}), make(chan struct{})
	one := w.server.last()
	one.onStop = func() error { close(stopping); <-goOn; return nil }
	released := make(chan error, 1)
	go func() { released <- first.Release(t.Context()) }()
	<-stopping
	mounted := make(chan error, 1)
	var second mount.Mount
	go func() {
		var err error
		second, err = h.Mount(t.Context(), hostSpec(folderOne))
		mounted <- err
	}()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Mount(short, hostSpec(folderOne)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is being stopped: %v", err)
	}
	if n := len(w.server.all()); n != 1 {
		t.Errorf("served %d times before the stop was over", n)
	}
	close(goOn)
	if err := errors.Join(<-released, <-mounted); err != nil {
		t.Fatal(err)
	}
	w.holds(second, "written out")
}

// A stop that fails leaves the reference held and the folder as it was; it is
// served on, others may have it, and the next Release tries again.
func TestAStopThatFailsLeavesTheReference(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	m := w.mount(h, folderOne)
	busy := errors.New("busy")
	w.server.last().onStop = func() error { return busy }
	if err := m.Release(t.Context()); !errors.Is(err, busy) {
		t.Fatalf("Release = %v, want %v", err, busy)
	}
	w.put(m, "still held")
	other := w.mount(h, folderOne)
	w.holds(other, "still held")
	w.release(other)
	w.holds(m, "still held")
	w.server.last().onStop = nil
	w.release(m)
	w.gone(m.HostDir())
	if n := len(w.server.all()); n != 1 {
		t.Errorf("served %d times", n)
	}
}

// Who does not wait for the stop hears of it the next time.
func TestAReleaseThatIsGivenUpGoesOn(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	m := w.mount(h, folderOne)
	goOn := make(chan struct{})
	w.server.last().onStop = func() error { <-goOn; return nil }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Release(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Release = %v", err)
	}
	close(goOn)
	w.release(m)
	w.gone(m.HostDir())
}

// A closed host has stopped everything, whoever held it, and mounts nothing.
func TestClose(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	one, two := w.mount(h, folderOne), w.mount(h, folderTwo)
	w.put(one, "one")
	busy := errors.New("busy")
	w.server.last().onStop = func() error { return busy }
	if err := h.Close(t.Context()); !errors.Is(err, busy) {
		t.Fatalf("Close = %v, want %v", err, busy)
	}
	w.gone(one.HostDir())
	w.release(one)
	if _, err := h.Mount(t.Context(), hostSpec(folderOne)); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("Mount on a closed host = %v", err)
	}
	w.server.last().onStop = nil
	for range 2 {
		w.close(h)
	}
	w.release(two)
	w.gone(two.HostDir())
	if s := h.Status(t.Context()); s.Dir != "" || len(s.Folders) != 0 {
		t.Errorf("Status = %+v", s)
	}
}

// Close ends a start that is on its way.
func TestCloseEndsAStart(t *testing.T) {
	w := newHostWorld(t)
	arrived := make(chan struct{})
	w.server.before = func(ctx context.Context, _ string) (mount.Serving, error) {
		close(arrived)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h := w.host()
	got := make(chan error, 1)
	go func() {
		_, err := h.Mount(t.Context(), hostSpec(folderOne))
		got <- err
	}()
	<-arrived
	w.close(h)
	if err := <-got; !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("Mount = %v", err)
	}
}

// What the server refuses comes as it is; what else goes wrong is unavailable.
func TestErrorsOfTheServer(t *testing.T) {
	w := newHostWorld(t)
	field, broken := &access.FieldError{Field: "Row.Scope", Rule: "no"}, errors.New("broken")
	for _, c := range []struct {
		err  error
		want error
	}{
		{field, field},
		{fmt.Errorf("%w: no program", sandbox.ErrUnsupported), sandbox.ErrUnsupported},
		{mount.ErrUnavailable, mount.ErrUnavailable},
		{broken, broken},
	} {
		w.server.before = func(context.Context, string) (mount.Serving, error) { return nil, c.err }
		h := w.host()
		_, err := h.Mount(t.Context(), hostSpec(folderOne))
		if !errors.Is(err, c.want) {
			t.Errorf("%v: Mount = %v", c.err, err)
		}
		if c.err == broken && !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("%v is not unavailable", err)
		}
		if s := h.Status(t.Context()); len(s.Folders) != 0 {
			t.Errorf("left: %+v", s.Folders)
		}
		names, err := os.ReadDir(h.Status(t.Context()).Dir)
		if err != nil || len(names) != 0 {
			t.Errorf("trap 46: the stub stays: %v, %v", names, err)
		}
	}
	w.server.before = func(context.Context, string) (mount.Serving, error) { panic("driver's bug") }
	if _, err := w.host().Mount(t.Context(), hostSpec(folderOne)); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("a driver's panic: %v", err)
	}
}

// The mounts of a process are private to its namespace, and what is not
// mounted can't be written. Where the host may not, Status says so.
func TestPrivate(t *testing.T) {
	if os.Geteuid() != 0 {
		needRoot(t)
	}
	w := newHostWorld(t)
	h := w.host()
	s := h.Status(t.Context())
	if s.Shared != nil {
		t.Fatalf("as root: %v", s.Shared)
	}
	if err := os.WriteFile(s.Dir+"/stray", nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("beside the folders something can be written: %v", err)
	}
	w.before = func(op, _ string) error {
		if op == "private" || op == "unmount" {
			return syscall.EPERM
		}
		return nil
	}
	h = w.host()
	if s := h.Status(t.Context()); !errors.Is(s.Shared, syscall.EPERM) {
		t.Errorf("Shared = %v, want %v", s.Shared, syscall.EPERM)
	}
	m := w.mount(h, folderOne)
	w.put(m, "works all the same")
	w.release(m)
	w.gone(m.HostDir())
}

// Health and Refresh go to what serves the folder now.
func TestHealthAndRefresh(t *testing.T) {
	w := newHostWorld(t)
	m := w.mount(w.host(), folderOne)
	one := w.server.last()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	one.mu.Lock()
	one.expires = at
	one.mu.Unlock()
	got := m.(mount.Reporter).Health(t.Context())
	if got.Liveness != mount.Alive || got.Err != nil || got.Restarts != 0 || !got.Expires.Equal(at) {
		t.Errorf("Health = %+v", got)
	}
	if err := m.(mount.Refresher).Refresh(t.Context()); err != nil || one.refreshed != 1 {
		t.Errorf("Refresh: %v, %d times", err, one.refreshed)
	}
	w.release(m)
	if got := m.(mount.Reporter).Health(t.Context()); got.Liveness != mount.Dead || got.Err == nil {
		t.Errorf("after its release: %+v", got)
	}
}
