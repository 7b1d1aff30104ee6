package sandboxtest

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// watching is a directory that is watched, and what was told of it.
type watching struct {
	e    *env
	stop context.CancelFunc

	mu   sync.Mutex
	all  []sandbox.Change
	err  error
	over bool
	news chan struct{}
}

func (b *box) watcher() sandbox.Watcher {
	b.e.Helper()
	w, ok := sandbox.As[sandbox.Watcher](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no Watcher, though Options.Watches says so")
	}
	return w
}

// watch watches a directory until the check ends, and all below it.
func (b *box) watch(dir string) *watching {
	b.e.Helper()
	return b.watchWith(dir, &sandbox.WatchOptions{Recursive: true})
}

func (b *box) watchWith(dir string, opts *sandbox.WatchOptions) *watching {
	b.e.Helper()
	ctx, stop := context.WithCancel(context.Background())
	seq, err := b.watcher().Watch(ctx, dir, opts)
	b.e.ok(err, "watch %q", dir)
	w := &watching{e: b.e, stop: stop, news: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for c, err := range seq {
			w.add(c, err)
		}
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		w.wake()
	}()
	b.e.Cleanup(func() {
		stop()
		select {
		case <-read:
		case <-b.e.deadline().Done():
			b.e.Errorf("the sequence goes on, though its context has ended\nThe rule: %s.", b.e.rule)
		}
	})
	return w
}

func (w *watching) add(c sandbox.Change, err error) {
	w.mu.Lock()
	if err != nil {
		w.err = err
	} else {
		w.all = append(w.all, c)
	}
	w.mu.Unlock()
	w.wake()
}

func (w *watching) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// until waits until what was told so far, from a place on, is enough.
func (w *watching) until(what string, enough func(all []sandbox.Change, over bool) bool) {
	w.e.Helper()
	ctx := w.e.deadline()
	for {
		w.mu.Lock()
		all, over, err := w.all, w.over, w.err
		w.mu.Unlock()
		if enough(all, over) {
			return
		}
		if over {
			w.e.fatalf("the sequence ended with %v, before: %s; told %s", err, what, told(all))
		}
		select {
		case <-w.news:
		case <-ctx.Done():
			w.e.fatalf("not told: %s; told %s", what, told(all))
		}
	}
}

// told shows changes, of which there may be many.
func told(all []sandbox.Change) string {
	var b strings.Builder
	for _, c := range all[max(0, len(all)-30):] {
		fmt.Fprintf(&b, "%v %s %s; ", c.Kind, c.Path, c.From)
	}
	return b.String()
}

// sofar is how much was told.
func (w *watching) sofar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// tells waits for a change of one of kinds to a path, after the first n changes.
func (w *watching) tells(n int, path string, kinds ...sandbox.ChangeKind) {
	w.e.Helper()
	w.until(fmt.Sprintf("%s is %v", path, kinds), func(all []sandbox.Change, _ bool) bool {
		return slices.ContainsFunc(all[n:], func(c sandbox.Change) bool { return c.Path == path && slices.Contains(kinds, c.Kind) })
	})
}

// ends waits for the end, which must be an error.
func (w *watching) ends(what, path string, targets ...error) {
	w.e.Helper()
	w.until("the end, because "+what, func(_ []sandbox.Change, over bool) bool { return over })
	w.e.pathIs(w.err, "watch", path, targets...)
}

// within says that nothing was told but of what lies in a directory.
func (w *watching) within(dir string) {
	w.e.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		for _, p := range []string{c.Path, c.From} {
			if rel, ok := sandbox.PathWithin(dir, p); p != "" && (!ok || rel == ".") {
				w.e.fatalf("told of %q, which is not in %q: %s", p, dir, told(w.all))
			}
		}
	}
}

// there are the kinds of change that say that something is there.
var there = []sandbox.ChangeKind{sandbox.ChangeCreated, sandbox.ChangeModified, sandbox.ChangeRenamed}

// abs is the absolute path of what is in the working directory.
func (b *box) abs(p string) string { return path.Join(b.Workdir(), p) }

// below are the absolute paths of all that is in a directory, sorted.
func (b *box) below(dir string) (all []string) {
	b.e.Helper()
	for info, err := range b.FS().ReadDir(b.e.deadline(), dir) {
		b.e.ok(err, "readdir %q", dir)
		p := path.Join(dir, info.Name)
		if all = append(all, b.abs(p)); info.IsDir() {
			all = append(all, b.below(p)...)
		}
	}
	slices.Sort(all)
	return all
}

// replay is what must be there where there was nothing and this was told, sorted.
func (b *box) replay(all []sandbox.Change) []string {
	is := map[string]bool{}
	within := func(dir string) (found []string) {
		for p := range is {
			if _, ok := sandbox.PathWithin(dir, p); ok {
				found = append(found, p)
			}
		}
		return found
	}
	for _, c := range all {
		gone := c.From
		if c.Kind == sandbox.ChangeRemoved {
			gone = c.Path
		}
		if gone != "" {
			for _, p := range within(gone) {
				delete(is, p)
				if rel, _ := sandbox.PathWithin(gone, p); c.Kind == sandbox.ChangeRenamed {
					is[path.Join(c.Path, rel)] = true
				}
			}
		}
		if c.Kind != sandbox.ChangeRemoved && c.Kind != sandbox.ChangeOverflow {
			is[c.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(is))
}
