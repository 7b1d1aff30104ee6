//go:build linux

package mount_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// simMounted is one mount, as the kernel lists it.
type simMounted struct {
	id      string
	dir     string
	serving *simServing // nil: a directory that is mounted onto itself
}

// simKernel is the kernel as one process asks it.
type simKernel struct{ p *simProcess }

// where names a directory so that it is the same in every run: those of processes are named by chance.
func (s *sim) where(dir string) string {
	rel, err := filepath.Rel(s.root, dir)
	if err != nil {
		return dir
	}
	own, rest, _ := strings.Cut(rel, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, stray, ok := strings.Cut(rest, "-stray-"); ok && stray != "" {
		rest = at + "-stray"
	}
	return s.places[own] + "/" + rest
}

// top is what is mounted on top exactly at dir; mu is held.
func (s *sim) top(dir string) *simMounted {
	for i := len(s.table) - 1; i >= 0; i-- {
		if s.table[i].dir == dir {
			return s.table[i]
		}
	}
	return nil
}

func (k simKernel) Mountinfo() (string, error) {
	s := k.p.sim
	if err := k.p.alive(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.tableBroken) && !s.ended {
		return "", errSimOutage
	}
	var b strings.Builder
	fmt.Fprintln(&b, "1 0 8:1 / / rw - ext4 /dev/root rw")
	for _, m := range s.table {
		device, kind := "8:1", "ext4"
		if m.serving != nil {
			device, kind = "0:"+m.serving.minor, "fuse.sim"
		}
		fmt.Fprintf(&b, "%s 1 %s / %s rw - %s sim rw\n", m.id, device, m.dir, kind)
	}
	return b.String(), nil
}

func (k simKernel) List(dir string) (string, error) {
	s := k.p.sim
	// Who of several that wait for one listing has which is up to Go: they have it in one step.
	s.mu.Lock()
	at := fmt.Sprint(k.p, dir)
	turn := s.listed[at].Equal(time.Now())
	s.mu.Unlock()
	if !turn {
		if _, err := k.p.park(context.Background(), "list", s.where(dir)); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	s.listed[at] = time.Now()
	s.mu.Unlock()
	id, err := s.list(context.Background(), dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.top(dir); err == nil && m != nil && m.serving != nil {
		s.seen[fmt.Sprint(k.p, m.serving.mount)] = time.Now()
	}
	return id, err
}

// list lists a directory, which hangs where the file system does.
func (s *sim) list(ctx context.Context, dir string) (string, error) {
	s.mu.Lock()
	m := s.top(dir)
	s.mu.Unlock()
	if m == nil || m.serving == nil {
		if _, err := os.Stat(dir); err != nil {
			return "", err
		}
		return "1", nil
	}
	if err := m.serving.answers(ctx); err != nil {
		return "", &fs.PathError{Op: "list", Path: dir, Err: err}
	}
	return m.id, nil
}

func (k simKernel) Unmount(dir string, force bool) error {
	s := k.p.sim
	s.mu.Lock()
	m := s.top(dir) // what it is that is taken off is known when the call begins, however long it takes
	if m != nil && m.serving != nil && m.serving.p != k.p && !m.serving.p.dead {
		s.violate("adoption", "%v unmounts %v, whose process lives", k.p, m.serving)
	}
	s.mu.Unlock()
	if m != nil && m.serving != nil {
		m.serving.checkEnd("unmounted")
	}
	v, err := k.p.park(context.Background(), "unmount", fmt.Sprint(s.where(dir), " ", force))
	if err == nil {
		err = v.fail
	}
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if err != nil && !ended {
		return &fs.PathError{Op: "unmount", Path: dir, Err: syscall.EBUSY}
	}
	if m == nil || !s.detach(m) {
		return &fs.PathError{Op: "unmount", Path: dir, Err: syscall.EINVAL}
	}
	if m.serving != nil {
		if force {
			m.serving.let(true)
		}
		m.serving.unmounted()
	}
	return nil
}

func (k simKernel) Abort(minor string) error {
	s := k.p.sim
	if _, err := k.p.park(context.Background(), "abort", minor); err != nil {
		return err
	}
	s.mu.Lock()
	var found *simServing
	for _, v := range s.servings {
		if v.minor == minor {
			found = v
		}
	}
	s.mu.Unlock()
	if found == nil {
		return fs.ErrNotExist
	}
	found.let(true)
	return nil
}

func (k simKernel) Private(dir string) error {
	s := k.p.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.private {
		return syscall.EPERM
	}
	s.mounts++
	s.table = append(s.table, &simMounted{id: fmt.Sprint(100 + s.mounts), dir: dir})
	return nil
}

// Removes: nothing is ever removed while something is mounted at it or below.
func (k simKernel) Removes(path string) error {
	s := k.p.sim
	if err := k.p.alive(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.table {
		if m.serving != nil && (m.dir == path || strings.HasPrefix(m.dir, path+"/")) {
			s.violate("proof of detachment", "%v removes a directory at which something is mounted still", k.p)
			return syscall.EBUSY
		}
	}
	return nil
}

func (k simKernel) Locked(path string, f *os.File) {
	s := k.p.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	k.p.locks = append(k.p.locks, f)
	own := strings.TrimSuffix(filepath.Base(path), ".lock")
	if s.places[own] == "" {
		s.places[own] = k.p.String()
	}
}

// attach mounts what is served at its directory.
func (s *sim) attach(v *simServing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-v.done:
		return
	default:
	}
	if _, err := os.Stat(v.dir); err != nil {
		s.violate("owner", "%v mounts at a directory that was removed while it served", v)
		return
	}
	if m := s.top(v.dir); m != nil {
		s.violate("owner", "%v is mounted over %v", v, m.serving)
	}
	s.mounts++
	s.table = append(s.table, &simMounted{id: fmt.Sprint(100 + s.mounts), dir: v.dir, serving: v})
	s.note("%v is mounted", v)
}

// detach takes a mount off, and reports whether it was there.
func (s *sim) detach(m *simMounted) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.table, m)
	if at >= 0 {
		s.table = slices.Delete(s.table, at, at+1)
	}
	return at >= 0
}
