package sandboxtest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenMeasures are providers that each measure wrongly in one way.
var brokenMeasures = map[string]brokenProvider{
	"hides that it measures": {"Machines/Powers", func(p sandbox.Provider) *provider {
		l, _ := sandbox.As[sandbox.Lister](p)
		r, _ := sandbox.As[sandbox.Reaper](p)
		return &provider{Provider: struct {
			sandbox.Provider
			sandbox.Lister
			sandbox.Reaper
		}{p, l, r}}
	}},
	"measures once for all": {"Measures/Grows", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		known := map[sandbox.Incarnation]int64{}
		return measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
			mu.Lock()
			defer mu.Unlock()
			if n, ok := known[ref.Incarnation]; ok {
				return n, nil
			}
			n, err := measure(ctx, p, ref)
			known[ref.Incarnation] = n
			return n, err
		})(p)
	}},
	"never measures less": {"Measures/Grows", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		most := map[sandbox.Incarnation]int64{}
		return measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
			n, err := measure(ctx, p, ref)
			mu.Lock()
			defer mu.Unlock()
			most[ref.Incarnation] = max(most[ref.Incarnation], n)
			return most[ref.Incarnation], err
		})(p)
	}},
	"counts blocks for bytes": {"Measures/Grows", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		n, err := measure(ctx, p, ref)
		return n / 512, err
	})},
	"measures what is on top":                  {"Measures/Whole", walks(func(w *walking) { w.shallow = true })},
	"measures what has no dot before its name": {"Measures/Whole", walks(func(w *walking) { w.noDots = true })},
	"measures the disk that all share":         {"Measures/Apart", walks(func(w *walking) { w.root = "../.." })},
	"measures what files claim to be":          {"Measures/Holes", walks(func(w *walking) { w.claimed = true })},
	"measures each name of a file":             {"Measures/HardLinks", walks(func(w *walking) { w.names = true })},
	"forgets a file with several names":        {"Measures/HardLinks", walks(func(w *walking) { w.single = true })},
	"measures where links lead":                {"Measures/Symlinks", walks(func(w *walking) { w.follow = true })},
	"measures what is bound":                   {"Measures/Binds", walks(func(w *walking) { w.root, w.follow = "..", true })},
	"fails where a file vanishes":              {"Measures/Busy", walks(func(w *walking) { w.strict = true })},
	"measures nothing where nothing is": {"Measures/Gone", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		n, err := measure(ctx, p, ref)
		if errors.Is(err, sandbox.ErrGone) {
			err = nil
		}
		return n, err
	})},
	"takes replaced for stale": {"Measures/Gone", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		n, err := measure(ctx, p, ref)
		if found, _ := p.Inspect(ctx, sandbox.Ref{Name: ref.Name}); err != nil && len(found) == 1 {
			err = sandbox.ErrStale
		}
		return n, err
	})},
	"measures what has the name": {"Measures/Replaced", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		if found, err := p.Inspect(ctx, sandbox.Ref{Name: ref.Name}); err == nil && len(found) == 1 {
			ref.Incarnation = found[0].Incarnation
		}
		return measure(ctx, p, ref)
	})},
	"wakes what it measures": {"Measures/NeverWakes", func(p sandbox.Provider) *provider {
		s := sleeping(p)
		s.measure = func(ctx context.Context, ref sandbox.Ref) (int64, error) {
			s.wake(ref)
			return measure(ctx, p, ref)
		}
		return s.provider
	}},
	"fails where it can't look": {"Measures/NeverWakes", func(p sandbox.Provider) *provider {
		s := sleeping(p)
		s.measure = func(context.Context, sandbox.Ref) (int64, error) { return 0, sandbox.ErrUnsupported }
		return s.provider
	}},
	"leaves a mark where it was": {"Measures/Still", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		if dir, err := new(workdirs).of(ctx, p, ref); err == nil {
			os.WriteFile(filepath.Join(dir, ".measured"), nil, 0o600)
		}
		return measure(ctx, p, ref)
	})},
	"measures for nobody": {"Measures/Context", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		return measure(context.WithoutCancel(ctx), p, ref)
	})},
	"takes elsewhere for gone": {"Measures/WrongHost", measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		n, err := measure(ctx, p, ref)
		if errors.Is(err, sandbox.ErrWrongHost) {
			err = sandbox.ErrGone
		}
		return n, err
	})},
}

func measure(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
	m, _ := sandbox.As[sandbox.Measurer](p)
	return m.Measure(ctx, ref)
}

// measures breaks the measuring of a provider.
func measures(breaks func(context.Context, sandbox.Provider, sandbox.Ref) (int64, error)) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		return &provider{Provider: p, measure: func(ctx context.Context, ref sandbox.Ref) (int64, error) { return breaks(ctx, p, ref) }}
	}
}

// workdirs are the directories of the host that are working directories.
type workdirs struct {
	mu    sync.Mutex
	known map[sandbox.Incarnation]string
}

func (w *workdirs) of(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if dir, ok := w.known[ref.Incarnation]; ok {
		return dir, nil
	}
	sb, err := p.Attach(ctx, ref)
	if err != nil {
		return "", err
	}
	defer sb.Close()
	if w.known == nil {
		w.known = map[sandbox.Incarnation]string{}
	}
	w.known[ref.Incarnation] = sb.Workdir()
	return sb.Workdir(), nil
}

// walking adds up files, in an order that is its own, and not as it should.
type walking struct {
	root    string // from the working directory
	shallow bool
	noDots  bool
	claimed bool // sizes, not blocks
	names   bool // each name counts
	single  bool // a file with several names does not
	follow  bool
	strict  bool

	seen map[uint64]bool
	sum  int64
}

// walks measures by a walk that is broken.
func walks(breaks func(*walking)) func(sandbox.Provider) *provider {
	var dirs workdirs
	return measures(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) (int64, error) {
		dir, err := dirs.of(ctx, p, ref)
		if err != nil {
			return 0, err
		}
		w := &walking{seen: map[uint64]bool{}}
		breaks(w)
		err = w.dir(filepath.Join(dir, w.root), 0)
		return w.sum, err
	})
}

func (w *walking) dir(dir string, depth int) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err := w.file(filepath.Join(dir, e.Name()), depth); w.strict && err != nil {
			return err
		}
	}
	if w.strict {
		return err
	}
	return nil
}

func (w *walking) file(path string, depth int) error {
	look := os.Lstat
	if w.follow {
		look = os.Stat
	}
	info, err := look(path)
	if err != nil {
		return err
	}
	if w.noDots && filepath.Base(path)[0] == '.' {
		return nil
	}
	st := info.Sys().(*syscall.Stat_t)
	dir := info.IsDir()
	switch {
	case w.single && !dir && st.Nlink > 1, !w.names && !w.follow && w.seen[st.Ino]:
		return nil
	case w.claimed:
		w.sum += info.Size()
	default:
		w.sum += st.Blocks * 512
	}
	w.seen[st.Ino] = true
	if dir && !w.shallow && !(w.follow && depth > 2) { // links lead round and round
		return w.dir(path, depth+1)
	}
	return nil
}
