//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Calls that would mount, trace, load or reboot something fail, whatever the
// program is that makes them. That no shell command succeeds is shown by TestNoPrivileges.
func TestKernelRefuses(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	names := []string{
		"mount", "remount", "umount", "pivot", "chroot", "unshare", "setns", "module", "kexec", "swapon", "settime",
		"sethostname", "bpf", "reboot", "quota", "acct", "setuid", "setgroups", "mknod", "rawsocket", "nice", "oom",
	}
	answers := strings.Split(tool(t, sb)("call "+strings.Join(names, "\ncall ")), "\n")
	for i, name := range names {
		if answers[i] != "no" {
			t.Errorf("%s: %s", name, answers[i])
		}
	}
}

// No process outside the sandbox can be traced or have its memory read: there
// is none whose id leads anywhere, and those of other sandboxes are not there either.
func TestNoTracing(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	other := attach(t, p, create(t, p, "other-g1"))
	start(t, other, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	seen := sh(t, sb, "cat /proc/[0-9]*/comm")
	for name := range strings.FieldsSeq(seen) {
		if name != "bwrap" && name != "sh" && name != "cat" {
			t.Errorf("a process %q is to be seen", name)
		}
	}
	if got := tool(t, sb)("trace " + strconv.Itoa(os.Getpid())); got != "no" {
		t.Errorf("it traces %d: %s", os.Getpid(), got)
	}
}

// What crashes in a sandbox starts no program of the host's that reads its
// core: with this limit the kernel hands none out. It can't be raised.
func TestNoCoreForTheHost(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if out := sh(t, sb, "ulimit -c unlimited 2>/dev/null; grep 'core file' /proc/self/limits | tr -s ' '"); out != "Max core file size 1 1 bytes \n" {
		t.Errorf("it has the limit %q", out)
	}
}

// A key of the host's process is not to be had from a sandbox, in the session's keyring or the user's.
func TestNoKeysOfTheHost(t *testing.T) {
	id, err := unix.AddKey("user", "bunkroom-test", []byte("of-the-host"), unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		return // then there are none, on this kernel
	}
	defer unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if got := tool(t, sb)(fmt.Sprintf("key %d bunkroom-test", id)); got != "no" {
		t.Errorf("it reads %q", got)
	}
}

// Nothing can be typed into a terminal of the host: a process has none to control, though its host may.
func TestNoTerminalOfTheHost(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	if got := tool(t, sb)("type"); got != "no" {
		t.Errorf("it types: %s", got)
	}
	if out := sh(t, sb, "ls -A /dev/pts; cat /proc/self/stat | cut -d' ' -f7"); out != "ptmx\n0\n" {
		t.Errorf("its terminals: %q", out)
	}
}

// Abstract sockets belong to a network. A machine that was restricted reaches none of
// the host's; one that was not reaches them all, as the package comment says.
func TestAbstractSockets(t *testing.T) {
	name := "@bunkroom-test-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := open(t, false)
	ref := create(t, p, "m-g1")
	if got := tool(t, attach(t, p, ref))("unix " + name); got != "yes" {
		t.Errorf("with the host's network: %s", got)
	}
	if !asRoot(t) {
		return
	}
	if _, err := p.Restrict(deadline(t), ref, nil); err != nil {
		t.Fatal(err)
	}
	if got := tool(t, attach(t, p, ref))("unix " + name); !strings.HasPrefix(got, "no: ") {
		t.Errorf("with a network of its own: %s", got)
	}
}

// A socket that has a name in the file system is reached only where that is in the sandbox.
func TestNamedSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "bunkroom-") // in /tmp, which the sandbox has of its own
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := open(t, false)
	inside := tool(t, attach(t, p, create(t, p, "m-g1")))
	for _, name := range []string{name, "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"} {
		if got := inside("unix " + name); !strings.HasPrefix(got, "no: ") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// verdict is "no" where the kernel has refused, and else what it has done.
func verdict(err error) string {
	if err != nil {
		return "no"
	}
	return "done"
}

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

// kernelCalls are calls that a sandbox must not make. None would harm the host if it were made.
func kernelCalls(name string) error {
	switch name {
	case "mount":
		return unix.Mount("none", "/tmp", "tmpfs", 0, "")
	case "remount":
		return unix.Mount("none", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "umount":
		return unix.Unmount("/tmp", unix.MNT_DETACH)
	case "pivot":
		return unix.PivotRoot("/workspace", "/workspace")
	case "chroot":
		return unix.Chroot("/workspace")
	case "unshare":
		return unix.Unshare(unix.CLONE_NEWUSER)
	case "setns":
		f, err := os.Open("/proc/1/ns/mnt")
		if err != nil {
			return err
		}
		return unix.Setns(int(f.Fd()), unix.CLONE_NEWNS)
	case "module":
		return unix.DeleteModule("bunkroom_no_such_module", 0)
	case "kexec":
		return call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)
	case "swapon":
		return call(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(unsafe.StringData("/nothing\x00"))))
	case "settime":
		return unix.Settimeofday(&unix.Timeval{Sec: 1, Usec: -1})
	case "sethostname":
		return unix.Sethostname([]byte("x"))
	case "bpf":
		return call(unix.SYS_BPF, 0, 0, 0)
	case "reboot":
		return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_ON)
	case "quota":
		return call(unix.SYS_QUOTACTL, 0x800002<<8, 0, 0, 0)
	case "acct":
		return unix.Acct("/tmp/nothing")
	case "setuid":
		return call(unix.SYS_SETUID, 0)
	case "setgroups":
		return unix.Setgroups([]int{0})
	case "mknod":
		return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
	case "rawsocket":
		_, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return err
	case "nice":
		return unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	case "oom":
		return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	}
	return nil
}

// kernelTries are what the tests of this file try inside.
var kernelTries = map[string]func(args ...string) string{
	"call": func(a ...string) string { return verdict(kernelCalls(a[0])) },
	"trace": func(a ...string) string {
		pid, _ := strconv.Atoi(a[0])
		if err := unix.PtraceAttach(pid); err == nil {
			return "attached"
		}
		buf := make([]byte, 8)
		local := []unix.Iovec{{Base: &buf[0], Len: 8}}
		_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		return verdict(err)
	},
	"key": func(a ...string) string {
		id, _ := strconv.Atoi(a[0])
		buf := make([]byte, 64)
		if n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0); err == nil {
			return string(buf[:n])
		}
		if found, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", a[1], 0); err == nil {
			return fmt.Sprintf("found %d", found)
		}
		_, err := unix.RequestKey("user", a[1], "", unix.KEY_SPEC_PROCESS_KEYRING)
		return verdict(err)
	},
	"type": func(...string) string {
		for _, name := range []string{"/dev/tty", "/dev/console", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"} {
			f, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
			if err != nil {
				continue
			}
			c := byte('x')
			if call(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))) == nil {
				return "into " + name
			}
		}
		return "no"
	},
	"unix": func(a ...string) string {
		conn, err := net.Dial("unix", a[0])
		if err != nil {
			return "no: " + err.Error()
		}
		conn.Close()
		return "yes"
	},
	"swap": func(a ...string) string { // two names, until it is stopped
		fmt.Println("ready")
		for {
			if err := unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE); err != nil && err != unix.ENOENT {
				return said(err)
			}
		}
	},
	"forge": func(...string) string { // the environment of the init
		text, err := os.ReadFile("/proc/1/stat")
		if err != nil {
			return said(err)
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		from, _ := strconv.ParseInt(f[47], 10, 64) // env_start and env_end, of which the first field here is the third
		to, _ := strconv.ParseInt(f[48], 10, 64)
		nothing := make([]byte, to-from)
		if mem, err := os.OpenFile("/proc/1/mem", os.O_RDWR, 0); err == nil {
			_, err = mem.WriteAt(nothing, from)
			return verdict(err)
		}
		runtime.LockOSThread() // who traces is one thread
		if err := unix.PtraceAttach(1); err != nil {
			return verdict(err)
		}
		if _, err := unix.Wait4(1, nil, unix.WALL, nil); err != nil {
			return verdict(err)
		}
		_, err = unix.PtracePokeData(1, uintptr(from), nothing)
		return verdict(errors.Join(err, unix.PtraceDetach(1)))
	},
	"deep": func(a ...string) string {
		n, _ := strconv.Atoi(a[0])
		for range n {
			if err := os.Mkdir("d", 0o755); err != nil {
				return said(err)
			}
			if err := os.WriteFile("f", nil, 0o644); err != nil {
				return said(err)
			}
			if err := unix.Chdir("d"); err != nil {
				return said(err)
			}
		}
		return "done"
	},
	"handle": func(...string) string {
		// An inode's handle names it to whoever may open it, from any directory of its file system.
		for _, dir := range []string{"/workspace", "/tmp", "/usr"} {
			f, err := os.Open(dir)
			if err != nil {
				continue
			}
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
			if err != nil {
				continue
			}
			if fd, err := unix.OpenByHandleAt(int(f.Fd()), handle, unix.O_RDONLY); err == nil {
				return fmt.Sprintf("opened %d", fd)
			}
		}
		return "no"
	},
}
