package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

var errOutage = errors.New("outage")

// once is a script that makes f of the first call of op and nothing of the others.
func once(op memory.Op, f memory.Fault) func(memory.Call) memory.Fault {
	return func(c memory.Call) memory.Fault {
		if c.Op == op && c.Nth == 1 {
			return f
		}
		return memory.Fault{}
	}
}

// count is how many machines callers see under the name x, and how many there are.
func count(t *testing.T, boxes *memory.Sandboxes) (seen, alive int) {
	t.Helper()
	found, err := boxes.Inspect(t.Context(), sandbox.Ref{Name: "x"})
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	return len(found), len(boxes.Machines())
}

// What each fault makes of a create: its answer, then what there is before and
// after the latch opens.
func TestFaultsOfCreate(t *testing.T) {
	type counts struct{ Seen, Alive int }
	for _, c := range []struct {
		rule          string
		fault         func(l *memory.Latch) memory.Fault
		err           error
		before, after counts
	}{
		{"no fault", func(*memory.Latch) memory.Fault { return memory.Fault{} }, nil, counts{1, 1}, counts{1, 1}},
		{"failed before anything is done", func(*memory.Latch) memory.Fault { return memory.Fault{Fail: sandbox.ErrNotSent} }, sandbox.ErrNotSent, counts{0, 0}, counts{0, 0}},
		{"failed by an error of one's own", func(*memory.Latch) memory.Fault { return memory.Fault{Fail: errOutage} }, errOutage, counts{0, 0}, counts{0, 0}},
		{"done, and the answer lost", func(*memory.Latch) memory.Fault { return memory.Fault{Lose: true} }, memory.ErrNoReply, counts{1, 1}, counts{1, 1}},
		{"done late", func(l *memory.Latch) memory.Fault { return memory.Fault{Late: l} }, memory.ErrNoReply, counts{0, 0}, counts{1, 1}},
		{"two machines of one name", func(*memory.Latch) memory.Fault { return memory.Fault{Twice: true} }, nil, counts{2, 2}, counts{2, 2}},
		{"two machines, late", func(l *memory.Latch) memory.Fault { return memory.Fault{Twice: true, Late: l} }, memory.ErrNoReply, counts{0, 0}, counts{2, 2}},
		{"not to be seen for a while", func(l *memory.Latch) memory.Fault { return memory.Fault{Hidden: l} }, nil, counts{0, 1}, counts{1, 1}},
		{"late, and at once to be seen by then", func(l *memory.Latch) memory.Fault { return memory.Fault{Late: l, Hidden: l} }, memory.ErrNoReply, counts{0, 0}, counts{1, 1}},
		{"starting", func(*memory.Latch) memory.Fault { return memory.Fault{Status: sandbox.StatusStarting} }, sandbox.ErrStarting, counts{1, 1}, counts{1, 1}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			boxes := memory.NewSandboxes(&memory.SandboxOptions{Caps: &sandbox.Caps{}})
			var latch memory.Latch
			boxes.Inject(once(memory.OpCreate, c.fault(&latch)))
			_, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
			wantErr(t, "Create", err, c.err)
			var got counts
			got.Seen, got.Alive = count(t, boxes)
			if got != c.before {
				t.Errorf("after the call %+v, want %+v", got, c.before)
			}
			latch.Open()
			latch.Open()
			got.Seen, got.Alive = count(t, boxes)
			if got != c.after {
				t.Errorf("after the latch has opened %+v, want %+v", got, c.after)
			}
		})
	}
}

// A late create finds what has its name by then, where names are unique; and
// a machine that nobody sees keeps its name from others only there.
func TestFaultsKeepNamesUnique(t *testing.T) {
	for _, unique := range []bool{true, false} {
		boxes := memory.NewSandboxes(&memory.SandboxOptions{Caps: &sandbox.Caps{UniqueNames: unique}})
		var unseen memory.Latch
		boxes.Inject(once(memory.OpCreate, memory.Fault{Hidden: &unseen}))
		for range 2 {
			if _, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		want := 2
		if unique {
			want = 1
		}
		if got := len(boxes.Machines()); got != want {
			t.Errorf("unique names %v: %d machines, want %d", unique, got, want)
		}
	}
	boxes := memory.NewSandboxes(nil)
	var late memory.Latch
	boxes.Inject(once(memory.OpCreate, memory.Fault{Late: &late}))
	for range 2 {
		boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
	}
	late.Open()
	if got := len(boxes.Machines()); got != 1 {
		t.Errorf("after the late create %d machines, want 1", got)
	}
}

// What each fault makes of the calls that name a machine.
func TestFaultsOfOtherCalls(t *testing.T) {
	for _, c := range []struct {
		rule         string
		op           memory.Op
		fault        func(l *memory.Latch) memory.Fault
		err          error
		found        int // by Inspect
		alive, after int // before and after the latch opens
	}{
		{"inspect fails", memory.OpInspect, func(*memory.Latch) memory.Fault { return memory.Fault{Fail: errOutage} }, errOutage, 0, 1, 1},
		{"inspect is not answered", memory.OpInspect, func(*memory.Latch) memory.Fault { return memory.Fault{Lose: true} }, memory.ErrNoReply, 0, 1, 1},
		{"inspect does not see it, once", memory.OpInspect, func(*memory.Latch) memory.Fault { return memory.Fault{Unseen: true} }, nil, 0, 1, 1},
		{"attach fails", memory.OpAttach, func(*memory.Latch) memory.Fault { return memory.Fault{Fail: errOutage} }, errOutage, 0, 1, 1},
		{"attach is not answered", memory.OpAttach, func(*memory.Latch) memory.Fault { return memory.Fault{Lose: true} }, memory.ErrNoReply, 0, 1, 1},
		{"attach does not see it, once", memory.OpAttach, func(*memory.Latch) memory.Fault { return memory.Fault{Unseen: true} }, sandbox.ErrGone, 0, 1, 1},
		{"attach finds it starting, once", memory.OpAttach, func(*memory.Latch) memory.Fault { return memory.Fault{Fail: sandbox.ErrStarting} }, sandbox.ErrStarting, 0, 1, 1},
		{"destroy fails", memory.OpDestroy, func(*memory.Latch) memory.Fault { return memory.Fault{Fail: errOutage} }, errOutage, 0, 1, 1},
		{"destroy is done and not answered", memory.OpDestroy, func(*memory.Latch) memory.Fault { return memory.Fault{Lose: true} }, memory.ErrNoReply, 0, 0, 0},
		{"destroy is accepted and done late", memory.OpDestroy, func(l *memory.Latch) memory.Fault { return memory.Fault{Late: l} }, nil, 0, 1, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			boxes := memory.NewSandboxes(nil)
			m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
			if err != nil {
				t.Fatal(err)
			}
			var latch memory.Latch
			boxes.Inject(once(c.op, c.fault(&latch)))
			call := func() (found []sandbox.Found, err error) {
				switch c.op {
				case memory.OpInspect:
					found, err = boxes.Inspect(t.Context(), m.Ref)
				case memory.OpAttach:
					var sb sandbox.Sandbox
					if sb, err = boxes.Attach(t.Context(), m.Ref); err == nil {
						sb.Close()
					} else if sb != nil {
						t.Error("a handle beside an error")
					}
				case memory.OpDestroy:
					err = boxes.Destroy(t.Context(), m.Ref)
				}
				return found, err
			}
			found, err := call()
			wantErr(t, string(c.op), err, c.err)
			if len(found) != c.found {
				t.Errorf("found %v, want %d", found, c.found)
			}
			if got := len(boxes.Machines()); got != c.alive {
				t.Errorf("%d machines alive, want %d", got, c.alive)
			}
			latch.Open()
			if got := len(boxes.Machines()); got != c.after {
				t.Errorf("after the latch has opened %d machines alive, want %d", got, c.after)
			}
			if _, err := call(); err != nil {
				t.Errorf("the second call: %v", err)
			}
		})
	}
}

// A machine that is hidden can't be inspected, attached to or destroyed, and Kill reaches it.
func TestFaultHidden(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var seen memory.Latch
	boxes.Inject(once(memory.OpCreate, memory.Fault{Hidden: &seen}))
	m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = boxes.Attach(t.Context(), m.Ref)
	wantErr(t, "Attach", err, sandbox.ErrGone)
	wantErr(t, "Destroy", boxes.Destroy(t.Context(), m.Ref), nil)
	if got := boxes.Machines(); len(got) != 1 || !got[0].Hidden {
		t.Fatalf("machines %v, want the hidden one", got)
	}
	if !boxes.Kill(m.Ref.Incarnation) {
		t.Error("Kill found no machine")
	}
	seen.Open()
	if seen, alive := count(t, boxes); seen != 0 || alive != 0 {
		t.Errorf("%d seen and %d alive after the kill", seen, alive)
	}
}

// A machine that starts can be let run, and is then attached to.
func TestFaultStarting(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	boxes.Inject(once(memory.OpCreate, memory.Fault{Status: sandbox.StatusStarting}))
	for range 2 {
		_, err := boxes.Open(t.Context(), "x")
		wantErr(t, "Open", err, sandbox.ErrStarting)
	}
	boxes.SetStatus(boxes.Machines()[0].Incarnation, sandbox.StatusRunning)
	mustOpen(t, boxes, "x")
}

// A machine that is born failed is answered by an error that leaves the outcome open.
func TestFaultFailed(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	boxes.Inject(once(memory.OpCreate, memory.Fault{Status: sandbox.StatusFailed}))
	_, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
	if err == nil || errors.Is(err, sandbox.ErrNotSent) || errors.Is(err, sandbox.ErrStarting) {
		t.Errorf("Create: %v, want an error that is not one of the contract's", err)
	}
}

// Calls stand still at latches before and after they are done, so that a test
// can order them: here a destroy between a create and its answer.
func TestFaultHold(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var before, after memory.Latch
	boxes.Inject(once(memory.OpCreate, memory.Fault{Hold: &before, HoldReply: &after}))
	answer := make(chan sandbox.Machine, 1)
	go func() {
		m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
		if err != nil {
			t.Errorf("Create: %v", err)
		}
		answer <- m
	}()
	<-before.Reached()
	if got := len(boxes.Machines()); got != 0 {
		t.Errorf("held before it is done: %d machines, want 0", got)
	}
	before.Open()
	<-after.Reached()
	all := boxes.Machines()
	if len(all) != 1 {
		t.Fatalf("held before it is answered: machines %v, want one", all)
	}
	if err := boxes.Destroy(t.Context(), sandbox.Ref{Name: "x", Incarnation: all[0].Incarnation}); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	after.Open()
	if m := <-answer; m.Ref.Incarnation != all[0].Incarnation {
		t.Errorf("answer %v, want %s", m, all[0].Incarnation)
	}
	<-after.Reached() // once reached it stays so
}

// A caller that gives up at a latch gets its own context's cause; what was done stays done.
func TestFaultHoldGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tired := errors.New("tired of waiting")
		for _, c := range []struct {
			rule  string
			fault func(l *memory.Latch) memory.Fault
			alive int
		}{
			{"before anything is done", func(l *memory.Latch) memory.Fault { return memory.Fault{Hold: l} }, 0},
			{"after everything is done", func(l *memory.Latch) memory.Fault { return memory.Fault{HoldReply: l} }, 1},
		} {
			boxes := memory.NewSandboxes(nil)
			var never memory.Latch
			boxes.Inject(once(memory.OpCreate, c.fault(&never)))
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-never.Reached()
				cancel(tired)
			}()
			_, err := boxes.Create(ctx, sandbox.CreateRequest{Name: "x"})
			wantErr(t, c.rule, err, tired)
			if errors.Is(err, sandbox.ErrNotSent) {
				t.Errorf("%s: %v claims that nothing was sent", c.rule, err)
			}
			if got := len(boxes.Machines()); got != c.alive {
				t.Errorf("%s: %d machines, want %d", c.rule, got, c.alive)
			}
		}
	})
}

// The script is asked about every call, in order, may look around, and can be taken away.
func TestInject(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var asked []memory.Call
	boxes.Inject(func(c memory.Call) memory.Fault {
		asked = append(asked, c)
		for _, m := range boxes.Machines() {
			boxes.SetStatus(m.Incarnation, sandbox.StatusRunning)
		}
		return memory.Fault{}
	})
	ref := mustOpen(t, boxes, "x").Ref()
	mustOpen(t, boxes, "x")
	count(t, boxes)
	if err := boxes.Destroy(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	want := []memory.Call{
		{Seq: 1, Nth: 1, Op: memory.OpCreate, Name: "x"},
		{Seq: 2, Nth: 1, Op: memory.OpAttach, Name: "x", Incarnation: "memory-1"},
		{Seq: 3, Nth: 2, Op: memory.OpCreate, Name: "x"},
		{Seq: 4, Nth: 2, Op: memory.OpAttach, Name: "x", Incarnation: "memory-1"},
		{Seq: 5, Nth: 1, Op: memory.OpInspect, Name: "x"},
		{Seq: 6, Nth: 1, Op: memory.OpDestroy, Name: "x", Incarnation: "memory-1"},
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got)\n%s", diff)
	}
	boxes.Inject(nil)
	count(t, boxes)
	if diff := cmp.Diff(append(want, memory.Call{Seq: 7, Nth: 2, Op: memory.OpInspect, Name: "x"}), boxes.Calls()); diff != "" {
		t.Errorf("Calls (-want +got)\n%s", diff)
	}
	if len(asked) != len(want) {
		t.Error("the script was asked after it was taken away")
	}
}

// What a caller may see of a lost answer says nothing of how it was lost.
func TestErrNoReplyProblem(t *testing.T) {
	if status, code, _ := memory.ErrNoReply.Problem(); status != 503 || code != "no_reply" {
		t.Errorf("Problem = %d %s", status, code)
	}
}
