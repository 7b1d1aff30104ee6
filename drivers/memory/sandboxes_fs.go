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
	"math"
	"path"

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
	_ sandbox.FS         = (*boxFS)(nil)
	_ sandbox.Symlinker  = (*boxFS)(nil)
	_ sandbox.AttrSetter = (*boxFS)(nil)
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
	o := sandbox.OpenOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Offset < 0 || o.Limit < 0 {
		return nil, pathError("open", p, fmt.Errorf("%w: Offset and Limit must not be negative", sandbox.ErrInvalid))
	}
	r := &boxReader{revoked: func() error { return f.revoked("read", p) }}
	err := f.do(ctx, "open", p, true, func(at boxPlace) error {
		switch {
		case at.node == nil:
			return fs.ErrNotExist
		case at.node.kind == sandbox.KindDir:
			return sandbox.ErrIsDir
		}
		r.Reader = bytes.NewReader(at.node.data[min(o.Offset, int64(len(at.node.data))):])
		return nil
	}, func(at boxPlace) error {
		file, err := at.bind.open(at.rel)
		if err != nil {
			return err
		}
		r.Reader, r.close = io.NewSectionReader(file, o.Offset, math.MaxInt64-o.Offset), file.Close
		return nil
	})
	if err != nil {
		return nil, err
	}
	if o.Limit > 0 {
		r.Reader = io.LimitReader(r.Reader, o.Limit)
	}
	return r, nil
}

// boxReader reads an open file for as long as that is allowed.
type boxReader struct {
	io.Reader
	revoked func() error
	close   func() error // nil where there is nothing to close
}

func (r *boxReader) Read(p []byte) (int, error) {
	if err := r.revoked(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

func (r *boxReader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
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
	}, func(at boxPlace) error {
		f.s.inBinds.Lock()
		defer f.s.inBinds.Unlock()
		return at.bind.remove(at, o.Recursive)
	})
	if o.MissingOK && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *boxFS) Rename(ctx context.Context, from, to string, opts *sandbox.RenameOptions) error {
	noReplace := opts != nil && opts.NoReplace
	src, dst, err := f.rename(ctx, from, to, noReplace)
	if err == nil && src.bind != nil {
		f.s.inBinds.Lock()
		defer f.s.inBinds.Unlock()
		err = src.bind.plain(src.bind.rename(src.rel, dst.rel, noReplace))
	}
	return pathError("rename", from, err)
}

// rename moves what is in the tree, or says where in a bind the two paths lie.
func (f *boxFS) rename(ctx context.Context, from, to string, noReplace bool) (src, dst boxPlace, err error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	src, err = f.locate(ctx, from, false)
	switch {
	case err != nil:
		return src, dst, err
	case src.fixed:
		return src, dst, errBoxFixed
	case src.missing != nil:
		return src, dst, fs.ErrNotExist
	}
	dst, err = f.locate(ctx, to, false)
	switch {
	case err != nil:
		return src, dst, err
	case dst.fixed:
		return src, dst, errBoxFixed
	case src.bind != dst.bind:
		return src, dst, sandbox.ErrCrossDevice
	case src.bind != nil:
		return src, dst, nil
	}
	// The way to dst may have led through a bind, while which the tree was free to change.
	src, err = f.locate(ctx, src.path, false)
	switch {
	case err != nil:
		return src, dst, err
	case src.node == nil:
		return src, dst, fs.ErrNotExist
	case noReplace && dst.node != nil:
		return src, dst, fs.ErrExist
	case src.node == dst.node:
		return src, dst, nil
	}
	if err := replaceable(src, dst); err != nil {
		return src, dst, err
	}
	now := f.s.now()
	src.dir.put(src.name(), nil, now)
	dst.dir.put(dst.name(), src.node, now)
	f.m.tellMoved(src.path, dst.path, src.node)
	return src, dst, nil
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
