//go:build linux

package local_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// replay keeps a list of what is there by what is told: each directory with the names in it.
type replay map[string]map[string]bool

func (r replay) add(p string) {
	if dir := filepath.Dir(p); r[dir] == nil {
		r[dir] = map[string]bool{}
	}
	r[filepath.Dir(p)][filepath.Base(p)] = true
}

// move takes a path away, with what is in it, and puts it elsewhere where that is not empty.
func (r replay) move(from, to string) {
	if dir := r[filepath.Dir(from)]; !dir[filepath.Base(from)] {
		return
	}
	delete(r[filepath.Dir(from)], filepath.Base(from))
	if to != "" {
		r.add(to)
	}
	for _, name := range slices.Collect(maps.Keys(r[from])) {
		below := ""
		if to != "" {
			below = filepath.Join(to, name)
		}
		r.move(filepath.Join(from, name), below)
	}
	delete(r, from)
}

func (r replay) tell(c sandbox.Change) {
	switch {
	case c.Kind == sandbox.ChangeRemoved:
		r.move(c.Path, "")
		return
	case c.From != "":
		r.move(c.From, c.Path)
	}
	r.add(c.Path)
}

func (r replay) all() (paths []string) {
	for dir, names := range r {
		for name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	slices.Sort(paths)
	return paths
}

// wantReplayed reads changes until there is a file "last", and compares with what is there.
func wantReplayed(t *testing.T, dir string, does func(), seq func(func(sandbox.Change, error) bool)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		does()
		if err := os.WriteFile(filepath.Join(dir, "last"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	list := replay{}
	for c, err := range seq {
		if err != nil || c.Kind == sandbox.ChangeOverflow {
			t.Fatalf("told %+v, %v", c, err)
		}
		if list.tell(c); c.Path == filepath.Join(dir, "last") {
			break
		}
	}
	<-done
	var want []string
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if p != dir {
			want = append(want, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, list.all()); diff != "" {
		t.Errorf("(-is +told)\n%.2000s", diff)
	}
}

// Processes that make directories and move them at once, faster than they can be watched, are not too fast.
func TestWatchMissesNothing(t *testing.T) {
	p := open(t, true)
	sb := attach(t, p, create(t, p, "x"))
	if err := sb.FS().Mkdir(deadline(t), "dir"); err != nil {
		t.Fatal(err)
	}
	wantReplayed(t, filepath.Join(sb.Workdir(), "dir"), func() {
		sh(t, sb, `cd dir; for k in 1 2 3; do (for i in $(seq 150); do
			mkdir -p $k-$i/a/b; echo x > $k-$i/a/b/f; mv $k-$i m$k-$i; [ $((i % 3)) = 0 ] && rm -r m$k-$i; [ $((i % 5)) = 0 ] && mv m$k-$i ../out-$k-$i
		done 2>/dev/null; true) & done; wait`)
	}, watch(t, deadline(t), sb, "dir"))
}

// Two that change places are told so that it shows who is where, and are watched there.
func TestWatchExchange(t *testing.T) {
	p := open(t, true)
	sb := attach(t, p, create(t, p, "x"))
	dir := filepath.Join(sb.Workdir(), "dir")
	if err := sb.FS().Mkdir(deadline(t), "dir"); err != nil {
		t.Fatal(err)
	}
	wantReplayed(t, dir, func() {
		for _, name := range []string{"a/x/1", "b/y/2", "c", "d/z/3"} {
			if err := sandbox.WriteFile(deadline(t), sb.FS(), "dir/"+name, nil, nil); err != nil {
				t.Error(err)
			}
		}
		for _, pair := range [][2]string{{"a", "b"}, {"c", "d"}, {"a/y", "b/x"}, {"a", "d"}} {
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, pair[0]), unix.AT_FDCWD, filepath.Join(dir, pair[1]), unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{"b/y/4", "c/z/5", "d/x/6"} {
			if err := sandbox.WriteFile(deadline(t), sb.FS(), "dir/"+name, nil, nil); err != nil {
				t.Error(err)
			}
		}
	}, watch(t, deadline(t), sb, "dir"))
}
