//go:build linux

package local_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

func labels(deployment string) map[string]string {
	return map[string]string{sandbox.LabelDeployment: deployment, sandbox.LabelSandbox: "s1", sandbox.LabelGeneration: "3"}
}

func createFor(t *testing.T, p *local.Provider, name, deployment string) sandbox.Ref {
	t.Helper()
	m, err := p.Create(deadline(t), sandbox.CreateRequest{Name: name, Labels: labels(deployment)})
	if err != nil {
		t.Fatal(err)
	}
	return m.Ref
}

// list returns what is listed, by name.
func list(t *testing.T, p *local.Provider, deployment string) map[string]sandbox.Listed {
	t.Helper()
	all := map[string]sandbox.Listed{}
	for l, err := range p.List(deadline(t), deployment) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[l.Ref.Name]; twice {
			t.Errorf("%s is listed twice", l.Ref.Name)
		}
		all[l.Ref.Name] = l
	}
	return all
}

// Another process of the host lists what this one has made, as it was
// labelled and when; what runs is running, what sleeps sleeps on.
func TestListOfAnother(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p, other := openAt(t, root, unconfined), openAt(t, root, unconfined)
			before := time.Now()
			asleep, awake := createFor(t, p, "asleep-g1", "d"), createFor(t, p, "awake-g1", "d")
			createFor(t, p, "theirs-g1", "d2")
			create(t, p, "nobodys-g1")
			sh(t, attach(t, p, awake), "true")
			resting := sandbox.StatusStopped
			if unconfined {
				resting = sandbox.StatusRunning
			}
			for range 2 {
				all := list(t, other, "d")
				if len(all) != 2 {
					t.Fatalf("listed: %+v", all)
				}
				for _, want := range []sandbox.Listed{{Ref: asleep, Status: resting}, {Ref: awake, Status: sandbox.StatusRunning}} {
					l := all[want.Ref.Name]
					if l.Ref != want.Ref || l.Status != want.Status || !maps.Equal(l.Labels, labels("d")) || l.CreatedAt.Before(before) || l.CreatedAt.After(time.Now()) {
						t.Errorf("%+v, want %+v", l, want)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(root, "machines", "asleep-g1", "init.json")); err == nil {
				t.Error("a list has started an init")
			}
			for range other.List(deadline(t), "d") {
				break
			}
			if all := list(t, other, ""); len(all) != 0 {
				t.Errorf("of no deployment: %+v", all)
			}
		})
	}
}

// A machine that Destroy has not done with is listed as failed, with its
// labels, until its record is gone; what can't be read is left out.
func TestListHalfDestroyed(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	ref, whole := createFor(t, p, "m-g1", "d"), createFor(t, p, "whole-g1", "d")
	trash := filepath.Join(root, "trash", "m-g1@"+string(ref.Incarnation))
	if err := os.Rename(filepath.Join(root, "machines", "m-g1"), trash); err != nil { // as Destroy begins
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "machines", "whole-g1", "machine.json.tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"empty-g1": "", "odd-g1": "{"} {
		dir := filepath.Join(root, "machines", name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "machine.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := list(t, p, "d")
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"m-g1", "whole-g1"}) {
		t.Fatalf("listed: %q", names)
	}
	if l := all["m-g1"]; l.Ref != ref || l.Status != sandbox.StatusFailed || !maps.Equal(l.Labels, labels("d")) || l.CreatedAt.IsZero() {
		t.Errorf("half destroyed: %+v", l)
	}
	if all["whole-g1"].Ref != whole {
		t.Errorf("whole: %+v", all["whole-g1"])
	}
	if err := p.Destroy(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	if all := list(t, p, "d"); len(all) != 1 {
		t.Errorf("once it is destroyed: %+v", all)
	}
}

// Where nothing can be found out, that is an error and not an empty list.
func TestListFails(t *testing.T) {
	root := t.TempDir() + "/root"
	p := openAt(t, root, true)
	createFor(t, p, "m-g1", "d")
	failing := func(ctx context.Context, what string, want error) {
		t.Helper()
		n := 0
		for l, err := range p.List(ctx, "d") {
			if n++; err == nil || want != nil && !errors.Is(err, want) || n > 1 {
				t.Errorf("%s: %+v, %v", what, l, err)
			}
		}
		if n == 0 {
			t.Errorf("%s: an empty list", what)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	failing(ctx, "the context has ended", context.Canceled)
	if err := os.Rename(root, root+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	failing(deadline(t), "the root is gone", nil)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	failing(deadline(t), "the provider was closed", sandbox.ErrClosed)
}
