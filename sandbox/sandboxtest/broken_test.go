package sandboxtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenProvider breaks one promise of a sound provider; check must find it.
type brokenProvider struct {
	check string
	of    func(sandbox.Provider) *provider
}

// broken are providers that each break one promise; more are brokenPowers.
var broken = map[string]brokenProvider{
	"destroys whatever has the name": {"Machines/DestroyOther", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, destroy: func(ctx context.Context, ref sandbox.Ref) error {
			found, err := p.Inspect(ctx, sandbox.Ref{Name: ref.Name})
			if err != nil || len(found) == 0 {
				return err
			}
			ref.Incarnation = found[0].Incarnation
			return p.Destroy(ctx, ref)
		}}
	}},
	"never says that it adopted": {"Machines/CreateTwice", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, create: func(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
			m, err := p.Create(ctx, r)
			m.Adopted = false
			return m, err
		}}
	}},
	"makes the machine anew": {"Machines/CreateTwice", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, create: func(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
			m, err := p.Create(ctx, r)
			if err == nil && m.Adopted {
				p.Destroy(ctx, m.Ref)
				return p.Create(ctx, r)
			}
			return m, err
		}}
	}},
	"inspects by name only": {"Machines/InspectAbsent", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, inspect: func(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
			ref.Incarnation = ""
			return p.Inspect(ctx, ref)
		}}
	}},
	"takes replaced for gone": {"Machines/AttachReplaced", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, attach: func(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
			sb, err := p.Attach(ctx, ref)
			if errors.Is(err, sandbox.ErrStale) {
				err = sandbox.ErrGone
			}
			return sb, err
		}}
	}},
	"fails to destroy twice": {"Machines/Destroy", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, destroy: func(ctx context.Context, ref sandbox.Ref) error {
			if found, _ := p.Inspect(ctx, ref); len(found) == 0 {
				return sandbox.ErrGone
			}
			return p.Destroy(ctx, ref)
		}}
	}},
	"answers for another host": {"Machines/WrongHost", func(p sandbox.Provider) *provider {
		return &provider{Provider: p, inspect: func(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
			if ref.Host != p.Info().Host {
				return nil, nil
			}
			return p.Inspect(ctx, ref)
		}}
	}},
	"hides that it lists":       {"Machines/Powers", func(p sandbox.Provider) *provider { return &provider{Provider: struct{ sandbox.Provider }{p}} }},
	"never closes a handle":     {"Handles/Closed", handles(func(h *handle) { h.close = func() error { return nil } })},
	"works on the next machine": {"Handles/Replaced", worksOn},
	"hides a power": {"Handles/Powers", func(p sandbox.Provider) *provider {
		return handles(func(h *handle) { h.Sandbox = struct{ sandbox.Sandbox }{h.Sandbox} })(p)
	}},
	"decodes paths": {"Paths/NothingDecoded", fs(func(f *files, h *handle) { f.path = decoded })},
	"goes by the first letters": {"Paths/Escapes", fs(func(f *files, h *handle) {
		f.path = func(p string) string { return strings.Replace(p, h.Workdir()+"foo", h.Workdir(), 1) }
	})},
	"drops what is invalid":   {"Paths/Invalid", fs(func(f *files, h *handle) { f.path = func(p string) string { return strings.ReplaceAll(p, "\x00", "") } })},
	"follows links out":       {"Escapes/Links", fs(func(f *files, h *handle) { f.open = onHost(h) })},
	"looks before it follows": {"Escapes/Swapped", fs(looksFirst)},
	"writes in place":         {"Writes/AllAtOnce", fs(func(f *files, h *handle) { f.create = inPlace(h) })},
	"tears what is read":      {"Writes/NeverTorn", fs(func(f *files, h *handle) { f.create = inPlace(h) })},
	"keeps what was aborted":  {"Writes/Abort", fs(func(f *files, h *handle) { f.create = neverAborts(f.FS) })},
	"ignores the mode":        {"Writes/Mode", fs(func(f *files, h *handle) { f.create = withOptions(f.FS, func(o *sandbox.CreateOptions) { o.Mode = 0 }) })},
	"ignores Exclusive": {"Writes/Exclusive", fs(func(f *files, h *handle) {
		f.create = withOptions(f.FS, func(o *sandbox.CreateOptions) { o.Exclusive = false })
	})},
	"looks before it takes":  {"Writes/ExclusiveRace", fs(func(f *files, h *handle) { f.create = checkThenAct(f.FS) })},
	"cuts a directory short": {"Directories/ReadDirLarge", fs(func(f *files, h *handle) { f.readDir = some(f.FS, func(i int, name string) bool { return i < 1000 }) })},
	"hides dotfiles": {"Directories/ReadDir", fs(func(f *files, h *handle) {
		f.readDir = some(f.FS, func(i int, name string) bool { return name[0] != '.' })
	})},
	"lists what has no time": {"IOFS/Walk", fs(func(f *files, h *handle) {
		f.readDir = listed(f.FS, func(i *sandbox.FileInfo) { i.ModTime = time.Time{} })
	})},
	"lists files only": {"IOFS/FSTest", fs(func(f *files, h *handle) {
		f.readDir = listed(f.FS, func(i *sandbox.FileInfo) { i.Kind = sandbox.KindFile })
	})},
	"removes the workdir":        {"Directories/RemoveWorkdir", fs(func(f *files, h *handle) { f.remove = removesAll(h) })},
	"removes through links":      {"Links/Remove", fs(func(f *files, h *handle) { f.remove = throughLinks(f.FS, h) })},
	"invents exit 0":             {"Stops/Timeout", processes(func(p *process) { p.wait = invented(p.Process) })},
	"hides failures":             {"Commands/ExitCode", processes(func(p *process) { p.wait = invented(p.Process) })},
	"merges streams":             {"Commands/Streams", processes(func(p *process) { p.output = chunks(p.Process, func(c *sandbox.Chunk) { c.Stream = sandbox.Stdout }) })},
	"hides gaps":                 {"Output/Gap", processes(func(p *process) { p.output = chunks(p.Process, func(c *sandbox.Chunk) { c.Lost = 0 }) })},
	"lets the environment in":    {"Commands/Env", commands(func(c *sandbox.Cmd) { c.Env = append(os.Environ(), c.Env...) })},
	"lets a shell read":          {"Commands/Argv", commands(func(c *sandbox.Cmd) { c.Argv = []string{"sh", "-c", strings.Join(c.Argv, " ")} })},
	"starts anything":            {"Commands/NotStarted", commands(func(c *sandbox.Cmd) { c.Argv = append([]string{"env"}, c.Argv...) })},
	"leaves the input open":      {"Commands/Stdin", commands(func(c *sandbox.Cmd) { openInput(c) })},
	"never times out":            {"Stops/Timeout", commands(func(c *sandbox.Cmd) { c.Timeout = 0 })},
	"detaches everything":        {"Stops/CloseHandle", commands(func(c *sandbox.Cmd) { c.Detached = true })},
	"loses track of children":    {"Stops/Escaped", commands(func(c *sandbox.Cmd) { c.Argv = append([]string{"env", "-u", "BUNKROOM_PROCESS"}, c.Argv...) })},
	"binds anywhere":             {"Binds/Refused", handles(func(h *handle) { h.bind = anywhere(h) })},
	"removes what it unbinds":    {"Binds/Unbind", handles(func(h *handle) { h.bind = removing(h) })},
	"loses the older of two":     {"Binds/Apart", handles(func(h *handle) { h.bind = elsewhere(h) })},
	"closes the heredoc's shell": {"Shell/Heredoc", commands(func(c *sandbox.Cmd) { c.Argv[len(c.Argv)-1] = strings.ReplaceAll(c.Argv[len(c.Argv)-1], "\n", ";") })},
}

// worksOn is a provider whose handles go on with whatever has the name.
func worksOn(p sandbox.Provider) *provider {
	return fs(func(f *files, h *handle) {
		ref := h.Ref()
		f.path = func(path string) string {
			found, _ := p.Inspect(context.Background(), sandbox.Ref{Name: ref.Name})
			if len(found) == 1 && found[0].Incarnation != ref.Incarnation {
				ref.Incarnation = found[0].Incarnation
				if sb, err := p.Attach(context.Background(), ref); err == nil {
					f.FS = sb.FS()
				}
			}
			return path
		}
	})(p)
}

func decoded(p string) string {
	if d, err := url.PathUnescape(p); err == nil {
		return d
	}
	return p
}

func abs(h *handle, p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(h.Workdir(), p)
}

func onHost(h *handle) func(context.Context, string, *sandbox.OpenOptions) (io.ReadCloser, error) {
	return func(_ context.Context, p string, _ *sandbox.OpenOptions) (io.ReadCloser, error) {
		return os.Open(abs(h, p))
	}
}

// looksFirst checks where a path leads, and then goes there.
func looksFirst(f *files, h *handle) {
	f.open = func(ctx context.Context, p string, _ *sandbox.OpenOptions) (io.ReadCloser, error) {
		if _, err := f.FS.Stat(ctx, p); err != nil {
			return nil, err
		}
		for range 50 { // the longer it takes, the sooner it is caught
			f.FS.Stat(ctx, ".")
		}
		return os.Open(abs(h, p))
	}
}

type fileWriter struct{ *os.File }

func (w fileWriter) Close() error { w.File.Close(); return nil }
func (w fileWriter) Abort() error { w.File.Close(); return nil }

func inPlace(h *handle) func(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error) {
	return func(_ context.Context, p string, _ *sandbox.CreateOptions) (sandbox.Writer, error) {
		f, err := os.Create(abs(h, p))
		return fileWriter{f}, err
	}
}

type keeper struct{ sandbox.Writer }

func (k keeper) Abort() error { return k.Writer.Close() }

func neverAborts(f sandbox.FS) func(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error) {
	return func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
		w, err := f.Create(ctx, p, o)
		return keeper{w}, err
	}
}

func withOptions(f sandbox.FS, change func(*sandbox.CreateOptions)) func(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error) {
	return func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
		var changed sandbox.CreateOptions
		if o != nil {
			changed = *o
		}
		change(&changed)
		return f.Create(ctx, p, &changed)
	}
}

func checkThenAct(f sandbox.FS) func(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error) {
	return func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
		if o != nil && o.Exclusive {
			if _, err := f.Stat(ctx, p); err == nil {
				return nil, &iofs.PathError{Op: "create", Path: p, Err: iofs.ErrExist}
			}
		}
		return f.Create(ctx, p, nil)
	}
}

func some(f sandbox.FS, keep func(i int, name string) bool) func(context.Context, string) iter.Seq2[sandbox.FileInfo, error] {
	return func(ctx context.Context, p string) iter.Seq2[sandbox.FileInfo, error] {
		return func(yield func(sandbox.FileInfo, error) bool) {
			i := 0
			for info, err := range f.ReadDir(ctx, p) {
				if (err != nil || keep(i, info.Name)) && !yield(info, err) {
					return
				}
				i++
			}
		}
	}
}

// listed changes what is told of each entry.
func listed(f sandbox.FS, change func(*sandbox.FileInfo)) func(context.Context, string) iter.Seq2[sandbox.FileInfo, error] {
	return func(ctx context.Context, p string) iter.Seq2[sandbox.FileInfo, error] {
		return func(yield func(sandbox.FileInfo, error) bool) {
			for info, err := range f.ReadDir(ctx, p) {
				change(&info)
				if !yield(info, err) {
					return
				}
			}
		}
	}
}

func removesAll(h *handle) func(context.Context, string, *sandbox.RemoveOptions) error {
	return func(_ context.Context, p string, _ *sandbox.RemoveOptions) error { return os.RemoveAll(abs(h, p)) }
}

func throughLinks(f sandbox.FS, h *handle) func(context.Context, string, *sandbox.RemoveOptions) error {
	return func(ctx context.Context, p string, o *sandbox.RemoveOptions) error {
		if target, err := filepath.EvalSymlinks(abs(h, p)); err == nil {
			if rel, ok := sandbox.PathWithin(h.Workdir(), target); ok {
				f.Remove(ctx, rel, o)
			}
		}
		return f.Remove(ctx, p, o)
	}
}

func invented(p sandbox.Process) func(context.Context) (sandbox.Exit, error) {
	return func(ctx context.Context) (sandbox.Exit, error) {
		exit, err := p.Wait(ctx)
		exit.Code, exit.Reason = 0, sandbox.Exited
		return exit, err
	}
}

func chunks(p sandbox.Process, change func(*sandbox.Chunk)) func(context.Context, int64) iter.Seq2[sandbox.Chunk, error] {
	return func(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
		return func(yield func(sandbox.Chunk, error) bool) {
			for c, err := range p.Output(ctx, from) {
				if change(&c); !yield(c, err) {
					return
				}
			}
		}
	}
}

func openInput(c *sandbox.Cmd) {
	if c.Stdin == nil {
		c.Stdin = io.MultiReader(bytes.NewReader(nil), neverEnds{})
	}
}

type neverEnds struct{}

func (neverEnds) Read([]byte) (int, error) { select {} }

func anywhere(h *handle) func(context.Context, string, string) (func(context.Context) error, error) {
	return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
		b, _ := sandbox.As[sandbox.Binder](h.Sandbox)
		if undo, err := b.Bind(ctx, dir, at); err == nil {
			return undo, nil
		}
		return func(context.Context) error { return nil }, nil
	}
}

func removing(h *handle) func(context.Context, string, string) (func(context.Context) error, error) {
	return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
		b, _ := sandbox.As[sandbox.Binder](h.Sandbox)
		undo, err := b.Bind(ctx, dir, at)
		return func(ctx context.Context) error {
			os.Remove(filepath.Join(dir, "file"))
			return undo(ctx)
		}, err
	}
}

// elsewhere puts every bind at one and the same place.
func elsewhere(h *handle) func(context.Context, string, string) (func(context.Context) error, error) {
	return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
		b, _ := sandbox.As[sandbox.Binder](h.Sandbox)
		return b.Bind(ctx, dir, path.Dir(at)+"/same")
	}
}
