//go:build linux

package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Missing(t, need.FUSE, "the right to mount, which is root's")
	}
}

// Traps 34 and 36: what serves a folder dies under load, and its directory
// stays a mount point that answers everything with an error. The folder is
// served again at the same directory, and references go on.
func TestAFolderThatDiedIsServedAgain(t *testing.T) {
	w := newHostWorld(t)
	h := w.host()
	m := w.mount(h, folderOne)
	w.put(m, "kept")
	for i := 1; i <= 2; i++ {
		one := w.server.last()
		one.kill()
		<-one.Done()
		eventually(t, "it lists again", func() bool {
			got := m.(mount.Reporter).Health(t.Context())
			return got.Liveness == mount.Alive && got.Restarts == i
		})
		w.holds(m, "kept")
	}
	w.put(m, "and more")
	again := w.mount(h, folderOne)
	if again.HostDir() != m.HostDir() {
		t.Errorf("it was at %s, and is at %s", m.HostDir(), again.HostDir())
	}
	w.holds(again, "and more")
	if n := len(w.server.all()); n != 3 {
		t.Errorf("served %d times", n)
	}
	w.wantLogged("level=WARN", "mount degraded", "kind=died", "cause=")
	w.wantLogged("level=INFO", "served again")
}

func (w *hostWorld) wantLogged(parts ...string) {
	w.t.Helper()
	(&world{t: w.t.(*testing.T), log: w.log}).wantLogged(parts...)
}

// Trap 36: between its death and its next life the directory is mounted and
// dead. Reading fails there, rather than to show an empty folder; Mount says that it
// is not available, and Health that it is dead and why.
func TestADeadMountIsNotAnEmptyFolder(t *testing.T) {
	w := newHostWorld(t)
	w.limits = mount.Limits{Probe: time.Second, FirstDelay: time.Hour, MaxDelay: time.Hour}
	w.config.StartTimeout = 3 * time.Second
	h := w.host()
	m := w.mount(h, folderOne)
	w.server.last().kill()
	<-w.server.last().Done()
	if _, err := os.ReadDir(m.HostDir()); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("reading what is dead: %v, want %v", err, syscall.ENOTCONN)
	}
	eventually(t, "it is known to be down", func() bool { return h.Status(t.Context()).Folders[0].State == "down" })
	if got := m.(mount.Reporter).Health(t.Context()); got.Liveness != mount.Dead || !errors.Is(got.Err, mount.ErrUnavailable) {
		t.Errorf("Health = %+v", got)
	}
	if got, err := h.Mount(t.Context(), hostSpec(folderOne)); got != nil || !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("Mount = %v, %v", got, err)
	}
	w.release(m)
	w.gone(m.HostDir())
	w.put(w.mount(h, folderOne), "there again")
}

// A mount that somebody took off is found by who wants it next.
func TestWhatWasUnmountedBehindItsBack(t *testing.T) {
	needRoot(t)
	w := newHostWorld(t)
	binds := &bindServer{base: t.TempDir()}
	w.config.Server = binds
	h := w.host()
	m := w.mount(h, folderOne)
	if err := syscall.Unmount(m.HostDir(), syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	again := w.mount(h, folderOne)
	w.put(again, "there again")
	w.holds(m, "there again")
}

// bindServer serves a directory by mounting it where it is wanted, in no time,
// so that it can be used where the time is not the machine's.
type bindServer struct {
	base    string
	written bool // a note is there; the test's own

	mu     sync.Mutex
	at     []time.Time // of each call of Serve
	served []*bindServing
	fails  bool
}

func (s *bindServer) Serve(_ context.Context, _ mount.Spec, dir string) (mount.Serving, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	if s.fails {
		return nil, errors.New("the storage is away")
	}
	if err := syscall.Mount(s.base, dir, "", syscall.MS_BIND, ""); err != nil {
		return nil, err
	}
	one := &bindServing{dir: dir, done: make(chan struct{})}
	s.served = append(s.served, one)
	return one, nil
}

func (s *bindServer) fail(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

func (s *bindServer) calls() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

type bindServing struct {
	dir  string
	done chan struct{}
	once sync.Once
}

func (s *bindServing) Done() <-chan struct{} { return s.done }
func (s *bindServing) Err() error            { return errors.New("it died") }
func (s *bindServing) Expires() time.Time    { return time.Time{} }
func (s *bindServing) die()                  { s.once.Do(func() { close(s.done) }) }
func (s *bindServing) Stop(context.Context) error {
	syscall.Unmount(s.dir, syscall.MNT_DETACH)
	s.die()
	return nil
}

// The pauses before a folder is served again grow from one second to thirty,
// begin anew once it has been up for a while, and there are so many in an hour and no more.
func TestPausesBetweenLives(t *testing.T) {
	needRoot(t)
	root := hostRoot(t)
	synctest.Test(t, func(t *testing.T) {
		binds := &bindServer{base: t.TempDir()}
		h, err := mount.NewHostOn(t.Context(), mount.HostConfig{Server: binds, Root: root, Restarts: 9},
			mount.Limits{Probe: time.Second, FirstDelay: time.Second, MaxDelay: 30 * time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		m, err := h.Mount(t.Context(), hostSpec(folderOne))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		binds.fail(true)
		binds.last().die()
		time.Sleep(2 * time.Minute)
		binds.fail(false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := m.(mount.Reporter).Health(t.Context()); got.Liveness != mount.Alive {
			t.Errorf("it is not back: %+v", got)
		}
		time.Sleep(time.Minute)
		died := time.Now()
		binds.last().die()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		binds.last().die()
		time.Sleep(2 * time.Hour)
		synctest.Wait()

		var pauses []time.Duration
		calls := binds.calls()
		for i, at := range calls[1:] {
			before := calls[i]
			switch at.Sub(began) {
			case died.Sub(began) + time.Second:
				before = died
			}
			pauses = append(pauses, at.Sub(before))
		}
		want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30, 1}
		for i, p := range want {
			if i >= len(pauses) || pauses[i] != p*time.Second {
				t.Fatalf("pauses %v, want %v seconds", pauses, want)
			}
		}
		// The tenth in an hour waits for the first to be an hour ago.
		if len(pauses) != 10 || calls[10].Sub(calls[1]) != time.Hour {
			t.Errorf("then %v, %v after the first", pauses[9:], calls[10].Sub(calls[1]))
		}
	})
}

// Where what is not mounted can be written, it may be written to while the
// folder is dead or away. It is kept, told of, and does not keep the folder away.
func TestWhatWasWrittenIntoTheGapIsKept(t *testing.T) {
	w := newHostWorld(t)
	w.before = func(op, _ string) error {
		if op == "private" {
			return syscall.EPERM
		}
		return nil
	}
	h := w.host()
	m := w.mount(h, folderOne)
	var once sync.Once
	w.server.before = func(_ context.Context, dir string) (mount.Serving, error) {
		var err error
		once.Do(func() {
			err = errors.Join(os.WriteFile(filepath.Join(dir, "stray"), []byte("mine"), 0o600), errors.New("not yet"))
		})
		return nil, err
	}
	w.server.last().kill()
	eventually(t, "it lists again", func() bool {
		got := m.(mount.Reporter).Health(t.Context())
		return got.Liveness == mount.Alive && got.Restarts == 2
	})
	w.put(m, "there again")
	left := h.Status(t.Context()).Leftovers
	if len(left) != 1 {
		t.Fatalf("leftovers %+v", left)
	}
	if text, err := os.ReadFile(filepath.Join(left[0].Dir, "stray")); err != nil || string(text) != "mine" {
		t.Errorf("the stray file: %q, %v", text, err)
	}
	w.wantLogged("level=ERROR", "leftover kept")
	w.close(h) // all is stopped and detached: what was kept is no error
	if left := w.host().Status(t.Context()).Leftovers; len(left) != 1 {
		t.Errorf("the next host tells of %+v", left)
	}
}
