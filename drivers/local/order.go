//go:build linux

package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// locksDir has the locks of who puts files in their places, of which a handle,
// a provider and a process of the host each may have some. They lie beside the
// machines, where no confined process sees them: what it could lock itself, such
// as the directory in question, it could also hold up.
const locksDir = "locks"

// ways are how many locks the directories of one file system share. They are
// held for a rename; that of a file system which does not answer holds up nobody but its own users.
const ways = 256

// way is the lock that a directory goes by.
type way struct {
	dev uint64
	n   uint64
}

// order holds the locks of directories, shared or alone. Who looks at a file and then
// replaces it holds alone; who replaces, moves or removes one without looking, shared.
func (p *Provider) order(how int, dirs ...*os.Root) (release func(), err error) {
	var all []way
	for _, dir := range dirs {
		i, err := dir.Stat(".")
		if err != nil {
			return nil, err
		}
		st, ok := i.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, fmt.Errorf("local: no number of a directory in %T", i.Sys())
		}
		all = append(all, way{st.Dev, st.Ino % ways})
	}
	// In one order, so that two who need two never wait for each other.
	slices.SortFunc(all, func(a, b way) int { return cmp.Or(cmp.Compare(a.dev, b.dev), cmp.Compare(a.n, b.n)) })
	var held []func()
	release = func() {
		for _, unlock := range held {
			unlock()
		}
	}
	for _, w := range slices.Compact(all) {
		unlock, err := p.way(w, how)
		if err != nil {
			release()
			return nil, fmt.Errorf("lock a directory: %w", err)
		}
		held = append(held, unlock)
	}
	return release, nil
}

func (p *Provider) way(w way, how int) (unlock func(), err error) {
	dir := filepath.Join(p.root, locksDir, fmt.Sprintf("%x", w.dev))
	name := filepath.Join(dir, fmt.Sprintf("%02x", w.n))
	fd, err := syscall.Open(name, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ENOENT) { // nobody needed it before
		if err = os.Mkdir(dir, 0o700); err == nil || errors.Is(err, os.ErrExist) {
			fd, err = syscall.Open(name, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(fd, how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return func() {
		syscall.Flock(fd, syscall.LOCK_UN) // a child that is just being started may have it too
		syscall.Close(fd)
	}, nil
}
