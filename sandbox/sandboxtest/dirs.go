package sandboxtest

import (
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

var dirChecks = []check{
	{"Mkdir", "Mkdir makes a directory and its parents; one that is there is fine", func(e *env) {
		b := e.box()
		b.mkdir("a/b/c")
		b.mkdir("a/b/c")
		b.mkdir("a")
		b.mkdir(".")
		if info, err := b.FS().Stat(e.deadline(), "a/b/c"); err != nil || !info.IsDir() {
			e.fatalf("stat: %+v, %v", info, err)
		}
	}},
	{"ReadDir", "ReadDir describes every entry, hidden ones too, and neither \".\" nor \"..\"", func(e *env) {
		b := e.box()
		b.write("dir/file", "123")
		b.write("dir/.hidden", "")
		b.write("dir/..odd", "")
		b.mkdir("dir/sub")
		kinds := map[string]sandbox.FileKind{"file": sandbox.KindFile, ".hidden": sandbox.KindFile, "..odd": sandbox.KindFile, "sub": sandbox.KindDir}
		if e.opts.Links {
			b.link("sub", "dir/link")
			kinds["link"] = sandbox.KindSymlink
		}
		for info, err := range b.FS().ReadDir(e.deadline(), "dir") {
			e.ok(err, "readdir")
			kind, ok := kinds[info.Name]
			if !ok || info.Kind != kind {
				e.fatalf("%q is of kind %v, want %v (%v)", info.Name, info.Kind, kind, ok)
			}
			if info.Name == "file" && info.Size != 3 {
				e.fatalf("%q has %d bytes, want 3", info.Name, info.Size)
			}
			delete(kinds, info.Name)
		}
		if len(kinds) > 0 {
			e.fatalf("not listed: %v", kinds)
		}
		if names := b.list("dir/sub"); len(names) != 0 {
			e.fatalf("an empty directory holds %q", names)
		}
	}},
	{"ReadDirLarge", "ReadDir streams a directory, however many entries it has", func(e *env) {
		n := 10_000
		if testing.Short() {
			n = 1000
		}
		b := e.box()
		b.mkdir("dir")
		together(4, func(i int) {
			for k := i; k < n; k += 4 {
				if err := sandbox.WriteFile(e.deadline(), b.FS(), fmt.Sprintf("dir/%05d", k), nil, nil); err != nil {
					e.Errorf("write: %v", err)
					return
				}
			}
		})
		names := b.list("dir")
		if len(names) != n || names[0] != "00000" || len(slices.Compact(names)) != n {
			e.fatalf("listed %d entries of %d", len(names), n)
		}
		seen := 0
		for range b.FS().ReadDir(e.deadline(), "dir") {
			if seen++; seen == 10 {
				break
			}
		}
		e.ok(b.FS().Remove(e.deadline(), "dir", &sandbox.RemoveOptions{Recursive: true}), "remove")
	}},
	{"Remove", "Remove removes a file or an empty directory", func(e *env) {
		b := e.box()
		b.write("file", "x")
		b.mkdir("dir")
		e.ok(b.FS().Remove(e.deadline(), "file", nil), "remove a file")
		e.ok(b.FS().Remove(e.deadline(), "dir", nil), "remove a directory")
		if names := b.list("."); len(names) != 0 {
			e.fatalf("left: %q", names)
		}
	}},
	{"RemoveFull", "a full directory is ErrNotEmpty unless Recursive", func(e *env) {
		b := e.box()
		b.write("dir/sub/file", "x")
		e.pathIs(b.FS().Remove(e.deadline(), "dir", nil), "remove", "dir", sandbox.ErrNotEmpty)
		b.want("dir/sub/file", "x")
		e.ok(b.FS().Remove(e.deadline(), "dir", &sandbox.RemoveOptions{Recursive: true}), "remove")
		if b.has("dir") {
			e.fatalf("the directory is still there")
		}
	}},
	{"RemoveMissing", "what isn't there is fs.ErrNotExist unless MissingOK, Recursive or not", func(e *env) {
		b := e.box()
		for _, name := range []string{"missing", "no-dir/missing"} {
			for _, recursive := range []bool{false, true} {
				e.pathIs(b.FS().Remove(e.deadline(), name, &sandbox.RemoveOptions{Recursive: recursive}), "remove", name, fs.ErrNotExist)
				e.ok(b.FS().Remove(e.deadline(), name, &sandbox.RemoveOptions{Recursive: recursive, MissingOK: true}), "remove what is missing")
			}
		}
	}},
	{"RemoveWorkdir", "the working directory itself is never removed", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		for _, name := range []string{".", "dir/..", b.Workdir(), b.Workdir() + "/"} {
			for _, recursive := range []bool{false, true} {
				e.pathIs(b.FS().Remove(e.deadline(), name, &sandbox.RemoveOptions{Recursive: recursive, MissingOK: true}), "remove", name, sandbox.ErrInvalid)
			}
		}
		b.want("dir/file", "x")
	}},
}
