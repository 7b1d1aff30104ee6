package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// tarBox is a sandbox in memory, in which it is always the same time.
func tarBox(t testing.TB) sandbox.Sandbox {
	t.Helper()
	boxes := memory.NewSandboxes(&memory.SandboxOptions{Now: func() time.Time { return time.Unix(1_700_000_000, 123).UTC() }})
	sb, err := boxes.Open(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// archive is one of the entries, each with its content.
func archive(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.text))
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

type entry struct {
	tar.Header
	text string
}

func file(name, text string) entry { return entry{tar.Header{Name: name}, text} }
func dir(name string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""}
}
func symlink(target, name string) entry {
	return entry{tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}, ""}
}
func hardLink(target, name string) entry {
	return entry{tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink}, ""}
}

// tree is what is below a directory: of files the text, of links where they lead, of directories "/".
func tree(t testing.TB, sb sandbox.Sandbox, at string) map[string]string {
	t.Helper()
	all := map[string]string{}
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	var list func(dir string)
	list = func(dir string) {
		for info, err := range sb.FS().ReadDir(context.Background(), path.Join(at, dir)) {
			if err != nil {
				t.Fatal(err)
			}
			name := path.Join(dir, info.Name)
			switch info.Kind {
			case sandbox.KindDir:
				all[name] = "/"
				list(name)
			case sandbox.KindSymlink:
				target, err := links.Readlink(context.Background(), path.Join(at, name))
				if err != nil {
					t.Fatal(err)
				}
				all[name] = "-> " + target
			default:
				text, err := sandbox.ReadFile(context.Background(), sb.FS(), path.Join(at, name))
				if err != nil {
					t.Fatal(err)
				}
				all[name] = string(text)
			}
		}
	}
	list("")
	return all
}

// Each archive, what it leaves in the directory "in", and what the report notes. Beside that is "out", which none may touch: T-96.
func TestImportTar(t *testing.T) {
	long := strings.Repeat("n", 256)
	for name, c := range map[string]struct {
		entries []entry
		want    map[string]string
		notes   []sandbox.TarNote
	}{
		"names that lead out": {
			[]entry{
				file("../out/a", "x"), file("/workspace/out/a", "x"), file("a/../../out/a", "x"), file("a/..", "x"), file("..", "x"), dir("../out/d"),
				file(".", "x"), symlink("x", "../out/l"), hardLink("../out/kept", "h"), hardLink("/workspace/out/kept", "h"), file("fine", "x"),
			},
			map[string]string{"fine": "x"},
			[]sandbox.TarNote{
				{"../out/a", sandbox.TarName}, {"/workspace/out/a", sandbox.TarName}, {"a/../../out/a", sandbox.TarName}, {"a/..", sandbox.TarName},
				{"..", sandbox.TarName}, {"../out/d", sandbox.TarName}, {".", sandbox.TarName}, {"../out/l", sandbox.TarName},
				{"h", sandbox.TarNoTarget}, {"h", sandbox.TarNoTarget},
			},
		},
		"names that are cleaned": {
			[]entry{dir("./"), file("./a", "1"), file("b//c/.", "2"), dir("d/./e/")},
			map[string]string{"a": "1", "b": "/", "b/c": "2", "d": "/", "d/e": "/"}, nil,
		},
		"names that nothing decodes": {
			[]entry{file("%2e%2e/a", "x"), file(`..\a`, "x"), file("...", "x"), file("a\nb", "x")},
			map[string]string{"%2e%2e": "/", "%2e%2e/a": "x", `..\a`: "x", "...": "x", "a\nb": "x"}, nil,
		},
		"names that are too long": {
			[]entry{file(long, "x"), file("a/"+long+"/b", "x"), file(strings.Repeat("d/", 255)+"f", "x"), file("ok", "x")},
			map[string]string{"ok": "x"},
			[]sandbox.TarNote{{long, sandbox.TarName}, {"a/" + long + "/b", sandbox.TarName}, {strings.Repeat("d/", 255) + "f", sandbox.TarName}},
		},
		"a link first and a file through it": {
			[]entry{symlink("../out", "l"), file("l/a", "x"), file("l/d/a", "x"), dir("l/d"), symlink("x", "l/m"), file("h", "y"), hardLink("h", "l/h"), hardLink("l/kept", "k")},
			map[string]string{"l": "-> ../out", "h": "y"},
			[]sandbox.TarNote{
				{"l/a", sandbox.TarThrough}, {"l/d/a", sandbox.TarThrough}, {"l/d", sandbox.TarThrough}, {"l/m", sandbox.TarThrough},
				{"l/h", sandbox.TarThrough}, {"k", sandbox.TarNoTarget},
			},
		},
		"a link first and a file in its place": {
			[]entry{symlink("../out/kept", "l"), file("l", "x"), symlink("../out/new", "m"), file("m", "y")},
			map[string]string{"l": "x", "m": "y"}, nil,
		},
		"a link first and a directory in its place": {
			[]entry{symlink("../out", "l"), dir("l"), file("l/a", "x")},
			map[string]string{"l": "/", "l/a": "x"}, nil,
		},
		"a chain of links": {
			[]entry{dir("d"), symlink("d", "l"), symlink("l/../../out", "m"), file("m/a", "x"), hardLink("l", "h"), hardLink("m/kept", "h")},
			map[string]string{"d": "/", "l": "-> d", "m": "-> l/../../out"},
			[]sandbox.TarNote{{"m/a", sandbox.TarThrough}, {"h", sandbox.TarNoTarget}, {"h", sandbox.TarNoTarget}},
		},
		"the later of two": {
			[]entry{file("f", "old"), file("f", "new"), dir("d"), dir("d"), symlink("a", "l"), symlink("b", "l"), file("x", "x"), symlink("f", "x"), file("y", "y"), dir("y")},
			map[string]string{"f": "new", "d": "/", "l": "-> b", "x": "-> f", "y": "/"}, nil,
		},
		"a directory is in the way": {
			[]entry{file("d/f", "x"), file("d", "y"), symlink("d/f", "d"), file("g", "z"), hardLink("g", "d")},
			map[string]string{"d": "/", "d/f": "x", "g": "z"},
			[]sandbox.TarNote{{"d", sandbox.TarInTheWay}, {"d", sandbox.TarInTheWay}, {"d", sandbox.TarInTheWay}},
		},
		"a file is in the way": {
			[]entry{file("f", "x"), file("f/g", "y"), file("f/g/h", "y")},
			map[string]string{"f": "x"},
			[]sandbox.TarNote{{"f/g", sandbox.TarThrough}, {"f/g/h", sandbox.TarThrough}},
		},
		"hard links": {
			[]entry{file("d/f", "x"), hardLink("d/f", "g"), hardLink("./d/f", "d/f"), hardLink("later", "h"), file("later", "y"), hardLink("d", "h"), hardLink("d/f", "g")},
			map[string]string{"d": "/", "d/f": "x", "g": "x", "later": "y"},
			[]sandbox.TarNote{{"h", sandbox.TarNoTarget}, {"h", sandbox.TarNoTarget}},
		},
		"devices": {
			[]entry{
				{tar.Header{Name: "c", Typeflag: tar.TypeChar}, ""}, {tar.Header{Name: "b", Typeflag: tar.TypeBlock}, ""}, {tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""},
				{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}, ""}, file("f", "x"),
			},
			map[string]string{"f": "x"},
			[]sandbox.TarNote{{"c", sandbox.TarKind}, {"b", sandbox.TarKind}, {"p", sandbox.TarKind}},
		},
		"links to what is no text": {
			[]entry{symlink("a\xff", "l"), symlink("", "m"), symlink(strings.Repeat("x", 5000), "n"), symlink("/etc/passwd", "o")},
			map[string]string{"o": "-> /etc/passwd"},
			[]sandbox.TarNote{{"l", sandbox.TarName}, {"m", sandbox.TarName}, {"n", sandbox.TarName}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sb := tarBox(t)
			for _, name := range []string{"out/kept", "in-sibling"} {
				if err := sandbox.WriteFile(t.Context(), sb.FS(), name, []byte("kept"), nil); err != nil {
					t.Fatal(err)
				}
			}
			report, err := sandbox.ImportTar(t.Context(), sb, "in", archive(t, c.entries...), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, tree(t, sb, "in")); diff != "" {
				t.Errorf("made (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.notes, report.Notes); diff != "" {
				t.Errorf("notes (-want +got)\n%s", diff)
			}
			if report.Skipped != int64(len(c.notes)) {
				t.Errorf("skipped %d", report.Skipped)
			}
			outside := tree(t, sb, ".")
			maps.DeleteFunc(outside, func(name, _ string) bool { return name == "in" || strings.HasPrefix(name, "in/") })
			if diff := cmp.Diff(map[string]string{"out": "/", "out/kept": "kept", "in-sibling": "kept"}, outside); diff != "" {
				t.Errorf("outside (-want +got)\n%s", diff)
			}
		})
	}
}

// What was in the directory before is no way out of it either.
func TestImportTarThroughOldLinks(t *testing.T) {
	sb := tarBox(t)
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	for _, name := range []string{"out/kept", "in/f"} {
		if err := sandbox.WriteFile(t.Context(), sb.FS(), name, []byte("kept"), nil); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"in/d": "../out", "in/l": "../out/kept", "in/n": "../out/new"} {
		if err := links.Symlink(t.Context(), target, link); err != nil {
			t.Fatal(err)
		}
	}
	report, err := sandbox.ImportTar(t.Context(), sb, "in", archive(t, file("d/a", "x"), file("l", "x"), file("n", "x"), file("f", "x")), nil)
	if err != nil || report.Entries != 3 || report.Skipped != 1 {
		t.Errorf("report %+v, %v", report, err)
	}
	want := map[string]string{"in": "/", "in/d": "-> ../out", "in/l": "x", "in/n": "x", "in/f": "x", "out": "/", "out/kept": "kept"}
	if diff := cmp.Diff(want, tree(t, sb, ".")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Bits that give rights are dropped, and what has no rights does not get the usual ones.
func TestImportTarModes(t *testing.T) {
	sb := tarBox(t)
	var all []entry
	for _, mode := range []int64{0o644, 0o755, 0o7755, 0o4711, 0o2600, 0o1777} {
		e := file(fmt.Sprintf("%o", mode), "")
		e.Mode = mode
		all = append(all, e)
	}
	if _, err := sandbox.ImportTar(t.Context(), sb, ".", archive(t, all...), nil); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if info, err := sb.FS().Stat(t.Context(), e.Name); err != nil || info.Mode != fs.FileMode(e.Mode)&fs.ModePerm {
			t.Errorf("%s: %v, %v", e.Name, info.Mode, err)
		}
	}
}

// Limits: the report says what was made until then, and the error which limit it was.
func TestTarLimits(t *testing.T) {
	for name, c := range map[string]struct {
		opts    sandbox.TarOptions
		entries []entry
		limit   string
		made    int64
	}{
		"entries":             {sandbox.TarOptions{MaxEntries: 2}, []entry{file("a", ""), dir("b"), file("c", "")}, "MaxEntries", 2},
		"entries left out":    {sandbox.TarOptions{MaxEntries: 2}, []entry{file("../a", ""), file("../b", ""), file("c", "")}, "MaxEntries", 0},
		"directories implied": {sandbox.TarOptions{MaxEntries: 5}, []entry{file("a/b/c/d/e/f", "")}, "MaxEntries", 0},
		"bytes":               {sandbox.TarOptions{MaxBytes: 5}, []entry{file("a", "123"), file("b", "45"), file("c", "6")}, "MaxBytes", 2},
		"bytes of hard links": {sandbox.TarOptions{MaxBytes: 8}, []entry{file("a", "123"), hardLink("a", "b"), hardLink("a", "c")}, "MaxBytes", 2},
	} {
		sb := tarBox(t)
		report, err := sandbox.ImportTar(t.Context(), sb, ".", archive(t, c.entries...), &c.opts)
		var limit *sandbox.TarLimitError
		if !errors.As(err, &limit) || limit.Limit != c.limit || report.Entries != c.made {
			t.Errorf("%s: %v, made %d", name, err, report.Entries)
		}
		if status, code, _ := limit.Problem(); status != 413 || code != "archive_too_large" {
			t.Errorf("%s: a client is told %d %s", name, status, code)
		}
	}
	sb := tarBox(t)
	if _, err := sandbox.ImportTar(t.Context(), sb, ".", archive(t, file("a", "123"), dir("b")), &sandbox.TarOptions{MaxEntries: 2, MaxBytes: 3}); err != nil {
		t.Errorf("as much as there may be: %v", err)
	}
	for _, opts := range []sandbox.TarOptions{{MaxEntries: 1}, {MaxBytes: 2}} {
		_, err := sandbox.ExportTar(t.Context(), sb, ".", io.Discard, &opts)
		if limit := (*sandbox.TarLimitError)(nil); !errors.As(err, &limit) {
			t.Errorf("export with %+v: %v", opts, err)
		}
	}
	for _, opts := range []sandbox.TarOptions{{MaxEntries: -1}, {MaxBytes: -1}} {
		_, err := sandbox.ImportTar(t.Context(), sb, ".", archive(t), &opts)
		if !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("import with %+v: %v", opts, err)
		}
	}
}

// block is the header of an entry, as it stands in an archive.
func block(kind byte, name string, size int) string {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x0000000000000\x00        %c", size, kind))
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return string(b)
}

// extended is an entry of which the records say more than its header.
func extended(records ...string) string {
	text := ""
	for _, r := range records {
		n := len(r) + 2
		for n != len(fmt.Sprint(n))+len(r)+2 {
			n = len(fmt.Sprint(n)) + len(r) + 2
		}
		text += fmt.Sprintf("%d %s\n", n, r)
	}
	return block('x', "x", len(text)) + text + strings.Repeat("\x00", 512-len(text)%512) + block('0', "f", 0) + strings.Repeat("\x00", 1024)
}

// An archive that says it holds more than it does writes nothing, however it says so.
func TestImportTarClaims(t *testing.T) {
	const huge = "9000000000000000000"
	for name, data := range map[string]string{
		"a size":            extended("size=" + huge),
		"holes":             extended("GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.size="+huge, "GNU.sparse.numblocks=0", "GNU.sparse.map="),
		"a size of a block": block('0', "f", 1<<32+1),
	} {
		sb := tarBox(t)
		report, err := sandbox.ImportTar(t.Context(), sb, ".", strings.NewReader(data), nil)
		if limit := (*sandbox.TarLimitError)(nil); !errors.As(err, &limit) || limit.Limit != "MaxBytes" || report.Bytes != 0 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	for name, data := range map[string]string{
		"a size below nothing": extended("size=-1"),
		"records without end":  block('x', "x", 1<<30),
	} {
		if _, err := sandbox.ImportTar(t.Context(), tarBox(t), ".", strings.NewReader(data), nil); !errors.Is(err, sandbox.ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Wherever an archive is cut, that is an error, and whole entries before it are there.
func TestImportTarCut(t *testing.T) {
	whole := archive(t, file("a", strings.Repeat("x", 700)), dir("d"), file("d/b", "y"), symlink("a", "l")).Bytes()
	for _, cut := range []int{0, 1, 511, 512, 700, 1024, 1535, 1536, 2048, 2100, 2560, 3072, 3073, 3584, 3585, len(whole) - 512} {
		sb := tarBox(t)
		report, err := sandbox.ImportTar(t.Context(), sb, "in", bytes.NewReader(whole[:cut]), nil)
		if !errors.Is(err, sandbox.ErrArchive) || !strings.Contains(err.Error(), fmt.Sprintf("after %d entries", report.Entries)) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		if made := int64(len(tree(t, sb, "in"))); made != report.Entries {
			t.Errorf("cut at %d: made %d, reported %d", cut, made, report.Entries)
		}
	}
	for name, r := range map[string]io.Reader{
		"whole":        bytes.NewReader(whole),
		"padded":       io.MultiReader(bytes.NewReader(whole), strings.NewReader(strings.Repeat("\x00", 8000))),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(whole)),
		"end with it":  iotest.DataErrReader(bytes.NewReader(whole)),
	} {
		if report, err := sandbox.ImportTar(t.Context(), tarBox(t), "in", r, nil); err != nil || report.Entries != 4 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	broken := errors.New("the line is dead")
	_, err := sandbox.ImportTar(t.Context(), tarBox(t), "in", io.MultiReader(bytes.NewReader(whole[:600]), iotest.ErrReader(broken)), nil)
	if !errors.Is(err, broken) || errors.Is(err, sandbox.ErrArchive) {
		t.Errorf("an input that fails: %v", err)
	}
	if _, err := sandbox.ImportTar(t.Context(), tarBox(t), "in", strings.NewReader(strings.Repeat("no archive", 100)), nil); !errors.Is(err, sandbox.ErrArchive) {
		t.Errorf("no archive: %v", err)
	}
}

// A caller who has enough ends it between two files and within one, and hears its own reason.
func TestTarGivenUp(t *testing.T) {
	enough := errors.New("enough")
	all := archive(t, file("a", "1"), file("b", strings.Repeat("x", 1<<20)), file("c", "3")).Bytes()
	for _, after := range []struct {
		path  string
		bytes int64
	}{{"a", 0}, {"b", 0}, {"b", 200 << 10}} {
		sb := tarBox(t)
		given := func(do func(context.Context, *sandbox.TarOptions) (sandbox.TarReport, error)) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			report, err := do(ctx, &sandbox.TarOptions{Progress: func(p sandbox.TarProgress) {
				if p.Path == after.path && p.Bytes >= after.bytes {
					cancel(enough)
				}
			}})
			if !errors.Is(err, enough) || report.Bytes >= 1<<20 {
				t.Errorf("at %+v: %+v, %v", after, report, err)
			}
		}
		given(func(ctx context.Context, o *sandbox.TarOptions) (sandbox.TarReport, error) {
			return sandbox.ImportTar(ctx, sb, ".", bytes.NewReader(all), o)
		})
		if _, err := sb.FS().Stat(t.Context(), "b"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("at %+v: half a file is there (%v)", after, err)
		}
		if _, err := sandbox.ImportTar(t.Context(), sb, ".", bytes.NewReader(all), nil); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		given(func(ctx context.Context, o *sandbox.TarOptions) (sandbox.TarReport, error) {
			return sandbox.ExportTar(ctx, sb, ".", &out, o)
		})
		if _, err := sandbox.ImportTar(t.Context(), tarBox(t), ".", &out, nil); !errors.Is(err, sandbox.ErrArchive) {
			t.Errorf("what was given up at %+v passes for an archive: %v", after, err)
		}
	}
}

// archiveOf is an archive of small files with these names.
func archiveOf(names ...string) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return &b
}
