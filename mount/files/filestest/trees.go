package filestest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/mount/files"
)

// pages is more than one page of any list.
const pages = 1050

func checkOrder(ctx context.Context, b *bed) error {
	want := []string{"a b", "a!", "a-b", "a.b", "a/b", "a/b-c", "a/c/d", "aa", "ab/x", "B", "ü", "z"}
	for i := len(want); i < pages; i++ {
		want = append(want, fmt.Sprintf("d%02d/f%04d", i%7, i))
	}
	var next atomic.Int64
	if err := many(func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(want) {
				return nil
			}
			if err := b.fill(ctx, want[i]); err != nil {
				return err
			}
		}
	}); err != nil {
		return err
	}
	slices.Sort(want)
	if err := b.has(ctx, want...); err != nil {
		return err
	}
	l, err := b.folder.List(ctx, "", nil)
	if err != nil {
		return err
	}
	if err := same(pathsOf(l), want); err != nil {
		return fmt.Errorf("by List: %w", err)
	}
	n, capped, err := b.folder.Count(ctx, "", files.ViewAll)
	if err != nil || n != len(want) || capped {
		return fmt.Errorf("it counts %d (%v), want %d: %v", n, capped, len(want), err)
	}
	return nil
}

func checkLevel(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "b", "dir/file", "dir/sub/file", "dir/empty/", "dir.txt", "dir-2/file", "zero/"); err != nil {
		return err
	}
	for dir, want := range map[string][]string{
		"":          {"b", "dir.txt", "dir-2/", "dir/", "zero/"},
		"dir":       {"dir/file", "dir/empty/", "dir/sub/"},
		"dir/empty": {},
		"dir/sub":   {"dir/sub/file"},
		"none":      {},
	} {
		l, err := b.folder.Level(ctx, dir, nil)
		if err != nil {
			return err
		}
		got := pathsOf(l)
		files := len(slices.DeleteFunc(slices.Clone(got), func(p string) bool { return strings.HasSuffix(p, "/") }))
		slices.SortFunc(got[files:], strings.Compare)
		slices.SortFunc(want[min(files, len(want)):], strings.Compare)
		if err := same(got, want); err != nil {
			return fmt.Errorf("of %q: %w", dir, err)
		}
	}
	return nil
}

func checkMarkers(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "empty/", "dir/inner/", "empty/", "file"); err != nil {
		return err
	}
	if err := b.has(ctx, "dir/inner/", "empty/", "file"); err != nil {
		return err
	}
	info, err := b.folder.Stat(ctx, "empty")
	if err != nil || !info.Folder {
		return fmt.Errorf("an empty directory is %+v: %v", info, err)
	}
	if _, err := as[*files.ConflictError](b.folder.Mkdir(ctx, "file"), "a directory where a file is"); err != nil {
		return err
	}
	if err := b.fill(ctx, "empty/now"); err != nil {
		return err
	}
	if _, err := b.folder.Delete(ctx, "empty/now", nil); err != nil {
		return err
	}
	if err := b.has(ctx, "dir/inner/", "empty/", "file"); err != nil {
		return fmt.Errorf("after its only file was deleted: %w", err)
	}
	if _, err := b.folder.Delete(ctx, "empty", nil); err != nil {
		return err
	}
	_, err = b.folder.Stat(ctx, "empty")
	return errors.Join(gone(err, "empty"), b.has(ctx, "dir/inner/", "file"))
}

func checkCopy(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "from/a", "from/b/c", "from/e/", "from2", "to/old"); err != nil {
		return err
	}
	_, err := b.folder.Copy(ctx, "from", "to", nil)
	if _, err := as[*files.ConflictError](err, "onto what is there"); err != nil {
		return err
	}
	r, err := b.folder.Copy(ctx, "from", "to", &files.MoveOptions{Overwrite: true})
	if err != nil || r.Done != 3 {
		return fmt.Errorf("%+v, %v", r, err)
	}
	return errors.Join(
		b.has(ctx, "from/a", "from/b/c", "from/e/", "from2", "to/a", "to/b/c", "to/e/", "to/old"),
		b.holds(ctx, "to/a", "from/a"), b.holds(ctx, "to/b/c", "from/b/c"), b.holds(ctx, "from/a", "from/a"))
}

func checkRename(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "from/a", "from/b/c", "from/e/", "from2", "one"); err != nil {
		return err
	}
	if _, err := b.folder.Rename(ctx, "from", "to", nil); err != nil {
		return err
	}
	if _, err := b.folder.Rename(ctx, "one", "deep/two", nil); err != nil {
		return err
	}
	return errors.Join(
		b.has(ctx, "deep/two", "from2", "to/a", "to/b/c", "to/e/"),
		b.holds(ctx, "to/b/c", "from/b/c"), b.holds(ctx, "deep/two", "one"))
}

// checkDelete is mounts trap 18 on a real bucket.
func checkDelete(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "foo", "foo/a", "foo/b/c", "foo/e/", "foobar", "foo.txt", "foo-2/x"); err != nil {
		return err
	}
	r, err := b.folder.Delete(ctx, "foo", nil)
	if err != nil || r.Done != 4 || r.Failed != 0 {
		return fmt.Errorf("%+v, %v", r, err)
	}
	return b.has(ctx, "foo-2/x", "foo.txt", "foobar")
}

func checkApart(ctx context.Context, b *bed) error {
	other := row(1)
	other.Scope = "project:p2"
	if err := b.fill(ctx, "mine"); err != nil {
		return err
	}
	for _, r := range []struct {
		what string
		row  func() (*files.Folder, error)
	}{
		{"another id", func() (*files.Folder, error) { return b.files.Folder(row(2)) }},
		{"another scope", func() (*files.Folder, error) { return b.files.Folder(other) }},
	} {
		d, err := r.row()
		if err != nil {
			return err
		}
		theirs := &bed{files: b.files, folder: d}
		if err := theirs.has(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		if err := theirs.fill(ctx, "mine", "theirs"); err != nil {
			return err
		}
		if _, err := d.Delete(ctx, "mine", nil); err != nil {
			return err
		}
	}
	return errors.Join(b.has(ctx, "mine"), b.holds(ctx, "mine", "mine"))
}
