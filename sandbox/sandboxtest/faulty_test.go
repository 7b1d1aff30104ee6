package sandboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

func ExampleFaulty() {
	boxes := memory.NewSandboxes(nil)
	p := sandboxtest.Faulty(boxes, func(c sandboxtest.Call) sandboxtest.Fault {
		if c.Method == sandboxtest.Create && c.Nth == 1 {
			return sandboxtest.Fault{Lose: true}
		}
		return sandboxtest.Fault{}
	})
	_, err := p.Create(context.Background(), sandbox.CreateRequest{Name: "one"})
	fmt.Println(err)
	fmt.Println("machines:", len(boxes.Machines()))
	m, err := p.Create(context.Background(), sandbox.CreateRequest{Name: "one"})
	fmt.Println("adopted:", m.Adopted, err)
	// Output:
	// Create machine one (): sandboxtest: no reply from the provider
	// machines: 1
	// adopted: true <nil>
}

// Without faults the wrapper is a provider as good as the one it wraps.
func TestFaultlessKeepsThePromises(t *testing.T) {
	open := func(*testing.T) sandbox.Provider {
		boxes := memory.NewSandboxes(nil)
		for name, h := range memory.Coreutils() {
			boxes.Handle(name, h)
		}
		return sandboxtest.Faulty(boxes, nil)
	}
	sandboxtest.TestProvider(t, open, &sandboxtest.Options{
		Commands: sandboxtest.Commands{
			Cat:      func() []string { return []string{"cat"} },
			ReadFile: func(path string) []string { return []string{"cat", path} },
		},
		Binds: true, BindsWorkdir: true, Links: true, ProcessesSeeFiles: true, Detached: true, Lists: true, Reaps: true, Measures: true, Guards: true, Watches: true, Attrs: true, ETags: true, Processes: true,
	})
}

var errFault = errors.New("test: a fault")

// faultOn faults the first call of one method.
func faultOn(m sandboxtest.Method, f sandboxtest.Fault) func(sandboxtest.Call) sandboxtest.Fault {
	return func(c sandboxtest.Call) sandboxtest.Fault {
		if c.Method == m && c.Nth == 1 {
			return f
		}
		return sandboxtest.Fault{}
	}
}

func TestFaultsOfACall(t *testing.T) {
	shut := make(chan struct{})
	for _, c := range []struct {
		rule  string
		fault sandboxtest.Fault
		want  error // nil = any
		made  int   // machines there are then
	}{
		{"a call that fails is not made", sandboxtest.Fault{Fail: errFault}, errFault, 0},
		{"a call that is held is not made where its context ends first", sandboxtest.Fault{Hold: shut}, context.Canceled, 0},
		{"a call whose reply is held was made", sandboxtest.Fault{HoldReply: shut}, context.Canceled, 1},
		{"a call whose reply is lost was made", sandboxtest.Fault{Lose: true}, nil, 1},
		{"a call may be made twice", sandboxtest.Fault{Twice: true, Lose: true}, nil, 2},
	} {
		t.Run(c.rule, func(t *testing.T) {
			boxes := new(unnamed)
			p := sandboxtest.Faulty(boxes, faultOn(sandboxtest.Create, c.fault))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := p.Create(ctx, sandbox.CreateRequest{Name: "one"})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Create: error %v, want %v", err, c.want)
			}
			if boxes.made != c.made {
				t.Errorf("%d machines, want %d", boxes.made, c.made)
			}
		})
	}
}

// unnamed is a provider that makes a machine with every Create, whatever its name and context.
type unnamed struct {
	sandbox.Provider
	made int
}

func (u *unnamed) Create(context.Context, sandbox.CreateRequest) (sandbox.Machine, error) {
	u.made++
	return sandbox.Machine{}, nil
}

func (*unnamed) List(context.Context, string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		for range 3 {
			if !yield(sandbox.Listed{}, nil) {
				return
			}
		}
	}
}

func (u *unnamed) Reap(context.Context, sandbox.Ref, string) error { u.made++; return nil }

func (u *unnamed) Measure(context.Context, sandbox.Ref) (int64, error) { u.made++; return 7, nil }

func TestHeldCallsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, reply := make(chan struct{}), make(chan struct{})
		boxes := new(unnamed)
		p := sandboxtest.Faulty(boxes, faultOn(sandboxtest.Create, sandboxtest.Fault{Hold: hold, HoldReply: reply}))
		answered := false
		go func() {
			_, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "one"})
			answered = err == nil
		}()
		synctest.Wait()
		if boxes.made != 0 || answered {
			t.Error("a held call was made")
		}
		close(hold)
		synctest.Wait()
		if boxes.made != 1 || answered {
			t.Errorf("%d machines, answered %v: want one and no answer yet", boxes.made, answered)
		}
		close(reply)
		synctest.Wait()
		if !answered {
			t.Error("a held reply never came")
		}
	})
}

func TestLateCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []sandboxtest.Method{sandboxtest.Create, sandboxtest.Destroy} {
			boxes, late := memory.NewSandboxes(nil), make(chan struct{})
			p := sandboxtest.Faulty(boxes, faultOn(m, sandboxtest.Fault{Late: late}))
			ctx, cancel := context.WithCancel(t.Context())
			made, err := p.Create(ctx, sandbox.CreateRequest{Name: "one"})
			before, after := 0, 1
			if m == sandboxtest.Create {
				if err == nil {
					t.Error("a create that is put off was answered")
				}
			} else {
				if err := p.Destroy(ctx, made.Ref); err != nil {
					t.Errorf("a destroy that is put off is accepted: %v", err)
				}
				before, after = 1, 0
			}
			cancel() // the caller is gone
			synctest.Wait()
			if n := len(boxes.Machines()); n != before {
				t.Errorf("%s: %d machines before its time, want %d", m, n, before)
			}
			close(late)
			synctest.Wait()
			if n := len(boxes.Machines()); n != after {
				t.Errorf("%s: %d machines afterwards, want %d", m, n, after)
			}
		}
	})
}

func TestALostHandleIsClosed(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var got sandbox.Sandbox
	p := sandboxtest.Faulty(attachSpy{boxes, &got}, faultOn(sandboxtest.Attach, sandboxtest.Fault{Lose: true}))
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Attach(t.Context(), m.Ref); err == nil {
		t.Error("a lost reply arrived")
	}
	if _, err := got.FS().Stat(t.Context(), "."); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("the handle that nobody has: %v, want ErrClosed", err)
	}
	sb, err := p.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if sb != got {
		t.Error("the handle is not the provider's own")
	}
}

type attachSpy struct {
	sandbox.Provider
	got *sandbox.Sandbox
}

func (s attachSpy) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	sb, err := s.Provider.Attach(ctx, ref)
	*s.got = sb
	return sb, err
}

func TestFaultyPassesOnPowers(t *testing.T) {
	if _, has := sandbox.As[sandbox.Lister](sandboxtest.Faulty(struct{ sandbox.Provider }{}, nil)); has {
		t.Error("a provider that can't list can")
	}
	if _, has := sandbox.As[sandbox.Reaper](sandboxtest.Faulty(struct{ sandbox.Provider }{}, nil)); has {
		t.Error("a provider that can't reap can")
	}
	if _, has := sandbox.As[sandbox.Measurer](sandboxtest.Faulty(struct{ sandbox.Provider }{}, nil)); has {
		t.Error("a provider that can't measure can")
	}
	if _, has := sandbox.As[sandbox.Guard](sandboxtest.Faulty(struct{ sandbox.Provider }{}, nil)); has {
		t.Error("a provider that can't restrict can")
	}
	boxes := new(unnamed)
	p := sandboxtest.Faulty(boxes, func(c sandboxtest.Call) sandboxtest.Fault {
		return sandboxtest.Fault{Fail: errFault, After: 2}
	})
	lister, lists := sandbox.As[sandbox.Lister](p)
	reaper, reaps := sandbox.As[sandbox.Reaper](p)
	measurer, measures := sandbox.As[sandbox.Measurer](p)
	if !lists || !reaps || !measures {
		t.Fatalf("a provider that can list, reap and measure: %v, %v, %v", lists, reaps, measures)
	}
	n := 0
	var fault error
	for _, err := range lister.List(t.Context(), "d") {
		if fault = err; err == nil {
			n++
		}
	}
	if n != 2 || !errors.Is(fault, errFault) {
		t.Errorf("%d listed, then %v, want 2 and the fault", n, fault)
	}
	if err := reaper.Reap(t.Context(), sandbox.Ref{Name: "one", Incarnation: "i"}, "tag"); !errors.Is(err, errFault) || boxes.made != 0 {
		t.Errorf("Reap: %v", err)
	}
	if n, err := measurer.Measure(t.Context(), sandbox.Ref{Name: "one", Incarnation: "i"}); !errors.Is(err, errFault) || n != 0 || boxes.made != 0 {
		t.Errorf("Measure: %d, %v", n, err)
	}
	lost, _ := sandbox.As[sandbox.Measurer](sandboxtest.Faulty(boxes, faultOn(sandboxtest.Measure, sandboxtest.Fault{Lose: true})))
	if n, err := lost.Measure(t.Context(), sandbox.Ref{}); err == nil || n != 0 || boxes.made != 1 {
		t.Errorf("an answer that is lost: %d, %v", n, err)
	}
	if n, err := lost.Measure(t.Context(), sandbox.Ref{}); err != nil || n != 7 {
		t.Errorf("the next one: %d, %v", n, err)
	}
}

// The script sees every call, numbered, in order.
func TestFaultyNumbersTheCalls(t *testing.T) {
	var seen []sandboxtest.Call
	p := sandboxtest.Faulty(memory.NewSandboxes(nil), func(c sandboxtest.Call) sandboxtest.Fault {
		seen = append(seen, c)
		return sandboxtest.Fault{}
	})
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.Inspect(t.Context(), m.Ref); err != nil {
			t.Fatal(err)
		}
	}
	want := []sandboxtest.Call{
		{Seq: 1, Nth: 1, Method: sandboxtest.Create, Ref: sandbox.Ref{Name: "one"}},
		{Seq: 2, Nth: 1, Method: sandboxtest.Inspect, Ref: m.Ref},
		{Seq: 3, Nth: 2, Method: sandboxtest.Inspect, Ref: m.Ref},
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("the script was asked about %+v, want %+v", seen, want)
	}
}
