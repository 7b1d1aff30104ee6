//go:build linux

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Between the look and the rename of one who writes with IfMatch nobody else
// gets in: who writes without, moves or removes a file of that directory waits.
func TestOthersWaitForWhoLooks(t *testing.T) {
	p, err := New(Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := p.Create(ctx, sandbox.CreateRequest{Name: "m-g1"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(ctx, m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	var file unix.Stat_t
	if err := unix.Stat(filepath.Join(p.root, orderFile), &file); err != nil {
		t.Fatal(err)
	}
	f := sb.FS()
	for name, change := range map[string]func() error{
		"Create": func() error { return sandbox.WriteFile(ctx, f, "file", []byte("new"), nil) },
		"Rename": func() error { return f.Rename(ctx, "other", "file", nil) },
		"away":   func() error { return f.Rename(ctx, "file", "moved", nil) },
		"Remove": func() error { return f.Remove(ctx, "file", nil) },
	} {
		for _, file := range []string{"file", "other"} {
			if err := sandbox.WriteFile(ctx, f, file, []byte("old"), nil); err != nil {
				t.Fatal(err)
			}
		}
		dir, err := os.OpenRoot(filepath.Join(p.dir("m-g1"), workDir))
		if err != nil {
			t.Fatal(err)
		}
		release, err := p.order(unix.F_WRLCK, dir)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- change() }()
		for waits := false; !waits; {
			locks, err := os.ReadFile("/proc/locks")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(locks)) {
				words := strings.Fields(line)
				waits = waits || len(words) > 6 && words[1] == "->" && strings.HasSuffix(words[6], fmt.Sprint(":", file.Ino))
			}
			select {
			case err := <-done:
				t.Fatalf("%s did not wait: %v", name, err)
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			default:
			}
		}
		if text, err := sandbox.ReadFile(ctx, f, "file"); err != nil || string(text) != "old" {
			t.Errorf("%s: while it waits there is %q, %v", name, text, err)
		}
		release()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := sandbox.ReadFile(ctx, f, "file"); err == nil && string(text) == "old" && name != "Rename" {
			t.Errorf("%s: afterwards there is %q", name, text)
		}
		dir.Close()
	}
}
