//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// What is nested deeper than a process can have files open is removed like
// anything else, by which no link is followed, nor does anything wait for a pipe.
func TestRemoveDeep(t *testing.T) {
	p, err := New(Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "deep-g1"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	for name, content := range map[string]string{"kept/file": "x", "dir/file": "y"} {
		if err := sandbox.WriteFile(t.Context(), sb.FS(), name, []byte(content), nil); err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(filepath.Join(sb.Workdir(), "dir"), unix.O_RDONLY, 0)
	for deep := 0; err == nil && deep < 600; deep++ {
		for _, name := range []string{"a", "b", "c"} {
			err = errors.Join(err, unix.Mkdirat(at, name, 0o755))
		}
		err = errors.Join(err, unix.Symlinkat(filepath.Join(sb.Workdir(), "kept"), at, "link"), unix.Mknodat(at, "pipe", unix.S_IFIFO|0o644, 0), unix.Mknodat(at, "b/file", unix.S_IFREG|0o644, 0))
		next, e := unix.Openat(at, "a", unix.O_RDONLY, 0)
		err = errors.Join(err, e)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 300, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err = sb.FS().Remove(t.Context(), "dir", &sandbox.RemoveOptions{Recursive: true})
	unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(sb.Workdir()); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if got, err := sandbox.ReadFile(t.Context(), sb.FS(), "kept/file"); err != nil || string(got) != "x" {
		t.Errorf("what a link leads to: %q, %v", got, err)
	}
}

// ending is a context that ends after it was asked so often.
type ending struct {
	context.Context
	asked int
}

func (e *ending) Err() error {
	if e.asked--; e.asked < 0 {
		return context.Canceled
	}
	return nil
}

// To remove a tree ends with its context, in the middle.
func TestRemoveEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 9 {
		if err := os.MkdirAll(filepath.Join(dir, "tree", fmt.Sprint(i), "below"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	parent, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(parent)
	if err := removeAt(&ending{t.Context(), 5}, parent, "tree", openDir); err != context.Canceled {
		t.Errorf("it ends with %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tree")); err != nil || len(left) == 0 || len(left) == 9 {
		t.Errorf("left: %v, %v", left, err)
	}
}
