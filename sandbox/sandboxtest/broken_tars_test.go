package sandboxtest_test

import (
	"context"
	"io"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenTars are providers with files of which an archive comes out wrong, or goes in.
var brokenTars = map[string]brokenProvider{
	"reads a mebibyte and no more": {"Tar/RoundTrip", fs(func(f *files, h *handle) {
		f.open = func(ctx context.Context, p string, o *sandbox.OpenOptions) (io.ReadCloser, error) {
			r, err := f.FS.Open(ctx, p, o)
			return cutShort{io.LimitReader(r, 1<<20), r}, err
		}
	})},
	"has no empty directories": {"Tar/RoundTrip", fs(func(f *files, h *handle) {
		f.readDir = some(f.FS, func(_ int, name string) bool { return name != "empty" })
	})},
	"leaves a file out": {"Tar/Sorted", fs(func(f *files, h *handle) {
		f.readDir = some(f.FS, func(_ int, name string) bool { return name != "a-b" })
	})},
	"keeps every mode": {"Tar/Replaced", fs(func(f *files, h *handle) {
		f.create = withOptions(f.FS, func(o *sandbox.CreateOptions) { o.Mode = 0o600 })
	})},
	"leaves what it was moved from": {"Tar/Replaced", fs(func(f *files, h *handle) { f.rename = copies(f.FS) })},
	"keeps what was given up":       {"Tar/GivenUp", fs(func(f *files, h *handle) { f.create = neverAborts(f.FS) })},
	"takes links for what they lead to": {"TarLinks/NotFollowed", fs(func(f *files, h *handle) {
		f.lstat = f.FS.Stat
	})},
	"goes through what looks like a directory": {"TarLinks/Through", fs(func(f *files, h *handle) {
		f.lstat = f.FS.Stat
	})},
	"moves to where a link leads": {"TarLinks/InPlace", fs(func(f *files, h *handle) { f.rename = copies(f.FS) })},
}

type cutShort struct {
	io.Reader
	io.Closer
}

// copies moves a file by copying it, over links, and forgets the old one. Others it moves as they should be.
func copies(f sandbox.FS) func(ctx context.Context, from, to string, opts *sandbox.RenameOptions) error {
	return func(ctx context.Context, from, to string, opts *sandbox.RenameOptions) error {
		data, err := sandbox.ReadFile(ctx, f, from)
		if err != nil || !strings.Contains(from, "tar-") {
			return f.Rename(ctx, from, to, opts)
		}
		return sandbox.WriteFile(ctx, f, to, data, nil)
	}
}
