//go:build linux

package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/jacobsa/fuse"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
)

// serveAt and serveFrom are the variables by which this program, run as a
// child, serves a directory at another.
const (
	serveAt   = "BUNKROOM_TEST_SERVE_AT"
	serveFrom = "BUNKROOM_TEST_SERVE_FROM"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(serveAt) != "":
		os.Exit(serveChild(os.Getenv(serveAt), os.Getenv(serveFrom)))
	case os.Getenv(hostRootVar) != "":
		os.Exit(hostChild())
	}
	os.Exit(m.Run())
}

// serveChild serves until it is told to end, and hangs once it is told so.
func serveChild(dir, base string) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	fsys := newMirror(base)
	mounted, err := fsys.serve(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGUSR1 {
				fsys.hang()
				continue
			}
			// Busy, as while somebody lists it, it goes once it is not.
			if fuse.Unmount(dir) != nil {
				exec.Command("fusermount3", "-u", "-z", dir).Run()
			}
		}
	}()
	if err := mounted.Join(context.Background()); err != nil {
		return 1
	}
	return 0
}

func needFUSE(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("fusermount3"); err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	f.Close()
}

// fuseServer keeps folders as directories below base and serves each by a
// child, or where inside is set by this process.
type fuseServer struct {
	t      testing.TB
	base   string
	inside bool
	grace  time.Duration                                                // a child has between the request to end and the kill
	before func(ctx context.Context, dir string) (mount.Serving, error) // nil = nothing; both nil: go on

	mu     sync.Mutex
	served []*fuseServing
}

func newFUSEServer(t testing.TB) *fuseServer {
	needFUSE(t)
	s := &fuseServer{t: t, base: t.TempDir(), grace: 2 * time.Second}
	t.Cleanup(func() {
		for _, one := range s.all() {
			one.kill()
		}
	})
	return s
}

func (s *fuseServer) all() []*fuseServing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[:len(s.served):len(s.served)]
}

// last is what was served last.
func (s *fuseServer) last() *fuseServing {
	all := s.all()
	return all[len(all)-1]
}

func (s *fuseServer) Serve(ctx context.Context, spec mount.Spec, dir string) (mount.Serving, error) {
	if s.before != nil {
		if got, err := s.before(ctx, dir); got != nil || err != nil {
			return got, err
		}
	}
	base := filepath.Join(s.base, id.Named(spec.Row.Scope), string(spec.Row.ID))
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	one := &fuseServing{dir: dir, done: make(chan struct{}), grace: s.grace}
	var err error
	if s.inside {
		err = one.here(base)
	} else {
		err = one.child(base)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = append(s.served, one)
	return one, nil
}

type fuseServing struct {
	dir   string
	done  chan struct{}
	grace time.Duration // between the request to end and the kill
	cmd   *exec.Cmd     // nil where it is served by this process
	fsys  *mirror       // nil where it is not

	mu        sync.Mutex
	err       error
	stopped   bool
	refreshed int
	expires   time.Time
	onStop    func() error
}

func (s *fuseServing) child(base string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s.cmd = exec.Command(program)
	s.cmd.Env = append(os.Environ(), serveAt+"="+s.dir, serveFrom+"="+base)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() { s.end(s.cmd.Wait()) }()
	return nil
}

func (s *fuseServing) here(base string) error {
	s.fsys = newMirror(base)
	mounted, err := s.fsys.serve(s.dir)
	if err != nil {
		return err
	}
	go func() { s.end(mounted.Join(context.Background())) }()
	return pollOnce(s.dir, base)
}

// pollOnce has the kernel learn that the file system knows no poll. Package os
// polls what it opens by a call during which the runtime can't run anything else on
// the same processor, and what is served by the same process needs that to answer.
func pollOnce(dir, base string) error {
	const name = ".poll"
	if err := os.WriteFile(filepath.Join(base, name), nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(base, name))
	fd, err := syscall.Open(filepath.Join(dir, name), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer syscall.Close(poll)
	// syscall.EpollCtl is a call of that kind too.
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}
	_, _, failed := syscall.Syscall6(syscall.SYS_EPOLL_CTL, uintptr(poll), syscall.EPOLL_CTL_ADD, uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	if failed != 0 && failed != syscall.EPERM {
		return failed
	}
	return nil
}

func (s *fuseServing) end(err error) {
	s.mu.Lock()
	if !s.stopped {
		s.err = fmt.Errorf("it died: %v", err)
	}
	s.mu.Unlock()
	close(s.done)
}

func (s *fuseServing) Done() <-chan struct{} { return s.done }

func (s *fuseServing) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *fuseServing) Expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expires
}

func (s *fuseServing) Refresh(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshed++
	return nil
}

// Stop asks for the end and waits for it. A child that does not end is killed;
// what this process serves can't be.
func (s *fuseServing) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	onStop := s.onStop
	s.mu.Unlock()
	if onStop != nil {
		if err := onStop(); err != nil {
			return err
		}
	}
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGTERM)
		killed := time.AfterFunc(s.grace, s.kill)
		defer killed.Stop()
	} else {
		go func() {
			if fuse.Unmount(s.dir) != nil {
				exec.Command("fusermount3", "-u", "-z", s.dir).Run()
			}
		}()
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return errors.New("it does not end")
	}
}

// hang has it answer nothing from now on.
func (s *fuseServing) hang() {
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGUSR1)
		return
	}
	s.fsys.hang()
}

// kill ends it as kill -9 does, or where this process serves it, lets it answer.
func (s *fuseServing) kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		return
	}
	s.fsys.answer()
}
