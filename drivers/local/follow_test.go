//go:build linux

package local_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// nest makes depth directories called "d" below the directory dir, each in the one before; in
// some of them, by how deep they are, a link called "on".
func nest(t *testing.T, dir string, depth int, on map[int]string) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for deep := 1; err == nil && deep <= depth; deep++ {
		if err = unix.Mkdirat(at, "d", 0o755); err != nil {
			break
		}
		var next int
		if next, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
		unix.Close(at)
		if at = next; on[deep] != "" {
			err = unix.Symlinkat(on[deep], at, "on")
		}
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

// Links that a machine has made through its own deep directories hold up
// nobody who looks through one, and paths of any use are looked through.
func TestDeepLinksHoldUpNobody(t *testing.T) {
	p := open(t, true)
	ref := create(t, p, "links-g1")
	sb := attach(t, p, ref)
	t.Cleanup(func() { p.Destroy(context.Background(), ref) }) // which takes less time than the test's own tidying
	work := sb.Workdir()
	const far = 1900 // about as far as the text of one link reaches
	nest(t, work, 4*far, map[int]string{far: strings.Repeat("d/", far) + "on", 2 * far: strings.Repeat("d/", far) + "on", 3 * far: strings.Repeat("d/", far)})
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	for link, target := range map[string]string{
		"near": filepath.Join(work, strings.Repeat("d/", 300)),
		"far":  filepath.Join(work, strings.Repeat("d/", far)),
		"on":   filepath.Join(work, strings.Repeat("d/", far), "on"),
	} {
		if err := links.Symlink(t.Context(), target, link); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if info, err := sb.FS().Stat(ctx, "near"); err != nil || !info.IsDir() {
		t.Errorf("near: %+v, %v", info, err)
	}
	for _, link := range []string{"far", "on"} {
		began := time.Now()
		_, err := sb.FS().Stat(ctx, link)
		if took := time.Since(began); took > 10*time.Second || err != nil && !errors.Is(err, syscall.ENAMETOOLONG) {
			t.Errorf("%s: %v after %v", link, err, took)
		}
	}
}
