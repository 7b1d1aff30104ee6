package bunkroom_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// The smallest program, as the README has it.
func Example() {
	ctx, ada := context.Background(), access.Actor{User: "ada"}
	db, boxes, people := memory.New(nil), memory.NewSandboxes(nil), memory.NewDirectory()
	people.SetCode("ada", "", true)
	boxes.Handle("echo", memory.Coreutils()["echo"])
	rooms, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: people,
		Sandboxes: []sandbox.Provider{boxes}, Deployment: "first steps", KeySecret: []byte("32 bytes or more, kept in a vault")})
	if err != nil {
		panic(err)
	}
	room, talk, _ := rooms.Spawn(ctx, ada, session.Spawn{Name: "first"})
	_, err = rooms.Run(ctx, ada, session.WorkRequest{Conversation: talk.ID, Ensure: true}, func(ctx context.Context, w *session.Work) error {
		_, err := sandbox.Run(ctx, w.Sandbox(), sandbox.Cmd{Argv: []string{"echo", "hello"}}, os.Stdout, os.Stderr)
		return err
	})
	end, _ := rooms.End(ctx, ada, room.ID)
	fmt.Println("machine proven gone:", end.Destroyed, err)
	// Output:
	// hello
	// machine proven gone: true <nil>
}
