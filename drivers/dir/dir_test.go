package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
)

const mountID mount.ID = "0192f0c1-2ab4-7cde-8f01-23456789abcd"

func spec() mount.Spec {
	return mount.Spec{Row: mount.Row{ID: mountID, Scope: "project:p"}}
}

func open(t *testing.T, root string) *Mounter {
	t.Helper()
	m, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// readOnly returns a directory in which this user can make nothing.
func readOnly(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		need.Missing(t, need.Proc, "a directory in which even root can make nothing: "+err.Error())
	}
	return "/proc/self"
}

func TestNewRefusesBadRootsByField(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rule, root string }{
		{"an empty root is refused", ""},
		{"the file system's own root is refused", "/"},
		{"so is another spelling of it", "/../."},
		{"a file in the way is refused", file},
		{"a file in the way above is refused", filepath.Join(file, "below")},
		{"a root that can't be written to is refused", readOnly(t)},
		{"a root that can't be made is refused", filepath.Join(readOnly(t), "below")},
	} {
		m, err := New(c.root)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "root" || m != nil {
			t.Errorf("%s: New(%q) = %v, %v", c.rule, c.root, m, err)
		} else if c.root != "" && c.root != "/" && strings.Contains(e.Rule, c.root) {
			t.Errorf("%s: the rule tells the path: %s", c.rule, e.Rule)
		}
	}
}

func TestNewLeavesNothingInTheRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "made", "as needed")
	open(t, root)
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 0 {
		t.Errorf("a new root holds %v, %v", entries, err)
	}
}

// A folder survives the mounter that made it, and nobody else's user can look inside.
func TestFoldersOutliveTheMounter(t *testing.T) {
	root := t.TempDir()
	first, err := open(t, root).Mount(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(root, "project%3ap", string(mountID))
	if first.HostDir() != want {
		t.Errorf("HostDir = %s, want %s", first.HostDir(), want)
	}
	for _, dir := range []string{want, filepath.Dir(want)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, %v; want 0700", dir, info.Mode(), err)
		}
	}
	note := filepath.Join(first.HostDir(), "note")
	if err := os.WriteFile(note, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := open(t, root).Mount(t.Context(), spec())
	if err != nil || second.HostDir() != want {
		t.Fatalf("a second mounter: %v, %v", second, err)
	}
	if got, err := os.ReadFile(note); err != nil || string(got) != "kept" {
		t.Errorf("the note reads %q, %v", got, err)
	}
}

// A storage that is not as it was left is said to be unavailable; an empty
// folder in its place would look like a loss.
func TestUnusableStorageIsUnavailable(t *testing.T) {
	for _, c := range []struct {
		rule  string
		spoil func(root string) error
	}{
		{"the root has vanished and is not made again", os.Remove},
		{"a file stands where the folder was", func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, "project%3ap"), 0o700),
				os.WriteFile(filepath.Join(root, "project%3ap", string(mountID)), nil, 0o600))
		}},
		{"a link leads out of the root", func(root string) error {
			return os.Symlink(os.TempDir(), filepath.Join(root, "project%3ap"))
		}},
		{"a link stands where the folder was", func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, "project%3ap"), 0o700),
				os.Mkdir(filepath.Join(root, "elsewhere"), 0o700),
				os.Symlink("../elsewhere", filepath.Join(root, "project%3ap", string(mountID))))
		}},
	} {
		root := filepath.Join(t.TempDir(), "root")
		m := open(t, root)
		if err := c.spoil(root); err != nil {
			t.Fatal(err)
		}
		got, err := m.Mount(t.Context(), spec())
		if got != nil || !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), string(mountID)) {
			t.Errorf("%s: Mount = %v, %v; want ErrUnavailable that names the mount", c.rule, got, err)
		}
		if _, err := os.Stat(filepath.Join(os.TempDir(), string(mountID))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something was made outside the root: %v", c.rule, err)
		}
		if _, err := os.Stat(root); c.rule[:8] == "the root" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

// The encoding is frozen. The hash: printf 'project:%0248d' 0 | sha256sum
func TestSegmentIsFrozen(t *testing.T) {
	for scope, want := range map[string]string{
		"project:0192f0c1-2ab4-7cde-8f01-23456789abcd": "project%3a0192f0c1-2ab4-7cde-8f01-23456789abcd",
		"user:Ana_B":                          "user%3a%41na_%42",
		"project:..":                          "project%3a%2e%2e",
		"project:/a%2f\x01é":                  "project%3a%2fa%252f%01%c3%a9",
		"project:" + strings.Repeat("0", 248): "+fd6fcadabd6e5ca9730f8a525a31a0ec27f9064241c604c00f735208f1ae57f1",
	} {
		if got := segment(scope); got != want {
			t.Errorf("segment(%q) = %q, want %q", scope, got, want)
		}
	}
}

// Any scope becomes one harmless element of a path, from which the scope can
// be told, also by a file system that folds case.
func TestSegmentIsOneElementAndInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scopes := rapid.StringN(1, -1, -1) // an empty one is refused before
		a, b := scopes.Draw(t, "a"), scopes.Draw(t, "b")
		s := segment(a)
		if !filepath.IsLocal(s) || strings.ContainsAny(s, `/\.:`+"\x00") || len(s) > maxSegment || strings.ToLower(s) != s {
			t.Fatalf("segment(%q) = %q", a, s)
		}
		if (s == segment(b)) != (a == b) {
			t.Fatalf("%q and %q are both %q", a, b, s)
		}
	})
}
