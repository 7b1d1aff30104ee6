//go:build linux

package lab

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
)

// The whole path of a folder: credentials are signed, it is mounted and written
// to; everything is killed with SIGKILL, in either order, and in the end the
// storage too, while it writes; another process mounts it anew. All that was
// synced is there, byte for byte, nothing stays mounted, and no credentials lie about.
func TestWholePath(t *testing.T) {
	need.Long(t, "processes are killed and started anew")
	for _, c := range []struct {
		name string
		kill func(t *testing.T, c child, servers []int)
	}{
		{"the host first", func(t *testing.T, c child, servers []int) {
			kill(t, c.cmd.Process.Pid)
			kill(t, servers...)
		}},
		{"what serves first", func(t *testing.T, c child, servers []int) {
			kill(t, servers...)
			kill(t, c.cmd.Process.Pid)
		}},
		{"the storage first", func(t *testing.T, c child, servers []int) {
			server.Kill()
			kill(t, append(servers, c.cmd.Process.Pid)...)
			server.Restart(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := open(t)
			path, _ := program(t)
			o := orders{
				Endpoint: at.Endpoint, Program: path, Root: mounttest.HostRoot(t), Private: t.TempDir(),
				Folder: mount.ID(id.New()),
				Write: map[string]string{
					"notes.md":             "remember the milk\n",
					"deep/er/Übergröße ☕":  "wide",
					"empty":                "",
					"large":                strings.Repeat("0123456789abcdef", 9<<16), // 9 MiB: the server keeps it in pieces
					"deep/with spaces + %": "odd",
				},
			}
			first := start(t, o)
			wrote := first.says(t)
			servers := first.servers(t)
			if len(servers) == 0 {
				t.Fatal("nothing serves the folder")
			}
			c.kill(t, first, servers)
			if err := first.cmd.Wait(); !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the host ended with %v", err)
			}
			gone(t, servers)

			o.Write = nil
			second := start(t, o)
			if diff := cmp.Diff(wrote, second.says(t)); diff != "" {
				t.Errorf("what was synced (-) and what the next process finds (+):\n%s", diff)
			}
			if err := second.cmd.Wait(); err != nil {
				t.Errorf("the next process: %v", err)
			}
			if left, err := os.ReadDir(o.Root); err != nil || len(left) != 0 {
				t.Errorf("left mounted: %v, %v", left, err)
			}
			// Those of a process are in a directory of its own.
			left, err := os.ReadDir(o.Private)
			for _, e := range left {
				if e.IsDir() {
					t.Errorf("left of credentials: %s", e.Name())
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func kill(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Errorf("kill %d: %v", pid, err)
		}
	}
}
