//go:build linux

package local

import (
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// stopMargin is how long after the grace the end of a process may take at
// most: of the second that callers are promised, some is left to them.
const stopMargin = 700 * time.Millisecond

// lastBytes is how long it may take to read what is left in the pipes of processes that were killed.
const lastBytes = 100 * time.Millisecond

// stop ends the process and all it has started: it asks, waits for the grace,
// and kills. It returns at once, with what is closed when that is over. Only the first
// call says why, and only where the process hasn't ended by then.
func (p *process) stop(why sandbox.ExitReason) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil {
		select {
		case <-p.reaped:
		default:
			p.cause = why
		}
		p.stopped = make(chan struct{})
		go p.end()
	}
	return p.stopped
}

func (p *process) end() {
	defer close(p.stopped)
	defer close(p.cut)
	defer p.over()
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	over := false // the grace is
	wait := func(c <-chan struct{}, pause time.Duration) {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-c:
		case <-t.C:
		case <-p.hurry:
			over = true
		case <-grace.C:
			over = true
		}
	}

	asked := p.kin.signal(syscall.SIGTERM)
	if p.size != nil { // a shell that somebody types to hears only this, and what was stopped there nothing
		p.kin.signal(syscall.SIGHUP)
		p.kin.signal(syscall.SIGCONT)
	}
	if asked > 0 {
		wait(p.reaped, p.grace)
	}
	for pause := time.Millisecond; !over; pause = min(2*pause, 20*time.Millisecond) {
		if p.isReaped() && len(p.kin.living()) == 0 {
			return
		}
		wait(nil, pause)
	}
	deadline := time.Now().Add(stopMargin)
	if !p.kin.kill(deadline) {
		p.machine.log.Warn("processes survive being killed", "machine", p.machine.name, "process", p.id)
	}
	select {
	case <-p.reaped:
	case <-time.After(time.Until(deadline)):
	}
}

func (p *process) isReaped() bool {
	select {
	case <-p.reaped:
		return true
	default:
		return false
	}
}
