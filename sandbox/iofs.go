package sandbox

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"slices"
	"time"
)

// IOFS is f as an [fs.FS], for what reads files of any kind: "." is the
// working directory. It can Stat, ReadDir and ReadFile too. Everything done through it is done with ctx. Its
// names are those that [fs.ValidPath] takes, and none else; a link that leads out of the sandbox is ErrEscapes.
//
// Opening a file looks at it first, so that between the two it may become another. A
// directory is read whole as its first entry is asked for, and sorted by name. Of a name that is not UTF-8 the
// entry can't be opened.
func IOFS(ctx context.Context, f FS) fs.FS { return ioFS{ctx, f} }

// ioFS carries its context: there is no other way to a file for who has an fs.FS.
type ioFS struct {
	ctx context.Context
	f   FS
}

var (
	_ fs.StatFS     = ioFS{}
	_ fs.ReadDirFS  = ioFS{}
	_ fs.ReadFileFS = ioFS{}
)

func (s ioFS) Open(name string) (fs.File, error) {
	info, err := s.stat("open", name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return &ioDir{fsys: s, name: name, info: info}, nil
	}
	r, err := s.f.Open(s.ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return &ioFile{ReadCloser: r, info: info}, nil
}

func (s ioFS) Stat(name string) (fs.FileInfo, error) {
	info, err := s.stat("stat", name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (s ioFS) stat(op, name string) (ioInfo, error) {
	if !fs.ValidPath(name) {
		return ioInfo{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	info, err := s.f.Stat(s.ctx, name)
	if told, ok := err.(*fs.PathError); ok { // what it was asked for is what it failed at
		err = &fs.PathError{Op: op, Path: told.Path, Err: told.Err}
	}
	return ioInfo{info, name}, err
}

func (s ioFS) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return ReadFile(s.ctx, s.f, name)
}

func (s ioFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	var entries []fs.DirEntry
	var failed error
	for info, err := range s.f.ReadDir(s.ctx, name) {
		if failed = err; failed != nil {
			break
		}
		entries = append(entries, fs.FileInfoToDirEntry(ioInfo{info, info.Name}))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, failed
}

// ioFile is a file that is open.
type ioFile struct {
	io.ReadCloser
	info ioInfo
}

func (f *ioFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// ioDir is a directory that is open.
type ioDir struct {
	fsys   ioFS
	name   string
	info   ioInfo
	read   bool
	left   []fs.DirEntry
	err    error // of reading it
	closed bool
}

func (d *ioDir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *ioDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: ErrIsDir}
}

func (d *ioDir) Close() error {
	d.closed, d.left = true, nil
	return nil
}

func (d *ioDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.closed {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrClosed}
	}
	if !d.read {
		d.read = true
		d.left, d.err = d.fsys.ReadDir(d.name)
	}
	most := len(d.left)
	if n > 0 {
		most = min(n, most)
	}
	next := d.left[:most:most]
	d.left = d.left[most:]
	switch {
	case d.err != nil && len(d.left) == 0 && (n <= 0 || len(next) == 0):
		return next, d.err
	case n > 0 && len(next) == 0:
		return nil, io.EOF
	}
	return next, nil
}

// ioInfo is a FileInfo as package fs has it.
type ioInfo struct {
	info FileInfo
	name string // that was asked for, of which the last element counts
}

func (i ioInfo) Name() string {
	for at := len(i.name) - 1; at >= 0; at-- {
		if i.name[at] == '/' {
			return i.name[at+1:]
		}
	}
	return i.name
}

func (i ioInfo) Size() int64        { return i.info.Size }
func (i ioInfo) ModTime() time.Time { return i.info.ModTime }
func (i ioInfo) IsDir() bool        { return i.info.IsDir() }
func (i ioInfo) Sys() any           { return nil }

func (i ioInfo) Mode() fs.FileMode {
	mode := i.info.Mode & fs.ModePerm
	switch i.info.Kind {
	case KindDir:
		return mode | fs.ModeDir
	case KindSymlink:
		return mode | fs.ModeSymlink
	case KindFile:
		return mode
	}
	return mode | fs.ModeIrregular
}
