package memory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"sync/atomic"
	"syscall"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxBind is a directory of the host that appears in a sandbox. Links in it
// lead where they would for a process of the sandbox; they are followed by
// hand, and whatever is then done goes through the root, which is never left,
// even where a link takes the place of a directory meanwhile.
type boxBind struct {
	at      string // where it appears, clean and absolute
	root    *os.Root
	escapes error        // what the root's methods wrap where a path leaves it
	temps   atomic.Int64 // names of files being put in place
}

// plain turns an error of the root's methods into one of the contract, without the host's paths.
func (b *boxBind) plain(err error) error {
	for _, is := range []struct{ host, plain error }{
		{b.escapes, sandbox.ErrEscapes},
		{os.ErrClosed, sandbox.ErrClosed},
		{syscall.EINVAL, sandbox.ErrInvalid},
		{syscall.EISDIR, sandbox.ErrIsDir},
		{syscall.ENOTDIR, sandbox.ErrNotDir},
		{syscall.ENOTEMPTY, sandbox.ErrNotEmpty},
		{syscall.EXDEV, sandbox.ErrCrossDevice},
	} {
		if err != nil && errors.Is(err, is.host) {
			return is.plain
		}
	}
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

func boxInfo(i fs.FileInfo, name string) sandbox.FileInfo {
	info := sandbox.FileInfo{Name: name, Kind: sandbox.KindOther, Mode: i.Mode().Perm(), ModTime: i.ModTime()}
	switch {
	case i.Mode().IsRegular():
		info.Kind, info.Size = sandbox.KindFile, i.Size()
	case i.IsDir():
		info.Kind = sandbox.KindDir
	case i.Mode()&fs.ModeSymlink != 0:
		info.Kind = sandbox.KindSymlink
	}
	return info
}

func (b *boxBind) stat(rel, name string) (sandbox.FileInfo, error) {
	i, err := b.root.Stat(rel)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	return b.info(i, rel, name), nil
}

func (b *boxBind) lstat(rel, name string) (sandbox.FileInfo, error) {
	i, err := b.root.Lstat(rel)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	return b.info(i, rel, name), nil
}

// info is boxInfo with the ETag.
func (b *boxBind) info(i fs.FileInfo, rel, name string) sandbox.FileInfo {
	info := boxInfo(i, name)
	if info.Kind == sandbox.KindFile {
		info.ETag = b.etag(rel)
	}
	return info
}

// open opens a regular file. It waits for nobody, whatever has taken the place of one.
func (b *boxBind) open(rel string) (*os.File, error) {
	f, err := b.openAny(rel)
	if err != nil {
		return nil, err
	}
	i, err := f.Stat()
	switch {
	case err != nil:
	case i.IsDir():
		err = sandbox.ErrIsDir
	case !i.Mode().IsRegular():
		err = fmt.Errorf("%w: not a regular file", sandbox.ErrInvalid)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// openAny opens what there is for reading. A pipe would wait for who writes to it.
func (b *boxBind) openAny(rel string) (*os.File, error) {
	return b.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// boxDirBatch is how many entries of a host directory are read at a time.
const boxDirBatch = 256

// list streams the entries of a directory.
func (b *boxBind) list(rel string) (iter.Seq2[sandbox.FileInfo, error], error) {
	dir, err := b.openAny(rel)
	if err != nil {
		return nil, err
	}
	i, err := dir.Stat()
	if err == nil && !i.IsDir() {
		err = sandbox.ErrNotDir
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return func(yield func(sandbox.FileInfo, error) bool) {
		defer dir.Close()
		for {
			entries, err := dir.ReadDir(boxDirBatch)
			for _, e := range entries {
				i, err := e.Info()
				if errors.Is(err, fs.ErrNotExist) {
					continue // it went away since
				}
				if err != nil {
					yield(sandbox.FileInfo{}, b.plain(err))
					return
				}
				if !yield(b.info(i, path.Join(rel, e.Name()), e.Name()), nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(sandbox.FileInfo{}, b.plain(err))
				return
			}
		}
	}, nil
}

func (b *boxBind) mkdir(at boxPlace) error {
	if at.dangling {
		return fs.ErrExist
	}
	if at.missing != nil {
		return b.root.MkdirAll(at.rel, 0o755)
	}
	i, err := b.root.Stat(at.rel)
	if err == nil && !i.IsDir() {
		err = sandbox.ErrNotDir
	}
	return err
}

func (b *boxBind) remove(at boxPlace, recursive bool) error {
	switch {
	case at.fixed:
		return errBoxFixed
	case at.missing != nil:
		return fs.ErrNotExist
	case recursive:
		return b.root.RemoveAll(at.rel)
	}
	return b.root.Remove(at.rel)
}

// rename refuses a directory at the new name, as the root's Rename does.
func (b *boxBind) rename(from, to string, noReplace bool) error {
	src, err := b.root.Lstat(from)
	if err != nil {
		return err
	}
	if dst, err := b.root.Lstat(to); err == nil {
		switch {
		case noReplace:
			return fs.ErrExist
		case os.SameFile(src, dst):
			return nil
		}
	}
	return b.root.Rename(from, to)
}

func (b *boxBind) readlink(rel string) (string, error) {
	i, err := b.root.Lstat(rel)
	if err != nil {
		return "", err
	}
	if i.Mode()&fs.ModeSymlink == 0 {
		return "", sandbox.ErrNotLink
	}
	return b.root.Readlink(rel)
}
