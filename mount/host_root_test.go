//go:build linux

package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// Trap 55: the root of the mounts lay in the temporary directory, and an agent
// that cleaned that up deleted everybody's durable files. Such a root is
// refused, also by way of a link; and so is one that others can look into.
func TestBadRoots(t *testing.T) {
	root := hostRoot(t)
	join := func(name string) string { return filepath.Join(root, name) }
	if err := os.WriteFile(join("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), join("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(join("open/with-something"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rule, root string }{
		{"a root is required", ""},
		{"a relative one is refused", "folders"},
		{"the file system's own is refused", "/"},
		{"so is another spelling of it", "/../."},
		{"the temporary directory is refused", os.TempDir()},
		{"and all below", filepath.Join(t.TempDir(), "below")},
		{"/tmp is, whatever TMPDIR says", "/tmp/bunkroom-refused"},
		{"/var/tmp is", "/var/tmp/bunkroom-refused"},
		{"a link into it is", join("link")},
		{"and what is below the link", join("link/below")},
		{"a space is refused", join("a b")},
		{"a tab is", join("a\tb")},
		{"a newline is", join("a\nb")},
		{"a space that is none in ASCII is", join("a\u00a0b")},
		{"a control character is", join("a\x7fb")},
		{"a file in the way is", join("file")},
		{"a file in the way above is", join("file/below")},
		{"what holds something and is open to others is", join("open")},
	} {
		h, err := mount.NewHost(t.Context(), mount.HostConfig{Server: none{}, Root: c.root})
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Root" || h != nil {
			t.Errorf("%s: NewHost(%q) = %v, %v", c.rule, c.root, h, err)
		}
	}
	for _, made := range []string{"/tmp/bunkroom-refused", "/var/tmp/bunkroom-refused"} {
		if _, err := os.Lstat(made); err == nil {
			t.Errorf("a refused root was made: %s", made)
		}
	}
}

func TestGoodRoots(t *testing.T) {
	root := hostRoot(t)
	if err := os.Symlink(root, root+"-link"); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(root + "-link")
	if err := os.Mkdir(root+"/open", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rule, root, is string }{
		{"it is made", root + "/made/as-needed", root + "/made/as-needed"},
		{"an empty one is closed to others", root + "/open", root + "/open"},
		{"links are followed once", root + "-link/linked", root + "/linked"},
		{"a name like the temporary directory's is another", root + "/tmp", root + "/tmp"},
		{"odd characters are fine", root + `/a\040b-ü"'`, root + `/a\040b-ü"'`},
	} {
		h, err := mount.NewHost(t.Context(), mount.HostConfig{Server: none{}, Root: c.root})
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got := filepath.Dir(h.Status(t.Context()).Dir); got != c.is {
			t.Errorf("%s: it is %s, want %s", c.rule, got, c.is)
		}
		for _, dir := range []string{c.is, h.Status(t.Context()).Dir} {
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %s is %v, %v", c.rule, dir, info, err)
			}
		}
		if err := h.Close(t.Context()); err != nil {
			t.Errorf("%s: Close: %v", c.rule, err)
		}
	}
}

func TestNewHostNamesTheBadField(t *testing.T) {
	root := hostRoot(t)
	for _, c := range []struct {
		field  string
		config mount.HostConfig
	}{
		{"Server", mount.HostConfig{Root: root}},
		{"StartTimeout", mount.HostConfig{Server: none{}, Root: root, StartTimeout: -time.Second}},
		{"StopTimeout", mount.HostConfig{Server: none{}, Root: root, StopTimeout: -time.Second}},
		{"Restarts", mount.HostConfig{Server: none{}, Root: root, Restarts: -1}},
	} {
		_, err := mount.NewHost(t.Context(), c.config)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field {
			t.Errorf("got %v, want a FieldError of %s", err, c.field)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mount.NewHost(ended, mount.HostConfig{Server: none{}, Root: root}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("the root holds %v, %v", entries, err)
	}
}

// The look at what is mounted is exact, whatever a directory is called.
func TestMountinfo(t *testing.T) {
	const text = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
42 27 0:39 / /srv/a\040b rw,nosuid shared:7 master:1 - fuse.geesefs bucket rw
43 42 0:40 /sub\134dir /srv/a\040b/in\011side rw - fuse mirror rw
44 27 0:41 / /srv/a rw - fuse.x x rw
45 27 0:42 / /srv/abc rw - fuseblk /dev/sdb rw
46 27 0:41 / /elsewhere rw - fuse.x x rw
47 27 0:43 / /srv/new\012line rw - tmpfs tmpfs rw
48 27 0:39 / /srv/a\040b rw - fuse.geesefs bucket rw
`
	lines, err := mount.ParseMountinfo(text)
	if err != nil || len(lines) != 9 || lines[3] != [3]string{"/srv/a b/in\tside", "fuse", "0:40"} {
		t.Errorf("%q, %v", lines, err)
	}
	for _, c := range []struct {
		rule, dir string
		paths     string
		own       string
	}{
		{"a directory and what is below", "/srv/a b", "/srv/a b,/srv/a b/in\tside,/srv/a b", "39 40"},
		{"not what has the same beginning; and one that shows elsewhere too is not its own", "/srv/a", "/srv/a", ""},
		{"another kind of FUSE has no connection", "/srv/abc", "/srv/abc", ""},
		{"a newline in the name", "/srv/new\nline", "/srv/new\nline", ""},
		{"no part of a name", "/srv/new", "", ""},
		{"the text of an escape is not the name", `/srv/a\040b`, "", ""},
		{"everything is below the root", "/srv", "/srv/a b,/srv/a b/in\tside,/srv/a,/srv/abc,/srv/new\nline,/srv/a b", "39 40"},
	} {
		paths, own, err := mount.Within(text, c.dir)
		if err != nil || strings.Join(paths, ",") != c.paths {
			t.Errorf("%s: %q, %v; want %q", c.rule, paths, err, c.paths)
		}
		for _, minor := range []string{"39", "40", "41", "42"} {
			if own[minor] != strings.Contains(c.own, minor) {
				t.Errorf("%s: own connections %v, want %q", c.rule, own, c.own)
			}
		}
	}
	// What is not understood makes the whole answer inconclusive.
	for _, bad := range []string{
		"", "\n", "22 27 0:21 / /proc rw", "22 27 0:21 / /proc rw -", "22 27 0:21 / proc rw - proc proc rw",
		`22 27 0:21 / /a\04 rw - x x rw`, `22 27 0:21 / /a\999 rw - x x rw`, "22 27 21 / /a rw - x x rw", "22 27 0:x / /a rw - x x rw",
		text + "garbage\n",
	} {
		if got, err := mount.ParseMountinfo(bad); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

// A proof is of a directory that was looked at, and nothing else makes one.
func TestProve(t *testing.T) {
	for _, c := range []struct {
		dir  string
		want mount.Detachment
	}{
		{"/", mount.Attached}, {"/proc", mount.Attached}, {t.TempDir(), mount.Detached},
		{"", mount.Inconclusive}, {"relative", mount.Inconclusive}, {"/proc/", mount.Inconclusive}, {"/proc/../x", mount.Inconclusive},
	} {
		p, got, err := mount.Prove(c.dir)
		if got != c.want || (err == nil) != (got == mount.Detached) || (p.Dir() != "") != (got == mount.Detached) {
			t.Errorf("%q: %s, %v, %v; want %s", c.dir, p.Dir(), got, err, c.want)
		}
	}
}
