//go:build linux

package local

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Where things are inside a confined sandbox.
const (
	insideWork = "/workspace"
	insideUser = "1000" // the user and group id that processes see as theirs
)

// view is what confined processes see of the system, as bubblewrap's
// arguments. Every bind costs a process some tenths of a millisecond to
// start, so there are few.
type view struct {
	system []string
	etc    string
	filter []byte // of system calls, for bubblewrap
}

func makeView(c Config) (*view, error) {
	calls, err := filter(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	etc, err := copyEtc(c.Root)
	if err != nil {
		return nil, err
	}
	a := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(dir)
			if err != nil {
				return nil, err
			}
			a = append(a, "--symlink", target, dir)
		default:
			a = append(a, "--ro-bind", dir, dir)
		}
	}
	a = append(a, "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")
	for _, dir := range c.System {
		a = append(a, "--ro-bind", dir, dir)
	}
	a = append(a,
		"--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--proc", "/proc")
	if os.Geteuid() == 0 {
		a = append(a, hideProc()...)
	}
	return &view{system: append(a, "--dev", "/dev"), etc: etc, filter: calls}, nil
}

// hideProc takes from a sandbox that has root's user id, though not its
// capabilities, what that id alone may do in /proc: nothing there can be
// written, and what others can't read is covered.
func hideProc() []string {
	var a []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode()&0o004 == 0 {
			path := filepath.Join("/proc", e.Name())
			a = append(a, "--ro-bind", "/dev/null", path)
		}
	}
	return append(a, "--remount-ro", "/proc")
}

// initArgs start a machine's init: its namespaces, that of the network where
// it has one of its own, and nothing in them but the system.
func (v *view) initArgs(as *guise, ownNetwork bool) []string {
	namespaces := []string{"--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc"}
	if ownNetwork {
		namespaces = append(namespaces, "--unshare-net")
	}
	return slices.Concat(namespaces, []string{
		"--uid", insideUser, "--gid", insideUser, "--cap-drop", "ALL", "--new-session",
	}, addAll(), v.of(as), []string{"--remount-ro", "/", "--chdir", "/"})
}

// of is what is seen of the system by who is started as in this guise.
func (v *view) of(as *guise) []string {
	return append([]string{"--ro-bind", as.from(v.etc), "/etc"}, v.system...)
}

// processArgs start a process, sealed with seal, beside the init of the machine in dir.
func (v *view) processArgs(as *guise, dir, seal string, binds []bind, workdir string, env []string) []string {
	a := []string{"--unshare-ipc", "--unshare-uts", "--hostname", "sandbox", "--new-session", "--cap-drop", "ALL"}
	a = append(a, addAll()...)
	a = append(a, v.of(as)...)
	a = append(a,
		"--symlink", seal, sealFile,
		"--bind", as.from(filepath.Join(dir, tempDir)), "/tmp",
		"--bind", as.from(filepath.Join(dir, workDir)), insideWork,
		"--dir", insideWork+"-agent")
	for _, b := range binds {
		a = append(a, "--bind", as.from(b.host), b.at)
	}
	a = append(a, "--remount-ro", "/", "--chdir", workdir, "--clearenv")
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		a = append(a, "--setenv", name, value)
	}
	return a
}

// argFile is a file that holds arguments for bubblewrap's --args, so that
// they need not appear in the host's list of processes.
func argFile(args []string) (*os.File, error) {
	return textFile("args", strings.Join(args, "\x00")+"\x00")
}

// textFile is a file that holds a text, and is read from its beginning.
func textFile(name, text string) (*os.File, error) {
	f, err := memFile(name)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString(text); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func memFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
