//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// do runs an operation on the path name and makes its error what the contract says.
func (f *files) do(ctx context.Context, op, name string, t tail, fn func(spot) error) error {
	err := f.h.check(ctx)
	if err == nil {
		if err = f.in(name, t, fn); err == nil {
			return nil
		}
		if gone := f.h.check(ctx); gone != nil {
			err = gone // rather than what it left behind
		}
	}
	return pathError(op, name, err)
}

// pathError is err as a PathError about name, that matches the sentinels of
// package sandbox. It never shows a path of the host.
func pathError(op, name string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	for {
		if errors.As(err, &p) {
			err = p.Err
		} else if errors.As(err, &l) {
			err = l.Err
		} else {
			break
		}
	}
	for _, m := range [...]struct {
		cause error
		as    error
	}{
		{syscall.EISDIR, sandbox.ErrIsDir},
		{syscall.ENOTDIR, sandbox.ErrNotDir},
		{syscall.EXDEV, sandbox.ErrCrossDevice},
	} {
		if errors.Is(err, m.cause) {
			err = fmt.Errorf("%w: %w", m.as, m.cause)
		}
	}
	if errors.Is(err, syscall.ENOTEMPTY) {
		err = sandbox.ErrNotEmpty // alone: the other passes for fs.ErrExist too
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (f *files) Open(ctx context.Context, name string, opts *sandbox.OpenOptions) (io.ReadCloser, error) {
	if opts == nil {
		opts = &sandbox.OpenOptions{}
	}
	if opts.Offset < 0 || opts.Limit < 0 {
		return nil, pathError("open", name, fmt.Errorf("%w: Offset and Limit must not be negative", sandbox.ErrInvalid))
	}
	var r *os.File
	err := f.do(ctx, "open", name, followTail, func(s spot) (err error) {
		// Without O_NONBLOCK, to open a named pipe would wait for a writer.
		r, err = s.root.OpenFile(s.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	err = syscall.Fstat(int(r.Fd()), &st)
	switch {
	case err != nil:
	case st.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		err = sandbox.ErrIsDir
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		err = fmt.Errorf("%w: not a file", sandbox.ErrInvalid)
	default:
		part := &reader{f: r, name: name, left: math.MaxInt64, known: max(0, st.Size-opts.Offset)}
		if opts.Limit > 0 {
			part.left = opts.Limit
		}
		if opts.Offset > 0 {
			if _, err = r.Seek(opts.Offset, io.SeekStart); errors.Is(err, syscall.EINVAL) {
				part.left, err = 0, nil // further than any file of this file system can reach
			}
		}
		if err == nil {
			return part, nil
		}
	}
	r.Close()
	return nil, pathError("open", name, err)
}

// reader reads a file, or the part of it that was asked for.
type reader struct {
	f     *os.File
	name  string
	left  int64
	known int64 // how much was left when it was opened, whatever was asked for
}

// Len says how much is left, if nobody writes to the file.
func (r *reader) Len() int { return int(min(r.left, r.known, math.MaxInt)) }

func (r *reader) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if int64(len(b)) > r.left {
		b = b[:r.left]
	}
	n, err := r.f.Read(b)
	r.left -= int64(n)
	r.known = max(0, r.known-int64(n))
	if err != nil && err != io.EOF {
		err = pathError("read", r.name, err)
	}
	return n, err
}

func (r *reader) Close() error {
	if err := r.f.Close(); err != nil {
		return pathError("close", r.name, err)
	}
	return nil
}

func (f *files) Stat(ctx context.Context, name string) (sandbox.FileInfo, error) {
	var info sandbox.FileInfo
	err := f.do(ctx, "stat", name, followTail, func(s spot) error {
		i, err := s.root.Stat(s.rel)
		if err == nil {
			abs, _ := sandbox.ResolvePath(f.h.Workdir(), name)
			info = describeFull(ctx, path.Base(abs), i)
		}
		return err
	})
	return info, err
}

func (f *files) Lstat(ctx context.Context, name string) (sandbox.FileInfo, error) {
	var info sandbox.FileInfo
	err := f.do(ctx, "lstat", name, keepTail, func(s spot) error {
		i, err := s.root.Lstat(s.rel)
		if err == nil {
			abs, _ := sandbox.ResolvePath(f.h.Workdir(), name)
			info = describeFull(ctx, path.Base(abs), i)
		}
		return err
	})
	return info, err
}

func describe(name string, mode fs.FileMode, size int64, modTime time.Time) sandbox.FileInfo {
	info := sandbox.FileInfo{Name: name, Kind: sandbox.KindOther, Mode: mode.Perm(), ModTime: modTime}
	switch mode.Type() {
	case 0:
		info.Kind, info.Size = sandbox.KindFile, size
	case fs.ModeDir:
		info.Kind = sandbox.KindDir
	case fs.ModeSymlink:
		info.Kind = sandbox.KindSymlink
	}
	return info
}

// describeAt describes the entry name of an open directory.
func describeAt(ctx context.Context, dir *os.File, name string) (sandbox.FileInfo, error) {
	info, st, err := lookAt(dir, name)
	if err == nil && info.Kind == sandbox.KindFile {
		info.ETag = version{st.Dev, st.Ino, st.Size, unix.TimespecToNsec(st.Mtim), unix.TimespecToNsec(st.Ctim)}.settled(ctx)
	}
	return info, err
}

// lookAt is describeAt without the ETag, which may have to be waited for.
func lookAt(dir *os.File, name string) (info sandbox.FileInfo, st unix.Stat_t, err error) {
	raw, err := dir.SyscallConn()
	if err != nil {
		return info, st, err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Fstatat(int(fd), name, &st, unix.AT_SYMLINK_NOFOLLOW) }); e != nil {
		return info, st, e
	}
	if err != nil {
		return info, st, err
	}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	return describe(name, mode, st.Size, time.Unix(st.Mtim.Unix())), st, nil
}

func (f *files) ReadDir(ctx context.Context, name string) iter.Seq2[sandbox.FileInfo, error] {
	return func(yield func(sandbox.FileInfo, error) bool) {
		var dir *os.File
		err := f.do(ctx, "readdir", name, followTail, func(s spot) (err error) {
			dir, err = s.root.OpenFile(s.rel, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
			return err
		})
		if err != nil {
			yield(sandbox.FileInfo{}, err)
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(256)
			for _, n := range names {
				info, err := describeAt(ctx, dir, n)
				switch {
				case errors.Is(err, fs.ErrNotExist): // removed since
					continue
				case err == nil:
					err = f.h.check(ctx)
				}
				if err != nil {
					yield(sandbox.FileInfo{}, pathError("readdir", name, err))
					return
				}
				if !yield(info, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(sandbox.FileInfo{}, pathError("readdir", name, err))
				return
			}
		}
	}
}

func (f *files) Mkdir(ctx context.Context, name string) error {
	return f.do(ctx, "mkdir", name, followTail, func(s spot) error {
		err := s.root.MkdirAll(s.rel, 0o755)
		if errors.Is(err, fs.ErrExist) {
			return sandbox.ErrNotDir
		}
		return err
	})
}

func (f *files) Remove(ctx context.Context, name string, opts *sandbox.RemoveOptions) error {
	if opts == nil {
		opts = &sandbox.RemoveOptions{}
	}
	return f.do(ctx, "remove", name, keepTail, func(s spot) error {
		if s.rel == "." {
			return fmt.Errorf("%w: it is the root of a folder", sandbox.ErrInvalid)
		}
		is, err := s.root.Lstat(s.rel)
		switch {
		case err != nil:
		case is.IsDir() && opts.Recursive:
			err = removeAll(ctx, s)
		default:
			err = f.unlink(s)
		}
		switch {
		case opts.MissingOK && errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, syscall.EEXIST): // some file systems say so of a full directory
			return sandbox.ErrNotEmpty
		}
		return err
	})
}

// removeAll removes a directory and all below it.
func removeAll(ctx context.Context, s spot) error {
	at, err := openEntry(s)
	if err != nil {
		return err
	}
	defer at.dir.Close()
	return withFd(at.dir, func(parent int) error { return removeAt(ctx, parent, at.name, openDir) })
}

// unlink removes what is no full directory.
func (f *files) unlink(s spot) error {
	at, err := openEntry(s)
	if err != nil {
		return err
	}
	defer at.dir.Close()
	release, err := f.h.p.order(unix.F_RDLCK, at.dir)
	if err != nil {
		return err
	}
	defer release()
	return at.dir.Remove(at.name)
}

// close gives everything up; what is being written is dropped.
func (f *files) close() {
	f.mu.Lock()
	places, writers := f.places, f.writers
	f.places, f.writers = nil, nil
	f.mu.Unlock()
	for w := range writers {
		w.lose(sandbox.ErrClosed)
	}
	for _, p := range places {
		p.root.Close()
	}
}
