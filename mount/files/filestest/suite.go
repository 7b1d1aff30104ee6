package filestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
)

// TestBucket checks a bucket, through the Files of a configuration. want is
// what it is to be able to do. open returns the configuration of a bucket that
// is empty, or of a namespace of its own in one, and cleans up with t.Cleanup.
func TestBucket(t *testing.T, want files.Caps, open func(t *testing.T) files.Config) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.try(t.Context(), open(t), want); err != nil {
				t.Errorf("%s: %v", c.rule, err)
			}
		})
	}
}

type check struct {
	name, rule string
	run        func(context.Context, *bed) error
}

func checks() []check {
	return []check{
		{"probe", "a bucket can do what it claims, and a probe leaves nothing", checkProbe},
		{"conditions", "a change is made under its condition only, and else there is a conflict with what is there", checkConditions},
		{"overtaken", "what changes while a body is read is not overwritten", checkOvertaken},
		{"nothing lost", "of many who read, add and write on condition, none is lost", checkNothingLost},
		{"one makes it", "of many who make one file new at once, one does", checkOneMakes},
		{"missing", "what is not there is not found, whatever is asked of it", checkMissing},
		{"names", "a name of any characters is a file of its own", checkNames},
		{"backslash", "a name with a backslash is a file of its own or can't be had, and is never another file's", checkBackslash},
		{"order", "lists are by path in order of bytes, over more than one page", checkOrder},
		{"level", "one directory is listed as its files and its directories, each once", checkLevel},
		{"markers", "an empty directory is there until it is deleted", checkMarkers},
		{"ranges", "a part of a file is read as that part", checkRanges},
		{"large", "a file larger than what is sent at once is kept whole", checkLarge},
		{"failing body", "a body that fails leaves what was there", checkFailingBody},
		{"ended context", "a write whose context ends leaves what was there", checkEndedContext},
		{"copy", "a copy has what was copied, and changes nothing else", checkCopy},
		{"rename", "a renamed directory is at its new place only", checkRename},
		{"delete", "a deletion takes a file and what is below it, and no name that begins alike", checkDelete},
		{"apart", "folders of other rows and scopes are never seen", checkApart},
	}
}

// bed is what a check works on.
type bed struct {
	files  *files.Files
	folder *files.Folder
	want   files.Caps
}

// row is that of the n-th folder.
func row(n int) mount.Row {
	return mount.Row{ID: mount.ID(fmt.Sprintf("0192f0c1-2ab4-7cde-8f01-%012x", n)), Scope: "project:p", Kind: mount.KindAgent}
}

func (c check) try(ctx context.Context, config files.Config, want files.Caps) error {
	f, err := files.New(config)
	if err != nil {
		return err
	}
	d, err := f.Folder(row(1))
	if err != nil {
		return err
	}
	return c.run(ctx, &bed{f, d, want})
}

// put writes a file.
func (b *bed) put(ctx context.Context, path, content string, o *files.WriteOptions) (files.Info, error) {
	info, err := b.folder.Write(ctx, path, strings.NewReader(content), o)
	if err != nil {
		err = fmt.Errorf("write %q: %w", path, err)
	}
	return info, err
}

// fill writes files that hold their path; what ends with a slash is made a directory.
func (b *bed) fill(ctx context.Context, paths ...string) error {
	for _, p := range paths {
		if dir, ok := strings.CutSuffix(p, "/"); ok {
			if err := b.folder.Mkdir(ctx, dir); err != nil {
				return fmt.Errorf("make the directory %q: %w", dir, err)
			}
			continue
		}
		if _, err := b.put(ctx, p, p, nil); err != nil {
			return err
		}
	}
	return nil
}

// holds says how a file is not what it should be.
func (b *bed) holds(ctx context.Context, path, want string) error {
	c, err := b.folder.Open(ctx, path, nil)
	if err != nil {
		return fmt.Errorf("open %q: %w", path, err)
	}
	got, err := io.ReadAll(c)
	if err := errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("read %q: %w", path, err)
	}
	if string(got) != want {
		return fmt.Errorf("%q holds %s, want %s", path, short(string(got)), short(want))
	}
	return nil
}

// has says how the paths in the folder are not those wanted; directories that
// have a marker end with a slash.
func (b *bed) has(ctx context.Context, want ...string) error {
	l, err := b.folder.Tree(ctx, "", files.ViewAll)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return same(pathsOf(l), want)
}

func pathsOf(l files.Listing) []string {
	all := make([]string, 0, len(l.Entries))
	for _, e := range l.Entries {
		p := e.Path
		if e.Folder {
			p += "/"
		}
		all = append(all, p)
	}
	return all
}

func same(got, want []string) error {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("%d paths, want %d; from place %d on: %q, want %q", len(got), len(want), i, few(got, i), few(want, i))
		}
	}
	return nil
}

func few(all []string, from int) []string { return all[min(from, len(all)):min(from+3, len(all))] }

func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q and %d bytes more", s[:40], len(s)-40)
	}
	return fmt.Sprintf("%q", s)
}

// as wants an error of a type.
func as[E error](err error, doing string) (E, error) {
	e, ok := errors.AsType[E](err)
	if !ok {
		return e, fmt.Errorf("%s: got %v, want a %T", doing, err, e)
	}
	return e, nil
}
