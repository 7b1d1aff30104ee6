package transcript_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// A host has its Keeper keep what is to be kept, and the words of what is new: a line for each.
func ExampleNewRetention() {
	db := memory.New(nil)
	service, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: memory.NewDirectory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	retention, err := transcript.NewRetention(transcript.RetentionConfig{
		Store: db.Transcripts(), Inbox: db.Inbox(),
		Facts: 30 * 24 * time.Hour, Archive: 90 * 24 * time.Hour, Delete: 365 * 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	indexing, err := transcript.NewIndexing(transcript.IndexingConfig{Store: db.Transcripts()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // a host serves for as long as it runs
	defer cancel()
	err = service.Serve(ctx, retention.Chore(time.Hour), indexing.Chore(time.Minute))
	fmt.Println("served:", err)

	done, err := retention.Run(context.Background()) // by hand: what there was to do is done
	fmt.Println(done.Done, len(done.Archived), err)
	// Output:
	// served: <nil>
	// true 0 <nil>
}
