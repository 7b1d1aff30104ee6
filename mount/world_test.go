package mount_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// world is what a manager works with: rows and machines in memory, folders on disk.
type world struct {
	t       *testing.T
	store   mount.Store
	mounter *watched
	boxes   *memory.Sandboxes
	log     *lockedBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	folders, err := dir.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, store: memory.New(nil).Mounts(), mounter: &watched{Mounter: folders},
		boxes: memory.NewSandboxes(nil), log: &lockedBuffer{},
	}
}

// manager returns a manager; change, which may be nil, has the last word on its configuration.
func (w *world) manager(change func(*mount.Config)) *mount.Manager {
	w.t.Helper()
	c := mount.Config{Store: w.store, Mounter: w.mounter, Log: slog.New(slog.NewTextHandler(w.log, nil))}
	if change != nil {
		change(&c)
	}
	m, err := mount.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// open returns a handle on the machine called name, rigged with nothing yet.
func (w *world) open(name string) *rigged {
	w.t.Helper()
	sb, err := w.boxes.Open(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { sb.Close() })
	return &rigged{Sandbox: sb}
}

// request is one of agent in a session of project web.
func request(agent access.AgentID) mount.Request {
	return mount.Request{Session: "0192f0c1-2ab4-7cde-8f01-2345678900aa", Project: "web", Owner: "ana", Agent: agent}
}

// carry carries what must be carried, and releases it at the end of the test.
func (w *world) carry(m *mount.Manager, sb sandbox.Sandbox, r mount.Request) mount.Carried {
	w.t.Helper()
	c, err := m.Carry(w.t.Context(), sb, r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := c.Release(context.Background()); err != nil {
			w.t.Errorf("Release: %v", err)
		}
	})
	if len(c.Outcomes) != 1 || c.Outcomes[0].State != mount.Mounted || c.Outcomes[0].Cause != nil {
		w.t.Fatalf("outcomes %+v, want one that is mounted", c.Outcomes)
	}
	return c
}

func (w *world) write(sb sandbox.Sandbox, file, text string) {
	w.t.Helper()
	if err := sandbox.WriteFile(w.t.Context(), sb.FS(), file, []byte(text), nil); err != nil {
		w.t.Errorf("write %s: %v", file, err)
	}
}

func (w *world) wantFile(sb sandbox.Sandbox, file, text string) {
	w.t.Helper()
	if got, err := sandbox.ReadFile(w.t.Context(), sb.FS(), file); err != nil || string(got) != text {
		w.t.Errorf("%s reads %q, %v; want %q", file, got, err, text)
	}
}

// wantNothingHeld says that every reference to a directory was given back.
func (w *world) wantNothingHeld() {
	w.t.Helper()
	if n := w.mounter.references(); n != 0 {
		w.t.Errorf("%d references are still held", n)
	}
}

// wantLink says what the link in sb's working directory reads.
func (w *world) wantLink(sb sandbox.Sandbox, text string) {
	w.t.Helper()
	links, ok := sandbox.As[sandbox.Symlinker](sb)
	if !ok {
		w.t.Error("the sandbox has no links")
		return
	}
	if got, err := links.Readlink(w.t.Context(), "agent-files"); err != nil || got != text {
		w.t.Errorf("agent-files leads to %q, %v; want %q", got, err, text)
	}
}

// wantLogged says that some line of the log holds all parts.
func (w *world) wantLogged(parts ...string) {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return
		}
	}
	w.t.Errorf("no line of the log holds all of %q:\n%s", parts, w.log)
}

// watched counts a mounter's references and can be made to fail.
type watched struct {
	mount.Mounter
	before  func(context.Context) error // before Mount; nil = nothing
	release func() error                // before Release; nil = nothing

	mu    sync.Mutex
	calls int
	held  int
}

func (m *watched) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	m.mu.Lock()
	m.calls++
	m.mu.Unlock()
	if m.before != nil {
		if err := m.before(ctx); err != nil {
			return nil, err
		}
	}
	inner, err := m.Mounter.Mount(context.WithoutCancel(ctx), s)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held++
	return &reference{Mount: inner, m: m}, nil
}

func (m *watched) references() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

func (m *watched) called() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

type reference struct {
	mount.Mount
	m *watched
}

func (r *reference) Release(ctx context.Context) error {
	if r.m.release != nil {
		if err := r.m.release(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.held--
	return r.Mount.Release(ctx)
}

// rigged is a handle that records what is asked of it and can be made to fail.
type rigged struct {
	sandbox.Sandbox
	noBinder, noLinks bool
	// before is asked before each operation; its error is the answer. nil = nothing.
	before func(op, path string) error
	// stub is what a bind leaves at its target where nobody removes it; zero = nothing.
	stub sandbox.FileKind

	mu    sync.Mutex
	asked []string
	stubs map[string]bool
}

func (r *rigged) ask(op, p string) error {
	r.mu.Lock()
	r.asked = append(r.asked, op+" "+p)
	r.mu.Unlock()
	if r.before == nil {
		return nil
	}
	return r.before(op, p)
}

func (r *rigged) steps() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// left are the stubs that are still there.
func (r *rigged) left() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.stubs))
}

func (r *rigged) FS() sandbox.FS { return riggedFS{r.Sandbox.FS(), r} }

func (r *rigged) As(target any) bool {
	switch target := target.(type) {
	case *sandbox.Binder:
		*target = riggedBinder{r}
		return !r.noBinder
	case *sandbox.Symlinker:
		inner, ok := sandbox.As[sandbox.Symlinker](r.Sandbox)
		*target = riggedLinks{inner, r}
		return ok && !r.noLinks
	}
	return false
}

type riggedBinder struct{ r *rigged }

func (b riggedBinder) Bind(ctx context.Context, hostDir, at string) (func(context.Context) error, error) {
	r := b.r
	if r.stub != 0 {
		r.mu.Lock()
		r.stubs = map[string]bool{at: true}
		r.mu.Unlock()
	}
	if err := r.ask("bind", at); err != nil {
		return nil, err
	}
	inner, ok := sandbox.As[sandbox.Binder](r.Sandbox)
	if !ok {
		return nil, errors.New("the sandbox below has no binds")
	}
	unbind, err := inner.Bind(ctx, hostDir, at)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := r.ask("unbind", at); err != nil {
			return err
		}
		return unbind(ctx)
	}, nil
}

type riggedLinks struct {
	sandbox.Symlinker
	r *rigged
}

func (l riggedLinks) Symlink(ctx context.Context, target, link string) error {
	if err := l.r.ask("symlink", link); err != nil {
		return err
	}
	return l.Symlinker.Symlink(ctx, target, link)
}

func (l riggedLinks) Readlink(ctx context.Context, link string) (string, error) {
	if err := l.r.ask("readlink", link); err != nil {
		return "", err
	}
	return l.Symlinker.Readlink(ctx, link)
}

type riggedFS struct {
	sandbox.FS
	r *rigged
}

func (f riggedFS) ReadDir(ctx context.Context, p string) iter.Seq2[sandbox.FileInfo, error] {
	return func(yield func(sandbox.FileInfo, error) bool) {
		if err := f.r.ask("list", p); err != nil {
			yield(sandbox.FileInfo{}, err)
			return
		}
		if left := f.r.left(); p == sandbox.BindRoot(f.r) && len(left) > 0 {
			for _, at := range left {
				if !yield(sandbox.FileInfo{Name: path.Base(at), Kind: f.r.stub}, nil) {
					return
				}
			}
			return
		}
		for info, err := range f.FS.ReadDir(ctx, p) {
			if !yield(info, err) {
				return
			}
		}
	}
}

func (f riggedFS) Create(ctx context.Context, p string, opts *sandbox.CreateOptions) (sandbox.Writer, error) {
	if err := f.r.ask("create", p); err != nil {
		return nil, err
	}
	return f.FS.Create(ctx, p, opts)
}

func (f riggedFS) Remove(ctx context.Context, p string, opts *sandbox.RemoveOptions) error {
	if err := f.r.ask("remove", p); err != nil {
		return err
	}
	if opts != nil && opts.Recursive {
		return errors.New("nothing here may be removed recursively")
	}
	f.r.mu.Lock()
	stub := f.r.stubs[p]
	delete(f.r.stubs, p)
	f.r.mu.Unlock()
	if stub {
		return nil
	}
	return f.FS.Remove(ctx, p, opts)
}

// lockedBuffer is a log that several goroutines may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// debug has everything logged.
func debug(w *world) func(*mount.Config) {
	return func(c *mount.Config) {
		c.Log = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}
