//go:build linux

package local

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// orderFile is what the locks are on of who puts files in their places, of which a handle,
// a provider and a process of the host each may have some. It lies beside the
// machines, where no confined process sees it: what it could lock itself, such
// as the directory in question, it could also hold up. It is one file for all, made before it is
// needed: on a disk on which no file more can be made, files are still removed.
const orderFile = "order.lock"

// ways are how many locks the directories of one file system share. They are
// held for a rename; that of a file system which does not answer holds up nobody but its own users.
const ways = 256

// way is the lock that a directory goes by: a byte of the file, which is empty.
func way(dev, ino uint64) int64 { return int64((dev*ways + ino%ways) & math.MaxInt64) }

// order holds the locks of directories, shared or alone. Who looks at a file and then
// replaces it holds alone; who replaces, moves or removes one without looking, shared.
func (p *Provider) order(how int16, dirs ...*os.Root) (release func(), err error) {
	var all []int64
	for _, dir := range dirs {
		i, err := dir.Stat(".")
		if err != nil {
			return nil, err
		}
		st, ok := i.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, fmt.Errorf("local: no number of a directory in %T", i.Sys())
		}
		all = append(all, way(st.Dev, st.Ino))
	}
	fd, err := syscall.Open(filepath.Join(p.root, orderFile), syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("lock a directory: %w", err)
	}
	release = func() {
		_ = lockBytes(fd, unix.F_UNLCK, 0, 0) // a child that is just being started may have it too
		syscall.Close(fd)
	}
	// In one order, so that two who need two never wait for each other.
	slices.SortFunc(all, cmp.Compare)
	for _, w := range slices.Compact(all) {
		if err := lockBytes(fd, how, w, 1); err != nil {
			release()
			return nil, fmt.Errorf("lock a directory: %w", err)
		}
	}
	return release, nil
}

// lockBytes waits for a lock on n bytes of a file, 0 for all, which belongs to
// that open file and not to the process.
func lockBytes(fd int, how int16, at, n int64) error {
	for {
		if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLKW, &unix.Flock_t{Type: how, Start: at, Len: n}); err != unix.EINTR {
			return err
		}
	}
}
