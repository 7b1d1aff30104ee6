//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageDir is where a guise has what is bound into a sandbox: a directory that
// every system has, and that no sandbox sees anything of.
const stageDir = "/tmp"

// guise is how bubblewrap is started as a user who could neither reach nor
// change the files of the machine: in a mount namespace in which they are at
// stageDir, and the host's own files count as this user's. On disk they stay
// the host's, so that it does not matter who has which id, and nothing need be changed for it.
type guise struct {
	uid     int
	owners  *os.File // the user namespace in which the host's id is this user's
	sources []string
	strict  int // so many of the sources must have owners that can be changed; of the rest they stay what they are, where not
}

// from is where the source at path is to be had; a nil guise changes nothing.
func (g *guise) from(path string) string {
	if g != nil {
		for i, s := range g.sources {
			if s == path {
				return filepath.Join(stageDir, strconv.Itoa(i))
			}
		}
	}
	return path
}

// guise is how processes are started beside the init; nil where as the host's own user.
func (i *initProc) guise(v *view, dir string, binds []bind) *guise {
	if i.uid == 0 {
		return nil
	}
	g := &guise{uid: i.uid, owners: i.owners, sources: []string{v.etc, filepath.Join(dir, tempDir), filepath.Join(dir, workDir)}}
	g.strict = len(g.sources)
	for _, b := range binds {
		g.sources = append(g.sources, b.host)
	}
	return g
}

// wear makes the mount namespace of the guise the one of this thread, for good.
func (g *guise) wear() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	trees := make([]int, len(g.sources)) // all before the first is covered
	for i, source := range g.sources {
		tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return &os.PathError{Op: "open_tree", Path: source, Err: err}
		}
		trees[i] = tree
		owned := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(g.owners.Fd())}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &owned); err != nil && i < g.strict {
			return fmt.Errorf("the file system of %s can't have other owners where it is mounted: %w", source, err)
		}
	}
	if err := unix.Mount("bunkroom", stageDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
		return os.NewSyscallError("mount", err)
	}
	for i, tree := range trees {
		at := filepath.Join(stageDir, strconv.Itoa(i))
		err := os.Mkdir(at, 0o755)
		if err == nil {
			err = unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		if err != nil {
			return &os.PathError{Op: "move_mount", Path: g.sources[i], Err: err}
		}
	}
	return nil
}

// ownersOf makes the user namespace in which the host's id is the user's: that
// of a process that would run program, and is ended before its first instruction.
func ownersOf(program string, uid int) (*os.File, error) {
	runtime.LockOSThread() // who traces is one thread, not the process
	defer runtime.UnlockOSThread()
	proc, err := startTraced(program, []string{program}, os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: uid, Size: 1}},
	}})
	if err != nil {
		return nil, err
	}
	owners, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", proc.Pid))
	proc.Kill()
	proc.Wait()
	return owners, err
}
