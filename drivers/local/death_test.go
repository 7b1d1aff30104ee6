//go:build linux

package local_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

// roleVar tells the test binary, started by a test, to be the host's process that dies.
const roleVar = "BUNKROOM_TEST_HOST"

// hostProcess runs the test t once more in a process of its own, as the host
// that is told to attach a machine below root and to start a beating process,
// and kills it.
func hostProcess(t *testing.T, root, mode string) (workspace string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(exe, "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), roleVar+"="+mode+":"+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.Contains(lines.Text(), "started") {
			return filepath.Join(root, "machines", "m-g1", "workspace")
		}
	}
	t.Fatalf("the host's process ended early:\n%s", said.String())
	return ""
}

// actHost is what that process does, which starts a process with limits: it never returns.
func actHost(t *testing.T, limits sandbox.Limits) {
	mode, root, ok := strings.Cut(os.Getenv(roleVar), ":")
	if !ok {
		return
	}
	var p *local.Provider
	if mode == "apart" {
		p = apart(t, root, testUIDs)
	} else {
		p = openAt(t, root, mode == "unconfined")
	}
	sb := attach(t, p, create(t, p, "m-g1"))
	switch mode {
	case "attached":
	case "ran":
		sh(t, sb, "true")
	default:
		start(t, sb, sandbox.Cmd{Detached: true, Limits: limits}, "setsid "+"sh -c '"+beating+"' & "+beating)
	}
	fmt.Println("started")
	select {}
}

// The death of the host's process, by kill -9, ends a confined machine and
// everything in it, detached or not. Its files stay.
func TestHostDiesConfined(t *testing.T) {
	actHost(t, sandbox.Limits{})
	root := t.TempDir()
	openAt(t, root, false) // or there is no bubblewrap
	workspace := hostProcess(t, root, "confined")
	eventually(t, "nothing beats any more", func() bool { return !beats(filepath.Join(workspace, "beat")) })
	p := openAt(t, root, false)
	m, err := p.Create(deadline(t), sandbox.CreateRequest{Name: "m-g1"})
	if err != nil || !m.Adopted {
		t.Fatalf("create: %+v, %v", m, err)
	}
	// No pipeline: what comes after ps may or may not run by the time that ps looks.
	there := strings.Fields(sh(t, attach(t, p, m.Ref), `all=$(ps -e -o comm=); echo "$all"`))
	slices.Sort(there)
	if there = slices.Compact(there); !slices.Equal(there, []string{"bwrap", "ps", "sh"}) {
		t.Errorf("in the machine there is %q", there)
	}
}

// A host's process that dies while nothing runs in its machines leaves nothing
// either, be there an init or not, and the next one goes on with them.
func TestHostDiesIdle(t *testing.T) {
	actHost(t, sandbox.Limits{})
	for _, mode := range []string{"attached", "ran"} {
		t.Run(mode, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, false)
			ref := create(t, p, "m-g1")
			hostProcess(t, root, mode)
			eventually(t, "no process is left", func() bool { return len(processesOf(t, ref)) == 0 })
			if found, err := p.Inspect(deadline(t), ref); err != nil || len(found) != 1 || found[0].Status != sandbox.StatusStopped {
				t.Errorf("inspect: %v, %v", found, err)
			}
			sh(t, attach(t, p, ref), "true")
		})
	}
}

// processesOf lists the processes on the host that name the machine in their environment.
func processesOf(t *testing.T, ref sandbox.Ref) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		b, _ := os.ReadFile(path)
		return !strings.Contains(string(b), string(ref.Incarnation))
	})
}

// An unconfined process that is detached outlives the host's process, and ends
// with its machine.
func TestHostDiesUnconfined(t *testing.T) {
	actHost(t, sandbox.Limits{})
	root := t.TempDir()
	workspace := hostProcess(t, root, "unconfined")
	if !beats(filepath.Join(workspace, "beat")) {
		t.Error("a detached process died with the host's")
	}
	p := openAt(t, root, true)
	m, err := p.Create(deadline(t), sandbox.CreateRequest{Name: "m-g1"})
	if err != nil || !m.Adopted {
		t.Fatalf("create: %+v, %v", m, err)
	}
	if err := p.Destroy(deadline(t), m.Ref); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "trash")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if out, err := exec.Command("sh", "-c", "grep -l -a "+string(m.Ref.Incarnation)+" /proc/[0-9]*/environ").Output(); err == nil {
		t.Errorf("processes of the machine are left: %s", out)
	}
}
