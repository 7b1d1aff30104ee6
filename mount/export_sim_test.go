//go:build linux

package mount

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// SimKernel is an operating system in which nothing is truly mounted:
// directories are real ones, and what is mounted at them is a list.
type SimKernel interface {
	Mountinfo() (string, error)
	List(dir string) (string, error)
	Unmount(dir string, force bool) error
	Abort(minor string) error
	Private(dir string) error
	// Removes is asked before a directory is removed or renamed.
	Removes(path string) error
	// Locked is told of each lock that was had, which is lost when its file is closed.
	Locked(path string, f *os.File)
}

// NewHostIn is NewHost in such a system.
func NewHostIn(ctx context.Context, c HostConfig, l Limits, k SimKernel) (*Host, error) {
	return newHost(ctx, c, simulated{model: k}, limits{probe: l.Probe, firstDelay: l.FirstDelay, maxDelay: l.MaxDelay})
}

type simulated struct {
	linux
	model SimKernel
}

var errMayNot = errors.New("this user may not")

func (s simulated) mountinfo() (string, error)                { return s.model.Mountinfo() }
func (s simulated) list(dir string) (string, error)           { return s.model.List(dir) }
func (s simulated) unmount(dir string, force bool) error      { return s.model.Unmount(dir, force) }
func (s simulated) unmountFUSE(context.Context, string) error { return errMayNot }
func (s simulated) abort(minor string) error                  { return s.model.Abort(minor) }
func (s simulated) private(dir string) error                  { return s.model.Private(dir) }
func (s simulated) inside(dir *os.File, name string) string   { return filepath.Join(dir.Name(), name) }

func (s simulated) lock(path string) (*os.File, error) {
	f, err := s.linux.lock(path)
	if f != nil {
		s.model.Locked(path, f)
	}
	return f, err
}

func (s simulated) rmdir(path string) error {
	if err := s.model.Removes(path); err != nil {
		return err
	}
	return s.linux.rmdir(path)
}

func (s simulated) rename(from, to string) error {
	if err := s.model.Removes(from); err != nil {
		return err
	}
	return s.linux.rename(from, to)
}
