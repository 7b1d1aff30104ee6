//go:build linux

package local

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Chmod sets the permission bits of a file or directory. Links are followed as far as they stay inside.
func (h *handle) Chmod(ctx context.Context, path string, mode fs.FileMode) error {
	if err := onlyPermissions(mode); err != nil {
		return pathError("chmod", path, err)
	}
	return h.files.do(ctx, "chmod", path, followTail, func(s spot) error { return s.root.Chmod(s.rel, mode) })
}

// Chtimes sets the time of the last change, and that of the last access to the
// same. Package os knows no time after 2262, and takes the zero time for none.
func (h *handle) Chtimes(ctx context.Context, path string, modTime time.Time) error {
	return h.files.do(ctx, "chtimes", path, followTail, func(s spot) error {
		to, err := unix.TimeToTimespec(modTime)
		if err != nil {
			return fmt.Errorf("%w: time %v", sandbox.ErrInvalid, modTime)
		}
		is, err := s.root.Lstat(s.rel)
		switch {
		case err != nil:
			return err
		case is.Mode()&fs.ModeSymlink != 0:
			return s.outside // so that the whole path is looked through
		}
		at := entry{s.root, "."}
		if s.rel != "." {
			if at, err = openEntry(s); err != nil {
				return err
			}
			defer at.dir.Close()
		}
		return withFd(at.dir, func(dir int) error {
			return unix.UtimesNanoAt(dir, at.name, []unix.Timespec{to, to}, unix.AT_SYMLINK_NOFOLLOW)
		})
	})
}

// onlyPermissions refuses what would raise somebody's rights, and what no mode is.
func onlyPermissions(mode fs.FileMode) error {
	if mode&^fs.ModePerm != 0 {
		return fmt.Errorf("%w: mode %v has more than permission bits", sandbox.ErrInvalid, mode)
	}
	return nil
}
