//go:build linux

package local_test

import (
	"os"
	"os/exec"
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

// Unconfined, what has left its session, lost its parent and cleared its
// environment is found by its cgroup, by Close and by Destroy (case 12).
func TestEscapedIsFoundByCgroup(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	pidsCgroups(t, p)
	ref := create(t, p, "m-g1")
	alive := filepath.Join(root, "machines", "m-g1", "workspace", "alive")
	limits := sandbox.Limits{TreeProcesses: 20}
	for name, end := range map[string]func(sandbox.Process) error{
		"Close":   func(proc sandbox.Process) error { return proc.Close() },
		"Destroy": func(sandbox.Process) error { return p.Destroy(deadline(t), ref) },
	} {
		ref = create(t, p, "m-g1")
		proc, err := attach(t, p, ref).Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", escaping, "sh", "alive"}, Limits: limits, Detached: name == "Destroy"})
		if err != nil {
			t.Fatal(err)
		}
		wait(t, proc)
		eventually(t, "it beats", func() bool { return beats(alive) })
		left := pidsCgroups(t, p)
		if len(left) != 1 {
			t.Fatalf("it is in %q", left)
		}
		if err := end(proc); err != nil {
			t.Fatal(err)
		}
		if left := pidsCgroups(t, p); len(left) != 0 {
			t.Errorf("after %s it lives on in %q", name, left)
		}
	}
}

// Unconfined, Destroy ends what was started with a tag and has escaped so by
// the mark that the kernel keeps, also where another process has started it (case 12).
func TestDestroyEndsWhatHasATag(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	ref := create(t, p, "m-g1")
	name := "alive-" + string(ref.Incarnation)
	alive := filepath.Join(root, "machines", "m-g1", "workspace", name)
	wait(t, detached(t, attach(t, p, ref), "..", escaping, name))
	eventually(t, "it beats", func() bool { return beats(alive) })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if !beats(alive) {
		t.Error("what is detached has ended with the provider")
	}
	if err := openAt(t, root, true).Destroy(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing with its mark lives", func() bool {
		out, err := exec.Command("pgrep", "-f", "0.02; done sh "+name).Output()
		return err != nil && len(out) == 0
	})
}

// What a process of the host leaves that dies by kill -9 is removed by the
// next New, or List, once nothing lives in it, and by Destroy.
func TestCgroupsOfTheDead(t *testing.T) {
	limits := sandbox.Limits{TreeProcesses: 20}
	actHost(t, limits)
	for _, mode := range []string{"confined", "listed", "unconfined"} {
		root := t.TempDir()
		p := openAt(t, root, mode == "unconfined")
		pidsCgroups(t, p)
		workspace := hostProcess(t, root, mode)
		switch mode {
		case "confined":
			eventually(t, "nothing beats any more", func() bool { return !beats(filepath.Join(workspace, "beat")) })
			openAt(t, root, false)
		case "listed":
			eventually(t, "nothing beats any more", func() bool { return !beats(filepath.Join(workspace, "beat")) })
			for _, err := range p.List(deadline(t), "any") {
				t.Errorf("list: %v", err)
			}
		case "unconfined":
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
