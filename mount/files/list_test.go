package files

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

func TestLevelListsOneDirectory(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		fill(t, d, "b.txt", "a.txt", "dir/x", "dir/y/z", "dir-2/x", "empty/", "dir/")
		l, err := d.Level(t.Context(), "", &LevelOptions{Counts: true})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "files first, then folders", paths(l.Entries), []string{"a.txt", "b.txt", "dir/", "dir-2/", "empty/"})
		for i, want := range []int{0, 0, 2, 1, 0} {
			if l.Entries[i].Items != want {
				t.Errorf("%s has %d items, want %d", l.Entries[i].Path, l.Entries[i].Items, want)
			}
		}
		if l.Total != 5 || l.Capped {
			t.Errorf("total %d, capped %v", l.Total, l.Capped)
		}
		if e := l.Entries[0]; e.Size != int64(len("content of a.txt")) || e.ModTime.IsZero() {
			t.Errorf("the file's row is %+v", e)
		}
		for dir, want := range map[string][]string{"dir": {"dir/x", "dir/y/"}, "dir/": {"dir/x", "dir/y/"}, "empty": {}, "no/such": {}} {
			l, err := d.Level(t.Context(), dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "level "+dir, paths(l.Entries), want)
		}
	})
}

// Where a file and a folder share a name, the file's row is shown; what has no
// valid path is not, since it could not be opened.
func TestLevelOfAnUntidyBucket(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket()})
	fill(t, d, "a", "a/b", "x//y", "/z", "c\n", "./e")
	l, err := d.Level(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "level", paths(l.Entries), []string{"a", "x/"})
	if l, err = d.Tree(t.Context(), "", ViewAll); err != nil {
		t.Fatal(err)
	}
	same(t, "tree", paths(l.Entries), []string{"a", "a/b"})
}

// mounts trap 19: a store that lists a directory in itself does not loop.
func TestAFolderListedInItself(t *testing.T) {
	s := newStore()
	s.listsSelf = true
	d := open(t, Config{Bucket: s.bucket()})
	fill(t, d, "a/", "a/b/", "a/b/c", "d")
	for _, view := range []View{ViewAll, ViewGit, ViewGitIgnored} {
		l, err := d.List(t.Context(), "", &ListOptions{View: view})
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprint("view ", view), paths(l.Entries), []string{"a/b/c", "d"})
	}
	// Whatever the lists say, each directory is looked at once.
	var mu sync.Mutex
	looked := map[string]int{}
	w := &walk{hides: func(string) bool { return false }, limit: 1000, dirs: 1000}
	w.level = func(_ context.Context, dir string, _, _ int) (level, error) {
		mu.Lock()
		defer mu.Unlock()
		looked[dir]++
		return level{dirs: []string{"", "loop", "loop/loop"}, files: []Entry{{Path: join(dir, "f")}}}, nil
	}
	found, _, _, err := w.all(t.Context(), "")
	if err != nil || len(found) != 3 {
		t.Errorf("%v, %v", found, err)
	}
	for dir, n := range looked {
		if n != 1 {
			t.Errorf("%q was looked at %d times", dir, n)
		}
	}
}

// mounts trap 32: a count stops, and says so.
func TestCountIsCapped(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		c.MaxCount, c.MaxScan = 5, 5
		d := open(t, c)
		for i := range 5 {
			fill(t, d, fmt.Sprintf("d%d/f", i%2)+fmt.Sprint(i), fmt.Sprintf("m%d/", i%3))
		}
		for _, view := range []View{ViewAll, ViewGit} {
			n, capped, err := d.Count(t.Context(), "", view)
			if n != 5 || capped || err != nil {
				t.Errorf("view %d: five files: %d, %v, %v", view, n, capped, err)
			}
		}
		fill(t, d, "one/more")
		for _, view := range []View{ViewAll, ViewGit} {
			n, capped, err := d.Count(t.Context(), "", view)
			if n != 5 || !capped || err != nil {
				t.Errorf("view %d: six files: %d, %v, %v", view, n, capped, err)
			}
			l, err := d.List(t.Context(), "", &ListOptions{View: view})
			if l.Total != 5 || !l.Capped || err != nil {
				t.Errorf("view %d: list: %d, %v, %v", view, l.Total, l.Capped, err)
			}
		}
		if l, err := d.Level(t.Context(), "", nil); err != nil || len(l.Entries) != 5 || !l.Capped { // of six folders
			t.Errorf("level: %v, %v", l, err)
		}
	})
}

func TestItemCountsAreCapped(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket()})
	for i := range maxItems + 1 {
		fill(t, d, fmt.Sprint("many/", i))
	}
	l, err := d.Level(t.Context(), "", &LevelOptions{Counts: true})
	if err != nil || len(l.Entries) != 1 || l.Entries[0].Items != maxItems || !l.Entries[0].ItemsCapped {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestListSortsThenCuts(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	fill(t, d, "z/a", "b", "a/c", "c/") // each newer than the one before
	for _, c := range []struct {
		rule string
		opts ListOptions
		want []string
	}{
		{"by path", ListOptions{}, []string{"a/c", "b", "z/a"}},
		{"by name", ListOptions{Order: ByName}, []string{"z/a", "b", "a/c"}},
		{"newest first", ListOptions{Order: Recent}, []string{"a/c", "b", "z/a"}},
		{"the limit comes last", ListOptions{Order: ByName, Limit: 2}, []string{"z/a", "b"}},
	} {
		l, err := d.List(t.Context(), "", &c.opts)
		if err != nil {
			t.Fatal(err)
		}
		same(t, c.rule, paths(l.Entries), c.want)
		if l.Total != 3 {
			t.Errorf("%s: total %d: it is before the limit, and without markers", c.rule, l.Total)
		}
	}
	for _, o := range []ListOptions{{Order: 9}, {Limit: -1}} {
		if _, err := d.List(t.Context(), "", &o); !is[*access.FieldError](err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestTreeHasExplicitFoldersOnly(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		fill(t, d, "a/b/f", "a/b/", "e/", ".git/", ".git/x")
		l, err := d.Tree(t.Context(), "", ViewAll)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "all", paths(l.Entries), []string{".git/", ".git/x", "a/b/", "a/b/f", "e/"})
		if l, err = d.Tree(t.Context(), "", ViewGit); err != nil {
			t.Fatal(err)
		}
		want := []string{"a/b/", "a/b/f", "e/"}
		if strings.HasSuffix(t.Name(), "fileblob") { // which lists no marker with what is below it
			want = want[1:]
		}
		same(t, "git", paths(l.Entries), want)
		if l, err = d.Tree(t.Context(), "a", ViewAll); err != nil {
			t.Fatal(err)
		}
		same(t, "below a", paths(l.Entries), []string{"a/b/", "a/b/f"})
	})
}

// mounts trap 22, the listing's part, and section 3.7: only the object at the
// root of a working directory is the link.
func TestTheLinkIsHiddenWhereItStands(t *testing.T) {
	c := Config{Bucket: newStore().bucket()}
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, plain := workingDir(t, f), folder(t, f)
	raw(t, d, "agent-files", "")
	fill(t, d, "sub/agent-files", "x")
	for _, view := range []View{ViewAll, ViewGit, ViewGitIgnored} {
		l, err := d.List(t.Context(), "", &ListOptions{View: view})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "working directory", paths(l.Entries), []string{"sub/agent-files", "x"})
		if l, err = plain.List(t.Context(), "", &ListOptions{View: view}); err != nil {
			t.Fatal(err)
		}
		same(t, "elsewhere", paths(l.Entries), []string{"agent-files", "sub/agent-files", "x"})
	}
	if _, err := d.Stat(t.Context(), "agent-files"); !isNotFound(err) {
		t.Errorf("Stat of the link: %v", err)
	}
	for _, p := range []string{"agent-files", "agent-files/x"} {
		if _, err := d.Write(t.Context(), p, unread{t}, nil); !is[*PathError](err) {
			t.Errorf("Write(%s) in the place of the link: %v", p, err)
		}
		if err := d.Mkdir(t.Context(), p); !is[*PathError](err) {
			t.Errorf("Mkdir(%s) in the place of the link: %v", p, err)
		}
	}
	if _, err := d.Write(t.Context(), "agent-files-2", failing{errBroke}, nil); is[*PathError](err) {
		t.Errorf("a name that only begins so is refused: %v", err)
	}
}

func TestTheHostsOwnEntriesAreHidden(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket(), Internal: []string{"runner"}})
	fill(t, d, "runner/x", "a/runner/y", "runners")
	l, err := d.List(t.Context(), "", &ListOptions{View: ViewGit})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "git view", paths(l.Entries), []string{"a/runner/y", "runners"})
}

func TestEntriesAsJSON(t *testing.T) {
	for _, c := range []struct {
		rule string
		e    Entry
		want string
	}{
		{"times are milliseconds", Entry{Path: "a", Size: 3, ModTime: time.UnixMilli(1_700_000_000_123)}, `{"path":"a","size":3,"is_folder":false,"mtime":1700000000123,"item_count":0}`},
		{"an unknown time is null", Entry{Path: "a", Folder: true, Items: 2, ItemsCapped: true}, `{"path":"a","size":0,"is_folder":true,"mtime":null,"item_count":2,"item_count_capped":true}`},
	} {
		if got, err := json.Marshal(c.e); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.rule, got, err)
		}
	}
}
