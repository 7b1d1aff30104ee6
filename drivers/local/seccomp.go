//go:build linux

package local

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// architecture is one for which there is a filter.
type architecture struct {
	audit uint32 // as the kernel calls it
	x32   bool   // it has a second set of numbers for the same calls, which have x32Bit
	nr    func(systemCall) int
}

// x32Bit is what the numbers of the x32 ABI have and others have not.
const x32Bit = 0x40000000

// architectures are known by their names in Go.
func architectures(name string) (a architecture, known bool) {
	switch name {
	case "amd64":
		return architecture{unix.AUDIT_ARCH_X86_64, true, func(c systemCall) int { return c.amd64 }}, true
	case "arm64":
		return architecture{unix.AUDIT_ARCH_AARCH64, false, func(c systemCall) int { return c.arm64 }}, true
	}
	return a, false
}

// The answers of a filter.
const (
	answerAllow  = unix.SECCOMP_RET_ALLOW
	answerKill   = unix.SECCOMP_RET_KILL_PROCESS
	answerDenied = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	answerNone   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Where the kernel shows a filter what is called: the number, the
// architecture, and the lower halves of the arguments.
const (
	atNumber       = 0
	atArchitecture = 4
	atArguments    = 16
	argumentSize   = 8
)

// assemble makes the filter of confined processes. It is short, and no order
// of its rules matters: the kernel remembers of each call that it is always allowed.
func assemble(a architecture) []unix.SockFilter {
	const load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	// Each branch goes on with the next instruction, or leaves some out.
	unless := func(test uint16, k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jf: skip}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

	filter := []unix.SockFilter{
		{Code: load, K: atArchitecture},
		{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: a.audit, Jt: 1},
		answer(answerKill),
		{Code: load, K: atNumber},
	}
	if a.x32 {
		filter = append(filter, unless(unix.BPF_JGE, x32Bit, 1), answer(answerDenied))
	}
	for _, c := range deniedCalls {
		nr := a.nr(c)
		if nr < 0 {
			continue
		}
		with := answer(answerDenied)
		if c.missing {
			with = answer(answerNone)
		}
		if c.test == noneOf {
			n := uint8(len(c.values))
			filter = append(filter, unless(unix.BPF_JEQ, uint32(nr), n+3),
				unix.SockFilter{Code: load, K: uint32(atArguments + argumentSize*c.arg)})
			for i, v := range c.values {
				filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: v, Jt: n - uint8(i)})
			}
			filter = append(filter, with, unix.SockFilter{Code: load, K: atNumber})
			continue
		}
		if c.test == always {
			filter = append(filter, unless(unix.BPF_JEQ, uint32(nr), 1), with)
			continue
		}
		test := uint16(unix.BPF_JEQ)
		if c.test == anyBit {
			test = unix.BPF_JSET
		}
		filter = append(filter,
			unless(unix.BPF_JEQ, uint32(nr), 4),
			unix.SockFilter{Code: load, K: uint32(atArguments + argumentSize*c.arg)},
			unless(test, c.value, 1), with,
			unix.SockFilter{Code: load, K: atNumber}) // further rules may be about the same call
	}
	return append(filter, answer(answerAllow))
}

// filter is what bubblewrap is given for an architecture: the instructions,
// as the kernel reads them.
func filter(goarch string) ([]byte, error) {
	a, known := architectures(goarch)
	if !known {
		return nil, fmt.Errorf("there is no filter of system calls for %s", goarch)
	}
	var b []byte
	for _, i := range assemble(a) {
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b, nil
}

// filterFile is a file that holds the filter, for bubblewrap's --seccomp.
func (v *view) filterFile() (*os.File, error) {
	f, err := memFile("filter")
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(v.filter); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
