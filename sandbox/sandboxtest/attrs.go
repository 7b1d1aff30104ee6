package sandboxtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

func (b *box) attrs() sandbox.AttrSetter {
	b.e.Helper()
	a, ok := sandbox.As[sandbox.AttrSetter](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no AttrSetter, though Options.Attrs says so")
	}
	return a
}

var attrChecks = []check{
	{"Chmod", "Chmod sets the permission bits of what a path leads to, and nothing else; what replaces the file keeps them", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		paths := []string{"dir/file", "dir", b.Workdir() + "/dir/file"}
		if e.opts.Links {
			b.link("dir/file", "link")
			b.link(b.Workdir()+"/dir/file", "abs")
			paths = append(paths, "link", "abs")
		}
		for _, path := range paths {
			for _, mode := range []fs.FileMode{0o755, 0o700, 0o777, 0o750, 0o644 | 0o100} {
				before := b.stat(path)
				e.ok(b.attrs().Chmod(e.deadline(), path, mode), "chmod %q", path)
				if info := b.stat(path); info.Mode != mode || info.Kind != before.Kind || info.Size != before.Size || !info.ModTime.Equal(before.ModTime) {
					e.fatalf("%q had %+v, and has %+v after chmod %v", path, before, info, mode)
				}
			}
		}
		b.want("dir/file", "x")
		e.ok(b.attrs().Chmod(e.deadline(), "dir/file", 0o600), "chmod")
		b.write("dir/file", "y")
		if info := b.stat("dir/file"); info.Mode != 0o600 {
			e.fatalf("what replaced it has the mode %v", info.Mode)
		}
		for _, path := range []string{"missing", "no-dir/missing"} {
			e.pathIs(b.attrs().Chmod(e.deadline(), path, 0o644), "chmod", path, fs.ErrNotExist)
		}
		if e.opts.Shell != nil && e.opts.ProcessesSeeFiles { // case 41
			b.write("program", "#!/bin/sh\necho ran\n")
			e.ok(b.attrs().Chmod(e.deadline(), "program", 0o755), "chmod")
			if r := b.run(sandbox.Cmd{Argv: e.script("./program")}); r.stdout != "ran\n" {
				e.fatalf("the program: %+v", r)
			}
		}
	}},
	{"Bits", "bits of a mode other than permissions are ErrInvalid, of Chmod and of Create, and nothing is done", func(e *env) {
		b := e.box()
		b.write("file", "x")
		for _, bit := range []fs.FileMode{fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky, fs.ModeDir, fs.ModeSymlink} {
			e.pathIs(b.attrs().Chmod(e.deadline(), "file", 0o755|bit), "chmod", "file", sandbox.ErrInvalid)
			e.pathIs(sandbox.WriteFile(e.deadline(), b.FS(), "new", nil, &sandbox.CreateOptions{Mode: 0o755 | bit}), "create", "new", sandbox.ErrInvalid)
		}
		if info := b.stat("file"); info.Mode != 0o644 || b.has("new") {
			e.fatalf("the mode is %v, and a new file is there: %v", info.Mode, b.has("new"))
		}
	}},
	{"Chtimes", "Chtimes sets when a file was changed, and nothing else", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		paths := []string{"dir/file", "dir"}
		if e.opts.Links {
			b.link("dir/file", "link")
			paths = append(paths, "link")
		}
		for _, path := range paths {
			for _, at := range []time.Time{
				time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2024, 12, 31, 23, 59, 58, 123_456_789, time.FixedZone("", 3600)), time.Unix(1, 0),
			} {
				before := b.stat(path)
				e.ok(b.attrs().Chtimes(e.deadline(), path, at), "chtimes %q", path)
				info := b.stat(path)
				if off := info.ModTime.Sub(at).Abs(); off >= 2*time.Second || at.Nanosecond() == 0 && at.Unix()%2 == 0 && off != 0 {
					e.fatalf("%q was changed at %v, not %v", path, info.ModTime, at)
				}
				if info.Mode != before.Mode || info.Kind != before.Kind || info.Size != before.Size {
					e.fatalf("%q had %+v, and has %+v", path, before, info)
				}
			}
		}
		b.want("dir/file", "x")
		e.pathIs(b.attrs().Chtimes(e.deadline(), "missing", time.Unix(1, 0)), "chtimes", "missing", fs.ErrNotExist)
	}},
	{"FarTimes", "a time that is further off than a file system keeps times, or that is zero, becomes the nearest that it keeps", func(e *env) {
		b := e.box()
		b.write("file", "x")
		for _, year := range []int{2400, 1600, 9999, 1} {
			before := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
			e.ok(b.attrs().Chtimes(e.deadline(), "file", before), "chtimes")
			at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
			e.ok(b.attrs().Chtimes(e.deadline(), "file", at), "chtimes")
			// No file system keeps less than from 1980 to 2037.
			if got := b.stat("file").ModTime; got.After(before) && got.Year() < 2037 || got.After(before) != at.After(before) || got.Equal(before) || got.Year() > 1980 && got.Before(before) {
				e.fatalf("changed at %v, and told as %v", at, got)
			}
		}
	}},
	{"Outside", "neither follows a link that leads out of the sandbox", func(e *env) { // T-96
		if !e.opts.Links {
			return
		}
		b := e.box()
		dir := e.outside()
		file := filepath.Join(dir, "file")
		before, err := os.Stat(file)
		e.ok(err, "look outside")
		b.link(file, "abs")
		b.link(dir, "dir")
		b.link("../../../../../../../../../../../.."+file, "rel")
		for _, path := range []string{"abs", "rel", "dir", "dir/file"} {
			e.pathIs(b.attrs().Chmod(e.deadline(), path, 0o777), "chmod", path, sandbox.ErrEscapes)
			e.pathIs(b.attrs().Chtimes(e.deadline(), path, time.Unix(1, 0)), "chtimes", path, sandbox.ErrEscapes)
		}
		after, err := os.Stat(file)
		e.ok(err, "look outside again")
		if after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
			e.fatalf("outside, %v became %v", fs.FormatFileInfo(before), fs.FormatFileInfo(after))
		}
		e.untouched(dir)
	}},
}
