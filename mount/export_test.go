package mount

import (
	"context"
	"os"
	"time"
)

// Faulty is the real kernel, which is asked through Before: its error is the answer.
type Faulty struct {
	kernel
	Before func(op, path string) error
}

// Limits are the durations of a host that no configuration has.
type Limits struct{ Probe, FirstDelay, MaxDelay time.Duration }

// NewHostOn is NewHost with faults and short durations. before may be nil.
func NewHostOn(ctx context.Context, c HostConfig, l Limits, before func(op, path string) error) (*Host, error) {
	k, err := newKernel()
	if err != nil {
		return nil, err
	}
	if before != nil {
		k = Faulty{k, before}
	}
	return newHost(ctx, c, k, limits{probe: l.Probe, firstDelay: l.FirstDelay, maxDelay: l.MaxDelay})
}

func (f Faulty) mountinfo() (string, error) {
	if err := f.Before("mountinfo", ""); err != nil {
		return "", err
	}
	return f.kernel.mountinfo()
}

func (f Faulty) list(dir string) (string, error) {
	if err := f.Before("list", dir); err != nil {
		return "", err
	}
	return f.kernel.list(dir)
}

func (f Faulty) unmount(dir string, force bool) error {
	if err := f.Before("unmount", dir); err != nil {
		return err
	}
	return f.kernel.unmount(dir, force)
}

func (f Faulty) unmountFUSE(ctx context.Context, dir string) error {
	if err := f.Before("fusermount", dir); err != nil {
		return err
	}
	return f.kernel.unmountFUSE(ctx, dir)
}

func (f Faulty) abort(minor string) error {
	if err := f.Before("abort", minor); err != nil {
		return err
	}
	return f.kernel.abort(minor)
}

func (f Faulty) private(dir string) error {
	if err := f.Before("private", dir); err != nil {
		return err
	}
	return f.kernel.private(dir)
}

func (f Faulty) open(dir string) (*os.File, error) {
	if err := f.Before("open", dir); err != nil {
		return nil, err
	}
	return f.kernel.open(dir)
}

func (f Faulty) lock(path string) (*os.File, error) {
	if err := f.Before("lock", path); err != nil {
		return nil, err
	}
	return f.kernel.lock(path)
}

func (f Faulty) mkdir(path string) error {
	if err := f.Before("mkdir", path); err != nil {
		return err
	}
	return f.kernel.mkdir(path)
}

func (f Faulty) rmdir(path string) error {
	if err := f.Before("rmdir", path); err != nil {
		return err
	}
	return f.kernel.rmdir(path)
}

func (f Faulty) names(dir string) ([]string, error) {
	if err := f.Before("names", dir); err != nil {
		return nil, err
	}
	return f.kernel.names(dir)
}

func (f Faulty) rename(from, to string) error {
	if err := f.Before("rename", from); err != nil {
		return err
	}
	return f.kernel.rename(from, to)
}

// ParseMountinfo is what was made of a text: of each line the path, the kind and the device.
func ParseMountinfo(text string) ([][3]string, error) {
	t, err := parseMountinfo(text)
	var all [][3]string
	for _, m := range t {
		all = append(all, [3]string{m.path, m.kind, m.device})
	}
	return all, err
}

// Within are the paths that a text says to be mounted at dir or below, and
// Own the FUSE connections that show there only.
func Within(text, dir string) (paths []string, own map[string]bool, err error) {
	t, err := parseMountinfo(text)
	for _, m := range t.within(dir) {
		paths = append(paths, m.path)
	}
	return paths, t.own(dir), err
}

// Kernel unmounts as a host does.
type Kernel struct{}

// Unmount takes off what is mounted at dir.
func (Kernel) Unmount(dir string) error {
	k, err := newKernel()
	if err != nil {
		return err
	}
	return k.unmount(dir, false)
}

// Places is at how many paths of machines something is carried.
func (m *Manager) Places() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.places)
}
