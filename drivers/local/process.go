//go:build linux

package local

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

var (
	_ sandbox.Process      = (*process)(nil)
	_ sandbox.OutputLender = (*process)(nil)
)

// process is one process of a machine with all that it has started.
type process struct {
	id       string
	argv     []string // Cmd.Argv
	tag      string   // Cmd.Tag
	detached bool
	grace    time.Duration
	limits   sandbox.Limits
	group    *group // the cgroups it has for itself; nil where none is needed
	began    time.Time
	machine  *machine
	hostPID  int // the id of the first process on the host
	kin      *tree
	out      output
	size     *sandbox.TerminalSize // of its terminal, at first; nil where it has none
	tty      *os.File              // our end of the terminal
	ttyOpen  *os.File              // the other end, held until the process has ended
	input    *os.File              // what is fed to it; nil where nothing is
	pipes    []*pipe               // its outputs
	script   string                // the file that holds its script, where it is one that must be removed
	shown    bool                  // it has been started; guarded by machine.mu
	forget   func(*process)        // called once nothing of it lives any more

	mu      sync.Mutex
	cause   sandbox.ExitReason // why we are ending it, decided before it ended
	asked   syscall.Signal     // what it was last asked to end with, by Signal
	stopped chan struct{}      // not nil once it is being stopped; closed when that is over
	exit    sandbox.Exit
	err     error

	hurry   chan struct{} // closed when the rest of the grace is not to be waited for
	hurried sync.Once
	reaped  chan struct{} // closed when the first process has ended and was reaped
	cut     chan struct{} // closed when no more output is to be waited for
	done    chan struct{} // closed when exit and err are set and the output is complete

	untimed func() bool // stops the timer of its Timeout
	unwatch func() bool // stops watching its context
}

// outcome is how the first process ended.
type outcome struct {
	code   int
	signal syscall.Signal // 0 where it ended by itself
}

func newProcess(m *machine, c sandbox.Cmd, size *sandbox.TerminalSize, forget func(*process)) *process {
	p := &process{
		id: newID(), size: size, argv: slices.Clone(c.Argv), tag: c.Tag, detached: c.Detached, grace: c.KillGrace, limits: c.Limits, machine: m, forget: forget,
		hurry: make(chan struct{}), reaped: make(chan struct{}), cut: make(chan struct{}), done: make(chan struct{}),
	}
	if p.grace == 0 {
		p.grace = sandbox.DefaultKillGrace
	}
	p.out.limit = c.OutputLimit
	if p.out.limit == 0 {
		p.out.limit = sandbox.DefaultOutputLimit
	}
	return p
}

// watch begins to stop the process when its time is up or its context ends.
func (p *process) watch(ctx context.Context, timeout time.Duration) {
	p.untimed, p.unwatch = func() bool { return true }, func() bool { return true }
	if timeout > 0 {
		p.untimed = time.AfterFunc(timeout, func() { p.stop(sandbox.TimedOut) }).Stop
	}
	if !p.detached && ctx.Done() != nil {
		p.unwatch = context.AfterFunc(ctx, func() { p.stop(sandbox.Cancelled) })
	}
}

// supervise waits for the end of the process and of its output.
func (p *process) supervise(wait func() (outcome, error)) {
	defer p.machine.leave(p)
	o, err := wait()
	ended := time.Now()
	p.mu.Lock()
	close(p.reaped)
	p.exit = sandbox.Exit{Code: o.code, Reason: p.reason(o), Duration: ended.Sub(p.began)}
	p.mu.Unlock()
	if err != nil {
		p.err = fmt.Errorf("%w: process %s: %w", sandbox.ErrLost, p.id, err)
		p.stop(sandbox.ExitUnknown)
	}
	p.untimed()
	p.unplug()
	p.dropScript()
	alone := p.alone() // while the last of the output comes
	p.drain()
	p.disconnect()
	if p.err != nil {
		p.exit = sandbox.Exit{}
	} else {
		p.exit.Stdout, p.exit.Stderr = p.out.totals()
	}
	p.settle(alone)
	p.machine.hasEnded(p)
	close(p.done)
	p.out.finish(p.err) // last, so that whoever has read to the end need not wait
}

// alone reports whether nothing that the process has started lives, once it has ended: then nothing will.
func (p *process) alone() bool { return len(p.kin.living()) == 0 }

// settle finds out whether the process has left anything that must still be stopped.
func (p *process) settle(alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil && (alone || len(p.kin.living()) == 0) {
		p.stopped = make(chan struct{})
		close(p.stopped)
		p.over()
	}
}

// over is called once nothing of the process lives any more.
func (p *process) over() {
	p.unwatch()
	p.group.remove()
	p.forget(p)
}

// drain waits for the end of the output: not for ever where a child holds it
// open, and only for what is in the pipes already once everything was killed.
func (p *process) drain() {
	limit := time.NewTimer(sandbox.DrainLimit)
	defer limit.Stop()
	cut := p.cut
	for _, pipe := range p.pipes {
		for open := true; open; {
			select {
			case <-pipe.ended:
				open = false
			case <-cut:
				cut = nil
				limit.Reset(lastBytes)
			case <-limit.C:
				limit.Reset(0)
				open = false
			}
		}
	}
}

// reason says why the process ended, where it ended like this. p.mu is held.
func (p *process) reason(o outcome) sandbox.ExitReason {
	switch {
	case p.cause != sandbox.ExitUnknown:
		return p.cause
	case p.asked != 0 && (o.signal == p.asked || o.code == 128+int(p.asked)):
		return sandbox.Cancelled
	case o.signal == syscall.SIGKILL && p.machine.standing() != nil:
		return sandbox.SandboxEnded // by another process that uses this root
	case p.overLimit(o):
		return sandbox.LimitReached
	case o.signal != 0:
		return sandbox.Signalled
	}
	return sandbox.Exited
}

func (p *process) ID() string { return p.id }

func (p *process) Output(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return p.read(ctx, from, false)
}

// LendOutput lends the same memory again and again.
func (p *process) LendOutput(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return p.read(ctx, from, true)
}

func (p *process) read(ctx context.Context, from int64, lend bool) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		if from < 0 {
			yield(sandbox.Chunk{}, fmt.Errorf("%w: an offset must not be negative", sandbox.ErrInvalid))
			return
		}
		r := reading{o: &p.out, off: from, lends: lend}
		r.chunks(ctx)(yield)
	}
}

func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	default:
	}
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

func (p *process) Signal(ctx context.Context, s sandbox.Signal) error {
	sig, err := signalNumber(s)
	if err != nil {
		return err
	}
	select {
	case <-p.reaped:
		return nil
	default:
	}
	if sig == syscall.SIGKILL {
		p.hurried.Do(func() { close(p.hurry) })
		return within(ctx, p.stop(sandbox.Cancelled))
	}
	p.mu.Lock()
	p.asked = sig
	p.mu.Unlock()
	p.kin.signal(sig)
	return nil
}

func signalNumber(s sandbox.Signal) (syscall.Signal, error) {
	switch s {
	case sandbox.SignalTerm:
		return syscall.SIGTERM, nil
	case sandbox.SignalInt:
		return syscall.SIGINT, nil
	case sandbox.SignalKill:
		return syscall.SIGKILL, nil
	}
	return 0, fmt.Errorf("%w: signal %d", sandbox.ErrInvalid, s)
}

func within(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) Close() error {
	if p.detached {
		return nil
	}
	<-p.stop(sandbox.Cancelled)
	select {
	case <-p.done:
	case <-time.After(2 * lastBytes): // it can't be killed, and holds on to what it has
	}
	return nil
}
