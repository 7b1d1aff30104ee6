//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// bind is a directory of the host that appears in a sandbox.
type bind struct {
	host  string
	at    string
	place *place // which also tells one bind from another
}

// Bind makes hostDir appear at the path at. Confined, it is mounted for the
// processes of this handle, and may be at the working directory. Unconfined, there is a symbolic link that
// everybody sees, and a path that is taken by another directory is fs.ErrExist.
func (h *handle) Bind(ctx context.Context, hostDir, at string) (func(context.Context) error, error) {
	if err := h.check(ctx); err != nil {
		return nil, err
	}
	abs, err := sandbox.ResolvePath(h.Workdir(), at)
	if err != nil || !path.IsAbs(at) || !h.bindable(abs) {
		return nil, fmt.Errorf("%w: bind at %q: it must be an absolute path below %s", sandbox.ErrInvalid, at, sandbox.BindRoot(h))
	}
	if info, err := os.Stat(hostDir); err != nil || !info.IsDir() || !filepath.IsAbs(hostDir) {
		return nil, fmt.Errorf("%w: bind %q: it must be the absolute path of a directory", sandbox.ErrInvalid, hostDir)
	}
	place, err := openPlace(abs, hostDir)
	if err != nil {
		return nil, err
	}
	b := bind{host: hostDir, at: abs, place: place}
	if err := h.do(b); err != nil {
		place.root.Close()
		return nil, err
	}
	return func(context.Context) error {
		h.mu.Lock()
		i := slices.Index(h.binds, b)
		if i >= 0 {
			h.binds = slices.Delete(slices.Clone(h.binds), i, i+1)
		}
		h.mu.Unlock()
		if i >= 0 {
			h.undo(b)
		}
		return nil
	}, nil
}

// bindable reports whether something can be bound at a clean absolute path.
// Unconfined, the working directory is a directory of the host like any other, and stays what it is.
func (h *handle) bindable(abs string) bool {
	if abs == h.Workdir() {
		return h.p.confined
	}
	rel, ok := sandbox.PathWithin(sandbox.BindRoot(h), abs)
	return ok && rel != "."
}

func (h *handle) do(b bind) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("%w: %s", sandbox.ErrClosed, h.m.name)
	}
	for _, other := range h.binds {
		_, below := sandbox.PathWithin(other.at, b.at)
		_, above := sandbox.PathWithin(b.at, other.at)
		if other.at != b.at && (below || above) {
			return fmt.Errorf("%w: bind at %q: %q is bound already", sandbox.ErrInvalid, b.at, other.at)
		}
	}
	if !h.p.confined {
		if err := h.m.links.add(filepath.Join(h.m.dir, bindDir), b); err != nil {
			return err
		}
	}
	h.binds = append(slices.Clone(h.binds), b)
	h.files.add(b.place)
	return nil
}

func (h *handle) undo(b bind) {
	h.files.drop(b.place)
	if !h.p.confined {
		h.m.links.drop(filepath.Join(h.m.dir, bindDir), b)
	}
}

// mounted are the binds that processes see: of several at one path, the newest.
func mounted(binds []bind) []bind {
	var seen []bind
	for i, b := range binds {
		if !slices.ContainsFunc(binds[i+1:], func(o bind) bool { return o.at == b.at }) {
			seen = append(seen, b)
		}
	}
	return seen
}

// links are the symbolic links by which an unconfined machine has its binds.
type links struct {
	mu   sync.Mutex
	used map[string]*link // by path
}

type link struct {
	host string
	n    int // how many binds need it
}

func (l *links) add(dir string, b bind) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if has := l.used[b.at]; has != nil {
		if has.host != b.host {
			return fmt.Errorf("%w: %s is bound to another directory", fs.ErrExist, b.at)
		}
		has.n++
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	rel, _ := sandbox.PathWithin(dir, b.at)
	if err := root.MkdirAll(path.Dir(rel), 0o755); err != nil {
		return err
	}
	if _, err := root.Readlink(rel); err == nil { // left by a process that was killed
		err = root.Remove(rel)
		if err != nil {
			return err
		}
	}
	if err := root.Symlink(b.host, rel); err != nil {
		return err
	}
	if l.used == nil {
		l.used = map[string]*link{}
	}
	l.used[b.at] = &link{host: b.host, n: 1}
	return nil
}

func (l *links) drop(dir string, b bind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := l.used[b.at]
	if has == nil {
		return
	}
	if has.n--; has.n > 0 {
		return
	}
	delete(l.used, b.at)
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		return
	}
	defer root.Close()
	rel, _ := sandbox.PathWithin(dir, b.at)
	if target, err := root.Readlink(rel); err == nil && target == b.host {
		root.Remove(rel)
	}
}
