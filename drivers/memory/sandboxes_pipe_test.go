//go:build linux

package memory_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Whoever opens a file in a bind, or lists a directory, waits for no pipe that takes its place meanwhile.
func TestBindsWaitForNoPipe(t *testing.T) {
	sb, err := memory.NewSandboxes(nil).Open(t.Context(), "pipes")
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	host, _ := bind(t, sb, "real")
	for name, err := range map[string]error{
		"pipe": syscall.Mkfifo(filepath.Join(host, "pipe"), 0o644),
		"it":   os.WriteFile(filepath.Join(host, "it"), []byte("x"), 0o644),
		"dir":  os.Mkdir(filepath.Join(host, "dir"), 0o755),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	stop, swapped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for all := []string{"pipe", "dir"}; err == nil; all[0], all[1] = all[1], all[0] {
			select {
			case <-stop:
				swapped <- nil
				return
			default:
			}
			err = unix.Renameat2(unix.AT_FDCWD, filepath.Join(host, "it"), unix.AT_FDCWD, filepath.Join(host, all[0]), unix.RENAME_EXCHANGE)
		}
		swapped <- err
	}()
	at := sandbox.BindRoot(sb) + "/real/it"
	for range 3000 {
		if r, err := sb.FS().Open(t.Context(), at, nil); err == nil {
			r.Close()
		}
		for range sb.FS().ReadDir(t.Context(), at) {
		}
	}
	close(stop)
	if err := <-swapped; err != nil {
		t.Fatal(err)
	}
}
