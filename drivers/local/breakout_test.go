//go:build linux

package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// What a process tries that wants out of its sandbox, and does not get. What
// is shown elsewhere is not repeated here: what can be seen of the host
// (TestNothingOfTheHost), capabilities, namespaces, mounts and setuid bits
// (TestNoPrivileges), open files (TestNoInheritedFiles), what other handles
// have bound (TestBindsStayApart), links that are swapped while the FS works
// (the check Escapes/Swapped of sandboxtest), the init (TestInitKilledFromInside).

// No process of the host gets a signal from a sandbox: none is there by its id, and none in kill -1.
func TestNoSignalsToTheHost(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	other := start(t, attach(t, p, create(t, p, "other-g1")), sandbox.Cmd{}, "echo ready; exec sleep 1000")
	bystander := exec.Command("sleep", "1000") // with the user id that the sandbox has outside
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Wait()
	defer bystander.Process.Kill()
	pids := []string{strconv.Itoa(os.Getpid()), strconv.Itoa(os.Getppid()), strconv.Itoa(bystander.Process.Pid)}
	if out := sh(t, sb, "for p in "+strings.Join(pids, " ")+"; do kill -0 $p 2>/dev/null && tr '\\0' ' ' </proc/$p/cmdline; done; true"); strings.Contains(out, "sleep 1000") || strings.Contains(out, os.Args[0]) {
		t.Errorf("a process of the host can be signalled: %q", out)
	}
	killer, err := sb.Start(deadline(t), sandbox.Cmd{Argv: []string{"sh", "-c", "kill -9 -1; kill -9 " + strings.Join(pids, " ")}})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, killer)
	killer.Close()
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of the host: %v", err)
	}
	if err := other.Signal(deadline(t), sandbox.SignalInt); err != nil {
		t.Error(err)
	}
	if exit := wait(t, other); exit.Reason != sandbox.Cancelled { // by us, just now
		t.Errorf("a process of another sandbox: %+v", exit)
	}
}

// A machine's init can't be disowned: what runs in the machine may write to its
// memory, as to that of any process there, and make its environment another. Who looks from outside
// knows it all the same, and ends all that runs with it.
func TestInitCantBeDisowned(t *testing.T) {
	root := t.TempDir()
	a, b := openAt(t, root, false), openAt(t, root, false)
	ref := create(t, a, "m-g1")
	sb := attach(t, a, ref)
	runs := start(t, sb, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	t.Logf("the environment of the init is overwritten: %s", tool(t, sb)("forge"))
	if found, err := b.Inspect(deadline(t), ref); err != nil || len(found) != 1 || found[0].Status != sandbox.StatusRunning {
		t.Errorf("to another process of the host it is %v, %v", found, err)
	}
	if err := b.Destroy(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, runs); exit.Code != 137 {
		t.Errorf("what ran in it: %+v", exit)
	}
}

// The environment of the host's process is not that of a sandbox, and neither
// is it found in /proc, of the command's own process or of bubblewrap's before it (spec 9.4).
func TestNoHostEnvironment(t *testing.T) {
	t.Setenv("BUNKROOM_TEST_SECRET", "of-the-host")
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if out := sh(t, sb, "env; cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ | tr '\\0' '\\n'"); strings.Contains(out, "of-the-host") {
		t.Errorf("it is told %q", out)
	}
	for name := range strings.FieldsSeq(sh(t, sb, "env | cut -d= -f1")) {
		switch name {
		case "PATH", "HOME", "LANG", "TERM", "PWD", "SHLVL", "_", "OLDPWD", "BUNKROOM_MACHINE", "BUNKROOM_PROCESS":
		default:
			t.Errorf("it has a variable %s", name)
		}
	}
}

// Another sandbox's files are not to be had: not by its path on the host, not by a
// hard link, not through /proc, not by an id of an inode.
func TestNoFilesOfOthers(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	sb, other := attach(t, p, create(t, p, "mine-g1")), attach(t, p, create(t, p, "other-g1"))
	sh(t, other, "echo of-the-other >secret; chmod 644 secret")
	runs := start(t, other, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	defer runs.Close()
	secret := filepath.Join(root, "machines", "other-g1", "workspace", "secret")
	if b, err := os.ReadFile(secret); err != nil || string(b) != "of-the-other\n" {
		t.Fatalf("%q, %v", b, err)
	}
	out := sh(t, sb, fmt.Sprintf(`{ cat %[1]s; ln %[1]s here; ln -s %[1]s link; cat link here
		for p in /proc/[0-9]*; do cat $p/root%[1]s $p/root/workspace/secret $p/cwd/secret; done
		cat /workspace/../machines/other-g1/workspace/secret /proc/self/root/../../%[1]s; } 2>/dev/null || true`, secret))
	if strings.Contains(out, "of-the-other") {
		t.Errorf("it reads %q", out)
	}
	if got := tool(t, sb)("handle"); got != "no" {
		t.Errorf("open_by_handle_at: %s", got)
	}
}

// Devices are those of bubblewrap's /dev: none can be made, and none leads to memory, disks or the kernel's log.
func TestNoDevices(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	allowed := " console core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero "
	for name := range strings.FieldsSeq(sh(t, sb, "ls -A /dev")) {
		if !strings.Contains(allowed, " "+name+" ") {
			t.Errorf("/dev/%s is there", name)
		}
	}
	for _, try := range []string{"mknod /tmp/mem c 1 1", "mknod /workspace/disk b 8 0", "mknod /dev/x c 1 1", "dmesg", "cat /dev/console"} {
		if out := sh(t, sb, "("+try+") >/dev/null 2>&1 </dev/null && echo done || true"); out != "" {
			t.Errorf("%s succeeded", try)
		}
	}
	if out := sh(t, sb, "awk '$5 ~ \"^/(workspace|tmp)\" && $6 !~ /nodev/' /proc/self/mountinfo"); out != "" {
		t.Errorf("device files count on %q", out)
	}
}

// Programs with a setuid bit don't raise anybody: not the system's, and not
// one that the host, or root in another way, has put into the sandbox's files.
func TestSetuidDoesNotRaise(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	sh(t, sb, "cp $(command -v id) id; chmod 6755 id")
	if os.Geteuid() == 0 {
		file := filepath.Join(root, "machines", "m-g1", "workspace", "other")
		b, err := os.ReadFile(filepath.Join(filepath.Dir(file), "id"))
		if err == nil {
			err = os.WriteFile(file, b, 0o755)
		}
		if err == nil {
			err = os.Chown(file, 65534, 65534)
		}
		if err == nil {
			err = os.Chmod(file, 0o755|os.ModeSetuid|os.ModeSetgid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := sh(t, sb, "for f in ./id ./other; do test -e $f && $f -u && $f -g; done; true"); strings.Trim(out, "10\n") != "" || !strings.HasPrefix(out, "1000\n1000\n") {
		t.Errorf("they run as %q", out)
	}
	if out := sh(t, sb, "for f in su sudo passwd mount newgrp; do f=$(command -v $f) && test -u $f && grep -q NoNewPrivs:.1 /proc/self/status && echo $f; done >/dev/null; grep ^CapEff /proc/self/status; su -c id root </dev/null 2>/dev/null && echo raised; true"); strings.Contains(out, "raised") {
		t.Errorf("su: %q", out)
	}
}
