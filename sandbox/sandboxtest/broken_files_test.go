package sandboxtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenFiles are providers that each break one promise about reading, looking, moving and modes.
var brokenFiles = map[string]brokenProvider{
	"ignores the Limit":  {"Ranges/Part", opens(func(o *sandbox.OpenOptions) { o.Limit = 0 })},
	"ignores the Offset": {"Ranges/Part", opens(func(o *sandbox.OpenOptions) { o.Offset = 0 })},
	"fails behind the end": {"Ranges/Part", fs(func(f *files, h *handle) {
		f.open = func(ctx context.Context, p string, o *sandbox.OpenOptions) (io.ReadCloser, error) {
			if info, err := f.FS.Stat(ctx, p); err == nil && o != nil && o.Offset > info.Size {
				return nil, &iofs.PathError{Op: "open", Path: p, Err: sandbox.ErrInvalid}
			}
			return f.FS.Open(ctx, p, o)
		}
	})},
	"takes what is negative for nothing": {"Ranges/Negative", opens(func(o *sandbox.OpenOptions) { o.Offset, o.Limit = max(0, o.Offset), max(0, o.Limit) })},

	"looks through links": {"Lstat/Link", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			if info, err := f.FS.Stat(ctx, p); err == nil {
				return info, nil
			}
			return f.FS.Lstat(ctx, p)
		}
	})},
	"lets a link be as large as its text": {"Lstat/Link", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			info, err := f.FS.Lstat(ctx, p)
			if info.Kind == sandbox.KindSymlink {
				info.Size = 4
			}
			return info, err
		}
	})},
	"looks at no links on the way": {"Lstat/Through", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			dir, name, below := strings.Cut(p, "/")
			if info, err := f.FS.Lstat(ctx, dir); below && err == nil && info.Kind == sandbox.KindSymlink && name != "" {
				return info, &iofs.PathError{Op: "lstat", Path: p, Err: sandbox.ErrNotDir}
			}
			return f.FS.Lstat(ctx, p)
		}
	})},
	"tells the mode of a file only": {"Lstat/Plain", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			info, err := f.FS.Lstat(ctx, p)
			if info.IsDir() {
				info.Mode = 0
			}
			return info, err
		}
	})},
	"takes what is bound for a link": {"Lstat/Bound", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			info, err := f.FS.Lstat(ctx, p)
			if _, below := sandbox.PathWithin(sandbox.BindRoot(h), p); below && info.IsDir() {
				info.Kind = sandbox.KindSymlink
			}
			return info, err
		}
	})},

	"replaces all the same": {"Renames/NoReplace", renames(func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error {
		return f.FS.Rename(ctx, from, to, nil)
	})},
	"overlooks links that lead nowhere": {"Renames/NoReplace", renames(looksThenRenames(newMeeting()))},
	"looks before it renames":           {"Renames/NoReplaceRace", renames(looksThenRenames(newMeeting()))},
	"moves into an empty directory's place": {"Renames/DirectoryInTheWay", renames(func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error {
		if info, err := f.FS.Lstat(ctx, to); err == nil && info.IsDir() && from != to && to != "." {
			f.FS.Remove(ctx, to, nil)
		}
		return f.FS.Rename(ctx, from, to, &o)
	})},
	"tells the new name": {"Renames/Carries", renames(func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error {
		err := f.FS.Rename(ctx, from, to, &o)
		if p := (*iofs.PathError)(nil); errors.As(err, &p) {
			p.Path = to
		}
		return err
	})},
	"renames by plain paths only": {"Renames/Through", renames(func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error {
		dir, _, below := strings.Cut(from, "/")
		if info, err := f.FS.Lstat(ctx, dir); below && err == nil && info.Kind == sandbox.KindSymlink {
			return &iofs.PathError{Op: "rename", Path: from, Err: sandbox.ErrEscapes}
		}
		return f.FS.Rename(ctx, from, to, &o)
	})},

	"holds in memory what it writes": {"Streams/Bounded", fs(func(f *files, h *handle) {
		f.create = func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
			w, err := f.FS.Create(ctx, p, o)
			return &holding{Writer: w}, err
		}
	})},
	"holds in memory what it reads": {"Streams/Bounded", fs(func(f *files, h *handle) {
		f.open = func(ctx context.Context, p string, o *sandbox.OpenOptions) (io.ReadCloser, error) {
			data, err := sandbox.ReadFile(ctx, f.FS, p)
			return io.NopCloser(bytes.NewReader(data)), err
		}
	})},

	"makes every new file alike": {"Copies/Tree", fs(func(f *files, h *handle) {
		alike := withOptions(f.FS, func(o *sandbox.CreateOptions) { o.Mode = 0 })
		f.create = func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
			if strings.Contains(p, "/new/") {
				return alike(ctx, p, o)
			}
			return f.FS.Create(ctx, p, o)
		}
	})},
	"takes a name that is taken": {"Copies/Refused", fs(func(f *files, h *handle) {
		f.lstat = func(ctx context.Context, p string) (sandbox.FileInfo, error) {
			if strings.HasSuffix(p, "/dir/file") {
				return sandbox.FileInfo{}, &iofs.PathError{Op: "lstat", Path: p, Err: iofs.ErrNotExist}
			}
			return f.FS.Lstat(ctx, p)
		}
		f.create = withOptions(f.FS, func(o *sandbox.CreateOptions) { o.Exclusive = false })
	})},
	"binds what can't be written": {"Copies/Binds", fs(func(f *files, h *handle) {
		f.create = func(ctx context.Context, p string, o *sandbox.CreateOptions) (sandbox.Writer, error) {
			if _, below := sandbox.PathWithin(sandbox.BindRoot(h), p); below {
				return nil, &iofs.PathError{Op: "create", Path: p, Err: iofs.ErrPermission}
			}
			return f.FS.Create(ctx, p, o)
		}
	})},

	"lets a mode be": {"Attrs/Chmod", sets(func(h *handle, a sandbox.AttrSetter) setter {
		return setter{func(ctx context.Context, p string, mode iofs.FileMode) error {
			_, err := h.Sandbox.FS().Stat(ctx, p)
			return err
		}, a.Chtimes}
	})},
	"drops the bits it can't set": {"Attrs/Bits", sets(func(h *handle, a sandbox.AttrSetter) setter {
		return setter{func(ctx context.Context, p string, mode iofs.FileMode) error { return a.Chmod(ctx, p, mode.Perm()) }, a.Chtimes}
	})},
	"knows no time but now": {"Attrs/Chtimes", sets(func(h *handle, a sandbox.AttrSetter) setter {
		return setter{a.Chmod, func(ctx context.Context, p string, _ time.Time) error { return a.Chtimes(ctx, p, time.Now()) }}
	})},
	"takes no time for none": {"Attrs/FarTimes", sets(func(h *handle, a sandbox.AttrSetter) setter {
		return setter{a.Chmod, func(ctx context.Context, p string, at time.Time) error {
			if at.IsZero() {
				return nil
			}
			return a.Chtimes(ctx, p, at)
		}}
	})},
	"counts nanoseconds": {"Attrs/FarTimes", sets(func(h *handle, a sandbox.AttrSetter) setter {
		return setter{a.Chmod, func(ctx context.Context, p string, at time.Time) error {
			return a.Chtimes(ctx, p, time.Unix(0, at.UnixNano()))
		}}
	})},
	"sets what lies outside": {"Attrs/Outside", sets(func(h *handle, a sandbox.AttrSetter) setter {
		return setter{func(ctx context.Context, p string, mode iofs.FileMode) error { return os.Chmod(abs(h, p), mode) }, a.Chtimes}
	})},
}

// opens breaks the options of Open.
func opens(change func(*sandbox.OpenOptions)) func(sandbox.Provider) *provider {
	return fs(func(f *files, h *handle) {
		f.open = func(ctx context.Context, p string, o *sandbox.OpenOptions) (io.ReadCloser, error) {
			var changed sandbox.OpenOptions
			if o != nil {
				changed = *o
			}
			change(&changed)
			return f.FS.Open(ctx, p, &changed)
		}
	})
}

// renames breaks Rename.
func renames(rename func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error) func(sandbox.Provider) *provider {
	return fs(func(f *files, h *handle) {
		f.rename = func(ctx context.Context, from, to string, o *sandbox.RenameOptions) error {
			if o == nil {
				o = &sandbox.RenameOptions{}
			}
			return rename(f, ctx, from, to, *o)
		}
	})
}

func looksThenRenames(m meeting) func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error {
	return func(f *files, ctx context.Context, from, to string, o sandbox.RenameOptions) error {
		if o.NoReplace {
			if _, err := f.FS.Stat(ctx, to); err == nil {
				return &iofs.PathError{Op: "rename", Path: from, Err: iofs.ErrExist}
			}
			m.another()
		}
		return f.FS.Rename(ctx, from, to, nil)
	}
}

// meeting is where those who look first and then act wait for each other, so
// that what they get wrong is no matter of luck.
type meeting chan struct{}

func newMeeting() meeting { return make(meeting) }

// another waits for another who has looked, for a moment: there may be none.
func (m meeting) another() {
	select {
	case m <- struct{}{}:
	case <-m:
	case <-time.After(time.Second):
	}
}

// holding is a writer that holds what it was given until the end.
type holding struct {
	sandbox.Writer
	data bytes.Buffer
}

func (w *holding) Write(b []byte) (int, error) { return w.data.Write(b) }

func (w *holding) Close() error {
	if _, err := w.Writer.Write(w.data.Bytes()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return w.Writer.Close()
}

// setter is an AttrSetter of two functions.
type setter struct {
	chmod   func(context.Context, string, iofs.FileMode) error
	chtimes func(context.Context, string, time.Time) error
}

func (s setter) Chmod(ctx context.Context, p string, mode iofs.FileMode) error {
	return s.chmod(ctx, p, mode)
}
func (s setter) Chtimes(ctx context.Context, p string, at time.Time) error {
	return s.chtimes(ctx, p, at)
}

// sets breaks the AttrSetter of every handle.
func sets(breaks func(h *handle, a sandbox.AttrSetter) setter) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		a, _ := sandbox.As[sandbox.AttrSetter](h.Sandbox)
		h.attrs = breaks(h, a)
	})
}
