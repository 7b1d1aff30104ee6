package sandboxtest

import (
	"io/fs"
	"slices"
	"testing/fstest"

	"github.com/bunkroom/bunkroom/sandbox"
)

var ioFSChecks = []check{
	{"FSTest", "the files are an fs.FS that testing/fstest is content with", func(e *env) {
		b := e.box()
		for name, text := range map[string]string{"file": "12345", "dir/ü 世": "x", "dir/deep/empty": "", ".dot/x": "y", "dir.txt": "z"} {
			b.write(name, text)
		}
		e.ok(b.FS().Mkdir(e.deadline(), "bare"), "mkdir")
		if err := fstest.TestFS(sandbox.IOFS(e.deadline(), b.FS()), "file", "dir/ü 世", "dir/deep/empty", ".dot/x", "dir.txt", "bare"); err != nil {
			e.fatalf("%v", err)
		}
	}},
	{"Walk", "an fs.FS is walked in the order of names, with kinds, sizes and times as Stat tells them", func(e *env) {
		b := e.box()
		b.write("b/2", "22")
		b.write("b/1", "1")
		b.write("a", "")
		fsys := sandbox.IOFS(e.deadline(), b.FS())
		var seen []string
		e.ok(fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			seen = append(seen, name)
			listed, err := d.Info()
			if err != nil {
				return err
			}
			info, err := b.FS().Stat(e.deadline(), name)
			if err != nil {
				return err
			}
			if listed.IsDir() != info.IsDir() || listed.Size() != info.Size || listed.Mode().Perm() != info.Mode.Perm() || !listed.ModTime().Equal(info.ModTime) {
				e.fatalf("%s: listed as %v, is %+v", name, fs.FormatFileInfo(listed), info)
			}
			return nil
		}), "walk")
		if want := []string{".", "a", "b", "b/1", "b/2"}; !slices.Equal(seen, want) {
			e.fatalf("walked %q, not %q", seen, want)
		}
		text, err := fs.ReadFile(fsys, "b/2")
		e.ok(err, "read")
		if string(text) != "22" {
			e.fatalf("read %q", text)
		}
		for _, name := range []string{"../x", "/a", "", "b/", "./a"} {
			_, err := fsys.Open(name)
			e.is(err, "open "+name, fs.ErrInvalid)
			_, err = fs.ReadFile(fsys, name)
			e.is(err, "read "+name, fs.ErrInvalid)
		}
		_, err = fs.ReadFile(fsys, "missing")
		e.is(err, "read what isn't there", fs.ErrNotExist)
		_, err = fs.ReadFile(fsys, "b")
		e.is(err, "read a directory", sandbox.ErrIsDir)
	}},
}
