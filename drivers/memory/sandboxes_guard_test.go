package memory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// What Restrict refuses, and what faults make of it.
func TestSandboxesRestrict(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	var asked error
	boxes.Handle("ask", func(_ context.Context, c *memory.Command) int { asked = c.Reach("a.example.com"); return 0 })
	ask := func() error {
		t.Helper()
		if _, err := sandbox.Run(t.Context(), sb, sandbox.Cmd{Argv: []string{"ask"}}, nil, nil); err != nil {
			t.Fatal(err)
		}
		return asked
	}
	if err := ask(); err != nil {
		t.Errorf("of a machine that was never restricted: %v", err)
	}
	for _, c := range []struct {
		fault memory.Fault
		err   error
		holds bool
	}{
		{memory.Fault{Fail: errOutage}, errOutage, false},
		{memory.Fault{Unseen: true}, sandbox.ErrGone, false},
		{memory.Fault{Lose: true}, memory.ErrNoReply, true},
	} {
		boxes.Inject(once(memory.OpRestrict, c.fault))
		token, err := boxes.Restrict(t.Context(), sb.Ref(), nil)
		wantErr(t, "Restrict", err, c.err)
		if refused := (*policy.RefusedError)(nil); token != "" || errors.As(ask(), &refused) != c.holds {
			t.Errorf("after %v: token %q, asked %v", c.err, token, asked)
		}
		boxes = memory.NewSandboxes(nil)
		sb = mustOpen(t, boxes, "x")
		boxes.Handle("ask", func(_ context.Context, c *memory.Command) int { asked = c.Reach("a.example.com"); return 0 })
	}
	modest := memory.NewSandboxes(&memory.SandboxOptions{Caps: &sandbox.Caps{}})
	_, err := modest.Restrict(t.Context(), mustOpen(t, modest, "x").Ref(), nil)
	wantErr(t, "where that is not claimed", err, sandbox.ErrUnsupported)
}

// A machine is given the rules that a list comes to, before anything runs in it.
func ExampleSandboxes_Restrict() {
	ctx := context.Background()
	boxes := memory.NewSandboxes(nil)
	boxes.Handle("fetch", func(_ context.Context, c *memory.Command) int {
		if err := c.Reach(c.Argv[1]); err != nil {
			fmt.Fprintln(c.Stdout, err)
			return 1
		}
		fmt.Fprintln(c.Stdout, "reached")
		return 0
	})
	sb, err := boxes.Open(ctx, "one")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()

	rules, _ := policy.Egress{Mode: policy.AllowList, Allow: []string{"*.example.com"}}.Rules()
	guard, _ := sandbox.As[sandbox.Guard](boxes)
	if _, err := guard.Restrict(ctx, sb.Ref(), rules); err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"api.example.com", "example.org"} {
		sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"fetch", host}}, os.Stdout, nil)
	}
	// Output:
	// reached
	// policy: host_not_allowed: The sandbox may not connect to this host.
}
