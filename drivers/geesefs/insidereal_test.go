//go:build linux

package geesefs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// room is a sandbox with real processes, which are the host's own.
type room struct {
	provider *local.Provider
	ref      sandbox.Ref
}

func newRoom(t *testing.T) room {
	t.Helper()
	p, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Create(bounded(t), sandbox.CreateRequest{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Destroy(bounded(t), m.Ref); err != nil {
			t.Error(err)
		}
		p.Close()
	})
	return room{p, m.Ref}
}

func (r room) open(t *testing.T) sandbox.Sandbox {
	t.Helper()
	sb, err := r.provider.Attach(bounded(t), r.ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// sh runs a script in a sandbox, with arguments, and returns what it writes.
func sh(t *testing.T, sb sandbox.Sandbox, script string, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := sandbox.Run(bounded(t), sb, sandbox.Cmd{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}, &out, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), exit.Code
}

// insiders runs the stand-in in sandboxes that are where the store is.
func insiders(t *testing.T, m *minter) *Inside {
	t.Helper()
	return inside(t, m, func(c *InsideConfig) {
		c.InNetwork, c.Program, c.HTTP = true, filepath.Join(bin(t), "geesefs"), nil
	})
}

// at is a directory of the host for a sandbox to mount something at; what is left there is taken away.
func at(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	t.Cleanup(func() {
		if mounted, err := isMounted(dir); mounted || err != nil {
			t.Errorf("left mounted at %s: %v", dir, err)
			_ = unmount(bounded(t), dir, true)
		}
	})
	return dir
}

// The whole path in a sandbox, at a path full of what a shell would read (trap 48).
func TestFolderInsideASandbox(t *testing.T) {
	fuse(t)
	i := insiders(t, &minter{endpoint: newStore(t).url, life: time.Hour})
	r := newRoom(t)
	first := r.open(t)
	target := at(t, `o'ne "two" $(touch pwned); *`)
	ref, err := i.MountInside(bounded(t), first, spec(), target)
	if err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, first, `echo kept >"$1/note" && cat "$1/note"`, target); code != 0 || out != "kept\n" {
		t.Fatalf("exit %d: %s", code, out)
	}
	files, _ := sh(t, first, `cd private/* && stat -c '%a %n' . * && tr '\0' ' ' </proc/$(cat pid)/cmdline && tr '\0' ' ' </proc/$(cat pid)/environ`)
	for _, want := range []string{"700 .\n", "600 config\n", "600 lease.json\n", "600 log\n", "600 pid\n"} {
		if !strings.Contains(files, want) {
			t.Errorf("no %q in\n%s", want, files)
		}
	}
	for _, never := range []string{secretKey, "until-"} {
		if strings.Contains(files, never) {
			t.Errorf("%s shows in\n%s", never, files)
		}
	}
	if out, _ := sh(t, first, "find . -name pwned"); out != "" {
		t.Errorf("the path was run: %s", out)
	}
	if err := ref.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if mounted, err := isMounted(target); mounted || err != nil {
		t.Errorf("after Release: mounted %v, %v", mounted, err)
	}
	if out, _ := sh(t, first, "ls private"); out != "" {
		t.Errorf("after Release there is %s", out)
	}
	second := r.open(t)
	if ref, err = i.MountInside(bounded(t), second, spec(), target); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, second, `cat "$1/note"`, target); code != 0 || out != "kept\n" {
		t.Errorf("mounted anew: exit %d: %s", code, out)
	}
	if err := ref.Release(bounded(t)); err != nil {
		t.Error(err)
	}
}

// Case 37 in a sandbox: the credentials of five seconds expire under constant
// writes while one of two handles that brought the folder is closed.
func TestCredentialsExpireInsideASandbox(t *testing.T) {
	need.Long(t, "credentials have to expire")
	fuse(t)
	t.Parallel()
	st := newStore(t)
	i := insiders(t, &minter{endpoint: st.url, life: 5 * time.Second})
	r := newRoom(t)
	first, second, target := r.open(t), r.open(t), at(t, "folder")
	one, err := i.MountInside(bounded(t), first, spec(), target)
	if err != nil {
		t.Fatal(err)
	}
	two, err := i.MountInside(bounded(t), second, spec(), target)
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for begun, closed := time.Now(), false; time.Since(begun) < 16*time.Second; writes++ {
		if !closed && time.Since(begun) > 2*time.Second {
			closed = true
			if err := one.Release(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if out, code := sh(t, second, `echo "$2" >"$1/$2" && sync "$1/$2" && cat "$1/$2"`, target, fmt.Sprint(writes%10)); code != 0 {
			t.Fatalf("write %d: exit %d: %s", writes, code, out)
		}
	}
	accepted, refused := st.keys(t)
	if accepted < 4 || refused != 0 {
		t.Errorf("%d keys used, %d requests refused", accepted, refused)
	}
	if err := two.Release(bounded(t)); err != nil {
		t.Error(err)
	}
	t.Logf("%d writes with %d keys", writes, accepted)
}

// What a host has left that died, dead or alive, gives way to the next one,
// and what was closed in there is kept.
func TestNextHostTakesTheSandboxOver(t *testing.T) {
	fuse(t)
	st := newStore(t)
	for _, c := range []struct {
		rule string
		kill bool
	}{{"the program lives on", false}, {"the program has died with it", true}} {
		t.Run(c.rule, func(t *testing.T) {
			r, target := newRoom(t), at(t, "folder")
			sb := r.open(t)
			dead := insiders(t, &minter{endpoint: st.url, life: time.Hour})
			left, err := dead.MountInside(bounded(t), sb, spec(), target)
			if err != nil {
				t.Fatal(err)
			}
			if out, code := sh(t, sb, `echo kept >"$1/note" && sync "$1/note"`, target); code != 0 {
				t.Fatalf("exit %d: %s", code, out)
			}
			run := left.(*insideRef).place.run
			if err := run.renewer.Stop(bounded(t)); err != nil { // as of a host that died
				t.Fatal(err)
			}
			pid, _ := sh(t, sb, "cat private/*/pid")
			if c.kill {
				var n int
				if _, err := fmt.Sscan(pid, &n); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the program is dead", func() bool { _, err := os.ReadDir(target); return err != nil })
			}
			next := insiders(t, &minter{endpoint: st.url, life: time.Hour})
			ref, err := next.MountInside(bounded(t), r.open(t), spec(), target)
			if err != nil {
				t.Fatal(err)
			}
			if now, _ := sh(t, sb, "cat private/*/pid"); now == pid {
				t.Errorf("it is still process %s", pid)
			}
			if out, code := sh(t, sb, `cat "$1/note"`, target); code != 0 || out != "kept\n" {
				t.Errorf("exit %d: %s", code, out)
			}
			if err := ref.Release(bounded(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Trap 77 in a sandbox: bad keys are said at once, with what the program said, and nothing is left.
func TestBadKeysInsideASandbox(t *testing.T) {
	fuse(t)
	i := insiders(t, &minter{endpoint: newStore(t).url, life: time.Hour, spoil: func(c *mount.Credentials) { c.AccessKey = "nobody" }})
	sb, target := newRoom(t).open(t), at(t, "folder")
	began := time.Now()
	_, err := i.MountInside(bounded(t), sb, spec(), target)
	if err == nil || !strings.Contains(err.Error(), "InvalidAccessKeyId") || time.Since(began) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if out, _ := sh(t, sb, "ls private; cat /proc/self/mountinfo"); strings.Contains(out, "lease") || strings.Contains(out, target) {
		t.Errorf("left:\n%s", out)
	}
	_, err = inside(t, public(), func(c *InsideConfig) { c.Program = "no-such-geesefs" }).MountInside(bounded(t), sb, spec(), target)
	if err == nil || !strings.Contains(err.Error(), "no program no-such-geesefs") {
		t.Errorf("no program: %v", err)
	}
}
