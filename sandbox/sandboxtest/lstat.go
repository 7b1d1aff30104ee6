package sandboxtest

import (
	"io/fs"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

func (b *box) lstat(path string) sandbox.FileInfo {
	b.e.Helper()
	info, err := b.FS().Lstat(b.e.deadline(), path)
	b.e.ok(err, "lstat %q", path)
	return info
}

func (b *box) stat(path string) sandbox.FileInfo {
	b.e.Helper()
	info, err := b.FS().Stat(b.e.deadline(), path)
	b.e.ok(err, "stat %q", path)
	return info
}

// same reports whether two descriptions are of one thing.
func same(a, b sandbox.FileInfo) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Size == b.Size && a.Mode == b.Mode && a.ModTime.Equal(b.ModTime)
}

var lstatChecks = []check{
	{"Plain", "of what is no link Lstat tells what Stat does", func(e *env) {
		b := e.box()
		b.write("dir/file", "12345")
		for _, path := range []string{"dir/file", "dir", ".", b.Workdir(), "dir/../dir/./file", "dir/", "./dir//file"} {
			if l, s := b.lstat(path), b.stat(path); !same(l, s) {
				e.fatalf("%q is %+v by Lstat and %+v by Stat", path, l, s)
			} else if !e.opts.ETags && (l.ETag != "" || s.ETag != "") {
				e.fatalf("%q has an ETag, though Options.ETags does not say so: %+v", path, l)
			}
		}
		for _, path := range []string{"missing", "no-dir/missing"} {
			_, err := b.FS().Lstat(e.deadline(), path)
			e.pathIs(err, "lstat", path, fs.ErrNotExist)
		}
		_, err := b.FS().Lstat(e.deadline(), "dir/file/below")
		e.pathIs(err, "lstat", "dir/file/below", sandbox.ErrNotDir)
	}},
	{"Link", "Lstat describes a link itself, wherever it leads, as ReadDir does; Stat describes what it leads to", func(e *env) {
		if !e.opts.Links {
			return
		}
		b := e.box()
		b.write("dir/file", "12345")
		for link, target := range map[string]string{
			"to-file": "dir/file", "to-dir": "dir", "abs": b.Workdir() + "/dir", "dangling": "nothing", "loop": "loop", "out": "/etc/passwd", "up": "..",
		} {
			b.link(target, link)
			for _, path := range []string{link, "./" + link, "dir/../" + link, link + "/", b.Workdir() + "/" + link} { // the text is resolved first
				if info := b.lstat(path); info.Name != link || info.Kind != sandbox.KindSymlink || info.IsDir() || info.Size != 0 || info.ETag != "" {
					e.fatalf("%q, which leads to %q: %+v", path, target, info)
				}
			}
		}
		if info := b.stat("to-file"); info.Kind != sandbox.KindFile || info.Size != 5 || info.Name != "to-file" {
			e.fatalf("Stat of a link to a file: %+v", info)
		}
		_, err := b.FS().Stat(e.deadline(), "dangling")
		e.pathIs(err, "stat", "dangling", fs.ErrNotExist)
		for info, err := range b.FS().ReadDir(e.deadline(), ".") {
			e.ok(err, "readdir")
			if l := b.lstat(info.Name); !same(l, info) {
				e.fatalf("%q is %+v by Lstat and %+v by ReadDir", info.Name, l, info)
			}
		}
	}},
	{"Through", "links on the way are followed, as far as they stay inside", func(e *env) {
		if !e.opts.Links {
			return
		}
		b := e.box()
		b.write("dir/file", "12345")
		b.link("file", "dir/link")
		b.link("dir", "rel")
		b.link(b.Workdir()+"/dir", "abs")
		for _, by := range []string{"rel", "abs"} {
			if info := b.lstat(by + "/file"); info.Kind != sandbox.KindFile || info.Size != 5 {
				e.fatalf("a file by %q: %+v", by, info)
			}
			if info := b.lstat(by + "/link"); info.Kind != sandbox.KindSymlink {
				e.fatalf("a link by %q: %+v", by, info)
			}
		}
	}},
	{"Bound", "what is bound is a directory", func(e *env) {
		if !e.opts.Binds {
			return
		}
		b := e.box()
		at, _ := b.bind(e.outside(), "folder")
		if info := b.lstat(at); info.Kind != sandbox.KindDir || info.Name != "folder" {
			e.fatalf("the folder itself: %+v", info)
		}
		if info := b.lstat(at + "/file"); info.Kind != sandbox.KindFile || info.Size != int64(len("outside")) {
			e.fatalf("a file in it: %+v", info)
		}
		if names := b.list(at); !slices.Equal(names, []string{"dir", "file", "secret"}) {
			e.fatalf("it holds %q", names)
		}
	}},
}
