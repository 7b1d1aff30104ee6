package sandboxtest

import (
	"context"
	"io"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	soon  = 300 * time.Millisecond // a Timeout that is to pass
	grace = 300 * time.Millisecond // a KillGrace that is to pass
)

// within ends the check where fn takes longer than limit, and the second that
// stopping may take. A busy machine is forgiven some more.
func (e *env) within(limit time.Duration, what string, fn func()) {
	e.Helper()
	began := time.Now()
	fn()
	if took := time.Since(began); took > limit+time.Second+e.opts.patience()/5 {
		e.fatalf("%s took %v, may take %v and a second", what, took, limit)
	}
}

var stopChecks = []check{
	{"Timeout", "a Timeout always fires; what was written until then is there, and the reason is TimedOut", func(e *env) { // cases 7, 8, 9
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		r, w := io.Pipe()
		e.Cleanup(func() { w.Close() })
		for _, stdin := range []io.Reader{nil, r} {
			p := e.box().start(sandbox.Cmd{Argv: c.Block("so far"), Timeout: soon, Stdin: stdin})
			e.within(soon+sandbox.DefaultKillGrace, "the end", func() {
				if exit := e.wait(p); exit.Reason != sandbox.TimedOut || exit.Duration < soon {
					e.fatalf("%+v", exit)
				}
			})
			if text, _ := e.replay(p, 0); text != "so far" {
				e.fatalf("output is %q", text)
			}
		}
	}},
	{"Stubborn", "what is deaf to the request to end is killed after the grace", func(e *env) {
		c := e.opts.Commands
		if c.Stubborn == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Stubborn("deaf"), Timeout: soon, KillGrace: grace})
		e.within(soon+grace, "the end", func() {
			if exit := e.wait(p); exit.Reason != sandbox.TimedOut || exit.Code == 0 || exit.Duration < soon+grace {
				e.fatalf("%+v", exit)
			}
		})
		if text, _ := e.replay(p, 0); text != "deaf" {
			e.fatalf("output is %q", text)
		}
	}},
	{"Context", "the end of the context that a process was started with stops it", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p, err := e.box().Start(ctx, sandbox.Cmd{Argv: c.Block("x")})
		e.ok(err, "start")
		e.said(p, "x")
		cancel()
		e.within(sandbox.DefaultKillGrace, "the end", func() {
			if exit := e.wait(p); exit.Reason != sandbox.Cancelled {
				e.fatalf("%+v", exit)
			}
		})
		e.ok(p.Close(), "close")
	}},
	{"ContextEnded", "where the context has ended already, a process is not started, or stopped at once", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p, err := e.box().Start(ctx, sandbox.Cmd{Argv: c.Block("x")})
		if err != nil {
			e.is(err, "start", context.Canceled)
			return
		}
		e.within(sandbox.DefaultKillGrace, "the end", func() {
			if exit := e.wait(p); exit.Reason != sandbox.Cancelled {
				e.fatalf("%+v", exit)
			}
		})
	}},
	{"Signal", "a process that is signalled ends as Cancelled; after its end a signal does nothing", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		b := e.box()
		for _, s := range []sandbox.Signal{sandbox.SignalTerm, sandbox.SignalInt, sandbox.SignalKill} {
			p := b.start(sandbox.Cmd{Argv: c.Block("x")})
			e.said(p, "x")
			e.ok(p.Signal(e.deadline(), s), "signal %d", s)
			if exit := e.wait(p); exit.Reason != sandbox.Cancelled {
				e.fatalf("signal %d: %+v", s, exit)
			}
			e.ok(p.Signal(e.deadline(), s), "signal %d after the end", s)
		}
	}},
	{"Kill", "SignalKill ends what is deaf to requests", func(e *env) {
		c := e.opts.Commands
		if c.Stubborn == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Stubborn("x"), KillGrace: time.Minute})
		e.said(p, "x")
		e.within(0, "the kill", func() {
			e.ok(p.Signal(e.deadline(), sandbox.SignalKill), "kill")
			if exit := e.wait(p); exit.Reason != sandbox.Cancelled || exit.Code == 0 {
				e.fatalf("%+v", exit)
			}
		})
	}},
	{"Close", "Close of a process stops it and returns once that is done; twice succeeds", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Block("x")})
		e.said(p, "x")
		e.within(sandbox.DefaultKillGrace, "close", func() { e.ok(p.Close(), "close") })
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if exit, err := p.Wait(ctx); err != nil || exit.Reason != sandbox.Cancelled {
			e.fatalf("after Close: %+v, %v", exit, err)
		}
		e.ok(p.Close(), "close again")
	}},
	{"CloseHandle", "Close of a handle stops the processes started through it, and no others", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		m := e.create(e.newName())
		a, b := e.attach(m.Ref), e.attach(m.Ref)
		mine, others := a.start(sandbox.Cmd{Argv: c.Block("x")}), b.start(sandbox.Cmd{Argv: c.Block("x")})
		e.said(mine, "x")
		e.said(others, "x")
		e.within(sandbox.DefaultKillGrace, "close", func() { e.ok(a.Close(), "close") })
		if exit := e.wait(mine); exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v", exit)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := others.Wait(ctx)
		e.is(err, "wait for the other's process", context.DeadlineExceeded)
	}},
	{"Destroy", "Destroy ends the processes of the machine, detached or not, as SandboxEnded", func(e *env) { // case 2
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		for _, detached := range []bool{false, e.opts.Detached} {
			m := e.create(e.newName())
			p := e.attach(m.Ref).start(sandbox.Cmd{Argv: c.Block("x"), Detached: detached})
			e.said(p, "x")
			e.within(sandbox.DefaultKillGrace, "the end", func() {
				e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
				if exit := e.wait(p); exit.Reason != sandbox.SandboxEnded {
					e.fatalf("%+v", exit)
				}
			})
			if text, _ := e.replay(p, 0); text != "x" {
				e.fatalf("output is %q", text)
			}
		}
	}},
	{"Detached", "a detached process outlives its context and its handle; where that can't be it is ErrUnsupported", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p, err := b.Start(ctx, sandbox.Cmd{Argv: c.Block("x"), Detached: true})
		if !e.opts.Detached {
			e.is(err, "start", sandbox.ErrUnsupported)
			return
		}
		e.ok(err, "start")
		e.said(p, "x")
		cancel()
		e.ok(p.Close(), "close the process")
		e.ok(b.Close(), "close the handle")
		short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err = p.Wait(short)
		e.is(err, "wait", context.DeadlineExceeded)
		e.ok(p.Signal(e.deadline(), sandbox.SignalKill), "kill")
		if exit := e.wait(p); exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v", exit)
		}
	}},
	{"HeldOutput", "a child that holds the output open delays Wait by no more than DrainLimit", func(e *env) { // case 11
		c := e.opts.Commands
		if c.HoldOutput == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.HoldOutput()})
		e.within(sandbox.DrainLimit, "the end", func() {
			if exit := e.wait(p); exit.Reason != sandbox.Exited || exit.Code != 0 {
				e.fatalf("%+v", exit)
			}
		})
		e.within(sandbox.DefaultKillGrace, "close", func() { e.ok(p.Close(), "close") })
	}},
	{"Escaped", "all that a process has started is stopped with it, even what left its session and lost its parent", func(e *env) { // cases 11, 12
		c := e.opts.Commands
		if c.Escape == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		for how, stop := range map[string]func(b *box, p sandbox.Process, ref sandbox.Ref){
			"Close":       func(b *box, p sandbox.Process, ref sandbox.Ref) { e.ok(p.Close(), "close") },
			"CloseHandle": func(b *box, p sandbox.Process, ref sandbox.Ref) { e.ok(b.Close(), "close the handle") },
			"Kill": func(b *box, p sandbox.Process, ref sandbox.Ref) {
				e.ok(p.Signal(e.deadline(), sandbox.SignalKill), "kill")
				e.wait(p)
			},
		} {
			m := e.create(e.newName())
			b, watch := e.attach(m.Ref), e.attach(m.Ref)
			p := b.start(sandbox.Cmd{Argv: c.Escape("alive"), KillGrace: grace})
			e.said(p, "ready")
			e.within(grace, how, func() { stop(b, p, m.Ref) })
			e.ok(watch.FS().Remove(e.deadline(), "alive", &sandbox.RemoveOptions{MissingOK: true}), "remove")
			e.never("after "+how+" an escaped child still writes", func() bool { return watch.has("alive") })
		}
	}},
}
