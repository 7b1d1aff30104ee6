//go:build linux

package local

import "golang.org/x/sys/unix"

// numbers are those of this architecture, as the system's own list has them.
func numbers(c systemCall) int { return c.amd64 }

// onlyHere are the numbers of calls that not every architecture has.
var onlyHere = [...]numbered{
	{"iopl", unix.SYS_IOPL}, {"ioperm", unix.SYS_IOPERM}, {"modify_ldt", unix.SYS_MODIFY_LDT},
}
