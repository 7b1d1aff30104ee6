package session_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// In a host the stores are a database's, the provider makes real machines and
// the directory asks the host's own tables.
func ExampleNew() {
	db, people := memory.New(nil), memory.NewDirectory()
	people.SetCode("ann", "", true)
	service, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: people,
		Sandboxes: []sandbox.Provider{memory.NewSandboxes(nil)},
		KeySecret: []byte("at least thirty-two bytes of secret"),
	})
	if err != nil {
		panic(err)
	}
	s, v, err := service.Spawn(context.Background(), access.Actor{User: "ann"}, session.Spawn{Name: "Taxes", Title: "2026"})
	fmt.Println(s.Name, v.Title, v.Session == s.ID, err)
	// Output: Taxes 2026 true <nil>
}

// Two agents of one project work in one session: the second one finds what
// the first one left.
func ExampleRunner_Run() {
	ctx, ann := context.Background(), access.Actor{User: "ann"}
	db, people, boxes := memory.New(nil), memory.NewDirectory(), memory.NewSandboxes(nil)
	people.AddProject("shop", "ann", "free")
	people.SetCode("ann", "shop", true)
	people.AddAgent("shop", "coder", true)
	people.AddAgent("shop", "tester", true)
	for name, program := range memory.Coreutils() {
		boxes.Handle(name, program)
	}
	service, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: people,
		Sandboxes: []sandbox.Provider{boxes}, KeySecret: []byte("at least thirty-two bytes of secret"),
	})
	if err != nil {
		panic(err)
	}
	s, coding, _ := service.Spawn(ctx, ann, session.Spawn{Project: "shop", Agent: "coder"})
	testing, _ := service.AddConversation(ctx, ann, session.AddConversation{Session: s.ID, Agent: "tester"})

	_, err = service.Run(ctx, ann, session.WorkRequest{Conversation: coding.ID, Ensure: true},
		func(ctx context.Context, w *session.Work) error {
			return sandbox.WriteFile(ctx, w.Sandbox().FS(), "todo.txt", []byte("test the checkout\n"), nil)
		})
	fmt.Println(err)
	_, err = service.Run(ctx, ann, session.WorkRequest{Conversation: testing.ID},
		func(ctx context.Context, w *session.Work) error {
			_, err := sandbox.Run(ctx, w.Sandbox(), sandbox.Cmd{Argv: []string{"cat", "todo.txt"}}, os.Stdout, nil)
			return err
		})
	fmt.Println(err)
	// Output:
	// <nil>
	// test the checkout
	// <nil>
}
