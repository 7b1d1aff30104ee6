//go:build linux

package local

import (
	"slices"
	"strings"
	"syscall"
	"time"
)

// tree is a process with all it has started in turn, as far as it can be
// found: its session and process group, the descendants of any that was
// found, and whoever carries its mark in the environment. What cleared its
// environment, left the session and lost its parents before anybody looked is not found.
type tree struct {
	fs     procfs
	host   bool        // fs shows the host's processes, which are many
	mark   string      // NAME=value in the environment of each
	pid    int         // of the first process; 0 where only the mark is known
	birth  time.Time   // of the first process
	reaped func() bool // whether the id of the first process may be another's by now
}

// soon is how long after its birth a tree is looked for only among the ids
// given out since: in so short a time they can't have gone round.
const soon = 500 * time.Millisecond

// living lists the processes of the tree that have not ended.
func (t *tree) living() []stat {
	gone := t.pid == 0 || t.reaped()
	all := t.candidates()
	// An id is given out again only once no session and no group has it.
	numbered := t.pid != 0 && !(gone && slices.ContainsFunc(all, func(s stat) bool { return s.pid == t.pid }))
	in := make(map[int]bool, len(all))
	for _, s := range all {
		if numbered && (s.pid == t.pid || s.session == t.pid || s.pgrp == t.pid) || t.fs.carries(s.pid, t.mark) {
			in[s.pid] = true
		}
	}
	for again := true; again; {
		again = false
		for _, s := range all {
			if !in[s.pid] && in[s.ppid] {
				in[s.pid], again = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(s stat) bool { return !in[s.pid] || s.dead() })
}

// candidates are the processes that may belong to the tree.
func (t *tree) candidates() []stat {
	var pids []int
	if last, ok := t.few(); ok {
		for pid := t.pid; pid <= last; pid++ {
			pids = append(pids, pid)
		}
	} else {
		pids, _ = t.fs.pids()
	}
	all := make([]stat, 0, len(pids))
	for _, pid := range pids {
		if s, err := t.fs.stat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all
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

// kill kills every process of the tree until none is left, or until deadline.
func (t *tree) kill(deadline time.Time) bool {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if t.signal(syscall.SIGKILL) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// ofMachine is everything of an unconfined machine.
func ofMachine(fs procfs, incarnation string) *tree {
	return &tree{fs: fs, host: true, mark: machineVar + "=" + incarnation}
}

// inside is the id that the process pid of the host has in its own, innermost pid namespace.
func (p procfs) inside(pid string) string {
	var buf [4096]byte
	b, _ := p.read(pid+"/status", buf[:])
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(ids)
			return f[len(f)-1]
		}
	}
	return ""
}
