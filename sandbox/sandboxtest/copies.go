package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// tree describes what is at path and below it, a line for each.
func (b *box) tree(path string) []string {
	b.e.Helper()
	info := b.lstat(path)
	line := fmt.Sprintf("%d %v ", info.Kind, info.Mode)
	switch info.Kind {
	case sandbox.KindFile:
		line += b.read(path)
	case sandbox.KindSymlink:
		text, err := b.symlinker().Readlink(b.e.deadline(), path)
		b.e.ok(err, "readlink %q", path)
		line += text
	case sandbox.KindDir:
		if !b.e.opts.Attrs {
			line = fmt.Sprintf("%d ", info.Kind)
		}
		all := []string{line}
		for _, name := range b.list(path) {
			for _, below := range b.tree(path + "/" + name) {
				all = append(all, name+"/"+below)
			}
		}
		return all
	}
	return []string{line}
}

var copyChecks = []check{
	{"Tree", "a directory is copied with all that is in it, modes and links as they are, and what was copied stays as it was", func(e *env) {
		b := e.box()
		long := strings.Repeat("0123456789", 100_000)
		for name, mode := range map[string]fs.FileMode{"dir/plain": 0o644, "dir/.hidden": 0o600, "dir/sub/program": 0o755, "dir/sub/deep/ü 世": 0o640} {
			e.ok(sandbox.WriteFile(e.deadline(), b.FS(), name, []byte(name+long), &sandbox.CreateOptions{Mode: mode}), "write %q", name)
		}
		b.mkdir("dir/empty")
		if e.opts.Links {
			b.link("sub/program", "dir/link")
			b.link("nowhere", "dir/sub/dangling")
			b.link("/etc/passwd", "dir/out")
			b.link("..", "dir/sub/up")
		}
		if e.opts.Attrs {
			e.ok(b.attrs().Chmod(e.deadline(), "dir/sub/deep", 0o500), "chmod")
			e.Cleanup(func() { // or who is not root can't remove what is in it
				for _, dir := range []string{"dir/sub/deep", "new/copy/sub/deep"} {
					b.attrs().Chmod(context.Background(), dir, 0o700)
				}
			})
		}
		before := b.tree("dir")
		e.ok(sandbox.CopyTree(e.deadline(), b.Sandbox, "dir", "new/copy"), "copy")
		if copied := b.tree("new/copy"); !slices.Equal(copied, before) {
			e.fatalf("copied\n%s\nfrom\n%s", brief(strings.Join(copied, "\n")), brief(strings.Join(before, "\n")))
		}
		if after := b.tree("dir"); !slices.Equal(after, before) {
			e.fatalf("what was copied has changed")
		}
		e.ok(sandbox.CopyTree(e.deadline(), b.Sandbox, "dir/plain", "file"), "copy a file")
		b.want("file", "dir/plain"+long)
	}},
	{"Refused", "a name that is taken, and one inside of what is copied, are refused, and nothing is changed", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		b.write("file", "y")
		for _, to := range []string{"file", "dir/file"} {
			e.pathIs(sandbox.CopyTree(e.deadline(), b.Sandbox, "file", to), "copy", to, fs.ErrExist, sandbox.ErrInvalid)
		}
		for _, to := range []string{"dir/copy", "dir/sub/copy", "dir", "./dir/../dir/copy"} {
			e.pathIs(sandbox.CopyTree(e.deadline(), b.Sandbox, "dir", to), "copy", to, sandbox.ErrInvalid)
		}
		e.is(sandbox.CopyTree(e.deadline(), b.Sandbox, "missing", "new"), "copy what is missing", fs.ErrNotExist)
		e.is(sandbox.CopyTree(e.deadline(), b.Sandbox, "dir", "../new"), "copy out", sandbox.ErrEscapes)
		if e.opts.Links {
			b.link("dir", "to-dir") // by which a copy comes to lie in what is copied
			e.ok(sandbox.CopyTree(e.deadline(), b.Sandbox, "dir", "to-dir/copy"), "copy into itself by a link")
			b.want("dir/copy/file", "x")
			if names := b.list("dir/copy"); !slices.Equal(names, []string{"file"}) {
				e.fatalf("the copy holds %q", names)
			}
		}
		b.want("dir/file", "x")
		b.want("file", "y")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := sandbox.CopyTree(ctx, b.Sandbox, "dir", "late"); !errors.Is(err, context.Canceled) || b.has("late") {
			e.fatalf("given up, and yet: %v, %v", err, b.has("late"))
		}
	}},
	{"Binds", "what can't be moved to another bind can be copied there", func(e *env) {
		if !e.opts.Binds {
			return
		}
		b := e.box()
		dir := e.outside()
		at, _ := b.bind(dir, "folder")
		e.ok(sandbox.CopyTree(e.deadline(), b.Sandbox, at, "here"), "copy from a bind")
		b.want("here/dir/x", "outside")
		b.write("own/file", "x")
		e.ok(sandbox.CopyTree(e.deadline(), b.Sandbox, "own", at+"/own"), "copy to a bind")
		b.want(at+"/own/file", "x")
	}},
}
