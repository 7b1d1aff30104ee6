package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// packed is an archive of entries: of a file with the text, of a link with where it leads.
func (e *env) packed(entries ...tar.Header) *bytes.Buffer {
	e.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text, h.Linkname = h.Linkname, ""
		}
		h.Size = int64(len(text))
		e.ok(w.WriteHeader(&h), "archive %q", h.Name)
		_, err := io.WriteString(w, text)
		e.ok(err, "archive %q", h.Name)
	}
	e.ok(w.Close(), "archive")
	return &b
}

func packedFile(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: text, Mode: 0o640}
}

func packedLink(target, name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func (b *box) export(path string) ([]byte, sandbox.TarReport) {
	b.e.Helper()
	var out bytes.Buffer
	report, err := sandbox.ExportTar(b.e.deadline(), b.Sandbox, path, &out, nil)
	b.e.ok(err, "export %q", path)
	return out.Bytes(), report
}

func (b *box) imports(path string, r io.Reader) sandbox.TarReport {
	b.e.Helper()
	report, err := sandbox.ImportTar(b.e.deadline(), b.Sandbox, path, r, nil)
	b.e.ok(err, "import into %q", path)
	return report
}

// unpacked are the entries of an archive, with the text of files for Linkname, and without
// their times where exact is not set.
func (e *env) unpacked(data []byte, exact bool) (all []tar.Header) {
	e.Helper()
	in := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := in.Next()
		if err == io.EOF {
			return all
		}
		e.ok(err, "read the archive")
		text, err := io.ReadAll(in)
		e.ok(err, "read the archive")
		is := tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname + string(text), Mode: h.Mode}
		if exact {
			is.ModTime = h.ModTime
		}
		all = append(all, is)
	}
}

func (e *env) sameEntries(got, want []byte, exact bool) {
	e.Helper()
	g, w := e.unpacked(got, exact), e.unpacked(want, exact)
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			e.fatalf("%q is missing", w[i].Name)
		case i >= len(w):
			e.fatalf("%q is too much", g[i].Name)
		case g[i].Typeflag != w[i].Typeflag || g[i].Name != w[i].Name || g[i].Linkname != w[i].Linkname || g[i].Mode != w[i].Mode || !g[i].ModTime.Equal(w[i].ModTime):
			e.fatalf("entry %d is %c %q %o %v %s, want %c %q %o %v %s", i, g[i].Typeflag, g[i].Name, g[i].Mode, g[i].ModTime, brief(g[i].Linkname),
				w[i].Typeflag, w[i].Name, w[i].Mode, w[i].ModTime, brief(w[i].Linkname))
		}
	}
}

var tarChecks = []check{
	{"RoundTrip", "what is exported and imported is the same tree, and exports to the same archive, with modes and times where those can be set", func(e *env) {
		b := e.box()
		names := []string{"from/a", "from/dir/ünï code", "from/dir/.hidden", "from/dir/sub/" + strings.Repeat("long", 40), "from/new\nline", "from/%2e%2e"}
		for i, name := range names {
			w := sandbox.WriteFile(e.deadline(), b.FS(), name, bytes.Repeat([]byte{'a' + byte(i)}, i*511), &sandbox.CreateOptions{Mode: []fs.FileMode{0o644, 0o600, 0o755}[i%3]})
			e.ok(w, "write %q", name)
		}
		b.write("from/large", strings.Repeat("0123456789abcdef", 200_000))
		b.mkdir("from/empty")
		if e.opts.Links {
			b.link("../a", "from/dir/link")
			b.link("/etc/passwd", "from/out")
		}
		attrs, exact := sandbox.As[sandbox.AttrSetter](b.Sandbox)
		if exact {
			for i, name := range append(names, "from/empty", "from/dir/sub", "from/dir") {
				e.ok(attrs.Chmod(e.deadline(), name, fs.FileMode(0o700+i)), "chmod %q", name)
				e.ok(attrs.Chtimes(e.deadline(), name, time.Unix(1_000_000_000+int64(i), 0)), "chtimes %q", name)
			}
		}
		first, out := b.export("from")
		in := b.imports("to", bytes.NewReader(first))
		if out.Skipped != 0 || len(out.Notes) != 0 || in.Entries != out.Entries || in.Bytes != out.Bytes || in.Skipped != 0 || len(in.Notes) != 0 {
			e.fatalf("exported %+v, imported %+v", out, in)
		}
		for i, name := range names {
			b.want("to"+strings.TrimPrefix(name, "from"), strings.Repeat(string('a'+rune(i)), i*511))
		}
		if info, err := b.FS().Stat(e.deadline(), "to/empty"); err != nil || !info.IsDir() {
			e.fatalf("the empty directory is %+v, %v", info, err)
		}
		second, _ := b.export("to")
		e.sameEntries(second, first, exact)
		if exact && !bytes.Equal(first, second) {
			e.fatalf("the archives have the same entries and other bytes")
		}
		other := e.box()
		other.imports(".", bytes.NewReader(first))
		third, _ := other.export(".")
		e.sameEntries(third, first, exact)
	}},
	{"Sorted", "the same tree gives the same entries in the same order, however it came to be", func(e *env) {
		b := e.box()
		names := []string{"b", "a/z", "a/b/c", "a-b", "a.b", "B", "a/b-c"}
		for _, name := range names {
			b.write("one/"+name, name)
		}
		slices.Reverse(names)
		for _, name := range names {
			b.write("other/"+name, name)
		}
		first, _ := b.export("one")
		second, _ := b.export("other")
		e.sameEntries(second, first, false)
		var got []string
		for _, h := range e.unpacked(first, false) {
			got = append(got, h.Name)
		}
		if want := []string{"B", "a/", "a/b/", "a/b/c", "a/b-c", "a/z", "a-b", "a.b", "b"}; !slices.Equal(got, want) {
			e.fatalf("entries %q, want %q", got, want)
		}
	}},
	{"Replaced", "a file of the archive replaces one that is there, with its own mode", func(e *env) {
		b := e.box()
		e.ok(sandbox.WriteFile(e.deadline(), b.FS(), "in/f", []byte("old"), &sandbox.CreateOptions{Mode: 0o600}), "write")
		b.write("in/other", "kept")
		h := packedFile("f", "new")
		h.Mode = 0o6755
		b.imports("in", e.packed(packedFile("f", "between"), h))
		b.want("in/f", "new")
		b.want("in/other", "kept")
		if info, err := b.FS().Stat(e.deadline(), "in/f"); err != nil || info.Mode != 0o755 {
			e.fatalf("its mode is %v, %v", info.Mode, err)
		}
		if names := b.list("in"); !slices.Equal(names, []string{"f", "other"}) {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"GivenUp", "a file whose import is given up in the middle is as it was before, and what was made before that stays", func(e *env) {
		for name, old := range map[string]string{"there": "old", "missing": ""} {
			b := e.box()
			if old != "" {
				b.write("in/b", old)
			}
			enough := errors.New("enough")
			ctx, cancel := context.WithCancelCause(e.deadline())
			report, err := sandbox.ImportTar(ctx, b.Sandbox, "in", e.packed(packedFile("a", "1"), packedFile("b", strings.Repeat("x", 1<<20)), packedFile("c", "3")),
				&sandbox.TarOptions{Progress: func(p sandbox.TarProgress) {
					if p.Path == "b" && p.Bytes > 1000 {
						cancel(enough)
					}
				}})
			cancel(nil)
			e.is(err, name+": import", enough)
			if report.Entries != 1 {
				e.fatalf("%s: made %+v", name, report)
			}
			b.want("in/a", "1")
			want := []string{"a"}
			if old != "" {
				want = append(want, "b")
				b.want("in/b", old)
			}
			if names := b.list("in"); !slices.Equal(names, want) {
				e.fatalf("%s: the directory holds %q", name, names)
			}
		}
	}},
}

var tarLinkChecks = []check{
	{"NotFollowed", "an export has links as links, and nothing of what they lead to", func(e *env) {
		b := e.box()
		b.write("outside/secret", "classified")
		b.write("from/dir/f", "x")
		b.link("../outside", "from/l")
		b.link("../outside/secret", "from/s")
		b.link("nowhere", "from/n")
		data, report := b.export("from")
		if bytes.Contains(data, []byte("classified")) || report.Entries != 5 || report.Bytes != 1 || report.Skipped != 0 {
			e.fatalf("exported %+v", report)
		}
		e.sameEntries(data, e.packed(
			tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o755}, tar.Header{Typeflag: tar.TypeReg, Name: "dir/f", Linkname: "x", Mode: 0o644},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "../outside", Mode: 0o777}, tar.Header{Typeflag: tar.TypeSymlink, Name: "n", Linkname: "nowhere", Mode: 0o777},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "s", Linkname: "../outside/secret", Mode: 0o777},
		).Bytes(), false)
	}},
	{"Through", "nothing is imported through a link, be it of the archive or there before", func(e *env) { // T-96
		b := e.box()
		b.write("outside/kept", "kept")
		b.mkdir("in")
		b.link("../outside", "in/old")
		report := b.imports("in", e.packed(
			packedFile("old/made", "x"), packedLink(b.Workdir()+"/outside", "new"), packedFile("new/kept", "x"), packedFile("new/d/made", "x"), packedLink("x", "old/l"),
			tar.Header{Typeflag: tar.TypeDir, Name: "new/dir/", Mode: 0o755}, tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "new/kept"},
		))
		if report.Skipped != 6 || report.Entries != 1 {
			e.fatalf("imported %+v", report)
		}
		if names := b.list("outside"); !slices.Equal(names, []string{"kept"}) {
			e.fatalf("outside holds %q", names)
		}
		b.want("outside/kept", "kept")
		if names := b.list("in"); !slices.Equal(names, []string{"new", "old"}) {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"InPlace", "a file or directory takes the place of a link, and what that led to stays as it was", func(e *env) { // T-96
		b := e.box()
		b.write("outside/kept", "kept")
		b.link("outside/kept", "first")
		b.imports("in", e.packed(
			packedLink("../outside/kept", "f"), packedFile("f", "x"), packedLink("../outside/unborn", "g"), packedFile("g", "y"),
			packedLink("../outside", "d"), tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755}, packedFile("d/kept", "z"), packedLink("../outside/kept", "l"), packedLink("f", "l"),
		))
		for name, text := range map[string]string{"outside/kept": "kept", "in/f": "x", "in/g": "y", "in/d/kept": "z", "in/l": "x"} {
			b.want(name, text)
		}
		if names := b.list("outside"); !slices.Equal(names, []string{"kept"}) {
			e.fatalf("outside holds %q", names)
		}
	}},
}
