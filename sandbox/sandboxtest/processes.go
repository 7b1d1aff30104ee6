package sandboxtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// lister returns the handle's power to find processes.
func (b *box) lister() sandbox.ProcessLister {
	b.e.Helper()
	l, ok := sandbox.As[sandbox.ProcessLister](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no ProcessLister, though Options.Processes says so")
	}
	return l
}

// processes lists what the handle finds, by its id.
func (b *box) processes() map[string]sandbox.ProcessInfo {
	b.e.Helper()
	all := map[string]sandbox.ProcessInfo{}
	for info, err := range b.lister().Processes(b.e.deadline()) {
		b.e.ok(err, "processes")
		if _, twice := all[info.ID]; twice || info.ID == "" {
			b.e.fatalf("listed twice, or without an id: %+v", info)
		}
		all[info.ID] = info
	}
	return all
}

// process returns a process by its id.
func (b *box) process(id string) sandbox.Process {
	b.e.Helper()
	p, err := b.lister().Process(b.e.deadline(), id)
	b.e.ok(err, "process %q", id)
	if p.ID() != id {
		b.e.fatalf("process %q is %q", id, p.ID())
	}
	return p
}

var processChecks = []check{
	{"Lists", "what runs is listed as it was started, whichever handle started it, and nothing of other machines", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		m, other := e.create(e.newName()), e.create(e.newName())
		elsewhere := e.attach(other.Ref)
		e.said(elsewhere.start(sandbox.Cmd{Argv: c.Block("elsewhere")}), "elsewhere")
		a, b := e.attach(m.Ref), e.attach(m.Ref)
		if n := len(a.processes()); n != 0 {
			e.fatalf("in a new machine there are %d", n)
		}
		before := time.Now().Add(-time.Second) // as coarse as the clock may be
		p := a.start(sandbox.Cmd{Argv: c.Block("x"), Tag: "t"})
		e.said(p, "x")
		q := b.start(sandbox.Cmd{Argv: c.Block("y"), Detached: e.opts.Detached})
		e.said(q, "y")
		for _, from := range []*box{a, b, e.attach(m.Ref)} {
			all := from.processes()
			for id, want := range map[string]sandbox.ProcessInfo{
				p.ID(): {ID: p.ID(), Argv: c.Block("x"), Tag: "t", Running: true},
				q.ID(): {ID: q.ID(), Argv: c.Block("y"), Detached: e.opts.Detached, Running: true},
			} {
				got := all[id]
				argv := got.Argv == nil || slices.Equal(got.Argv, want.Argv)
				if !argv || got.Tag != want.Tag || got.Detached != want.Detached || got.Terminal || !got.Running || got.Exit != (sandbox.Exit{}) {
					e.fatalf("listed is %+v, want %+v", got, want)
				}
				if got.StartedAt.Before(before) || got.StartedAt.After(time.Now().Add(time.Second)) {
					e.fatalf("started at %v", got.StartedAt)
				}
			}
			if len(all) != 2 {
				e.fatalf("listed are %+v, want 2", all)
			}
		}
	}},
	{"Ended", "what has ended is listed for a while, with how it ended, and can still be replayed and waited for", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil || c.Exit == nil || c.Block == nil {
			return
		}
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		said, failed, stopped := b.start(sandbox.Cmd{Argv: c.Echo("said before")}), b.start(sandbox.Cmd{Argv: c.Exit(3)}), b.start(sandbox.Cmd{Argv: c.Block("x")})
		e.said(stopped, "x")
		exits := map[string]sandbox.Exit{said.ID(): e.wait(said), failed.ID(): e.wait(failed)}
		e.ok(stopped.Close(), "close")
		exits[stopped.ID()] = e.wait(stopped)
		e.ok(b.Close(), "close the handle")
		later := e.attach(m.Ref)
		all := later.processes()
		for id, want := range exits {
			if got := all[id]; got.Running || got.Exit != want {
				e.fatalf("listed is %+v, ended as %+v", got, want)
			}
			if got := e.wait(later.process(id)); got != want {
				e.fatalf("waited for it is %+v, ended as %+v", got, want)
			}
		}
		if text, lost := e.replay(later.process(said.ID()), 0); text != "said before" || lost != 0 {
			e.fatalf("replayed is %q", text)
		}
		e.ok(later.process(said.ID()).Signal(e.deadline(), sandbox.SignalKill), "signal what has ended")
	}},
	{"Found", "a process that was found by its id is replayed from any offset, followed, waited for and signalled", func(e *env) { // case 23
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		m := e.create(e.newName())
		p := e.attach(m.Ref).start(sandbox.Cmd{Argv: c.Block("first words")})
		e.said(p, "first words")
		found := e.attach(m.Ref).process(p.ID())
		e.said(found, "first words")
		ctx, cancel := context.WithTimeout(context.Background(), moment)
		defer cancel()
		text := ""
		for chunk, err := range found.Output(ctx, 6) {
			if text += string(chunk.Data); err != nil {
				e.is(err, "a reading whose context ended", context.DeadlineExceeded)
			}
		}
		if text != "words" {
			e.fatalf("from 6 on there is %q", text)
		}
		_, err := found.Wait(ctx)
		e.is(err, "a waiting whose context ended", context.DeadlineExceeded)
		e.ok(found.Signal(e.deadline(), sandbox.SignalKill), "kill")
		if exit, again := e.wait(found), e.wait(p); exit != again || exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v and %+v", exit, again)
		}
	}},
	{"GivenUp", "to close what was found, or the handle that found it, ends nothing; to close the handle that started it does", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		m := e.create(e.newName())
		a, b := e.attach(m.Ref), e.attach(m.Ref)
		p := a.start(sandbox.Cmd{Argv: c.Block("x")})
		e.said(p, "x")
		found := b.process(p.ID())
		e.ok(found.Close(), "close")
		e.ok(b.Close(), "close the handle")
		e.survives(p, "what was given up")
		e.ok(a.Close(), "close the other handle")
		if exit := e.wait(found); exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v", exit)
		}
	}},
	{"Detached", "a detached process is found again by a handle that came later", func(e *env) { // case 23
		c := e.opts.Commands
		if c.Block == nil || !e.opts.Detached {
			return
		}
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		p := b.start(sandbox.Cmd{Argv: c.Block("x"), Detached: true})
		e.said(p, "x")
		e.ok(b.Close(), "close")
		found := e.attach(m.Ref).process(p.ID())
		e.said(found, "x")
		e.survives(found, "what is detached")
		e.ok(found.Signal(e.deadline(), sandbox.SignalTerm), "signal")
		if exit := e.wait(found); exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v", exit)
		}
	}},
	{"Absent", "an id that no process has is ErrNoProcess", func(e *env) {
		b := e.box()
		for _, id := range []string{"never-was", "", "../x", "/", "nul\x00", strings.Repeat("long", 1000)} {
			p, err := b.lister().Process(e.deadline(), id)
			e.is(err, "process "+brief(id), sandbox.ErrNoProcess)
			if p != nil {
				e.fatalf("and yet there is %v", p)
			}
		}
	}},
	{"Context", "a list whose context has ended says so, and is not taken for an empty one", func(e *env) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		b := e.box()
		var last error
		for _, err := range b.lister().Processes(ctx) {
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			e.fatalf("the list ends with %v", last)
		}
		_, err := b.lister().Process(ctx, "x")
		e.is(err, "process", context.Canceled)
	}},
}
