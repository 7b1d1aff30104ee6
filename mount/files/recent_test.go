package files

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRollUp(t *testing.T) {
	f := func(path string, seconds int) Entry { return Entry{Path: path, Size: 1, ModTime: at(seconds)} }
	unknown := Entry{Path: "a/unknown", Size: 1}
	for _, c := range []struct {
		rule string
		all  []Entry
		want []string
	}{
		{"a clone is one row", []Entry{f("repo/a", 0), f("repo/b/c", 2), f("note", 100)}, []string{"note", "repo/"}},
		{"also where nothing else is", []Entry{f("repo/a", 0), f("repo/b/c", 2)}, []string{"repo/"}},
		{"the root never collapses", []Entry{f("a", 0), f("b", 1)}, []string{"b", "a"}},
		{"one file is itself", []Entry{f("a/x", 0), f("note", 100)}, []string{"note", "a/x"}},
		{"work over time stays", []Entry{f("src/a", 0), f("src/b", 500), f("note", 550)}, []string{"note", "src/b", "src/a"}},
		{"the better separated side counts", []Entry{f("before", -1), f("repo/a", 0), f("repo/b", 10), f("after", 100)}, []string{"after", "repo/", "before"}},
		{"the gap may be as long as the time within", []Entry{f("repo/a", 0), f("repo/b", 10), f("after", 20)}, []string{"after", "repo/"}},
		{"and no shorter", []Entry{f("repo/a", 0), f("repo/b", 10), f("after", 19)}, []string{"after", "repo/b", "repo/a"}},
		{"a file without a time keeps its directory open", []Entry{unknown, f("a/x", 0), f("a/y", 1), f("note", 100)}, []string{"note", "a/y", "a/x", "a/unknown"}},
		{"what is written in between says nothing of the sides", []Entry{f("pkg/a", 0), f("lock", 1), f("pkg/b", 2), f("note", 100)}, []string{"note", "pkg/", "lock"}},
		{"where all else is in between it stays open", []Entry{f("pkg/a", 0), f("lock", 1), f("pkg/b", 2)}, []string{"pkg/b", "lock", "pkg/a"}},
		{"the first from the top stands for all", []Entry{f("r/s/a", 0), f("r/s/b", 1), f("r/c", 2), f("note", 100)}, []string{"note", "r/"}},
		{"below one that is open it may be a deeper one", []Entry{f("r/s/a", 0), f("r/s/b", 1), f("r/c", 90), f("note", 100)}, []string{"note", "r/c", "r/s/"}},
		{"names that only begin alike are others", []Entry{f("a/x", 0), f("a/y", 1), f("a-b", 100)}, []string{"a-b", "a/"}},
	} {
		got := rollUp(c.all)
		sortEntries(got, Recent)
		same(t, c.rule, paths(got), c.want)
	}
	got := rollUp([]Entry{f("r/s/a", 0), f("r/s/b", 1), f("r/c", 2)})
	if want := (Entry{Path: "r", Folder: true, Size: 3, ModTime: at(2), Items: 2}); len(got) != 1 || got[0] != want {
		t.Errorf("the row is %+v, want the summed size, the newest time and the direct children: %+v", got, want)
	}
}

func TestRollUpLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]bool{}
		var all []Entry
		for range rapid.IntRange(0, 25).Draw(t, "files") {
			p := rapid.StringMatching(`[ab]{1}(/[abc]{1}){0,3}`).Draw(t, "path") + "/f" + fmt.Sprint(len(all))
			e := Entry{Path: strings.TrimPrefix(p, "/"), Size: rapid.Int64Range(0, 9).Draw(t, "size")}
			if rapid.IntRange(0, 9).Draw(t, "known") > 0 {
				e.ModTime = at(rapid.IntRange(0, 300).Draw(t, "time"))
			}
			if !seen[e.Path] {
				seen[e.Path] = true
				all = append(all, e)
			}
		}
		got := rollUp(all)
		var size, total int64
		for _, e := range all {
			total += e.Size
			n := 0
			for _, row := range got {
				if within(e.Path, row.Path) {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%s is in %d rows of %v", e.Path, n, paths(got))
			}
		}
		for _, row := range got {
			size += row.Size
			if !row.Folder {
				continue
			}
			inside := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return !within(e.Path, row.Path) })
			if len(inside) < 2 || row.Items < 1 || slices.ContainsFunc(inside, func(e Entry) bool { return e.ModTime.IsZero() || e.ModTime.After(row.ModTime) }) {
				t.Fatalf("the row %+v stands for %v", row, inside)
			}
		}
		if size != total {
			t.Fatalf("the rows have %d bytes, the files %d", size, total)
		}
		// The order of the files is of no concern.
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		again := rollUp(shuffled)
		sortEntries(got, Recent)
		sortEntries(again, Recent)
		if !slices.Equal(got, again) {
			t.Fatalf("%v, in another order %v", got, again)
		}
		// Nor is when it was: only distances count.
		for i := range all {
			if !all[i].ModTime.IsZero() {
				all[i].ModTime = all[i].ModTime.Add(1000 * time.Hour)
			}
		}
		later := rollUp(all)
		sortEntries(later, Recent)
		if !slices.Equal(paths(got), paths(later)) {
			t.Fatalf("%v, a thousand hours later %v", paths(got), paths(later))
		}
	})
}

func TestRecentLeavesOutDotsAndLimitsLast(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket()})
	fill(t, d, "old", ".cache/x", "a/.hidden/y", "repo/a", "repo/b", "repo/c")
	for i := range 20 {
		raw(t, d, "tick", fmt.Sprint(i))
	}
	l, err := d.List(t.Context(), "", &ListOptions{View: ViewGit, Order: Recent, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "recent", paths(l.Entries), []string{"tick", "repo/"})
	if l.Total != 3 {
		t.Errorf("total %d, want the rows before the limit", l.Total)
	}
	if l, err = d.List(t.Context(), "", &ListOptions{Order: Recent}); err != nil {
		t.Fatal(err)
	}
	same(t, "all, which is not rolled up", paths(l.Entries), []string{"tick", "repo/c", "repo/b", "repo/a", "a/.hidden/y", ".cache/x", "old"})
}
