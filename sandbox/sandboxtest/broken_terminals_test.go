package sandboxtest_test

import (
	"context"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenTerminals are providers that each break one promise of terminals.
var brokenTerminals = map[string]brokenProvider{
	"starts at 80 by 24": {"Terminals/Size", starts(func(_ *sandbox.Cmd, size *sandbox.TerminalSize) {
		*size = sandbox.TerminalSize{Columns: 80, Rows: 24}
	})},
	"never resizes": {"Terminals/Resize", terminals(func(t *terminal) {
		t.resize = func(context.Context, sandbox.TerminalSize) error { return nil }
	})},
	"lets the smallest have its size": {"Terminals/LastSize", terminals(smallest)},
	"starts on a terminal of nothing": {"Terminals/Refused", starts(func(_ *sandbox.Cmd, size *sandbox.TerminalSize) {
		size.Columns, size.Rows = max(size.Columns, 1), max(size.Rows, 1)
	})},
	"passes over an input": {"Terminals/Refused", starts(func(c *sandbox.Cmd, _ *sandbox.TerminalSize) { c.Stdin = nil })},
	"takes a missing program for one that failed": {"Terminals/Refused", starts(func(c *sandbox.Cmd, _ *sandbox.TerminalSize) {
		if len(c.Argv) > 0 {
			c.Argv = append([]string{"env"}, c.Argv...)
		}
	})},
	"passes over the limits on a terminal": {"Terminals/Limits", starts(func(c *sandbox.Cmd, _ *sandbox.TerminalSize) { c.Limits = sandbox.Limits{} })},
	"controls nothing":                     {"Terminals/Controls", starts(uncontrolled)},
	"interrupts nobody":                    {"Terminals/Jobs", starts(uncontrolled)},
	"has two streams": {"Terminals/OneStream", terminals(func(t *terminal) {
		t.output = chunks(t.t, func(c *sandbox.Chunk) { c.Stream = sandbox.Stderr })
	})},
	"types letter by letter": {"Terminals/Writes", terminals(func(t *terminal) { t.write = letterByLetter(t.t) })},
	"types to nobody": {"Terminals/WriteEnded", terminals(func(t *terminal) {
		t.write = func(b []byte) (int, error) {
			t.t.Write(b)
			return len(b), nil
		}
	})},
	"hides what has scrolled away": {"Terminals/Scrollback", terminals(func(t *terminal) {
		t.output = chunks(t.t, func(c *sandbox.Chunk) { c.Lost = 0 })
	})},
	"keeps less than it should": {"Terminals/Scrollback", starts(func(c *sandbox.Cmd, _ *sandbox.TerminalSize) { c.OutputLimit = 1 << 10 })},
	"shows what comes":          {"Terminals/Readers", terminals(func(t *terminal) { t.output = from(t.t, 7) })},
	"ends with its first reader": {"Terminals/Readers", terminals(func(t *terminal) {
		t.output = leaving(t.t)
	})},
	"finds no terminal":                 {"Terminals/Found", found(func(*process) {})},
	"takes every end for the program's": {"Terminals/Outcomes", terminals(func(t *terminal) { t.wait = invented(t.t) })},
	"asks what nobody hears to end":     {"Terminals/Interactive", terminals(func(t *terminal) { t.close = patiently(t.t) })},
	"forgets whose a terminal is":       {"Terminals/Reaped", starts(func(c *sandbox.Cmd, _ *sandbox.TerminalSize) { c.Tag = "" })},
	"hides that there are terminals too": {"Handles/Powers", func(p sandbox.Provider) *provider {
		return handles(func(h *handle) { h.Sandbox = noTerminals{h.Sandbox} })(p)
	}},
}

// starts breaks what is started on a terminal.
func starts(breaks func(*sandbox.Cmd, *sandbox.TerminalSize)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		s, _ := sandbox.As[sandbox.TerminalStarter](h.Sandbox)
		h.term = func(ctx context.Context, c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
			breaks(&c, &size)
			return s.StartTerminal(ctx, c, size)
		}
	})
}

// terminals breaks every terminal that is started.
func terminals(breaks func(*terminal)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		s, _ := sandbox.As[sandbox.TerminalStarter](h.Sandbox)
		h.term = func(ctx context.Context, c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
			t, err := s.StartTerminal(ctx, c, size)
			if err != nil {
				return nil, err
			}
			broken := &terminal{process: process{Process: t}, t: t}
			breaks(broken)
			return broken, nil
		}
	})
}

// smallest never lets a terminal grow.
func smallest(t *terminal) {
	var mu sync.Mutex
	least := sandbox.TerminalSize{Columns: 150, Rows: 50}
	t.resize = func(ctx context.Context, size sandbox.TerminalSize) error {
		mu.Lock()
		defer mu.Unlock()
		least = sandbox.TerminalSize{Columns: min(least.Columns, size.Columns), Rows: min(least.Rows, size.Rows)}
		return t.t.Resize(ctx, least)
	}
}

func uncontrolled(c *sandbox.Cmd, _ *sandbox.TerminalSize) {
	c.Argv = append([]string{"setsid", "-w"}, c.Argv...)
}

// letterByLetter types the first letter, and the others once another has begun to type.
func letterByLetter(t sandbox.Terminal) func([]byte) (int, error) {
	m := newMeeting()
	return func(b []byte) (int, error) {
		for i := range b {
			if i == 1 {
				m.another()
			}
			if _, err := t.Write(b[i : i+1]); err != nil {
				return i, err
			}
		}
		return len(b), nil
	}
}

// patiently asks to end, and waits a while before it insists.
func patiently(t sandbox.Terminal) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		t.Signal(ctx, sandbox.SignalTerm)
		t.Wait(ctx)
		return t.Close()
	}
}

// noTerminals is a handle that starts no program on a terminal.
type noTerminals struct{ sandbox.Sandbox }

func (s noTerminals) As(target any) (ok bool) {
	switch t := target.(type) {
	case *sandbox.Symlinker:
		*t, ok = sandbox.As[sandbox.Symlinker](s.Sandbox)
	case *sandbox.Binder:
		*t, ok = sandbox.As[sandbox.Binder](s.Sandbox)
	case *sandbox.ProcessLister:
		*t, ok = sandbox.As[sandbox.ProcessLister](s.Sandbox)
	}
	return ok
}
