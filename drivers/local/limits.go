//go:build linux

package local

import "github.com/bunkroom/bunkroom/sandbox"

// mechanism is what holds a limit. The zero value holds none.
type mechanism uint8

const (
	unheld   mechanism = iota
	byRlimit           // a limit of the process, which the kernel hands on to its children
	byCgroup           // a cgroup (v2) that the command has for itself
	byPids             // a cgroup of the controller pids (v1) that the command has for itself
)

// controllers are those of cgroup v2 that count here.
type controllers uint8

const (
	cpuController controllers = 1 << iota
	memoryController
	pidsController
)

// means are what a host has to hold limits with.
type means struct {
	holds   bool        // a process can be held back until it has its limits
	cgroup  controllers // those that a cgroup (v2) made here has
	pids    bool        // cgroups of the controller pids (v1) can be made
	counted bool        // processes run as a user whose processes the kernel counts: not as root
	ownUser bool        // that user is each sandbox's own, or is counted for each sandbox apart
}

// mechanisms says of each limit what holds it. One that is missing is refused.
type mechanisms map[sandbox.LimitSet]mechanism

// decideLimits decides what holds each limit on a host with these means. A
// limit that only a mechanism of another meaning could hold is refused: what
// counts a user's processes doesn't hold a tree's, nor the other way round, and
// the sum of what processes may have each is not what they may have together.
// Nothing holds a machine's disk: RLIMIT_FSIZE is of one file, and what FS counts leaves out what processes write.
func decideLimits(m means) mechanisms {
	by := mechanisms{}
	if !m.holds {
		return by
	}
	for _, l := range []sandbox.LimitSet{sandbox.LimitProcessCPUTime, sandbox.LimitProcessMemory, sandbox.LimitProcessFileSize} {
		by[l] = byRlimit
	}
	if m.counted && m.ownUser {
		by[sandbox.LimitUserProcesses] = byRlimit
	}
	if m.cgroup&cpuController != 0 {
		by[sandbox.LimitTreeCPU] = byCgroup
	}
	if m.cgroup&memoryController != 0 {
		by[sandbox.LimitTreeMemory] = byCgroup
	}
	switch {
	case m.cgroup&pidsController != 0:
		by[sandbox.LimitTreeProcesses] = byCgroup
	case m.pids:
		by[sandbox.LimitTreeProcesses] = byPids
	}
	return by
}

// held are the limits that something holds.
func (by mechanisms) held() sandbox.LimitSet {
	var all sandbox.LimitSet
	for l, m := range by {
		if m != unheld {
			all |= l
		}
	}
	return all
}
