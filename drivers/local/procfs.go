//go:build linux

package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// procfs is a /proc to look for processes in: the host's or a machine's own.
// Process ids are those of that /proc.
type procfs struct {
	dir  *os.File
	load *os.File // its loadavg, which is read often
}

func openProcfs(path string) (p procfs, err error) {
	if p.dir, err = os.OpenFile(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return p, err
	}
	p.load, err = os.Open(path + "/loadavg")
	return p, err
}

func (p procfs) close() {
	if p.dir != nil {
		p.dir.Close()
	}
	if p.load != nil {
		p.load.Close()
	}
}

// stat is what /proc says of a process.
type stat struct {
	pid, ppid, pgrp, session int
	state                    byte
	flags                    uint64
	threads                  int    // that have not ended, and the first one
	start                    uint64 // in clock ticks since boot; with pid, it identifies a process
}

// Flags of the kernel.
const (
	exiting    = 0x04     // PF_EXITING
	forkNoExec = 0x40     // PF_FORKNOEXEC: forked, and has not executed a program since
	kernel     = 0x200000 // PF_KTHREAD: a thread of the kernel
)

// stopped is the state of a process that was stopped by a signal.
const stopped = 'T'

// dead reports whether the process has ended. One whose first thread has
// ended looks like a zombie for as long as others run.
func (s stat) dead() bool { return (s.state == 'Z' || s.state == 'X') && s.threads < 2 }

// dying reports whether the process is dead or can't but be soon.
func (s stat) dying() bool { return s.dead() || s.flags&exiting != 0 }

// ran reports whether the process has executed a program of its own.
func (s stat) ran() bool { return s.flags&forkNoExec == 0 }

// read returns the beginning of a file below the procfs, up to len(buf) bytes.
func (p procfs) read(name string, buf []byte) ([]byte, error) {
	raw, err := p.dir.SyscallConn()
	if err != nil {
		return nil, err
	}
	n := 0
	if e := raw.Control(func(dir uintptr) { n, err = readAt(int(dir), name, buf) }); e != nil {
		return nil, e
	}
	return buf[:n], err
}

func readAt(dir int, name string, buf []byte) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}

// stat describes a process. An error says that there is none.
func (p procfs) stat(pid int) (stat, error) {
	var buf [512]byte
	b, err := p.read(strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (s stat, err error) {
	end := bytes.LastIndexByte(b, ')') // the name before it may hold anything
	open := bytes.IndexByte(b, ' ')
	if end < 0 || open < 0 {
		return s, syscall.ESRCH
	}
	s.pid, _ = strconv.Atoi(string(b[:open]))
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 {
		return s, syscall.ESRCH
	}
	s.state = f[0][0]
	s.ppid, _ = strconv.Atoi(string(f[1]))
	s.pgrp, _ = strconv.Atoi(string(f[2]))
	s.session, _ = strconv.Atoi(string(f[3]))
	s.flags, _ = strconv.ParseUint(string(f[6]), 10, 64)
	s.threads, _ = strconv.Atoi(string(f[17]))
	s.start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return s, nil
}

// carries reports whether the process s was started with all these entries in its environment.
func (p procfs) carries(s stat, entries ...string) bool {
	has, _ := p.marked(s, entries)
	return has
}

// marked is carries, with an error where this could not be found out though it might have been.
func (p procfs) marked(s stat, entries []string) (has bool, err error) {
	if len(entries) == 0 {
		return false, nil
	}
	for _, at := range p.parts(s) {
		var empty bool
		if has, empty, err = p.has(at+"/environ", entries); has || unknown(err) {
			return has, err
		}
		if empty && s.flags&(kernel|exiting) == 0 && s.state != 'Z' && !p.cleared(at) {
			return false, errExecuting
		}
	}
	return false, nil
}

// errExecuting says that a process had no environment when it was looked at,
// for it was about to execute a program: it may be marked.
var errExecuting = errors.New("it executes a program")

// cleared reports whether the process whose directory is at was started with
// an empty environment, or has ended.
func (p procfs) cleared(at string) bool {
	var buf [1024]byte
	b, err := p.read(at+"/stat", buf[:])
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if err != nil || len(f) < 49 {
		return true
	}
	// While a program is executed the environment is empty for a moment. Where
	// its code is becomes known only when all else is.
	code, start, end := string(f[23]), string(f[47]), string(f[48])
	return code != "0" && start == end && end != "0"
}

// unknown reports whether an error of /proc says neither that there is no such
// process nor that it is another user's.
func unknown(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ESRCH)
}

// parts are the directories that tell of a process: its own or, where its
// first thread has ended, those of all its threads.
func (p procfs) parts(s stat) []string {
	own := strconv.Itoa(s.pid)
	if s.state != 'Z' {
		return []string{own}
	}
	tids, _ := p.ids(own + "/task")
	all := make([]string, len(tids))
	for i, tid := range tids {
		all[i] = own + "/task/" + strconv.Itoa(tid)
	}
	return all
}

// has reports whether a file holds all these entries, and whether it holds nothing.
func (p procfs) has(environ string, entries []string) (has, empty bool, err error) {
	for size := 16 << 10; ; size *= 4 {
		b, err := p.read(environ, make([]byte, size))
		if err != nil {
			return false, false, err
		}
		if !slices.ContainsFunc(entries, func(e string) bool { return !hasEntry(b, e) }) {
			return true, false, nil
		}
		if len(b) < size || size > 4<<20 {
			return false, len(b) == 0, nil
		}
	}
}

func hasEntry(environ []byte, mark string) bool {
	for e := range bytes.SplitSeq(environ, []byte{0}) {
		if mark != "" && string(e) == mark {
			return true
		}
	}
	return false
}

// readlink returns the text of a link below the procfs.
func (p procfs) readlink(name string) (string, error) {
	raw, err := p.dir.SyscallConn()
	if err != nil {
		return "", err
	}
	var buf [256]byte
	n := 0
	if e := raw.Control(func(dir uintptr) { n, err = unix.Readlinkat(int(dir), name, buf[:]) }); e != nil {
		return "", e
	}
	return string(buf[:max(n, 0)]), err
}

// pids lists the ids of all processes.
func (p procfs) pids() ([]int, error) { return p.ids(".") }

// ids lists the numbers among the entries of a directory below the procfs.
func (p procfs) ids(name string) ([]int, error) {
	raw, err := p.dir.SyscallConn()
	if err != nil {
		return nil, err
	}
	var list *os.File
	if e := raw.Control(func(dir uintptr) {
		var fd int
		if fd, err = unix.Openat(int(dir), name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			list = os.NewFile(uintptr(fd), "proc")
		}
	}); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	defer list.Close()
	names, err := list.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, e := strconv.Atoi(name); e == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, err
}

// signal sends sig to the process that s describes, and to no other that has
// its id by now.
func (p procfs) signal(s stat, sig syscall.Signal) {
	raw, err := p.dir.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(dir uintptr) {
		fd, err := unix.Openat(int(dir), strconv.Itoa(s.pid), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		var buf [512]byte
		n, err := readAt(fd, "stat", buf[:])
		if err != nil {
			return
		}
		if now, err := parseStat(buf[:n]); err == nil && now.start == s.start {
			unix.PidfdSendSignal(fd, sig, nil, 0) // a directory of /proc serves as a pidfd
		}
	})
}

// kill kills processes.
func (p procfs) kill(all []stat) {
	for _, s := range all {
		p.signal(s, syscall.SIGKILL)
	}
}

// boot is another after each start of the host; empty where that can't be read.
func (p procfs) boot() string {
	var buf [64]byte
	b, _ := p.read("sys/kernel/random/boot_id", buf[:])
	return string(bytes.TrimSpace(b))
}

// lastPid is the id that the host gave out last.
func (p procfs) lastPid() (int, error) {
	var buf [128]byte
	n, err := p.load.ReadAt(buf[:], 0)
	f := bytes.Fields(buf[:n])
	if len(f) < 5 {
		return 0, err
	}
	return strconv.Atoi(string(f[4]))
}
