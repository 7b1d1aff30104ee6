//go:build linux

package geesefs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
)

// real ends a test on a machine without the program, and names it for a server.
func real(t testing.TB) func(*Config) {
	t.Helper()
	fuse(t)
	path, err := exec.LookPath(program)
	if err != nil {
		need.Missing(t, need.Geesefs, "no geesefs on PATH")
	}
	return func(c *Config) { c.Program = path }
}

// The program itself keeps to what the stand-in stands for: it takes the command
// line, runs credential_process again, keeps what was closed, forgets what it
// has cached when told to, and ends once unmounted. Case 37 over three expiries.
func TestTheProgramItself(t *testing.T) {
	change := real(t)
	st := newStore(t)
	s := server(t, &minter{endpoint: st.url, life: 5 * time.Second}, change)
	v, dir := serve(t, s)
	if err := os.Mkdir(filepath.Join(dir, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "notes", "monday"), "kept")
	n, accepted, refused := 0, 0, 0
	for began := time.Now(); accepted < 5 && time.Since(began) < 2*time.Minute; n++ { // five keys: the first four have expired, as the program was told
		name := filepath.Join(dir, strconv.Itoa(n%20))
		write(t, name, strconv.Itoa(n))
		read(t, name, strconv.Itoa(n))
		if n%50 == 0 {
			accepted, refused = st.keys(t)
		}
	}
	if accepted < 5 || refused != 0 {
		t.Errorf("%d keys used, %d requests refused", accepted, refused)
	}
	if _, err := os.ReadDir(dir); err != nil {
		t.Fatal(err)
	}
	st.put(t, "upload")
	if err := v.(*serving).Refresh(bounded(t)); err != nil {
		t.Fatal(err)
	}
	read(t, filepath.Join(dir, "upload"), "")
	began := time.Now()
	stop(t, v)
	stopped := time.Since(began)
	_, again := serve(t, s)
	read(t, filepath.Join(again, "notes", "monday"), "kept")
	t.Logf("%d writes with %d keys; stopped in %v", n, accepted, stopped)
}

// What the storage refuses is said before the program is started, which would mount it.
func TestTheProgramItselfIsNotStartedInVain(t *testing.T) {
	change := real(t)
	m := &minter{endpoint: newStore(t).url, life: 5 * time.Second, spoil: func(c *mount.Credentials) { c.SecretKey = "guessed" }}
	s := server(t, m, change)
	if _, err := s.Serve(bounded(t), spec(), t.TempDir()); !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Errorf("a wrong secret: %v", err)
	}
}
