package sandboxtest_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// brokenWorkdir are providers that each break one promise about what is bound
// at the working directory.
var brokenWorkdir = map[string]brokenProvider{
	"does not say that it binds there": {"Binds/Refused", func(p sandbox.Provider) *provider {
		return &provider{Provider: modest{p}}
	}},
	"binds beside the working directory": {"Workdir/Appears", rebinds(func(h *handle, bind bindFunc) bindFunc {
		return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
			if at == h.Workdir() {
				at = sandbox.BindRoot(h) + "/workdir"
			}
			return bind(ctx, dir, at)
		}
	})},
	"starts processes in the machine's own": {"Workdir/Appears", func(p sandbox.Provider) *provider {
		return handles(func(h *handle) {
			h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
				sb, err := p.Attach(ctx, h.Ref())
				if err != nil {
					return nil, err
				}
				return sb.Start(ctx, c)
			}
		})(p)
	}},
	"lets the machine's own show through": {"Workdir/Hides", rebinds(func(h *handle, bind bindFunc) bindFunc {
		return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
			for info, err := range h.FS().ReadDir(ctx, ".") {
				if err != nil {
					return nil, err
				}
				text, err := sandbox.ReadFile(ctx, h.FS(), info.Name)
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, info.Name), text, 0o644)
				}
				if err != nil {
					return nil, err
				}
			}
			return bind(ctx, dir, at)
		}
	})},
	"cleans up what it gives back": {"Workdir/Hides", rebinds(func(h *handle, bind bindFunc) bindFunc {
		return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
			unbind, err := bind(ctx, dir, at)
			return func(ctx context.Context) error {
				os.Remove(filepath.Join(dir, "own"))
				return unbind(ctx)
			}, err
		}
	})},
	"destroys what is bound with the machine": {"Workdir/Stays", func(p sandbox.Provider) *provider {
		var bound sync.Map // the directory of each machine
		broken := rebinds(func(h *handle, bind bindFunc) bindFunc {
			return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
				bound.Store(h.Ref(), dir)
				return bind(ctx, dir, at)
			}
		})(p)
		broken.destroy = func(ctx context.Context, ref sandbox.Ref) error {
			if dir, ok := bound.Load(ref); ok {
				os.Remove(filepath.Join(dir.(string), "file"))
			}
			return p.Destroy(ctx, ref)
		}
		return broken
	}},
	"has one working directory for all": {"Workdir/Handles", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		var all []bindFunc
		return rebinds(func(h *handle, bind bindFunc) bindFunc {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, bind)
			return func(ctx context.Context, dir, at string) (undo func(context.Context) error, err error) {
				mu.Lock()
				defer mu.Unlock()
				for _, one := range all {
					if undo, err = one(ctx, dir, at); err != nil {
						return nil, err
					}
				}
				return undo, nil
			}
		})(p)
	}},
	"counts what is bound": {"Workdir/Measured", func(p sandbox.Provider) *provider {
		var bound sync.Map
		broken := rebinds(func(h *handle, bind bindFunc) bindFunc {
			return func(ctx context.Context, dir, at string) (func(context.Context) error, error) {
				bound.Store(h.Ref(), dir)
				return bind(ctx, dir, at)
			}
		})(p)
		broken.measure = func(ctx context.Context, ref sandbox.Ref) (int64, error) {
			m, _ := sandbox.As[sandbox.Measurer](p)
			n, err := m.Measure(ctx, ref)
			if dir, ok := bound.Load(ref); ok {
				if info, there := os.Stat(filepath.Join(dir.(string), "much")); there == nil {
					n += info.Size()
				}
			}
			return n, err
		}
		return broken
	}},
}

type bindFunc = func(ctx context.Context, hostDir, at string) (func(context.Context) error, error)

// rebinds breaks how every handle binds.
func rebinds(breaks func(h *handle, bind bindFunc) bindFunc) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		b, _ := sandbox.As[sandbox.Binder](h.Sandbox)
		h.bind = breaks(h, b.Bind)
	})
}

// modest is a provider that claims nothing about working directories.
type modest struct{ sandbox.Provider }

func (p modest) Info() sandbox.Info {
	info := p.Provider.Info()
	info.Caps.BindsWorkdir = false
	return info
}

func (p modest) As(target any) bool {
	m, ok := target.(*sandbox.Measurer)
	if ok {
		*m, ok = sandbox.As[sandbox.Measurer](p.Provider)
	}
	return ok
}

// TestWorkdirOn is the suite on a provider that a test below has chosen.
func TestWorkdirOn(t *testing.T) {
	b, chosen := brokenWorkdir[os.Getenv(brokenVar)]
	if !chosen {
		return
	}
	open := func(t *testing.T) sandbox.Provider {
		boxes := memory.NewSandboxes(nil)
		for name, program := range memory.Coreutils() {
			boxes.Handle(name, program)
		}
		return b.of(boxes)
	}
	sandboxtest.TestProvider(t, open, &sandboxtest.Options{
		Commands:          sandboxtest.Commands{ReadFile: func(path string) []string { return []string{"cat", path} }},
		ProcessesSeeFiles: true, Binds: true, BindsWorkdir: true, Links: true, Attrs: true, ETags: true, Measures: true, Watches: true, Processes: true,
	})
}

// Each broken provider fails the check that is about what it breaks, and the
// failure names the rule. That sound ones pass is shown by their own tests.
func TestSuiteFindsWhatIsBrokenAboutWorkdirs(t *testing.T) {
	for name, b := range brokenWorkdir {
		t.Run(name, func(t *testing.T) { fails(t, "TestWorkdirOn", name, b.check) })
	}
}
