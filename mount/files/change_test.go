package files

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// mounts trap 18: what only begins alike is another.
func TestDelete(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		fill(t, d, "foo", "foobar", "foo.txt", "fo", "dir/a", "dir/b/c", "dir/", "dir2/x", "x/dir/y")
		told := 0
		for path, want := range map[string]int{"foo": 1, "dir": 3} {
			r, err := d.Delete(t.Context(), path, &DeleteOptions{Progress: func(p Progress) { told = p.Done }})
			if err != nil || r.Done != want || told != want {
				t.Errorf("Delete(%s) = %+v, %v, told %d", path, r, err, told)
			}
		}
		same(t, "what is left", keysOf(t, d), []string{"dir2/x", "fo", "foo.txt", "foobar", "x/dir/y"})
		for _, root := range []string{"", "/", "//"} {
			if _, err := d.Delete(t.Context(), root, nil); !is[*PathError](err) {
				t.Errorf("Delete of the root as %q: %v", root, err)
			}
		}
	})
}

func TestDeleteTakesAFileAndADirectoryOfOneName(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket()})
	fill(t, d, "foo", "foo/", "foo/a", "foo//b", "foobar")
	if r, err := d.Delete(t.Context(), "foo", nil); err != nil || r.Done != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	same(t, "what is left", keysOf(t, d), []string{"foobar"})
}

func TestDeleteReportsEachFailure(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	for i := range 150 {
		fill(t, d, fmt.Sprintf("d/%03d", i))
	}
	s.fail = func(op, key string) error {
		if op == "delete" && !strings.HasSuffix(key, "7") {
			return errBroke
		}
		return nil
	}
	r, err := d.Delete(t.Context(), "d", nil)
	e, ok := errors.AsType[*PartialError](err)
	if !ok || r.Done != 15 || r.Failed != 135 || len(r.Failures) != maxFailures || e.Report.Failed != r.Failed {
		t.Fatalf("%d done, %d failed, %d named: %v", r.Done, r.Failed, len(r.Failures), err)
	}
	for _, f := range r.Failures {
		if f.Path == "" || !strings.Contains(f.Err.Error(), "broke") {
			t.Errorf("%+v", f)
		}
	}
	s.fail = nil
	if r, err := d.Delete(t.Context(), "d", nil); err != nil || r.Done != 135 {
		t.Errorf("again: %+v, %v", r, err)
	}
}

func TestChangesEndWithTheContext(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, d *Folder, p func(Progress)) (Report, error){
		"Delete": func(ctx context.Context, d *Folder, p func(Progress)) (Report, error) {
			return d.Delete(ctx, "d", &DeleteOptions{Progress: p})
		},
		"Copy": func(ctx context.Context, d *Folder, p func(Progress)) (Report, error) {
			return d.Copy(ctx, "d", "e", &MoveOptions{Progress: p})
		},
		"Rename": func(ctx context.Context, d *Folder, p func(Progress)) (Report, error) {
			return d.Rename(ctx, "d", "e", &MoveOptions{Progress: p})
		},
	} {
		d := open(t, Config{Bucket: newStore().bucket()})
		for i := range 500 {
			fill(t, d, fmt.Sprintf("d/%03d", i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := call(ctx, d, func(p Progress) {
			if p.Done == 10 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || !is[*PartialError](err) || r.Done < 10 || r.Done > 10+fan {
			t.Errorf("%s: %d done, %v", name, r.Done, err)
		}
		if name == "Rename" && countBelow(t, d, "d") != 500 {
			t.Errorf("a rename that copied a part deleted %d", 500-countBelow(t, d, "d"))
		}
	}
}

func countBelow(t *testing.T, d *Folder, dir string) int {
	t.Helper()
	n, _, err := d.Count(t.Context(), dir, ViewAll)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCopyAndRename(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		fill(t, d, "a.txt", "dir/x", "dir/y/z", "dir/e/", "dirt")
		before := content(t, d, "dir/y/z")
		var last Progress
		if r, err := d.Copy(t.Context(), "dir", "to/there", &MoveOptions{Progress: func(p Progress) { last = p }}); err != nil || r.Done != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		if last != (Progress{Done: 3, Total: 3}) {
			t.Errorf("progress %+v", last)
		}
		if r, err := d.Rename(t.Context(), "a.txt", "b/c.txt", nil); err != nil || r.Done != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		same(t, "keys", keysOf(t, d), []string{"b/c.txt", "dir/e/", "dir/x", "dir/y/z", "dirt", "to/there/e/", "to/there/x", "to/there/y/z"})
		if r, err := d.Rename(t.Context(), "to/there", "dir2", nil); err != nil || r.Done != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		same(t, "keys", keysOf(t, d), []string{"b/c.txt", "dir/e/", "dir/x", "dir/y/z", "dir2/e/", "dir2/x", "dir2/y/z", "dirt"})
		if got := content(t, d, "dir2/y/z"); got != before {
			t.Errorf("it holds %q", got)
		}
		for _, move := range []func(context.Context, string, string, *MoveOptions) (Report, error){d.Copy, d.Rename} {
			for _, to := range []string{"dirt", "dir2", "b"} {
				if _, err := move(t.Context(), "dir", to, nil); !is[*ConflictError](err) {
					t.Errorf("to %s, which is there: %v", to, err)
				}
			}
			for _, to := range []string{"dir", "dir/y", "dir/new/deep", "/x", ""} {
				if _, err := move(t.Context(), "dir", to, nil); !is[*PathError](err) {
					t.Errorf("to %q: %v", to, err)
				}
			}
		}
		write(t, d, "dir/x", "newer", nil)
		if r, err := d.Rename(t.Context(), "dir", "dir2", &MoveOptions{Overwrite: true}); err != nil || r.Done != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := content(t, d, "dir2/x"); got != "newer" {
			t.Errorf("it holds %q", got)
		}
		same(t, "keys", keysOf(t, d), []string{"b/c.txt", "dir2/e/", "dir2/x", "dir2/y/z", "dirt"})
	})
}

// What could not be copied is not deleted, and nothing else is either.
func TestARenameThatFailsDeletesNothing(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket(), Precondition: ifMatch})
	fill(t, d, "d/a", "d/b", "d/c")
	s.fail = func(op, key string) error {
		if op == "copy" && strings.HasSuffix(key, "b") {
			return errBroke
		}
		return nil
	}
	r, err := d.Rename(t.Context(), "d", "e", nil)
	if !is[*PartialError](err) || r.Done != 2 || len(r.Failures) != 1 || r.Failures[0].Path != "e/b" && !strings.Contains(r.Failures[0].Err.Error(), "b") {
		t.Errorf("%+v, %v", r, err)
	}
	same(t, "keys", keysOf(t, d), []string{"d/a", "d/b", "d/c", "e/a", "e/c"})
}

// A file that is written between its copy and its deletion stays.
func TestARenameLosesNoWrite(t *testing.T) {
	for rule, c := range map[string]Config{
		"the bucket compares":            {Precondition: ifMatch},
		"this package looks once before": {},
	} {
		s := newStore()
		c.Bucket = s.bucket()
		d := open(t, c)
		fill(t, d, "d/a", "d/b")
		var once sync.Once
		s.fail = func(op, key string) error {
			if op == "copy" && strings.HasSuffix(key, "d/b") {
				once.Do(func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.put(key, []byte("newer"), nil)
				})
			}
			return nil
		}
		r, err := d.Rename(t.Context(), "d", "e", nil)
		if !is[*PartialError](err) || r.Done != 1 || len(r.Failures) != 1 || r.Failures[0].Path != "d/b" || !is[*ConflictError](r.Failures[0].Err) {
			t.Errorf("%s: %+v, %v", rule, r, err)
		}
		if got := content(t, d, "d/b"); got != "newer" {
			t.Errorf("%s: it holds %q", rule, got)
		}
	}
}

func TestMovesAreBounded(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket(), MaxScan: 3})
	fill(t, d, "d/1", "d/2", "d/3", "e/1", "e/2", "e/3", "e/4", "long/"+strings.Repeat("n", 700))
	if r, err := d.Copy(t.Context(), "d", "d2", nil); err != nil || r.Done != 3 {
		t.Errorf("as many as allowed: %+v, %v", r, err)
	}
	if _, err := d.Copy(t.Context(), "e", "e2", nil); !is[*TooLargeError](err) {
		t.Errorf("more than allowed: %v", err)
	}
	if _, err := d.Copy(t.Context(), "long", strings.Repeat("m", 300), nil); !is[*PathError](err) {
		t.Errorf("to a path that would be too long: %v", err)
	}
}

// mounts trap 15, the content's part: all of a mount goes, and nothing of another.
func TestPurge(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		d := workingDir(t, f)
		other, err := f.Folder(otherRow())
		if err != nil {
			t.Fatal(err)
		}
		purge := mount.PurgerConfig{Remove: f.Purge}.Remove
		raw(t, d, "agent-files", "")
		fill(t, d, "a", "b/c", "e/", ".bunkroom-x")
		fill(t, other, "a")
		for range 2 { // a purge that was broken off is called again
			if err := purge(t.Context(), mount.Tombstone{ID: row().ID, Scope: row().Scope}); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "left", keysOf(t, d), []string{})
		same(t, "the other's", keysOf(t, other), []string{"a"})
		for _, t2 := range []mount.Tombstone{{}, {ID: row().ID}, {Scope: row().Scope}} {
			if err := purge(t.Context(), t2); !is[*access.FieldError](err) {
				t.Errorf("%+v: %v", t2, err)
			}
		}
	})
	s := newStore()
	f, err := New(Config{Bucket: s.bucket()})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, folder(t, f), "a", "b")
	s.fail = func(op, key string) error {
		if op == "delete" && strings.HasSuffix(key, "a") {
			return errBroke
		}
		return nil
	}
	if err := f.Purge(t.Context(), mount.Tombstone{ID: row().ID, Scope: row().Scope}); !is[*PartialError](err) {
		t.Errorf("with a failing deletion: %v", err)
	}
}
