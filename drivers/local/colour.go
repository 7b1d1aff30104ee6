//go:build linux

package local

import "math/rand/v2"

// harmless are capabilities that the kernel asks for only in the first user
// namespace. In that of a sandbox they permit nothing.
var harmless = [...]string{
	"CAP_LINUX_IMMUTABLE", "CAP_IPC_LOCK", "CAP_SYS_PACCT", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_LEASE",
	"CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_AUDIT_WRITE", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND",
}

// colours hands out sets of capabilities, to keep the handles of a machine apart.
//
// Processes of one machine have one user id and see each other in /proc, and
// through /proc/PID/root each could reach what is bound for another. But the
// kernel lets nobody look into a process that has a capability he lacks. All
// sets have the same size, so none is a part of another: the processes of
// one handle have the same set, those of different handles can't look into each other.
type colours struct{ next uint }

// sets is how many there are: half of the capabilities out of all.
const sets = 924

func newColours() colours { return colours{rand.UintN(sets)} }

// take returns the next set. They come round after all have been had.
func (c *colours) take() []string {
	c.next++
	return subset(c.next % sets)
}

// subset is the n-th way to choose half of the capabilities.
func subset(n uint) []string {
	var set []string
	left := len(harmless) / 2
	for i, name := range harmless {
		with := choose(len(harmless)-i-1, left-1) // how many sets have this one too
		if left > 0 && n < with {
			set = append(set, name)
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
