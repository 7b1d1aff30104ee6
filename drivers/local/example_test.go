//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

func ExampleNew() {
	root, err := os.MkdirTemp("", "sandboxes")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	provider, err := local.New(local.Config{Root: root})
	if cannot := (*local.ConfinementError)(nil); errors.As(err, &cannot) {
		// Not on this host. The code below is our own, so that it may run as it is.
		provider, err = local.New(local.Config{Root: root, Unconfined: true})
	}
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()

	ctx := context.Background()
	machine, err := provider.Create(ctx, sandbox.CreateRequest{Name: "bench-g1"})
	if err != nil {
		log.Fatal(err)
	}
	sb, err := provider.Attach(ctx, machine.Ref)
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close()

	if err := sandbox.WriteFile(ctx, sb.FS(), "notes/todo.txt", []byte("b\na\nc\n"), nil); err != nil {
		log.Fatal(err)
	}
	exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"sort", "notes/todo.txt"}}, os.Stdout, os.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(exit.Reason, exit.Code)
	// Output:
	// a
	// b
	// c
	// exited 0
}
