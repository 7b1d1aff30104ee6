//go:build linux

package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// escaping is a script that starts what writes the file $1 again and again,
// in a session of its own, orphaned and with nothing in its environment, and
// is ready once the file is there.
const escaping = `(env -i setsid sh -c 'while :; do echo x >"$1"; /bin/sleep 0.02; done' sh "$1" </dev/null >/dev/null 2>&1 &)
	until test -e "$1"; do sleep 0.01; done; echo ready`

// sharer is the part of another process of the host: it starts what the test
// then reaps, says so, and is killed or stopped.
func sharer(t *testing.T) {
	mode, root, ok := strings.Cut(os.Getenv(roleVar), ":")
	if !ok {
		return
	}
	p := openAt(t, root, mode == "unconfined")
	sb := attach(t, p, create(t, p, "m-g1"))
	for _, tag := range []string{"mine", "other"} {
		start(t, sb, sandbox.Cmd{Tag: tag, Detached: true}, "while :; do echo x >"+tag+"-beat; sleep 0.02; done & echo ready; wait")
		detached(t, sb, tag, escaping, tag+"-escaped")
	}
	start(t, sb, sandbox.Cmd{Detached: true}, "while :; do echo x >none-beat; sleep 0.02; done & echo ready; wait")
	fmt.Println("started")
	select {}
}

// detached starts a script with an argument and waits until it is ready.
func detached(t *testing.T, sb sandbox.Sandbox, tag, script, arg string) sandbox.Process {
	t.Helper()
	p, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", script, "sh", arg}, Tag: tag, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range p.Output(deadline(t), 0) {
		if err != nil || strings.Contains(string(c.Data), "ready") {
			break
		}
	}
	return p
}

// another starts the test once more as another process of the host.
func another(t *testing.T, root, mode string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(exe, "-test.run=^"+top+"$", "-test.v")
	cmd.Env = append(os.Environ(), roleVar+"="+mode+":"+root)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "started" {
			return cmd
		}
	}
	t.Fatal("the host's other process ended early")
	return nil
}

// What another process of the host has started with a tag is ended by that
// tag, whether that process is dead or only stopped: all of it, with what
// left its session, lost its parent and cleared its environment; and nothing else.
func TestReapWhatAnotherStarted(t *testing.T) {
	sharer(t)
	for _, mode := range []string{"confined", "unconfined"} {
		for how, sig := range map[string]syscall.Signal{"Killed": syscall.SIGKILL, "Stopped": syscall.SIGSTOP} {
			t.Run(mode+how, func(t *testing.T) {
				root := t.TempDir()
				p := openAt(t, root, mode == "unconfined")
				ref := create(t, p, "m-g1")
				sb := attach(t, p, ref)
				sh(t, sb, "true") // so that the init is ours, and outlives the other
				cmd := another(t, root, mode)
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				workspace := filepath.Join(root, "machines", "m-g1", "workspace")
				lives := func(name string) {
					t.Helper()
					eventually(t, name+" beats", func() bool { return beats(filepath.Join(workspace, name)) })
				}
				ended := func(name string) {
					t.Helper()
					if beats(filepath.Join(workspace, name)) {
						t.Errorf("%s lives on", name)
					}
				}
				for _, name := range []string{"mine-beat", "mine-escaped", "other-beat", "other-escaped", "none-beat"} {
					lives(name)
				}
				if err := p.Reap(deadline(t), ref, "mine"); err != nil {
					t.Fatal(err)
				}
				ended("mine-beat")
				ended("mine-escaped")
				lives("other-beat")
				lives("other-escaped")
				lives("none-beat")
				if mode == "confined" {
					eventually(t, "the init has reaped them all", func() bool { return sh(t, sb, "ps -e -o stat | grep -c '^Z' || true") == "0\n" })
				}
				for _, tag := range []string{"mine", "other", "no-such"} {
					if err := p.Reap(deadline(t), ref, tag); err != nil {
						t.Errorf("reap %s: %v", tag, err)
					}
				}
				ended("other-beat")
				ended("other-escaped")
				lives("none-beat")
				if err := p.Destroy(deadline(t), ref); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// What this process has started ends as Cancelled; the shared init and other
// handles go on, and the tag can be used again.
func TestReapOurOwn(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			p := open(t, unconfined)
			ref := create(t, p, "m-g1")
			a, b := attach(t, p, ref), attach(t, p, ref)
			one := start(t, a, sandbox.Cmd{Tag: "t"}, "trap '' TERM; echo ready; while :; do sleep 1; done")
			two := start(t, b, sandbox.Cmd{Tag: "t", Detached: true}, "echo ready; exec sleep 1000")
			other := start(t, b, sandbox.Cmd{Tag: "t.2"}, "echo ready; exec sleep 1000")
			if err := p.Reap(deadline(t), ref, "t"); err != nil {
				t.Fatal(err)
			}
			for _, proc := range []sandbox.Process{one, two} {
				if exit := wait(t, proc); exit.Reason != sandbox.Cancelled {
					t.Errorf("%+v", exit)
				}
			}
			short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if exit, err := other.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("another tag's ended too: %+v, %v", exit, err)
			}
			again := start(t, a, sandbox.Cmd{Tag: "t"}, "echo ready; exec sleep 1000")
			if err := p.Reap(deadline(t), ref, "t"); err != nil {
				t.Fatal(err)
			}
			wait(t, again)
		})
	}
}

// Reap wakes nothing: where no init runs nothing does, and nothing is started
// to find that out. Nor does it matter whether the machine is there.
func TestReapNeverWakes(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	ref := create(t, p, "m-g1")
	asleep := func() {
		t.Helper()
		if err := p.Reap(deadline(t), ref, "t"); err != nil {
			t.Error(err)
		}
		if found, err := p.Inspect(deadline(t), ref); err != nil || len(found) != 1 || found[0].Status != sandbox.StatusStopped {
			t.Errorf("inspect: %v, %v", found, err)
		}
	}
	asleep()
	if _, err := os.Stat(filepath.Join(root, "machines", "m-g1", "init.json")); err == nil {
		t.Error("an init was started")
	}
	other := openAt(t, root, false)
	start(t, attach(t, other, ref), sandbox.Cmd{Tag: "t"}, "echo ready; exec sleep 1000")
	if err := other.Close(); err != nil { // its init with it, and what ran there
		t.Fatal(err)
	}
	asleep()
	if err := p.Destroy(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	if err := p.Reap(deadline(t), ref, "t"); err != nil {
		t.Errorf("once it is destroyed: %v", err)
	}
	fresh := create(t, p, "m-g1")
	start(t, attach(t, p, fresh), sandbox.Cmd{Tag: "t"}, "echo ready; exec sleep 1000")
	if err := p.Reap(deadline(t), ref, "t"); err != nil {
		t.Errorf("once it was replaced: %v", err)
	}
	if out := sh(t, attach(t, p, fresh), "ps -e -o comm | grep -c sleep"); out != "1\n" {
		t.Errorf("what runs in the machine that has its name now was ended: %q", out)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Reap(deadline(t), ref, "t"); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A machine that Destroy has not done with is reaped like any other.
func TestReapHalfDestroyed(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	ref := create(t, p, "m-g1")
	proc := start(t, attach(t, p, ref), sandbox.Cmd{Tag: "t"}, "echo ready; exec sleep 1000")
	if err := os.Rename(filepath.Join(root, "machines", "m-g1"), filepath.Join(root, "trash", "m-g1@"+string(ref.Incarnation))); err != nil {
		t.Fatal(err)
	}
	other := open(t, false) // of another root, where it isn't
	if err := other.Reap(deadline(t), sandbox.Ref{Name: ref.Name, Incarnation: ref.Incarnation}, "t"); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	if err := p.Reap(deadline(t), ref, "t"); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, proc); exit.Reason != sandbox.Cancelled {
		t.Errorf("%+v", exit)
	}
}

// The seal of a confined process can't be changed or covered from inside, nor
// be had for a process that was started with another.
func TestSealCantBeChanged(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	out, err := sb.Start(deadline(t), sandbox.Cmd{Tag: "t", Argv: []string{"sh", "-c", `readlink /var/bunkroom.process
		for try in "rm -f /var/bunkroom.process" "ln -sfn x/y /var/bunkroom.process" "mv /var /var2" "mount --bind /tmp /var" \
			"mount -t tmpfs none /var" "unshare -m true" "unshare -Um true" "chroot /tmp /bin/true" "nsenter -t 1 -m true"; do
			$try 2>/dev/null && echo "$try"
		done; true`}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for c, err := range out.Output(deadline(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Stream == sandbox.Stdout {
			text.Write(c.Data)
		}
	}
	if want := out.ID() + "/t\n"; text.String() != want {
		t.Errorf("a process reads and can do %q, want %q", text.String(), want)
	}
}

// Close and Kill of a confined process end what has cleared its environment too.
func TestCloseEndsWhatHasClearedItsEnvironment(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	for _, tag := range []string{"", "t"} {
		proc, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", escaping, "sh", "alive"}, Tag: tag})
		if err != nil {
			t.Fatal(err)
		}
		wait(t, proc)
		alive := filepath.Join(root, "machines", "m-g1", "workspace", "alive")
		eventually(t, "it beats", func() bool { return beats(alive) })
		if err := proc.Close(); err != nil {
			t.Fatal(err)
		}
		if beats(alive) {
			t.Errorf("tag %q: it lives on", tag)
		}
	}
}

// A program with privileges of its own can't be marked by the kernel without
// losing them. What is found of it is ended, and nothing is claimed.
func TestReapDoesNotClaim(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	ref := create(t, p, "m-g1")
	sb := attach(t, p, ref)
	sh(t, sb, "cp $(command -v sleep) ./nap && chmod u+s nap")
	nap, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"./nap", "1000"}, Tag: "t"})
	if err != nil {
		t.Fatal(err)
	}
	start(t, sb, sandbox.Cmd{Tag: "u"}, "echo ready; exec sleep 1000")
	for range 2 {
		if err := p.Reap(deadline(t), ref, "t"); err == nil {
			t.Error("Reap claims that all were found")
		}
	}
	if exit := wait(t, nap); exit.Reason != sandbox.Cancelled {
		t.Errorf("%+v", exit)
	}
	if err := p.Reap(deadline(t), ref, "u"); err != nil {
		t.Errorf("another tag: %v", err)
	}
	if err := p.Destroy(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	if err := p.Reap(deadline(t), ref, "t"); err != nil {
		t.Errorf("once the machine is gone: %v", err)
	}
}

// leaderVar tells the test binary, started in a sandbox, to end its first thread and to go on with others.
const leaderVar = "BUNKROOM_TEST_LEADER"

// A process whose first thread has ended looks like a zombie and runs on. It is ended like any other.
func TestReapWhatLooksLikeAZombie(t *testing.T) {
	if os.Getenv(leaderVar) != "" {
		leaderless()
	}
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, unconfined)
			ref := create(t, p, "m-g1")
			sb := attach(t, p, ref)
			workspace := filepath.Join(root, "machines", "m-g1", "workspace")
			program := copyTo(t, workspace)
			proc := start(t, sb, sandbox.Cmd{Tag: "t"}, "(env -i "+leaderVar+"=1 setsid ./"+filepath.Base(program)+" -test.run='^TestReapWhatLooksLikeAZombie$' >/dev/null 2>&1 </dev/null &) ; echo ready")
			wait(t, proc)
			alive := filepath.Join(workspace, "alive")
			eventually(t, "it runs", func() bool { _, err := os.Stat(alive); return err == nil })
			if err := p.Reap(deadline(t), ref, "t"); err != nil {
				t.Fatal(err)
			}
			if beats(alive) {
				t.Error("it lives on")
			}
		})
	}
}

// leaderless ends the first thread of this process, and then writes the file "alive" for ever.
func leaderless() {
	ended := make(chan struct{})
	var once sync.Once
	for range 100 {
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() {
				once.Do(func() { close(ended) })
				syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread only
			}
			<-ended
		}()
	}
	<-ended
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if stat, err := os.ReadFile("/proc/self/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			os.WriteFile("alive", []byte("x"), 0o644)
		}
	}
}
