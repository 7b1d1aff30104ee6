package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxFS is the files of a machine and some binds, as a handle or a command
// sees them. Modes are kept and not enforced.
type boxFS struct {
	s      *Sandboxes
	m      *boxMachine
	usable func() error      // says why nothing may be done; called with Sandboxes.mu held
	binds  func() []*boxBind // likewise; the latest last
}

var (
	_ sandbox.FS        = (*boxFS)(nil)
	_ sandbox.Symlinker = (*boxFS)(nil)
)

// errBoxFixed is the refusal to move or remove the working directory, a bind or what leads to one.
var errBoxFixed = fmt.Errorf("%w: this directory stays", sandbox.ErrInvalid)

// do finds out where p leads and does what is to be done there: inTree with
// Sandboxes.mu held, or inBind without. An error becomes a [*fs.PathError] with p as given.
func (f *boxFS) do(ctx context.Context, op, p string, follow bool, inTree, inBind func(boxPlace) error) error {
	at, err := f.enter(ctx, p, follow, inTree)
	if err == nil && at.bind != nil {
		err = at.bind.plain(inBind(at))
	}
	return pathError(op, p, err)
}

func (f *boxFS) enter(ctx context.Context, p string, follow bool, inTree func(boxPlace) error) (boxPlace, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	at, err := f.locate(ctx, p, follow)
	if err == nil && at.bind == nil {
		err = inTree(at)
	}
	return at, err
}

func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// revoked says why what was opened through f can't be used any more.
func (f *boxFS) revoked(op, p string) error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return pathError(op, p, f.usable())
}

// lastElement is the name of a file that p led to, whatever links were followed.
func lastElement(p string) string {
	abs, _ := sandbox.ResolvePath(boxWorkdir, p) // it was resolved before
	return path.Base(abs)
}

func (f *boxFS) Open(ctx context.Context, p string, opts *sandbox.OpenOptions) (io.ReadCloser, error) {
	r := &boxReader{revoked: func() error { return f.revoked("read", p) }}
	err := f.do(ctx, "open", p, true, func(at boxPlace) error {
		switch {
		case at.node == nil:
			return fs.ErrNotExist
		case at.node.kind == sandbox.KindDir:
			return sandbox.ErrIsDir
		}
		r.ReadCloser = io.NopCloser(bytes.NewReader(at.node.data))
		return nil
	}, func(at boxPlace) (err error) {
		r.ReadCloser, err = at.bind.open(at.rel)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// boxReader reads an open file for as long as that is allowed.
type boxReader struct {
	io.ReadCloser
	revoked func() error
}

func (r *boxReader) Read(p []byte) (int, error) {
	if err := r.revoked(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p)
}

func (f *boxFS) Stat(ctx context.Context, p string) (sandbox.FileInfo, error) {
	var info sandbox.FileInfo
	err := f.do(ctx, "stat", p, true, func(at boxPlace) error {
		if at.node == nil {
			return fs.ErrNotExist
		}
		info = at.node.info(lastElement(p))
		return nil
	}, func(at boxPlace) (err error) {
		info, err = at.bind.stat(at.rel, lastElement(p))
		return err
	})
	return info, err
}

func (f *boxFS) Lstat(ctx context.Context, p string) (sandbox.FileInfo, error) {
	var info sandbox.FileInfo
	err := f.do(ctx, "lstat", p, false, func(at boxPlace) error {
		if at.node == nil {
			return fs.ErrNotExist
		}
		info = at.node.info(lastElement(p))
		return nil
	}, func(at boxPlace) (err error) {
		info, err = at.bind.lstat(at.rel, lastElement(p))
		return err
	})
	return info, err
}

func (f *boxFS) ReadDir(ctx context.Context, p string) iter.Seq2[sandbox.FileInfo, error] {
	return func(yield func(sandbox.FileInfo, error) bool) {
		var entries iter.Seq2[sandbox.FileInfo, error]
		err := f.do(ctx, "readdir", p, true, func(at boxPlace) error {
			switch {
			case at.node == nil:
				return fs.ErrNotExist
			case at.node.kind != sandbox.KindDir:
				return sandbox.ErrNotDir
			}
			entries = at.node.list()
			return nil
		}, func(at boxPlace) (err error) {
			entries, err = at.bind.list(at.rel)
			return err
		})
		if err != nil {
			yield(sandbox.FileInfo{}, err)
			return
		}
		for info, err := range entries {
			if err = cmp.Or(pathError("readdir", p, err), f.revoked("readdir", p)); err != nil {
				yield(sandbox.FileInfo{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (f *boxFS) Mkdir(ctx context.Context, p string) error {
	return f.do(ctx, "mkdir", p, true, func(at boxPlace) error {
		switch {
		case at.dangling:
			return fs.ErrExist
		case at.node == nil:
			at.dir.mkdirs(at.missing, f.s.now())
			f.m.tellMade(at)
		case at.node.kind != sandbox.KindDir:
			return sandbox.ErrNotDir
		}
		return nil
	}, func(at boxPlace) error { return at.bind.mkdir(at) })
}

func (f *boxFS) Remove(ctx context.Context, p string, opts *sandbox.RemoveOptions) error {
	o := sandbox.RemoveOptions{}
	if opts != nil {
		o = *opts
	}
	err := f.do(ctx, "remove", p, false, func(at boxPlace) error {
		switch {
		case at.fixed:
			return errBoxFixed
		case at.node == nil:
			return fs.ErrNotExist
		case len(at.node.entries) > 0 && !o.Recursive:
			return sandbox.ErrNotEmpty
		}
		at.dir.put(at.name(), nil, f.s.now())
		f.m.tellRemoved(at.path, at.node)
		return nil
	}, func(at boxPlace) error { return at.bind.remove(at, o.Recursive) })
	if o.MissingOK && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *boxFS) Rename(ctx context.Context, from, to string, opts *sandbox.RenameOptions) error {
	bad, src, dst, err := f.rename(ctx, from, to)
	if err == nil && src.bind != nil {
		bad, err = from, src.bind.plain(src.bind.rename(src.rel, dst.rel))
	}
	return pathError("rename", bad, err)
}

// rename moves what is in the tree, or says where in a bind the two paths lie.
// bad is the path the error is about.
func (f *boxFS) rename(ctx context.Context, from, to string) (bad string, src, dst boxPlace, err error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	src, err = f.locate(ctx, from, false)
	switch {
	case err != nil:
		return from, src, dst, err
	case src.fixed:
		return from, src, dst, errBoxFixed
	case src.missing != nil:
		return from, src, dst, fs.ErrNotExist
	}
	dst, err = f.locate(ctx, to, false)
	switch {
	case err != nil:
		return to, src, dst, err
	case dst.fixed:
		return to, src, dst, errBoxFixed
	case src.bind != dst.bind:
		return from, src, dst, sandbox.ErrCrossDevice
	case src.bind != nil:
		return "", src, dst, nil
	}
	// The way to dst may have led through a bind, while which the tree was free to change.
	src, err = f.locate(ctx, src.path, false)
	if err == nil && src.node == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return from, src, dst, err
	}
	if src.node == dst.node {
		return "", src, dst, nil
	}
	if err := replaceable(src, dst); err != nil {
		return to, src, dst, err
	}
	now := f.s.now()
	src.dir.put(src.name(), nil, now)
	dst.dir.put(dst.name(), src.node, now)
	f.m.tellMoved(src.path, dst.path, src.node)
	return "", src, dst, nil
}

// replaceable says why what is at src can't be moved to dst.
func replaceable(src, dst boxPlace) error {
	_, inside := sandbox.PathWithin(src.path, dst.path)
	switch {
	case dst.node == nil && len(dst.missing) > 1:
		return fs.ErrNotExist
	case dst.node != nil && dst.node.kind == sandbox.KindDir:
		return fs.ErrExist
	case inside:
		return fmt.Errorf("%w: a directory can't be moved into itself", sandbox.ErrInvalid)
	case dst.node == nil:
		return nil
	case src.node.kind == sandbox.KindDir:
		return sandbox.ErrNotDir
	}
	return nil
}

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
