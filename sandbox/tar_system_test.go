//go:build unix

package sandbox_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// tarProgram runs the system's tar, or ends the test where there is none that is GNU's.
func tarProgram(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	if said, err := exec.Command("tar", "--version").Output(); err != nil || !bytes.Contains(said, []byte("GNU tar")) {
		need.Missing(t, need.Tar, "there is no GNU tar on PATH")
	}
	cmd := exec.Command("tar", args...)
	cmd.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("tar %q: %v: %s", args, err, &errs)
	}
	return out
}

// hostTree is what tree is, of a directory of this host.
func hostTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, at)
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			all[name] = "/"
			return nil
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(at)
			all[name] = "-> " + target
			return err
		}
		text, err := os.ReadFile(at)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What the system's tar makes of a directory is imported, in every format it has.
func TestImportFromTar(t *testing.T) {
	host := t.TempDir()
	deep := "dir/" + strings.Repeat("deep/", 12) + strings.Repeat("n", 90)
	for name, text := range map[string]string{"dir/file": "x", "dir/ünï": "y", deep: "z", "empty": "", "big": strings.Repeat("0123456789", 30_000)} {
		at := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	holes, err := os.Create(filepath.Join(host, "holes"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = holes.WriteAt([]byte("end"), 1<<20)
	for _, e := range []error{
		err, holes.Close(), os.Symlink("../dir/file", filepath.Join(host, "dir/link")),
		os.Link(filepath.Join(host, "dir/file"), filepath.Join(host, "hard")), os.Chmod(filepath.Join(host, "empty"), 0o4755),
	} {
		if e != nil {
			t.Fatal(e)
		}
	}
	want := hostTree(t, host)
	if err := syscall.Mkfifo(filepath.Join(host, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--format=gnu"}, {"--format=posix"}, {"--format=posix", "--sparse"}, {"--format=gnu", "--sparse"}} {
		data := tarProgram(t, nil, append(args, "-C", host, "-cf", "-", ".")...)
		sb := tarBox(t)
		report, err := sandbox.ImportTar(t.Context(), sb, "in", bytes.NewReader(data), nil)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		if diff := cmp.Diff(want, tree(t, sb, "in")); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", args, diff)
		}
		if diff := cmp.Diff([]sandbox.TarNote{{Path: "pipe", Reason: sandbox.TarKind}}, report.Notes); diff != "" {
			t.Errorf("%q: notes (-want +got)\n%s", args, diff)
		}
		if info, err := sb.FS().Stat(t.Context(), "in/empty"); err != nil || info.Mode != 0o755 {
			t.Errorf("%q: mode %v, %v", args, info.Mode, err)
		}
	}
}

// What is exported the system's tar takes as it is.
func TestExportToTar(t *testing.T) {
	sb := tarBox(t)
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	deep := "dir/" + strings.Repeat("deep/", 12) + strings.Repeat("n", 90)
	for name, text := range map[string]string{"dir/file": "x", "dir/ünï": "y", deep: "z", "empty": "", "big": strings.Repeat("0123456789", 30_000), "a\nb": "n"} {
		if err := sandbox.WriteFile(t.Context(), sb.FS(), name, []byte(text), &sandbox.CreateOptions{Mode: 0o640}); err != nil {
			t.Fatal(err)
		}
	}
	if err := links.Symlink(t.Context(), strings.Repeat("../", 50)+"x", "dir/link"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := sandbox.ExportTar(t.Context(), sb, ".", &out, nil); err != nil {
		t.Fatal(err)
	}
	host := t.TempDir()
	tarProgram(t, out.Bytes(), "-C", host, "-xpf", "-")
	if diff := cmp.Diff(tree(t, sb, "."), hostTree(t, host)); diff != "" {
		t.Errorf("(-sandbox +host)\n%s", diff)
	}
	was, err := sb.FS().Stat(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(host, "big"))
	if err != nil || info.Mode() != 0o640 || !info.ModTime().Equal(was.ModTime) {
		t.Errorf("big: %v, %v, want %v, %v (%v)", info.Mode(), info.ModTime(), was.Mode, was.ModTime, err)
	}
}
