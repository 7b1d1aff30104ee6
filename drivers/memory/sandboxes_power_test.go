package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// labelled makes a machine called name that carries deployment as its label.
func labelled(t *testing.T, boxes *memory.Sandboxes, name, deployment string) sandbox.Ref {
	t.Helper()
	m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: name, Labels: map[string]string{
		sandbox.LabelDeployment: deployment, sandbox.LabelSandbox: "s-" + name, sandbox.LabelGeneration: "1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m.Ref
}

// list reads a list to its end.
func list(ctx context.Context, boxes *memory.Sandboxes, deployment string) (all []sandbox.Listed, last error) {
	for l, err := range boxes.List(ctx, deployment) {
		if last = err; err == nil {
			all = append(all, l)
		}
	}
	return all, last
}

// A list is what there is to be seen of a deployment, with the birthday each machine has on the provider's clock.
func TestSandboxesList(t *testing.T) {
	clock := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	boxes := memory.NewSandboxes(&memory.SandboxOptions{Host: "h", Now: func() time.Time { return clock }})
	a := labelled(t, boxes, "a", "d")
	clock = clock.Add(time.Hour)
	b := labelled(t, boxes, "b", "d")
	labelled(t, boxes, "c", "d2")
	if _, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "nobody's"}); err != nil {
		t.Fatal(err)
	}
	boxes.SetStatus(b.Incarnation, sandbox.StatusStopped)
	label := func(name string) map[string]string {
		return map[string]string{sandbox.LabelDeployment: "d", sandbox.LabelSandbox: "s-" + name, sandbox.LabelGeneration: "1"}
	}
	want := []sandbox.Listed{
		{Ref: a, Labels: label("a"), Status: sandbox.StatusRunning, CreatedAt: clock.Add(-time.Hour)},
		{Ref: b, Labels: label("b"), Status: sandbox.StatusStopped, CreatedAt: clock},
	}
	got, err := list(t.Context(), boxes, "d")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	got[0].Labels[sandbox.LabelSandbox] = "changed"
	if again, _ := list(t.Context(), boxes, "d"); again[0].Labels[sandbox.LabelSandbox] != "s-a" || again[1].Status != sandbox.StatusStopped {
		t.Errorf("the provider's own labels were changed, or a machine woken: %+v", again)
	}
	if got, err := list(t.Context(), boxes, ""); err != nil || got != nil {
		t.Errorf("of no deployment: %+v, %v", got, err)
	}
	for range boxes.List(t.Context(), "d") {
		break
	}
}

// What each fault makes of a list.
func TestFaultsOfList(t *testing.T) {
	for _, c := range []struct {
		rule  string
		fault memory.Fault
		seen  int
		err   error
	}{
		{"no fault", memory.Fault{}, 1, nil},
		{"failed", memory.Fault{Fail: errOutage}, 0, errOutage},
		{"stale: not one is there", memory.Fault{Unseen: true}, 0, nil},
		{"the answer is lost", memory.Fault{Lose: true}, 0, memory.ErrNoReply},
	} {
		t.Run(c.rule, func(t *testing.T) {
			boxes := memory.NewSandboxes(nil)
			labelled(t, boxes, "a", "d")
			boxes.Inject(once(memory.OpList, c.fault))
			got, err := list(t.Context(), boxes, "d")
			if len(got) != c.seen {
				t.Errorf("lists %+v, want %d", got, c.seen)
			}
			wantErr(t, "List", err, c.err)
			if calls := boxes.Calls(); calls[len(calls)-1] != (memory.Call{Seq: 2, Nth: 1, Op: memory.OpList, Name: "d"}) {
				t.Errorf("calls %+v", calls)
			}
		})
	}
}

// A machine that is hidden is not listed until the latch opens; and a list
// that is held tells of the machines there are once it goes on.
func TestFaultListHold(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var seen, held memory.Latch
	boxes.Inject(once(memory.OpCreate, memory.Fault{Hidden: &seen}))
	labelled(t, boxes, "a", "d")
	if got, err := list(t.Context(), boxes, "d"); err != nil || got != nil {
		t.Errorf("hidden: %+v, %v", got, err)
	}
	seen.Open()
	boxes.Inject(func(memory.Call) memory.Fault { return memory.Fault{Hold: &held} })
	counted := make(chan int)
	go func() {
		got, err := list(t.Context(), boxes, "d")
		if err != nil {
			t.Error(err)
		}
		counted <- len(got)
	}()
	<-held.Reached()
	boxes.Inject(nil)
	labelled(t, boxes, "b", "d")
	held.Open()
	if n := <-counted; n != 2 {
		t.Errorf("%d machines listed, want 2", n)
	}
	tired, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := list(tired, boxes, "d")
	wantErr(t, "List", err, context.Canceled)
}

// Reap ends what has the tag, of every handle, at once, and nothing else.
func TestSandboxesReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boxes := memory.NewSandboxes(nil)
		forever := make(chan struct{})
		defer close(forever)
		boxes.Handle("deaf", func(context.Context, *memory.Command) int { <-forever; return 0 })
		boxes.Handle("block", func(ctx context.Context, _ *memory.Command) int { <-ctx.Done(); return 0 })
		a, b, elsewhere := mustOpen(t, boxes, "x"), mustOpen(t, boxes, "x"), mustOpen(t, boxes, "y")
		begin := func(sb sandbox.Sandbox, program, tag string, detached bool) sandbox.Process {
			p, err := sb.Start(t.Context(), sandbox.Cmd{Argv: []string{program}, Tag: tag, Detached: detached, KillGrace: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		mine := []sandbox.Process{begin(a, "block", "t", false), begin(a, "deaf", "t", false), begin(b, "block", "t", true)}
		others := []sandbox.Process{begin(a, "block", "t2", false), begin(b, "block", "", false), begin(elsewhere, "block", "t", false)}
		if err := boxes.Reap(t.Context(), a.Ref(), "t"); err != nil {
			t.Fatal(err)
		}
		for _, p := range mine {
			if exit, err := p.Wait(t.Context()); err != nil || exit.Reason != sandbox.Cancelled || exit.Code != 137 {
				t.Errorf("%+v, %v", exit, err)
			}
		}
		for i, p := range others {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if exit, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("of others, number %d ended: %+v, %v", i, exit, err)
			}
			cancel()
		}
	})
}

// What Reap refuses, what it finds nothing to do for, and what faults make of it.
func TestSandboxesReapAnswers(t *testing.T) {
	boxes := memory.NewSandboxes(&memory.SandboxOptions{Host: "h"})
	boxes.Handle("block", func(ctx context.Context, _ *memory.Command) int { <-ctx.Done(); return 0 })
	sb := mustOpen(t, boxes, "x")
	ref := sb.Ref()
	with := func(change func(*sandbox.Ref)) sandbox.Ref { r := ref; change(&r); return r }
	for _, c := range []struct {
		rule string
		ref  sandbox.Ref
		tag  string
		err  error
	}{
		{"no tag", ref, "", sandbox.ErrInvalid},
		{"a tag that can't be", ref, "a/b", sandbox.ErrInvalid},
		{"no incarnation", with(func(r *sandbox.Ref) { r.Incarnation = "" }), "t", sandbox.ErrInvalid},
		{"another host's", with(func(r *sandbox.Ref) { r.Host = "h2" }), "t", sandbox.ErrWrongHost},
		{"not there", with(func(r *sandbox.Ref) { r.Incarnation = "never-was" }), "t", nil},
		{"a tag that nobody has", ref, "t", nil},
	} {
		wantErr(t, c.rule, boxes.Reap(t.Context(), c.ref, c.tag), c.err)
	}
	boxes.SetStatus(ref.Incarnation, sandbox.StatusStopped)
	wantErr(t, "asleep", boxes.Reap(t.Context(), ref, "t"), nil)
	if m := boxes.Machines(); m[0].Status != sandbox.StatusStopped {
		t.Error("a machine was woken")
	}
	if _, err := sb.Start(t.Context(), sandbox.Cmd{Argv: []string{"block"}, Tag: "t"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fault memory.Fault
		err   error
		left  int
	}{{memory.Fault{Fail: errOutage}, errOutage, 1}, {memory.Fault{Lose: true}, memory.ErrNoReply, 0}} {
		boxes.Inject(func(memory.Call) memory.Fault { return c.fault })
		wantErr(t, "Reap", boxes.Reap(t.Context(), ref, "t"), c.err)
		if n := boxes.Machines()[0].Processes; n != c.left {
			t.Errorf("%d processes after %v, want %d", n, c.err, c.left)
		}
	}
}

// A tag is of letters, digits and a few signs, and not long.
func TestSandboxesTags(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	boxes.Handle("true", func(context.Context, *memory.Command) int { return 0 })
	sb := mustOpen(t, boxes, "x")
	for tag, want := range map[string]error{
		"": nil, "a": nil, "A-z_0.9": nil, strings.Repeat("x", 64): nil,
		strings.Repeat("x", 65): sandbox.ErrInvalid, "a b": sandbox.ErrInvalid, "a/b": sandbox.ErrInvalid, "ü": sandbox.ErrInvalid, "a\x00": sandbox.ErrInvalid, "a=b": sandbox.ErrInvalid,
	} {
		p, err := sb.Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}, Tag: tag})
		wantErr(t, tag, err, want)
		if err == nil {
			p.Close()
		} else if !strings.Contains(err.Error(), "Tag") {
			t.Errorf("%q: %v does not name the field", tag, err)
		}
	}
}
