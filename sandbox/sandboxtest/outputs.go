package sandboxtest

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// replay reads the output of p from offset from to its end and checks that
// offsets and gaps fit together. It returns the bytes, and how many were lost before them.
func (e *env) replay(p sandbox.Process, from int64) (text string, lost int64) {
	e.Helper()
	at := from
	for c, err := range p.Output(e.deadline(), from) {
		e.ok(err, "output at %d", at)
		if c.Lost < 0 || c.Lost > 0 && text != "" && lost == 0 || c.Off != at+c.Lost || len(c.Data) == 0 || c.Stream != sandbox.Stdout && c.Stream != sandbox.Stderr {
			e.fatalf("after offset %d came %d bytes of stream %d at %d with %d lost", at, len(c.Data), c.Stream, c.Off, c.Lost)
		}
		lost += c.Lost
		text += string(c.Data)
		at = c.Off + int64(len(c.Data))
	}
	return text, lost
}

// letters are n bytes of what Flood writes, from offset from.
func letters(from, n int64) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + (from+int64(i))%26)
	}
	return string(b)
}

var outputChecks = []check{
	{"Replay", "output is replayed from any offset, as often as one likes, during the process and after", func(e *env) { // case 1
		c := e.opts.Commands
		if c.Flood == nil {
			return
		}
		const n = 100_000
		p := e.box().start(sandbox.Cmd{Argv: c.Flood(n)})
		for range 2 {
			for _, from := range []int64{0, 1, 4096, n - 1, n} {
				if text, lost := e.replay(p, from); text != letters(from, n-from) || lost != 0 {
					e.fatalf("from %d came %s with %d lost", from, brief(text), lost)
				}
			}
			if exit := e.wait(p); exit.Stdout != n || exit.Code != 0 {
				e.fatalf("%+v", exit)
			}
		}
	}},
	{"Follow", "output is followed while the process runs, by each reader from its own position", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Block("first words")})
		together(3, func(int) { e.said(p, "first words") })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		var last error
		for _, err := range p.Output(ctx, int64(len("first words"))) {
			last = err
		}
		e.is(last, "a reading whose context ended", context.DeadlineExceeded)
		_, err := p.Wait(ctx)
		e.is(err, "a waiting whose context ended", context.DeadlineExceeded)
		e.said(p, "first words") // the process runs on
		e.ok(p.Signal(e.deadline(), sandbox.SignalKill), "kill")
		if text, _ := e.replay(p, 0); text != "first words" {
			e.fatalf("output is %q", text)
		}
	}},
	{"Gap", "output beyond the limit is dropped and reported as a gap; what is kept is the end, within the limit", func(e *env) {
		c := e.opts.Commands
		if c.Flood == nil {
			return
		}
		const n, limit = 1 << 20, 10_000
		p := e.box().start(sandbox.Cmd{Argv: c.Flood(n), OutputLimit: limit})
		exit := e.wait(p)
		if exit.Stdout != n {
			e.fatalf("%+v, wrote %d", exit, n)
		}
		text, lost := e.replay(p, 0)
		if lost < n-limit || lost+int64(len(text)) != n || len(text) == 0 || text != letters(lost, n-lost) {
			e.fatalf("%d lost and then %s, of %d with a limit of %d", lost, brief(text), n, limit)
		}
	}},
	{"NeverHeldUp", "a process is never held up by output that nobody reads", func(e *env) {
		c := e.opts.Commands
		if c.Flood == nil {
			return
		}
		b := e.box()
		p := b.start(sandbox.Cmd{Argv: c.Flood(8 << 20)})
		for range p.Output(e.deadline(), 0) {
			break // a reader that goes away
		}
		if exit := e.wait(p); exit.Stdout != 8<<20 || exit.Reason != sandbox.Exited {
			e.fatalf("%+v", exit)
		}
	}},
	{"SlowReader", "a reader that is too slow gets a gap, and never a wrong byte", func(e *env) {
		c := e.opts.Commands
		if c.Flood == nil {
			return
		}
		const n, limit = 2 << 20, 32 << 10
		p := e.box().start(sandbox.Cmd{Argv: c.Flood(n), OutputLimit: limit})
		var at, lost int64
		for chunk, err := range p.Output(e.deadline(), 0) {
			e.ok(err, "output")
			if chunk.Off != at+chunk.Lost || string(chunk.Data) != letters(chunk.Off, int64(len(chunk.Data))) {
				e.fatalf("at %d: %d lost, then %s at %d", at, chunk.Lost, brief(string(chunk.Data)), chunk.Off)
			}
			at, lost = chunk.Off+int64(len(chunk.Data)), lost+chunk.Lost
			e.wait(p) // as slow as can be
		}
		if at != n || lost < n-2*limit {
			e.fatalf("ended at %d of %d, with %d lost", at, n, lost)
		}
	}},
	{"Yours", "chunks are the caller's to keep and to change", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Echo("unchanged")})
		for chunk := range p.Output(e.deadline(), 0) {
			clear(chunk.Data)
		}
		if text, _ := e.replay(p, 0); text != "unchanged" {
			e.fatalf("output is now %q", text)
		}
	}},
	{"Lent", "what is lent of the output is what Output has, and stays as it is until the next is asked for, whatever is written meanwhile", func(e *env) {
		c := e.opts.Commands
		if c.Flood == nil {
			return
		}
		const n, limit = 1 << 20, 200_000
		p := e.box().start(sandbox.Cmd{Argv: c.Flood(n), OutputLimit: limit})
		at := int64(0)
		for chunk, err := range sandbox.LentOutput(e.deadline(), p, 0) {
			e.ok(err, "output")
			e.wait(p) // so that all is written over that can be
			for range sandbox.LentOutput(e.deadline(), p, at) {
			}
			if chunk.Off != at+chunk.Lost || len(chunk.Data) == 0 || string(chunk.Data) != letters(chunk.Off, int64(len(chunk.Data))) {
				e.fatalf("at %d: %d lost, then %s at %d", at, chunk.Lost, brief(string(chunk.Data)), chunk.Off)
			}
			at = chunk.Off + int64(len(chunk.Data))
		}
		if at != n {
			e.fatalf("ended at %d of %d", at, n)
		}
	}},
	{"Wait", "any number of callers may wait, before the end and after, and all learn the same", func(e *env) {
		c := e.opts.Commands
		if c.Exit == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Exit(3)})
		exits := make([]sandbox.Exit, 6)
		together(len(exits), func(i int) {
			var err error
			if exits[i], err = p.Wait(e.deadline()); err != nil {
				e.Errorf("wait: %v", err)
			}
		})
		e.ok(p.Close(), "close")
		for _, exit := range append(exits, e.wait(p)) {
			if exit != exits[0] || exit.Code != 3 {
				e.fatalf("%+v and %+v", exit, exits[0])
			}
		}
	}},
	{"Runes", "characters of several bytes arrive as they were written, however they are cut", func(e *env) { // case 16
		c := e.opts.Commands
		if c.Echo == nil {
			return
		}
		text := ""
		for len(text) < 60<<10 {
			text += "世界"
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Echo(text)})
		if got, lost := e.replay(p, 0); got != text || lost != 0 {
			e.fatalf("%d bytes became %d", len(text), len(got))
		}
	}},
	{"WaitGivenUp", "to give up waiting is the context's own error, and says nothing of the process", func(e *env) {
		c := e.opts.Commands
		if c.Block == nil {
			return
		}
		p := e.box().start(sandbox.Cmd{Argv: c.Block("x")})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, sandbox.ErrLost) {
			e.fatalf("wait: %v", err)
		}
		e.ok(p.Close(), "close")
		if exit := e.wait(p); exit.Reason != sandbox.Cancelled {
			e.fatalf("%+v", exit)
		}
	}},
}
