//go:build linux

package geesefs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// confinedBox is a sandbox of real processes that see what is theirs, and the folder at dir.
func confinedBox(t *testing.T, dir string) (sb sandbox.Sandbox, at string) {
	t.Helper()
	p, err := local.New(local.Config{Root: t.TempDir()})
	if cannot, ok := errors.AsType[*local.ConfinementError](err); ok {
		need.Missing(t, need.Bwrap, cannot.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := p.Create(bounded(t), sandbox.CreateRequest{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Destroy(bounded(t), m.Ref); err != nil {
			t.Error(err)
		}
	})
	if sb, err = p.Attach(bounded(t), m.Ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	binder, ok := sandbox.As[sandbox.Binder](sb)
	if !ok {
		t.Fatal("nothing can be bound")
	}
	at = path.Join(sandbox.BindRoot(sb), "folder")
	unbind, err := binder.Bind(bounded(t), dir, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unbind(bounded(t)) })
	return sb, at
}

// Agents of the same user could read the environment of what serves their folder, and
// with it the keys. Here none are there, and a process in a confined sandbox has the
// folder but sees neither the program, nor the host, nor the files with the credentials.
func TestAgentsCanNotReadTheCredentials(t *testing.T) {
	fuse(t)
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, nil)
	v, dir := serve(t, s)
	t.Cleanup(func() { stop(t, v) }) // after the sandbox is gone, in which it is bound
	sb, at := confinedBox(t, dir)
	write(t, filepath.Join(dir, "note"), "the agent's own")
	if out, code := sh(t, sb, `cat "$1/note"`, at); code != 0 || out != "the agent's own" {
		t.Fatalf("the folder itself: exit %d: %s", code, out)
	}
	place := v.(*serving).prepared.place
	program := v.(*serving).process.cmd.Process.Pid
	text, err := os.ReadFile(place.path(leaseFile))
	if err != nil || !strings.Contains(string(text), secretKey) {
		t.Fatalf("the file with the credentials: %v", err)
	}
	for what, name := range map[string]string{
		"the file with the credentials": place.path(leaseFile),
		"the configuration":             place.path(configFile),
		"the directory with both":       place.dir,
		"the directory of the server":   s.c.Dir,
		"the folder on the host":        dir,
		"the program's environment":     fmt.Sprintf("/proc/%d/environ", program),
		"the program's arguments":       fmt.Sprintf("/proc/%d/cmdline", program),
		"the program's root":            fmt.Sprintf("/proc/%d/root%s", program, place.path(leaseFile)),
		"the host's environment":        fmt.Sprintf("/proc/%d/environ", os.Getpid()),
		"up out of the folder":          at + "/../.." + place.path(leaseFile),
	} {
		// A process of the sandbox's own may have the number by chance: what it tells is not this.
		if out, _ := sh(t, sb, `cat "$1" 2>/dev/null || ls -A "$1" 2>/dev/null`, name); strings.Contains(out, secretKey) ||
			strings.Contains(out, place.dir) || strings.Contains(out, leaseFile) || strings.Contains(out, filepath.Base(s.house.dir)) || strings.Contains(out, "note") {
			t.Errorf("%s (%s) tells %q", what, name, out)
		}
	}
	// Nor does anything else that it can see of processes.
	out, _ := sh(t, sb, `for f in /proc/[0-9]*; do tr '\0' '\n' <"$f/environ"; tr '\0' ' ' <"$f/cmdline"; ls -l "$f/fd"; cat "$f/mountinfo"; done 2>/dev/null`)
	if out == "" {
		t.Error("it sees no process at all, not even itself")
	}
	for _, told := range []string{secretKey, place.dir, s.c.Dir, "until-"} {
		if strings.Contains(out, told) {
			t.Errorf("processes tell %s:\n%s", told, out)
		}
	}
}
