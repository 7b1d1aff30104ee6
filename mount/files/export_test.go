package files

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
)

// unzip returns the names and contents of an archive.
func unzip(t *testing.T, data []byte) (names []string, contents map[string]string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	contents = map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Name)
		contents[f.Name] = string(text)
		if f.Mode() != 0o644 {
			t.Errorf("%s has the mode %v", f.Name, f.Mode())
		}
	}
	return names, contents
}

func zipped(t *testing.T, opts *ExportOptions, sources ...Source) ([]byte, Exported) {
	t.Helper()
	a, err := Export(t.Context(), sources, opts)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	done, err := a.WriteZip(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), done
}

// mounts trap 22: the object that stands for the link does not shadow the folder.
func TestExportMergesFolders(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		cwd := workingDir(t, f)
		agent, err := f.Folder(otherRow())
		if err != nil {
			t.Fatal(err)
		}
		raw(t, cwd, "agent-files", "")
		fill(t, cwd, "main.go", "sub/agent-files", "empty/")
		fill(t, agent, "notes.md", "deep/er/x")
		data, done := zipped(t, nil, Source{Folder: cwd}, Source{Folder: agent, Prefix: "agent-files"})
		names, contents := unzip(t, data)
		same(t, "names", names, []string{"main.go", "sub/agent-files", "agent-files/deep/er/x", "agent-files/notes.md"})
		if contents["agent-files/deep/er/x"] != "content of deep/er/x" || done.Files != 4 || len(done.Skipped) != 0 {
			t.Errorf("%v, %+v", contents, done)
		}
		data, _ = zipped(t, nil, Source{Folder: agent, Path: "deep/er"}, Source{Folder: cwd, Path: "main.go", Prefix: "src"})
		names, _ = unzip(t, data)
		same(t, "names of parts", names, []string{"er/x", "src/main.go"})
	})
}

// mounts traps 22 and 23, and the rules of names.
func TestPlanZip(t *testing.T) {
	for _, c := range []struct {
		rule      string
		all, want []string
		skipped   string
		reason    SkipReason
	}{
		{"names are kept as they are", []string{"a", "b/c", "é", `x\y`}, []string{"a", "b/c", "é", `x\y`}, "", ""},
		{"a backslash leads nowhere", []string{`..\evil`, "a"}, []string{"a"}, `..\evil`, SkipUnsafe},
		{"nor mixed with slashes", []string{`a/..\..\evil`}, nil, `a/..\..\evil`, SkipUnsafe},
		{"nor at the start", []string{`\evil`}, nil, `\evil`, SkipUnsafe},
		{"an empty segment is skipped", []string{`a\\b`}, nil, `a\\b`, SkipUnsafe},
		{"a dot is skipped", []string{`.\b`}, nil, `.\b`, SkipUnsafe},
		{"directories win over files", []string{"a", "a/b"}, []string{"a/b"}, "a", SkipDirectory},
		{"whatever comes first", []string{"a/b", "a"}, []string{"a/b"}, "a", SkipDirectory},
		{"the first of two stays", []string{"a/b", "a/b"}, []string{"a/b"}, "a/b", SkipDuplicate},
		{"also where they differ by their separators", []string{"a/b", `a\b`}, []string{"a/b"}, `a\b`, SkipDuplicate},
		{"what is skipped implies no directory", []string{"a", "a/../b"}, []string{"a"}, "a/../b", SkipUnsafe},
	} {
		got, skipped := planZip(c.all, func(s string) string { return s })
		same(t, c.rule, got, c.want)
		if c.reason == "" && len(skipped) > 0 || c.reason != "" && (len(skipped) != 1 || skipped[0] != Skip{c.skipped, c.reason}) {
			t.Errorf("%s: skipped %v", c.rule, skipped)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.StringMatching(`[ab.]{0,2}([/\\][ab.]{0,2}){0,3}`), 0, 12).Draw(t, "names")
		got, skipped := planZip(all, func(s string) string { return s })
		if len(got)+len(skipped) != len(all) {
			t.Fatalf("%d and %d of %d", len(got), len(skipped), len(all))
		}
		for i, a := range got {
			if !safe(strings.ReplaceAll(a, `\`, "/")) {
				t.Fatalf("%q is not safe", a)
			}
			for j, b := range got {
				if i != j && within(strings.ReplaceAll(b, `\`, "/"), strings.ReplaceAll(a, `\`, "/")) {
					t.Fatalf("%q is in the way of %q", a, b)
				}
			}
		}
	})
}

// mounts trap 21: any time can be written, and the archive is whole.
func TestZipTimes(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	times := []time.Time{{}, time.Unix(0, 0), time.UnixMilli(1_700_000_000_123), time.Unix(1_700_000_000_123, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i, at := range times {
		fill(t, d, fmt.Sprint(i))
		key := d.key(fmt.Sprint(i))
		o := s.objs[key]
		o.mod = at
		s.objs[key] = o
	}
	data, _ := zipped(t, nil, Source{Folder: d})
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(z.File) != len(times) {
		t.Fatalf("%v files, %v", z, err)
	}
	for i, year := range []int{1980, 1980, 2023, 2106, 2106} {
		if got := z.File[i].Modified.UTC().Year(); got != year {
			t.Errorf("%v is written as the year %d, want %d", times[i], got, year)
		}
	}
}

// mounts trap 20: everything that can be refused is, before the first byte.
func TestExportResolvesFirst(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket(), MaxScan: 3})
	fill(t, d, "a", "big/1", "big/2", "big/3", "big/4")
	for _, c := range []struct {
		rule    string
		sources []Source
		opts    *ExportOptions
		ok      func(error) bool
	}{
		{"a path that is not there", []Source{{Folder: d, Path: "a"}, {Folder: d, Path: "none"}}, nil, func(err error) bool { return errors.Is(err, ErrNotFound) }},
		{"a path that can't be", []Source{{Folder: d, Path: "../a"}}, nil, is[*PathError]},
		{"a prefix that can't be", []Source{{Folder: d, Path: "a", Prefix: "x/../.."}}, nil, is[*PathError]},
		{"too many files", []Source{{Folder: d, Path: "big"}}, nil, is[*TooLargeError]},
		{"too many bytes", []Source{{Folder: d, Path: "a"}}, &ExportOptions{MaxBytes: 1}, is[*TooLargeError]},
		{"no folder", []Source{{}}, nil, is[*access.FieldError]},
	} {
		if a, err := Export(t.Context(), c.sources, c.opts); !c.ok(err) || a != nil {
			t.Errorf("%s: %v, %v", c.rule, a, err)
		}
	}
	empty := open(t, Config{Bucket: newStore().bucket()})
	if a, err := Export(t.Context(), []Source{{Folder: empty}}, nil); err != nil || a.Files != 0 {
		t.Errorf("a folder with nothing in it: %v, %v", a, err)
	}
}

func TestExportInAView(t *testing.T) {
	d := open(t, Config{Bucket: newStore().bucket()})
	raw(t, d, ".gitignore", "*.log")
	fill(t, d, "a", "b.log", ".git/HEAD")
	data, _ := zipped(t, &ExportOptions{View: ViewGit}, Source{Folder: d})
	names, _ := unzip(t, data)
	same(t, "names", names, []string{".gitignore", "a"})
}

// What changes after the archive was resolved is taken as it then is.
func TestExportOfWhatChanges(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	fill(t, d, "a", "b", "c")
	a, err := Export(t.Context(), []Source{{Folder: d}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw(t, d, "a", strings.Repeat("longer than it was listed", 100_000))
	delete(s.objs, d.key("b"))
	var b bytes.Buffer
	done, err := a.WriteZip(t.Context(), &b)
	if err != nil || len(done.Skipped) != 1 || done.Skipped[0] != (Skip{"b", SkipVanished}) || done.Files != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	names, contents := unzip(t, b.Bytes())
	same(t, "names", names, []string{"a", "c"})
	if len(contents["a"]) != 2_500_000 || done.Bytes != int64(2_500_000+len(contents["c"])) {
		t.Errorf("%d bytes of a, %d in all", len(contents["a"]), done.Bytes)
	}
}

// An archive that could not be finished has no end, and no reader stays open.
func TestAnArchiveThatFailsIsNotWhole(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	for i := range 200 {
		fill(t, d, fmt.Sprintf("%03d", i))
	}
	a, err := Export(t.Context(), []Source{{Folder: d}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hangsUp := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	refuses := writerFunc(func(p []byte) (int, error) { return 0, errBroke })
	for rule, write := range map[string]func(b *bytes.Buffer) error{
		"the storage fails": func(b *bytes.Buffer) error {
			s.fail = func(op, key string) error {
				if op == "read" && strings.HasSuffix(key, "100") {
					return errBroke
				}
				return nil
			}
			defer func() { s.fail = nil }()
			_, err := a.WriteZip(t.Context(), b)
			return err
		},
		"the client refuses":  func(b *bytes.Buffer) error { _, err := a.WriteZip(t.Context(), io.MultiWriter(b, refuses)); return err },
		"the client hangs up": func(b *bytes.Buffer) error { _, err := a.WriteZip(ctx, io.MultiWriter(b, hangsUp)); return err },
	} {
		var b bytes.Buffer
		if err := write(&b); err == nil {
			t.Errorf("%s: no error", rule)
		}
		if _, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil {
			t.Errorf("%s: the archive looks whole", rule)
		}
		if n := s.open.Load(); n != 0 {
			t.Errorf("%s: %d readers are open", rule, n)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestAtMostEightAreReadAhead(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	for i := range 100 {
		raw(t, d, fmt.Sprintf("%03d", i), strings.Repeat("x", aheadBytes+100))
	}
	a, err := Export(t.Context(), []Source{{Folder: d}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The first byte is written when as many as may be are being read.
	done, err := a.WriteZip(t.Context(), io.Discard)
	if err != nil || done.Files != 100 || done.Bytes != 100*(aheadBytes+100) {
		t.Errorf("%+v, %v", done, err)
	}
	if n := s.max.Load(); n > readAhead || n < 2 {
		t.Errorf("%d were read at once", n)
	}
}
