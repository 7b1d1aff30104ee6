//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// handle is one handle on a machine.
type handle struct {
	p      *Provider
	m      *machine
	files  *files
	colour []capability // what its processes have and those of other handles don't

	mu     sync.RWMutex // held, shared, while a process is being started
	closed bool
	binds  []bind // the newest last

	procMu sync.Mutex
	procs  map[*process]struct{} // those that Close stops: not detached, and something of them may live
}

var (
	_ sandbox.Sandbox       = (*handle)(nil)
	_ sandbox.Binder        = (*handle)(nil)
	_ sandbox.Symlinker     = (*handle)(nil)
	_ sandbox.AttrSetter    = (*handle)(nil)
	_ sandbox.ProcessLister = (*handle)(nil)
	_ sandbox.Watcher       = (*handle)(nil)
)

func newHandle(p *Provider, m *machine) (*handle, error) {
	h := &handle{p: p, m: m, colour: m.colour(), procs: map[*process]struct{}{}}
	work, err := openPlace(h.Workdir(), filepath.Join(m.dir, workDir))
	if err != nil {
		if gone := m.standing(); gone != nil {
			err = gone
		}
		return nil, err
	}
	h.files = &files{h: h, places: []*place{work}}
	return h, nil
}

func (h *handle) Ref() sandbox.Ref {
	return h.p.ref(h.m)
}

func (h *handle) Workdir() string {
	if h.p.confined {
		return insideWork
	}
	return filepath.Join(h.m.dir, workDir)
}

func (h *handle) FS() sandbox.FS { return h.files }

// check reports why the handle is of no use any more, if so.
func (h *handle) check(ctx context.Context) error {
	h.mu.RLock()
	closed := h.closed
	h.mu.RUnlock()
	if closed {
		return fmt.Errorf("%w: %s", sandbox.ErrClosed, h.m.name)
	}
	if err := h.m.usable(); err != nil {
		return err
	}
	if err := h.m.standing(); err != nil {
		return err
	}
	return ctx.Err()
}

// Start starts a process.
func (h *handle) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	if err := h.check(ctx); err != nil {
		return nil, err
	}
	if err := checkCmd(c); err != nil {
		return nil, err
	}
	p, err := h.start(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// mostTries is how often a process is started anew that surely did not run,
// because the machine's init ended meanwhile.
const mostTries = 3

var errInitDying = errors.New("the machine's init has ended")

// start starts a process, on a terminal of that size unless it is nil, and
// unless the handle is closed or the machine ends first.
func (h *handle) start(ctx context.Context, c sandbox.Cmd, size *sandbox.TerminalSize) (*process, error) {
	if err := sandbox.CheckLimits(c.Limits, h.p.limits.held()); err != nil {
		return nil, err
	}
	dir, err := sandbox.ResolvePath(h.Workdir(), orWorkdir(c.Dir))
	if err != nil {
		return nil, fmt.Errorf("%w: Dir must be UTF-8", err)
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.m.gate.RLock()
	defer h.m.gate.RUnlock()
	switch {
	case h.closed || h.m.closed:
		return nil, fmt.Errorf("%w: %s", sandbox.ErrClosed, h.m.name)
	case h.m.ended:
		return nil, fmt.Errorf("%w: %s", sandbox.ErrGone, h.m.name)
	}
	var p *process
	var wait func() (outcome, error)
	for try := 1; ; try++ {
		p = newProcess(h.m, c, size, h.forget)
		h.m.join(p)
		if wait, err = h.launch(ctx, p, c, dir); err == nil {
			break
		}
		h.m.leave(p)
		if gone := h.m.standing(); gone != nil {
			return nil, gone
		}
		if !errors.Is(err, errInitDying) || try == mostTries {
			return nil, err
		}
	}
	h.m.hasStarted(p)
	h.record(p)
	p.watch(ctx, c.Timeout)
	if !p.detached {
		h.procMu.Lock()
		h.procs[p] = struct{}{}
		h.procMu.Unlock()
	}
	go p.supervise(wait)
	return p, nil
}

// forget is told that nothing of p lives any more.
func (h *handle) forget(p *process) {
	h.procMu.Lock()
	defer h.procMu.Unlock()
	delete(h.procs, p)
}

func orWorkdir(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// environment is what p has for its environment. A confined process is found
// by its seal, so that nothing need be left where it is to be cleared.
func (h *handle) environment(p *process, c sandbox.Cmd, dir string) []string {
	switch {
	case c.ClearEnv && h.p.confined:
		return environ(c.Env)
	case c.ClearEnv:
		return environ(c.Env, marks(h.m, p))
	}
	term := "dumb"
	if p.size != nil {
		term = "xterm-256color"
	}
	first := []string{"PATH=" + defaultPath, "HOME=" + h.Workdir(), "LANG=C.UTF-8", "TERM=" + term}
	if h.p.confined {
		first = append(first, proxyEnv(h.m.dir)...)
	} else {
		first = append(first, "TMPDIR="+filepath.Join(h.m.dir, tempDir), "PWD="+dir)
	}
	return environ(first, h.m.rec.Spec.Env, c.Env, marks(h.m, p))
}

func (h *handle) Close() error {
	h.mu.Lock()
	closed := h.closed
	h.closed = true
	binds := h.binds
	h.binds = nil
	h.mu.Unlock()
	if closed {
		return nil
	}
	h.procMu.Lock()
	mine := slices.Collect(maps.Keys(h.procs))
	h.procMu.Unlock()
	stopAll(mine, sandbox.Cancelled)
	for _, b := range binds {
		h.undo(b)
	}
	h.m.watches.end(func(w *watch) bool { return w.h == h }, sandbox.ErrClosed)
	h.files.close()
	h.m.exit()
	return nil
}
