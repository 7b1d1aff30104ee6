package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// An editor shows what an agent does to the files, as it happens.
func ExampleWatcher() {
	ctx := context.Background()
	sb, err := memory.NewSandboxes(nil).Open(ctx, "test")
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close()
	w, ok := sandbox.As[sandbox.Watcher](sb)
	if !ok {
		log.Fatal("this sandbox can't tell what changes: look for yourself, now and then")
	}
	changes, err := w.Watch(ctx, ".", &sandbox.WatchOptions{Recursive: true})
	if err != nil {
		log.Fatal(err)
	}

	agent := func() error {
		return errors.Join(
			sandbox.WriteFile(ctx, sb.FS(), "src/main.go", []byte("package main\n"), nil),
			sb.FS().Rename(ctx, "src/main.go", "src/app.go", nil),
			sb.FS().Remove(ctx, "src/app.go", nil),
		)
	}
	if err := agent(); err != nil {
		log.Fatal(err)
	}
	for c, err := range changes {
		if err != nil {
			log.Fatal(err) // such as ErrClosed: the work has ended
		}
		switch c.Kind {
		case sandbox.ChangeOverflow:
			fmt.Println("look at everything again")
		case sandbox.ChangeRenamed:
			fmt.Println(c.Kind, c.From, "to", c.Path)
		default:
			fmt.Println(c.Kind, c.Path)
		}
		if c.Kind == sandbox.ChangeRemoved {
			break // gives the watch up
		}
	}
	// Output:
	// created /workspace/src
	// created /workspace/src/main.go
	// renamed /workspace/src/main.go to /workspace/src/app.go
	// removed /workspace/src/app.go
}
