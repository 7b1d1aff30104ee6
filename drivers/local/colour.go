//go:build linux

package local

import (
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"
)

// capability is one of the kernel's.
type capability struct {
	name   string
	number uint32
}

// harmless are capabilities that the kernel asks for only in the first user
// namespace. In that of a sandbox they permit nothing.
var harmless = [...]capability{
	{"CAP_LINUX_IMMUTABLE", unix.CAP_LINUX_IMMUTABLE},
	{"CAP_IPC_LOCK", unix.CAP_IPC_LOCK},
	{"CAP_SYS_PACCT", unix.CAP_SYS_PACCT},
	{"CAP_SYS_TIME", unix.CAP_SYS_TIME},
	{"CAP_SYS_TTY_CONFIG", unix.CAP_SYS_TTY_CONFIG},
	{"CAP_LEASE", unix.CAP_LEASE},
	{"CAP_AUDIT_CONTROL", unix.CAP_AUDIT_CONTROL},
	{"CAP_AUDIT_READ", unix.CAP_AUDIT_READ},
	{"CAP_AUDIT_WRITE", unix.CAP_AUDIT_WRITE},
	{"CAP_SYSLOG", unix.CAP_SYSLOG},
	{"CAP_WAKE_ALARM", unix.CAP_WAKE_ALARM},
	{"CAP_BLOCK_SUSPEND", unix.CAP_BLOCK_SUSPEND},
}

// colours hands out sets of capabilities, to keep the handles of a machine apart.
//
// Processes of one machine have one user id and see each other in /proc, and
// through /proc/PID/root each could reach what is bound for another. But the
// kernel lets nobody look into a process that has a capability he lacks. All
// sets have the same size, so none is a part of another: the processes of
// one handle have the same set, those of different handles can't look into each other.
//
// What bubblewrap sets up has all of them until it executes the program, and the
// machine's init has them for good: none of the machine's processes can look into those. What is being set up
// is filtered by nothing yet and has the host's own /proc open. Those that the program is not to have, spawn withholds from it.
type colours struct{ next uint }

// sets is how many there are: half of the capabilities out of all.
const sets = 924

func newColours() colours { return colours{rand.UintN(sets)} }

// take returns the next set. They come round after all have been had.
func (c *colours) take() []capability {
	c.next++
	return subset(c.next % sets)
}

// subset is the n-th way to choose half of the capabilities.
func subset(n uint) []capability {
	var set []capability
	left := len(harmless) / 2
	for i, c := range harmless {
		with := choose(len(harmless)-i-1, left-1) // how many sets have this one too
		if left > 0 && n < with {
			set = append(set, c)
			left--
			continue
		}
		n -= with
	}
	return set
}

// choose is in how many ways k of n can be chosen.
func choose(n, k int) uint {
	if k < 0 || k > n {
		return 0
	}
	ways := uint(1)
	for i := range k {
		ways = ways * uint(n-i) / uint(i+1)
	}
	return ways
}

// without are the harmless capabilities that are not in set.
func without(set []capability) []capability {
	return slices.DeleteFunc(slices.Clone(harmless[:]), func(c capability) bool { return slices.Contains(set, c) })
}

// addAll are bubblewrap's arguments for a process that has them all.
func addAll() (args []string) {
	for _, c := range harmless {
		args = append(args, "--cap-add", c.name)
	}
	return args
}
