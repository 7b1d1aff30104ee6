//go:build linux

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// startLimit is how long bubblewrap may take to set up a sandbox.
const startLimit = 30 * time.Second

// initProc is the init of a machine: a process that holds its namespaces.
// Its end, by whatever cause, ends every process in them. It holds one
// end of a pair of sockets whose other end the process of the host has that started it,
// so that the death of that ends it.
type initProc struct {
	pid    int    // as the host sees it
	start  uint64 // and when it started
	fs     procfs // the machine's own /proc
	user   *os.File
	parent *os.File // the user namespace around user, in which mounts are made
	pids   *os.File
	uid    int      // the user of the host that all run as; 0 where it is the host's own
	owners *os.File // see guise; nil where uid is 0
	net    *os.File // where the machine has a network of its own
	unuse  func()   // tells other processes of the host that this one doesn't use the init any more

	network string // the token of the rules it has; empty where its network is the host's

	// What only the process has that started it.
	host   procfs
	hold   *os.File
	proxy  *proxy        // where there is anybody to be reached
	exited chan struct{} // closed when it is gone, and all with it
}

// alive reports whether processes can join the init.
func (i *initProc) alive(host procfs) bool {
	s, err := host.stat(i.pid)
	return err == nil && s.start == i.start && !s.dying()
}

// gone reports whether the init has ended, and everything with it.
func (i *initProc) gone(host procfs) bool {
	s, err := host.stat(i.pid)
	return err != nil || s.start != i.start || s.dead()
}

// kill ends the init and with it everything of the machine, and waits for that.
func (i *initProc) kill(host procfs) error {
	host.signal(stat{pid: i.pid, start: i.start}, syscall.SIGKILL)
	for deadline := time.Now().Add(5 * time.Second); !i.gone(host); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("local: init %d survives being killed", i.pid)
		}
	}
	return nil
}

// close gives up what this process holds of the init, and ends one that it has
// started: what runs inside may have stopped the holder, which then hears of nothing.
func (i *initProc) close() {
	if i.exited != nil && i.pid != 0 {
		i.host.signal(stat{pid: i.pid, start: i.start}, syscall.SIGKILL)
	}
	for _, f := range []*os.File{i.user, i.parent, i.pids, i.owners, i.net, i.hold} {
		if f != nil {
			f.Close()
		}
	}
	if i.proxy != nil {
		i.proxy.close()
	}
	i.fs.close()
	if i.unuse != nil {
		i.unuse()
	}
}

// open takes hold of the namespaces of a running init, and of no other process that has its id by then.
func (i *initProc) open(host procfs, dir, bwrap string) (err error) {
	if i.uid != 0 && i.owners == nil {
		if i.owners, err = ownersOf(bwrap, i.uid); err != nil {
			return err
		}
	}
	proc := "/proc/" + strconv.Itoa(i.pid)
	if i.fs, err = openProcfs(proc + "/root/proc"); err != nil {
		return err
	}
	if i.user, err = os.Open(proc + "/ns/user"); err != nil {
		return err
	}
	if i.pids, err = os.Open(proc + "/ns/pid"); err != nil {
		return err
	}
	if i.network != "" {
		if i.net, err = os.Open(proc + "/ns/net"); err != nil {
			return err
		}
	}
	parent, err := unix.IoctlRetInt(int(i.user.Fd()), unix.NS_GET_PARENT)
	if err != nil {
		return os.NewSyscallError("ioctl", err)
	}
	i.parent = os.NewFile(uintptr(parent), "user namespace")
	if !i.alive(host) {
		return errInitDying
	}
	i.unuse, err = lock(dir, useFile, syscall.LOCK_SH)
	return err
}

// holder is what the init runs. It tells that everything is set up, waits
// for the other end of its input to be closed, and then ends whatever is left.
var holder = [...]string{"sh", "-c", "echo; while read x; do :; done; kill -9 -1"}

// startInit starts the init of the machine m in dir, with the network n, and
// records it. Nothing joins it before its proxy is there.
func (p *Provider) startInit(dir string, m sandbox.Ref, n *network) (*initProc, error) {
	i := &initProc{host: p.host, network: n.token(), exited: make(chan struct{})}
	self, err := p.host.stat(os.Getpid())
	if err != nil {
		return nil, err
	}
	if i.uid, err = p.uidOf(dir, m.Incarnation); err != nil {
		return nil, err
	}
	if i.uid != 0 {
		if i.owners, err = ownersOf(p.bwrap, i.uid); err != nil {
			return nil, err
		}
	}
	monitor, err := i.launch(p, dir, m.Incarnation)
	if err != nil {
		i.close()
		return nil, err
	}
	go i.watch(p.host, monitor)
	err = i.open(p.host, dir, p.bwrap)
	if err == nil && n.proxied() {
		i.proxy, err = serveProxy(i.net, m, n.Rules, p.proxy)
	}
	if err == nil {
		err = recordInit(dir, initRecord{PID: i.pid, Start: i.start, UID: i.uid, Host: self.pid, Since: self.start, Boot: p.host.boot(), Network: i.network})
	}
	if err != nil {
		i.close()
		<-i.exited
		return nil, err
	}
	if i.proxy != nil {
		go func() {
			<-i.exited // however it ends
			i.proxy.close()
		}()
	}
	return i, nil
}

// launch starts bubblewrap, and returns its monitor once everything is set up.
func (i *initProc) launch(p *Provider, dir string, incarnation sandbox.Incarnation) (_ *os.Process, err error) {
	as := i.guise(p.view, dir, nil)
	args, err := argFile(p.view.initArgs(as, i.network != ""))
	if err != nil {
		return nil, err
	}
	said, err := memFile("stderr")
	if err != nil {
		args.Close()
		return nil, err
	}
	// A file, which is whole before the holder runs. Into a pipe that nobody
	// reads, because this process was killed, bubblewrap's monitor would die writing, and leave a child that waits for it for ever.
	info, err := memFile("info")
	if err != nil {
		args.Close()
		said.Close()
		return nil, err
	}
	calls, err := p.view.filterFile()
	if err != nil {
		args.Close()
		said.Close()
		info.Close()
		return nil, err
	}
	files := []*os.File{args, said, info, calls}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				files = append(files, r, w)
			}
		}
		return r, w
	}
	echo, stdout := pipe()
	stdin, hold, e := socketPair() // unlike a pipe, nobody can open it again through /proc
	if e == nil {
		files = append(files, stdin, hold)
	}
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	monitor, err := spawn(nil, p.bwrap, append([]string{"bwrap", "--args", "3", "--info-fd", "4", "--seccomp", "5", "--"}, holder[:]...),
		[]string{machineVar + "=" + string(incarnation)}, []*os.File{stdin, stdout, said, args, info, calls}, as, nil)
	if err != nil {
		return nil, err
	}
	stdout.Close()
	if err = i.ready(p.host, echo, info); err != nil {
		half := &tree{fs: p.host, host: true, pid: monitor.Pid, birth: time.Now(), reaped: func() bool { return false }}
		half.kill(time.Now().Add(stopMargin))
		monitor.Wait()
		text := make([]byte, 1024)
		n, _ := said.ReadAt(text, 0)
		return nil, fmt.Errorf("local: init: %w: %s", err, strings.TrimSpace(string(text[:n])))
	}
	i.hold = hold
	files = slices.DeleteFunc(files, func(f *os.File) bool { return f == hold })
	return monitor, nil
}

// ready waits until the holder runs, and learns the init's id.
func (i *initProc) ready(host procfs, echo, info *os.File) error {
	deadline := time.Now().Add(startLimit)
	echo.SetReadDeadline(deadline)
	if _, err := io.ReadFull(echo, make([]byte, 1)); err != nil {
		return err
	}
	var started struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(io.NewSectionReader(info, 0, 1<<16)).Decode(&started); err != nil {
		return err
	}
	s, err := host.stat(started.PID)
	i.pid, i.start = s.pid, s.start
	return err
}

// watch waits for the end of the init. Bubblewrap's monitor ends with the
// holder, which anything in the machine can kill; the rest must go with it.
func (i *initProc) watch(host procfs, monitor *os.Process) {
	monitor.Wait()
	for ; !i.gone(host); time.Sleep(time.Millisecond) {
		host.signal(stat{pid: i.pid, start: i.start}, syscall.SIGKILL)
	}
	close(i.exited)
}
