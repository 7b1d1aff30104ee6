//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// testUIDs are ids that no host is likely to have given to anybody.
var testUIDs = local.UIDRange{First: 712_000, Count: 1000}

// apart returns a provider on root whose machines have users of their own.
func apart(t testing.TB, root string, uids local.UIDRange) *local.Provider {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Missing(t, need.Root, "users of their own are for hosts that run as root")
	}
	p, err := local.New(local.Config{Root: root, UIDs: uids, Proxy: answered()})
	if cannot := (*local.ConfinementError)(nil); errors.As(err, &cannot) {
		need.Missing(t, need.Bwrap, cannot.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A provider whose machines have users of their own keeps every promise too.
func TestConformanceOfOwnUsers(t *testing.T) {
	need.Long(t, "it is the whole suite")
	opts := offered(t, false)
	opts.Limits |= sandbox.LimitUserProcesses
	sandboxtest.TestProvider(t, func(t *testing.T) sandbox.Provider { return apart(t, t.TempDir(), testUIDs) }, opts)
}

// usersOf are the user and group ids that the processes with a mark in their environment have on the host.
func usersOf(t *testing.T, mark string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "for p in $(grep -l -a "+mark+" /proc/[0-9]*/environ 2>/dev/null); do cat ${p%environ}status; done").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 2 && (f[0] == "Uid:" || f[0] == "Gid:") {
			ids = append(ids, f[1:]...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Everything that runs for a machine has the machine's own id on the host,
// and inside the one that all have.
func TestOwnUsers(t *testing.T) {
	p := apart(t, t.TempDir(), testUIDs)
	seen := map[string]bool{}
	for _, name := range []string{"one-g1", "two-g1"} {
		ref := create(t, p, name)
		sb := attach(t, p, ref)
		start(t, sb, sandbox.Cmd{}, "echo ready; exec sleep 1000")
		if out := sh(t, sb, "id -u; id -g; id -G"); out != "1000\n1000\n1000\n" {
			t.Errorf("inside, a process is %q", out)
		}
		ids := usersOf(t, string(ref.Incarnation))
		if len(ids) != 1 || seen[ids[0]] || !strings.HasPrefix(ids[0], "712") {
			t.Fatalf("on the host they are %q", ids)
		}
		seen[ids[0]] = true
	}
}

// What the handle writes is the process's own and the other way round, and on
// disk all of it is the host's, so that the id can be another next time.
func TestOwnUsersFiles(t *testing.T) {
	root := t.TempDir()
	before := openAt(t, root, false)
	ref := create(t, before, "m-g1")
	sh(t, attach(t, before, ref), "mkdir old; echo old >old/file; chmod 600 old/file; chmod 700 old")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}

	p := apart(t, root, testUIDs)
	sb := attach(t, p, ref)
	if err := sandbox.WriteFile(deadline(t), sb.FS(), "by/handle", []byte("h\n"), nil); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, sb, "cat old/file by/handle; echo p >by/process; echo more >>by/handle; rm old/file; stat -c %u by by/* old"); out != "old\nh\n1000\n1000\n1000\n1000\n" {
		t.Errorf("a process is told %q", out)
	}
	if b, err := sandbox.ReadFile(deadline(t), sb.FS(), "by/handle"); err != nil || string(b) != "h\nmore\n" {
		t.Errorf("the handle reads %q, %v", b, err)
	}
	out, err := exec.Command("find", filepath.Join(root, "machines", "m-g1"), "!", "-user", fmt.Sprint(os.Geteuid())).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("on disk others have %s, %v", out, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, attach(t, openAt(t, root, false), ref), "cat by/process && rm -r by old"); out != "p\n" {
		t.Errorf("without users of their own a process reads %q", out)
	}
}

// A machine sees nothing of the way in which its files come to it, and its
// user, were it outside, could not reach the root directory.
func TestOwnUsersCantReachTheHost(t *testing.T) {
	root := t.TempDir()
	p := apart(t, root, testUIDs)
	sb := attach(t, p, create(t, p, "m-g1"))
	if out := sh(t, sb, "ls /tmp /workspace-agent"); out != "/tmp:\n\n/workspace-agent:\n" {
		t.Errorf("a process sees %q", out)
	}
	cmd := exec.Command("setpriv", "--reuid=712000", "--regid=712000", "--clear-groups", "ls", filepath.Join(root, "machines"))
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("outside, its user lists %s", out)
	}
}

// An id is a machine's for as long as it lasts, and another's only afterwards.
func TestOwnUsersAreGivenBack(t *testing.T) {
	root := t.TempDir()
	p := apart(t, root, local.UIDRange{First: 712_000, Count: 2})
	one, two, three := create(t, p, "one-g1"), create(t, p, "two-g1"), create(t, p, "three-g1")
	sh(t, attach(t, p, one), "true")
	attach(t, p, two)
	if _, err := p.Attach(deadline(t), three); err == nil || !strings.Contains(err.Error(), "UIDs") {
		t.Errorf("a third machine: %v", err)
	}
	uid := usersOf(t, string(one.Incarnation))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = apart(t, root, local.UIDRange{First: 712_000, Count: 3})
	attach(t, p, three)
	sh(t, attach(t, p, one), "true")
	if again := usersOf(t, string(one.Incarnation)); !slices.Equal(again, uid) {
		t.Errorf("it was %q, it is %q", uid, again)
	}
	for _, ref := range []sandbox.Ref{one, two, three} {
		if err := p.Destroy(deadline(t), ref); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(root, "uids")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// The death of the host's process, by kill -9, ends what its machine's user
// runs. The machine is as it was for the next, which gives it the same id.
func TestHostDiesOfOwnUsers(t *testing.T) {
	actHost(t, sandbox.Limits{UserProcesses: 50})
	root := t.TempDir()
	apart(t, root, testUIDs) // or there is no bubblewrap
	workspace := hostProcess(t, root, "apart")
	before, err := os.ReadFile(filepath.Join(root, "machines", "m-g1", "uid"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing beats any more", func() bool { return !beats(filepath.Join(workspace, "beat")) })
	p := apart(t, root, testUIDs)
	ref := create(t, p, "m-g1")
	if out := sh(t, attach(t, p, ref), "echo x >again; cat again"); out != "x\n" {
		t.Errorf("a process reads %q", out)
	}
	if ids := usersOf(t, string(ref.Incarnation)); !slices.Equal(ids, []string{string(before)}) {
		t.Errorf("it was %s, it is %q", before, ids)
	}
}

// A range that can't be is refused by the field's name.
func TestConfigUIDs(t *testing.T) {
	for name, c := range map[string]local.Config{
		"root":       {UIDs: local.UIDRange{First: 0, Count: 10}},
		"none":       {UIDs: local.UIDRange{First: 1000}},
		"negative":   {UIDs: local.UIDRange{First: -5, Count: 2}},
		"too large":  {UIDs: local.UIDRange{First: 1<<32 - 3, Count: 3}},
		"unconfined": {Unconfined: true, UIDs: testUIDs},
	} {
		c.Root = t.TempDir()
		_, err := local.New(c)
		if field := (*access.FieldError)(nil); !errors.As(err, &field) || field.Field != "UIDs" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
