package memory_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// branch is code under test: it runs a command in a sandbox.
func branch(ctx context.Context, sb sandbox.Sandbox) error {
	exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"git", "branch", "--show-current"}}, os.Stdout, os.Stderr)
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return fmt.Errorf("git: exit code %d", exit.Code)
	}
	return nil
}

// Code that runs git is tested without git: a function stands for it.
func ExampleNewSandboxes() {
	boxes := memory.NewSandboxes(nil)
	boxes.Handle("git", func(_ context.Context, c *memory.Command) int {
		fmt.Fprintln(c.Stdout, "main, asked by", c.Argv[1:])
		return 0
	})

	ctx := context.Background()
	sb, err := boxes.Open(ctx, "test")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()
	fmt.Println(branch(ctx, sb))
	// Output:
	// main, asked by [branch --show-current]
	// <nil>
}

// A create whose answer is lost: the caller can't tell, and the machine is there.
func ExampleSandboxes_Inject() {
	boxes := memory.NewSandboxes(nil)
	boxes.Inject(func(c memory.Call) memory.Fault {
		return memory.Fault{Lose: c.Op == memory.OpCreate && c.Nth == 1}
	})

	ctx := context.Background()
	for range 2 {
		m, err := boxes.Create(ctx, sandbox.CreateRequest{Name: "bkr-1-g1"})
		fmt.Println(m.Adopted, err)
	}
	fmt.Println("machines:", len(boxes.Machines()))
	// Output:
	// false memory: no reply from the provider: create machine bkr-1-g1
	// true <nil>
	// machines: 1
}

// A few programs come ready made; files are real, and gone with the value.
func ExampleCoreutils() {
	boxes := memory.NewSandboxes(nil)
	for name, h := range memory.Coreutils() {
		boxes.Handle(name, h)
	}

	ctx := context.Background()
	sb, err := boxes.Open(ctx, "test")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()
	err = sandbox.WriteFile(ctx, sb.FS(), "notes/today.md", []byte("water the plants\n"), nil)
	fmt.Println(err)
	for _, argv := range [][]string{{"pwd"}, {"cat", "today.md"}, {"false"}, {"echo", "done"}} {
		exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: argv, Dir: "notes"}, os.Stdout, os.Stdout)
		fmt.Println(exit.Code, err)
	}
	// Output:
	// <nil>
	// /workspace/notes
	// 0 <nil>
	// water the plants
	// 0 <nil>
	// 1 <nil>
	// done
	// 0 <nil>
}
