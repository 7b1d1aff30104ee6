//go:build linux

package local

import (
	"context"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// deepName is what the names begin with of directories that were moved up to be removed.
const deepName = ".deep-"

// deepLevels is how many directories within one another are open at a time as a tree is removed.
const deepLevels = 64

// remover removes a directory and all below it, with no more than a
// few open files however deep that is: what runs in a machine can nest
// directories as deep as it likes, and so could make itself a tree that
// can't be removed by whoever opens one in the other. What lies too deep is moved up, into
// the directory that is being removed. It follows no link.
type remover struct {
	ctx  context.Context
	open func(dir int, name string) (int, error) // opens a directory, and no link to one
	top  int                                     // what is being removed
	buf  []byte
}

// removeDeep removes the directory path and all below it, whatever of it its owner has closed to himself.
func removeDeep(path string) error {
	parent, err := openDir(unix.AT_FDCWD, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return removeAt(context.Background(), parent, filepath.Base(path), openOwn)
}

// removeAt removes the directory that has this name in parent, and all below it, for as long as ctx lasts.
func removeAt(ctx context.Context, parent int, name string, open func(dir int, name string) (int, error)) error {
	if unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) == nil { // an empty one need not be opened
		return nil
	}
	top, err := open(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	r := &remover{ctx: ctx, open: open, top: top, buf: make([]byte, 32<<10)}
	if err = r.empty(top, 1); err == nil {
		err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	}
	if err == unix.ENOENT { // somebody else has removed it meanwhile
		return nil
	}
	return err
}

// empty removes what is in a directory, which is the level-th of those that are open.
func (r *remover) empty(dir, level int) error {
	for again := true; again; { // what is removed or moved up meanwhile may hide what comes next
		again = false
		if _, err := unix.Seek(dir, 0, 0); err != nil {
			return err
		}
		for {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			n, err := unix.ReadDirent(dir, r.buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			if n <= 0 {
				break
			}
			_, _, names := unix.ParseDirent(r.buf[:n], -1, nil)
			for _, name := range names {
				again = true
				if err := r.entry(dir, name, level); err != nil && err != unix.ENOENT {
					return err
				}
			}
		}
	}
	return nil
}

// entry removes what has this name in dir, or moves it up.
func (r *remover) entry(dir int, name string, level int) error {
	no := unix.Unlinkat(dir, name, 0)
	if no != unix.EISDIR && no != unix.EPERM {
		return no
	}
	switch err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err {
	case unix.ENOTEMPTY, unix.EEXIST:
	case unix.ENOTDIR:
		return no
	default:
		return err
	}
	below, err := r.open(dir, name) // one that its owner may not write can't be moved either
	if err != nil {
		return err
	}
	defer unix.Close(below)
	if level == deepLevels {
		return unix.Renameat(dir, name, r.top, deepName+newID())
	}
	if err := r.empty(below, level+1); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// openOwn opens a directory, and no link to one, that its owner may have closed to himself.
func openOwn(dir int, name string) (int, error) {
	fd, err := openDir(dir, name)
	var st unix.Stat_t
	switch {
	case err == nil:
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
			err = unix.Fchmod(fd, 0o700)
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	case err != unix.EACCES:
		return -1, err
	}
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(at), 0o700); err != nil {
		return -1, err
	}
	return openDir(dir, name)
}
