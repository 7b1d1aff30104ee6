package transcript_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// A turn runs a command in its conversation's session. Should its process die, whoever takes the conversation over ends that first.
func ExampleTurn_Sandbox() {
	ctx, ada := context.Background(), access.Actor{User: "ada"}
	db, boxes, people := memory.New(nil), memory.NewSandboxes(nil), memory.NewDirectory()
	people.SetCode("ada", "", true)
	boxes.Handle("echo", memory.Coreutils()["echo"])
	rooms, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: people,
		Sandboxes: []sandbox.Provider{boxes}, Deployment: "turns", KeySecret: []byte("32 bytes or more, kept in a vault"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	turns, err := transcript.NewTurns(transcript.TurnsConfig{
		Store: db.Transcripts(), Inbox: db.Inbox(), Leases: db.Leases(), EndProcesses: rooms.EndTurns,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, talk, err := rooms.Spawn(ctx, ada, session.Spawn{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := db.Transcripts().Create(ctx, talk.ID); err != nil {
		fmt.Println(err)
		return
	}
	turn, err := turns.Begin(ctx, talk.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer turn.Close(ctx, nil)
	work, err := rooms.Open(turn.Context(), ada, session.WorkRequest{Conversation: talk.ID, Turn: turn.Fence(), Ensure: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer work.Close(ctx)
	_, err = sandbox.Run(turn.Context(), turn.Sandbox(work.Sandbox()), sandbox.Cmd{Argv: []string{"echo", "in a turn"}}, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Println(err)
	}
	// Output: in a turn
}
