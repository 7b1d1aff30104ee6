//go:build linux

package mount

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stubborn is a kernel in which the end of a connection takes its time.
type stubborn struct {
	linux
	aborts chan struct{} // closed when the abort returns

	mu      sync.Mutex
	mounted string // the device of what is mounted at /at; empty = nothing is
	calls   []string
}

// did notes a call, after which that is mounted.
func (k *stubborn) did(call, mounted string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mounted = mounted
	if call != "" {
		k.calls = append(k.calls, call)
	}
}

func (k *stubborn) mountinfo() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := "1 0 8:1 / / rw - ext4 /dev/root rw\n"
	if k.mounted != "" {
		text += "2 1 " + k.mounted + " / /at rw - fuse.sim sim rw\n"
	}
	return text, nil
}

func (k *stubborn) abort(minor string) error {
	<-k.aborts
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, "abort "+minor)
	return nil
}

func (k *stubborn) unmount(dir string, force bool) error {
	k.did(fmt.Sprint("unmount ", dir, " ", force), "")
	return nil
}

func (k *stubborn) unmountFUSE(context.Context, string) error { return errors.New("no") }

// What unmounts and takes longer than anybody waits takes off nothing that
// came to be mounted there since: that is another's, and its files are in use.
func TestALateUnmountingTakesOffNothing(t *testing.T) {
	for _, c := range []struct {
		rule string
		took time.Duration
		want string
	}{
		{"in time", detachTimeout - time.Second, "abort 41, unmount /at true"},
		{"too late", detachTimeout + time.Second, "abort 41"},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &stubborn{mounted: "0:41", aborts: make(chan struct{})}
			time.AfterFunc(c.took, func() {
				if c.took > detachTimeout {
					k.did("", "0:42")
				}
				close(k.aborts)
			})
			_, err := detach(t.Context(), k, "/at", true)
			if late := c.took > detachTimeout; late != (err != nil) {
				t.Errorf("%s: %v", c.rule, err)
			}
			time.Sleep(c.took)
			synctest.Wait()
			k.mu.Lock()
			defer k.mu.Unlock()
			if got := strings.Join(k.calls, ", "); got != c.want {
				t.Errorf("%s: %s, want %s", c.rule, got, c.want)
			}
		})
	}
}
