//go:build linux

package local_test

import (
	"os"

	"github.com/bunkroom/bunkroom/sandbox"
)

// hostLimits are the limits that are held on every host, and those that this
// one has the means for.
func hostLimits(unconfined bool) sandbox.LimitSet {
	all := sandbox.LimitProcessCPUTime | sandbox.LimitProcessMemory | sandbox.LimitProcessFileSize
	if dir, err := os.MkdirTemp("/sys/fs/cgroup/pids", "bunkroom-test-"); err == nil {
		os.Remove(dir)
		all |= sandbox.LimitTreeProcesses
	}
	if !unconfined && os.Geteuid() != 0 { // then each sandbox's processes are counted apart
		all |= sandbox.LimitUserProcesses
	}
	return all
}
