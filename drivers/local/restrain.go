//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// errUnlimitable says that a process can't be held back until it has its limits.
var errUnlimitable = errors.New("a program with privileges of its own can't have limits")

// means finds out what this host has to hold limits with.
func (p *Provider) means() means {
	return means{
		holds:   p.confined || canTrace(),
		cgroup:  p.cgroups.has,
		pids:    p.cgroups.pids != "",
		counted: os.Geteuid() != 0 || p.uids.Count > 0,
		ownUser: p.confined && (p.uids.Count > 0 || countsApart()),
	}
}

// countsApart reports whether the kernel counts the processes of a user in
// each user namespace for itself, as it does since 5.14.
func countsApart() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major > 5 || major == 5 && minor >= 14
}

// restrain gives the first process of p, whose id on the host is pid and
// which has not executed its program yet, its limits, and more. What it starts inherits
// them. uid is its user, 0 where that is our own.
func (p *process) restrain(c cgroups, by mechanisms, pid, uid int, more ...rlimit) error {
	if p.limits.UserProcesses > 0 && uid == 0 && os.Geteuid() == 0 { // who started the machine's init gave it no user
		return &sandbox.LimitError{Limit: "UserProcesses"}
	}
	err := asUser(uid, func() error {
		for _, l := range append(rlimits(p.limits), more...) {
			if err := unix.Prlimit(pid, l.resource, &l.value, nil); err != nil && !(l.spare && err == unix.EPERM) {
				return fmt.Errorf("limit: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.group, err = c.hold(p.groupName(), p.limits, by, pid)
	return err
}

// asUser calls fn as the user uid, with the group of that number, and does
// nothing else as that: another user's limits even root may set only with a
// privilege that not every host leaves to it (CAP_SYS_RESOURCE). 0 is our own.
func asUser(uid int, fn func() error) (err error) {
	if uid == 0 {
		return fn()
	}
	onceOnThread(func() { // these calls are the thread's alone, unlike those of package unix
		id := uintptr(uid)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); e != 0 {
			err = os.NewSyscallError("setresgid", e)
		} else if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); e != 0 {
			err = os.NewSyscallError("setresuid", e)
		} else {
			err = fn()
		}
	})
	return err
}

type rlimit struct {
	resource int
	value    unix.Rlimit
	spare    bool // it may be left out where it would raise one that nobody here may raise
}

// undumped is the limit of what leaves no core behind when it crashes. The
// host's kernel may hand a core to a program that it starts for that, as root and outside of every sandbox,
// and does so with a limit of 0 too, but not with this one.
func undumped() rlimit {
	return rlimit{resource: unix.RLIMIT_CORE, value: unix.Rlimit{Cur: 1, Max: 1}, spare: true}
}

// rlimits are the limits of l that a process has itself. None can be raised
// again: soft and hard ones are the same, but for the processor time, where
// the first asks with a signal that tells what it is about, and the second kills.
func rlimits(l sandbox.Limits) []rlimit {
	var all []rlimit
	add := func(resource int, soft, hard int64) {
		if soft > 0 {
			all = append(all, rlimit{resource: resource, value: unix.Rlimit{Cur: uint64(soft), Max: uint64(hard)}})
		}
	}
	seconds := int64(l.ProcessCPUTime / time.Second)
	add(unix.RLIMIT_CPU, seconds, seconds+1)
	add(unix.RLIMIT_AS, l.ProcessMemory, l.ProcessMemory)
	add(unix.RLIMIT_FSIZE, l.ProcessFileSize, l.ProcessFileSize)
	add(unix.RLIMIT_NPROC, l.UserProcesses, l.UserProcesses)
	return all
}

// limited reports whether p has limits.
func (p *process) limited() bool { return p.limits != sandbox.Limits{} }

// overLimit reports whether one of its limits has ended p, which ended like
// this. A shell tells of the signal that ended its last command with its own exit code.
func (p *process) overLimit(o outcome) bool {
	by := func(s syscall.Signal) bool { return o.signal == s || o.code == 128+int(s) }
	switch {
	case p.limits.ProcessCPUTime > 0 && by(syscall.SIGXCPU):
		return true
	case p.limits.ProcessFileSize > 0 && by(syscall.SIGXFSZ):
		return true
	}
	return p.limits.TreeMemory > 0 && by(syscall.SIGKILL) && p.group.killed()
}
