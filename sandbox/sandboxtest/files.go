package sandboxtest

import (
	"bytes"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

var fileChecks = []check{
	{"RoundTrip", "what is written is read again, byte for byte", func(e *env) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		b := e.box()
		for name, text := range map[string]string{
			"empty": "", "binary": string(all), "text": "Grüße, 世界\n", "crlf": "a\r\nb\r\n\x1a",
			"long line": strings.Repeat("x", 1<<20), "-dash": "-", ".dot": ".", "ü 世": "u",
		} {
			b.write(name, text)
			b.want(name, text)
		}
	}},
	{"Large", "a file may be larger than what one wants to hold in memory", func(e *env) {
		const size = 24 << 20
		b := e.box()
		w, err := b.FS().Create(e.deadline(), "large", nil)
		e.ok(err, "create")
		block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
		for range size / len(block) {
			if _, err := w.Write(block); err != nil {
				e.fatalf("write: %v", err)
			}
		}
		e.ok(w.Close(), "close")
		r, err := b.FS().Open(e.deadline(), "large", nil)
		e.ok(err, "open")
		defer r.Close()
		got := make([]byte, len(block))
		n := 0
		for {
			_, err := io.ReadFull(r, got)
			if err == io.EOF {
				break
			}
			e.ok(err, "read at %d", n)
			if !bytes.Equal(got, block) {
				e.fatalf("the block at %d differs", n)
			}
			n += len(got)
		}
		if info, err := b.FS().Stat(e.deadline(), "large"); err != nil || n != size || info.Size != size {
			e.fatalf("read %d bytes of %d, Stat says %d, %v", n, size, info.Size, err)
		}
	}},
	{"Missing", "what isn't there is fs.ErrNotExist, in a PathError that carries the path as given", func(e *env) {
		b := e.box()
		f, ctx := b.FS(), e.deadline()
		for _, name := range []string{"missing", "./missing", "no-dir/missing", b.Workdir() + "/missing"} {
			_, err := f.Open(ctx, name, nil)
			e.pathIs(err, "open", name, fs.ErrNotExist)
			_, err = f.Stat(ctx, name)
			e.pathIs(err, "stat", name, fs.ErrNotExist)
			e.pathIs(drain(ctx, f, name), "readdir", name, fs.ErrNotExist)
			e.pathIs(f.Remove(ctx, name, nil), "remove", name, fs.ErrNotExist)
			e.pathIs(f.Rename(ctx, name, "to", nil), "rename", name, fs.ErrNotExist)
		}
	}},
	{"IsDir", "to open a directory, or to put a file in its place, is ErrIsDir", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		for _, name := range []string{"dir", "."} {
			_, err := b.FS().Open(e.deadline(), name, nil)
			e.pathIs(err, "open", name, sandbox.ErrIsDir)
			e.pathIs(sandbox.WriteFile(e.deadline(), b.FS(), name, nil, nil), "create", name, sandbox.ErrIsDir)
		}
		b.want("dir/file", "x")
	}},
	{"NotDir", "a file where a directory must be is ErrNotDir", func(e *env) {
		b := e.box()
		b.write("file", "x")
		f, ctx := b.FS(), e.deadline()
		e.pathIs(drain(ctx, f, "file"), "readdir", "file", sandbox.ErrNotDir)
		e.pathIs(f.Mkdir(ctx, "file"), "mkdir", "file", sandbox.ErrNotDir)
		e.pathIs(f.Mkdir(ctx, "file/dir"), "mkdir", "file/dir", sandbox.ErrNotDir)
		e.pathIs(sandbox.WriteFile(ctx, f, "file/below", nil, nil), "create", "file/below", sandbox.ErrNotDir)
		_, err := f.Open(ctx, "file/below", nil)
		e.pathIs(err, "open", "file/below", sandbox.ErrNotDir)
		b.want("file", "x")
	}},
	{"Stat", "Stat tells name, kind, size, mode and time", func(e *env) {
		b := e.box()
		began := time.Now().Add(-time.Minute)
		e.ok(sandbox.WriteFile(e.deadline(), b.FS(), "dir/file", []byte("12345"), &sandbox.CreateOptions{Mode: 0o640}), "write")
		info, err := b.FS().Stat(e.deadline(), "./dir/../dir/file")
		e.ok(err, "stat a file")
		if info.Name != "file" || info.Kind != sandbox.KindFile || info.IsDir() || info.Size != 5 || info.Mode != 0o640 {
			e.fatalf("a file: %+v", info)
		}
		if info.ModTime.Before(began) || info.ModTime.After(time.Now().Add(time.Minute)) {
			e.fatalf("it was written just now, not at %v", info.ModTime)
		}
		info, err = b.FS().Stat(e.deadline(), "dir")
		e.ok(err, "stat a directory")
		if info.Name != "dir" || info.Kind != sandbox.KindDir || !info.IsDir() || info.Size != 0 {
			e.fatalf("a directory: %+v", info)
		}
		if info, err = b.FS().Stat(e.deadline(), "."); err != nil || !info.IsDir() {
			e.fatalf("the working directory: %+v, %v", info, err)
		}
	}},
	{"Rename", "Rename moves a file or a directory, and replaces a file", func(e *env) {
		b := e.box()
		f, ctx := b.FS(), e.deadline()
		b.write("a", "1")
		b.write("b", "2")
		b.write("dir/sub/file", "3")
		e.ok(f.Rename(ctx, "a", "b", nil), "rename over a file")
		b.want("b", "1")
		e.ok(f.Rename(ctx, "dir", "moved", nil), "rename a directory")
		b.want("moved/sub/file", "3")
		e.ok(f.Rename(ctx, "b", "moved/sub/b", nil), "rename into a directory")
		b.want("moved/sub/b", "1")
		if b.has("a") || b.has("b") || b.has("dir") {
			e.fatalf("old names are still there: %q", b.list("."))
		}
	}},
	{"RenameRefused", "Rename never replaces a directory by a file, makes no parents, and leaves the working directory alone", func(e *env) {
		b := e.box()
		f, ctx := b.FS(), e.deadline()
		b.write("file", "x")
		b.write("dir/file", "y")
		for _, to := range []string{"dir", "no-dir/file", ".", b.Workdir()} {
			if err := f.Rename(ctx, "file", to, nil); err == nil {
				e.fatalf("a file was renamed to %q", to)
			}
		}
		for _, from := range []string{".", b.Workdir()} {
			if err := f.Rename(ctx, from, "elsewhere", nil); err == nil {
				e.fatalf("the working directory was renamed")
			}
		}
		e.is(f.Rename(ctx, "file", "no-dir/file", nil), "rename to a missing directory", fs.ErrNotExist)
		b.want("file", "x")
		b.want("dir/file", "y")
	}},
}
