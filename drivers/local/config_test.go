//go:build linux

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

// A bad field is named, and nothing is made.
func TestNewNamesTheField(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const system = "/opt"
	for name, c := range map[string]struct {
		config local.Config
		field  string
	}{
		"no root":                    {local.Config{}, "Root"},
		"NUL":                        {local.Config{Root: dir + "/a\x00"}, "Root"},
		"a file":                     {local.Config{Root: file}, "Root"},
		"below a file":               {local.Config{Root: file + "/below"}, "Root"},
		"not to be written":          {local.Config{Root: "/proc/bunkroom"}, "Root"},
		"in what sandboxes see":      {local.Config{Root: system + "/root", System: []string{system}}, "Root"},
		"around what sandboxes see":  {local.Config{Root: "/", System: []string{system}}, "Root"},
		"in the system":              {local.Config{Root: "/usr/lib/bunkroom-root"}, "Root"},
		"what a sandbox has itself":  {local.Config{Root: dir, System: []string{"/tmp"}}, "System[0]"},
		"a system directory missing": {local.Config{Root: dir, System: []string{system, system + "/missing"}}, "System[1]"},
		"everything":                 {local.Config{Root: dir, System: []string{"/"}}, "System[0]"},
		"a relative directory":       {local.Config{Root: dir, System: []string{"."}}, "System[0]"},
	} {
		_, err := local.New(c.config)
		var field *access.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: error is %v, want a FieldError of %s", name, err, c.field)
		}
	}
	for _, made := range []string{system + "/root", dir + "/machines", "/usr/lib/bunkroom-root", "/machines"} {
		if _, err := os.Stat(made); err == nil {
			t.Errorf("%s was made", made)
		}
	}
}

// Without bubblewrap, or with one that does not work, New refuses, unless it
// was asked for no confinement.
func TestNewRefusesWithoutConfinement(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var none *local.ConfinementError
	if _, err := local.New(local.Config{Root: t.TempDir()}); !errors.As(err, &none) || none.Bwrap != "" {
		t.Errorf("no bubblewrap: %v", err)
	}
	for _, bwrap := range []string{"/bin/false", "/bin/true", "/no/such/program"} {
		var bad *local.ConfinementError
		if _, err := local.New(local.Config{Root: t.TempDir(), Bwrap: bwrap}); !errors.As(err, &bad) || bad.Bwrap != bwrap || !strings.Contains(err.Error(), bwrap) {
			t.Errorf("%s: %v", bwrap, err)
		} else if status, code, sentence := bad.Problem(); status != 501 || code == "" || strings.Contains(sentence, bwrap) {
			t.Errorf("its problem: %d, %q, %q", status, code, sentence)
		}
	}
	p, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if caps := p.Info().Caps; caps.ShellConfined || caps.BindsPerProcess || !caps.HostBound {
		t.Errorf("unconfined: %+v", caps)
	}
}

// The root is made for its owner alone, and its path made absolute.
func TestRootIsPrivate(t *testing.T) {
	t.Chdir(t.TempDir())
	p, err := local.New(local.Config{Root: "a/b", Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, dir := range []string{"a/b", "a/b/machines", "a/b/trash"} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	if w := attach(t, p, create(t, p, "m-g1")).Workdir(); !filepath.IsAbs(w) {
		t.Errorf("the working directory is %s", w)
	}
}

// Providers that start on a new root at once agree on the host's id, and it outlives them.
func TestHostIDIsOne(t *testing.T) {
	root := t.TempDir()
	ids := make(chan string, 8)
	for range cap(ids) {
		go func() {
			p, err := local.New(local.Config{Root: root, Unconfined: true})
			if err != nil {
				ids <- err.Error()
				return
			}
			defer p.Close()
			ids <- p.Info().Host
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Fatalf("hosts %q and %q", id, first)
		}
	}
	again, err := local.New(local.Config{Root: root, Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if id := again.Info().Host; id != first || len(id) < 16 {
		t.Fatalf("hosts %q and %q", id, first)
	}
}

// Only what is safely one element of a path is a machine's name, and what is
// refused was surely not sent.
func TestNames(t *testing.T) {
	p := open(t, true)
	for _, name := range []string{"", ".", "..", "a/b", "../x", ".hidden", "-rf", "a\x00", "a b", "ü", strings.Repeat("x", 129), "a\n"} {
		if _, err := p.Create(deadline(t), sandbox.CreateRequest{Name: name}); !errors.Is(err, sandbox.ErrInvalid) || !errors.Is(err, sandbox.ErrNotSent) {
			t.Errorf("create %q: %v", name, err)
		}
		ref := sandbox.Ref{Name: name, Incarnation: "x"}
		if _, err := p.Inspect(deadline(t), ref); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("inspect %q: %v", name, err)
		}
		if err := p.Destroy(deadline(t), ref); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("destroy %q: %v", name, err)
		}
	}
	for _, spec := range []sandbox.Spec{{Image: "debian"}, {Env: []string{"no equals sign"}}} {
		if _, err := p.Create(deadline(t), sandbox.CreateRequest{Name: "m-g1", Spec: spec}); !errors.Is(err, sandbox.ErrNotSent) {
			t.Errorf("create with %+v: %v", spec, err)
		}
	}
	if found, err := p.Inspect(deadline(t), sandbox.Ref{Name: "m-g1"}); err != nil || len(found) != 0 {
		t.Errorf("a refused machine: %v, %v", found, err)
	}
}

// A root that is not there any more is not the word that there are no machines.
func TestRootGoneIsUnknown(t *testing.T) {
	root := t.TempDir() + "/root"
	p, err := local.New(local.Config{Root: root, Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ref := create(t, p, "m-g1")
	if err := os.Rename(root, root+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	if found, err := p.Inspect(deadline(t), ref); err == nil {
		t.Errorf("inspect: %v", found)
	}
	if _, err := p.Attach(deadline(t), ref); err == nil || errors.Is(err, sandbox.ErrGone) {
		t.Errorf("attach: %v", err)
	}
	if err := p.Destroy(deadline(t), ref); err == nil {
		t.Error("destroy succeeded")
	}
}
