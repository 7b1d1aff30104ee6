//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

func watch(t testing.TB, ctx context.Context, sb sandbox.Sandbox, dir string) iter.Seq2[sandbox.Change, error] {
	t.Helper()
	w, ok := sandbox.As[sandbox.Watcher](sb)
	if !ok {
		t.Fatal("the handle is no Watcher")
	}
	seq, err := w.Watch(ctx, dir, &sandbox.WatchOptions{Recursive: true, Buffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// watched counts what this process has open for watching: instances, and directories below root.
func watched(t testing.TB, root string) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fd) // one may be closed by now
		if to == "anon_inode:inotify" || strings.HasSuffix(strings.TrimSuffix(to, " (deleted)"), "/watched") && strings.HasPrefix(to, root) {
			n++
		}
	}
	return n
}

// However it ends, nothing stays open, be it that nobody ever reads.
func TestWatchClosesAll(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	for name, end := range map[string]func(sb sandbox.Sandbox, stop func(), seq iter.Seq2[sandbox.Change, error]){
		"context": func(_ sandbox.Sandbox, stop func(), _ iter.Seq2[sandbox.Change, error]) { stop() },
		"handle":  func(sb sandbox.Sandbox, _ func(), _ iter.Seq2[sandbox.Change, error]) { sb.Close() },
		"destroy": func(sb sandbox.Sandbox, _ func(), _ iter.Seq2[sandbox.Change, error]) {
			p.Destroy(deadline(t), sb.Ref())
		},
		"removed": func(sb sandbox.Sandbox, _ func(), _ iter.Seq2[sandbox.Change, error]) {
			sb.FS().Remove(deadline(t), "dir", &sandbox.RemoveOptions{Recursive: true})
		},
		"broken off": func(sb sandbox.Sandbox, _ func(), seq iter.Seq2[sandbox.Change, error]) {
			sandbox.WriteFile(deadline(t), sb.FS(), "dir/watched/f", nil, nil)
			for range seq {
				break
			}
		},
	} {
		before := watched(t, root)
		sb := attach(t, p, create(t, p, strings.ReplaceAll(name, " ", "-")))
		if err := sb.FS().Mkdir(deadline(t), "dir/watched"); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		seq := watch(t, ctx, sb, "dir/watched")
		if now := watched(t, root); now != before+2 {
			t.Errorf("%s: %d are open while it is watched, %d before", name, now, before)
		}
		end(sb, stop, seq)
		eventually(t, name+": all is closed", func() bool { return watched(t, root) == before })
		stop()
	}
	sb := attach(t, p, create(t, p, "last"))
	before := watched(t, root)
	watch(t, t.Context(), sb, ".")
	p.Close()
	eventually(t, "the provider closes what is watched", func() bool { return watched(t, root) == before })
}

// A link that takes the place of a directory, over and over, leads no watch out of the sandbox.
func TestWatchNeverLeavesBySwappedLinks(t *testing.T) {
	p := open(t, true)
	sb := attach(t, p, create(t, p, "x"))
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(outside, "secret-dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(sb.Workdir(), "dir")
	if err := os.MkdirAll(filepath.Join(work, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	seq := watch(t, deadline(t), sb, "dir")
	go func() {
		a, b := filepath.Join(work, "real"), filepath.Join(work, "link")
		for i := range 2000 {
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
			}
			if i%10 == 0 {
				os.WriteFile(filepath.Join(outside, "secret"), []byte(fmt.Sprint(i)), 0o600)
				os.WriteFile(filepath.Join(outside, "secret-dir/secret"), []byte(fmt.Sprint(i)), 0o600)
				os.Mkdir(filepath.Join(work, fmt.Sprint("more-", i)), 0o755)
			}
		}
		os.WriteFile(filepath.Join(work, "last"), nil, 0o600)
	}()
	for c, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(c.Path+c.From, "secret") {
			t.Fatalf("told of what is outside: %+v", c)
		}
		if c.Path == filepath.Join(work, "last") {
			return
		}
	}
	t.Error("the last change was not told")
}

// Directories within one another without end are no way to take all that this process may have open.
func TestWatchTooDeep(t *testing.T) {
	p := open(t, true)
	sb := attach(t, p, create(t, p, "x"))
	const deep = 400
	if err := sb.FS().Mkdir(deadline(t), "dir"+strings.Repeat("/d", deep/2)); err != nil {
		t.Fatal(err)
	}
	seq := watch(t, deadline(t), sb, "dir")
	if err := sb.FS().Mkdir(deadline(t), "dir"+strings.Repeat("/d", deep)); err != nil {
		t.Fatal(err)
	}
	var ended error
	for _, ended = range seq {
	}
	if !errors.Is(ended, sandbox.ErrTooManyWatches) {
		t.Errorf("ends with %v", ended)
	}
	w, _ := sandbox.As[sandbox.Watcher](sb)
	if _, err := w.Watch(deadline(t), "dir", &sandbox.WatchOptions{Recursive: true}); !errors.Is(err, sandbox.ErrTooManyWatches) {
		t.Errorf("watch: %v", err)
	}
	if _, err := w.Watch(deadline(t), "dir", nil); err != nil {
		t.Errorf("watch of one directory: %v", err)
	}
}
