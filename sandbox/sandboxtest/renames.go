package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

var renameChecks = []check{
	{"NoReplace", "with NoReplace a name that is taken is refused with fs.ErrExist, and both stay; one that is free is taken", func(e *env) {
		b := e.box()
		f, ctx := b.FS(), e.deadline()
		free := &sandbox.RenameOptions{NoReplace: true}
		b.write("file", "x")
		b.write("other", "y")
		b.write("dir/file", "z")
		b.mkdir("empty")
		taken := []string{"other", "dir", "empty", "dir/file", "file"}
		if e.opts.Links {
			b.link("nowhere", "dangling")
			b.link("dir", "to-dir")
			taken = append(taken, "dangling", "to-dir")
		}
		for _, to := range taken {
			e.pathIs(f.Rename(ctx, "file", to, free), "rename", "file", fs.ErrExist)
			e.pathIs(f.Rename(ctx, "dir", to, free), "rename", "dir", fs.ErrExist, sandbox.ErrInvalid)
		}
		b.want("file", "x")
		b.want("other", "y")
		b.want("dir/file", "z")
		e.pathIs(f.Rename(ctx, "missing", "new", free), "rename", "missing", fs.ErrNotExist)
		e.pathIs(f.Rename(ctx, "file", "no-dir/new", free), "rename", "file", fs.ErrNotExist)
		e.ok(f.Rename(ctx, "file", "dir/new", free), "rename a file")
		e.ok(f.Rename(ctx, "dir", "moved", free), "rename a directory")
		b.want("moved/new", "x")
		b.want("moved/file", "z")
		if b.has("file") || b.has("dir") {
			e.fatalf("old names are still there: %q", b.list("."))
		}
	}},
	{"NoReplaceRace", "of several renames with NoReplace to one name at once exactly one succeeds, and the others' files stay where they are", func(e *env) {
		m := e.create(e.newName())
		boxes := []*box{e.attach(m.Ref), e.attach(m.Ref)}
		b := boxes[0]
		const n = 8
		for range 10 {
			for i := range n {
				b.write(fmt.Sprintf("from-%d", i), fmt.Sprint(i))
			}
			var won, lost atomic.Int64
			together(n, func(i int) {
				switch err := boxes[i%2].FS().Rename(e.deadline(), fmt.Sprintf("from-%d", i), "to", &sandbox.RenameOptions{NoReplace: true}); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, fs.ErrExist):
					lost.Add(1)
				default:
					e.Errorf("rename: %v", err)
				}
			})
			if won.Load() != 1 || lost.Load() != n-1 {
				e.fatalf("%d won and %d lost", won.Load(), lost.Load())
			}
			winner := b.read("to")
			for i := range n {
				if name := fmt.Sprintf("from-%d", i); b.has(name) == (winner == fmt.Sprint(i)) {
					e.fatalf("%q won, and %q is there: %v", winner, name, b.has(name))
				}
			}
			e.ok(b.FS().Remove(e.deadline(), "to", nil), "remove")
		}
	}},
	{"DirectoryInTheWay", "a directory at the new name is never replaced, full or empty, by a file or a directory: fs.ErrExist", func(e *env) {
		b := e.box()
		b.write("file", "x")
		b.write("dir/file", "y")
		b.write("full/file", "z")
		b.mkdir("empty")
		for _, from := range []string{"file", "dir"} {
			for _, to := range []string{"full", "empty"} {
				e.pathIs(b.FS().Rename(e.deadline(), from, to, nil), "rename", from, fs.ErrExist)
			}
		}
		b.want("file", "x")
		b.want("dir/file", "y")
		b.want("full/file", "z")
		if names := b.list("empty"); len(names) != 0 {
			e.fatalf("the empty directory holds %q", names)
		}
	}},
	{"Carries", "the errors of Rename carry the old name, whichever is to blame", func(e *env) {
		b := e.box()
		b.write("file", "x")
		for to, want := range map[string]error{"no-dir/new": fs.ErrNotExist, "file/new": sandbox.ErrNotDir, "../new": sandbox.ErrEscapes, "": sandbox.ErrInvalid, ".": sandbox.ErrInvalid} {
			e.pathIs(b.FS().Rename(e.deadline(), "file", to, nil), "rename", "file", want)
		}
		e.pathIs(b.FS().Rename(e.deadline(), "../file", "new", nil), "rename", "../file", sandbox.ErrEscapes)
		b.want("file", "x")
	}},
	{"Through", "links on the way to either name are followed, be they relative or absolute", func(e *env) {
		if !e.opts.Links {
			return
		}
		b := e.box()
		b.write("dir/a", "x")
		b.mkdir("other")
		for link, target := range map[string]string{"rel": "dir", "abs": b.Workdir() + "/dir", "rel-other": "other", "abs-other": b.Workdir() + "/other"} {
			b.link(target, link)
		}
		for _, move := range [][2]string{
			{"rel/a", "abs-other/a"}, {"abs-other/a", "rel/a"}, {"abs/a", "abs-other/a"}, {"rel-other/a", "a"}, {"a", "abs/a"}, {"abs/a", "abs/b"},
		} {
			e.ok(b.FS().Rename(e.deadline(), move[0], move[1], nil), "rename %q to %q", move[0], move[1])
			b.want(move[1], "x")
			if b.has(move[0]) {
				e.fatalf("%q is still there", move[0])
			}
		}
		b.want("dir/b", "x")
	}},
}
