//go:build linux

package mount_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// hostRootVar, hostBaseVar and hostKindVar are the variables by which this
// program, run as a child, is a host over a root.
const (
	hostRootVar = "BUNKROOM_TEST_HOST_ROOT"
	hostBaseVar = "BUNKROOM_TEST_HOST_BASE"
	hostKindVar = "BUNKROOM_TEST_HOST_KIND"
)

// diesAt runs a host in another process, which is killed before its nth call
// to the kernel. It is false where the host had not so many, and ended well.
func diesAt(t *testing.T, w *hostWorld, n int) bool {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), hostRootVar+"="+w.config.Root, hostBaseVar+"="+w.server.base, hostKindVar+"="+fmt.Sprint(n))
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("the other host: %v", err)
	}
	return false
}

// shortLife mounts a folder, writes to it, gives it up and closes the host,
// and kills this process before its nth call to the kernel.
func shortLife(n int) int {
	ctx := context.Background()
	server := &fuseServer{base: os.Getenv(hostBaseVar), inside: true, grace: time.Second}
	calls := 0
	var mu sync.Mutex
	h, err := mount.NewHostOn(ctx, mount.HostConfig{Server: server, Root: os.Getenv(hostRootVar)},
		mount.Limits{Probe: 5 * time.Second, FirstDelay: time.Millisecond, MaxDelay: time.Second},
		func(string, string) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == n {
				killSelf()
				select {}
			}
			return nil
		})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m, err := h.Mount(ctx, hostSpec(folderOne))
	if err == nil {
		err = os.WriteFile(filepath.Join(m.HostDir(), "note"), []byte("kept"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(server.base, "written"), []byte("yes"), 0o600)
	}
	if err == nil {
		err = m.Release(ctx)
	}
	if err == nil {
		err = h.Close(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hostChild mounts two folders, writes to them, says where they are and waits for its end.
func hostChild() int {
	ctx := context.Background()
	kind := os.Getenv(hostKindVar)
	if n, err := strconv.Atoi(kind); err == nil {
		return shortLife(n)
	}
	server := &fuseServer{base: os.Getenv(hostBaseVar), inside: kind == "inside"}
	h, err := mount.NewHost(ctx, mount.HostConfig{Server: server, Root: os.Getenv(hostRootVar)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, id := range []mount.ID{folderOne, folderTwo} {
		m, err := h.Mount(ctx, hostSpec(id))
		if err == nil {
			err = os.WriteFile(filepath.Join(m.HostDir(), "note"), []byte(id), 0o600)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("at", m.HostDir())
	}
	for _, one := range server.all() {
		if kind != "inside" {
			fmt.Println("pid", one.cmd.Process.Pid)
		}
		if kind == "hung" {
			one.hang()
		}
	}
	fmt.Println("ready")
	select {}
}

// otherHost is a host in another process.
type otherHost struct {
	cmd  *exec.Cmd
	dirs []string
	pids []int // of what serves
}

func startOther(t *testing.T, w *hostWorld, kind string) *otherHost {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &otherHost{cmd: exec.Command(program)}
	o.cmd.Env = append(os.Environ(), hostRootVar+"="+w.config.Root, hostBaseVar+"="+w.server.base, hostKindVar+"="+kind)
	// Its end shows without waiting for what serves, which may outlive it.
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o.cmd.Stdout, o.cmd.Stderr = in, os.Stderr
	err = o.cmd.Start()
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range o.pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		o.kill()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "at":
			o.dirs = append(o.dirs, rest)
		case "pid":
			var pid int
			fmt.Sscan(rest, &pid)
			o.pids = append(o.pids, pid)
		case "ready":
			return o
		default:
			t.Fatalf("the other host says %q", lines.Text())
		}
	}
	t.Fatal("the other host ended")
	return nil
}

// kill ends it as kill -9 does, and returns once it is gone.
func (o *otherHost) kill() {
	o.cmd.Process.Kill()
	o.cmd.Wait()
}

// A host is killed with folders mounted. What it had mounted is dead (it served
// them itself), served by orphans, or hung. The next host over the same root
// finds and clears it, and has the folders with all that was written.
func TestTheNextHostClearsAfterADeadOne(t *testing.T) {
	for _, kind := range []string{"inside", "orphans", "hung"} {
		t.Run(kind, func(t *testing.T) {
			w := newHostWorld(t)
			w.limits.Probe = time.Second
			dead := startOther(t, w, kind)
			dead.kill()
			for _, dir := range dead.dirs {
				if _, state, _ := mount.Prove(dir); state != mount.Attached {
					t.Fatalf("%s: %s before anything is cleared", dir, state)
				}
			}
			var h *mount.Host
			within(t, "NewHost", func() { h = w.host() })
			if t.Failed() {
				return
			}
			if s := h.Status(t.Context()); len(s.Leftovers) != 0 {
				t.Errorf("leftovers: %+v", s.Leftovers)
			}
			w.gone(filepath.Dir(dead.dirs[0]))
			for _, id := range []mount.ID{folderOne, folderTwo} {
				w.holds(w.mount(h, id), string(id))
			}
			if kind == "orphans" {
				eventually(t, "orphans end once nothing of theirs is mounted", func() bool {
					for _, pid := range dead.pids {
						if alive(pid) {
							return false
						}
					}
					return true
				})
			}
			w.close(h)
			entries, err := os.ReadDir(w.config.Root)
			if err != nil || len(entries) != 0 {
				t.Errorf("the root holds %v, %v", entries, err)
			}
		})
	}
}

// alive reports whether a process that is nobody's to wait for runs.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// The folders of a host that lives are left alone, whoever starts beside it.
func TestALivingHostIsLeftAlone(t *testing.T) {
	w := newHostWorld(t)
	other := startOther(t, w, "orphans")
	h := w.host()
	w.put(w.mount(h, folderOne), "of the second")
	for _, dir := range other.dirs {
		if _, err := os.ReadFile(filepath.Join(dir, "note")); err != nil {
			t.Errorf("the other host's folder: %v", err)
		}
	}
	other.kill()
	third := w.host()
	w.gone(filepath.Dir(other.dirs[0]))
	w.holds(w.mount(third, folderOne), "of the second")
	w.holds(w.mount(h, folderOne), "of the second")
}

// What can't be cleared is told, stays, and keeps nobody from starting; what is not ours is not touched.
func TestLeftovers(t *testing.T) {
	w := newHostWorld(t)
	mkdir := func(name string, mode os.FileMode) string {
		dir := filepath.Join(w.config.Root, name)
		if err := os.MkdirAll(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write := func(name string) string {
		file := filepath.Join(w.config.Root, name)
		if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	mkdir("1-0123456789ab/empty", 0o700)
	empty := write("1-0123456789ab.lock")
	full := mkdir("2-0123456789ab/full", 0o700)
	write("2-0123456789ab/full/file")
	fullLock := write("2-0123456789ab.lock")
	unlocked := mkdir("3-0123456789ab", 0o700)
	foreign := mkdir("lost+found", 0o700)
	lone := write("4-0123456789ab.lock")
	foreignLock := write("apt.lock")

	got := map[string]bool{}
	for _, l := range w.host().Status(t.Context()).Leftovers {
		if l.Err == nil {
			t.Errorf("%s without a reason", l.Dir)
		}
		got[l.Dir] = true
	}
	if len(got) != 2 || !got[full] || !got[unlocked] {
		t.Errorf("leftovers %v", got)
	}
	w.wantLogged("level=ERROR", "leftover of a dead process not cleared", full)
	for _, stays := range []string{filepath.Join(full, "file"), fullLock, unlocked, foreign, foreignLock} {
		if _, err := os.Lstat(stays); err != nil {
			t.Errorf("it should stay: %v", err)
		}
	}
	for _, goes := range []string{empty, strings.TrimSuffix(empty, ".lock"), lone} {
		if _, err := os.Lstat(goes); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", goes, err)
		}
	}
}
