//go:build linux

package local

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// tree is a process with all it has started in turn. The kernel's mark
// decides where a process has one. Otherwise they are found as far as they
// can be: the first one's session and process group, the descendants of any that was
// found, whoever carries the mark in the environment, and all that are in its cgroup. Without
// one, what cleared its environment, left the session and lost its parents before anybody looked is not found.
type tree struct {
	fs     procfs
	host   bool                        // fs shows the host's processes, which are many
	mark   []string                    // NAME=value, all of them in the environment of each
	sealed func(stat) (is, known bool) // the kernel's mark; nil where there is none
	group  func() []int                // the ids of those in its cgroup; nil where it has none
	pid    int                         // of the first process; 0 where only the mark is known
	birth  time.Time                   // of the first process
	reaped func() bool                 // whether the id of the first process may be another's by now
}

// soon is how long after its birth a tree is looked for only among the ids
// given out since: in so short a time they can't have gone round.
const soon = 500 * time.Millisecond

// living lists the processes of the tree that have not ended.
func (t *tree) living() []stat {
	all, _ := t.look()
	return all
}

// look is living for who must not miss one: an error says that it was not to
// be found out of some whether they belong to the tree.
func (t *tree) look() (living []stat, err error) {
	gone := t.pid == 0 || t.reaped()
	all, err := t.candidates()
	// An id is given out again only once no session and no group has it.
	numbered := t.pid != 0 && !(gone && slices.ContainsFunc(all, func(s stat) bool { return s.pid == t.pid }))
	in := make(map[int]bool, len(all))
	others := map[int]bool{}
	var group []int
	if t.group != nil {
		group = t.group()
	}
	for _, s := range all {
		is, known := false, false
		if t.sealed != nil {
			is, known = t.sealed(s)
		}
		switch {
		case known:
			in[s.pid], others[s.pid] = is, !is
		case slices.Contains(group, s.pid):
			in[s.pid] = true
		case numbered && (s.pid == t.pid || s.session == t.pid || s.pgrp == t.pid):
			in[s.pid] = true
		default:
			has, e := t.fs.marked(s, t.mark)
			in[s.pid], err = has, cmp.Or(err, e)
		}
	}
	for again := true; again; {
		again = false
		for _, s := range all {
			if !in[s.pid] && in[s.ppid] && !others[s.pid] {
				in[s.pid], again = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(s stat) bool { return !in[s.pid] || s.dead() }), err
}

// candidates are the processes that may belong to the tree.
func (t *tree) candidates() (all []stat, err error) {
	var pids []int
	if last, ok := t.few(); ok {
		for pid := t.pid; pid <= last; pid++ {
			pids = append(pids, pid)
		}
	} else {
		pids, err = t.fs.pids()
	}
	all = make([]stat, 0, len(pids))
	for _, pid := range pids {
		s, e := t.fs.stat(pid)
		if e == nil {
			all = append(all, s)
		} else if unknown(e) {
			err = e
		}
	}
	return all, err
}

// few reports whether the processes of the tree can only be among those with
// the ids from the first one's to last, and that these are few.
func (t *tree) few() (last int, ok bool) {
	if !t.host || t.pid == 0 || time.Since(t.birth) > soon {
		return 0, false
	}
	last, err := t.fs.lastPid()
	return last, err == nil && last >= t.pid && last-t.pid < 64
}

// signal sends sig to every process of the tree and reports how many there were.
func (t *tree) signal(sig syscall.Signal) int {
	living := t.living()
	for _, s := range living {
		t.fs.signal(s, sig)
	}
	return len(living)
}

// kill kills every process of the tree until surely none is left, or until
// deadline, and reports whether none was seen any more.
func (t *tree) kill(deadline time.Time) bool {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		n, err := t.killAll()
		if n == 0 && err == nil {
			return true
		}
		if time.Now().After(deadline) {
			return n == 0
		}
		time.Sleep(pause)
	}
}

// ofMachine is everything of an unconfined machine, whose directory is at path.
func (p *Provider) ofMachine(path string, incarnation sandbox.Incarnation) *tree {
	return &tree{
		fs: p.host, host: true, mark: []string{machineVar + "=" + string(incarnation)}, sealed: p.host.tagged(path, incarnation),
		group: func() []int { return (&group{dirs: p.cgroups.named(string(incarnation))}).pids() },
	}
}

// nested reports whether the process pid of the host is in another pid namespace than the host's.
func (p procfs) nested(pid int) bool { return len(p.namespaced(pid)) > 1 }

// inside is the id that the process pid of the host has in its own, innermost pid namespace.
func (p procfs) inside(pid int) (int, error) {
	ids := p.namespaced(pid)
	if len(ids) == 0 {
		return 0, syscall.ESRCH
	}
	return strconv.Atoi(ids[len(ids)-1])
}

// namespaced are the ids a process has, from our pid namespace inwards.
func (p procfs) namespaced(pid int) []string {
	var buf [4096]byte
	b, _ := p.read(strconv.Itoa(pid)+"/status", buf[:])
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(ids)
		}
	}
	return nil
}
