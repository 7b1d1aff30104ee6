package memory

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxPlace is where a path leads.
type boxPlace struct {
	// fixed: it is the working directory, a bind, or leads to one; it is not to be moved or removed.
	fixed bool
	// missing are the last elements of the path, of which the first is not there; none where the path leads to something.
	missing []string
	// dangling: it is not there because a link on the way leads to nothing.
	dangling bool
	// onlyDir: the text of that link can be satisfied by a directory only.
	onlyDir bool

	// In a bind: the bind, and the path below it without links, but for a last one that was not followed.
	bind *boxBind
	rel  string

	// Outside binds: the path, likewise.
	path string
	dir  *boxNode // the deepest directory above it that exists
	node *boxNode // what is there, nil for nothing
}

// name is the last element of the place's path.
func (p boxPlace) name() string { return path.Base(p.path) }

// maxBoxLinks is how many links are followed in one path.
const maxBoxLinks = 40

// boxWalk is a path on its way to a place.
type boxWalk struct {
	todo     []string // the elements that are left
	fromLink int      // how many of them, the first ones, come from a link
	links    int      // how many links were followed
}

// take takes the next element. wasLink reports whether it came from a link.
func (w *boxWalk) take() (name string, wasLink bool) {
	name, wasLink = w.todo[0], w.fromLink > 0
	w.todo, w.fromLink = w.todo[1:], max(0, w.fromLink-1)
	return name, wasLink
}

// insert puts the elements of a path before what is left.
func (w *boxWalk) insert(p string) {
	all := elements(p)
	w.todo, w.fromLink = append(all, w.todo...), w.fromLink+len(all)
}

// follow takes the text of a link for what is left of the way to it.
func (w *boxWalk) follow(target string) error {
	if w.links++; w.links > maxBoxLinks {
		return syscall.ELOOP
	}
	w.insert(target)
	return nil
}

// absent is the part of a place where nothing is: name is not there.
func (w *boxWalk) absent(name string, wasLink bool) (boxPlace, error) {
	if slices.Contains(w.todo, "..") {
		return boxPlace{}, fs.ErrNotExist
	}
	return boxPlace{
		missing:  append([]string{name}, withoutDots(w.todo)...),
		dangling: wasLink,
		onlyDir:  slices.Contains(w.todo, "."),
	}, nil
}

// elements splits a path. A last element "." says that the path ends on one, or
// on a slash: it must then lead to a directory.
func elements(p string) []string {
	all := withoutDots(strings.Split(p, "/"))
	if strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") {
		all = append(all, ".")
	}
	return all
}

// withoutDots returns the elements but for those that are empty or ".".
func withoutDots(elements []string) []string {
	return slices.DeleteFunc(slices.Clone(elements), func(e string) bool { return e == "" || e == "." })
}

// locate finds out where p leads. A last element that is a link is followed
// only if follow is set. ErrEscapes where the way leaves the working directory
// and the binds, which it may pass in any order. Sandboxes.mu is held, and let
// go while a bind is looked at: a place outside binds is as it was found.
func (f *boxFS) locate(ctx context.Context, p string, follow bool) (boxPlace, error) {
	if ctx.Err() != nil {
		return boxPlace{}, context.Cause(ctx)
	}
	if err := f.usable(); err != nil {
		return boxPlace{}, err
	}
	abs, err := sandbox.ResolvePath(boxWorkdir, p)
	if err != nil {
		return boxPlace{}, err
	}
	w := &boxWalk{todo: elements(abs)}
	for {
		at, err := f.walk(w, follow)
		if err != nil || at.bind == nil {
			return at, err
		}
		b := at.bind
		f.s.mu.Unlock()
		at, leaves, err := b.walk(w, follow)
		f.s.mu.Lock()
		if err = b.plain(err); err == nil {
			err = f.usable()
		}
		if err != nil || !leaves {
			return at, err
		}
	}
}

// walk goes from the root until it comes to a place, or to a bind, in which
// w's elements are left to be walked. Sandboxes.mu is held.
func (f *boxFS) walk(w *boxWalk, follow bool) (boxPlace, error) {
	trail := []*boxNode{f.m.root} // the directories from the root to where we are
	at := "/"
	for len(w.todo) > 0 {
		name, wasLink := w.take()
		if name == "." {
			continue
		}
		if name == ".." {
			trail, at = trail[:max(1, len(trail)-1)], path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		if b := f.bindAt(next); b != nil {
			return boxPlace{bind: b}, nil
		}
		dir := trail[len(trail)-1]
		node := dir.entries[name]
		if _, inside := sandbox.PathWithin(boxWorkdir, next); !inside {
			if node = f.towardsBinds(next); node == nil {
				return boxPlace{}, sandbox.ErrEscapes
			}
		}
		switch {
		case node == nil:
			place, err := w.absent(name, wasLink)
			place.path, place.dir = path.Join(at, path.Join(place.missing...)), dir
			return place, err
		case node.kind == sandbox.KindSymlink && (follow || len(w.todo) > 0):
			if err := w.follow(node.target); err != nil {
				return boxPlace{}, err
			}
			if path.IsAbs(node.target) {
				trail, at = trail[:1], "/"
			}
		case node.kind == sandbox.KindDir:
			trail, at = append(trail, node), next
		case len(w.todo) == 0:
			return boxPlace{path: next, dir: dir, node: node}, nil
		default:
			return boxPlace{}, sandbox.ErrNotDir
		}
	}
	if at == "/" {
		return boxPlace{}, sandbox.ErrEscapes
	}
	_, below := sandbox.PathWithin(boxWorkdir, path.Dir(at))
	return boxPlace{path: at, fixed: !below, dir: trail[len(trail)-2], node: trail[len(trail)-1]}, nil
}

// walk goes on in the bind until it comes to a place, or leaves: by a link, or
// by an element ".."; then w is the way from the root again.
func (b *boxBind) walk(w *boxWalk, follow bool) (at boxPlace, leaves bool, err error) {
	rel, isDir := ".", true
	for len(w.todo) > 0 {
		if !isDir {
			return boxPlace{}, false, sandbox.ErrNotDir
		}
		name, wasLink := w.take()
		if name == "." {
			continue
		}
		if name == ".." {
			if rel == "." {
				w.insert(path.Dir(b.at))
				return boxPlace{}, true, nil
			}
			rel = path.Dir(rel)
			continue
		}
		next := path.Join(rel, name)
		info, err := b.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			place, err := w.absent(name, wasLink)
			place.bind, place.rel = b, path.Join(rel, path.Join(place.missing...))
			return place, false, err
		case err != nil:
			return boxPlace{}, false, err
		case info.Mode()&fs.ModeSymlink != 0 && (follow || len(w.todo) > 0):
			target, err := b.root.Readlink(next)
			if err == nil {
				err = w.follow(target)
			}
			if err == nil && !path.IsAbs(target) {
				w.insert(path.Join(b.at, rel))
			}
			return boxPlace{}, err == nil, err
		}
		rel, isDir = next, info.IsDir()
	}
	return boxPlace{fixed: rel == ".", bind: b, rel: rel}, false, nil
}
