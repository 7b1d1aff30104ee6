//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// watchedBy begins to watch a directory that holds others, and leaves what the kernel tells to the test.
func watchedBy(t *testing.T) (*handle, *watch) {
	t.Helper()
	p, err := New(Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	if err := sb.FS().Mkdir(t.Context(), "dir/old/deep"); err != nil {
		t.Fatal(err)
	}
	w := newWatch(sb.(*handle), "dir", sandbox.WatchOptions{Recursive: true})
	if err := w.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end(sandbox.ErrClosed, true); w.root.Close() })
	return sb.(*handle), w
}

// lose reads what the kernel has to tell, and forgets it.
func (w *watch) lose() {
	buf := make([]byte, 64<<10)
	for {
		w.waiting = nil
		w.more(buf, time.Now().Add(time.Millisecond))
		if len(w.waiting) == 0 {
			return
		}
	}
}

// Where the kernel has left something out, all there is is watched by the
// time a reader hears of it, and nothing that has gone.
func TestWatchesAnewAfterAnOverflow(t *testing.T) {
	h, w := watchedBy(t)
	ctx := t.Context()
	for _, err := range []error{
		h.FS().Mkdir(ctx, "dir/new/a/b"), h.FS().Rename(ctx, "dir/old/deep", "away", nil), h.FS().Rename(ctx, "dir/old", "dir/moved", nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.lose()
	if _, err := w.take(event{wd: -1, mask: unix.IN_Q_OVERFLOW}, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Values(w.dirs)), []string{"", "moved", "new", "new/a", "new/a/b"}; !slices.Equal(got, want) {
		t.Errorf("watched are %q, want %q", got, want)
	}
	w.lose() // that what has gone is watched no more
	for _, name := range []string{"away/f", "dir/new/a/b/f", "dir/moved/f"} {
		if err := sandbox.WriteFile(ctx, h.FS(), name, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 64<<10)
	for w.more(buf, time.Now().Add(100*time.Millisecond)) && len(w.waiting) > 0 {
		for len(w.waiting) > 0 {
			e := w.waiting[0]
			w.waiting = w.waiting[1:]
			if _, err := w.take(e, buf); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.end(errors.New("over"), false)
	var told []string
	for c := range w.queue.All(ctx, func() {}) {
		told = append(told, fmt.Sprint(c.Kind, strings.TrimPrefix(c.Path, h.Workdir()+"/dir/")))
	}
	if diff := cmp.Diff([]string{"overflow", "renamednew/a/b/f", "renamedmoved/f", "unknown"}, told); diff != "" {
		t.Errorf("told (-want +got)\n%s", diff)
	}
}

// Where the kernel has left out that the directory is not there any more, the sequence ends all the same.
func TestOverflowHidesNoEnd(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(ctx context.Context, h *handle) error
		want error
	}{
		"moved": {func(ctx context.Context, h *handle) error { return h.FS().Rename(ctx, "dir", "away", nil) }, fs.ErrNotExist},
		"removed": {func(ctx context.Context, h *handle) error {
			return h.FS().Remove(ctx, "dir", &sandbox.RemoveOptions{Recursive: true})
		}, fs.ErrNotExist},
		"replaced": {func(ctx context.Context, h *handle) error {
			return errors.Join(h.FS().Rename(ctx, "dir", "away", nil), h.FS().Mkdir(ctx, "dir"))
		}, fs.ErrNotExist},
		"destroyed": {func(ctx context.Context, h *handle) error {
			other, err := New(Config{Root: h.p.root, Unconfined: true})
			if err != nil {
				return err
			}
			defer other.Close()
			return other.Destroy(ctx, h.Ref())
		}, sandbox.ErrGone},
	} {
		h, w := watchedBy(t)
		if err := c.lose(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		w.lose()
		if _, err := w.take(event{wd: -1, mask: unix.IN_Q_OVERFLOW}, nil); err != nil {
			w.end(err, false)
		}
		w.end(errors.New("it went on"), false)
		for told, err := range w.queue.All(t.Context(), func() {}) {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: told %+v, %v, want %v", name, told, err, c.want)
			}
		}
	}
}

// The two halves of a rename are one, be the second late; what only the first half is told of has gone.
func TestWatchPairs(t *testing.T) {
	h, w := watchedBy(t)
	for _, c := range []struct{ to, want string }{{"dir/b", "renamed"}, {"away", "removed"}} {
		if err := sandbox.WriteFile(t.Context(), h.FS(), "dir/a", nil, nil); err != nil {
			t.Fatal(err)
		}
		w.lose()
		if err := h.FS().Rename(t.Context(), "dir/a", c.to, nil); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, unix.SizeofInotifyEvent+16) // one at a time
		w.more(buf, time.Now().Add(time.Second))
		e := w.waiting[0]
		w.waiting = w.waiting[1:]
		if _, err := w.take(e, buf); err != nil {
			t.Fatal(err)
		}
		for got := range w.queue.All(t.Context(), func() {}) {
			if got.Kind.String() != c.want {
				t.Errorf("moved to %s: told %+v", c.to, got)
			}
			break
		}
	}
}

// That the host has no more is told from other failures.
func TestWatchesExhausted(t *testing.T) {
	for err, want := range map[error]bool{syscall.ENOSPC: true, syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOMEM: true, syscall.ENOENT: false, syscall.EACCES: false, context.Canceled: false} {
		if got := exhausted(err); errors.Is(got, sandbox.ErrTooManyWatches) != want || !errors.Is(got, err) {
			t.Errorf("%v is %v", err, got)
		}
	}
}
