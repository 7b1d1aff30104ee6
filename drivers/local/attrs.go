//go:build linux

package local

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Chmod sets the permission bits of a file or directory. Links are followed as far as they stay inside.
func (h *handle) Chmod(ctx context.Context, path string, mode fs.FileMode) error {
	if err := onlyPermissions(mode); err != nil {
		return pathError("chmod", path, err)
	}
	return h.files.do(ctx, "chmod", path, followTail, func(s spot) error { return s.root.Chmod(s.rel, mode) })
}

// Chtimes sets the time of the last change, and that of the last access to the same.
func (h *handle) Chtimes(ctx context.Context, path string, modTime time.Time) error {
	return h.files.do(ctx, "chtimes", path, followTail, func(s spot) error { return s.root.Chtimes(s.rel, modTime, modTime) })
}

// onlyPermissions refuses what would raise somebody's rights, and what no mode is.
func onlyPermissions(mode fs.FileMode) error {
	if mode&^fs.ModePerm != 0 {
		return fmt.Errorf("%w: mode %v has more than permission bits", sandbox.ErrInvalid, mode)
	}
	return nil
}
