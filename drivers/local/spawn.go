//go:build linux

package local

import (
	"math"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawn starts a program that inherits files and nothing else that is open in
// this process: not even what was handed to it by whoever started it, or was
// opened by others without the close-on-exec flag. It does so from a thread
// with a table of open files of its own, in which all are marked close-on-exec.
// as is how it is started as another user; nil where as our own. network is
// where it starts; nil where in our own. Of the capabilities that the program may have, it hands
// none of withheld on to what it executes in turn.
func spawn(network *os.File, path string, argv, env []string, files []*os.File, as *guise, withheld []capability) (*os.Process, error) {
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
		if err = withhold(withheld); err != nil {
			return
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

// withhold denies this thread, and what is started from it, to hand capabilities
// on over the execution of a program: to make them ambient, as the kernel calls it. It is for good.
func withhold(caps []capability) error {
	if len(caps) == 0 {
		return nil
	}
	const load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	const isEqual = unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ
	n := uint8(len(caps))
	filter := []unix.SockFilter{ // what is not meant goes to the last but one
		{Code: load, K: atNumber},
		{Code: isEqual, K: unix.SYS_PRCTL, Jf: n + 5},
		{Code: load, K: atArguments},
		{Code: isEqual, K: unix.PR_CAP_AMBIENT, Jf: n + 3},
		{Code: load, K: atArguments + argumentSize},
		{Code: isEqual, K: unix.PR_CAP_AMBIENT_RAISE, Jf: n + 1},
		{Code: load, K: atArguments + 2*argumentSize},
	}
	for i, c := range caps {
		filter = append(filter, unix.SockFilter{Code: isEqual, K: c.number, Jt: n - uint8(i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answerAllow},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answerDenied})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(filter)
	return os.NewSyscallError("prctl", err)
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

// socketPair is two sockets that are connected to each other.
func socketPair() (one, other *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
