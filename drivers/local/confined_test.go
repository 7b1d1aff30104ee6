//go:build linux

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Nothing of the host is visible but the system's programs.
func TestNothingOfTheHost(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, false)
	sb := attach(t, p, create(t, p, "mine-g1"))
	other := attach(t, p, create(t, p, "other-g1"))
	if err := sandbox.WriteFile(deadline(t), other.FS(), "secret", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}

	allowed := strings.Fields("bin dev etc lib lib32 lib64 libx32 proc run sbin tmp usr var workspace workspace-agent")
	for _, name := range strings.Fields(sh(t, sb, "ls -A /")) {
		if !slices.Contains(allowed, name) {
			t.Errorf("/%s is visible", name)
		}
	}
	for _, hidden := range []string{root, "/root", "/home", "/sys", "/etc/shadow", "/etc/ssl/private", "/etc/ssh", "/etc/sudoers", "/var/lib", "/var/log", "/dev/mem", "/dev/kmsg"} {
		if out := sh(t, sb, "ls -d "+hidden+" 2>/dev/null || true"); out != "" {
			t.Errorf("%s is visible", hidden)
		}
	}
	for _, empty := range []string{"/tmp", "/run", "/workspace", "/workspace-agent", "/dev/shm"} {
		if out := sh(t, sb, "ls -A "+empty); out != "" {
			t.Errorf("%s holds %q", empty, out)
		}
	}
	// test -w asks the kernel and writes nothing, which matters where a failure would be an escape.
	for _, fixed := range []string{"/", "/usr", "/usr/bin/env", "/etc", "/etc/passwd", "/etc/resolv.conf", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/mtrr", "/proc/kcore"} {
		if out := sh(t, sb, "test -w "+fixed+" && echo yes || true"); out != "" {
			t.Errorf("%s can be written", fixed)
		}
	}
	if os.Geteuid() == 0 {
		if out := sh(t, sb, "cat /proc/kpageflags /proc/slabinfo /proc/timer_list 2>/dev/null | head -c 1"); out != "" {
			t.Error("files of /proc can be read that are root's alone")
		}
	}
	if out := sh(t, sb, "hostname; id -un; echo $HOME; cat /etc/hostname"); out != "sandbox\nsandbox\n/workspace\nsandbox\n" {
		t.Errorf("a process is told %q", out)
	}
	if out := sh(t, sb, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, root) || strings.Contains(out, os.Args[0]) {
		t.Errorf("processes of the host are visible: %q", out)
	}
}

// A further directory of the host is seen at its own path, and not to be written.
func TestSystem(t *testing.T) {
	open(t, false) // or there is no bubblewrap
	const dir = "/opt"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := local.New(local.Config{Root: t.TempDir(), System: []string{dir + "/"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sb := attach(t, p, create(t, p, "m-g1"))
	if out := sh(t, sb, "test -d "+dir+" && test ! -w "+dir+" && echo seen"); out != "seen\n" {
		t.Errorf("a process is told %q", out)
	}
}

// A confined process has no capability that means anything, can't gain any,
// and can't make namespaces to gain them in.
func TestNoPrivileges(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	status := sh(t, sb, "cat /proc/self/status")
	for _, line := range []string{"NoNewPrivs:\t1", "Uid:\t1000\t1000\t1000\t1000"} {
		if !strings.Contains(status, line) {
			t.Errorf("there is no %q in its status", line)
		}
	}
	for _, try := range []string{"unshare -U true", "unshare -m true", "mount -t tmpfs x /tmp", "mount -o remount,rw /usr", "chroot / true", "hostname x", "setpriv --reuid 0 true"} {
		if out := sh(t, sb, try+" 2>/dev/null && echo done || true"); out != "" {
			t.Errorf("%s succeeded", try)
		}
	}
	if out := sh(t, sb, "grep -v nosuid /proc/self/mountinfo || true"); out != "" {
		t.Errorf("setuid programs count on %q", out)
	}
}

// A process inherits nothing that is open in the host's process, not even what
// has no close-on-exec flag.
func TestNoInheritedFiles(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, f := range []*os.File{r, w} {
		if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETFD, 0); e != 0 {
			t.Fatal(e)
		}
	}
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	out := sh(t, sb, "for p in /proc/1 /proc/2 /proc/$$; do for f in $p/fd/*; do case $f in */0|*/1|*/2) ;; *) readlink $f;; esac; done; done")
	for _, target := range strings.Fields(out) {
		if kind, _, _ := strings.Cut(target, ":"); kind != "user" && kind != "pid" && kind != "anon_inode" { // its own namespaces, and what bubblewrap's init waits on
			t.Errorf("a process has %s open", target)
		}
	}
}

// What one handle binds can't be reached by the processes of another, not
// even through the processes in which it is visible.
func TestBindsStayApart(t *testing.T) {
	p := open(t, false)
	ref := create(t, p, "m-g1")
	one, two := attach(t, p, ref), attach(t, p, ref)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	binder, _ := sandbox.As[sandbox.Binder](one)
	if _, err := binder.Bind(deadline(t), dir, "/workspace-agent/mine"); err != nil {
		t.Fatal(err)
	}
	start(t, one, sandbox.Cmd{Env: []string{"TOKEN=hidden"}}, "cat /workspace-agent/mine/file; echo ready; exec sleep 1000")
	if out := sh(t, two, "ps -e -o comm | grep -c sleep"); out != "1\n" {
		t.Errorf("processes of a machine don't see each other: %q", out)
	}
	const look = "for p in /proc/[0-9]*; do cat $p/root/workspace-agent/mine/file $p/environ; done 2>/dev/null | tr '\\0' '\\n' || true"
	if out := sh(t, two, look); strings.Contains(out, "secret") || strings.Contains(out, "hidden") {
		t.Errorf("a process of another handle reads %q", out)
	}
	if out := sh(t, one, look); !strings.Contains(out, "secret") || !strings.Contains(out, "hidden") {
		t.Errorf("a process of the same handle reads only %q", out)
	}
	sh(t, two, "kill $(pgrep sleep)") // they may end each other
}

// The temporary directory is the machine's own and lasts from process to process.
func TestTempIsTheMachines(t *testing.T) {
	p := open(t, false)
	one, two := attach(t, p, create(t, p, "one-g1")), attach(t, p, create(t, p, "two-g1"))
	sh(t, one, "echo kept >/tmp/file; echo kept >/var/tmp/other")
	if out := sh(t, one, "cat /tmp/file /tmp/other"); out != "kept\nkept\n" {
		t.Errorf("a later process reads %q", out)
	}
	if out := sh(t, two, "ls /tmp"); out != "" {
		t.Errorf("another machine has %q", out)
	}
	if _, err := one.FS().Stat(deadline(t), "/tmp/file"); !errors.Is(err, sandbox.ErrEscapes) {
		t.Errorf("the FS: %v", err)
	}
}

// A named pipe in the sandbox holds up nobody on the host.
func TestNamedPipe(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	sh(t, sb, "mkfifo pipe")
	if _, err := sb.FS().Open(deadline(t), "pipe", nil); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("open: %v", err)
	}
	if info, err := sb.FS().Stat(deadline(t), "pipe"); err != nil || info.Kind != sandbox.KindOther {
		t.Errorf("stat: %+v, %v", info, err)
	}
}

// What people use in a sandbox works in it.
func TestToolsWork(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if out := sh(t, sb, "echo 'a b' | awk '{print $2}'; tar cf x.tar /etc/passwd 2>/dev/null && tar xf x.tar && wc -l <etc/passwd; script -qc 'tty' /dev/null | grep -c /dev/pts"); out != "b\n3\n1\n" {
		t.Errorf("tools: %q", out)
	}
	if strings.TrimSpace(sh(t, sb, "command -v git || true")) == "" {
		need.Missing(t, need.Git, "no git in the sandbox")
	}
	out := sh(t, sb, "git init -q r && cd r && echo x >f && git add f && git -c user.name=n -c user.email=e commit -qm m && git log --format=%s")
	if out != "m\n" {
		t.Errorf("git: %q", out)
	}
}
