package sandboxtest_test

import (
	"context"
	"io"
	"iter"
	"path"

	"github.com/bunkroom/bunkroom/sandbox"
)

// provider is a provider of which some methods are replaced.
type provider struct {
	sandbox.Provider
	create   func(context.Context, sandbox.CreateRequest) (sandbox.Machine, error)
	inspect  func(context.Context, sandbox.Ref) ([]sandbox.Found, error)
	attach   func(context.Context, sandbox.Ref) (sandbox.Sandbox, error)
	destroy  func(context.Context, sandbox.Ref) error
	list     func(context.Context, string) iter.Seq2[sandbox.Listed, error]
	reap     func(context.Context, sandbox.Ref, string) error
	measure  func(context.Context, sandbox.Ref) (int64, error)
	restrict func(context.Context, sandbox.Ref, []sandbox.EgressRule) (string, error)
}

func (p *provider) As(target any) (ok bool) {
	switch t := target.(type) {
	case *sandbox.Lister:
		if *t, ok = sandbox.As[sandbox.Lister](p.Provider); p.list != nil {
			*t = lister(p.list)
		}
	case *sandbox.Reaper:
		if *t, ok = sandbox.As[sandbox.Reaper](p.Provider); p.reap != nil {
			*t = reaper(p.reap)
		}
	case *sandbox.Measurer:
		if *t, ok = sandbox.As[sandbox.Measurer](p.Provider); p.measure != nil {
			*t = measurer(p.measure)
		}
	case *sandbox.Guard:
		if *t, ok = sandbox.As[sandbox.Guard](p.Provider); p.restrict != nil {
			*t, ok = guard(p.restrict), true
		}
	}
	return ok
}

type lister func(context.Context, string) iter.Seq2[sandbox.Listed, error]

func (l lister) List(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
	return l(ctx, deployment)
}

type reaper func(context.Context, sandbox.Ref, string) error

func (r reaper) Reap(ctx context.Context, ref sandbox.Ref, tag string) error { return r(ctx, ref, tag) }

type measurer func(context.Context, sandbox.Ref) (int64, error)

func (m measurer) Measure(ctx context.Context, ref sandbox.Ref) (int64, error) { return m(ctx, ref) }

type guard func(context.Context, sandbox.Ref, []sandbox.EgressRule) (string, error)

func (g guard) Restrict(ctx context.Context, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
	return g(ctx, ref, rules)
}

func (p *provider) Create(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
	if p.create != nil {
		return p.create(ctx, r)
	}
	return p.Provider.Create(ctx, r)
}

func (p *provider) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	if p.inspect != nil {
		return p.inspect(ctx, ref)
	}
	return p.Provider.Inspect(ctx, ref)
}

func (p *provider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	if p.attach != nil {
		return p.attach(ctx, ref)
	}
	return p.Provider.Attach(ctx, ref)
}

func (p *provider) Destroy(ctx context.Context, ref sandbox.Ref) error {
	if p.destroy != nil {
		return p.destroy(ctx, ref)
	}
	return p.Provider.Destroy(ctx, ref)
}

// handle is a handle of which some methods are replaced.
type handle struct {
	sandbox.Sandbox
	files *files
	start func(context.Context, sandbox.Cmd) (sandbox.Process, error)
	close func() error
	bind  func(context.Context, string, string) (func(context.Context) error, error)
	attrs sandbox.AttrSetter
	procs *processLister
	term  func(context.Context, sandbox.Cmd, sandbox.TerminalSize) (sandbox.Terminal, error)
	watch watchFunc
}

func (h *handle) FS() sandbox.FS {
	if h.files != nil {
		return h.files
	}
	return h.Sandbox.FS()
}

func (h *handle) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	if h.start != nil {
		return h.start(ctx, c)
	}
	return h.Sandbox.Start(ctx, c)
}

func (h *handle) Close() error {
	if h.close != nil {
		return h.close()
	}
	return h.Sandbox.Close()
}

func (h *handle) As(target any) (ok bool) {
	switch t := target.(type) {
	case *sandbox.Symlinker:
		*t, ok = sandbox.As[sandbox.Symlinker](h.Sandbox)
	case *sandbox.AttrSetter:
		if *t, ok = sandbox.As[sandbox.AttrSetter](h.Sandbox); h.attrs != nil {
			*t = h.attrs
		}
	case *sandbox.Binder:
		if *t, ok = sandbox.As[sandbox.Binder](h.Sandbox); h.bind != nil {
			*t = binder(h.bind)
		}
	case *sandbox.ProcessLister:
		if *t, ok = sandbox.As[sandbox.ProcessLister](h.Sandbox); ok && h.procs != nil {
			*t = h.procs
		}
	case *sandbox.TerminalStarter:
		if *t, ok = sandbox.As[sandbox.TerminalStarter](h.Sandbox); ok && h.term != nil {
			*t = terminalStarter(h.term)
		}
	case *sandbox.Watcher:
		if *t, ok = sandbox.As[sandbox.Watcher](h.Sandbox); h.watch != nil {
			*t = h.watch
		}
	}
	return ok
}

type binder func(context.Context, string, string) (func(context.Context) error, error)

func (b binder) Bind(ctx context.Context, hostDir, at string) (func(context.Context) error, error) {
	return b(ctx, hostDir, at)
}

// processLister is the list of a handle, of which some methods are replaced.
type processLister struct {
	sandbox.ProcessLister
	processes func(context.Context) iter.Seq2[sandbox.ProcessInfo, error]
	process   func(context.Context, string) (sandbox.Process, error)
}

func (l *processLister) Processes(ctx context.Context) iter.Seq2[sandbox.ProcessInfo, error] {
	if l.processes != nil {
		return l.processes(ctx)
	}
	return l.ProcessLister.Processes(ctx)
}

func (l *processLister) Process(ctx context.Context, id string) (sandbox.Process, error) {
	if l.process != nil {
		return l.process(ctx, id)
	}
	return l.ProcessLister.Process(ctx, id)
}

type terminalStarter func(context.Context, sandbox.Cmd, sandbox.TerminalSize) (sandbox.Terminal, error)

func (s terminalStarter) StartTerminal(ctx context.Context, c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
	return s(ctx, c, size)
}

// terminal is a terminal of which some methods are replaced.
type terminal struct {
	process
	t      sandbox.Terminal
	write  func([]byte) (int, error)
	resize func(context.Context, sandbox.TerminalSize) error
}

func (t *terminal) Write(b []byte) (int, error) {
	if t.write != nil {
		return t.write(b)
	}
	return t.t.Write(b)
}

func (t *terminal) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	if t.resize != nil {
		return t.resize(ctx, size)
	}
	return t.t.Resize(ctx, size)
}

type watchFunc func(context.Context, string, *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error)

func (w watchFunc) Watch(ctx context.Context, path string, opts *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
	return w(ctx, path, opts)
}

// files is an FS of which some methods are replaced.
type files struct {
	sandbox.FS
	path    func(string) string // what every path is turned into
	open    func(context.Context, string, *sandbox.OpenOptions) (io.ReadCloser, error)
	create  func(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error)
	readDir func(context.Context, string) iter.Seq2[sandbox.FileInfo, error]
	remove  func(context.Context, string, *sandbox.RemoveOptions) error
	lstat   func(context.Context, string) (sandbox.FileInfo, error)
	rename  func(context.Context, string, string, *sandbox.RenameOptions) error
	// told changes what is told of a file, by Stat, Lstat and ReadDir.
	told func(dir string, info *sandbox.FileInfo)
}

func (f *files) at(path string) string {
	if f.path != nil {
		return f.path(path)
	}
	return path
}

func (f *files) Open(ctx context.Context, path string, opts *sandbox.OpenOptions) (io.ReadCloser, error) {
	if f.open != nil {
		return f.open(ctx, path, opts)
	}
	return f.FS.Open(ctx, f.at(path), opts)
}

func (f *files) Create(ctx context.Context, path string, opts *sandbox.CreateOptions) (sandbox.Writer, error) {
	if f.create != nil {
		return f.create(ctx, path, opts)
	}
	return f.FS.Create(ctx, f.at(path), opts)
}

func (f *files) Stat(ctx context.Context, path string) (sandbox.FileInfo, error) {
	info, err := f.FS.Stat(ctx, f.at(path))
	return f.tell(path, info), err
}

func (f *files) Lstat(ctx context.Context, path string) (sandbox.FileInfo, error) {
	if f.lstat != nil {
		return f.lstat(ctx, path)
	}
	info, err := f.FS.Lstat(ctx, f.at(path))
	return f.tell(path, info), err
}

func (f *files) tell(p string, info sandbox.FileInfo) sandbox.FileInfo {
	if f.told != nil && info.Kind == sandbox.KindFile {
		f.told(path.Dir(p), &info)
	}
	return info
}

func (f *files) ReadDir(ctx context.Context, path string) iter.Seq2[sandbox.FileInfo, error] {
	if f.readDir != nil {
		return f.readDir(ctx, path)
	}
	if f.told != nil {
		return listed(f.FS, func(info *sandbox.FileInfo) { *info = f.tell(path+"/"+info.Name, *info) })(ctx, f.at(path))
	}
	return f.FS.ReadDir(ctx, f.at(path))
}

func (f *files) Mkdir(ctx context.Context, path string) error { return f.FS.Mkdir(ctx, f.at(path)) }

func (f *files) Remove(ctx context.Context, path string, opts *sandbox.RemoveOptions) error {
	if f.remove != nil {
		return f.remove(ctx, path, opts)
	}
	return f.FS.Remove(ctx, f.at(path), opts)
}

func (f *files) Rename(ctx context.Context, from, to string, opts *sandbox.RenameOptions) error {
	if f.rename != nil {
		return f.rename(ctx, from, to, opts)
	}
	return f.FS.Rename(ctx, f.at(from), f.at(to), opts)
}

// process is a process of which some methods are replaced.
type process struct {
	sandbox.Process
	wait   func(context.Context) (sandbox.Exit, error)
	output func(context.Context, int64) iter.Seq2[sandbox.Chunk, error]
	lend   func(context.Context, int64) iter.Seq2[sandbox.Chunk, error]
	close  func() error
}

func (p *process) LendOutput(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	if p.lend != nil {
		return p.lend(ctx, from)
	}
	return p.Output(ctx, from)
}

func (p *process) Close() error {
	if p.close != nil {
		return p.close()
	}
	return p.Process.Close()
}

func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	if p.wait != nil {
		return p.wait(ctx)
	}
	return p.Process.Wait(ctx)
}

func (p *process) Output(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	if p.output != nil {
		return p.output(ctx, from)
	}
	return p.Process.Output(ctx, from)
}

// handles breaks every handle of a provider.
func handles(breaks func(*handle)) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		return &provider{Provider: p, attach: func(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
			sb, err := p.Attach(ctx, ref)
			if err != nil {
				return nil, err
			}
			h := &handle{Sandbox: sb}
			breaks(h)
			return h, nil
		}}
	}
}

// fs breaks the FS of every handle.
func fs(breaks func(f *files, h *handle)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		h.files = &files{FS: h.Sandbox.FS()}
		breaks(h.files, h)
	})
}

// commands breaks what is started.
func commands(breaks func(*sandbox.Cmd)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
			breaks(&c)
			return h.Sandbox.Start(ctx, c)
		}
	})
}

// processes breaks every process.
func processes(breaks func(*process)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
			p, err := h.Sandbox.Start(ctx, c)
			if err != nil {
				return nil, err
			}
			broken := &process{Process: p}
			breaks(broken)
			return broken, nil
		}
	})
}
