//go:build linux

package local

import (
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn starts a program that inherits files and nothing else that is open in
// this process: not even what was handed to it by whoever started it, or was
// opened by others without the close-on-exec flag. It does so from a thread
// with a table of open files of its own, in which all are marked close-on-exec.
// as is how it is started as another user; nil where as our own. network is
// where it starts; nil where in our own.
func spawn(network *os.File, path string, argv, env []string, files []*os.File, as *guise) (*os.Process, error) {
	var pid int
	var err error
	onceOnThread(func() {
		if network != nil {
			if err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
				err = os.NewSyscallError("setns", err)
				return
			}
		}
		if err = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_UNSHARE|unix.CLOSE_RANGE_CLOEXEC); err != nil {
			err = os.NewSyscallError("close_range", err)
			return
		}
		sys := &syscall.SysProcAttr{Setsid: true}
		if as != nil {
			if err = as.wear(); err != nil {
				return
			}
			sys.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.uid)}
		}
		fds := make([]uintptr, len(files))
		for i, f := range files {
			fds[i] = f.Fd()
		}
		pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
			Dir: "/", Env: env, Files: fds, Sys: sys,
		})
		runtime.KeepAlive(files)
	})
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid) // a child that nobody has waited for, so its id is its own
}

// onceOnThread runs fn on a thread that ends with it.
func onceOnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			fn()
			return // still locked, which ends the thread
		}
		// The main thread can't end. While it is held here, fn gets another.
		defer runtime.UnlockOSThread()
		onceOnThread(fn)
	}()
	<-done
}
