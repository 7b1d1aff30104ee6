//go:build linux

package geesefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
)

// Trap 51: credentials were minted twice in a run, and in each warm turn. They
// are minted where a folder is mounted, once: whoever else works with it, and
// whoever comes back while it is there, has those that are installed.
func TestCredentialsAreMintedOnceForAMount(t *testing.T) {
	fuse(t)
	m := &minter{endpoint: newStore(t).url, life: time.Hour}
	h, err := mount.NewHost(bounded(t), mount.HostConfig{Server: server(t, m, nil), Root: mounttest.HostRoot(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(bounded(t)); err != nil {
			t.Error(err)
		}
	}()
	for run := 1; run <= 2; run++ { // the second is a cold one again
		var refs []mount.Mount
		for range 3 { // works and warm turns
			ref, err := h.Mount(bounded(t), spec())
			if err != nil {
				t.Fatal(err)
			}
			if err := ref.(mount.Refresher).Refresh(bounded(t)); err != nil {
				t.Error(err)
			}
			refs = append(refs, ref)
		}
		if m.mu.Lock(); len(m.grants) != run {
			t.Errorf("run %d: minted %d times", run, len(m.grants))
		}
		m.mu.Unlock()
		for _, ref := range refs {
			if err := ref.Release(bounded(t)); err != nil {
				t.Error(err)
			}
		}
	}
}

// Trap 51, in a sandbox.
func TestCredentialsAreMintedOnceInASandbox(t *testing.T) {
	inMachine(t, func(t *testing.T, m *machine) {
		signer := public()
		i := inside(t, signer, nil)
		var refs []mount.Inside
		for range 3 {
			ref, err := i.MountInside(t.Context(), m.sb, spec(), target)
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, ref)
		}
		if len(signer.grants) != 1 {
			t.Errorf("minted %d times", len(signer.grants))
		}
		for _, ref := range refs {
			if err := ref.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Trap 56: at its start the program swept the unfinished uploads of the whole
// bucket, and panicked over another's. The sweep is off wherever it is started.
func TestTheSweepAtTheStartIsOff(t *testing.T) {
	const off = "--no-expire-multipart"
	isOff := func(what string, args []string) {
		if end, at := slices.Index(args, "--"), slices.Index(args, off); at < 0 || at > end {
			t.Errorf("%s: %q has no %s", what, args, off)
		}
	}
	for _, c := range []call{{}, {allowOther: true, at: location{endpoint: "https://store.example.org", region: "r", bucket: "b", prefix: "p/"}}} {
		isOff("on this host", c.args())
	}
	inMachine(t, func(t *testing.T, m *machine) {
		ref, err := inside(t, public(), nil).MountInside(t.Context(), m.sb, spec(), target)
		if err != nil {
			t.Fatal(err)
		}
		isOff("in a sandbox", m.args["launch"][0])
		if err := ref.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Trap 48: values were put into the text of remote commands, and the shell ran
// them. A real shell reads every script here with values that would each leave
// a trace if it were one: nothing but the names themselves comes of them.
func TestNoValueIsReadByTheShell(t *testing.T) {
	dir := t.TempDir()
	for _, value := range []string{
		"a b", "$(touch RAN)", "`touch RAN`", "a;touch RAN", "a'; touch RAN; '", `a"; touch RAN; "`, "a\ntouch RAN\n", "a|touch RAN", "*", "~", "$HOME", "a\\", "a&touch RAN&",
	} {
		// What is not there is removed, mounted and read by none of them.
		for name, script := range map[string]string{
			"prepare": prepareScript, "launch": launchScript, "probe": probeScript, "tail": tailScript, "refresh": refreshScript,
		} {
			args := []string{"./" + value + "/at", "./" + value + "/dir", "true"}
			switch name {
			case "launch":
				args = []string{"./" + value + "/pid", "./" + value + "/log", "true", value}
			case "tail":
				args = []string{"./" + value + "/log", "100"}
			}
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "sh"}, args...)...)
			cmd.Dir = dir
			_ = cmd.Run() // that a folder is not mounted is said with an exit code
		}
		if info, err := os.Stat(filepath.Join(dir, value, "dir")); err != nil || !info.IsDir() {
			t.Errorf("%q is not the name of a directory: %v", value, err)
		}
		if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if strings.HasPrefix(filepath.Base(path), "RAN") {
				t.Errorf("a shell ran %q, which made %s", value, path)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
