package mounttest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// loose is a mounter whose parts can be broken one by one.
type loose struct {
	root    string
	check   func(context.Context, mount.Row) error
	place   func(mount.Row) string
	prepare func(dir string) error
	release func(dir string, nth int) error
}

// sound returns one with nothing broken.
func sound(t *testing.T) *loose {
	return &loose{
		root: t.TempDir(),
		check: func(ctx context.Context, r mount.Row) error {
			switch canonical, _ := id.Canonical(string(r.ID)); {
			case ctx.Err() != nil:
				return ctx.Err()
			case r.Scope == "":
				return &access.FieldError{Field: "Row.Scope"}
			case canonical != string(r.ID) || r.ID == "":
				return &access.FieldError{Field: "Row.ID"}
			}
			return nil
		},
		place: func(r mount.Row) string {
			scope := "s" + url.PathEscape(r.Scope)
			if len(scope) > 255 {
				scope = id.Named(r.Scope)
			}
			return filepath.Join(scope, string(r.ID))
		},
		prepare: func(dir string) error { return os.MkdirAll(dir, 0o700) },
		release: func(string, int) error { return nil },
	}
}

func (l *loose) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	if err := l.check(ctx, s.Row); err != nil {
		return nil, err
	}
	dir := filepath.Join(l.root, l.place(s.Row))
	if err := l.prepare(dir); err != nil {
		return nil, err
	}
	return &looseMount{l: l, dir: dir}, nil
}

type looseMount struct {
	l        *loose
	dir      string
	released int
}

func (m *looseMount) HostDir() string { return m.dir }

func (m *looseMount) Release(context.Context) error {
	m.released++
	return m.l.release(m.dir, m.released)
}

// TestMounterSuitePasses shows that the suite asks for nothing but the contract.
func TestMounterSuitePasses(t *testing.T) {
	TestMounter(t, func(t *testing.T) mount.Mounter { return sound(t) })
}

// TestMounterSuiteCatches runs the suite on mounters with one thing broken
// each; every check must catch at least one.
func TestMounterSuiteCatches(t *testing.T) {
	broken := []struct {
		name   string
		check  string // which must catch it
		breaks func(*loose)
	}{
		{"a relative path", "directory", func(l *loose) {
			cwd, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			if l.root, err = filepath.Rel(cwd, l.root); err != nil {
				t.Fatal(err)
			}
		}},
		{"release deletes the folder under another reference", "same row", func(l *loose) {
			l.release = func(dir string, _ int) error { return os.RemoveAll(dir) }
		}},
		{"the second release fails", "released twice", func(l *loose) {
			l.release = func(_ string, nth int) error {
				if nth > 1 {
					return errors.New("not mounted")
				}
				return nil
			}
		}},
		{"a new folder each time", "outlives release", func(l *loose) {
			var n int
			place := l.place
			l.place = func(r mount.Row) string { n++; return filepath.Join(fmt.Sprint(n), place(r)) }
		}},
		{"files are kept by slug", "renamed", func(l *loose) {
			place := l.place
			l.place = func(r mount.Row) string { return place(r) + r.Slug }
		}},
		{"the scope is left out", "apart", func(l *loose) {
			l.place = func(r mount.Row) string { return string(r.ID) }
		}},
		{"the scope is a path", "apart", func(l *loose) {
			l.place = func(r mount.Row) string { return filepath.Join("s", filepath.Clean("/"+r.Scope), string(r.ID)) }
		}},
		{"one folder inside another", "apart", func(l *loose) {
			place := l.place
			l.place = func(r mount.Row) string {
				if r.ID == secondID {
					r.ID = firstID + "/" + secondID
				}
				return place(r)
			}
		}},
		{"any row is taken", "bad rows", func(l *loose) {
			l.check = func(ctx context.Context, _ mount.Row) error { return ctx.Err() }
		}},
		{"the context is not looked at", "ended context", func(l *loose) {
			check := l.check
			l.check = func(ctx context.Context, r mount.Row) error { return check(context.WithoutCancel(ctx), r) }
		}},
		{"callers at once get folders of their own", "at once", func(l *loose) {
			var mu sync.Mutex
			var n int
			place := l.place
			l.place = func(r mount.Row) string {
				mu.Lock()
				defer mu.Unlock()
				n++
				return filepath.Join(fmt.Sprint(n), place(r))
			}
		}},
	}
	caught := map[string]bool{}
	for _, b := range broken {
		l := sound(t)
		b.breaks(l)
		for _, c := range mounterChecks() {
			if c.name == b.check {
				caught[c.name] = c.run(t.Context(), l) != nil
			}
		}
		if !caught[b.check] {
			t.Errorf("%s: not caught by %q", b.name, b.check)
		}
	}
	for _, c := range mounterChecks() {
		if !caught[c.name] {
			t.Errorf("no broken mounter shows that %q catches anything", c.name)
		}
	}
}
