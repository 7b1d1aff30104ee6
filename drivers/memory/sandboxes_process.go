package memory

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxProcess is one run of a Handler.
type boxProcess struct {
	id       string
	argv     []string
	tag      string
	detached bool
	grace    time.Duration
	now      func() time.Time
	began    time.Time
	out      *boxOutput
	cancel   context.CancelCauseFunc // ends the function's context
	release  func()                  // the process is over: called once, without locks held
	done     chan struct{}           // closed once exit and err are final

	mu    sync.Mutex
	how   boxStop     // how it is being stopped; zero = it is not
	timer *time.Timer // ends the grace
	over  bool
	exit  sandbox.Exit
	err   error
}

var (
	_ sandbox.Process      = (*boxProcess)(nil)
	_ sandbox.OutputLender = (*boxProcess)(nil)
)

// boxStop says how a process is stopped.
type boxStop struct {
	reason sandbox.ExitReason
	signal sandbox.Signal // SignalKill closes the output at once
	cause  error          // of the end of the function's context
	ask    bool           // only a request: no kill follows
	lost   bool           // the outcome can't be known
}

// run calls the function and ends the process with what it returns. A panic,
// or the end of the goroutine (as by t.FailNow), is turned into an exit code.
func (p *boxProcess) run(ctx context.Context, h Handler, c *Command) {
	code, returned := 2, false
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(boxStream{p.out, sandbox.Stderr}, "panic: %v\n", r)
		} else if !returned {
			fmt.Fprintln(boxStream{p.out, sandbox.Stderr}, "the function ended its goroutine")
		}
		reason := sandbox.Exited
		if c.killed != 0 {
			reason = sandbox.Signalled
		}
		p.finish(reason, code, false)
	}()
	code = h(ctx, c)
	returned = true
}

// finish settles how the process ended. Only the first call counts.
func (p *boxProcess) finish(reason sandbox.ExitReason, code int, abandoned bool) {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return
	}
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.out.close(nil)
	p.exit = sandbox.Exit{Code: code & 0xff, Reason: reason, Duration: p.now().Sub(p.began)}
	p.exit.Stdout, p.exit.Stderr = p.out.counts()
	if p.how.cause != nil {
		p.exit.Reason = p.how.reason
		p.exit.Code = 128 + signalNumber(p.how.signal)
		if abandoned {
			p.exit.Code = 128 + signalNumber(sandbox.SignalKill)
		}
	}
	if p.how.lost {
		p.exit, p.err = sandbox.Exit{}, p.lost()
	}
	p.mu.Unlock()
	p.cancel(context.Canceled) // what was started with the context ends too
	p.release()
	close(p.done)
}

// boxKillGrace is how long a kill waits for the function. A process would be
// dead at once; but most functions do return when their context ends, and
// then nothing of them is left when Wait returns.
const boxKillGrace = 100 * time.Millisecond

// stop ends the function's context and, unless that was only a request, kills
// the process where the function does not return in time. Of several stops the
// first names the reason, except that a request yields to any other.
func (p *boxProcess) stop(how boxStop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	if p.how.cause == nil || p.how.ask {
		p.how = how
	}
	if how.signal == sandbox.SignalKill {
		p.how.signal = sandbox.SignalKill
		var end error
		if p.how.lost {
			end = p.lost()
		}
		p.out.close(end)
	}
	p.cancel(how.cause)
	if how.ask {
		return
	}
	left := p.grace
	if how.signal == sandbox.SignalKill {
		left = boxKillGrace
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(left, func() { p.finish(sandbox.ExitUnknown, 0, true) })
	} else if how.signal == sandbox.SignalKill {
		p.timer.Reset(left)
	}
}

func (p *boxProcess) lost() error {
	return fmt.Errorf("%w: process %s: its machine vanished", sandbox.ErrLost, p.id)
}

func signalNumber(s sandbox.Signal) int {
	switch s {
	case sandbox.SignalInt:
		return 2
	case sandbox.SignalKill:
		return 9
	}
	return 15
}

func (p *boxProcess) ID() string { return p.id }

func (p *boxProcess) Output(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return p.out.read(ctx, from)
}

// LendOutput makes no copy of what the process wrote.
func (p *boxProcess) LendOutput(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return p.out.lend(ctx, from)
}

func (p *boxProcess) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	default:
	}
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("memory: wait for process %s: %w", p.id, ctx.Err())
	}
}

func (p *boxProcess) Signal(_ context.Context, s sandbox.Signal) error {
	how := boxStop{reason: sandbox.Cancelled, signal: s, cause: fmt.Errorf("signal %d: %w", signalNumber(s), context.Canceled)}
	switch s {
	case sandbox.SignalTerm, sandbox.SignalInt:
		how.ask = true
	case sandbox.SignalKill:
	default:
		return fmt.Errorf("%w: signal %d", sandbox.ErrInvalid, s)
	}
	p.stop(how)
	return nil
}

func (p *boxProcess) Close() error {
	if p.detached {
		return nil
	}
	p.stop(boxStop{reason: sandbox.Cancelled, signal: sandbox.SignalTerm, cause: fmt.Errorf("process closed: %w", context.Canceled)})
	<-p.done
	return nil
}
