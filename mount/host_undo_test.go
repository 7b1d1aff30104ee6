//go:build linux

package mount_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// slowServer serves as a bindServer does, and takes its time to write out: what was
// written lands in the storage at the very end, and only where nobody cuts it off.
type slowServer struct {
	bindServer
	takes time.Duration

	mu      sync.Mutex
	written int // how often all was written out
	cut     int // calls of Stop whose context ended first
}

type slowServing struct {
	*bindServing
	s    *slowServer
	once sync.Once
	done chan struct{}
}

func (s *slowServer) Serve(ctx context.Context, spec mount.Spec, dir string) (mount.Serving, error) {
	if _, err := s.bindServer.Serve(ctx, spec, dir); err != nil {
		return nil, err
	}
	return &slowServing{bindServing: s.last(), s: s, done: make(chan struct{})}, nil
}

// Stop begins to write out, and tells when that is over. Where ctx ends first it goes on.
func (v *slowServing) Stop(ctx context.Context) error {
	v.once.Do(func() {
		go func() {
			<-time.After(v.s.takes)
			v.s.mu.Lock()
			v.s.written++
			v.s.mu.Unlock()
			close(v.done)
		}()
	})
	select {
	case <-v.done:
		return v.bindServing.Stop(ctx)
	case <-ctx.Done():
		v.s.mu.Lock()
		v.s.cut++
		v.s.mu.Unlock()
		return ctx.Err()
	}
}

// An undo that is given up after 10 s, while what serves the folder may take 30 s to
// stop, or longer than that, leaves no reference that nobody releases: all is written out, nothing stays
// mounted, the place is free and the lock is given up, whoever the caller is and whether
// or not it asks again.
func TestAnUndoOutlastsASlowStop(t *testing.T) {
	needRoot(t)
	broken := errors.New("broken")
	agent := func(ctx context.Context, m *mount.Manager, sb *rigged) error {
		c, err := m.Carry(ctx, sb, request("reviewer"))
		if err == nil {
			err = c.Outcomes[0].Cause
		}
		return err
	}
	workdir := func(ctx context.Context, m *mount.Manager, sb *rigged) error {
		_, err := m.CarryWorkdir(ctx, sb, request(""))
		return err
	}
	released := func(ctx context.Context, m *mount.Manager, sb *rigged) error {
		sb.before = nil
		c, err := m.Carry(ctx, sb, request("reviewer"))
		if err != nil || c.Outcomes[0].State != mount.Mounted {
			return errors.Join(err, errors.New("not carried"))
		}
		if err := c.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(err, errors.New("the release has waited for as long as it takes"))
		}
		return broken
	}
	for _, c := range []struct {
		rule   string
		policy mount.Policy
		panics bool
		carry  func(context.Context, *mount.Manager, *rigged) error
	}{
		{"an agent's folder, and nobody gets anything to release", mount.Required, false, agent},
		{"an agent's folder, and the caller does not ask again", mount.BestEffort, false, agent},
		{"a driver panics, and its caller has nothing", mount.BestEffort, true, agent},
		{"a working directory, whose lock is given up last", mount.Required, false, workdir},
		{"an agent's folder that was there, and is released once", mount.Required, false, released},
	} {
		for _, takes := range []time.Duration{20 * time.Second, 45 * time.Second} {
			t.Run(c.rule+" "+takes.String(), func(t *testing.T) {
				root := hostRoot(t)
				synctest.Test(t, func(t *testing.T) {
					server := &slowServer{bindServer: bindServer{base: t.TempDir()}, takes: takes}
					h, err := mount.NewHostOn(t.Context(), mount.HostConfig{Server: server, Root: root},
						mount.Limits{Probe: time.Second, FirstDelay: time.Second, MaxDelay: 30 * time.Second}, nil)
					if err != nil {
						t.Fatal(err)
					}
					w, l := newWorld(t), newLocks()
					m := w.inProcess(l, func(conf *mount.Config) { conf.Mounter, conf.Policy = h, c.policy })
					sb := w.open("m")
					sb.before = func(op, _ string) error {
						switch {
						case op != "bind":
							return nil
						case c.panics:
							panic(broken)
						}
						return broken
					}
					func() {
						defer func() {
							if p := recover(); p != nil && p != any(broken) {
								panic(p)
							}
						}()
						began := time.Now()
						err := c.carry(t.Context(), m, sb)
						if !errors.Is(err, broken) {
							t.Errorf("%v, want %v", err, broken)
						}
						if took := time.Since(began); took != 10*time.Second {
							t.Errorf("the caller waited for %v", took)
						}
					}()
					time.Sleep(3 * time.Minute)
					synctest.Wait()
					if s := h.Status(t.Context()); len(s.Folders) != 0 {
						t.Errorf("still there: %+v", s.Folders)
					}
					if server.written != 1 || len(server.calls()) != 1 {
						t.Errorf("written out %d times of %d", server.written, len(server.calls()))
					}
					if n := m.Places(); n != 0 {
						t.Errorf("%d places are still taken", n)
					}
					if n := l.count(); n != 0 {
						t.Errorf("%d locks are still held", n)
					}
					if err := h.Close(context.Background()); err != nil {
						t.Error(err)
					}
					if left, err := filepath.Glob(filepath.Join(root, "*")); err != nil || len(left) != 0 {
						t.Errorf("the root holds %v, %v", left, err)
					}
				})
			})
		}
	}
}

// A mount that comes after the caller has gone, and can't be released at once, is
// nobody's but the manager's: it is tried again until it is.
func TestALateMountIsReleasedForCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hung, busy := make(chan struct{}), errors.New("busy")
		w.mounter.before = func(context.Context) error { <-hung; return nil }
		until := time.Now().Add(mount.DefaultTimeout + 10*time.Minute)
		w.mounter.release = func() error {
			if time.Now().Before(until) {
				return busy
			}
			return nil
		}
		m := w.manager(func(c *mount.Config) { c.Policy = mount.Required })
		if _, err := m.Carry(t.Context(), w.open("m"), request("reviewer")); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("Carry = %v", err)
		}
		close(hung)
		synctest.Wait()
		if n := w.mounter.references(); n != 1 {
			t.Errorf("%d references while it can't be released", n)
		}
		time.Sleep(11 * time.Minute)
		w.wantNothingHeld()
	})
}

// What can't be given up for longer than an hour is spoken of once, as an error, and is
// given up all the same when it can be.
func TestWhatTakesHoursToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, busy := newWorld(t), errors.New("busy")
		until := time.Now().Add(26 * time.Hour)
		w.mounter.release = func() error {
			if time.Now().Before(until) {
				return busy
			}
			return nil
		}
		m := w.manager(nil)
		c, err := m.Carry(t.Context(), w.open("m"), request("reviewer"))
		if err != nil || c.Outcomes[0].State != mount.Mounted {
			t.Fatalf("Carry = %+v, %v", c, err)
		}
		for range 2 {
			if err := c.Release(t.Context()); !errors.Is(err, busy) {
				t.Errorf("Release = %v", err)
			}
		}
		time.Sleep(2 * time.Hour)
		w.wantLogged("level=ERROR", "not given up", "busy")
		time.Sleep(25 * time.Hour)
		w.wantNothingHeld()
		if n := m.Places(); n != 0 {
			t.Errorf("%d places are still taken", n)
		}
	})
}
