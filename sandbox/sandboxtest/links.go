package sandboxtest

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

func (b *box) symlinker() sandbox.Symlinker {
	b.e.Helper()
	l, ok := sandbox.As[sandbox.Symlinker](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no Symlinker, though Options.Links says so")
	}
	return l
}

var linkChecks = []check{
	{"RoundTrip", "a link keeps its text, whatever that is, and need not lead anywhere", func(e *env) {
		b := e.box()
		for _, target := range []string{"file", "./a/../b", "/etc/passwd", "../../..", "no such", "línk", "a\nb", b.Workdir() + "/x"} {
			b.link(target, "link")
			if got, err := b.symlinker().Readlink(e.deadline(), "link"); err != nil || got != target {
				e.fatalf("Readlink: %q, %v, want %q", got, err, target)
			}
			e.ok(b.FS().Remove(e.deadline(), "link", nil), "remove")
		}
	}},
	{"Errors", "Symlink refuses a name that is taken; Readlink tells a missing link from what is no link", func(e *env) {
		b := e.box()
		l, ctx := b.symlinker(), e.deadline()
		b.write("dir/file", "x")
		b.link("nowhere", "link")
		for _, name := range []string{"dir", "dir/file", "link"} {
			e.pathIs(l.Symlink(ctx, "dir/file", name), "symlink", name, fs.ErrExist)
		}
		for _, name := range []string{"dir", "dir/file"} {
			_, err := l.Readlink(ctx, name)
			e.pathIs(err, "readlink", name, sandbox.ErrNotLink)
		}
		_, err := l.Readlink(ctx, "missing")
		e.pathIs(err, "readlink", "missing", fs.ErrNotExist)
		e.is(l.Symlink(ctx, "a\x00b", "nul"), "symlink to a text with NUL", sandbox.ErrInvalid)
		b.want("dir/file", "x")
	}},
	{"Follow", "links that lead within the sandbox are followed, be they relative or absolute", func(e *env) {
		b := e.box()
		b.write("dir/sub/file", "x")
		for link, target := range map[string]string{
			"file-rel": "dir/sub/file", "file-abs": b.Workdir() + "/dir/sub/file", "chain": "file-abs",
			"dir/up": "../dir/sub/file", "dir/sub/far": "../../dir/../file-rel",
		} {
			b.link(target, link)
		}
		for _, path := range []string{"file-rel", "file-abs", "chain", "dir/up", "dir/sub/far"} {
			b.want(path, "x")
			if info, err := b.FS().Stat(e.deadline(), path); err != nil || info.Kind != sandbox.KindFile || info.Size != 1 {
				e.fatalf("stat %q: %+v, %v", path, info, err)
			}
		}
		b.link("dir/sub", "dir-rel")
		b.link(b.Workdir()+"/dir/sub", "dir-abs")
		for _, dir := range []string{"dir-rel", "dir-abs"} {
			b.want(dir+"/file", "x")
			if names := b.list(dir); !slices.Contains(names, "file") {
				e.fatalf("readdir %q: %q", dir, names)
			}
			b.write(dir+"/made/"+dir, "y")
			b.want("dir/sub/made/"+dir, "y")
			b.mkdir(dir + "/also")
		}
	}},
	{"WriteThrough", "what is written to a link is read from it again, and what it led to was not emptied", func(e *env) {
		b := e.box()
		b.write("dir/file", "old")
		b.link("dir/file", "link")
		b.link("dir/unborn", "dangling")
		for _, name := range []string{"link", "dangling"} {
			b.write(name, "new")
			b.want(name, "new")
		}
		if got := b.read("dir/file"); got != "old" && got != "new" {
			e.fatalf("the file holds %q", got)
		}
		e.is(sandbox.WriteFile(e.deadline(), b.FS(), "link", nil, &sandbox.CreateOptions{Exclusive: true}), "create exclusively", fs.ErrExist)
	}},
	{"Loop", "links that lead in a circle are an error", func(e *env) {
		b := e.box()
		b.link("b", "a")
		b.link("a", "b")
		b.link(b.Workdir()+"/abs", "abs")
		for _, name := range []string{"a", "abs", "a/x", "abs/x"} {
			if _, err := b.FS().Open(e.deadline(), name, nil); err == nil {
				e.fatalf("open %q succeeded", name)
			}
			if _, err := b.FS().Stat(e.deadline(), name); err == nil {
				e.fatalf("stat %q succeeded", name)
			}
		}
	}},
	{"Remove", "Remove removes a link and never what it leads to", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		b.write("doomed/own", "y")
		for link, target := range map[string]string{
			"to-file": "dir/file", "to-dir": "dir", "abs": b.Workdir() + "/dir", "doomed/to-dir": "../dir", "doomed/abs": b.Workdir() + "/dir",
		} {
			b.link(target, link)
		}
		for _, name := range []string{"to-file", "to-dir", "abs"} {
			e.ok(b.FS().Remove(e.deadline(), name, &sandbox.RemoveOptions{Recursive: name != "to-file"}), "remove %q", name)
			b.want("dir/file", "x")
		}
		e.ok(b.FS().Remove(e.deadline(), "doomed", &sandbox.RemoveOptions{Recursive: true}), "remove")
		b.want("dir/file", "x")
		if names := b.list("."); !slices.Equal(names, []string{"dir"}) {
			e.fatalf("left: %q", names)
		}
	}},
	{"Rename", "Rename moves a link itself, and replaces a link itself", func(e *env) {
		b := e.box()
		b.write("file", "x")
		b.write("other", "y")
		b.link("file", "link")
		e.ok(b.FS().Rename(e.deadline(), "link", "moved", nil), "rename a link")
		if got, err := b.symlinker().Readlink(e.deadline(), "moved"); err != nil || got != "file" {
			e.fatalf("the moved link is %q, %v", got, err)
		}
		e.ok(b.FS().Rename(e.deadline(), "other", "moved", nil), "rename over a link")
		b.want("file", "x")
		b.want("moved", "y")
	}},
}

// outside is a directory of the host with a file in it, which no link leads to.
func (e *env) outside() string {
	dir := e.TempDir()
	e.put(dir, "outside")
	return dir
}

var escapeChecks = []check{
	{"Links", "a path that leaves the files of the sandbox through a link is ErrEscapes, and nothing outside is touched", func(e *env) { // T-96
		b := e.box()
		b.write("inside", "x")
		outside := e.outside()
		b.mkdir("dir")
		for _, l := range [][2]string{
			{"abs", outside}, {"rel", "../../../../../../../../../../../.." + outside}, {"etc", "/etc"}, {"root", "/"},
			{"up", ".."}, {"chain", "abs"}, {"dir/up", "../../.."}, {"work", b.Workdir() + "/../.."},
			{"sibling", b.Workdir() + "foo"}, {"bind", sandbox.BindRoot(b) + "/nothing-bound"},
		} {
			link, target := l[0], l[1]
			b.link(target, link)
			for _, path := range []string{link + "/file", link + "/dir/x"} {
				for op, err := range e.touch(b, path, "inside") {
					e.pathIs(err, op, path, sandbox.ErrEscapes)
				}
				e.is(b.FS().Rename(e.deadline(), "inside", path, nil), "rename to "+path, sandbox.ErrEscapes)
			}
			for op, err := range e.follow(b, link) {
				e.pathIs(err, op, link, sandbox.ErrEscapes)
			}
			if target == outside {
				b.link(outside+"/file", "file-link")
				for op, err := range e.follow(b, "file-link") {
					e.pathIs(err, op, "file-link", sandbox.ErrEscapes)
				}
			}
			b.want("inside", "x")
		}
		e.untouched(outside)
	}},
	{"Swapped", "a link that takes the place of a directory during a call leads nobody out", func(e *env) {
		b := e.box()
		outside := e.outside()
		b.write("dir/file", "inside")
		b.link(outside, "link")
		all := &sandbox.RemoveOptions{Recursive: true}
		ctx, stop := context.WithCancel(e.deadline())
		swapped := make(chan struct{})
		var swaps atomic.Int64
		go func() {
			defer close(swapped)
			for ctx.Err() == nil {
				for _, move := range [][2]string{{"dir", "aside"}, {"link", "dir"}, {"dir", "link"}, {"aside", "dir"}} {
					for b.FS().Rename(ctx, move[0], move[1], nil) != nil && ctx.Err() == nil {
						b.FS().Remove(ctx, move[1], all) // made anew by somebody who writes below it
					}
				}
				swaps.Add(1)
			}
		}()
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for ctx.Err() == nil {
					if got, err := sandbox.ReadFile(e.deadline(), b.FS(), "dir/file"); err == nil && string(got) != "inside" {
						e.Errorf("read %q\nThe rule: %s.", got, e.rule)
						return
					}
				}
			})
		}
		// For a while, and for as long as it takes to swap them often where that is slow.
		for until := time.Now().Add(time.Second); time.Now().Before(until) || swaps.Load() < 1000 && ctx.Err() == nil && !e.Failed(); {
			for info, err := range b.FS().ReadDir(e.deadline(), "dir") {
				if err == nil && info.Name == "secret" {
					e.Errorf("listed what is outside\nThe rule: %s.", e.rule)
				}
			}
			sandbox.WriteFile(e.deadline(), b.FS(), "dir/file", []byte("inside"), nil)
			sandbox.WriteFile(e.deadline(), b.FS(), "dir/new/deep", []byte("x"), nil)
			b.FS().Remove(e.deadline(), "dir/secret", nil)
			b.FS().Remove(e.deadline(), "dir/new", all)
			b.FS().Mkdir(e.deadline(), "dir/made")
			b.FS().Rename(e.deadline(), "dir/secret", "stolen", nil)
		}
		stop()
		<-swapped
		readers.Wait()
		if b.has("stolen") {
			e.fatalf("a file was moved in from outside")
		}
		e.untouched(outside)
	}},
}

// follow is what the operations say to path that follow a link at its end.
func (e *env) follow(b *box, path string) map[string]error {
	ctx := context.Background()
	errs := map[string]error{}
	_, errs["open"] = b.FS().Open(ctx, path, nil)
	_, errs["stat"] = b.FS().Stat(ctx, path)
	errs["readdir"] = drain(ctx, b.FS(), path)
	errs["create"] = sandbox.WriteFile(ctx, b.FS(), path, []byte("escaped"), nil)
	return errs
}
