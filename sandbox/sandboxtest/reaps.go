package sandboxtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// reaps returns the provider's power to reap.
func (e *env) reaps() sandbox.Reaper {
	e.Helper()
	r, ok := sandbox.As[sandbox.Reaper](e.Provider)
	if !ok {
		e.fatalf("the provider is no Reaper, though Options.Reaps says so")
	}
	return r
}

func (e *env) reap(ref sandbox.Ref, tag string) {
	e.Helper()
	e.ok(e.reaps().Reap(e.deadline(), ref, tag), "reap %s", tag)
}

// tagged starts, through a handle of its own, what runs until it is ended.
func (e *env) tagged(ref sandbox.Ref, tag string) sandbox.Process {
	e.Helper()
	p := e.attach(ref).start(sandbox.Cmd{Argv: e.opts.Commands.Block("x"), Tag: tag})
	e.said(p, "x")
	return p
}

// moment is long enough for news of an end to arrive, and too short for an end itself.
const moment = 200 * time.Millisecond

// survives ends the check where p ends within a moment.
func (e *env) survives(p sandbox.Process, what string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), moment)
	defer cancel()
	if exit, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		e.fatalf("%s ended: %+v, %v", what, exit, err)
	}
}

var reapChecks = []check{
	{"Ends", "Reap ends every process with the tag, through whichever handle it was started, detached or not", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		all := []sandbox.Process{e.tagged(m.Ref, "work-1.a_B"), e.tagged(m.Ref, "work-1.a_B")}
		if e.opts.Detached {
			p := b.start(sandbox.Cmd{Argv: c.Block("x"), Tag: "work-1.a_B", Detached: true})
			e.said(p, "x")
			b.Close()
			all = append(all, p)
		}
		e.reap(m.Ref, "work-1.a_B")
		for _, p := range all {
			if exit := e.wait(p); exit.Reason != sandbox.Cancelled && exit.Reason != sandbox.Signalled || exit.Code == 0 {
				e.fatalf("%+v", exit)
			}
		}
	}},
	{"Done", "Reap returns once none of them runs, even of those that are deaf to requests", func(e *env) {
		c := e.opts.Commands
		if c.Stubborn == nil {
			return
		}
		m := e.create(e.newName())
		p := e.attach(m.Ref).start(sandbox.Cmd{Argv: c.Stubborn("deaf"), Tag: "t", KillGrace: time.Minute})
		e.said(p, "deaf")
		e.within(0, "reap", func() { e.reap(m.Ref, "t") })
		ctx, cancel := context.WithTimeout(context.Background(), moment)
		defer cancel()
		if _, err := p.Wait(ctx); err != nil {
			e.fatalf("Reap has returned, and it runs: %v", err)
		}
	}},
	{"Others", "Reap ends nothing else: no other tag, though it begins alike, none without a tag, and in no other machine", func(e *env) {
		if e.opts.Commands.Block == nil {
			return
		}
		m, other := e.create(e.newName()), e.create(e.newName())
		mine := e.tagged(m.Ref, "t")
		spared := map[string]sandbox.Process{
			"another tag's": e.tagged(m.Ref, "u"), "a longer tag's": e.tagged(m.Ref, "t.1"), "what has no tag": e.tagged(m.Ref, ""),
			"another machine's": e.tagged(other.Ref, "t"),
		}
		e.reap(m.Ref, "t")
		e.wait(mine)
		for what, p := range spared {
			e.survives(p, what)
		}
		e.reap(e.other(m.Ref), "u") // of an incarnation that is not there
		e.survives(spared["another tag's"], "what runs in another incarnation")
	}},
	{"Escaped", "Reap ends all that was started in turn, even what left its session, lost its parent and outlived who started it", func(e *env) {
		c := e.opts.Commands
		if c.Escape == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		m := e.create(e.newName())
		b, watch := e.attach(m.Ref), e.attach(m.Ref)
		e.said(b.start(sandbox.Cmd{Argv: c.Escape("mine"), Tag: "t"}), "ready")
		e.said(b.start(sandbox.Cmd{Argv: c.Escape("theirs"), Tag: "u"}), "ready")
		e.reap(m.Ref, "t")
		e.ok(watch.FS().Remove(e.deadline(), "mine", &sandbox.RemoveOptions{MissingOK: true}), "remove")
		e.never("an escaped child still writes", func() bool { return watch.has("mine") })
		e.ok(watch.FS().Remove(e.deadline(), "theirs", nil), "remove")
		e.eventually("the other tag's escaped child writes", func() bool { return watch.has("theirs") })
	}},
	{"Cleared", "no process can shake its tag off by clearing its environment", func(e *env) {
		if e.opts.Shell == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		m := e.create(e.newName())
		b, watch := e.attach(m.Ref), e.attach(m.Ref)
		p := b.start(sandbox.Cmd{Tag: "t", Argv: e.script(`
			(env -i PATH="$PATH" setsid sh -c 'while :; do echo x >alive; sleep 0.05; done' </dev/null >/dev/null 2>&1 &)
			until test -e alive; do sleep 0.01; done; echo ready; exec sleep 1000`)})
		e.said(p, "ready")
		e.reap(m.Ref, "t")
		e.ok(watch.FS().Remove(e.deadline(), "alive", &sandbox.RemoveOptions{MissingOK: true}), "remove")
		e.never("what has cleared its environment still writes", func() bool { return watch.has("alive") })
	}},
	{"Twice", "to reap twice succeeds, and so does a tag that nobody has", func(e *env) {
		if e.opts.Commands.Block == nil {
			return
		}
		m := e.create(e.newName())
		p := e.tagged(m.Ref, "t")
		for range 2 {
			e.reap(m.Ref, "t")
		}
		e.wait(p)
		e.reap(m.Ref, "nobody-has-this")
		e.survives(e.tagged(m.Ref, "t"), "what was started with the tag afterwards")
	}},
	{"Absent", "in a machine that is not there nothing runs: nil", func(e *env) {
		e.reap(e.absent(), "t")
		m := e.create(e.newName())
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.reap(m.Ref, "t")
	}},
	{"NeverWakes", "Reap never wakes a machine: in one that sleeps nothing runs", func(e *env) {
		m := e.create(e.newName())
		first, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect")
		e.reap(m.Ref, "t")
		again, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect again")
		if len(first) == 1 && first[0].Status == sandbox.StatusStopped && (len(again) != 1 || again[0] != first[0]) {
			e.fatalf("was %+v, is %+v", first, again)
		}
	}},
	{"Refused", "no tag, one that can't be, and no incarnation are ErrInvalid; another host's machine is ErrWrongHost", func(e *env) {
		m := e.create(e.newName())
		r := e.reaps()
		for _, tag := range []string{"", "a b", "a/b", "ü", "nul\x00", strings.Repeat("x", 65)} {
			e.is(r.Reap(e.deadline(), m.Ref, tag), "reap "+brief(tag), sandbox.ErrInvalid)
		}
		byName := m.Ref
		byName.Incarnation = ""
		e.is(r.Reap(e.deadline(), byName, "t"), "reap by name", sandbox.ErrInvalid)
		if e.Info().Caps.HostBound {
			elsewhere := m.Ref
			elsewhere.Host = "another-host"
			e.is(r.Reap(e.deadline(), elsewhere, "t"), "reap elsewhere", sandbox.ErrWrongHost)
		}
	}},
}
