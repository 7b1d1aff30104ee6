//go:build linux

package local

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// startHeld starts a program and has hold do to the process, before its first
// instruction, what is to be done: it is traced until then. Where it can't be
// held, for the kernel forbids it or the program has privileges of its own, it is started
// all the same, but only after loose has succeeded.
func startHeld(program string, argv []string, attr os.ProcAttr, hold func(pid int) error, loose func() error) (*os.Process, error) {
	unheld := func() (*os.Process, error) {
		if err := loose(); err != nil {
			return nil, err
		}
		return os.StartProcess(program, argv, &attr)
	}
	if privileged(program) {
		return unheld()
	}
	runtime.LockOSThread() // who traces is one thread, not the process
	defer runtime.UnlockOSThread()
	proc, err := startTraced(program, argv, attr)
	if err != nil {
		return unheld() // whose error, if any, is not about tracing
	}
	if err := hold(proc.Pid); err != nil {
		proc.Kill()
		proc.Wait()
		return nil, err
	}
	unix.PtraceDetach(proc.Pid) // fails only where it is dead
	return proc, nil
}

// startTraced starts a program, which stops before its first instruction. It
// and the detaching belong on one thread.
func startTraced(program string, argv []string, attr os.ProcAttr) (*os.Process, error) {
	traced, sys := attr, *attr.Sys
	sys.Ptrace = true
	traced.Sys = &sys
	proc, err := os.StartProcess(program, argv, &traced)
	if err != nil {
		return nil, err
	}
	for { // only look: if it has been killed already, that is for whoever waits for it
		if err = unix.Waitid(unix.P_PID, proc.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return proc, nil
		}
	}
}

// canTrace tries whether a process can be traced from its first instruction,
// which it doesn't come to.
func canTrace() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const program = "/proc/self/exe"
	proc, err := startTraced(program, []string{program}, os.ProcAttr{Sys: &syscall.SysProcAttr{}})
	if err != nil {
		return false
	}
	proc.Kill()
	proc.Wait()
	return true
}

// markLocks gives the process pid the limit on file locks that is the mark of
// its tag. Where the kernel does not let it, admit must succeed.
func markLocks(pid int, limit uint64, admit func() error) error {
	lim := unix.Rlimit{Cur: limit, Max: limit}
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, &lim, nil); err != nil && err != unix.ESRCH {
		return admit()
	}
	return nil
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
