package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/sandbox"
)

// changing is an FS whose files are not as long as they claim.
type changing struct {
	sandbox.Sandbox
	by int64
}

type changingFS struct {
	sandbox.FS
	by int64
}

func (c changing) FS() sandbox.FS { return changingFS{c.Sandbox.FS(), c.by} }

func (f changingFS) Lstat(ctx context.Context, name string) (sandbox.FileInfo, error) {
	info, err := f.FS.Lstat(ctx, name)
	if info.Kind == sandbox.KindFile {
		info.Size += f.by
	}
	return info, err
}

// A file that shrinks or grows as it is read leaves the archive sound, and is told.
func TestExportTarChanging(t *testing.T) {
	sb := tarBox(t)
	for _, name := range []string{"a", "b"} {
		if err := sandbox.WriteFile(t.Context(), sb.FS(), name, []byte("text"), nil); err != nil {
			t.Fatal(err)
		}
	}
	for by, want := range map[int64]string{3: "text\x00\x00\x00", -2: "te", 0: "text"} {
		var out bytes.Buffer
		report, err := sandbox.ExportTar(t.Context(), changing{sb, by}, ".", &out, nil)
		var notes []sandbox.TarNote
		if by != 0 {
			notes = []sandbox.TarNote{{"a", sandbox.TarChanged}, {"b", sandbox.TarChanged}}
		}
		if diff := cmp.Diff(notes, report.Notes); err != nil || report.Entries != 2 || report.Skipped != 0 || diff != "" {
			t.Errorf("by %d: %+v, %v", by, report, err)
		}
		to := tarBox(t)
		if _, err := sandbox.ImportTar(t.Context(), to, ".", &out, nil); err != nil {
			t.Errorf("by %d: %v", by, err)
		}
		if diff := cmp.Diff(map[string]string{"a": want, "b": want}, tree(t, to, ".")); diff != "" {
			t.Errorf("by %d (-want +got)\n%s", by, diff)
		}
	}
}

// One file is an archive of one entry, and without links there are none.
func TestExportTarFew(t *testing.T) {
	sb := tarBox(t)
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "d/f", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	if err := links.Symlink(t.Context(), "f", "d/l"); err != nil {
		t.Fatal(err)
	}
	bare := struct{ sandbox.Sandbox }{sb}
	for _, c := range []struct {
		path string
		want []string
		note []sandbox.TarNote
	}{
		{"d/f", []string{"f"}, nil},
		{"d/l", []string{"l"}, nil},
		{".", []string{"d/", "d/f"}, []sandbox.TarNote{{"d/l", sandbox.TarNoLinks}}},
		{"d", []string{"f"}, []sandbox.TarNote{{"l", sandbox.TarNoLinks}}},
	} {
		var out bytes.Buffer
		report, err := sandbox.ExportTar(t.Context(), bare, c.path, &out, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		r := tar.NewReader(&out)
		for h, err := r.Next(); err == nil; h, err = r.Next() {
			names = append(names, h.Name)
		}
		if diff := cmp.Diff(c.note, report.Notes); !slices.Equal(names, c.want) || diff != "" {
			t.Errorf("%s: %q, %+v", c.path, names, report)
		}
	}
	if _, err := sandbox.ExportTar(t.Context(), sb, "none", io.Discard, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	report, err := sandbox.ImportTar(t.Context(), bare, "in", archive(t, symlink("x", "l")), nil)
	if diff := cmp.Diff([]sandbox.TarNote{{"l", sandbox.TarNoLinks}}, report.Notes); err != nil || diff != "" {
		t.Errorf("import of links: %+v, %v", report, err)
	}
}

// What lies so deep that no import would take it is left out, and told, so that to export has an end.
func TestExportTarDeep(t *testing.T) {
	sb := tarBox(t)
	const deep = 255
	for _, name := range []string{strings.Repeat("d/", deep-1) + "file", strings.Repeat("d/", deep) + "file", strings.Repeat(strings.Repeat("x", 250)+"/", 20) + "file"} {
		if err := sandbox.WriteFile(t.Context(), sb.FS(), name, []byte("text"), nil); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	report, err := sandbox.ExportTar(t.Context(), sb, ".", &out, nil)
	if err != nil || report.Skipped != 2 || len(report.Notes) != 2 || report.Notes[0].Reason != sandbox.TarName || report.Notes[1].Reason != sandbox.TarName {
		t.Errorf("%+v, %v", report, err)
	}
	again, err := sandbox.ImportTar(t.Context(), tarBox(t), ".", &out, nil)
	if err != nil || again.Skipped != 0 || again.Entries != report.Entries {
		t.Errorf("%d entries, %d of them left out, %v; exported were %d", again.Entries, again.Skipped, err, report.Entries)
	}
}
