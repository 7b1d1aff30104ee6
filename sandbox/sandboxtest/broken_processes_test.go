package sandboxtest_test

import (
	"context"
	"iter"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenProcesses are providers that each break one promise of how processes are found again.
var brokenProcesses = map[string]brokenProvider{
	"lists what a handle has started": {"Processes/Lists", finds(func(h *handle, l *processLister) {
		mine := started(h)
		l.processes = infos(l, func(i *sandbox.ProcessInfo) bool { return mine.has(i.ID) })
	})},
	"lists without tags": {"Processes/Lists", finds(func(_ *handle, l *processLister) {
		l.processes = infos(l, func(i *sandbox.ProcessInfo) bool { i.Tag = ""; return true })
	})},
	"lists what runs only": {"Processes/Ended", finds(func(_ *handle, l *processLister) {
		l.processes = infos(l, func(i *sandbox.ProcessInfo) bool { return i.Running })
	})},
	"lists no outcome": {"Processes/Ended", finds(func(_ *handle, l *processLister) {
		l.processes = infos(l, func(i *sandbox.ProcessInfo) bool { i.Exit = sandbox.Exit{}; return true })
	})},
	"replays from the middle": {"Processes/Found", found(func(p *process) { p.output = from(p.Process, 8) })},
	"ends what is given up":   {"Processes/GivenUp", found(func(p *process) { p.close = func() error { return p.Signal(context.Background(), sandbox.SignalKill) } })},
	"finds what a handle has started": {"Processes/Detached", finds(func(h *handle, l *processLister) {
		mine := started(h)
		l.process = func(ctx context.Context, id string) (sandbox.Process, error) {
			if !mine.has(id) {
				return nil, sandbox.ErrNoProcess
			}
			return l.ProcessLister.Process(ctx, id)
		}
	})},
	"finds nothing where nothing is": {"Processes/Absent", finds(func(_ *handle, l *processLister) {
		l.process = func(ctx context.Context, id string) (sandbox.Process, error) {
			p, err := l.ProcessLister.Process(ctx, id)
			if err != nil {
				return nil, sandbox.ErrInvalid
			}
			return p, nil
		}
	})},
	"lists nothing where it can't": {"Processes/Context", finds(func(_ *handle, l *processLister) {
		l.processes = func(ctx context.Context) iter.Seq2[sandbox.ProcessInfo, error] {
			return func(yield func(sandbox.ProcessInfo, error) bool) {
				for i, err := range l.ProcessLister.Processes(ctx) {
					if err != nil || !yield(i, nil) {
						return
					}
				}
			}
		}
	})},
}

// finds breaks how every handle finds processes.
func finds(breaks func(h *handle, l *processLister)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		l, _ := sandbox.As[sandbox.ProcessLister](h.Sandbox)
		h.procs = &processLister{ProcessLister: l}
		breaks(h, h.procs)
	})
}

// found breaks every process that is found.
func found(breaks func(*process)) func(sandbox.Provider) *provider {
	return finds(func(_ *handle, l *processLister) {
		l.process = func(ctx context.Context, id string) (sandbox.Process, error) {
			p, err := l.ProcessLister.Process(ctx, id)
			if err != nil {
				return nil, err
			}
			broken := &process{Process: p}
			breaks(broken)
			return broken, nil
		}
	})
}

// infos is a list of which some are kept, and changed.
func infos(l *processLister, keep func(*sandbox.ProcessInfo) bool) func(context.Context) iter.Seq2[sandbox.ProcessInfo, error] {
	return func(ctx context.Context) iter.Seq2[sandbox.ProcessInfo, error] {
		return func(yield func(sandbox.ProcessInfo, error) bool) {
			for i, err := range l.ProcessLister.Processes(ctx) {
				if (err != nil || keep(&i)) && !yield(i, err) {
					return
				}
			}
		}
	}
}

// from is the output of p that never begins before offset least.
func from(p sandbox.Process, least int64) func(context.Context, int64) iter.Seq2[sandbox.Chunk, error] {
	return func(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
		return p.Output(ctx, max(from, least))
	}
}

// leaving is the output of p, which is killed as a reader goes away.
func leaving(p sandbox.Process) func(context.Context, int64) iter.Seq2[sandbox.Chunk, error] {
	return func(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
		return func(yield func(sandbox.Chunk, error) bool) {
			for c, err := range p.Output(ctx, from) {
				if !yield(c, err) {
					p.Signal(ctx, sandbox.SignalKill)
					return
				}
			}
		}
	}
}

// ids are the processes that a handle has started.
type ids struct {
	mu  sync.Mutex
	all map[string]bool
}

func (i *ids) has(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all[id]
}

func started(h *handle) *ids {
	mine := &ids{all: map[string]bool{}}
	h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
		p, err := h.Sandbox.Start(ctx, c)
		if err == nil {
			mine.mu.Lock()
			defer mine.mu.Unlock()
			mine.all[p.ID()] = true
		}
		return p, err
	}
	return mine
}
