package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// plain is a size that no terminal has by default.
var plain = sandbox.TerminalSize{Columns: 101, Rows: 33}

// onTerminal starts a command on a terminal.
func (b *box) onTerminal(c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
	b.e.Helper()
	s, ok := sandbox.As[sandbox.TerminalStarter](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no TerminalStarter, though Options.Terminals says so")
	}
	t, err := s.StartTerminal(context.Background(), c, size)
	if err == nil {
		b.e.Cleanup(func() { t.Signal(context.Background(), sandbox.SignalKill); t.Close() })
	}
	return t, err
}

// terminal starts a script on a terminal.
func (b *box) terminal(script string, c sandbox.Cmd) sandbox.Terminal {
	b.e.Helper()
	c.Argv = b.e.script(script)
	t, err := b.onTerminal(c, plain)
	b.e.ok(err, "start %q on a terminal", script)
	return t
}

// types types text.
func (e *env) types(t sandbox.Terminal, text string) {
	e.Helper()
	n, err := t.Write([]byte(text))
	e.ok(err, "type %s", brief(text))
	if n != len(text) {
		e.fatalf("typed %d bytes of %d", n, len(text))
	}
}

func (e *env) resize(t sandbox.Terminal, columns, rows uint16) {
	e.Helper()
	e.ok(t.Resize(e.deadline(), sandbox.TerminalSize{Columns: columns, Rows: rows}), "resize to %d by %d", columns, rows)
}

// printed is all that is printed on a terminal until the program ends.
func (e *env) printed(t sandbox.Process) string {
	e.Helper()
	text, _ := e.replay(t, 0)
	return text
}

// tells is a script that tells the size of its terminal whenever that changes.
const tells = `trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done`

var terminalChecks = []check{
	{"Size", "a terminal has the size that was asked for before its program starts", func(e *env) { // case 20
		b := e.box()
		for _, size := range []sandbox.TerminalSize{plain, {Columns: 1, Rows: 1}, {Columns: 65535, Rows: 2}} {
			t, err := b.onTerminal(sandbox.Cmd{Argv: e.script("stty size")}, size)
			e.ok(err, "start")
			if got, want := e.printed(t), fmt.Sprintf("%d %d\r\n", size.Rows, size.Columns); got != want {
				e.fatalf("asked for %+v, stty says %q", size, got)
			}
			if exit := e.wait(t); exit.Code != 0 || exit.Reason != sandbox.Exited {
				e.fatalf("%+v", exit)
			}
		}
	}},
	{"Resize", "a program is told that its terminal has another size, and then that is its size", func(e *env) { // case 20
		t := e.box().terminal(tells, sandbox.Cmd{})
		e.said(t, "ready")
		e.within(0, "to be told", func() {
			e.resize(t, 120, 40)
			e.said(t, "40 120")
		})
	}},
	{"LastSize", "of several who look the last to set the size has it, be it larger or smaller", func(e *env) { // case 22
		m := e.create(e.newName())
		t := e.attach(m.Ref).terminal(tells, sandbox.Cmd{})
		e.said(t, "ready")
		other := t
		if e.opts.Processes {
			other = e.found(e.attach(m.Ref), t.ID())
		}
		for i, set := range []struct {
			by            sandbox.Terminal
			columns, rows uint16
		}{{t, 200, 60}, {other, 40, 10}, {t, 201, 61}, {other, 41, 11}} {
			e.resize(set.by, set.columns, set.rows)
			e.said(t, fmt.Sprintf("%d %d", set.rows, set.columns))
			if i == 3 {
				e.ok(other.Signal(e.deadline(), sandbox.SignalKill), "kill")
			}
		}
	}},
	{"Refused", "no size, an input and what can't be a command are ErrInvalid, a missing program is ErrNotStarted, and a size of nothing never holds", func(e *env) {
		b := e.box()
		argv := e.script("stty size; sleep 1000")
		for _, size := range []sandbox.TerminalSize{{}, {Columns: 80}, {Rows: 24}} {
			_, err := b.onTerminal(sandbox.Cmd{Argv: argv}, size)
			e.is(err, fmt.Sprintf("start with %+v", size), sandbox.ErrInvalid)
		}
		_, err := b.onTerminal(sandbox.Cmd{Argv: argv, Stdin: strings.NewReader("x")}, plain)
		e.is(err, "start with an input", sandbox.ErrInvalid)
		_, err = b.onTerminal(sandbox.Cmd{}, plain)
		e.is(err, "start nothing", sandbox.ErrInvalid)
		for _, program := range []string{"bunkroom-no-such-program", "/no/such/program"} {
			_, err = b.onTerminal(sandbox.Cmd{Argv: []string{program, "x"}}, plain)
			e.is(err, "start "+program, sandbox.ErrNotStarted)
		}
		_, err = b.onTerminal(sandbox.Cmd{Argv: argv, Dir: "no-such-dir"}, plain)
		e.is(err, "start in a missing directory", sandbox.ErrNotStarted)
		t, err := b.onTerminal(sandbox.Cmd{Argv: argv}, plain)
		e.ok(err, "start")
		e.is(t.Resize(e.deadline(), sandbox.TerminalSize{Columns: 80}), "resize to nothing", sandbox.ErrInvalid)
		e.said(t, fmt.Sprintf("%d %d", plain.Rows, plain.Columns))
	}},
	{"Limits", "on a terminal a limit that is not held is refused by its name too, and one that is none is ErrInvalid", func(e *env) {
		b := e.box()
		argv := e.script("sleep 1000")
		for _, l := range allLimits {
			_, err := b.onTerminal(sandbox.Cmd{Argv: argv, Limits: l.of(-1)}, plain)
			if e.is(err, "start with less than no "+l.name, sandbox.ErrInvalid); e.opts.Limits&l.is != 0 {
				continue
			}
			_, err = b.onTerminal(sandbox.Cmd{Argv: argv, Limits: l.of(l.much)}, plain)
			e.is(err, "start with "+l.name, sandbox.ErrUnsupported)
			if named := (*sandbox.LimitError)(nil); !errors.As(err, &named) || named.Limit != l.name {
				e.fatalf("error %v is no LimitError of %s", err, l.name)
			}
		}
	}},
	{"Controls", "the terminal controls the program: it is all three of its files and /dev/tty, and an interrupt that is typed ends it", func(e *env) {
		b := e.box()
		t := b.terminal(`for n in 0 1 2; do test -t $n && echo "$n is"; done; echo "so is this" >/dev/tty; exec sleep 1000`, sandbox.Cmd{})
		for _, text := range []string{"0 is", "1 is", "2 is", "so is this"} {
			e.said(t, text)
		}
		e.types(t, "\x03")
		if exit := e.wait(t); exit.Reason != sandbox.Signalled || exit.Code != 130 {
			e.fatalf("interrupted: %+v", exit)
		}
	}},
	{"Jobs", "a shell on a terminal runs what is typed, and what is interrupted there is what it runs and not the shell", func(e *env) {
		t := e.box().terminal(`PS1='$ ' exec sh -i`, sandbox.Cmd{KillGrace: grace})
		e.said(t, "$ ")
		e.types(t, "echo $((40 + 2)); sleep 1000\n")
		e.said(t, "42\r\n")
		// It may not have begun to sleep yet, and an interrupt that comes sooner is the shell's.
		tick := time.NewTicker(moment)
		defer tick.Stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.said(t, "alive 43")
		}()
		for typing := true; typing; {
			e.types(t, "\x03")
			e.types(t, "echo alive $((40 + 3))\n")
			select {
			case <-done:
				typing = false
			case <-tick.C:
			}
		}
		e.types(t, "exit 7\n")
		if exit := e.wait(t); exit.Code != 7 || exit.Reason != sandbox.Exited {
			e.fatalf("%+v", exit)
		}
	}},
	{"OneStream", "all that is printed is Stdout, in the order in which it was printed", func(e *env) {
		t := e.box().terminal("echo one; echo two >&2; echo 'three 世界'", sandbox.Cmd{})
		text := ""
		for c, err := range t.Output(e.deadline(), 0) {
			e.ok(err, "output")
			if text += string(c.Data); c.Stream != sandbox.Stdout {
				e.fatalf("%q is on stream %d", c.Data, c.Stream)
			}
		}
		want := "one\r\ntwo\r\nthree 世界\r\n"
		if exit := e.wait(t); text != want || exit.Stdout != int64(len(want)) || exit.Stderr != 0 {
			e.fatalf("printed is %q, %+v", text, exit)
		}
	}},
	{"Writes", "what several type at once arrives whole, each of it", func(e *env) {
		const n, size = 16, 1500
		t := e.box().terminal("stty raw -echo; echo ready; exec cat", sandbox.Cmd{})
		e.said(t, "ready")
		together(n, func(i int) {
			for range 4 {
				if _, err := t.Write([]byte(strings.Repeat(string(rune('a'+i)), size))); err != nil {
					e.Errorf("type: %v", err)
				}
			}
		})
		got := ""
		for c, err := range t.Output(e.deadline(), 0) {
			e.ok(err, "output")
			if got += string(c.Data); len(got) >= len("ready\n")+4*n*size {
				break
			}
		}
		got = got[strings.Index(got, "ready\n")+len("ready\n"):]
		for ; got != ""; got = got[size:] {
			if len(got) < size || got[:size] != strings.Repeat(got[:1], size) {
				e.fatalf("what was typed at once is mixed: %s", brief(got))
			}
		}
	}},
	{"WriteEnded", "to type after the program has ended is ErrClosed, and to resize does nothing", func(e *env) {
		t := e.box().terminal("exit 0", sandbox.Cmd{})
		e.wait(t)
		n, err := t.Write([]byte("x"))
		e.is(err, "type", sandbox.ErrClosed)
		if n != 0 {
			e.fatalf("typed %d bytes", n)
		}
		e.resize(t, 80, 24)
	}},
	{"Scrollback", "what was printed is kept for replay, as much as DefaultScrollback or as was asked for, and a program is never held up", func(e *env) { // case 23
		b := e.box()
		const n = sandbox.DefaultScrollback + 300_000
		for limit, kept := range map[int64]int64{0: sandbox.DefaultScrollback, 10_000: 10_000} {
			t := b.terminal(fmt.Sprintf("stty raw; exec head -c %d /dev/zero", n), sandbox.Cmd{OutputLimit: limit})
			for range t.Output(e.deadline(), 0) {
				break // a reader that goes away
			}
			if exit := e.wait(t); exit.Stdout != n || exit.Reason != sandbox.Exited || exit.Code != 0 {
				e.fatalf("%+v, printed %d", exit, n)
			}
			for range 2 {
				if text, lost := e.replay(t, 0); lost+int64(len(text)) != n || lost < n-kept || int64(len(text)) < kept/2 {
					e.fatalf("%d lost and then %d, of %d with a limit of %d", lost, len(text), n, limit)
				}
			}
		}
	}},
	{"Readers", "any number of readers see all of it, each from its own offset, and that one goes away ends nothing", func(e *env) { // case 23
		t := e.box().terminal("echo first; read x; echo then $x; exec sleep 1000", sandbox.Cmd{})
		for range t.Output(e.deadline(), 0) {
			break
		}
		together(3, func(int) { e.said(t, "first") })
		e.types(t, "typed\n")
		together(3, func(int) { e.said(t, "then typed") })
		text := ""
		for c, err := range t.Output(e.deadline(), 3) {
			e.ok(err, "output")
			if text += string(c.Data); strings.Contains(text, "then typed") {
				break
			}
		}
		if !strings.HasPrefix(text, "st\r\n") {
			e.fatalf("from 3 on there is %q", text)
		}
		e.survives(t, "a terminal whose readers went away")
	}},
	{"Found", "a detached terminal outlives the handle that started it, and is found by its id to be looked at, typed to and resized", func(e *env) { // case 23
		if !e.opts.Processes || !e.opts.Detached {
			return
		}
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		t := b.terminal("echo first; read x; stty size; echo then $x; exec sleep 1000", sandbox.Cmd{Detached: true})
		e.said(t, "first")
		e.ok(t.Close(), "close the terminal")
		e.ok(b.Close(), "close the handle")
		e.survives(t, "a detached terminal")
		again := e.attach(m.Ref)
		if info := again.processes()[t.ID()]; !info.Terminal || !info.Running || !info.Detached {
			e.fatalf("listed is %+v", info)
		}
		found := e.found(again, t.ID())
		e.said(found, "first")
		e.resize(found, 77, 22)
		e.types(found, "typed\n")
		e.said(found, "22 77\r\nthen typed")
		e.ok(found.Close(), "close what was found")
		e.survives(t, "what was given up")
		e.ok(found.Signal(e.deadline(), sandbox.SignalKill), "kill")
		if exit := e.wait(found); exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v", exit)
		}
	}},
	{"Outcomes", "how a terminal ended can be told: by itself, by a timeout, by being closed, with its machine", func(e *env) { // case 23
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		const waits = "echo x; exec sleep 1000"
		byItself, late, closed, destroyed := b.terminal("exit 3", sandbox.Cmd{}), b.terminal(waits, sandbox.Cmd{Timeout: soon}),
			b.terminal(waits, sandbox.Cmd{}), b.terminal(waits, sandbox.Cmd{Detached: e.opts.Detached})
		e.said(closed, "x")
		e.said(destroyed, "x")
		e.within(sandbox.DefaultKillGrace, "close", func() { e.ok(closed.Close(), "close") })
		e.within(soon+sandbox.DefaultKillGrace, "the timeout", func() { e.wait(late) })
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		for want, t := range map[sandbox.ExitReason]sandbox.Terminal{
			sandbox.Exited: byItself, sandbox.TimedOut: late, sandbox.Cancelled: closed, sandbox.SandboxEnded: destroyed,
		} {
			exit := e.wait(t)
			if exit.Reason != want || want == sandbox.Exited && exit.Code != 3 {
				e.fatalf("%+v, want %v", exit, want)
			}
			e.printed(t) // which ends, and not with an error
		}
	}},
	{"Interactive", "a shell that waits for somebody to type is stopped well before the grace is over", func(e *env) {
		t := e.box().terminal(`PS1='$ ' exec sh -i`, sandbox.Cmd{KillGrace: time.Minute})
		e.said(t, "$ ")
		e.within(0, "close", func() { e.ok(t.Close(), "close") })
	}},
	{"Reaped", "what runs on a terminal is reaped by its tag", func(e *env) {
		if !e.opts.Reaps {
			return
		}
		m := e.create(e.newName())
		t := e.attach(m.Ref).terminal("echo x; exec sleep 1000", sandbox.Cmd{Tag: "t"})
		e.said(t, "x")
		e.reap(m.Ref, "t")
		ctx, cancel := context.WithTimeout(context.Background(), moment)
		defer cancel()
		if exit, err := t.Wait(ctx); errors.Is(err, context.DeadlineExceeded) || exit.Reason == sandbox.Exited {
			e.fatalf("%+v, %v", exit, err)
		}
	}},
}

// found is the terminal with this id.
func (e *env) found(b *box, id string) sandbox.Terminal {
	e.Helper()
	t, ok := sandbox.As[sandbox.Terminal](b.process(id))
	if !ok {
		e.fatalf("the process %s that was found is no Terminal", id)
	}
	return t
}
