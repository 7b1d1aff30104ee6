//go:build linux

package local_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
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

// Nothing in a sandbox can raise a limit that it was given, whoever it runs as.
func TestLimitsCantBeRaised(t *testing.T) {
	providers := map[string]*local.Provider{"the host's user": open(t, false)}
	if os.Geteuid() == 0 {
		providers["a user of its own"] = apart(t, t.TempDir(), testUIDs)
	}
	for name, p := range providers {
		sb := attach(t, p, create(t, p, "m-g1"))
		var out bytes.Buffer
		exit, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{
			Argv:   []string{"sh", "-c", "ulimit -v; ulimit -f; ulimit -Ht; for l in v f t; do (ulimit -$l unlimited; ulimit -$l) 2>/dev/null; done; (ulimit -v 900000; ulimit -v)"},
			Limits: sandbox.Limits{ProcessMemory: 1 << 30, ProcessFileSize: 1 << 20, ProcessCPUTime: 9 * time.Second},
		}, &out, nil)
		// Each subshell ends where it is refused, or tells what it has.
		if want := "1048576\n2048\n10\n"; err != nil || !strings.HasPrefix(out.String(), want) || !strings.HasSuffix(out.String(), "\n900000\n") || strings.Contains(out.String(), "unlimited") {
			t.Errorf("as %s: %+v, %v, %q", name, exit, err, out.String())
		}
	}
}

// The first process has its limits before it begins, and others of the
// machine have none of them; unconfined too.
func TestLimitsAreTheCommandsOwn(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		p := open(t, unconfined)
		sb := attach(t, p, create(t, p, "m-g1"))
		limits := sandbox.Limits{ProcessMemory: 1 << 30, ProcessFileSize: 1 << 20}
		var with bytes.Buffer
		if _, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{Argv: []string{"cat", "/proc/self/limits"}, Limits: limits}, &with, nil); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"Max address space 1073741824 1073741824", "Max file size 1048576 1048576"} {
			if !strings.Contains(strings.Join(strings.Fields(with.String()), " "), line) {
				t.Errorf("%s: there is no %q in %s", name, line, with.String())
			}
		}
		if out := sh(t, sb, "ulimit -v; ulimit -f"); out != "unlimited\nunlimited\n" {
			t.Errorf("%s: the next command has %q", name, out)
		}
	}
}

// A program with privileges of its own is not started with limits that it could change.
func TestNoLimitsForThePrivileged(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	sb := attach(t, p, create(t, p, "m-g1"))
	sh(t, sb, "cp /bin/true . && chmod u+s true")
	_, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"./true"}, Limits: sandbox.Limits{ProcessMemory: 1 << 30}})
	if !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "privileges") {
		t.Errorf("start: %v", err)
	}
	if exit, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{Argv: []string{"./true"}}, nil, nil); err != nil || exit.Code != 0 {
		t.Errorf("without limits: %+v, %v", exit, err)
	}
}
