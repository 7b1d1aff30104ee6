//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Rename goes by the two directories, which are open by then: no link that is
// put on the way meanwhile leads anywhere. NoReplace needs a file system that can do it at once; another is ErrUnsupported.
func (f *files) Rename(ctx context.Context, from, to string, opts *sandbox.RenameOptions) error {
	if opts == nil {
		opts = &sandbox.RenameOptions{}
	}
	return f.do(ctx, "rename", from, keepTail, func(src spot) error {
		old, err := openEntry(src)
		if err != nil {
			return err
		}
		defer old.dir.Close()
		return f.in(to, keepTail, func(dst spot) error {
			if src.place != dst.place {
				return sandbox.ErrCrossDevice
			}
			fresh, err := openEntry(dst)
			if err != nil {
				return err
			}
			defer fresh.dir.Close()
			if _, below := sandbox.PathWithin(src.rel, dst.rel); below && src.rel != dst.rel {
				return errIntoItself
			}
			return f.move(old, fresh, opts.NoReplace)
		})
	})
}

var errIntoItself = fmt.Errorf("%w: nothing can be moved into itself", sandbox.ErrInvalid)

// entry is a name in a directory that is open.
type entry struct {
	dir  *os.Root
	name string
}

func openEntry(s spot) (entry, error) {
	if s.rel == "." {
		return entry{}, fmt.Errorf("%w: it is the root of a folder", sandbox.ErrInvalid)
	}
	at := path.Dir(s.rel)
	dir, err := s.root.OpenRoot(at)
	if err == nil {
		return entry{dir, path.Base(s.rel)}, nil
	}
	// What OpenRoot says of a file is no error of the system's.
	if is, e := s.root.Stat(at); e == nil && !is.IsDir() {
		err = sandbox.ErrNotDir
	}
	return entry{}, err
}

func (f *files) move(old, fresh entry, noReplace bool) error {
	release, err := f.h.p.order(unix.F_RDLCK, old.dir, fresh.dir)
	if err != nil {
		return err
	}
	defer release()
	was, err := old.dir.Lstat(old.name)
	if err != nil {
		return err
	}
	if noReplace {
		return renameAt(old, fresh, unix.RENAME_NOREPLACE)
	}
	if there, err := fresh.dir.Lstat(fresh.name); err == nil && there.IsDir() {
		if os.SameFile(was, there) {
			return nil
		}
		return fs.ErrExist
	}
	if err = renameAt(old, fresh, 0); errors.Is(err, unix.EINVAL) { // a link led there
		err = errIntoItself
	}
	return err
}

// renameAt renames between two open directories. ErrUnsupported: the file system does not know the flags.
func renameAt(old, fresh entry, flags uint) error {
	return withFd(old.dir, func(from int) error {
		return withFd(fresh.dir, func(to int) error {
			if flags == 0 {
				return unix.Renameat(from, old.name, to, fresh.name)
			}
			err := unix.Renameat2(from, old.name, to, fresh.name, flags)
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
				return fmt.Errorf("%w: rename without replacing: %w", sandbox.ErrUnsupported, err)
			}
			return err
		})
	})
}

// withFd calls fn with a descriptor of a directory.
func withFd(root *os.Root, fn func(fd int) error) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	raw, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = fn(int(fd)) }); e != nil {
		return e
	}
	return err
}
