package sandboxtest_test

import (
	"context"
	"errors"
	iofs "io/fs"
	"iter"
	"path"
	"strings"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenWatches are providers that each watch wrongly in one way.
var brokenWatches = map[string]brokenProvider{
	"tells paths of another place": {"Watch/Kinds", tellsChanges(func(c sandbox.Change, yield func(sandbox.Change)) {
		c.Path = "/host" + c.Path
		yield(c)
	})},
	"tells names for paths": {"Watch/Kinds", tellsChanges(func(c sandbox.Change, yield func(sandbox.Change)) {
		c.Path = path.Base(c.Path)
		yield(c)
	})},
	"never tells that something is gone": {"Watch/Kinds", tellsChanges(func(c sandbox.Change, yield func(sandbox.Change)) {
		if c.From = ""; c.Kind != sandbox.ChangeRemoved {
			yield(c)
		}
	})},
	"tells of everything": {"Watch/Elsewhere", watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, _ string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			return w(ctx, ".", &sandbox.WatchOptions{Recursive: true})
		}
	})},
	"always looks further down": {"Watch/Elsewhere", watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			return w(ctx, p, &sandbox.WatchOptions{Recursive: true})
		}
	})},
	"misses what new directories hold": {"Watch/Recursive", told(func() func(sandbox.Change, func(sandbox.Change)) {
		made := map[string]bool{}
		return func(c sandbox.Change, yield func(sandbox.Change)) {
			if made[path.Dir(c.Path)] || path.Base(path.Dir(c.Path)) == "b" {
				return
			}
			made[c.Path] = c.Kind == sandbox.ChangeCreated
			yield(c)
		}
	})},
	"goes by the old path of what was moved": {"Watch/Moved", told(func() func(sandbox.Change, func(sandbox.Change)) {
		was := map[string]string{}
		return func(c sandbox.Change, yield func(sandbox.Change)) {
			for to, from := range was {
				if rel, below := sandbox.PathWithin(to, c.Path); below && rel != "." {
					c.Path = path.Join(from, rel)
				}
			}
			if c.From != "" {
				was[c.Path] = c.From
			}
			yield(c)
		}
	})},
	"tells only of the top of what comes from elsewhere": {"Watch/Replayed", told(func() func(sandbox.Change, func(sandbox.Change)) {
		came := map[string]bool{}
		return func(c sandbox.Change, yield func(sandbox.Change)) {
			for p := range came {
				if rel, below := sandbox.PathWithin(p, c.Path); below && rel != "." && c.Kind == sandbox.ChangeCreated {
					return
				}
			}
			came[c.Path] = c.Kind == sandbox.ChangeRenamed && c.From == ""
			yield(c)
		}
	})},
	"drops what is too much silently": {"Watch/Overflow", tellsChanges(func(c sandbox.Change, yield func(sandbox.Change)) {
		if c.Kind != sandbox.ChangeOverflow {
			yield(c)
		}
	})},
	"tells no more after an overflow": {"Watch/Overflow", told(func() func(sandbox.Change, func(sandbox.Change)) {
		over := false
		return func(c sandbox.Change, yield func(sandbox.Change)) {
			if !over {
				over = c.Kind == sandbox.ChangeOverflow
				yield(c)
			}
		}
	})},
	"goes on after its context": {"Watch/Context", watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			return w(context.WithoutCancel(ctx), p, o)
		}
	})},
	"ends without saying why":            {"Watch/Closed", endings(func(context.Context, error) error { return nil })},
	"takes what is destroyed for closed": {"Watch/Destroyed", endings(instead(sandbox.ErrClosed, sandbox.ErrGone, sandbox.ErrStale))},
	"takes a directory for its machine":  {"Watch/Gone", endings(instead(sandbox.ErrGone, iofs.ErrNotExist))},
	"goes on where a directory was": {"Watch/Gone", endings(func(ctx context.Context, err error) error {
		if errors.Is(err, iofs.ErrNotExist) {
			<-ctx.Done()
			return nil
		}
		return err
	})},
	"watches something else instead": {"Watch/Refused", watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			if seq, err := w(ctx, p, o); err == nil {
				return seq, nil
			}
			return w(ctx, ".", nil)
		}
	})},
	"tells the newest only": {"Watch/Several", func(p sandbox.Provider) *provider {
		var newest atomic.Int64
		return watches(func(w watchFunc) watchFunc {
			return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
				seq, err := w(ctx, p, o)
				mine := newest.Add(1)
				return each(seq, func(c sandbox.Change, yield func(sandbox.Change)) {
					if newest.Load() == mine {
						yield(c)
					}
				}), err
			}
		})(p)
	}},
	"watches where links lead": {"Watch/Links", watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			seq, err := w(ctx, p, o)
			if errors.Is(err, sandbox.ErrEscapes) && strings.HasPrefix(p, "away") {
				return w(ctx, ".", o)
			}
			return seq, err
		}
	})},
	"does not see processes": {"Watch/Processes", tellsChanges(func(c sandbox.Change, yield func(sandbox.Change)) {
		if path.Base(c.Path) != "by-process" {
			yield(c)
		}
	})},
	"goes on where nothing is bound any more": {"Watch/Bound", endings(func(ctx context.Context, err error) error {
		<-ctx.Done()
		return nil
	})},
}

// watches breaks how every handle watches.
func watches(breaks func(watchFunc) watchFunc) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		w, _ := sandbox.As[sandbox.Watcher](h.Sandbox)
		h.watch = breaks(w.Watch)
	})
}

// each hands every change to fn, which yields what is told of it.
func each(seq iter.Seq2[sandbox.Change, error], fn func(c sandbox.Change, yield func(sandbox.Change))) iter.Seq2[sandbox.Change, error] {
	return func(yield func(sandbox.Change, error) bool) {
		for c, err := range seq {
			more := true
			if err != nil {
				yield(c, err)
				return
			}
			if fn(c, func(c sandbox.Change) { more = more && yield(c, nil) }); !more {
				return
			}
		}
	}
}

// told breaks what is told, with a function for each directory that is watched.
func told(breaks func() func(sandbox.Change, func(sandbox.Change))) func(sandbox.Provider) *provider {
	return watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			seq, err := w(ctx, p, o)
			return each(seq, breaks()), err
		}
	})
}

func tellsChanges(breaks func(sandbox.Change, func(sandbox.Change))) func(sandbox.Provider) *provider {
	return told(func() func(sandbox.Change, func(sandbox.Change)) { return breaks })
}

// endings breaks how it ends: with what end makes of the error, nil for none.
func endings(end func(context.Context, error) error) func(sandbox.Provider) *provider {
	return watches(func(w watchFunc) watchFunc {
		return func(ctx context.Context, p string, o *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
			seq, err := w(ctx, p, o)
			return func(yield func(sandbox.Change, error) bool) {
				for c, err := range seq {
					if err != nil {
						if err = end(ctx, err); err == nil {
							return
						}
					}
					if !yield(c, err) {
						return
					}
				}
			}, err
		}
	})
}

// instead puts one error in the place of others.
func instead(other error, of ...error) func(context.Context, error) error {
	return func(_ context.Context, err error) error {
		for _, o := range of {
			if errors.Is(err, o) {
				var p *iofs.PathError
				errors.As(err, &p)
				return &iofs.PathError{Op: p.Op, Path: p.Path, Err: other}
			}
		}
		return err
	}
}
