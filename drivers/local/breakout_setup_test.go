//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// A process that is being set up is one of bubblewrap's, whom no filter binds
// yet and who has the host's own /proc open: with that, what runs beside it could name the program that
// the host starts as root for a core dump. It can be neither looked into nor written to.
func TestSetupCantBeEntered(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	tool(t, sb)
	watcher := start(t, sb, sandbox.Cmd{}, insideScript("setup"))
	for seen := ""; seen == ""; {
		seen = sh(t, sb, "cat seen 2>/dev/null || true")
	}
	sh(t, sb, "touch stop")
	wait(t, watcher)
	var out strings.Builder
	for c := range watcher.Output(deadline(t), 0) {
		out.Write(c.Data)
	}
	_, answer, _ := strings.Cut(out.String(), answerBegins)
	answer, _, _ = strings.Cut(answer, answerEnds)
	if answer != "no" {
		t.Errorf("of what was set up meanwhile it enters: %s", answer)
	}
}

// The namespaces that a process is in are open in it. They are of no use:
// none can be entered, and none leads to one further out.
func TestNamespacesOpenNothing(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if got := tool(t, sb)("namespaces"); !strings.HasPrefix(got, "tried ") {
		t.Error(got)
	}
}

// setupTries are what the tests of this file try inside.
var setupTries = map[string]func(args ...string) string{
	"setup": func(...string) string {
		fmt.Println("ready")
		seen := map[string]bool{}
		for {
			if _, err := os.Stat("/workspace/stop"); err == nil {
				return "no"
			}
			if len(seen) >= 20 {
				_ = os.WriteFile("/workspace/seen", []byte("enough"), 0o600)
			}
			processes, _ := filepath.Glob("/proc/[0-9]*")
			for _, dir := range processes {
				for dir != "/proc/1" && named(dir) == "bwrap" { // until it has executed the program
					seen[dir] = true
					if has := opened(dir); has != nil && named(dir) == "bwrap" {
						return fmt.Sprintf("%s, which has %q open", dir, has)
					}
					if _, err := os.OpenFile(dir+"/mem", os.O_RDWR, 0); err == nil && named(dir) == "bwrap" {
						return "the memory of " + dir
					}
				}
			}
		}
	},
	"stop": func(...string) string {
		fmt.Println("ready")
		for {
			processes, _ := filepath.Glob("/proc/[0-9]*")
			for _, dir := range processes {
				if dir != "/proc/1" && named(dir) == "bwrap" {
					pid, _ := strconv.Atoi(filepath.Base(dir))
					unix.Kill(pid, unix.SIGSTOP)
				}
			}
		}
	},
	"namespaces": func(...string) string {
		tried := 0
		for fd := 3; fd < 64; fd++ {
			to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
			if kind, _, _ := strings.Cut(to, ":"); err != nil || kind != "user" && kind != "pid" {
				continue
			}
			tried++
			if err := unix.Setns(fd, 0); err == nil {
				return "it enters " + to
			}
			for _, up := range []uint{unix.NS_GET_PARENT, unix.NS_GET_USERNS} {
				outer, err := unix.IoctlRetInt(fd, up)
				if err != nil {
					continue
				}
				further, err := unix.IoctlRetInt(outer, unix.NS_GET_PARENT)
				if err == nil || unix.Setns(outer, 0) == nil {
					return fmt.Sprintf("%s leads to %d and %d", to, outer, further)
				}
			}
		}
		return fmt.Sprintf("tried %d", tried)
	},
}

// named is the name of the process whose directory is dir.
func named(dir string) string {
	b, _ := os.ReadFile(dir + "/comm")
	return strings.TrimSpace(string(b))
}

// opened is what a process is seen to have open. How many files those are may be seen.
func opened(dir string) (all []string) {
	files, _ := os.ReadDir(dir + "/fd")
	for _, f := range files {
		if to, err := os.Readlink(dir + "/fd/" + f.Name()); err == nil {
			all = append(all, to)
		}
	}
	return all
}

// The init ends when the process of the host does, of which it is told by its
// input. What runs in the machine can't get hold of that, nor make a call through the init that it is denied itself.
func TestInitCantBeUsed(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if out := sh(t, sb, "for p in /proc/1 /proc/2; do for f in 0 1; do if (exec 9>$p/fd/$f) 2>/dev/null; then echo $p/fd/$f; fi; done; done"); strings.Contains(out, "fd/0") {
		t.Errorf("it opens %q", out)
	}
	if out := sh(t, sb, "grep -h Seccomp: /proc/1/status /proc/2/status"); out != "Seccomp:\t2\nSeccomp:\t2\n" {
		t.Errorf("the init and what it waits for have %q", out)
	}
	if out := sh(t, sb, "readlink /proc/2/cwd /proc/2/root /proc/2/fd/0 || true"); out != "" {
		t.Errorf("what the init waits for can be looked into: %q", out)
	}
}

// What runs in a machine may signal what is being set up beside it, but holds up
// nobody by that: not who starts it, and not who destroys the machine meanwhile.
func TestSetupStopped(t *testing.T) {
	p := open(t, false)
	ref := create(t, p, "m-g1")
	sb := attach(t, p, ref)
	tool(t, sb)
	start(t, sb, sandbox.Cmd{}, insideScript("stop"))
	for stopped := false; !stopped; {
		started := make(chan error, 1)
		go func() {
			proc, err := sb.Start(context.Background(), sandbox.Cmd{Argv: []string{"true"}, Timeout: time.Second, KillGrace: time.Millisecond}) // it may be stopped later too
			if err == nil {
				proc.Wait(context.Background())
			}
			started <- err
		}()
		select {
		case err := <-started:
			if stopped = err != nil; stopped && !errors.Is(err, sandbox.ErrNotStarted) {
				t.Errorf("what was stopped as it was set up: %v", err)
			}
		case <-deadline(t).Done():
			t.Fatal("a start is held up")
		}
	}
	if err := p.Destroy(deadline(t), ref); err != nil {
		t.Error(err)
	}
}
