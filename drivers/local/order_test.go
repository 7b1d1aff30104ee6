//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

// rootVar names, in a process of its own, the root directory with the machine to work in.
const rootVar = "BUNKROOM_TEST_ROOT"

// lines is how many lines each writer adds.
const lines = 20

// addLines adds lines to the file "log" by reading it, and replacing it if nobody else has meanwhile.
func addLines(t *testing.T, sb sandbox.Sandbox, who string) {
	f, ctx := sb.FS(), deadline(t)
	for n := 0; n < lines; {
		info, err := f.Stat(ctx, "log")
		if err != nil {
			t.Error(err)
			return
		}
		text, err := sandbox.ReadFile(ctx, f, "log")
		if err != nil {
			t.Error(err)
			return
		}
		text = fmt.Appendf(text, "%s-%d\n", who, n)
		switch err := sandbox.WriteFile(ctx, f, "log", text, &sandbox.CreateOptions{IfMatch: info.ETag}); {
		case err == nil:
			n++
		case !errors.Is(err, sandbox.ErrPrecondition):
			t.Error(err)
			return
		}
	}
}

// Writers that name what they have read lose nobody's change, be they in
// several handles, several providers or several processes of the host.
func TestIfMatchAcrossProcesses(t *testing.T) {
	const name = "m-g1"
	if root := os.Getenv(rootVar); root != "" {
		p := openAt(t, root, true)
		addLines(t, attach(t, p, create(t, p, name)), fmt.Sprint(os.Getpid()))
		return
	}
	root := t.TempDir()
	providers := []*local.Provider{openAt(t, root, true), openAt(t, root, true)}
	ref := create(t, providers[0], name)
	sb := attach(t, providers[0], ref)
	if err := sandbox.WriteFile(deadline(t), sb.FS(), "log", nil, nil); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	writers := 0
	for i, p := range providers {
		for j := range 2 {
			writers++
			of := attach(t, p, ref)
			all.Go(func() { addLines(t, of, fmt.Sprintf("own%d%d", i, j)) })
		}
	}
	for range 2 {
		writers++
		all.Go(func() {
			cmd := exec.Command(exe, "-test.run=^TestIfMatchAcrossProcesses$")
			cmd.Env = append(os.Environ(), rootVar+"="+root)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	text, err := sandbox.ReadFile(deadline(t), sb.FS(), "log")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(text))
	slices.Sort(got)
	if len(got) != writers*lines || len(slices.Compact(got)) != writers*lines {
		t.Fatalf("of %d lines there are %d", writers*lines, len(got))
	}
}

// What runs in a sandbox can lock whatever it sees, and holds nobody up by it.
func TestNobodyInsideHoldsUpWriters(t *testing.T) {
	p := open(t, false)
	sb := attach(t, p, create(t, p, "m-g1"))
	f := sb.FS()
	if err := sandbox.WriteFile(deadline(t), f, "dir/file", []byte("one"), nil); err != nil {
		t.Fatal(err)
	}
	start(t, sb, sandbox.Cmd{}, "exec 3<. 4<dir 5<dir/file 6</; flock -x 3 && flock -x 4 && flock -x 5 && echo ready; exec sleep 1000")
	info, err := f.Stat(deadline(t), "dir/file")
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.WriteFile(deadline(t), f, "dir/file", []byte("two"), &sandbox.CreateOptions{IfMatch: info.ETag}); err != nil {
		t.Fatal(err)
	}
	if err := f.Rename(deadline(t), "dir/file", "file", nil); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, sb, "find / -xdev -name order.lock -type f -size 0 2>/dev/null | head -1; cat file"); out != "two" {
		t.Errorf("inside there is %q", out)
	}
}
