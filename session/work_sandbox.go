package session

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// over is nil, or the error of what is asked of a work that has ended.
func (w *Work) over() error {
	// A process that was paused wakes here before its heartbeat does.
	if !time.Now().Before(*w.safe.Load()) {
		w.stop(fmt.Errorf("%w: not renewed in time", ErrFenced))
	}
	if cause := context.Cause(w.ctx); cause != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrClosed, cause)
	}
	return nil
}

// workSandbox is the driver's handle as the holder of a work sees it.
type workSandbox struct {
	sandbox.Sandbox
	work *Work
}

// Start starts a process with the work's variables, unless the work has ended.
func (s workSandbox) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	if err := s.starts(&c); err != nil {
		return nil, err
	}
	p, err := s.Sandbox.Start(ctx, c)
	if err != nil || !c.Detached { // what is not ends with the work
		return p, err
	}
	return workProcess{p, s.work}, nil
}

// starts makes c the work's own, unless the work has ended.
func (s workSandbox) starts(c *sandbox.Cmd) error {
	if err := s.work.over(); err != nil {
		return err
	}
	if c.Detached && s.work.workdir.Outcome.State != 0 {
		return fmt.Errorf("%w: what is detached would outlast the lock of the working directory", sandbox.ErrUnsupported)
	}
	c.Env = append(append([]string{}, s.work.carried.Env...), c.Env...)
	c.Tag = s.work.id // so that another replica can end it, should this one die
	return nil
}

// As passes on the powers that are the holder's to use. What is bound into
// the sandbox is not: that is the Runner's.
func (s workSandbox) As(target any) bool {
	switch t := target.(type) {
	case *sandbox.ProcessLister:
		of, has := sandbox.As[sandbox.ProcessLister](s.Sandbox)
		if has {
			*t = workLister{of, s.work}
		}
		return has
	case *sandbox.TerminalStarter:
		of, has := sandbox.As[sandbox.TerminalStarter](s.Sandbox)
		if has {
			*t = workTerminals{s, of}
		}
		return has
	}
	return sandbox.PassOnFiles(s.Sandbox, target)
}

// workTerminals starts programs on terminals, as Start does without one.
type workTerminals struct {
	in workSandbox
	of sandbox.TerminalStarter
}

func (s workTerminals) StartTerminal(ctx context.Context, c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
	if err := s.in.starts(&c); err != nil {
		return nil, err
	}
	t, err := s.of.StartTerminal(ctx, c, size)
	if err != nil {
		return nil, err
	}
	return workTerminal{workProcess{t, s.in.work}, t}, nil
}

// workLister finds processes that go on without the work, and gives them up with it.
type workLister struct {
	sandbox.ProcessLister
	work *Work
}

func (s workLister) Process(ctx context.Context, id string) (sandbox.Process, error) {
	p, err := s.ProcessLister.Process(ctx, id)
	if err != nil {
		return nil, err
	}
	if t, is := p.(sandbox.Terminal); is {
		return workTerminal{workProcess{t, s.work}, t}, nil
	}
	return workProcess{p, s.work}, nil
}

// workProcess is a process that may go on without the work. Whoever has had it through the
// work, and may perhaps not come in any more, neither reads from it then nor does anything to it.
type workProcess struct {
	sandbox.Process
	work *Work
}

func (p workProcess) Output(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return p.while(ctx, func(ctx context.Context) iter.Seq2[sandbox.Chunk, error] { return p.Process.Output(ctx, from) })
}

func (p workProcess) LendOutput(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return p.while(ctx, func(ctx context.Context) iter.Seq2[sandbox.Chunk, error] {
		return sandbox.LentOutput(ctx, p.Process, from)
	})
}

// while is what is read of the output while the work lasts.
func (p workProcess) while(ctx context.Context, read func(context.Context) iter.Seq2[sandbox.Chunk, error]) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.work.ctx, cancel)()
		for c, err := range read(ctx) {
			if over := p.work.over(); over != nil {
				c, err = sandbox.Chunk{}, over
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (p workProcess) Signal(ctx context.Context, s sandbox.Signal) error {
	if err := p.work.over(); err != nil {
		return err
	}
	return p.Process.Signal(ctx, s)
}

// workTerminal is such a process on a terminal.
type workTerminal struct {
	workProcess
	terminal sandbox.Terminal
}

func (t workTerminal) Write(b []byte) (int, error) {
	if err := t.work.over(); err != nil {
		return 0, err
	}
	return t.terminal.Write(b)
}

func (t workTerminal) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	if err := t.work.over(); err != nil {
		return err
	}
	return t.terminal.Resize(ctx, size)
}
