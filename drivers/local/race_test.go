//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Destroy in the midst of everything: whoever uses the machine learns of it by
// name, and of the machine nothing is left.
func TestDestroyInUse(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, unconfined)
			ctx := deadline(t)
			for round := range 5 {
				ref := create(t, p, fmt.Sprintf("m-g%d", round))
				sb := attach(t, p, ref)
				begun := make(chan struct{}, 4)
				var users sync.WaitGroup
				for i := range 4 {
					users.Go(func() {
						for n := 0; ; n++ {
							if n == 1 {
								begun <- struct{}{}
							}
							if err := useOnce(ctx, sb, i); err != nil {
								if !errors.Is(err, sandbox.ErrGone) && !errors.Is(err, sandbox.ErrStale) {
									t.Errorf("user %d: %v", i, err)
								}
								return
							}
						}
					})
				}
				for range cap(begun) {
					<-begun
				}
				if err := p.Destroy(ctx, ref); err != nil {
					t.Errorf("destroy: %v", err)
				}
				users.Wait()
				if out, err := exec.Command("sh", "-c", "grep -l -a MACHINE="+string(ref.Incarnation)+" /proc/[0-9]*/environ").Output(); err == nil {
					t.Errorf("processes of the machine are left: %s", out)
				}
				sb.Close()
			}
			for _, dir := range []string{"machines", "trash", "new"} {
				if left, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(left) > 0 {
					t.Errorf("%s holds %v, %v", dir, left, err)
				}
			}
		})
	}
}

// useOnce uses a handle in the way i. That a process ended with its machine is no error.
func useOnce(ctx context.Context, sb sandbox.Sandbox, i int) error {
	switch i {
	case 0:
		return sandbox.WriteFile(ctx, sb.FS(), "dir/file", []byte(strings.Repeat("x", 5000)), nil)
	case 1:
		for _, err := range sb.FS().ReadDir(ctx, ".") {
			if err != nil {
				return err
			}
		}
		return sb.FS().Mkdir(ctx, "dir/sub")
	}
	exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"sh", "-c", "echo x; sleep 0.01"}}, nil, nil)
	if err == nil && exit.Reason != sandbox.SandboxEnded && (exit.Reason != sandbox.Exited || exit.Code != 0 && exit.Code != 2) {
		err = fmt.Errorf("a process ended with %+v", exit) // code 2: the shell did not find its directory any more
	}
	return err
}
