//go:build linux

package local_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Directories that are nested deeper than a process can have files open don't
// keep a machine from being destroyed, nor its host from opening files.
func TestDeepTree(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, unconfined)
			ref := create(t, p, "m-g1")
			sb := attach(t, p, ref)
			outside := filepath.Join(t.TempDir(), "kept")
			if err := os.WriteFile(outside, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			const deep = 3000
			task := tool
			if unconfined {
				task = toolOnHost
			}
			if got := task(t, sb)("deep 3000"); got != "done" {
				t.Fatal(got)
			}
			sh(t, sb, "cd d/d/d && ln -s "+outside+" link && mkdir -p a/b && chmod 0 a/b && chmod 555 a && mkfifo pipe && cd d && chmod 0 ../../d")
			var before unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
				t.Fatal(err)
			}
			few := unix.Rlimit{Cur: 500, Max: before.Max}
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
				t.Fatal(err)
			}
			err := p.Destroy(deadline(t), ref)
			unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
			if err != nil {
				t.Fatalf("%d deep: %.200v", deep, err)
			}
			for _, dir := range []string{"machines", "trash"} {
				if left, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(left) > 0 {
					t.Errorf("%s holds %v, %v", dir, left, err)
				}
			}
			if b, err := os.ReadFile(outside); err != nil || string(b) != "x" {
				t.Errorf("outside: %q, %v", b, err)
			}
		})
	}
}

// However much a command writes, this process holds no more of it than the
// limit, and does not grow with it: a gigabyte costs what a megabyte does.
func TestOutputFlood(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	flood := func(bytes string) uint64 {
		t.Helper()
		proc, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", "head -c " + bytes + " /dev/zero; head -c " + bytes + " /dev/zero >&2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer proc.Close()
		if exit := wait(t, proc); exit.Code != 0 || exit.Stdout == 0 || exit.Stdout != exit.Stderr {
			t.Fatalf("%+v", exit)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Sys - m.HeapReleased
	}
	before := flood("1M")
	if after := flood("512M"); after > before+8<<20 {
		t.Errorf("it had %d bytes, and has %d", before, after)
	}
}

// A reader that does not read, of output that never ends, holds up nobody and costs no more than the limit.
func TestEndlessOutputUnread(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	proc, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", "yes; exit 3"}, OutputLimit: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for c, err := range proc.Output(deadline(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if total = c.Off + int64(len(c.Data)); total > 16<<20 {
			break
		}
	}
	if err := proc.Close(); err != nil {
		t.Fatal(err)
	}
	exit := wait(t, proc)
	left := 0
	for c, err := range proc.Output(deadline(t), 0) {
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		left += len(c.Data)
	}
	if exit.Reason != sandbox.Cancelled || left > 64<<10 {
		t.Errorf("%+v, and %d bytes are kept", exit, left)
	}
}
