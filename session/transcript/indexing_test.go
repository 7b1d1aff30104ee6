package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func indexes(t *testing.T, c transcript.IndexingConfig) *transcript.Indexing {
	t.Helper()
	x, err := transcript.NewIndexing(c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A run keeps the words of no more entries than its limit, the next goes on from there, and then nothing is left but what is new;
// of what is imported nothing is kept before it is whole.
func TestIndexing(t *testing.T) {
	k := newKept()
	total := 0
	for i := range 7 {
		c := access.ConversationID(fmt.Sprint("talk ", i))
		k.talks(t, c, 0)
		for n := range i * 3 {
			k.does(t, transcript.Change{Conversation: c, Append: []transcript.NewEntry{say(transcript.KindAssistant, transcript.EntryID(fmt.Sprint("e", n)), "hello")}})
		}
		total += 1 + i*3
	}
	k.does(t, transcript.Change{Conversation: "talk 6", Status: transcript.Archived})
	if _, err := k.Create(t.Context(), "imports"); err != nil {
		t.Fatal(err)
	}
	k.does(t, transcript.Change{Conversation: "imports", Status: transcript.Importing})
	k.does(t, transcript.Change{Conversation: "imports", Append: []transcript.NewEntry{say(transcript.KindUser, "a", "hello")}})
	for _, limit := range []int{5, 0} {
		x, sum := indexes(t, transcript.IndexingConfig{Store: k, Limit: limit}), 0
		for runs := 0; ; runs++ {
			got, err := x.Run(t.Context())
			if err != nil || limit > 0 && got.Entries > limit || runs > 100 {
				t.Fatalf("got %+v, %v", got, err)
			}
			if sum += got.Entries; got.Done {
				break
			}
		}
		if sum != total {
			t.Errorf("of %d entries the words are kept, want %d", sum, total)
		}
		k.does(t, transcript.Change{Conversation: "talk 0", Append: []transcript.NewEntry{say(transcript.KindUser, transcript.EntryID(fmt.Sprint("new", limit)), "more")}})
		total = 1
	}
	if n, err := k.Index(t.Context(), "imports", 10); n != 1 || err != nil {
		t.Errorf("of what is imported %d are left, %v", n, err)
	}
}

// One that it fails with keeps it from no other, and what is gone meanwhile is none of those; it ends with its context.
func TestIndexingFails(t *testing.T) {
	k := newKept()
	for i := range 5 {
		k.talks(t, access.ConversationID(fmt.Sprint("talk ", i)), 0)
	}
	k.meet = func(_ string, c access.ConversationID) error {
		switch c {
		case "talk 1":
			return errNoConnection
		case "talk 2":
			return transcript.ErrNotFound
		}
		return nil
	}
	x := indexes(t, transcript.IndexingConfig{Store: k})
	if got, err := x.Run(t.Context()); !errors.Is(err, errNoConnection) || errors.Is(err, transcript.ErrNotFound) || got.Entries != 3 || !got.Done {
		t.Errorf("got %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.meet = func(string, access.ConversationID) error { cancel(); return nil }
	if got, err := x.Run(ctx); !errors.Is(err, context.Canceled) || got.Done {
		t.Errorf("got %+v, %v", got, err)
	}
	k.meet = func(string, access.ConversationID) error { return nil }
	if got, err := x.Run(t.Context()); err != nil || got.Entries != 2 || !got.Done {
		t.Errorf("got %+v, %v", got, err)
	}
}
