//go:build linux

package local_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// alike is one of two sandboxes on which the same is done.
type alike struct {
	sandbox.Sandbox
	sandbox.Symlinker
	sandbox.AttrSetter
	etags map[string]string // what was told of files, by what is called so in both
}

func newAlike(t *testing.T, p sandbox.Provider, name string) *alike {
	t.Helper()
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	attrs, _ := sandbox.As[sandbox.AttrSetter](sb)
	return &alike{sb, links, attrs, map[string]string{}}
}

// step is something that is done.
type step struct {
	op, path, other, text string
	mode                  fs.FileMode
	slot                  string // of an ETag
}

// do does it, and says what came of it.
func (a *alike) do(t *testing.T, s step) (result string) {
	f, ctx := a.FS(), t.Context()
	var err error
	switch s.op {
	case "write":
		err = sandbox.WriteFile(ctx, f, s.path, []byte(s.text), &sandbox.CreateOptions{Mode: s.mode})
	case "write what is new":
		err = sandbox.WriteFile(ctx, f, s.path, []byte(s.text), &sandbox.CreateOptions{Exclusive: true, Mode: s.mode})
	case "write what was read":
		err = sandbox.WriteFile(ctx, f, s.path, []byte(s.text), &sandbox.CreateOptions{IfMatch: cmp.Or(a.etags[s.slot], "of nothing")})
	case "mkdir":
		err = f.Mkdir(ctx, s.path)
	case "remove", "remove all":
		err = f.Remove(ctx, s.path, &sandbox.RemoveOptions{Recursive: s.op == "remove all", MissingOK: s.text == ""})
	case "rename", "rename to what is free":
		err = f.Rename(ctx, s.path, s.other, &sandbox.RenameOptions{NoReplace: s.op != "rename"})
	case "link":
		err = a.Symlink(ctx, s.other, s.path)
	case "readlink":
		result, err = a.Readlink(ctx, s.path)
	case "chmod":
		err = a.Chmod(ctx, s.path, s.mode|0o700)
	case "copy":
		err = sandbox.CopyTree(ctx, a.Sandbox, s.path, s.other)
	case "stat":
		var info sandbox.FileInfo
		info, err = f.Stat(ctx, s.path)
		result, a.etags[s.slot] = told(info), info.ETag
	case "lstat":
		var info sandbox.FileInfo
		info, err = f.Lstat(ctx, s.path)
		result = told(info)
	case "read":
		var data []byte
		data, err = sandbox.ReadFile(ctx, f, s.path)
		result = string(data)
	case "list":
		var all []string
		for info, e := range f.ReadDir(ctx, s.path) {
			if err = e; err == nil {
				all = append(all, told(info))
			}
		}
		slices.Sort(all)
		result = strings.Join(all, ", ")
	}
	if s.op == "chmod" || strings.HasPrefix(s.op, "rename") {
		clear(a.etags) // which may be others now
	}
	return outcome(err, s) + " " + result
}

// outcome names the sentinels that an error matches, and whether it carries the path.
func outcome(err error, s step) string {
	if err == nil {
		return "done"
	}
	var names []string
	for _, is := range []error{
		fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, sandbox.ErrIsDir, sandbox.ErrNotDir, sandbox.ErrNotEmpty, sandbox.ErrNotLink,
		sandbox.ErrEscapes, sandbox.ErrInvalid, sandbox.ErrPrecondition, sandbox.ErrUnsupported, sandbox.ErrCrossDevice,
	} {
		if errors.Is(err, is) {
			names = append(names, is.Error())
		}
	}
	var p *fs.PathError
	if !errors.As(err, &p) || s.op != "copy" && p.Path != s.path {
		names = append(names, fmt.Sprintf("%#v", err))
	}
	return strings.Join(names, ", ")
}

// told is what is told of a file that is the same in both.
func told(i sandbox.FileInfo) string {
	if i.Kind == sandbox.KindUnknown {
		return ""
	}
	return fmt.Sprint(i.Name, " ", i.Kind, " ", i.Size, " ", i.Mode, " ", i.ETag != "")
}

// all is all there is below a directory.
func (a *alike) all(t *testing.T, dir string) (all []string) {
	for info, err := range a.FS().ReadDir(t.Context(), dir) {
		if err != nil {
			return append(all, err.Error())
		}
		at := path.Join(dir, info.Name)
		line := at + ": " + told(info)
		for _, op := range []string{"read", "readlink"} {
			line += ", " + a.do(t, step{op: op, path: at})
		}
		if all = append(all, line); info.IsDir() {
			all = append(all, a.all(t, at)...)
		}
	}
	slices.Sort(all)
	return all
}

// nowhere reports whether a link on the way to a path leads to nothing: what is made there differs. In
// memory nothing is; here it is made where the link leads, as far as that can be.
func (a *alike) nowhere(t *testing.T, p string) bool {
	for at := path.Clean(p); at != "."; at = path.Dir(at) {
		info, err := a.FS().Lstat(t.Context(), at)
		if err != nil || info.Kind != sandbox.KindSymlink {
			continue
		}
		if _, err := a.FS().Stat(t.Context(), at); err != nil {
			return true
		}
	}
	return false
}

// The files of this host's machines and those in memory are alike: any run of
// operations has the same outcomes and leaves the same files.
func TestFilesAreAsInMemory(t *testing.T) {
	here, inMemory := open(t, true), memory.NewSandboxes(nil)
	runs := 0
	rapid.Check(t, func(r *rapid.T) {
		runs++
		name := fmt.Sprintf("alike%d-g1", runs)
		a, b := newAlike(t, here, name), newAlike(t, inMemory, name)
		defer a.Close()
		defer b.Close()
		paths := rapid.SampledFrom([]string{"a", "b", "c", "a/a", "a/b", "b/a/c", "a/../b", "./c", "b/../b/a", "c/", "a/b/.", ".", "..", "../x", "", "a\x00", "\xff"})
		others := rapid.SampledFrom([]string{"a", "b", "c", "a/a", "a/b", "b/a/c", "a/../b", "./c", "b/../b/a", "c/"})
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			s := step{
				op: rapid.SampledFrom([]string{
					"write", "write", "write what is new", "write what was read", "mkdir", "mkdir", "remove", "remove all", "rename", "rename", "rename to what is free",
					"link", "readlink", "chmod", "copy", "stat", "stat", "lstat", "read", "list",
				}).Draw(r, "op"),
				path: paths.Draw(r, "path"), other: others.Draw(r, "other"),
				text: rapid.SampledFrom([]string{"", "x", "some text"}).Draw(r, "text"),
				mode: rapid.SampledFrom([]fs.FileMode{0, 0o600, 0o755}).Draw(r, "mode"),
				slot: rapid.SampledFrom([]string{"1", "2"}).Draw(r, "slot"),
			}
			if _, err := b.FS().Lstat(t.Context(), s.path); err != nil {
				s.other = "fresh" // of two paths that are both wrong either may be told
			}
			if _, below := sandbox.PathWithin("/"+path.Clean(s.path), "/"+path.Clean(s.other)); below && strings.HasPrefix(s.op, "rename") {
				continue // likewise
			}
			makes := strings.HasPrefix(s.op, "write") || s.op == "mkdir" || s.op == "copy"
			if makes && (b.nowhere(t, s.path) || b.nowhere(t, s.other)) {
				continue
			}
			if got, want := a.do(t, s), b.do(t, s); got != want {
				r.Fatalf("%+v: here %q, in memory %q", s, got, want)
			}
		}
		if diff := gocmp.Diff(b.all(t, "."), a.all(t, ".")); diff != "" {
			r.Fatalf("files (-in memory +here)\n%s", diff)
		}
	})
}
