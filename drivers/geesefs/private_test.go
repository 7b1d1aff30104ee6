//go:build linux

package geesefs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The program knows nothing of its host, no secret is in its arguments or its
// environment, and nobody else can read the files that it is given.
func TestProgramIsToldNothingItNeedNotKnow(t *testing.T) {
	fuse(t)
	t.Setenv("HOST_SECRET", "of-the-host")
	t.Setenv("AWS_ACCESS_KEY_ID", "of-the-host")
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, func(c *Config) { c.Env = []string{"TZ=UTC"} })
	v, dir := serve(t, s)
	place := v.(*serving).prepared.place
	proc := fmt.Sprintf("/proc/%d/", v.(*serving).process.cmd.Process.Pid)
	environ, err := os.ReadFile(proc + "environ")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(environ), "PATH="+os.Getenv("PATH")+"\x00HOME="+place.dir+"\x00TZ=UTC\x00"; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
	args, err := os.ReadFile(proc + "cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(environ), string(args)} {
		for _, secret := range []string{secretKey, "until-", "of-the-host"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds %s", text, secret)
			}
		}
	}
	for name, mode := range map[string]os.FileMode{
		s.c.Dir: os.ModeDir | privateDir, s.house.dir: os.ModeDir | privateDir, place.dir: os.ModeDir | privateDir,
		place.path(leaseFile): privateFile, place.path(configFile): privateFile,
	} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	if rel, err := filepath.Rel(dir, place.dir); err != nil || !strings.HasPrefix(rel, "..") {
		t.Errorf("the credentials are in the mount: %s, %v", rel, err)
	}
	stop(t, v)
	if _, err := os.Lstat(place.dir); !os.IsNotExist(err) {
		t.Errorf("after Stop: %v", err)
	}
}

// A file that somebody has put in the way of the credentials is not written through.
func TestCredentialsAreNotWrittenThroughLinks(t *testing.T) {
	p := &place{dir: t.TempDir()}
	victim := filepath.Join(t.TempDir(), "victim")
	write(t, victim, "as it was")
	for _, name := range []string{leaseTemp, leaseFile} {
		if err := os.Symlink(victim, p.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	c := credentials("", prefix, time.Hour)
	if err := p.install(t.Context(), c, c.Expires); err != nil {
		t.Fatal(err)
	}
	read(t, victim, "as it was")
	if info, err := os.Lstat(p.path(leaseFile)); err != nil || info.Mode() != privateFile {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What the program says is passed on without the secrets in it, and not without bound.
func TestWhatTheProgramSays(t *testing.T) {
	p := &place{dir: t.TempDir()}
	for i := range 3 {
		c := credentials("", prefix, time.Hour)
		c.SecretKey = fmt.Sprintf("secret-%d", i)
		if err := p.install(t.Context(), c, c.Expires); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.censored("with secret-2 and secret-1 done"); got != "with … and … done" {
		t.Errorf("%q", got)
	}
	var said tail
	for range 1000 {
		if _, err := said.Write([]byte("a line of about twenty bytes\n")); err != nil {
			t.Fatal(err)
		}
	}
	if said.hasMounted() || len(said.String()) != tailBytes {
		t.Errorf("%d bytes kept, mounted %v", len(said.String()), said.hasMounted())
	}
	for _, part := range []string{"File system has been success", "fully mounted.\n", strings.Repeat("x", 2*tailBytes)} {
		if _, err := said.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if !said.hasMounted() || strings.Trim(said.String(), "x") != "" {
		t.Error("the end is not kept, or that it has mounted was missed")
	}
}

// The kernel's list is read exactly, also for paths that it has to escape.
func TestMountedIn(t *testing.T) {
	const list = `22 1 0:21 / / rw - ext4 /dev/root rw
36 22 0:30 / /srv/a rw,nosuid - fuse.geesefs folders rw
37 22 0:31 / /srv/with\040space\011tab\134back\012line rw - fuse.geesefs folders rw
`
	for dir, want := range map[string]bool{
		"/srv/a": true, "/": true, "/srv": false, "/srv/a/b": false, "/srv/": false,
		"/srv/with space\ttab\\back\nline": true, `/srv/with\040space`: false, "folders": false,
	} {
		if got := mountedIn(list, dir); got != want {
			t.Errorf("%q: %v", dir, got)
		}
	}
}
