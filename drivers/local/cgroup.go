//go:build linux

package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// cgroups are where cgroups can be made, one for each command with a limit of
// its tree.
type cgroups struct {
	dir    string      // of cgroup v2; empty where there is none
	has    controllers // those that a cgroup made in dir has
	pids   string      // of the controller pids of v1; empty where there is none
	prefix string      // what the names of ours begin with
	lock   string      // a file that is locked, shared, from when a cgroup is made until a process is in it
}

// cgroupPrefix is what the names of all begin with, whosever they are.
const cgroupPrefix = "bunkroom-"

// knownControllers are the controllers by their names.
var knownControllers = [...]struct {
	name string
	is   controllers
}{{"cpu", cpuController}, {"memory", memoryController}, {"pids", pidsController}}

// findCgroups finds where cgroups can be made: in delegated, where that is not
// empty, and in the cgroup of the controller pids that this process is in.
func findCgroups(delegated string) (cgroups, error) {
	var c cgroups
	if delegated != "" {
		var st unix.Statfs_t
		if err := unix.Statfs(delegated, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			return c, &access.FieldError{Field: "Cgroup", Rule: "must be a directory of a cgroup v2 file system"}
		}
		c.dir = delegated
		if c.has = passedOn(delegated); c.has == 0 || !canMake(delegated) {
			return c, &access.FieldError{Field: "Cgroup", Rule: "must be delegated to the user this runs as: cgroups can be made in it, and have at least one of the controllers cpu, memory and pids"}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return c, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if dir := pidsDir(mounts, own); dir != "" && canMake(dir) {
		c.pids = dir
	}
	return c, nil
}

// passedOn are the controllers that cgroups made in dir have. Those that it
// has itself and does not pass on yet it is told to.
func passedOn(dir string) controllers {
	file := filepath.Join(dir, "cgroup.subtree_control")
	var has controllers
	for _, c := range knownControllers {
		if !listsWord(file, c.name) && listsWord(filepath.Join(dir, "cgroup.controllers"), c.name) {
			writeKernel(file, "+"+c.name)
		}
		if listsWord(file, c.name) {
			has |= c.is
		}
	}
	return has
}

func listsWord(file, word string) bool {
	b, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(b)), word)
}

// canMake tries whether cgroups can be made in dir.
func canMake(dir string) bool {
	probe, err := os.MkdirTemp(dir, cgroupPrefix+"probe-")
	if err != nil {
		return false
	}
	return os.Remove(probe) == nil
}

// pidsDir is the directory of the cgroup of the controller pids of v1 that a
// process is in, by its /proc/self/mountinfo and /proc/self/cgroup; empty where there is none.
func pidsDir(mounts, own []byte) string {
	in := ""
	for line := range bytes.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "pids") {
			in = f[2]
		}
	}
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); in != "" && lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(kind) < 3 || kind[0] != "cgroup" || !slices.Contains(strings.Split(kind[2], ","), "pids") {
			continue
		}
		if rel, ok := sandbox.PathWithin(f[3], in); ok {
			return filepath.Join(f[4], rel)
		}
	}
	return ""
}

// writeKernel writes to a file of the kernel, which takes it whole or not at all.
func writeKernel(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// group is what one command has for itself.
type group struct{ dirs []string }

// groupName is the name of the cgroups of p.
func (p *process) groupName() string { return string(p.machine.rec.Incarnation) + "-" + p.id }

// setting is what is written to a file of a cgroup.
type setting struct{ file, text string }

// settings are what the cgroup has that is to hold l, in the order in which it is written.
func settings(l sandbox.Limits, by mechanisms, m mechanism) []setting {
	var all []setting
	has := func(limit sandbox.LimitSet, max int64) bool { return max > 0 && by[limit] == m }
	if has(sandbox.LimitTreeCPU, l.TreeCPU) {
		// The least time that the kernel accepts is a millisecond of a period.
		all = append(all, setting{"cpu.max", fmt.Sprintf("%d 100000", max(l.TreeCPU*100, 1000))})
	}
	if has(sandbox.LimitTreeMemory, l.TreeMemory) {
		all = append(all, setting{"memory.max", strconv.FormatInt(l.TreeMemory, 10)}, setting{swapFile, "0"})
	}
	if has(sandbox.LimitTreeProcesses, l.TreeProcesses) {
		all = append(all, setting{"pids.max", strconv.FormatInt(l.TreeProcesses, 10)})
	}
	return all
}

// swapFile is missing where the kernel does not account for swap.
const swapFile = "memory.swap.max"

// hold makes the cgroups that hold l and puts the process pid, which has
// not executed its program yet, into them. nil where none is needed.
func (c cgroups) hold(name string, l sandbox.Limits, by mechanisms, pid int) (_ *group, err error) {
	unlocked := func() {}
	g := &group{}
	defer func() {
		if err != nil {
			g.remove()
		}
		unlocked()
	}()
	for _, in := range []struct {
		parent string
		m      mechanism
	}{{c.dir, byCgroup}, {c.pids, byPids}} {
		all := settings(l, by, in.m)
		if len(all) == 0 {
			continue
		}
		if len(g.dirs) == 0 {
			if unlocked, err = lockFileAt(c.lock, syscall.LOCK_SH); err != nil {
				unlocked = func() {}
				return nil, err
			}
		}
		dir := filepath.Join(in.parent, c.prefix+name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		g.dirs = append(g.dirs, dir)
		for _, s := range all {
			if err := writeKernel(filepath.Join(dir, s.file), s.text); err != nil && !(s.file == swapFile && errors.Is(err, fs.ErrNotExist)) {
				return nil, err
			}
		}
		if err := writeKernel(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return nil, err
		}
	}
	if len(g.dirs) == 0 {
		return nil, nil
	}
	return g, nil
}

// killed reports whether the kernel has killed a process of the group for its memory.
func (g *group) killed() bool {
	if g == nil {
		return false
	}
	for _, dir := range g.dirs {
		b, _ := os.ReadFile(filepath.Join(dir, "memory.events"))
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
				return true
			}
		}
	}
	return false
}

// remove removes the cgroups, in which nothing lives any more. The kernel may
// need a moment to see that; what it has not seen by then is left to a sweep.
func (g *group) remove() {
	if g == nil {
		return
	}
	deadline := time.Now().Add(lastBytes)
	for _, dir := range g.dirs {
		for syscall.Rmdir(dir) == syscall.EBUSY && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
}

// sweep removes those of our cgroups in which nothing lives, whoever made
// them: all, or those of one machine.
func (c cgroups) sweep(incarnation sandbox.Incarnation) {
	if c.dir == "" && c.pids == "" {
		return
	}
	unlock, err := lockFileAt(c.lock, syscall.LOCK_EX)
	if err != nil {
		return
	}
	defer unlock()
	for _, dir := range c.named(string(incarnation)) {
		syscall.Rmdir(dir) // refused where something lives
	}
}

// named lists those of our cgroups whose names go on like this.
func (c cgroups) named(start string) []string {
	var dirs []string
	for _, parent := range []string{c.dir, c.pids} {
		if parent == "" {
			continue
		}
		for _, e := range list(parent) {
			if strings.HasPrefix(e.Name(), c.prefix+start) {
				dirs = append(dirs, filepath.Join(parent, e.Name()))
			}
		}
	}
	return dirs
}

// pids are the ids on the host of the processes in the group.
func (g *group) pids() []int {
	if g == nil {
		return nil
	}
	var pids []int
	for _, dir := range g.dirs {
		b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for word := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil && pid != 0 { // 0 is one that we can't see
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// cgroups finds where cgroups can be made for the machines of the host with this id.
func (c *Config) cgroups(hostID string) (cgroups, error) {
	found, err := findCgroups(c.Cgroup)
	if err != nil {
		return found, err
	}
	found.prefix = cgroupPrefix + hostID + "-"
	found.lock = filepath.Join(c.Root, "cgroups")
	f, err := os.OpenFile(found.lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return found, err
	}
	return found, f.Close()
}
