//go:build linux

package local

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Processes yields what this process of the host has started in the machine
// and, of what another has, what is Detached and runs. Of those that have
// ended the last 64 are kept, with at most 2 MiB of output in all, for ten
// minutes; the very last whatever it has written.
func (h *handle) Processes(ctx context.Context) iter.Seq2[sandbox.ProcessInfo, error] {
	return func(yield func(sandbox.ProcessInfo, error) bool) {
		err := h.check(ctx)
		var others []*found
		if err == nil {
			others, err = h.allFound()
		}
		if err != nil {
			yield(sandbox.ProcessInfo{}, fmt.Errorf("local: processes of %s: %w", h.m.name, err))
			return
		}
		ours := h.ours()
		for _, p := range ours {
			if !yield(p.info(), nil) {
				return
			}
		}
		for _, f := range others {
			if !slices.ContainsFunc(ours, func(p *process) bool { return p.id == f.id }) && !yield(f.info(), nil) {
				return
			}
		}
	}
}

// Process returns a process of the machine. Of one that another process of
// the host has started, which runs on, neither the output nor the outcome can be had:
// both are ErrLost. It can be waited for and signalled, but if it is on a terminal it can't be typed to.
func (h *handle) Process(ctx context.Context, id string) (sandbox.Process, error) {
	if err := h.check(ctx); err != nil {
		return nil, err
	}
	ours := h.ours()
	if i := slices.IndexFunc(ours, func(p *process) bool { return p.id == id }); i >= 0 {
		if p := ours[i]; p.size != nil {
			return givenTerminal{terminal{p}}, nil
		}
		return given{ours[i]}, nil
	}
	f, err := h.found(id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("local: process %q of %s: %w", id, h.m.name, err)
	case f == nil:
		return nil, fmt.Errorf("%w: %q in %s", sandbox.ErrNoProcess, id, h.m.name)
	}
	return f, nil
}

// ours are the processes that this process of the host has started: those
// that run before those that have ended, for that is the way they go.
func (h *handle) ours() []*process {
	all := h.m.shown()
	for _, p := range h.p.past.list(h.m.rec.Incarnation) {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// info describes the process.
func (p *process) info() sandbox.ProcessInfo {
	info := sandbox.ProcessInfo{
		ID: p.id, Argv: slices.Clone(p.argv), Tag: p.tag, StartedAt: p.began, Detached: p.detached, Terminal: p.size != nil, Running: true,
	}
	select {
	case <-p.done:
		info.Running, info.Exit = false, p.exit
	default:
	}
	return info
}

// given is a process as it is given to who asks for it by its id.
type given struct{ *process }

// Close gives it up.
func (given) Close() error { return nil }
