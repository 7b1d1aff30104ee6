package transcript_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Somebody says two things while an agent works. The turn takes each up in its time, and ends once there is nothing left.
func ExampleInbox() {
	ctx, db := context.Background(), memory.New(nil)
	store, inbox := db.Transcripts(), db.Inbox()
	if _, err := store.Create(ctx, "talk"); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := store.Commit(ctx, transcript.Change{Conversation: "talk", Fence: 1, Begin: true}); err != nil {
		fmt.Println(err)
		return
	}
	for id, lane := range map[transcript.EntryID]transcript.Lane{"and then?": transcript.LaneFollowUp, "wait!": transcript.LaneSteer} {
		entry := transcript.NewEntry{ID: id, Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart(string(id))}}
		admitted, err := inbox.Admit(ctx, "talk", transcript.NewInput{Entry: entry, Lane: lane}, 100)
		if err != nil || !admitted.InTurn {
			fmt.Println("a turn is to be begun", err)
			return
		}
	}
	for {
		row, err := store.Load(ctx, "talk")
		if err != nil {
			fmt.Println(err)
			return
		}
		waiting, err := inbox.Inputs(ctx, "talk", "", 1000)
		if err != nil {
			fmt.Println(err)
			return
		}
		turn := transcript.Change{Conversation: "talk", Fence: 1}
		for _, in := range transcript.Deliver(waiting, transcript.Boundary{Cutoff: row.LastSeq, Stop: true, Held: row.Held, Fence: 1, Now: time.Now()}) {
			turn.Append = append(turn.Append, in.Entry)
			turn.Promote = append(turn.Promote, in.Entry.ID)
			fmt.Println(in.Lane, in.Entry.ID)
		}
		turn.EndIdle = len(turn.Append) == 0 // else a model is asked
		if _, err := store.Commit(ctx, turn); err != nil {
			fmt.Println(err)
			return
		}
		if turn.EndIdle {
			fmt.Println("nothing left")
			return
		}
	}
	// Output:
	// steer wait!
	// follow_up and then?
	// nothing left
}

// Whoever watches sees what there is, and then what comes.
func ExampleNewHub() {
	ctx, db, hub := context.Background(), memory.New(nil), transcript.NewHub()
	store := transcript.Ringing(db.Transcripts(), hub)
	say := func(id transcript.EntryID) {
		_, err := store.Commit(ctx, transcript.Change{Conversation: "talk", Append: []transcript.NewEntry{{ID: id, Kind: transcript.KindMarker}}})
		if err != nil {
			fmt.Println(err)
		}
	}
	if _, err := store.Create(ctx, "talk"); err != nil {
		fmt.Println(err)
		return
	}
	say("first")
	for event, err := range transcript.Follow(ctx, store, hub, "talk", 0) {
		switch {
		case err != nil:
			fmt.Println(err)
		case event.Synced:
			fmt.Println("that was all")
			say("second")
		case event.Fact != nil:
			fmt.Println(event.Fact.Kind, event.Fact.Entry)
			if event.Fact.Entry == "second" {
				return
			}
		}
	}
	// Output:
	// entry_appended first
	// that was all
	// entry_appended second
}

// A conversation is carried from one database to another.
func ExampleExport() {
	ctx, from, to := context.Background(), memory.New(nil).Transcripts(), memory.New(nil).Transcripts()
	if _, err := from.Create(ctx, "talk"); err != nil {
		fmt.Println(err)
		return
	}
	_, err := from.Commit(ctx, transcript.Change{Conversation: "talk", Append: []transcript.NewEntry{
		{ID: "question", Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("what now?")}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var lines bytes.Buffer
	if err := transcript.Export(ctx, from, "talk", &lines, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)); err != nil {
		fmt.Println(err)
		return
	}
	row, err := transcript.Import(ctx, to, "talk, copied", &lines)
	fmt.Println(row.Head, err)
	_, err = transcript.Import(ctx, to, "another", strings.NewReader("{}\n"))
	fmt.Println(err)
	// Output:
	// after question <nil>
	// transcript: line 1: not a line of an exported transcript: what it is stands on the first line, and nowhere else
}
