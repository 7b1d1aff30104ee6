package postgres_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// A fork that waited for a commit to its source has all of it: a label that was
// put on meanwhile as much as what goes with its seq.
func TestForkWaitsForLabels(t *testing.T) {
	db := migrated(t)
	s, ctx := db.Transcripts(), t.Context()
	c := talk(t, s, 2)
	page, err := s.Path(ctx, transcript.PathQuery{Conversation: c})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.SQL().BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	label := transcript.LabelChange{Entry: page.Entries[0].ID, Label: "good"}
	if _, err := db.In(tx).Transcripts().Commit(ctx, transcript.Change{Conversation: c, Labels: []transcript.LabelChange{label}}); err != nil {
		t.Fatal(err)
	}
	forked := make(chan error, 1)
	go func() {
		_, err := s.Fork(ctx, transcript.Fork{To: "while", From: c, ByReference: true})
		forked <- err
	}()
	blocked(t, db)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-forked; err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fork(ctx, transcript.Fork{To: "after", From: c, ByReference: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []access.ConversationID{c, "while", "after"} {
		labelled, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Label: "good"})
		if err != nil || len(labelled.Headers) != 1 {
			t.Errorf("%s has the label on %d entries, %v", c, len(labelled.Headers), err)
		}
	}
}
