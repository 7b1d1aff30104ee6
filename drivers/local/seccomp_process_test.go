//go:build linux && (amd64 || arm64)

package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// callsVar tells the test binary, started in a sandbox, to make system calls.
const callsVar = "BUNKROOM_TEST_CALLS"

// tries are calls that would succeed, or fail with another error, if they were not denied.
var tries = [...]struct {
	name   string
	nr     uintptr
	args   [3]uintptr
	denied unix.Errno
}{
	{"mount", unix.SYS_MOUNT, [3]uintptr{}, unix.EPERM},
	{"fsopen", unix.SYS_FSOPEN, [3]uintptr{}, unix.EPERM},
	{"ptrace", unix.SYS_PTRACE, [3]uintptr{unix.PTRACE_TRACEME}, unix.EPERM},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [3]uintptr{}, unix.EPERM},
	{"bpf", unix.SYS_BPF, [3]uintptr{}, unix.EPERM},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [3]uintptr{}, unix.EPERM},
	{"keyctl", unix.SYS_KEYCTL, [3]uintptr{}, unix.EPERM},
	{"userfaultfd", unix.SYS_USERFAULTFD, [3]uintptr{unix.O_CLOEXEC | 1}, unix.EPERM},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [3]uintptr{1}, unix.EPERM},
	{"unshare", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWUSER}, unix.EPERM},
	{"clone", unix.SYS_CLONE, [3]uintptr{unix.CLONE_NEWUSER}, unix.EPERM},
	{"clone3", unix.SYS_CLONE3, [3]uintptr{}, unix.ENOSYS},
	{"setns", unix.SYS_SETNS, [3]uintptr{1 << 20}, unix.EPERM},
	{"adjtimex", unix.SYS_ADJTIMEX, [3]uintptr{}, unix.EPERM},
	{"TIOCSTI", unix.SYS_IOCTL, [3]uintptr{1 << 20, unix.TIOCSTI}, unix.EPERM},
	{"TIOCSETD", unix.SYS_IOCTL, [3]uintptr{1 << 20, unix.TIOCSETD}, unix.EPERM},
	{"F_SETLEASE", unix.SYS_FCNTL, [3]uintptr{1 << 20, unix.F_SETLEASE}, unix.EPERM},
	{"F_SETDELEG", unix.SYS_FCNTL, [3]uintptr{1 << 20, unix.F_SETDELEG}, unix.EPERM},
	{"AF_VSOCK", unix.SYS_SOCKET, [3]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}, unix.EPERM},
	{"AF_ALG", unix.SYS_SOCKET, [3]uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET}, unix.EPERM},
	{"AF_TIPC", unix.SYS_SOCKETPAIR, [3]uintptr{unix.AF_TIPC, unix.SOCK_STREAM}, unix.EPERM},
	{"syslog", unix.SYS_SYSLOG, [3]uintptr{10}, unix.EPERM}, // how much there is
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [3]uintptr{1 << 20}, unix.EPERM},
}

// makeCalls is what that test binary does: it never returns.
func makeCalls() {
	switch os.Getenv(callsVar) {
	case "":
		return
	case "denied":
		for _, c := range tries {
			_, _, err := unix.RawSyscall(c.nr, c.args[0], c.args[1], c.args[2])
			if err != c.denied {
				fmt.Println(c.name, "is answered", err)
			}
		}
		if _, _, err := unix.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0); runtime.GOARCH == "amd64" && err != unix.EPERM {
			fmt.Println("the x32 ABI is answered", err)
		}
		fmt.Println("tried")
	case "foreign":
		// mov eax, 20 (getpid, of i386); int 0x80; ret
		code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		copy(code, "\xb8\x14\x00\x00\x00\xcd\x80\xc3")
		at := &code[0]
		entry := &at
		fn := *(*func())(unsafe.Pointer(&entry))
		fn()
		fmt.Println("returned")
	}
	os.Exit(0)
}

// bring copies the test binary into the working directory of a machine.
func bring(t *testing.T, root, name string) {
	t.Helper()
	copyTo(t, filepath.Join(root, "machines", name, "workspace"))
}

// A confined process is denied the calls that it needs for no work.
func TestCallsAreDenied(t *testing.T) {
	makeCalls()
	root := t.TempDir()
	p := openAt(t, root, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	bring(t, root, "m-g1")
	if out := sh(t, sb, "grep Seccomp: /proc/self/status"); out != "Seccomp:\t2\n" {
		t.Errorf("a process has %q", out)
	}
	if out := sh(t, sb, callsVar+"=denied ./local.test -test.run='^TestCallsAreDenied$'"); out != "tried\n" {
		t.Errorf("of the calls %s", out)
	}
}

// Calls by the numbers of another architecture end the process that makes them.
func TestForeignCallsKill(t *testing.T) {
	makeCalls()
	if runtime.GOARCH != "amd64" {
		return // no other can be called there without a program of its own
	}
	root := t.TempDir()
	p := openAt(t, root, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	bring(t, root, "m-g1")
	exit, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{
		Argv: []string{"./local.test", "-test.run=^TestForeignCallsKill$"}, Env: []string{callsVar + "=foreign"},
	}, nil, nil)
	if err != nil || exit.Reason != sandbox.Signalled || exit.Code != 128+int(unix.SIGSYS) {
		t.Errorf("it ended as %+v, %v", exit, err)
	}
}

// What people build with works in a sandbox: threads, children, sockets and all.
func TestBuildToolsWork(t *testing.T) {
	need.Long(t, "a program is compiled")
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	for _, tool := range []struct{ program, script, want string }{
		{"python3", `python3 -c 'import subprocess, threading, tempfile
t = threading.Thread(target=lambda: print(subprocess.check_output(["echo", "thread"], text=True), end=""))
t.start(); t.join(); tempfile.TemporaryFile().write(b"x")'`, "thread\n"},
		{"node", `node -e 'const c = require("child_process"); new (require("worker_threads").Worker)("console.log(c = 1)", {eval: true}).on("exit", () => console.log(c.execSync("echo child").toString().trim()))'`, "1\nchild\n"},
		{"npm", `npm init -y >/dev/null && npm pkg set scripts.hello="echo hello" && npm run --silent hello`, "hello\n"},
		{"cc", `echo 'int main(void) { return 7; }' >p.c && cc p.c -o p && { ./p; echo $?; }`, "7\n"},
		{"go", `mkdir -p g && cd g && printf 'package main\nfunc main() { println("built") }\n' >main.go && go mod init g 2>/dev/null && GOFLAGS=-p=2 go run . 2>&1`, "built\n"},
	} {
		if strings.TrimSpace(sh(t, sb, "command -v "+tool.program+" || true")) == "" {
			t.Logf("there is no %s in the sandbox", tool.program)
			continue
		}
		if out := sh(t, sb, tool.script); out != tool.want {
			t.Errorf("%s: %q, want %q", tool.program, out, tool.want)
		}
	}
}
