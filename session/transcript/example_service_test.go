package transcript_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Two members of a project: one has opened a conversation, and only she says something in it.
func ExampleNewService() {
	ctx, db, dir := context.Background(), memory.New(nil), memory.NewDirectory()
	dir.AddProject("web", "ada", "pro")
	dir.AddMember("web", "bea", access.RoleMember)
	catalog, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	talks, err := transcript.NewService(transcript.ServiceConfig{Store: db.Transcripts(), Inbox: db.Inbox(), Conversations: catalog})
	if err != nil {
		fmt.Println(err)
		return
	}
	ada, bea := access.Actor{User: "ada"}, access.Actor{User: "bea"}
	talk, err := catalog.NewConversation(ctx, ada, session.NewConversation{Project: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := talks.Create(ctx, ada, talk.ID); err != nil {
		fmt.Println(err)
		return
	}
	hello := transcript.NewInput{Lane: transcript.LaneFollowUp, Entry: transcript.NewEntry{
		ID: "first", Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("hello")},
	}}
	admitted, err := talks.Admit(ctx, ada, talk.ID, hello)
	fmt.Println(admitted.Created, admitted.Input.Entry.Actor, err)
	_, err = talks.Admit(ctx, bea, talk.ID, hello)
	fmt.Println(errors.Is(err, session.ErrNotFound))
	_, err = talks.Read(ctx, bea, talk.ID)
	fmt.Println(errors.Is(err, session.ErrNotFound))
	// Output:
	// true ada <nil>
	// true
	// true
}
