package sandboxtest_test

import (
	"bytes"
	"context"
	"fmt"
	iofs "io/fs"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenWrites are providers that each break one promise about ETags and what must have one.
var brokenWrites = map[string]brokenProvider{
	"has an ETag in lists only": {"ETags/Tells", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			info, err := f.FS.Lstat(ctx, p)
			info.ETag = ""
			return info, err
		}
	})},
	"takes size and time for an ETag": {"ETags/Changes", tells(func(info *sandbox.FileInfo) {
		info.ETag = fmt.Sprint(info.Size, info.ModTime.Truncate(time.Second))
	})},
	"counts its own writes": {"ETags/InPlace", func(p sandbox.Provider) *provider {
		var writes atomic.Int64
		return fs(func(f *files, h *handle) {
			f.told = func(_ string, info *sandbox.FileInfo) { info.ETag = fmt.Sprint(writes.Load()) }
			f.create = func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
				writes.Add(1)
				return f.FS.Create(ctx, p, o)
			}
		})(p)
	}},
	"ignores IfMatch": {"Preconditions/Match", fs(func(f *files, h *handle) {
		f.create = withOptions(f.FS, func(o *sandbox.CreateOptions) { o.IfMatch = "" })
	})},
	"looks at the beginning only": {"Preconditions/Late", fs(func(f *files, h *handle) { f.create = matches(f.FS, nil) })},
	"makes what is missing": {"Preconditions/Missing", fs(func(f *files, h *handle) {
		f.create = func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
			if _, err := f.FS.Stat(ctx, p); err != nil {
				return f.FS.Create(ctx, p, nil)
			}
			return f.FS.Create(ctx, p, o)
		}
	})},
	"takes both": {"Preconditions/Exclusive", fs(func(f *files, h *handle) {
		f.create = withOptions(f.FS, func(o *sandbox.CreateOptions) { o.Exclusive = o.Exclusive && o.IfMatch == "" })
	})},
	"says that what was dropped is written": {"Handles/ClosedWriter", fs(func(f *files, h *handle) {
		f.create = func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
			w, err := f.FS.Create(ctx, p, o)
			return content{w}, err
		}
	})},
	"looks before it replaces":    {"Preconditions/Race", fs(matchesLate(newMeeting()))},
	"loses what comes in between": {"Preconditions/NothingLost", fs(matchesLate(newMeeting()))},
}

// tells breaks what is told of files.
func tells(change func(*sandbox.FileInfo)) func(sandbox.Provider) *provider {
	return fs(func(f *files, h *handle) { f.told = func(_ string, info *sandbox.FileInfo) { change(info) } })
}

// matchesLate looks at the ETag early and late, and then writes whatever is there by then.
func matchesLate(m meeting) func(*files, *handle) {
	return func(f *files, _ *handle) { f.create = matches(f.FS, m) }
}

// matches looks at the ETag early, with a meeting late too, and then writes whatever is there by then.
func matches(f sandbox.FS, late meeting) func(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error) {
	return func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
		if o == nil || o.IfMatch == "" {
			return f.Create(ctx, p, o)
		}
		look := func() error {
			if info, err := f.Stat(ctx, p); err != nil || info.ETag != o.IfMatch {
				return &iofs.PathError{Op: "create", Path: p, Err: sandbox.ErrPrecondition}
			}
			return nil
		}
		if err := look(); err != nil {
			return nil, err
		}
		w := &matching{fs: f, path: p, look: func() error { return nil }}
		if late != nil {
			w.look = func() error {
				err := look()
				if err == nil {
					late.another()
				}
				return err
			}
		}
		return w, nil
	}
}

type matching struct {
	fs   sandbox.FS
	path string
	look func() error
	data bytes.Buffer
	over bool
}

func (w *matching) Write(b []byte) (int, error) { return w.data.Write(b) }

func (w *matching) Abort() error {
	w.over = true
	return nil
}

func (w *matching) Close() error {
	if w.over {
		return nil
	}
	w.over = true
	if err := w.look(); err != nil {
		return err
	}
	return sandbox.WriteFile(context.Background(), w.fs, w.path, w.data.Bytes(), nil)
}

// content is a writer that is content with whatever becomes of it.
type content struct{ sandbox.Writer }

func (w content) Close() error {
	_ = w.Writer.Close()
	return nil
}
