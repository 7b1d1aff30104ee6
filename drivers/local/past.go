//go:build linux

package local

import (
	"slices"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// How much is kept of the processes of one machine that have ended: so many,
// with so much output in all, for so long. The latest is kept in any case.
const (
	pastProcesses = 64
	pastOutput    = 2 << 20
	pastTime      = 10 * time.Minute
)

// past is the processes of all machines that have ended, for a while. They
// are not their machine's, which is given up when nobody uses it.
type past struct {
	mu     sync.Mutex
	closed bool
	of     map[sandbox.Incarnation][]*bygone // the latest last
}

// bygone is a process that has ended.
type bygone struct {
	*process
	size  int
	timer *time.Timer // forgets it
}

// add keeps p, and no more of its machine's than there may be.
func (h *past) add(machine sandbox.Incarnation, p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	b := &bygone{process: p, size: p.out.size()}
	b.timer = time.AfterFunc(pastTime, func() { h.forget(machine, b) })
	list := append(h.of[machine], b)
	size := 0
	for _, b := range list {
		size += b.size
	}
	for len(list) > pastProcesses || len(list) > 1 && size > pastOutput {
		list[0].timer.Stop()
		size -= list[0].size
		list = slices.Delete(list, 0, 1)
	}
	h.of[machine] = list
}

func (h *past) forget(machine sandbox.Incarnation, b *bygone) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.of[machine], func(other *bygone) bool { return other == b })
	if h.of[machine] = left; len(left) == 0 {
		delete(h.of, machine)
	}
}

// list is what is kept of a machine.
func (h *past) list(machine sandbox.Incarnation) []*process {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*process, len(h.of[machine]))
	for i, b := range h.of[machine] {
		list[i] = b.process
	}
	return list
}

// drop forgets all of a machine.
func (h *past) drop(machine sandbox.Incarnation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.of[machine] {
		b.timer.Stop()
	}
	delete(h.of, machine)
}

// close forgets everything, and keeps nothing any more.
func (h *past) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, list := range h.of {
		for _, b := range list {
			b.timer.Stop()
		}
	}
	clear(h.of)
}
