//go:build linux

package local

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// What changes its thread for good never runs on the main thread, which can't
// end and would hold on to every file that is open at that time.
func TestOnceOnThread(t *testing.T) {
	before := openFiles(t)
	for range 200 {
		main := make(chan bool)
		go func() { // whichever thread this is, it is free for the next
			runtime.Gosched()
			onceOnThread(func() {
				if err := unix.CloseRange(3, 1<<20, unix.CLOSE_RANGE_UNSHARE|unix.CLOSE_RANGE_CLOEXEC); err != nil {
					t.Error(err)
				}
				go func() { main <- unix.Gettid() == unix.Getpid() }()
				if unix.Gettid() == unix.Getpid() {
					t.Error("it runs on the main thread")
				}
			})
		}()
		<-main
	}
	if now := openFiles(t); now > before+1 {
		t.Errorf("%d files were open, %d are", before, now)
	}
}
