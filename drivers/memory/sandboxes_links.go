package memory

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Symlink makes a link. Its directory must exist.
func (f *boxFS) Symlink(ctx context.Context, target, link string) error {
	if target == "" || strings.IndexByte(target, 0) >= 0 || !utf8.ValidString(target) {
		return pathError("symlink", link, fmt.Errorf("%w: link target %q", sandbox.ErrInvalid, target))
	}
	return f.do(ctx, "symlink", link, false, func(at boxPlace) error {
		switch {
		case at.node != nil:
			return fs.ErrExist
		case len(at.missing) > 1:
			return fs.ErrNotExist
		}
		now := f.s.now()
		at.dir.put(at.name(), &boxNode{kind: sandbox.KindSymlink, mode: 0o777, mtime: now, target: target}, now)
		f.m.tellMade(at)
		return nil
	}, func(at boxPlace) error { return at.bind.root.Symlink(target, at.rel) })
}

// Readlink returns a link's text.
func (f *boxFS) Readlink(ctx context.Context, link string) (string, error) {
	var target string
	err := f.do(ctx, "readlink", link, false, func(at boxPlace) error {
		switch {
		case at.node == nil:
			return fs.ErrNotExist
		case at.node.kind != sandbox.KindSymlink:
			return sandbox.ErrNotLink
		}
		target = at.node.target
		return nil
	}, func(at boxPlace) (err error) {
		target, err = at.bind.readlink(at.rel)
		return err
	})
	return target, err
}

// Chmod sets the mode of what p leads to.
func (f *boxFS) Chmod(ctx context.Context, p string, mode fs.FileMode) error {
	if mode&^fs.ModePerm != 0 {
		return pathError("chmod", p, fmt.Errorf("%w: mode %v has more than permission bits", sandbox.ErrInvalid, mode))
	}
	return f.do(ctx, "chmod", p, true, func(at boxPlace) error {
		if at.node == nil {
			return fs.ErrNotExist
		}
		at.node.mode = mode
		f.m.tell(sandbox.Change{Kind: sandbox.ChangeModified, Path: at.path})
		return nil
	}, func(at boxPlace) error { return at.bind.root.Chmod(at.rel, mode) })
}

// Chtimes sets the time of what p leads to.
func (f *boxFS) Chtimes(ctx context.Context, p string, modTime time.Time) error {
	return f.do(ctx, "chtimes", p, true, func(at boxPlace) error {
		if at.node == nil {
			return fs.ErrNotExist
		}
		at.node.mtime = modTime
		f.m.tell(sandbox.Change{Kind: sandbox.ChangeModified, Path: at.path})
		return nil
	}, func(at boxPlace) error {
		near := nanoTime(modTime)
		return at.bind.root.Chtimes(at.rel, near, near)
	})
}

// nanoTime is the time nearest to t that package os can set: it counts nanoseconds.
func nanoTime(t time.Time) time.Time {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}
