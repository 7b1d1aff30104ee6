package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// mustOpen opens a handle that is closed at the end of t.
func mustOpen(t *testing.T, boxes *memory.Sandboxes, name string) sandbox.Sandbox {
	t.Helper()
	sb, err := boxes.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("Open(%s): %v", name, err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// wantErr fails t where err is not want.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func TestSandboxesInfo(t *testing.T) {
	standard := sandbox.Caps{
		Egress:        sandbox.EgressGuarded,
		ShellConfined: true, BindsPerProcess: true, BindsWorkdir: true, UniqueNames: true, KillBy: sandbox.KillByIncarnation,
		CreateHorizon: sandbox.Immediate, VisibilityLag: sandbox.Immediate,
	}
	bound := standard
	bound.HostBound = true
	for _, c := range []struct {
		rule string
		opts *memory.SandboxOptions
		want sandbox.Info
	}{
		{"without options everything is certain and at once", nil, sandbox.Info{Provider: "memory", Caps: standard}},
		{"a host binds the machines", &memory.SandboxOptions{Name: "m", Host: "h"}, sandbox.Info{Provider: "m", Host: "h", Caps: bound}},
		{"what is claimed can be chosen", &memory.SandboxOptions{Caps: &sandbox.Caps{}}, sandbox.Info{Provider: "memory"}},
		{
			"a claim to be bound has a host", &memory.SandboxOptions{Caps: &sandbox.Caps{HostBound: true}},
			sandbox.Info{Provider: "memory", Host: "memory-host", Caps: sandbox.Caps{HostBound: true}},
		},
	} {
		if diff := cmp.Diff(c.want, memory.NewSandboxes(c.opts).Info()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.rule, diff)
		}
	}
}

// However many callers create one name at once, there is one machine, and one of them made it.
func TestSandboxesCreateAtOnce(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var wg sync.WaitGroup
	made := make(chan sandbox.Machine, 8)
	for range cap(made) {
		wg.Go(func() {
			m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "one"})
			if err != nil {
				t.Errorf("Create: %v", err)
			}
			made <- m
		})
	}
	wg.Wait()
	close(made)
	news := 0
	for m := range made {
		if !m.Adopted {
			news++
		}
		if m.Ref.Incarnation != boxes.Machines()[0].Incarnation {
			t.Errorf("Create answered %v, and there is %v", m.Ref, boxes.Machines())
		}
	}
	if news != 1 || len(boxes.Machines()) != 1 {
		t.Errorf("%d callers made %d machines, want one each", news, len(boxes.Machines()))
	}
}

// A create that can't be, or whose caller has gone, surely was not sent.
func TestSandboxesCreateNotSent(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	_, err := boxes.Create(t.Context(), sandbox.CreateRequest{})
	wantErr(t, "no name", err, sandbox.ErrNotSent)
	wantErr(t, "no name", err, sandbox.ErrInvalid)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = boxes.Create(gone, sandbox.CreateRequest{Name: "x"})
	wantErr(t, "caller gone", err, sandbox.ErrNotSent)
	wantErr(t, "caller gone", err, context.Canceled)
	if got := boxes.Machines(); len(got) != 0 {
		t.Errorf("machines %v, want none", got)
	}
}

// What each call answers to a reference, by what the reference names.
func TestSandboxesRefs(t *testing.T) {
	boxes := memory.NewSandboxes(&memory.SandboxOptions{Host: "here"})
	create := func() sandbox.Ref {
		m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return m.Ref
	}
	old := create()
	if err := boxes.Destroy(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	ref := create()
	for _, c := range []struct {
		rule                     string
		change                   func(*sandbox.Ref)
		found                    int
		inspect, attach, destroy error
	}{
		{"an incarnation that is alive", func(*sandbox.Ref) {}, 1, nil, nil, nil},
		{"another incarnation has the name", func(r *sandbox.Ref) { r.Incarnation = old.Incarnation }, 0, nil, sandbox.ErrStale, nil},
		{"nothing has the name", func(r *sandbox.Ref) { *r = sandbox.Ref{Name: "y", Incarnation: "z"} }, 0, nil, sandbox.ErrGone, nil},
		{"only a name", func(r *sandbox.Ref) { r.Incarnation = "" }, 1, nil, sandbox.ErrInvalid, sandbox.ErrInvalid},
		{"nothing at all", func(r *sandbox.Ref) { *r = sandbox.Ref{} }, 0, sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
		{"another host's", func(r *sandbox.Ref) { r.Host = "there" }, 0, sandbox.ErrWrongHost, sandbox.ErrWrongHost, sandbox.ErrWrongHost},
		{"another provider's", func(r *sandbox.Ref) { r.Provider = "other" }, 0, sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
	} {
		r := ref
		c.change(&r)
		found, err := boxes.Inspect(t.Context(), r)
		wantErr(t, c.rule+": Inspect", err, c.inspect)
		if len(found) != c.found {
			t.Errorf("%s: Inspect found %v, want %d", c.rule, found, c.found)
		}
		sb, err := boxes.Attach(t.Context(), r)
		wantErr(t, c.rule+": Attach", err, c.attach)
		if err == nil {
			sb.Close()
		}
		if c.destroy != nil { // the others come last, below
			wantErr(t, c.rule+": Destroy", boxes.Destroy(t.Context(), r), c.destroy)
		}
	}
	wantErr(t, "Destroy of an earlier incarnation", boxes.Destroy(t.Context(), old), nil)
	if got := boxes.Machines(); len(got) != 1 || got[0].Incarnation != ref.Incarnation {
		t.Errorf("machines %v after the destroy of another incarnation, want %s", got, ref.Incarnation)
	}
	for range 2 {
		wantErr(t, "Destroy, twice", boxes.Destroy(t.Context(), ref), nil)
	}
	if got := boxes.Machines(); len(got) != 0 {
		t.Errorf("machines %v, want none", got)
	}
}

// A handle works on its own machine or on none: after a destroy it is gone,
// after a replacement stale, and after its close closed whatever has happened.
func TestSandboxesHandleOutlivesMachine(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	uses := func(want error) {
		t.Helper()
		_, err := sb.FS().Stat(t.Context(), ".")
		wantErr(t, "Stat", err, want)
		_, err = sb.Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}})
		wantErr(t, "Start", err, want)
		binder, _ := sandbox.As[sandbox.Binder](sb)
		_, err = binder.Bind(t.Context(), t.TempDir(), "/workspace-agent/a")
		wantErr(t, "Bind", err, want)
		links, _ := sandbox.As[sandbox.Symlinker](sb)
		wantErr(t, "Symlink", links.Symlink(t.Context(), "a", "b"), want)
	}
	if !boxes.Kill(sb.Ref().Incarnation) {
		t.Fatal("Kill found no machine")
	}
	uses(sandbox.ErrGone)
	mustOpen(t, boxes, "x")
	uses(sandbox.ErrStale)
	if err := sb.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	uses(sandbox.ErrClosed)
}

// Machines shows what there is, in order, and its result can be changed freely.
func TestSandboxesMachines(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	for _, name := range []string{"b", "a"} {
		if _, err := boxes.Create(t.Context(), sandbox.CreateRequest{
			Name: name, Labels: map[string]string{"k": name}, Spec: sandbox.Spec{Env: []string{"A=1"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	machine := func(name string, i sandbox.Incarnation) memory.Machine {
		return memory.Machine{
			Name: name, Incarnation: i, Labels: map[string]string{"k": name},
			Spec: sandbox.Spec{Env: []string{"A=1"}}, Status: sandbox.StatusRunning,
		}
	}
	want := []memory.Machine{machine("a", "memory-2"), machine("b", "memory-1")}
	got := boxes.Machines()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	got[0].Labels["k"], got[0].Spec.Env[0] = "", ""
	if diff := cmp.Diff(want, boxes.Machines()); diff != "" {
		t.Errorf("after a change of the result (-want +got)\n%s", diff)
	}
	if boxes.Kill("nobody") || boxes.SetStatus("nobody", sandbox.StatusFailed) {
		t.Error("Kill or SetStatus found a machine that never was")
	}
}

// Inspect never wakes a machine; Attach wakes one that sleeps, and refuses one
// that is not ready or will never be.
func TestSandboxesStatus(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	ref := mustOpen(t, boxes, "x").Ref()
	failed := errors.New("any other error")
	for _, c := range []struct {
		status, after sandbox.Status
		attach        error
	}{
		{sandbox.StatusStopped, sandbox.StatusRunning, nil},
		{sandbox.StatusStarting, sandbox.StatusStarting, sandbox.ErrStarting},
		{sandbox.StatusFailed, sandbox.StatusFailed, failed},
		{sandbox.StatusRunning, sandbox.StatusRunning, nil},
	} {
		boxes.SetStatus(ref.Incarnation, c.status)
		for range 2 {
			found, err := boxes.Inspect(t.Context(), ref)
			if want := []sandbox.Found{{Incarnation: ref.Incarnation, Status: c.status}}; err != nil || !cmp.Equal(found, want) {
				t.Errorf("%v: Inspect = %v, %v, want %v", c.status, found, err, want)
			}
		}
		sb, err := boxes.Attach(t.Context(), ref)
		switch {
		case err == nil:
			sb.Close()
		case c.attach == failed && !errors.Is(err, sandbox.ErrGone):
			err = failed
		}
		wantErr(t, c.status.String()+": Attach", err, c.attach)
		if got := boxes.Machines()[0].Status; got != c.after {
			t.Errorf("%v: after Attach %v, want %v", c.status, got, c.after)
		}
	}
}
