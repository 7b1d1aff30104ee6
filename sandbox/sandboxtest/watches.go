package sandboxtest

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

var watchChecks = []check{
	{"Kinds", "what is made, written, removed and moved in a directory is told, with absolute paths", func(e *env) {
		b := e.box()
		b.mkdir("dir")
		w := b.watchWith("dir", nil)
		b.write("dir/a", "x")
		w.tells(0, b.abs("dir/a"), there...)
		n := w.sofar()
		b.write("dir/a", "y")
		w.tells(n, b.abs("dir/a"), there...)
		b.mkdir("dir/sub")
		w.tells(0, b.abs("dir/sub"), sandbox.ChangeCreated)
		n = w.sofar()
		e.ok(b.FS().Rename(e.deadline(), "dir/a", "dir/b", nil), "rename")
		w.until("a is moved to b", func(all []sandbox.Change, _ bool) bool {
			gone, is := false, false
			for _, c := range all[n:] {
				gone = gone || c.From == b.abs("dir/a") || c.Path == b.abs("dir/a") && c.Kind == sandbox.ChangeRemoved
				is = is || c.Path == b.abs("dir/b")
			}
			return gone && is
		})
		if attrs, ok := sandbox.As[sandbox.AttrSetter](b.Sandbox); ok {
			n = w.sofar()
			e.ok(attrs.Chmod(e.deadline(), "dir/b", 0o600), "chmod")
			w.tells(n, b.abs("dir/b"), sandbox.ChangeModified)
			n = w.sofar()
			e.ok(attrs.Chtimes(e.deadline(), "dir/b", time.Unix(1_000_000_000, 0)), "chtimes")
			w.tells(n, b.abs("dir/b"), sandbox.ChangeModified)
		}
		e.ok(b.FS().Remove(e.deadline(), "dir/b", nil), "remove")
		w.tells(0, b.abs("dir/b"), sandbox.ChangeRemoved)
		e.ok(b.FS().Remove(e.deadline(), "dir/sub", nil), "remove")
		w.tells(0, b.abs("dir/sub"), sandbox.ChangeRemoved)
		if e.opts.Links {
			b.link("nowhere", "dir/link")
			w.tells(0, b.abs("dir/link"), sandbox.ChangeCreated)
		}
		w.within(b.abs("dir"))
	}},
	{"Elsewhere", "of what happens elsewhere nothing is told, nor without Recursive of what happens further down", func(e *env) {
		b := e.box()
		b.write("dir/sub/old", "x")
		b.mkdir("dirs")
		flat, deep := b.watchWith("dir", nil), b.watch("dir/sub")
		for _, name := range []string{"dirs/f", "f", "dir/sub/f", "dir/sub/old", "dir/sub/d/f"} {
			b.write(name, "y")
		}
		b.write("dir/last", "x")
		flat.tells(0, b.abs("dir/last"), there...)
		b.write("dir/sub/last", "x")
		deep.tells(0, b.abs("dir/sub/last"), there...)
		deep.within(b.abs("dir/sub"))
		for _, c := range flat.all {
			if path.Dir(c.Path) != b.abs("dir") {
				e.fatalf("told of %q: %s", c.Path, told(flat.all))
			}
		}
	}},
	{"Recursive", "in a directory that is made later nothing is missed, however soon it is made", func(e *env) {
		b := e.box()
		b.mkdir("dir/old")
		w := b.watch("dir")
		var want []string
		for i := range 60 {
			name := fmt.Sprintf("dir/new-%d/a/b/f", i)
			if i%2 == 1 {
				name = fmt.Sprintf("dir/old/%d/f", i)
			}
			b.write(name, "x")
			for p := name; p != "dir" && p != "dir/old"; p = path.Dir(p) {
				want = append(want, b.abs(p))
			}
		}
		for _, p := range want {
			w.tells(0, p, there...)
		}
		b.write("dir/new-0/a/b/f", "y")
		w.tells(0, b.abs("dir/new-0/a/b/f"), there...)
		e.ok(b.FS().Remove(e.deadline(), "dir/new-0", &sandbox.RemoveOptions{Recursive: true}), "remove")
		w.tells(0, b.abs("dir/new-0"), sandbox.ChangeRemoved)
		w.tells(0, b.abs("dir/new-0/a/b/f"), sandbox.ChangeRemoved)
		w.within(b.abs("dir"))
	}},
	{"Moved", "what happens in a directory that was moved is told with its new path, and nothing once it was moved away", func(e *env) {
		b := e.box()
		b.write("dir/one/sub/f", "x")
		b.write("other/sub/f", "x")
		w := b.watch("dir")
		e.ok(b.FS().Rename(e.deadline(), "dir/one", "dir/two", nil), "rename")
		w.tells(0, b.abs("dir/two"), sandbox.ChangeRenamed)
		b.write("dir/two/sub/g", "x")
		w.tells(0, b.abs("dir/two/sub/g"), there...)
		e.ok(b.FS().Rename(e.deadline(), "other", "dir/in", nil), "rename")
		w.tells(0, b.abs("dir/in"), there...)
		b.write("dir/in/sub/g", "x")
		w.tells(0, b.abs("dir/in/sub/g"), there...)
		e.ok(b.FS().Rename(e.deadline(), "dir/two", "out", nil), "rename")
		w.tells(0, b.abs("dir/two"), sandbox.ChangeRemoved)
		n := w.sofar()
		b.write("out/sub/h", "x")
		b.write("dir/last", "x")
		w.tells(0, b.abs("dir/last"), there...)
		w.within(b.abs("dir"))
		for _, c := range w.all[n:] {
			if path.Base(c.Path) == "h" {
				e.fatalf("told of %q, which has been moved away", c.Path)
			}
		}
	}},
	{"Replayed", "whoever keeps a list by what is told has in the end the list of what is there", func(e *env) {
		b := e.box()
		b.mkdir("dir")
		b.mkdir("out")
		w := b.watchWith("dir", &sandbox.WatchOptions{Recursive: true, Buffer: 1 << 20})
		chance := rand.New(rand.NewPCG(1, 2))
		any := func() string {
			p := []string{"dir", "dir", "dir", "out"}[chance.IntN(4)]
			for range 1 + chance.IntN(3) {
				p += "/" + string('a'+rune(chance.IntN(3)))
			}
			return p
		}
		for range 400 {
			switch p := any(); chance.IntN(8) { // what fails changes nothing
			case 0, 1, 2:
				_ = sandbox.WriteFile(e.deadline(), b.FS(), p, []byte("x"), nil)
			case 3:
				_ = b.FS().Mkdir(e.deadline(), p)
			case 4:
				_ = b.FS().Remove(e.deadline(), p, &sandbox.RemoveOptions{Recursive: true})
			default:
				_ = b.FS().Rename(e.deadline(), p, any(), nil)
			}
		}
		b.write("dir/last", "x")
		w.tells(0, b.abs("dir/last"), there...)
		want := b.below("dir")
		w.until(fmt.Sprintf("%q and no others", want), func(all []sandbox.Change, _ bool) bool { return slices.Equal(b.replay(all), want) })
	}},
	{"Overflow", "a reader that is too slow is told that changes were left out, and afterwards of new ones", func(e *env) {
		b := e.box()
		b.mkdir("dir")
		ctx, stop := context.WithCancel(e.deadline())
		defer stop()
		seq, err := b.watcher().Watch(ctx, "dir", &sandbox.WatchOptions{Buffer: 4})
		e.ok(err, "watch")
		for i := range 50 {
			b.write(fmt.Sprintf("dir/f-%d", i), "x")
		}
		n, overflow := 0, false
		for c, err := range seq {
			if err != nil {
				e.fatalf("the sequence ends with %v", err)
			}
			switch {
			case c.Kind == sandbox.ChangeOverflow && c.Path == "":
				if overflow = true; n > 50 {
					e.fatalf("%d changes waited where there is room for 4", n)
				}
				b.write("dir/last", "x")
			case c.Kind == sandbox.ChangeOverflow:
				e.fatalf("an overflow has the path %q", c.Path)
			case overflow && c.Path == b.abs("dir/last"):
				return
			}
			n++
		}
		e.fatalf("of 50 changes with room for 4 none was left out, or the sequence ended: %v, overflow %v", ctx.Err(), overflow)
	}},
	{"Context", "the end of the context ends the sequence, without an error, and nothing is told after it", func(e *env) {
		b := e.box()
		w := b.watch(".")
		b.write("before", "x")
		w.tells(0, b.abs("before"), there...)
		w.stop()
		w.until("the end of the context", func(_ []sandbox.Change, over bool) bool { return over })
		b.write("after", "x")
		if w.err != nil || slices.ContainsFunc(w.all, func(c sandbox.Change) bool { return c.Path == b.abs("after") }) {
			e.fatalf("ended with %v, told %s", w.err, told(w.all))
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := b.watcher().Watch(ended, ".", nil); err == nil {
			e.fatalf("watch with a context that has ended succeeds")
		}
	}},
	{"Closed", "the handle's Close ends what is watched through it with ErrClosed, and nothing else", func(e *env) {
		m := e.create(e.newName())
		b, other := e.attach(m.Ref), e.attach(m.Ref)
		w, stays := b.watch("."), other.watch(".")
		e.ok(b.Close(), "close")
		w.ends("the handle was closed", ".", sandbox.ErrClosed)
		other.write("f", "x")
		stays.tells(0, other.abs("f"), there...)
	}},
	{"Destroyed", "the end of the machine ends what is watched in it, with ErrGone or ErrStale", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		b.mkdir("dir")
		top, deep := b.watch("."), b.watch("dir")
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		top.ends("the machine was destroyed", ".", sandbox.ErrGone, sandbox.ErrStale)
		deep.ends("the machine was destroyed", "dir", sandbox.ErrGone, sandbox.ErrStale)
	}},
	{"Gone", "a directory that is removed or moved, or that lies in one that is, ends the sequence with fs.ErrNotExist", func(e *env) {
		b := e.box()
		all := &sandbox.RemoveOptions{Recursive: true}
		for what, gone := range map[string]func(dir string) error{
			"it was removed":          func(dir string) error { return b.FS().Remove(e.deadline(), dir+"/a/b", all) },
			"it was removed with all": func(dir string) error { return b.FS().Remove(e.deadline(), dir, all) },
			"it was moved":            func(dir string) error { return b.FS().Rename(e.deadline(), dir+"/a/b", dir+"/a/c", nil) },
			"its parent was moved":    func(dir string) error { return b.FS().Rename(e.deadline(), dir, dir+"-moved", nil) },
		} {
			dir := strings.ReplaceAll(what, " ", "-")
			b.write(dir+"/a/b/f", "x")
			w := b.watch(dir + "/a/b")
			e.ok(gone(dir), "%s", what)
			w.ends(what, dir+"/a/b", fs.ErrNotExist)
		}
	}},
	{"Refused", "what is no directory, is not there or lies outside is not watched", func(e *env) {
		b := e.box()
		b.write("file", "x")
		for p, want := range map[string]error{
			"file": sandbox.ErrNotDir, "missing": fs.ErrNotExist, "missing/dir": fs.ErrNotExist, "../..": sandbox.ErrEscapes, "/etc": sandbox.ErrEscapes,
			"": sandbox.ErrInvalid, "a\x00b": sandbox.ErrInvalid,
		} {
			_, err := b.watcher().Watch(e.deadline(), p, nil)
			e.pathIs(err, "watch", p, want)
		}
		_, err := b.watcher().Watch(e.deadline(), ".", &sandbox.WatchOptions{Buffer: -1})
		e.is(err, "watch with a Buffer of -1", sandbox.ErrInvalid)
	}},
	{"Several", "of several who watch one directory each is told everything", func(e *env) {
		b := e.box()
		b.mkdir("dir")
		var all []*watching
		for range 4 {
			all = append(all, b.watch("dir"))
		}
		together(4, func(i int) {
			for n := range 10 {
				if err := sandbox.WriteFile(e.deadline(), b.FS(), fmt.Sprintf("dir/%d/%d", i, n), []byte("x"), nil); err != nil {
					e.Errorf("write: %v", err)
				}
			}
		})
		for _, w := range all {
			for i := range 4 {
				for n := range 10 {
					w.tells(0, b.abs(fmt.Sprintf("dir/%d/%d", i, n)), there...)
				}
			}
		}
	}},
	{"Links", "links in the directory are told and not followed; one on the way to it is, as far as it stays inside", func(e *env) {
		if !e.opts.Links {
			return
		}
		b := e.box()
		outside := e.outside()
		b.mkdir("dir/real")
		b.mkdir("beside")
		b.link("../beside", "dir/beside")
		b.link(outside, "dir/out")
		b.link("dir", "way")
		b.link(outside, "away")
		w, by := b.watch("dir"), b.watch("way/real")
		b.link(b.abs("beside"), "dir/late")
		w.tells(0, b.abs("dir/late"), sandbox.ChangeCreated)
		e.ok(os.WriteFile(filepath.Join(outside, "late"), nil, 0o600), "write outside")
		b.write("beside/f", "x")
		b.write("way/real/f", "x")
		by.tells(0, b.abs("way/real/f"), there...)
		w.tells(0, b.abs("dir/real/f"), there...)
		w.within(b.abs("dir"))
		by.within(b.abs("way/real"))
		for _, c := range w.all {
			if rel, _ := sandbox.PathWithin(b.abs("dir"), c.Path); rel != "late" && !strings.HasPrefix(rel, "real/") {
				e.fatalf("told of %q: %s", rel, told(w.all))
			}
		}
		for _, p := range []string{"away", "away/dir", "dir/out"} {
			_, err := b.watcher().Watch(e.deadline(), p, nil)
			e.pathIs(err, "watch", p, sandbox.ErrEscapes)
		}
	}},
	{"Processes", "what a process does is told as everything else is", func(e *env) {
		b := e.box()
		if c := e.opts.Commands; !e.processes() || c.WriteFile == nil {
			return
		}
		w := b.watch(".")
		b.run(sandbox.Cmd{Argv: e.opts.Commands.WriteFile("by-process", "x")})
		w.tells(0, b.abs("by-process"), there...)
		if e.opts.Shell != nil {
			b.run(sandbox.Cmd{Argv: e.script("for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d$i/e/f; echo x > d$i/e/f/g; done; mv d1 moved; rm -r d2")})
			for _, p := range []string{"d3/e/f/g", "d9/e/f/g", "moved", "moved/e/f/g"} {
				b.appears(w, p)
			}
			w.tells(0, b.abs("d2"), sandbox.ChangeRemoved)
			b.run(sandbox.Cmd{Argv: e.script("chmod 600 d9/e/f/g; echo y >> moved/e/f/g")})
			w.tells(0, b.abs("moved/e/f/g"), sandbox.ChangeModified)
			w.tells(0, b.abs("d9/e/f/g"), sandbox.ChangeModified)
		}
	}},
	{"Bound", "a directory that is bound is watched too, until it is not bound any more; where that can't be, watching it is ErrUnsupported", func(e *env) {
		if !e.opts.Binds {
			return
		}
		b := e.box()
		dir, at := e.outside(), sandbox.BindRoot(b)+"/watched"
		l, _ := sandbox.As[sandbox.Binder](b.Sandbox)
		unbind, err := l.Bind(e.deadline(), dir, at)
		e.ok(err, "bind")
		if !e.opts.WatchesBound {
			_, err := b.watcher().Watch(e.deadline(), at, nil)
			e.pathIs(err, "watch", at, sandbox.ErrUnsupported)
			return
		}
		w, deep := b.watch(at), b.watch(at+"/dir")
		e.ok(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), "write on the host")
		w.tells(0, at+"/file", there...)
		b.write(at+"/dir/made", "x")
		deep.tells(0, at+"/dir/made", there...)
		w.tells(0, at+"/dir/made", there...)
		w.within(at)
		e.ok(unbind(e.deadline()), "unbind")
		w.ends("it is not bound any more", at, fs.ErrNotExist)
		deep.ends("it is not bound any more", at+"/dir", fs.ErrNotExist)
	}},
}

// appears waits until a path is told, or one that it was moved from.
func (b *box) appears(w *watching, p string) {
	b.e.Helper()
	w.until(p+" is there", func(all []sandbox.Change, _ bool) bool {
		return slices.ContainsFunc(all, func(c sandbox.Change) bool {
			return c.Path == b.abs(p) || strings.HasPrefix(p, "moved/") && c.Path == b.abs("d1"+strings.TrimPrefix(p, "moved"))
		})
	})
}
