package memory

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/internal/changes"
	"github.com/bunkroom/bunkroom/sandbox"
)

// boxWatch is a directory that is watched.
type boxWatch struct {
	h         *boxHandle
	asked     string // the path it was asked for
	at        string // where that led
	told      string // what its entries' paths begin with
	recursive bool
	queue     *changes.Queue
}

// Watch tells of what is done in the machine's own files, all of it and in order.
// What is bound is a directory of the host, of which nobody tells: there it is ErrUnsupported.
func (h *boxHandle) Watch(ctx context.Context, p string, opts *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
	o := sandbox.WatchOptions{}
	if opts != nil {
		o = *opts
	}
	w := &boxWatch{h: h, asked: p, recursive: o.Recursive, queue: changes.NewQueue(cmp.Or(o.Buffer, sandbox.DefaultWatchBuffer))}
	if o.Buffer < 0 {
		return nil, pathError("watch", p, fmt.Errorf("%w: Buffer must not be negative", sandbox.ErrInvalid))
	}
	err := h.fs.do(ctx, "watch", p, true, func(at boxPlace) error {
		_, own := sandbox.PathWithin(boxWorkdir, at.path)
		switch {
		case at.node == nil:
			return fs.ErrNotExist
		case at.node.kind != sandbox.KindDir:
			return sandbox.ErrNotDir
		case !own:
			return fmt.Errorf("%w: nothing changes here but what is bound", sandbox.ErrUnsupported)
		}
		w.at = at.path
		w.told, _ = sandbox.ResolvePath(boxWorkdir, p) // it was resolved before
		if h.m.watches == nil {
			h.m.watches = map[*boxWatch]struct{}{}
		}
		h.m.watches[w] = struct{}{}
		return nil
	}, func(boxPlace) error {
		return fmt.Errorf("%w: it is a directory of the host", sandbox.ErrUnsupported)
	})
	if err != nil {
		return nil, err
	}
	forget := context.AfterFunc(ctx, w.giveUp)
	return w.queue.All(ctx, func() {
		forget()
		w.giveUp()
	}), nil
}

func (w *boxWatch) giveUp() {
	w.h.s.mu.Lock()
	defer w.h.s.mu.Unlock()
	w.end(sandbox.ErrClosed, true)
}

// end ends the sequence. Sandboxes.mu is held.
func (w *boxWatch) end(err error, atOnce bool) {
	delete(w.h.m.watches, w)
	w.queue.End(pathError("watch", w.asked, err), atOnce)
}

// endWatches ends those of a handle, or with nil all. Sandboxes.mu is held.
func (m *boxMachine) endWatches(h *boxHandle, err error) {
	for w := range m.watches {
		if h == nil || w.h == h {
			w.end(err, true)
		}
	}
}

// sees is what the path is told as, where it is watched.
func (w *boxWatch) sees(p string) (told string, ok bool) {
	rel, below := sandbox.PathWithin(w.at, p)
	if !below || rel == "." || !w.recursive && strings.Contains(rel, "/") {
		return "", false
	}
	return path.Join(w.told, rel), true
}

// tell tells of a change, with its paths in the tree. Sandboxes.mu is held.
func (m *boxMachine) tell(c sandbox.Change) {
	for w := range m.watches {
		to, ok := w.sees(c.Path)
		from, was := w.sees(c.From)
		switch {
		case ok:
			w.queue.Tell(sandbox.Change{Kind: c.Kind, Path: to, From: from})
		case was:
			w.queue.Tell(sandbox.Change{Kind: sandbox.ChangeRemoved, Path: from})
		}
		gone := c.From
		if c.Kind == sandbox.ChangeRemoved {
			gone = c.Path
		}
		if _, lost := sandbox.PathWithin(gone, w.at); lost && gone != "" {
			w.end(fs.ErrNotExist, false)
		}
	}
}

// tellMoved tells that a node has another path, and where it came from
// elsewhere what is in it. Sandboxes.mu is held.
func (m *boxMachine) tellMoved(from, to string, n *boxNode) {
	m.tell(sandbox.Change{Kind: sandbox.ChangeRenamed, Path: to, From: from})
	for w := range m.watches {
		if _, was := w.sees(from); !was {
			w.tellWithin(to, n)
		}
	}
}

// tellWithin tells that what is in a directory was made.
func (w *boxWatch) tellWithin(at string, n *boxNode) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		below := path.Join(at, name)
		if told, ok := w.sees(below); ok {
			w.queue.Tell(sandbox.Change{Kind: sandbox.ChangeCreated, Path: told})
		}
		w.tellWithin(below, n.entries[name])
	}
}

// tellMade tells that something was made at a place, with its missing parents, or else modified.
func (m *boxMachine) tellMade(at boxPlace) {
	kind := sandbox.ChangeModified
	for i := range at.missing {
		kind = sandbox.ChangeCreated
		p := at.path
		for range len(at.missing) - 1 - i {
			p = path.Dir(p)
		}
		m.tell(sandbox.Change{Kind: kind, Path: p})
	}
	if at.missing == nil {
		m.tell(sandbox.Change{Kind: kind, Path: at.path})
	}
}

// tellRemoved tells that a node is not at a path any more, nor what is in it.
func (m *boxMachine) tellRemoved(at string, n *boxNode) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		m.tellRemoved(path.Join(at, name), n.entries[name])
	}
	m.tell(sandbox.Change{Kind: sandbox.ChangeRemoved, Path: at})
}
