//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// newFile is what the names of unfinished files begin with. One that is left
// behind by a process that was killed has this name and no other.
const newFile = ".bunkroom-new-"

// Create writes beside the file and renames. What was written survives the
// death of this process once Close returns; a power failure it survives once
// the system has written it out, and then the old or the new content is there.
func (f *files) Create(ctx context.Context, name string, opts *sandbox.CreateOptions) (sandbox.Writer, error) {
	if opts == nil {
		opts = &sandbox.CreateOptions{}
	}
	w := &writer{files: f, name: name, exclusive: opts.Exclusive, mode: opts.Mode, ifMatch: opts.IfMatch}
	if w.mode == 0 {
		w.mode = 0o644
	}
	err := onlyPermissions(opts.Mode)
	if opts.Exclusive && opts.IfMatch != "" {
		err = fmt.Errorf("%w: what is Exclusive can't match anything", sandbox.ErrInvalid)
	}
	if err != nil {
		return nil, pathError("create", name, err)
	}
	if err := f.do(ctx, "create", name, followTail, w.begin); err != nil {
		return nil, err
	}
	f.mu.Lock()
	closed := f.places == nil
	if !closed {
		if f.writers == nil {
			f.writers = map[*writer]struct{}{}
		}
		f.writers[w] = struct{}{}
	}
	f.mu.Unlock()
	if closed {
		w.Abort()
		return nil, pathError("create", name, sandbox.ErrClosed)
	}
	return w, nil
}

// writer is a file that has no name of its own yet.
type writer struct {
	files     *files
	name      string // as given
	exclusive bool
	mode      fs.FileMode
	ifMatch   string

	parent *os.Root // where it will be
	base   string   // and under which name
	temp   string   // its name until then; empty once it has the other

	mu   sync.Mutex
	file *os.File // nil once Close or Abort has decided, or something else has
	lost error    // why it was dropped though neither had decided, until Close or Abort was told
}

// begin opens the file. A link that stands at its name is followed.
func (w *writer) begin(s spot) error {
	info, err := s.root.Lstat(s.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if w.ifMatch != "" {
			return fmt.Errorf("%w: there is no file", sandbox.ErrPrecondition)
		}
	case err != nil:
		return err
	case w.exclusive:
		return fs.ErrExist
	case info.Mode()&fs.ModeSymlink != 0:
		return s.outside // so that the whole path is looked through
	case info.IsDir():
		return sandbox.ErrIsDir
	case !is(info, w.ifMatch):
		return sandbox.ErrPrecondition
	}
	dir := path.Dir(s.rel)
	parent, err := s.root.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.root.MkdirAll(dir, 0o755); errors.Is(err, fs.ErrExist) {
			return sandbox.ErrNotDir
		}
		if err == nil {
			parent, err = s.root.OpenRoot(dir)
		}
	}
	if err != nil {
		return err
	}
	w.parent, w.base, w.temp = parent, path.Base(s.rel), newFile+newID()
	w.file, err = parent.OpenFile(w.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, w.mode)
	if err == nil {
		err = setMode(w.file, w.mode)
	}
	if err != nil {
		w.drop()
	}
	return err
}

// setMode gives a new file its mode, whatever the umask has made of it.
func setMode(f *os.File, mode fs.FileMode) error {
	is, err := f.Stat()
	if err != nil || is.Mode().Perm() == mode {
		return err
	}
	return f.Chmod(mode)
}

func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return 0, pathError("write", w.name, sandbox.ErrClosed)
	}
	n, err := w.file.Write(b)
	if err != nil {
		err = pathError("write", w.name, err)
	}
	return n, err
}

func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return w.told()
	}
	err := w.files.h.check(context.Background())
	if err == nil {
		err = w.place()
	}
	w.drop()
	if err != nil {
		return pathError("create", w.name, err)
	}
	return nil
}

// place puts the file under its name.
func (w *writer) place() error {
	stampExactly(w.file)
	if w.exclusive {
		return w.claim()
	}
	how := int16(unix.F_RDLCK)
	if w.ifMatch != "" {
		how = unix.F_WRLCK
	}
	release, err := w.files.h.p.order(how, w.parent)
	if err != nil {
		return err
	}
	defer release()
	old, err := w.parent.Lstat(w.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if w.ifMatch != "" {
			return fmt.Errorf("%w: there is no file", sandbox.ErrPrecondition)
		}
	case err != nil:
		return err
	case old.IsDir():
		return sandbox.ErrIsDir
	case !is(old, w.ifMatch):
		return sandbox.ErrPrecondition
	case old.Mode().IsRegular() && old.Mode().Perm() != w.mode:
		if err := w.file.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := w.file.Close(); err != nil {
		return err
	}
	return w.rename()
}

func (w *writer) rename() error {
	err := w.parent.Rename(w.temp, w.base)
	if err == nil {
		w.temp = ""
	}
	return err
}

// claim puts the file under its name if that is free. Not every file system
// has a way to do that at once; where none has, the name is taken by an empty file first.
func (w *writer) claim() error {
	if err := w.file.Close(); err != nil {
		return err
	}
	err := renameAt(entry{w.parent, w.temp}, entry{w.parent, w.base}, unix.RENAME_NOREPLACE)
	if err == nil {
		w.temp = ""
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if err = w.parent.Link(w.temp, w.base); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	empty, err := w.parent.OpenFile(w.base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, w.mode)
	if err != nil {
		return err
	}
	empty.Close()
	return w.rename()
}

// told says, once, that what was written is lost.
func (w *writer) told() error {
	err := w.lost
	if w.lost = nil; err != nil {
		return pathError("create", w.name, err)
	}
	return nil
}

func (w *writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = nil
	if w.file != nil {
		w.drop()
	}
	return nil
}

// lose is Abort where it is not the caller's wish: Close then says why.
func (w *writer) lose(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		w.lost = why
		w.drop()
	}
}

// drop gives up what is left of the unfinished file.
func (w *writer) drop() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
	if w.temp != "" {
		w.parent.Remove(w.temp)
	}
	w.parent.Close()
	w.files.mu.Lock()
	delete(w.files.writers, w)
	w.files.mu.Unlock()
}

// Symlink makes a symbolic link; its parents must exist.
func (h *handle) Symlink(ctx context.Context, target, link string) error {
	return h.files.do(ctx, "symlink", link, keepTail, func(s spot) error {
		switch {
		case target == "" || hasNUL(target):
			return fmt.Errorf("%w: a link's text must not be empty or hold a NUL byte", sandbox.ErrInvalid)
		case s.rel == ".":
			return fs.ErrExist
		}
		return s.root.Symlink(target, s.rel)
	})
}

// Readlink returns the text of a symbolic link.
func (h *handle) Readlink(ctx context.Context, link string) (string, error) {
	var target string
	err := h.files.do(ctx, "readlink", link, keepTail, func(s spot) (err error) {
		target, err = s.root.Readlink(s.rel)
		if errors.Is(err, syscall.EINVAL) {
			return sandbox.ErrNotLink
		}
		return err
	})
	return target, err
}
