package memory

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxHandle is a handle on a machine. Its fields are guarded by Sandboxes.mu.
type boxHandle struct {
	s  *Sandboxes
	m  *boxMachine
	fs *boxFS

	closed bool
	binds  []*boxBind // the latest last
	procs  map[*boxProcess]struct{}
}

var (
	_ sandbox.Sandbox       = (*boxHandle)(nil)
	_ sandbox.Binder        = (*boxHandle)(nil)
	_ sandbox.Symlinker     = (*boxHandle)(nil)
	_ sandbox.AttrSetter    = (*boxHandle)(nil)
	_ sandbox.ProcessLister = (*boxHandle)(nil)
	_ sandbox.Watcher       = (*boxHandle)(nil)
)

func newBoxHandle(s *Sandboxes, m *boxMachine) *boxHandle {
	h := &boxHandle{s: s, m: m, procs: map[*boxProcess]struct{}{}}
	h.fs = &boxFS{s: s, m: m, usable: h.usable, binds: func() []*boxBind { return h.binds }}
	return h
}

// usable says why nothing can be done through the handle. s.mu is held.
func (h *boxHandle) usable() error {
	switch {
	case h.closed:
		return sandbox.ErrClosed
	case h.m.gone:
		return h.s.missing(h.m.ref)
	}
	return nil
}

func (h *boxHandle) Ref() sandbox.Ref { return h.m.ref }

func (h *boxHandle) Workdir() string { return boxWorkdir }

func (h *boxHandle) FS() sandbox.FS { return h.fs }

func (h *boxHandle) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	if err := checkBoxCmd(c); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("memory: start %s: %w", c.Argv[0], context.Cause(ctx))
	}
	dir, err := h.startDir(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	limit := c.OutputLimit
	if limit == 0 {
		limit = sandbox.DefaultOutputLimit
	}
	grace := c.KillGrace
	if grace == 0 {
		grace = sandbox.DefaultKillGrace
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &boxProcess{
		argv:     slices.Clone(c.Argv),
		tag:      c.Tag,
		detached: c.Detached,
		grace:    grace,
		now:      h.s.now,
		began:    h.s.now(),
		out:      &boxOutput{limit: limit},
		cancel:   cancel,
		done:     make(chan struct{}),
	}
	p.release = func() {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		delete(h.procs, p)
		delete(h.m.procs, p)
		h.m.remember(p)
	}
	handler, view, err := h.enter(p, c.Argv[0])
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("memory: start %s: %w", c.Argv[0], err)
	}
	first := h.m.spec.Env
	if c.ClearEnv {
		first = nil
	}
	cmd := &Command{
		Argv:   slices.Clone(c.Argv),
		Env:    mergeEnv(first, c.Env),
		Dir:    dir,
		Stdin:  newBoxStdin(own.Done(), c.Stdin),
		Stdout: boxStream{p.out, sandbox.Stdout},
		Stderr: boxStream{p.out, sandbox.Stderr},
		FS:     view,
		reach:  func(host string) error { return h.s.reach(h.m, host) },
	}
	go func() {
		if !c.Detached {
			unwatch := context.AfterFunc(ctx, func() {
				p.stop(boxStop{reason: sandbox.Cancelled, signal: sandbox.SignalTerm, cause: context.Cause(ctx)})
			})
			defer unwatch()
		}
		if c.Timeout > 0 {
			timer := time.AfterFunc(c.Timeout, func() {
				p.stop(boxStop{reason: sandbox.TimedOut, signal: sandbox.SignalTerm, cause: fmt.Errorf("timeout of %v: %w", c.Timeout, context.DeadlineExceeded)})
			})
			defer timer.Stop()
		}
		p.run(own, handler, cmd)
	}()
	return p, nil
}

// startDir is the absolute path a command starts in.
func (h *boxHandle) startDir(ctx context.Context, dir string) (string, error) {
	if dir == "" {
		dir = boxWorkdir
	}
	info, err := h.fs.Stat(ctx, dir)
	if err == nil && info.IsDir() {
		return sandbox.ResolvePath(boxWorkdir, dir)
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if refused := h.usable(); refused != nil {
		return "", refused
	}
	if err == nil {
		err = sandbox.ErrNotDir
	}
	return "", fmt.Errorf("%w: no such directory: %s: %w", sandbox.ErrNotStarted, dir, err)
}

// enter makes p a process of the machine and the handle, and returns its
// program and its view of the files.
func (h *boxHandle) enter(p *boxProcess, program string) (Handler, *boxFS, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if err := h.usable(); err != nil {
		return nil, nil, err
	}
	handler, err := h.s.program(program)
	if err != nil {
		return nil, nil, err
	}
	h.m.started++
	p.id = strconv.Itoa(h.m.started)
	h.m.procs[p] = struct{}{}
	if !p.detached {
		h.procs[p] = struct{}{}
	}
	binds := slices.Clone(h.binds)
	usable := func() error {
		select {
		case <-p.done:
			return fmt.Errorf("%w: the process has ended", sandbox.ErrClosed)
		default:
		}
		if h.m.gone {
			return h.s.missing(h.m.ref)
		}
		return nil
	}
	return handler, &boxFS{s: h.s, m: h.m, usable: usable, binds: func() []*boxBind { return binds }}, nil
}

func (h *boxHandle) Close() error {
	h.s.mu.Lock()
	h.closed = true
	h.m.endWatches(h, sandbox.ErrClosed)
	procs := slices.Collect(maps.Keys(h.procs))
	h.s.mu.Unlock()
	for _, p := range procs {
		p.stop(boxStop{reason: sandbox.Cancelled, signal: sandbox.SignalTerm, cause: sandbox.ErrClosed})
	}
	for _, p := range procs {
		<-p.done
	}
	h.s.mu.Lock()
	binds := h.binds
	h.binds = nil
	h.s.mu.Unlock()
	for _, b := range binds {
		_ = b.root.Close() // nothing was written through it that its close could lose
	}
	return nil
}

func (h *boxHandle) Symlink(ctx context.Context, target, link string) error {
	return h.fs.Symlink(ctx, target, link)
}

func (h *boxHandle) Readlink(ctx context.Context, link string) (string, error) {
	return h.fs.Readlink(ctx, link)
}

func (h *boxHandle) Chmod(ctx context.Context, path string, mode fs.FileMode) error {
	return h.fs.Chmod(ctx, path, mode)
}

func (h *boxHandle) Chtimes(ctx context.Context, path string, modTime time.Time) error {
	return h.fs.Chtimes(ctx, path, modTime)
}

// Bind refuses, beside what the contract says, a path inside or around that of
// another bind. A bind at the very path of another hides it.
func (h *boxHandle) Bind(ctx context.Context, hostDir, at string) (func(context.Context) error, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("memory: bind %s: %w", at, context.Cause(ctx))
	}
	clean, err := sandbox.ResolvePath("/", at)
	if err != nil {
		return nil, fmt.Errorf("%w: bind %q", err, at)
	}
	rel, ok := sandbox.PathWithin(sandbox.BindRoot(h), clean)
	if below := ok && rel != "."; !path.IsAbs(at) || !below && !(h.s.info.Caps.BindsWorkdir && clean == boxWorkdir) {
		return nil, fmt.Errorf("%w: bind %s: not below %s", sandbox.ErrInvalid, at, sandbox.BindRoot(h))
	}
	root, err := os.OpenRoot(hostDir)
	if err != nil {
		return nil, fmt.Errorf("memory: bind %s: %w", at, err)
	}
	b := &boxBind{at: clean, root: root}
	if err := h.addBind(b); err != nil {
		_ = root.Close() // nothing was done with it
		return nil, fmt.Errorf("memory: bind %s: %w", at, err)
	}
	return func(context.Context) error {
		h.s.mu.Lock()
		h.binds = slices.DeleteFunc(h.binds, func(other *boxBind) bool { return other == b })
		h.s.mu.Unlock()
		return b.root.Close()
	}, nil
}

func (h *boxHandle) addBind(b *boxBind) error {
	// The error a root gives for a path that leaves it has no name; this one is it.
	_, err := b.root.Lstat("..")
	if pe, ok := err.(*fs.PathError); ok {
		b.escapes = pe.Err
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if err := h.usable(); err != nil {
		return err
	}
	for _, other := range h.binds {
		_, inside := sandbox.PathWithin(other.at, b.at)
		_, around := sandbox.PathWithin(b.at, other.at)
		if inside != around {
			return fmt.Errorf("%w: it overlaps the bind at %s", sandbox.ErrInvalid, other.at)
		}
	}
	h.binds = append(h.binds, b)
	return nil
}
