//go:build linux

package local

import (
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// On every host there can be, each limit is held by what has its meaning, or
// refused: never by what counts something else.
func TestDecideLimits(t *testing.T) {
	hosts := 0
	for _, holds := range []bool{false, true} {
		for cgroup := range cpuController | memoryController | pidsController + 1 {
			for _, pids := range []bool{false, true} {
				for _, counted := range []bool{false, true} {
					for _, own := range []bool{false, true} {
						m := means{holds: holds, cgroup: cgroup, pids: pids, counted: counted, ownUser: own}
						checkDecision(t, m, decideLimits(m))
						hosts++
					}
				}
			}
		}
	}
	if hosts != 128 {
		t.Fatalf("%d hosts, want 128", hosts)
	}
}

func checkDecision(t *testing.T, m means, by mechanisms) {
	t.Helper()
	// What may hold each limit, the best first, where the host has it.
	may := map[sandbox.LimitSet][]struct {
		by  mechanism
		has bool
	}{
		sandbox.LimitProcessCPUTime:  {{byRlimit, true}},
		sandbox.LimitProcessMemory:   {{byRlimit, true}},
		sandbox.LimitProcessFileSize: {{byRlimit, true}},
		sandbox.LimitUserProcesses:   {{byRlimit, m.counted && m.ownUser}},
		sandbox.LimitTreeCPU:         {{byCgroup, m.cgroup&cpuController != 0}},
		sandbox.LimitTreeMemory:      {{byCgroup, m.cgroup&memoryController != 0}},
		sandbox.LimitTreeProcesses:   {{byCgroup, m.cgroup&pidsController != 0}, {byPids, m.pids}},
	}
	var held sandbox.LimitSet
	for limit, all := range may {
		want := unheld
		for _, way := range all {
			if m.holds && way.has && want == unheld {
				want = way.by
			}
		}
		if by[limit] != want {
			t.Errorf("%+v: limit %07b is held by %d, want %d", m, limit, by[limit], want)
		}
		if want != unheld {
			held |= limit
		}
	}
	if by.held() != held {
		t.Errorf("%+v: held are %07b, want %07b", m, by.held(), held)
	}
}
