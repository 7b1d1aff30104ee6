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

// One runner acts on a conversation. It says what waits, and ends once there is nothing left; what came while nobody listened is handed to whoever looks.
func ExampleNewTurns() {
	ctx, db := context.Background(), memory.New(nil)
	store, inbox := db.Transcripts(), db.Inbox()
	turns, err := transcript.NewTurns(transcript.TurnsConfig{Store: store, Inbox: inbox, Leases: db.Leases()})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := store.Create(ctx, "talk"); err != nil {
		fmt.Println(err)
		return
	}
	say := func(id transcript.EntryID, lane transcript.Lane) {
		entry := transcript.NewEntry{ID: id, Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart(string(id))}}
		if _, err := inbox.Admit(ctx, "talk", transcript.NewInput{Entry: entry, Lane: lane}, 100); err != nil {
			fmt.Println(err)
		}
	}
	run := func(ctx context.Context, conversation access.ConversationID) error {
		turn, err := turns.Begin(ctx, conversation)
		if err != nil {
			return err
		}
		defer turn.Close(ctx, nil)
		for {
			waiting, err := turn.Finish(ctx)
			if err != nil || len(waiting) == 0 {
				return err
			}
			if _, err := turn.Promote(turn.Context(), waiting...); err != nil {
				return err
			}
			answer := transcript.NewEntry{ID: "re: " + waiting[0].Entry.ID, Kind: transcript.KindAssistant, Parts: []transcript.Part{transcript.TextPart("done")}}
			if _, err := turn.Commit(turn.Context(), transcript.Change{Append: []transcript.NewEntry{answer}}); err != nil {
				return err
			}
			fmt.Println("answered", waiting[0].Entry.ID)
		}
	}
	say("tidy up", transcript.LaneFollowUp)
	say("quickly", transcript.LaneSteer)
	recovered, err := turns.Recover(ctx, 10, run) // a chore for session.Keeper.Serve: see Turns.Chore
	fmt.Println(recovered.Handed, err)

	turn, err := turns.Begin(ctx, "talk")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = turns.Begin(ctx, "talk")
	fmt.Println("a second runner:", errors.As(err, new(*session.HeldError)))
	say("never mind", transcript.LaneSteer)
	drained, err := turn.Close(ctx, &transcript.CloseOptions{Drain: true}) // somebody presses stop
	for _, in := range drained {
		fmt.Println("given back:", in.Entry.ID, err)
	}
	_, err = turn.Commit(ctx, transcript.Change{Append: []transcript.NewEntry{{ID: "late", Kind: transcript.KindMarker}}})
	fmt.Println("late:", errors.Is(err, transcript.ErrFenced))
	// Output:
	// answered quickly
	// answered tidy up
	// [talk] <nil>
	// a second runner: true
	// given back: never mind <nil>
	// late: true
}
