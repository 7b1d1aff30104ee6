//go:build linux

package local

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/bunkroom/bunkroom/sandbox"
)

// place is a directory of the host with the path it has in the sandbox.
type place struct {
	at      string
	root    *os.Root
	outside error // what root says of a path that leads out of it
}

func openPlace(at, dir string) (*place, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	_, err = root.Lstat("..")
	return &place{at: at, root: root, outside: errors.Unwrap(err)}, nil
}

// files is the FS of a handle: a few places, each confined by an os.Root.
type files struct {
	h *handle

	mu      sync.RWMutex
	places  []*place // the newest last
	writers map[*writer]struct{}
}

func (f *files) add(p *place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places = append(slices.Clone(f.places), p)
}

func (f *files) drop(p *place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.places, p); i >= 0 {
		f.places = slices.Delete(slices.Clone(f.places), i, i+1)
		p.root.Close()
		f.h.m.watches.end(func(w *watch) bool { return w.place == p }, fs.ErrNotExist)
	}
}

func (f *files) all() []*place {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.places
}

// at finds the place that the clean absolute path abs lies in, and its path there.
func at(places []*place, abs string) (p *place, rel string, ok bool) {
	for _, p := range slices.Backward(places) {
		if rel, ok := sandbox.PathWithin(p.at, abs); ok {
			return p, rel, true
		}
	}
	return nil, "", false
}

// spot is a path within a place.
type spot struct {
	*place
	rel string
}

// tail says what becomes of a link at the very end of a path.
type tail bool

const (
	followTail tail = true
	keepTail   tail = false
)

// in calls fn with the spot that a path means. Links that stay within a place
// are followed by its os.Root. For one that leads elsewhere, or is absolute,
// the path is looked through once more here, and fn is called again with where it leads.
func (f *files) in(name string, t tail, fn func(spot) error) error {
	abs, err := sandbox.ResolvePath(f.h.Workdir(), name)
	if err != nil {
		return err
	}
	places := f.all()
	p, rel, ok := at(places, abs)
	if !ok {
		return sandbox.ErrEscapes
	}
	err = fn(spot{p, rel})
	if !errors.Is(err, p.outside) {
		return err
	}
	if abs, err = follow(places, abs, t); errors.Is(err, p.outside) {
		return sandbox.ErrEscapes
	} else if err != nil {
		return err
	}
	if p, rel, ok = at(places, abs); !ok {
		return sandbox.ErrEscapes
	}
	if err = fn(spot{p, rel}); errors.Is(err, p.outside) {
		return sandbox.ErrEscapes // a link was put there meanwhile
	}
	return err
}

// mostLinks is how many links a path may lead through.
const mostLinks = 40

// mostLooks is how many directories are passed, in all, to look through a
// path: each element is looked for from the root of its place. What runs in a
// machine can nest directories and chain links so that there would be hours of
// it; a path that is a few hundred elements deep stays well below.
const mostLooks = 1 << 16

// follow replaces the links in a path by what they lead to. What it returns
// is only a path: whoever uses it goes through an os.Root again.
func follow(places []*place, abs string, t tail) (string, error) {
	todo := strings.Split(strings.TrimPrefix(abs, "/"), "/")
	cur := "/"
	for links, looks := 0, 0; len(todo) > 0; {
		elem := todo[0]
		todo = todo[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			cur = path.Dir(cur)
			continue
		}
		next := path.Join(cur, elem)
		p, rel, ok := at(places, next)
		if !ok {
			if !leadsTo(places, next) {
				return "", sandbox.ErrEscapes
			}
			cur = next
			continue
		}
		if rel == "." || len(todo) == 0 && t == keepTail {
			cur = next
			continue
		}
		if looks += strings.Count(rel, "/") + 1; looks > mostLooks {
			return "", syscall.ENAMETOOLONG
		}
		target, err := p.root.Readlink(rel)
		switch {
		case err == nil:
			if links++; links > mostLinks {
				return "", syscall.ELOOP
			}
			if path.IsAbs(target) {
				cur = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
		case errors.Is(err, fs.ErrNotExist) && slices.Contains(todo, ".."):
			return "", err
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist):
			cur = next
		default:
			return "", err
		}
	}
	return cur, nil
}

// leadsTo reports whether a place lies below dir.
func leadsTo(places []*place, dir string) bool {
	return slices.ContainsFunc(places, func(p *place) bool {
		_, ok := sandbox.PathWithin(dir, p.at)
		return ok
	})
}
