package session_test

import (
	"context"
	"errors"
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
		KeySecret: []byte("at least thirty-two bytes of secret"), Deployment: "shop-eu",
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
		Sandboxes: []sandbox.Provider{boxes}, KeySecret: []byte("at least thirty-two bytes of secret"), Deployment: "shop-eu",
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

// An environment outlives the sessions that work in it: what one session has
// set up, the next one finds, after the first has ended.
func ExampleCatalog_CreateEnvironment() {
	ctx, ann := context.Background(), access.Actor{User: "ann"}
	db, people, boxes := memory.New(nil), memory.NewDirectory(), memory.NewSandboxes(nil)
	people.AddProject("shop", "ann", "free")
	people.SetCode("ann", "shop", true)
	people.AddAgent("shop", "coder", true)
	for name, program := range memory.Coreutils() {
		boxes.Handle(name, program)
	}
	service, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: people,
		Sandboxes: []sandbox.Provider{boxes}, KeySecret: []byte("at least thirty-two bytes of secret"), Deployment: "shop-eu",
	})
	if err != nil {
		panic(err)
	}
	bench, err := service.CreateEnvironment(ctx, ann, session.NewEnvironment{Project: "shop", Name: "staging"})
	if err != nil {
		panic(err)
	}
	borrow := session.Spawn{Project: "shop", Agent: "coder", Environment: bench.ID}

	first, setup, _ := service.Spawn(ctx, ann, borrow)
	_, err = service.Run(ctx, ann, session.WorkRequest{Conversation: setup.ID, Ensure: true},
		func(ctx context.Context, w *session.Work) error {
			return sandbox.WriteFile(ctx, w.Sandbox().FS(), "seed.sql", []byte("INSERT INTO carts\n"), nil)
		})
	fmt.Println("set up:", err)
	end, err := service.End(ctx, ann, first.ID)
	fmt.Printf("ended: %v, destroyed: %v, %v\n", end.Ended, end.Destroyed, err)

	second, fix, _ := service.Spawn(ctx, ann, borrow)
	_, err = service.Run(ctx, ann, session.WorkRequest{Conversation: fix.ID},
		func(ctx context.Context, w *session.Work) error {
			_, err := sandbox.Run(ctx, w.Sandbox(), sandbox.Cmd{Argv: []string{"cat", "seed.sql"}}, os.Stdout, nil)
			return err
		})
	fmt.Println("found:", err)

	end, err = service.DeleteEnvironment(ctx, ann, bench.ID)
	fmt.Printf("deleted: %v, destroyed: %v, %v\n", end.Ended, end.Destroyed, err)
	_, err = service.Open(ctx, ann, session.WorkRequest{Session: second.ID, Ensure: true})
	fmt.Println("work in it:", errors.Is(err, session.ErrEnvironmentGone))
	// Output:
	// set up: <nil>
	// ended: true, destroyed: false, <nil>
	// INSERT INTO carts
	// found: <nil>
	// deleted: true, destroyed: true, <nil>
	// work in it: true
}
