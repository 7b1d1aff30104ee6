package memory

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxPast is how many processes of a machine that have ended are kept.
const boxPast = 64

// Processes yields the processes of the machine that run, and the last 64 that have ended.
func (h *boxHandle) Processes(ctx context.Context) iter.Seq2[sandbox.ProcessInfo, error] {
	return func(yield func(sandbox.ProcessInfo, error) bool) {
		all, err := h.all(ctx)
		if err != nil {
			yield(sandbox.ProcessInfo{}, fmt.Errorf("memory: processes of %s: %w", h.m, err))
			return
		}
		for _, p := range all {
			if !yield(p.info(), nil) {
				return
			}
		}
	}
}

// Process returns one of them.
func (h *boxHandle) Process(ctx context.Context, id string) (sandbox.Process, error) {
	all, err := h.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("memory: process %q of %s: %w", id, h.m, err)
	}
	for _, p := range all {
		if p.id == id {
			return boxGiven{p}, nil
		}
	}
	return nil, fmt.Errorf("%w: %q in %s", sandbox.ErrNoProcess, id, h.m)
}

// all lists what is known of the machine's processes.
func (h *boxHandle) all(ctx context.Context) ([]*boxProcess, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if err := h.usable(); err != nil {
		return nil, err
	}
	all := slices.Clone(h.m.past)
	for p := range h.m.procs {
		all = append(all, p)
	}
	return all, nil
}

// remember keeps a process that has ended. Sandboxes.mu is held.
func (m *boxMachine) remember(p *boxProcess) {
	if m.past = append(m.past, p); len(m.past) > boxPast {
		m.past = slices.Delete(m.past, 0, 1)
	}
}

func (p *boxProcess) info() sandbox.ProcessInfo {
	info := sandbox.ProcessInfo{
		ID: p.id, Argv: slices.Clone(p.argv), Tag: p.tag, StartedAt: p.began, Detached: p.detached, Running: true,
	}
	select {
	case <-p.done:
		info.Running, info.Exit = false, p.exit
	default:
	}
	return info
}

// boxGiven is a process as it is given to who asks for it by its id.
type boxGiven struct{ *boxProcess }

// Close gives it up.
func (boxGiven) Close() error { return nil }
