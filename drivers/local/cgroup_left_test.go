//go:build linux

package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// pidsCgroups lists the cgroups of the controller pids that are of machines below p's root.
func pidsCgroups(t *testing.T, p *local.Provider) []string {
	t.Helper()
	if p.Info().Caps.Limits&sandbox.LimitTreeProcesses == 0 {
		need.Missing(t, need.Pids, "there is no cgroup in which others can be made")
	}
	var left []string
	all, err := os.ReadDir("/sys/fs/cgroup/pids")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), "bunkroom-"+p.Info().Host) {
			left = append(left, e.Name())
		}
	}
	return left
}

// A cgroup is there for as long as something lives in it, and goes with the last.
func TestCgroupsGo(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			p := open(t, unconfined)
			pidsCgroups(t, p)
			ref := create(t, p, "m-g1")
			sb := attach(t, p, ref)
			limits := sandbox.Limits{TreeProcesses: 20}
			proc := start(t, sb, sandbox.Cmd{Limits: limits}, "sleep 1000 >/dev/null 2>&1 & echo ready")
			wait(t, proc)
			if all := pidsCgroups(t, p); len(all) != 1 {
				t.Errorf("what is left in the background is in %q", all)
			}
			if err := proc.Close(); err != nil {
				t.Fatal(err)
			}
			if all := pidsCgroups(t, p); len(all) != 0 {
				t.Errorf("after Close there are %q", all)
			}
			if _, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"/no/such/program"}, Limits: limits}); err == nil {
				t.Error("it was started")
			}
			start(t, sb, sandbox.Cmd{Limits: limits}, "echo ready; sleep 1000")
			if err := p.Destroy(deadline(t), ref); err != nil {
				t.Fatal(err)
			}
			if all := pidsCgroups(t, p); len(all) != 0 {
				t.Errorf("after Destroy there are %q", all)
			}
		})
	}
}

// What a process of the host leaves that dies by kill -9 is removed by the
// next New, or List, once nothing lives in it, and by Destroy.
func TestCgroupsOfTheDead(t *testing.T) {
	limits := sandbox.Limits{TreeProcesses: 20}
	actHost(t, limits)
	for _, mode := range []string{"confined", "unconfined"} {
		root := t.TempDir()
		p := openAt(t, root, mode == "unconfined")
		pidsCgroups(t, p)
		workspace := hostProcess(t, root, mode)
		if mode == "confined" {
			eventually(t, "nothing beats any more", func() bool { return !beats(filepath.Join(workspace, "beat")) })
			openAt(t, root, false)
		} else {
			if openAt(t, root, true); len(pidsCgroups(t, p)) != 1 {
				t.Errorf("what lives on is in %q", pidsCgroups(t, p))
			}
			if err := p.Destroy(deadline(t), create(t, p, "m-g1")); err != nil {
				t.Fatal(err)
			}
		}
		if all := pidsCgroups(t, p); len(all) != 0 {
			t.Errorf("%s: left are %q", mode, all)
		}
	}
}
