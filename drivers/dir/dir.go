// Package dir keeps durable folders as plain directories of this host:
//
//	<root>/<scope>/<mount id>
//
// It is the embedded default of package mount. The folders are there for as
// long as the root is: nothing here ever deletes one. Back the root up, and
// keep it out of places that are emptied, such as the temporary directory.
//
//	mounter, err := dir.New("/var/lib/myapp/folders")
//	if err != nil { … }
//	manager, err := mount.New(mount.Config{Store: store, Mounter: mounter})
//
// A Mounter is a [mount.Locker] too, by locks of the file system that end with their process.
//
// The directories of one root may be used by many processes at once, also from
// several hosts where the root is a shared file system; what that file system
// promises about concurrent writes is what the agents get.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// private is the mode of what this package makes: folders are nobody else's.
const private = 0o700

// Mounter is a [mount.Mounter] over a directory.
type Mounter struct{ root string }

var _ mount.Mounter = (*Mounter)(nil)

// New returns a mounter that keeps folders below root, which is made where it
// is missing. A relative root starts at the process's present working
// directory. The error is a [*access.FieldError] that names "root" where it is
// empty, the file system's own root, not a directory, or can't be written to.
func New(root string) (*Mounter, error) {
	bad := func(rule string, args ...any) error {
		return &access.FieldError{Field: "root", Rule: fmt.Sprintf(rule, args...)}
	}
	if root == "" {
		return nil, bad("must not be empty")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, bad("must be a path")
	}
	if root == filepath.Dir(root) {
		return nil, bad("must not be the root of the file system")
	}
	if err := os.MkdirAll(root, private); err != nil {
		return nil, bad("must be a directory or a place for one: %v", reason(err))
	}
	probe, err := os.MkdirTemp(root, ".probe-")
	if err != nil {
		return nil, bad("must be writable: %v", reason(err))
	}
	if err := os.Remove(probe); err != nil {
		return nil, bad("must be writable: %v", reason(err))
	}
	return &Mounter{root: root}, nil
}

// reason is err without the path, which is the host's own business.
func reason(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// Mount makes the folder's directory where it is missing. The root itself is
// never made again: where it has vanished, so have the folders, and an empty
// one in its place would hide that (mount.ErrUnavailable).
func (m *Mounter) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := place(s.Row)
	if err != nil {
		return nil, err
	}
	if err := m.make(rel); err != nil {
		return nil, fmt.Errorf("%w: mount %s: %w", mount.ErrUnavailable, s.Row.ID, err)
	}
	return folder(filepath.Join(m.root, filepath.FromSlash(rel))), nil
}

// make goes through os.Root, so that no link below the root leads out of it.
func (m *Mounter) make(rel string) error {
	root, err := os.OpenRoot(m.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(rel, private); err != nil {
		return err
	}
	info, err := root.Lstat(rel)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", rel)
	}
	dir, err := root.Open(rel)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Readdirnames(1); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// place is where a mount's files are below the root.
func place(r mount.Row) (string, error) {
	if r.Scope == "" {
		return "", &access.FieldError{Field: "Row.Scope", Rule: "must not be empty"}
	}
	if canonical, ok := id.Canonical(string(r.ID)); !ok || canonical != string(r.ID) {
		return "", &access.FieldError{Field: "Row.ID", Rule: "must be a canonical UUID"}
	}
	return path.Join(segment(r.Scope), string(r.ID)), nil
}

// folder is a directory with nothing to give back.
type folder string

func (f folder) HostDir() string             { return string(f) }
func (folder) Release(context.Context) error { return nil }
