package postgres_test

import (
	"context"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// stores are those of a database, or of a transaction of its host.
type stores interface {
	Transcripts() transcript.Store
	Inbox() transcript.Inbox
}

// remark is an entry of a person.
func remark(id transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("so I say")}}
}

// chatting makes a conversation of two entries and two inputs, and another that is deleted.
func chatting(t *testing.T, db *postgres.DB, chat access.ConversationID) {
	t.Helper()
	s, ctx, deleted := db.Transcripts(), t.Context(), chat+", deleted"
	for _, c := range []access.ConversationID{chat, deleted} {
		if _, err := s.Create(ctx, c); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(ctx, transcript.Change{Conversation: c, Append: []transcript.NewEntry{remark("first"), remark("second")}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(ctx, transcript.Change{Conversation: deleted, Status: transcript.Deleted}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []transcript.EntryID{"waits", "waits too"} {
		if _, err := db.Inbox().Admit(ctx, chat, transcript.NewInput{Entry: remark(id), Lane: transcript.LaneSteer}, 10); err != nil {
			t.Fatal(err)
		}
	}
}

// talkWrites are all kinds of writes to what chatting has made; each can be done once, after any of the others but "delete".
func talkWrites(chat access.ConversationID) map[string]func(ctx context.Context, on stores) error {
	change := func(ctx context.Context, on stores, c transcript.Change) error {
		c.Conversation = chat
		_, err := on.Transcripts().Commit(ctx, c)
		return err
	}
	return map[string]func(ctx context.Context, on stores) error{
		"append": func(ctx context.Context, on stores) error {
			return change(ctx, on, transcript.Change{Append: []transcript.NewEntry{remark("third")}})
		},
		"append many": func(ctx context.Context, on stores) error {
			return change(ctx, on, transcript.Change{Append: append(sayings(20), transcript.NewEntry{ID: "called", Kind: transcript.KindAssistant, Parts: []transcript.Part{
				{Type: transcript.PartCall, Call: &transcript.Call{ID: "call", Name: "look", Arguments: []byte(`{}`)}},
			}})})
		},
		"promote": func(ctx context.Context, on stores) error {
			return change(ctx, on, transcript.Change{Append: []transcript.NewEntry{remark("waits")}, Promote: []transcript.EntryID{"waits"}})
		},
		"ref": func(ctx context.Context, on stores) error {
			return change(ctx, on, transcript.Change{Refs: []transcript.RefChange{{Name: "here", To: transcript.After("first"), Version: -1}}})
		},
		"fork by reference": func(ctx context.Context, on stores) error {
			_, err := on.Transcripts().Fork(ctx, transcript.Fork{From: chat, To: chat + ", fork", ByReference: true})
			return err
		},
		"fork": func(ctx context.Context, on stores) error {
			_, err := on.Transcripts().Fork(ctx, transcript.Fork{From: chat, To: chat + ", copy", At: transcript.After("first")})
			return err
		},
		"admit": func(ctx context.Context, on stores) error {
			_, err := on.Inbox().Admit(ctx, chat, transcript.NewInput{Entry: remark("comes"), Lane: transcript.LaneFollowUp}, 10)
			return err
		},
		"change input": func(ctx context.Context, on stores) error {
			_, err := on.Inbox().ChangeInput(ctx, chat, "waits too", transcript.InputCommand{Cancel: true})
			return err
		},
		"delete": func(ctx context.Context, on stores) error {
			return change(ctx, on, transcript.Change{Status: transcript.Deleted, CancelWaiting: true})
		},
		"purge": func(ctx context.Context, on stores) error {
			_, err := on.Transcripts().Purge(ctx, 100)
			return err
		},
	}
}

// whole checks that the conversation has so many entries, each with a seq of its own, and that its sums are right.
func whole(t *testing.T, s transcript.Store, c access.ConversationID, entries int) {
	t.Helper()
	page, err := s.Path(t.Context(), transcript.PathQuery{Conversation: c, Limit: transcript.MaxListed})
	if err != nil {
		t.Fatal(err)
	}
	seqs := map[int64]bool{}
	for _, e := range page.Entries {
		seqs[e.Seq] = true
	}
	if faults, err := s.Verify(t.Context(), c); err != nil || len(faults) > 0 || len(page.Entries) != entries || len(seqs) != entries {
		t.Errorf("%s: %d entries with %d seqs, want %d; %q, %v", c, len(page.Entries), len(seqs), entries, faults, err)
	}
}
