//go:build linux

package local

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// startLimited starts a program with limit as its limit on file locks, which
// it has before its first instruction: it is traced until then. Where this
// can't be had, for the kernel forbids it or the program has privileges of
// its own, it is started without one, but only after admit has succeeded.
func startLimited(program string, argv []string, attr os.ProcAttr, limit uint64, admit func() error) (*os.Process, error) {
	unlimited := func() (*os.Process, error) {
		if err := admit(); err != nil {
			return nil, err
		}
		return os.StartProcess(program, argv, &attr)
	}
	if privileged(program) {
		return unlimited()
	}
	runtime.LockOSThread() // who traces is one thread, not the process
	defer runtime.UnlockOSThread()
	traced, sys := attr, *attr.Sys
	sys.Ptrace = true
	traced.Sys = &sys
	proc, err := os.StartProcess(program, argv, &traced)
	if err != nil {
		return unlimited() // whose error, if any, is not about tracing
	}
	for { // only look: if it has been killed already, that is for whoever waits for it
		if err = unix.Waitid(unix.P_PID, proc.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	lim := unix.Rlimit{Cur: limit, Max: limit}
	if err = unix.Prlimit(proc.Pid, unix.RLIMIT_LOCKS, &lim, nil); err != nil && err != unix.ESRCH {
		if err := admit(); err != nil {
			proc.Kill()
			proc.Wait()
			return nil, err
		}
	}
	unix.PtraceDetach(proc.Pid) // fails only where it is dead
	return proc, nil
}

// privileged reports whether a program gets privileges of its own when it is
// executed, which it would not while it is traced.
func privileged(program string) bool {
	info, err := os.Stat(program)
	if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return true
	}
	_, err = unix.Getxattr(program, "security.capability", nil)
	return err == nil
}
