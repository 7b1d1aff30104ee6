package memory

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Create holds the content in memory until Close, which makes the parents and
// puts it in place. A link at the path is followed, unless opts.Exclusive, for
// then its name is taken; parents of what it leads to are not made. ctx does
// not matter once Create has returned.
func (f *boxFS) Create(ctx context.Context, p string, opts *sandbox.CreateOptions) (sandbox.Writer, error) {
	o := sandbox.CreateOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Mode == 0 {
		o.Mode = 0o644
	}
	if o.Mode&^fs.ModePerm != 0 {
		return nil, pathError("create", p, fmt.Errorf("%w: mode %v has more than permission bits", sandbox.ErrInvalid, o.Mode))
	}
	if o.Exclusive && o.IfMatch != "" {
		return nil, pathError("create", p, fmt.Errorf("%w: what is Exclusive can't match anything", sandbox.ErrInvalid))
	}
	err := f.do(ctx, "create", p, !o.Exclusive, func(at boxPlace) error { return at.free(o) },
		func(at boxPlace) error { return at.bind.free(at, o) })
	if err != nil {
		return nil, err
	}
	return &boxWriter{path: p, put: func(data []byte) error { return f.put(p, data, o) }}, nil
}

// put is the effect of a writer's Close.
func (f *boxFS) put(p string, data []byte, o sandbox.CreateOptions) error {
	return f.do(context.Background(), "create", p, !o.Exclusive, func(at boxPlace) error {
		if err := at.free(o); err != nil {
			return err
		}
		if at.node != nil {
			o.Mode = at.node.mode
		}
		now := f.s.now()
		f.s.written++
		at.dir.mkdirs(at.parents(), now).put(at.name(), &boxNode{kind: sandbox.KindFile, mode: o.Mode, mtime: now, data: data, version: f.s.written}, now)
		f.m.tellMade(at)
		return nil
	}, func(at boxPlace) error {
		f.s.inBinds.Lock()
		defer f.s.inBinds.Unlock()
		return at.bind.put(at, data, o)
	})
}

// parents are the missing directories above a place where a file is to be.
func (p boxPlace) parents() []string { return p.missing[:max(0, len(p.missing)-1)] }

// free says why a file can't be put at the place.
func (p boxPlace) free(o sandbox.CreateOptions) error {
	switch {
	case p.missing != nil && o.IfMatch != "":
		return fmt.Errorf("%w: there is no file", sandbox.ErrPrecondition)
	case p.dangling && (len(p.missing) > 1 || p.onlyDir):
		return fs.ErrNotExist
	case p.missing != nil:
		return nil
	case o.Exclusive:
		return fs.ErrExist
	case p.bind != nil:
		return nil
	case p.node.kind == sandbox.KindDir:
		return sandbox.ErrIsDir
	case o.IfMatch != "" && p.node.etag() != o.IfMatch:
		return sandbox.ErrPrecondition
	}
	return nil
}

// boxWriter collects the content of a file.
type boxWriter struct {
	path string
	put  func([]byte) error

	mu   sync.Mutex
	data []byte
	over bool
}

func (w *boxWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, pathError("write", w.path, fs.ErrClosed)
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

func (w *boxWriter) Close() error {
	data, first := w.end()
	if !first {
		return nil
	}
	return w.put(data)
}

func (w *boxWriter) Abort() error {
	w.end()
	return nil
}

// end gives up what was written. first is false where Close or Abort came before.
func (w *boxWriter) end() (data []byte, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, false
	}
	w.over = true
	data, w.data = slices.Clip(w.data), nil
	return data, true
}
