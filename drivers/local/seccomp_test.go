//go:build linux

package local

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// called is what a filter is shown.
type called struct {
	number, arch uint32
	args         [6]uint64
}

func (c called) word(at uint32) uint32 {
	switch {
	case at == atNumber:
		return c.number
	case at == atArchitecture:
		return c.arch
	case at >= atArguments && at%4 == 0 && at < atArguments+6*argumentSize:
		v := c.args[(at-atArguments)/argumentSize]
		if (at-atArguments)%argumentSize != 0 {
			v >>= 32
		}
		return uint32(v)
	}
	panic(fmt.Sprintf("there is nothing at %d", at))
}

// interpret runs a filter as the kernel would, and tells its answer. A fault
// of the filter, for which the kernel would refuse it, is a panic.
func interpret(filter []unix.SockFilter, c called) uint32 {
	var a uint32
	for pc := 0; ; pc++ {
		i := filter[pc]
		jump := func(is bool) {
			if is {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = c.word(i.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			jump(a == i.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			jump(a >= i.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JSET:
			jump(a&i.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			panic(fmt.Sprintf("instruction %d is %#x", pc, i.Code))
		}
	}
}

// Over all numbers there are, and beyond, exactly what is listed is denied; on
// both architectures.
func TestFilterDenies(t *testing.T) {
	for _, name := range []string{"amd64", "arm64"} {
		a, _ := architectures(name)
		filter := assemble(a)
		if len(filter) > unix.BPF_MAXINSNS {
			t.Errorf("%s: %d instructions", name, len(filter))
		}
		for nr := range 1000 {
			want := uint32(answerAllow)
			for _, c := range deniedCalls {
				if a.nr(c) == nr && c.test == always {
					want = answerDenied
					if c.missing {
						want = answerNone
					}
				}
			}
			if got := interpret(filter, called{number: uint32(nr), arch: a.audit}); got != want {
				t.Errorf("%s: call %d is answered %#x, want %#x", name, nr, got, want)
			}
		}
	}
}

// What depends on an argument goes by its lower half, as the kernel's own reading does.
func TestFilterArguments(t *testing.T) {
	for _, name := range []string{"amd64", "arm64"} {
		a, _ := architectures(name)
		filter := assemble(a)
		nr := func(name string) uint32 {
			i := slices.IndexFunc(deniedCalls[:], func(c systemCall) bool { return c.name == name })
			return uint32(a.nr(deniedCalls[i]))
		}
		for _, c := range []struct {
			call string
			args [6]uint64
			want uint32
		}{
			{"clone", [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, answerAllow},
			{"clone", [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_SETTLS}, answerAllow},
			{"clone", [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, answerDenied},
			{"clone", [6]uint64{unix.CLONE_NEWUSER | 1<<32}, answerDenied},
			{"clone", [6]uint64{1 << 33}, answerAllow},
			{"clone", [6]uint64{0, unix.CLONE_NEWUSER}, answerAllow}, // the stack
			{"unshare", [6]uint64{unix.CLONE_FILES}, answerAllow},
			{"unshare", [6]uint64{unix.CLONE_FS}, answerAllow},
			{"unshare", [6]uint64{unix.CLONE_NEWTIME}, answerDenied},
			{"unshare", [6]uint64{unix.CLONE_NEWNS | unix.CLONE_FS}, answerDenied},
			{"ioctl", [6]uint64{0, unix.TIOCGWINSZ}, answerAllow},
			{"ioctl", [6]uint64{unix.TIOCSTI, unix.TCGETS}, answerAllow},
			{"ioctl", [6]uint64{0, unix.TIOCSTI}, answerDenied},
			{"ioctl", [6]uint64{0, unix.TIOCSTI | 1<<40}, answerDenied},
			{"ioctl", [6]uint64{0, tioclinux}, answerDenied},
			{"ioctl", [6]uint64{0, unix.TIOCSETD}, answerDenied},
			{"fcntl", [6]uint64{0, unix.F_SETFL}, answerAllow},
			{"fcntl", [6]uint64{0, unix.F_SETLEASE}, answerDenied},
			{"fcntl", [6]uint64{unix.F_SETLEASE, unix.F_SETLK}, answerAllow},
			{"fcntl", [6]uint64{0, unix.F_SETDELEG | 1<<32}, answerDenied},
			{"socket", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, answerAllow},
			{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, answerAllow},
			{"socket", [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM}, answerAllow},
			{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, answerAllow},
			{"socket", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, answerDenied},
			{"socket", [6]uint64{unix.AF_VSOCK | 1<<32, unix.SOCK_STREAM}, answerDenied},
			{"socket", [6]uint64{unix.AF_ALG, unix.AF_INET}, answerDenied},
			{"socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, answerAllow},
			{"socketpair", [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, answerDenied},
			{"clone3", [6]uint64{}, answerNone},
		} {
			if got := interpret(filter, called{number: nr(c.call), arch: a.audit, args: c.args}); got != c.want {
				t.Errorf("%s: %s%x is answered %#x, want %#x", name, c.call, c.args, got, c.want)
			}
		}
		for _, flag := range []uint64{unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET} {
			for _, call := range []string{"clone", "unshare"} {
				if got := interpret(filter, called{number: nr(call), arch: a.audit, args: [6]uint64{flag}}); got != answerDenied {
					t.Errorf("%s: %s(%#x) is answered %#x", name, call, flag, got)
				}
			}
		}
	}
}

// A call of another architecture, whose numbers mean something else, kills; one of the x32 ABI is denied.
func TestFilterArchitecture(t *testing.T) {
	amd64, _ := architectures("amd64")
	arm64, _ := architectures("arm64")
	for _, a := range []architecture{amd64, arm64} {
		for _, other := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_X86_64, 0} {
			for _, nr := range []uint32{0, 1, 39, 165} {
				if got := interpret(assemble(a), called{number: nr, arch: other}); other != a.audit && got != answerKill {
					t.Errorf("%#x: call %d of %#x is answered %#x", a.audit, nr, other, got)
				}
			}
		}
	}
	for nr := range uint32(1000) {
		if got := interpret(assemble(amd64), called{number: x32Bit | nr, arch: amd64.audit}); got != answerDenied {
			t.Errorf("call %d of x32 is answered %#x", nr, got)
		}
	}
	if _, err := filter("riscv64"); err == nil {
		t.Error("there is a filter for what is not known")
	}
}
