package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// linux is the kernel of Linux.
type linux struct{}

func newKernel() (kernel, error) { return linux{}, nil }

func (linux) mountinfo() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return string(text), err
}

// list leaves package os out, whose poller must not wait for a file system
// that this process may serve itself.
func (linux) list(dir string) (string, error) {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", wrap("open", dir, err)
	}
	defer syscall.Close(fd)
	for {
		_, err := syscall.ReadDirent(fd, make([]byte, 4096))
		if err == nil {
			return mountOf(fd)
		}
		if err != syscall.EINTR {
			return "", wrap("list", dir, err)
		}
	}
}

// mountOf is the id of the mount that an open file is in.
func mountOf(fd int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("the kernel does not say in which mount a file is")
}

// noFollow is UMOUNT_NOFOLLOW, which package syscall leaves out.
const noFollow = 8

func (linux) unmount(dir string, force bool) error {
	flags := syscall.MNT_DETACH | noFollow
	if force {
		flags |= syscall.MNT_FORCE
	}
	return wrap("unmount", dir, syscall.Unmount(dir, flags))
}

func (linux) unmountFUSE(ctx context.Context, dir string) error {
	program, err := exec.LookPath("fusermount3")
	if err != nil {
		if program, err = exec.LookPath("fusermount"); err != nil {
			return err
		}
	}
	c := exec.CommandContext(ctx, program, "-u", "-z", dir)
	c.WaitDelay = time.Second
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (linux) abort(minor string) error {
	return os.WriteFile(filepath.Join("/sys/fs/fuse/connections", minor, "abort"), []byte("1"), 0)
}

func (k linux) private(dir string) error {
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		return wrap("bind", dir, err)
	}
	err := syscall.Mount("", dir, "", syscall.MS_PRIVATE, "")
	if err == nil {
		err = readOnly(dir)
	}
	if err != nil {
		return errors.Join(wrap("make private", dir, err), k.unmount(dir, false))
	}
	return nil
}

// readOnly keeps what restricts the mount already: an unprivileged name space
// may not lift it.
func readOnly(dir string) error {
	var now syscall.Statfs_t
	if err := syscall.Statfs(dir, &now); err != nil {
		return err
	}
	const kept = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC | syscall.MS_NOATIME | syscall.MS_NODIRATIME
	flags := uintptr(now.Flags)&kept | syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY
	return syscall.Mount("", dir, "", flags, "")
}

func (linux) open(dir string) (*os.File, error) { return os.Open(dir) }

// inside goes through the open directory, and so below whatever is mounted at its path by now.
func (linux) inside(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// lock makes sure that the file it has locked is still the one at path:
// who clears up after a dead process removes the file while having it locked.
func (linux) lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, nil
			}
			return nil, wrap("lock", path, err)
		}
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		there, err := os.Lstat(path)
		if err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			return err
		}
	}
}

func (linux) mkdir(path string) error      { return os.Mkdir(path, 0o700) }
func (linux) rmdir(path string) error      { return wrap("rmdir", path, syscall.Rmdir(path)) }
func (linux) rename(from, to string) error { return os.Rename(from, to) }

func (linux) names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
