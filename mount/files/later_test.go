package files

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
)

// A drive that was open did not notice the mount that was made later. A drive that asks
// again finds the row, and a folder that was opened over nothing shows by every way of looking what
// somebody else, in another process, has written since: that there is nothing is remembered nowhere.
func TestAnOpenDriveSeesAMountMadeLater(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		store := memory.New(nil).Mounts()
		mine, theirs := folders(t, store), folders(t, store)
		which := mount.Folder{Project: "p", Agent: "reviewer"}
		if _, err := mine.Find(t.Context(), which); !errors.Is(err, mount.ErrNotFound) {
			t.Fatalf("before it is made: %v", err)
		}
		row, err := theirs.GetOrCreate(t.Context(), which, "ann")
		if err != nil {
			t.Fatal(err)
		}
		found, err := mine.Find(t.Context(), which)
		if err != nil || found.ID != row.ID {
			t.Fatalf("once it is made: %v, %v", found.ID, err)
		}

		c.Quota = func(mount.Row) Quota { return Quota{Bytes: 100} }
		here, there := in(t, c, found), in(t, c, row)
		looks := []struct {
			what string
			sees func() (bool, error)
		}{
			{"Level", func() (bool, error) {
				l, err := here.Level(t.Context(), "", &LevelOptions{View: ViewGit, Counts: true})
				return len(l.Entries) == 1 && l.Entries[0].Items == 1, err
			}},
			{"Level of the folder in it", func() (bool, error) {
				l, err := here.Level(t.Context(), "notes", nil)
				return len(l.Entries) == 1, err
			}},
			{"List", func() (bool, error) {
				l, err := here.List(t.Context(), "", &ListOptions{View: ViewGit, Order: Recent, Limit: 5})
				return l.Total == 1, err
			}},
			{"Tree", func() (bool, error) {
				l, err := here.Tree(t.Context(), "", ViewAll)
				return len(l.Entries) == 1, err
			}},
			{"Count", func() (bool, error) {
				n, _, err := here.Count(t.Context(), "", ViewAll)
				return n == 1, err
			}},
			{"Usage", func() (bool, error) {
				u, err := here.Usage(t.Context())
				return u.Objects == 1, err
			}},
			{"Stat", func() (bool, error) { _, err := here.Stat(t.Context(), "notes/plan"); return err == nil, unless(err) }},
			{"Stat of the folder in it", func() (bool, error) { _, err := here.Stat(t.Context(), "notes"); return err == nil, unless(err) }},
			{"ReadText", func() (bool, error) {
				text, err := here.ReadText(t.Context(), "notes/plan")
				return text.Content == "later", unless(err)
			}},
		}
		for _, want := range []bool{false, true, false} {
			for _, look := range looks {
				if got, err := look.sees(); got != want || err != nil {
					t.Errorf("%s sees it: %v, %v; want %v", look.what, got, err, want)
				}
			}
			if want {
				if _, err := there.Delete(t.Context(), "notes", nil); err != nil {
					t.Fatal(err)
				}
			} else {
				write(t, there, "notes/plan", "later", nil)
			}
		}
	})
}

func folders(t *testing.T, store mount.Store) *mount.Folders {
	t.Helper()
	f, err := mount.NewFolders(mount.FoldersConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// in is the folder of a row, opened by a process of its own.
func in(t *testing.T, c Config, row mount.Row) *Folder {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.Folder(row)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// unless is the error of a look, where that is not that there is nothing.
func unless(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
