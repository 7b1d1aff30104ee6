package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// What is measured is the sizes of a machine's files, to the byte, wherever they are, and nothing else.
func TestSandboxesMeasure(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb, other := mustOpen(t, boxes, "x"), mustOpen(t, boxes, "y")
	write := func(sb sandbox.Sandbox, path string, n int) {
		t.Helper()
		if err := sandbox.WriteFile(t.Context(), sb.FS(), path, make([]byte, n), nil); err != nil {
			t.Fatal(err)
		}
	}
	want := func(bytes int64) {
		t.Helper()
		if got, err := boxes.Measure(t.Context(), sb.Ref()); got != bytes || err != nil {
			t.Errorf("%d, %v, want %d", got, err, bytes)
		}
	}
	want(0)
	write(sb, "a", 1)
	write(sb, "d/e/.b", 10_000)
	write(other, "a", 7)
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	if err := errors.Join(links.Symlink(t.Context(), "a", "link"), links.Symlink(t.Context(), ".", "loop")); err != nil {
		t.Fatal(err)
	}
	want(10_001)
	binder, _ := sandbox.As[sandbox.Binder](sb)
	if _, err := binder.Bind(t.Context(), t.TempDir(), sandbox.BindRoot(sb)+"/dir"); err != nil {
		t.Fatal(err)
	}
	write(sb, sandbox.BindRoot(sb)+"/dir/f", 5)
	want(10_001)
	write(sb, "d/e/.b", 100)
	want(101)
	if err := sb.FS().Rename(t.Context(), "d/e/.b", "a", nil); err != nil {
		t.Fatal(err)
	}
	want(100)
	if err := sb.FS().Remove(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	want(0)
}

// What Measure refuses, and what faults make of it. It is of one incarnation
// (T-67), and never wakes a machine (T-68).
func TestSandboxesMeasureAnswers(t *testing.T) {
	boxes := memory.NewSandboxes(&memory.SandboxOptions{Host: "h"})
	sb := mustOpen(t, boxes, "x")
	ref := sb.Ref()
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "f", []byte("four"), nil); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*sandbox.Ref)) sandbox.Ref { r := ref; change(&r); return r }
	late, cancel := context.WithCancel(t.Context())
	cancel()
	var shut memory.Latch
	for _, c := range []struct {
		rule   string
		ctx    context.Context
		ref    sandbox.Ref
		fault  memory.Fault
		status sandbox.Status
		bytes  int64
		err    error
	}{
		{"it runs", t.Context(), ref, memory.Fault{}, sandbox.StatusRunning, 4, nil},
		{"it starts", t.Context(), ref, memory.Fault{}, sandbox.StatusStarting, 4, nil},
		{"it has failed", t.Context(), ref, memory.Fault{}, sandbox.StatusFailed, 4, nil},
		{"it sleeps", t.Context(), ref, memory.Fault{}, sandbox.StatusStopped, 0, sandbox.ErrAsleep},
		{"no incarnation", t.Context(), with(func(r *sandbox.Ref) { r.Incarnation = "" }), memory.Fault{}, sandbox.StatusRunning, 0, sandbox.ErrInvalid},
		{"another incarnation", t.Context(), with(func(r *sandbox.Ref) { r.Incarnation = "never-was" }), memory.Fault{}, sandbox.StatusRunning, 0, sandbox.ErrGone},
		{"another host's", t.Context(), with(func(r *sandbox.Ref) { r.Host = "h2" }), memory.Fault{}, sandbox.StatusRunning, 0, sandbox.ErrWrongHost},
		{"too late", late, ref, memory.Fault{}, sandbox.StatusRunning, 0, context.Canceled},
		{"an outage", t.Context(), ref, memory.Fault{Fail: errOutage}, sandbox.StatusRunning, 0, errOutage},
		{"not seen", t.Context(), ref, memory.Fault{Unseen: true}, sandbox.StatusRunning, 0, sandbox.ErrGone},
		{"the answer is lost", t.Context(), ref, memory.Fault{Lose: true}, sandbox.StatusRunning, 0, memory.ErrNoReply},
		{"it is gone, and the answer is lost", t.Context(), with(func(r *sandbox.Ref) { r.Incarnation = "never-was" }), memory.Fault{Lose: true}, sandbox.StatusRunning, 0, memory.ErrNoReply},
	} {
		boxes.SetStatus(ref.Incarnation, c.status)
		boxes.Inject(func(memory.Call) memory.Fault { return c.fault })
		got, err := boxes.Measure(c.ctx, c.ref)
		wantErr(t, c.rule, err, c.err)
		if got != c.bytes || boxes.Machines()[0].Status != c.status {
			t.Errorf("%s: %d, want %d; the machine is %v", c.rule, got, c.bytes, boxes.Machines()[0].Status)
		}
	}
	boxes.Inject(func(memory.Call) memory.Fault { return memory.Fault{Hold: &shut} })
	answered := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := boxes.Measure(ctx, ref)
		answered <- err
	}()
	<-shut.Reached()
	cancel()
	wantErr(t, "held", <-answered, context.Canceled)
	calls := boxes.Calls()
	if last := calls[len(calls)-1]; last.Op != memory.OpMeasure || last.Name != ref.Name || last.Incarnation != ref.Incarnation || last.Nth != 12 {
		t.Errorf("%+v", last)
	}
}
