package sandbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
)

// CopyTree copies what is at the path from, a file, a link or a directory with
// all that is in it, to the path to, where nothing may be: fs.ErrExist. It goes
// from one bind to another as well, where Rename can't. Modes are kept, those of directories
// where sb is an [AttrSetter]; times are not. A link is copied as it is, and not followed, where sb is a
// [Symlinker]; else it is ErrUnsupported, as a device or a pipe is always. ErrInvalid: to is from, or lies in it.
//
// What is to be copied is listed first. What comes later is left out, and what
// is gone by then ends it with fs.ErrNotExist. After an error what was copied so far is there; whoever wants none of it removes to.
func CopyTree(ctx context.Context, sb Sandbox, from, to string) error {
	c := copier{f: sb.FS()}
	c.links, _ = As[Symlinker](sb)
	c.attrs, _ = As[AttrSetter](sb)
	source, err := ResolvePath(sb.Workdir(), from)
	if err != nil {
		return &fs.PathError{Op: "copy", Path: from, Err: err}
	}
	target, err := ResolvePath(sb.Workdir(), to)
	if err != nil {
		return &fs.PathError{Op: "copy", Path: to, Err: err}
	}
	if _, inside := PathWithin(source, target); inside {
		return &fs.PathError{Op: "copy", Path: to, Err: fmt.Errorf("%w: it lies in what is to be copied", ErrInvalid)}
	}
	info, err := c.f.Lstat(ctx, source)
	if err != nil {
		return err
	}
	if _, err := c.f.Lstat(ctx, target); err == nil {
		return &fs.PathError{Op: "copy", Path: to, Err: fs.ErrExist}
	}
	all, err := c.list(ctx, source, ".", info, nil)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := c.copy(ctx, path.Join(source, one.rel), path.Join(target, one.rel), one.FileInfo); err != nil {
			return err
		}
	}
	if c.attrs == nil {
		return nil
	}
	// The deepest first: one that can't be written to can't be filled either.
	for _, one := range slices.Backward(all) {
		if one.IsDir() {
			if err := c.attrs.Chmod(ctx, path.Join(target, one.rel), one.Mode); err != nil {
				return err
			}
		}
	}
	return nil
}

type copier struct {
	f     FS
	links Symlinker  // nil for none
	attrs AttrSetter // nil for none
}

// treeEntry is something at or below the root of a copy.
type treeEntry struct {
	FileInfo
	rel string
}

// list appends what is at rel below root, and what is in it.
func (c copier) list(ctx context.Context, root, rel string, info FileInfo, all []treeEntry) ([]treeEntry, error) {
	all = append(all, treeEntry{info, rel})
	if !info.IsDir() {
		return all, nil
	}
	var below []FileInfo
	for info, err := range c.f.ReadDir(ctx, path.Join(root, rel)) {
		if err != nil {
			return nil, err
		}
		below = append(below, info)
	}
	var err error
	for _, info := range below {
		if all, err = c.list(ctx, root, path.Join(rel, info.Name), info, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c copier) copy(ctx context.Context, from, to string, info FileInfo) error {
	switch {
	case info.IsDir():
		return c.f.Mkdir(ctx, to)
	case info.Kind == KindFile:
		return c.file(ctx, from, to, info.Mode)
	case info.Kind == KindSymlink && c.links != nil:
		text, err := c.links.Readlink(ctx, from)
		if err != nil {
			return err
		}
		return c.links.Symlink(ctx, text, to)
	}
	return &fs.PathError{Op: "copy", Path: from, Err: fmt.Errorf("%w: it is neither a file nor a directory", ErrUnsupported)}
}

func (c copier) file(ctx context.Context, from, to string, mode fs.FileMode) error {
	r, err := c.f.Open(ctx, from, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := c.f.Create(ctx, to, &CreateOptions{Exclusive: true, Mode: mode})
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, untilDone{ctx, r}); err != nil {
		w.Abort()
		return err
	}
	if err := w.Close(); err != nil || mode != 0 || c.attrs == nil {
		return err
	}
	return c.attrs.Chmod(ctx, to, 0) // which Create takes for its default
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(b)
}
