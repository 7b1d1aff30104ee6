package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
)

// lockSuffix ends the name of the file that stands beside a process's
// directory, and is locked for as long as the process lives.
const lockSuffix = ".lock"

// workplace is the directory of one process below the root.
type workplace struct {
	kernel kernel
	dir    string
	base   *os.File // dir as it was before it was mounted onto itself
	lock   *os.File
	shared error // why the mounts below are not private; nil = they are
}

// checkRoot refuses a root that would put everybody's files at risk, and
// returns it without symbolic links.
func checkRoot(root string) (string, error) {
	bad := func(rule string, args ...any) error {
		return &access.FieldError{Field: "Root", Rule: fmt.Sprintf(rule, args...)}
	}
	switch {
	case !filepath.IsAbs(root):
		return "", bad("must be an absolute path")
	case strings.IndexFunc(root, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) >= 0:
		return "", bad("must hold no white space and no control characters")
	}
	root = filepath.Clean(root)
	if err := placed(root, bad); err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", bad("must be a directory or a place for one: %v", reason(err))
	}
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", bad("must be a directory: %v", reason(err))
	}
	if err := placed(resolved, bad); err != nil {
		return "", err
	}
	return resolved, closeToOthers(resolved, bad)
}

// placed says where a root may not be: temporary directories are emptied by
// anybody, and with them everybody's durable files, through the mounts in them.
func placed(root string, bad func(string, ...any) error) error {
	if root == string(filepath.Separator) {
		return bad("must not be the root of the file system")
	}
	for _, temp := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		resolved, err := filepath.EvalSymlinks(temp)
		if err != nil {
			resolved = temp
		}
		for _, temp := range []string{filepath.Clean(temp), resolved} {
			if rel, err := filepath.Rel(temp, root); err == nil && filepath.IsLocal(rel) {
				return bad("must not be in the temporary directory: to clean that up would be to delete durable files")
			}
		}
	}
	return nil
}

// closeToOthers takes the rights of others away from a root that is empty. One
// that holds something may be the wrong directory altogether, and is refused.
func closeToOthers(root string, bad func(string, ...any) error) error {
	info, err := os.Stat(root)
	if err != nil {
		return bad("must be a directory: %v", reason(err))
	}
	if !info.IsDir() {
		return bad("must be a directory")
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return bad("must be readable: %v", reason(err))
	}
	if len(entries) > 0 {
		return bad("must be open to nobody else: its mode is %04o, and must be 0700", info.Mode().Perm())
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return bad("must be this user's own: %v", reason(err))
	}
	return nil
}

// reason is err without the path.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// openWorkplace makes this process's directory below root.
func openWorkplace(k kernel, root string) (_ *workplace, err error) {
	w := &workplace{kernel: k}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: directory of this process: %w", ErrUnavailable, errors.Join(err, w.discard()))
		}
	}()
	// Who clears up after dead processes may have the new file locked for a
	// moment, and removes it then.
	for w.lock == nil {
		digits := id.New()
		w.dir = filepath.Join(root, strconv.Itoa(os.Getpid())+"-"+digits[len(digits)-12:])
		if w.lock, err = k.lock(w.dir + lockSuffix); err != nil {
			return nil, err
		}
	}
	if err = k.mkdir(w.dir); err != nil {
		return nil, err
	}
	if w.base, err = k.open(w.dir); err != nil {
		return nil, err
	}
	w.shared = k.private(w.dir)
	return w, nil
}

// path is where a directory is mounted at.
func (w *workplace) path(name string) string { return filepath.Join(w.dir, name) }

// prepare makes the directory that something is to be mounted at. It refuses
// one that is not empty, or that is not surely free of mounts.
func (w *workplace) prepare(name string) error {
	if err := w.kernel.mkdir(w.kernel.inside(w.base, name)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, _, err := prove(w.kernel, w.path(name)); err != nil {
		return err
	}
	names, err := w.kernel.names(w.kernel.inside(w.base, name))
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("mount: %s is not empty", w.path(name))
	}
	return err
}

// clear removes a directory of this process that is proved to be free of
// mounts. One that holds something, which was written while nothing was mounted
// there, is kept under another name, so that the folder can have its place again.
func (w *workplace) clear(p Proof) (kept string, err error) {
	if filepath.Dir(p.dir) != w.dir {
		return "", errNoProof
	}
	name := filepath.Base(p.dir)
	names, err := w.kernel.names(w.kernel.inside(w.base, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", w.kernel.rmdir(w.kernel.inside(w.base, name))
	}
	aside := name + strayInfix + id.New()
	return w.path(aside), w.kernel.rename(w.kernel.inside(w.base, name), w.kernel.inside(w.base, aside))
}

// strayInfix is in the names of directories that were kept because they held something.
const strayInfix = "-stray-"

// close gives the directory up, once nothing is mounted below it.
func (w *workplace) close(ctx context.Context) error {
	if w.shared == nil {
		if err := w.unbind(ctx); err != nil {
			return err
		}
	}
	return w.discard()
}

// unbind takes off the mount of the directory onto itself, and nothing else.
func (w *workplace) unbind(ctx context.Context) error {
	t, err := table(w.kernel)
	if err != nil {
		return err
	}
	for _, m := range t.within(w.dir) {
		if m.path != w.dir {
			return fmt.Errorf("mount: %s is mounted at %s", m.kind, m.path)
		}
	}
	_, err = detach(ctx, w.kernel, w.dir, false)
	return err
}

// discard removes what there is of a workplace. What holds something stays.
func (w *workplace) discard() error {
	if w.base != nil {
		w.base.Close()
		w.base = nil
	}
	if w.lock == nil {
		return nil
	}
	_, _, err := prove(w.kernel, w.dir)
	if err == nil {
		err = w.kernel.rmdir(w.dir)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		err = os.Remove(w.dir + lockSuffix)
	case errors.Is(err, fs.ErrExist): // not empty, with what has been kept and told of: the next host tells again
		err = nil
	}
	w.lock.Close()
	w.lock = nil
	return err
}
