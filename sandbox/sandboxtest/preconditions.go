package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

// etag is the ETag of a file, which must have one.
func (b *box) etag(path string) string {
	b.e.Helper()
	info := b.stat(path)
	if info.ETag == "" {
		b.e.fatalf("%q has no ETag, though Options.ETags says so: %+v", path, info)
	}
	return info.ETag
}

// writeIf writes a file that must have an ETag.
func (b *box) writeIf(path, etag, text string) error {
	return sandbox.WriteFile(b.e.deadline(), b.FS(), path, []byte(text), &sandbox.CreateOptions{IfMatch: etag})
}

var etagChecks = []check{
	{"Tells", "Stat, Lstat and ReadDir tell one ETag of a file, and none of anything else", func(e *env) {
		b := e.box()
		b.write("dir/file", "12345")
		b.mkdir("dir/sub")
		etag := b.etag("dir/file")
		if info := b.lstat("dir/file"); info.ETag != etag {
			e.fatalf("Lstat tells %q, Stat %q", info.ETag, etag)
		}
		if e.opts.Links {
			b.link("file", "dir/link")
			if info := b.stat("dir/link"); info.ETag != etag {
				e.fatalf("by a link it is %q, and %q without", info.ETag, etag)
			}
		}
		for info, err := range b.FS().ReadDir(e.deadline(), "dir") {
			e.ok(err, "readdir")
			if want := map[bool]string{true: etag}[info.Name == "file"]; info.ETag != want {
				e.fatalf("ReadDir tells %q of %q, not %q", info.ETag, info.Name, want)
			}
		}
		if info := b.stat("dir"); info.ETag != "" {
			e.fatalf("a directory has the ETag %q", info.ETag)
		}
	}},
	{"Changes", "the ETag changes with the content, however soon and whatever its size", func(e *env) {
		b := e.box()
		seen := map[string]int{}
		for i := range 200 {
			b.write("file", fmt.Sprintf("%03d", i))
			etag := b.etag("file")
			if was, ok := seen[etag]; ok {
				e.fatalf("contents %d and %d have one ETag, %q", was, i, etag)
			}
			seen[etag] = i
		}
		b.write("other", "199")
		e.ok(b.FS().Rename(e.deadline(), "other", "file", nil), "rename")
		if _, ok := seen[b.etag("file")]; ok {
			e.fatalf("a file that was renamed over it has an ETag of what was there")
		}
	}},
	{"InPlace", "the ETag changes with what processes write in place, however fast: what is read between two looks that tell one ETag is always the same for that ETag", func(e *env) {
		if e.opts.Shell == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		b := e.box()
		b.write("file", "1000")
		p := b.start(sandbox.Cmd{Argv: e.script(`i=1000; while [ $i -lt 9000 ]; do printf %d $i 1<>file; i=$((i+1)); done`)})
		holds := map[string]string{}
		for looks := 0; b.read("file") != "8999" || looks == 0; looks++ {
			etag := b.etag("file")
			text := b.read("file")
			if b.etag("file") != etag {
				continue
			}
			if was, ok := holds[etag]; ok && was != text {
				e.fatalf("with the ETag %q the file held %q, and holds %q", etag, was, text)
			}
			holds[etag] = text
		}
		if exit := e.wait(p); exit.Code != 0 {
			e.fatalf("the writer: %+v", exit)
		}
	}},
}

var preconditionChecks = []check{
	{"Match", "IfMatch lets a file be replaced that has the ETag; where it has another it is ErrPrecondition, the old content stands, and nothing is left behind", func(e *env) {
		b := e.box()
		e.ok(sandbox.WriteFile(e.deadline(), b.FS(), "dir/file", []byte("one"), &sandbox.CreateOptions{Mode: 0o640}), "write")
		first := b.etag("dir/file")
		e.ok(b.writeIf("dir/file", first, "two"), "write what was not changed")
		b.want("dir/file", "two")
		for _, etag := range []string{first, "no such", "*", first + " "} {
			e.pathIs(b.writeIf("dir/file", etag, "six"), "create", "dir/file", sandbox.ErrPrecondition)
		}
		b.want("dir/file", "two")
		e.ok(b.writeIf("dir/file", b.etag("dir/file"), "three"), "write after another look")
		b.want("dir/file", "three")
		if info := b.stat("dir/file"); info.Mode != 0o640 {
			e.fatalf("its mode became %v", info.Mode)
		}
		if names := b.list("dir"); !slices.Equal(names, []string{"file"}) {
			e.fatalf("the directory holds %q", names)
		}
		if e.opts.Links {
			b.link("dir/file", "link")
			b.link(b.Workdir()+"/dir/file", "abs")
			for _, by := range []string{"link", "abs"} {
				etag := b.etag(by)
				e.ok(b.writeIf(by, etag, "by "+by), "write by a link")
				e.pathIs(b.writeIf(by, etag, "again"), "create", by, sandbox.ErrPrecondition)
				b.want("dir/file", "by "+by)
			}
		}
	}},
	{"Late", "what is changed between Create and Close is not overwritten", func(e *env) {
		b := e.box()
		for what, change := range map[string]func(){
			"written":      func() { b.write("file", "new") },
			"renamed over": func() { b.write("other", "new"); e.ok(b.FS().Rename(e.deadline(), "other", "file", nil), "rename") },
			"made anew": func() {
				e.ok(b.FS().Remove(e.deadline(), "file", nil), "remove")
				b.write("file", "new")
			},
		} {
			b.write("file", "old")
			w, err := b.FS().Create(e.deadline(), "file", &sandbox.CreateOptions{IfMatch: b.etag("file")})
			e.ok(err, "create")
			if _, err := w.Write([]byte("bad")); err != nil {
				e.fatalf("write: %v", err)
			}
			change()
			e.pathIs(w.Close(), "create", "file", sandbox.ErrPrecondition)
			if b.read("file") != "new" {
				e.fatalf("a file that was %s meanwhile holds %q", what, b.read("file"))
			}
			if names := b.list("."); !slices.Equal(names, []string{"file"}) {
				e.fatalf("the directory holds %q", names)
			}
		}
	}},
	{"Missing", "where there is no file IfMatch is ErrPrecondition, and nothing is made", func(e *env) {
		b := e.box()
		b.write("file", "x")
		etag := b.etag("file")
		for _, path := range []string{"missing", "no-dir/missing"} {
			e.pathIs(b.writeIf(path, etag, "y"), "create", path, sandbox.ErrPrecondition)
		}
		w, err := b.FS().Create(e.deadline(), "file", &sandbox.CreateOptions{IfMatch: etag})
		e.ok(err, "create")
		e.ok(b.FS().Remove(e.deadline(), "file", nil), "remove")
		e.pathIs(w.Close(), "create", "file", sandbox.ErrPrecondition)
		if names := b.list("."); len(names) != 0 {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"Exclusive", "IfMatch with Exclusive is ErrInvalid", func(e *env) {
		b := e.box()
		b.write("file", "x")
		opts := &sandbox.CreateOptions{Exclusive: true, IfMatch: b.etag("file")}
		for _, path := range []string{"file", "new"} {
			e.pathIs(sandbox.WriteFile(e.deadline(), b.FS(), path, []byte("y"), opts), "create", path, sandbox.ErrInvalid)
		}
		b.want("file", "x")
		if b.has("new") {
			e.fatalf("a new file was made")
		}
	}},
	{"Race", "of several writers that name one ETag at once, through any handle, exactly one succeeds, with its own content", func(e *env) {
		m := e.create(e.newName())
		boxes := []*box{e.attach(m.Ref), e.attach(m.Ref)}
		b := boxes[0]
		text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1000) }
		b.write("dir/file", "first")
		for range 10 {
			etag := b.etag("dir/file")
			var won, lost atomic.Int64
			var winner atomic.Value
			writers := make([]sandbox.Writer, 8)
			for i := range writers { // all of them before the first is closed
				w, err := boxes[i%2].FS().Create(e.deadline(), "dir/file", &sandbox.CreateOptions{IfMatch: etag})
				e.ok(err, "create")
				if _, err := w.Write([]byte(text(i))); err != nil {
					e.fatalf("write: %v", err)
				}
				writers[i] = w
			}
			together(len(writers), func(i int) {
				switch err := writers[i].Close(); {
				case err == nil:
					won.Add(1)
					winner.Store(text(i))
				case errors.Is(err, sandbox.ErrPrecondition):
					lost.Add(1)
				default:
					e.Errorf("close: %v", err)
				}
			})
			if won.Load() != 1 || lost.Load() != 7 {
				e.fatalf("%d won and %d lost", won.Load(), lost.Load())
			}
			b.want("dir/file", winner.Load().(string))
			if names := b.list("dir"); len(names) != 1 {
				e.fatalf("the directory holds %q", names)
			}
		}
	}},
	{"NothingLost", "who reads, changes and writes with IfMatch, and begins anew on ErrPrecondition, loses nobody's change, whatever else comes and goes in the directory", func(e *env) {
		m := e.create(e.newName())
		boxes := []*box{e.attach(m.Ref), e.attach(m.Ref)}
		boxes[0].write("dir/log", "")
		const writers, lines = 6, 10
		together(writers, func(i int) {
			b := boxes[i%2]
			f, ctx := b.FS(), e.deadline()
			for n := 0; n < lines; {
				info, err := f.Stat(ctx, "dir/log")
				if err != nil {
					e.Errorf("stat: %v", err)
					return
				}
				text, err := sandbox.ReadFile(ctx, f, "dir/log")
				if err != nil {
					e.Errorf("read: %v", err)
					return
				}
				err = b.writeIf("dir/log", info.ETag, string(text)+fmt.Sprintf("%d-%d\n", i, n))
				switch {
				case err == nil:
					n++
				case !errors.Is(err, sandbox.ErrPrecondition):
					e.Errorf("write: %v", err)
					return
				}
				passing := fmt.Sprintf("dir/passing-%d", i)
				err = errors.Join(sandbox.WriteFile(ctx, f, passing, nil, nil), f.Rename(ctx, passing, passing+"-on", nil), f.Remove(ctx, passing+"-on", nil))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					e.Errorf("beside it: %v", err)
					return
				}
			}
		})
		got := strings.Fields(boxes[0].read("dir/log"))
		for i := range writers {
			own := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !strings.HasPrefix(line, fmt.Sprint(i, "-")) })
			for n := range lines {
				if len(own) != lines || own[n] != fmt.Sprintf("%d-%d", i, n) {
					e.fatalf("of writer %d there is %q", i, own)
				}
			}
		}
	}},
}
