//go:build linux

package local

import (
	"errors"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// deepName is what the names begin with of directories that were moved up to be removed.
const deepName = ".deep-"

// removeDeep removes the directory path and all below it, with no more than a
// few open files however deep that is: what runs in a machine can nest
// directories as deep as it likes, and so could make itself a machine that
// can't be removed by whoever opens one in the other. What is not empty is moved up, to stand beside
// path, where nobody else may write. It follows no link.
func removeDeep(path string) error {
	top, err := openDir(unix.AT_FDCWD, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unix.Close(top)
	r := &remover{top: top, todo: []string{filepath.Base(path)}, buf: make([]byte, 32<<10)}
	for n := len(r.todo); n > 0; n = len(r.todo) {
		name := r.todo[n-1]
		r.todo = r.todo[:n-1]
		if err := r.remove(name); err != nil {
			return err
		}
	}
	return nil
}

type remover struct {
	top   int
	todo  []string // directories in top that are to be removed
	moved int
	buf   []byte
}

// remove removes a directory in top, and what is in it but for the
// directories that are not empty: those are in todo then.
func (r *remover) remove(name string) error {
	dir, err := openOwn(r.top, name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for again := true; again; { // what is removed meanwhile may hide what comes next
		again = false
		if _, err := unix.Seek(dir, 0, 0); err != nil {
			return err
		}
		for {
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
			for _, entry := range names {
				again = true
				if err := r.entry(dir, entry); err != nil {
					return err
				}
			}
		}
	}
	return unix.Unlinkat(r.top, name, unix.AT_REMOVEDIR)
}

// entry removes what has this name in dir, or moves it up.
func (r *remover) entry(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != unix.ENOTEMPTY && err != unix.EEXIST {
		return err
	}
	own, err := openOwn(dir, name) // one that its owner may not write can't be moved
	if err != nil {
		return err
	}
	unix.Close(own)
	for {
		r.moved++
		up := deepName + strconv.Itoa(r.moved)
		err := unix.Renameat2(dir, name, r.top, up, unix.RENAME_NOREPLACE)
		if err == nil {
			r.todo = append(r.todo, up)
		}
		if !errors.Is(err, unix.EEXIST) { // which an earlier attempt has left
			return err
		}
	}
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
