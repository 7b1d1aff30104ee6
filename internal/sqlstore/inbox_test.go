package sqlstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const talk = access.ConversationID("talk")

func spoken(id transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart(string(id))}}
}

func admits(t *testing.T, db *sqlite.DB, ids ...transcript.EntryID) {
	t.Helper()
	if _, err := db.Transcripts().Create(t.Context(), talk); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := db.Inbox().Admit(t.Context(), talk, transcript.NewInput{Entry: spoken(id), Lane: transcript.LaneSteer}, 100); err != nil {
			t.Fatal(err)
		}
	}
}

// waiting are the ids of what waits, in order.
func waiting(t *testing.T, db *sqlite.DB) (ids []transcript.EntryID) {
	t.Helper()
	all, err := db.Inbox().Inputs(t.Context(), talk, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range all {
		ids = append(ids, in.Entry.ID)
	}
	return ids
}

// promoted reports whether an input and its entry are in the tree, which both or neither have to be.
func promoted(t *testing.T, db *sqlite.DB, what string) bool {
	t.Helper()
	entries, err := db.Transcripts().Get(t.Context(), talk, "a")
	if err != nil {
		t.Fatal(err)
	}
	left := waiting(t, db)
	faults, err := db.Transcripts().Verify(t.Context(), talk)
	if err != nil || len(faults) > 0 {
		t.Errorf("%s: %q, %v", what, faults, err)
	}
	there, waits := len(entries) == 1, len(left) == 1 && left[0] == "a"
	if there == waits {
		t.Errorf("%s: the entry is there: %t, the input waits: %t", what, there, waits)
	}
	return there
}

// An input is an entry, or it waits, wherever in its promotion all ends. (rule 3)
func TestPromotionIsOneCommit(t *testing.T) {
	promote := transcript.Change{Conversation: talk, Append: []transcript.NewEntry{spoken("a")}, Promote: []transcript.EntryID{"a"}}
	for n := 1; ; n++ {
		db, spy := spied(t, nil)
		admits(t, db, "a")
		ended, err := spy.givenUp(t, n, func(ctx context.Context) error {
			_, err := db.Transcripts().Commit(ctx, promote)
			return err
		})
		if promoted(t, db, fmt.Sprint("statement ", n)) != (err == nil) {
			t.Errorf("statement %d: Commit answers %v", n, err)
		}
		if !ended { // there were fewer statements
			if n < 6 || err != nil {
				t.Errorf("%d statements, error %v", n-1, err)
			}
			break
		}
	}
	for _, happened := range []bool{true, false} {
		db, spy := spied(t, nil)
		admits(t, db, "a")
		spy.reset(nil, func(commit func() error) error {
			if happened {
				if err := commit(); err != nil {
					return err
				}
			}
			return driver.ErrBadConn
		})
		if _, err := db.Transcripts().Commit(t.Context(), promote); !errors.Is(err, transcript.ErrUnknown) {
			t.Errorf("happened %t: got %v, want ErrUnknown", happened, err)
		}
		spy.reset(nil, nil)
		if promoted(t, db, fmt.Sprint("happened ", happened)) != happened {
			t.Errorf("happened %t: it is not so", happened)
		}
		if done, err := db.Transcripts().Commit(t.Context(), promote); err != nil || done.Retried != happened || !promoted(t, db, "once more") {
			t.Errorf("happened %t: once more: %+v, %v", happened, done, err)
		}
	}
}

// What waits, and in which order, is there after a restart. (case 31)
func TestOrderSurvivesARestart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bunkroom.db")
	open := func() *sqlite.DB {
		db, err := sqlite.Open(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	admits(t, db, "a", "b", "c", "d")
	if _, err := db.Inbox().ChangeInput(t.Context(), talk, "d", transcript.InputCommand{Move: &transcript.Move{Before: "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	defer db.Close()
	if got := fmt.Sprint(waiting(t, db)); got != "[a d b c]" {
		t.Errorf("there wait %s", got)
	}
	if all, err := db.Inbox().Waiting(t.Context(), "", 9); err != nil || len(all) != 1 || all[0] != talk {
		t.Errorf("there waits something in %v, %v", all, err)
	}
}

// An append that promotes nothing looks at no input, however many wait.
func TestAppendLooksAtNoInput(t *testing.T) {
	db, spy := spied(t, nil)
	admits(t, db, "a", "b")
	change(t, db.Transcripts(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{spoken("first")}})
	spy.reset(nil, nil)
	if _, err := db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{spoken("x")}}); err != nil {
		t.Fatal(err)
	}
	if sent := spy.seen(); len(sent) != 3 {
		t.Errorf("an append is %d statements and not the lock and two more: %q", len(sent), sent)
	}
}

// What is asked of an inbox is found by its indexes, however much was delivered before.
func TestInboxPlans(t *testing.T) {
	db, spy := spied(t, nil)
	admits(t, db, "a", "b", "c")
	late(t, db, "too late", "too late too")
	box, ctx := db.Inbox(), t.Context()
	const (
		waiting = "bunkroom_transcript_inputs_waiting (tree=?"
		byID    = "sqlite_autoindex_bunkroom_transcript_inputs_1 (tree=? AND id=?)"
	)
	for _, c := range []struct {
		what    string
		do      func() error
		indexes []string
	}{
		{"what waits", func() error { _, err := box.Inputs(ctx, talk, "a", 10); return err }, []string{byID, waiting}},
		{"what is done", func() error { _, err := box.Inputs(ctx, talk, "", 10, transcript.InputPromoted); return err },
			[]string{"bunkroom_transcript_inputs_place (tree=?"}},
		{"who waits", func() error { _, err := box.Waiting(ctx, "", 10); return err }, []string{"bunkroom_transcripts_waits (conversation>?)", waiting}},
		{"an admission", func() error {
			_, err := box.Admit(ctx, talk, transcript.NewInput{Entry: spoken("d"), Lane: transcript.LaneSteer}, 100)
			return err
		}, []string{byID}},
		{"one input", func() error { _, err := box.Input(ctx, talk, "a"); return err }, []string{byID}},
		{"an admission where no more may wait", func() error {
			_, err := box.Admit(ctx, talk, transcript.NewInput{Entry: spoken("e"), Lane: transcript.LaneSteer}, 5)
			return err
		}, []string{byID, waiting}},
		{"what is too late", func() error { _, err := box.Expire(ctx, talk, 10); return err }, []string{waiting}},
		{"where something is too late", func() error { _, err := box.Expired(ctx, "", 10); return err }, []string{"bunkroom_transcripts_waits (conversation>?)", waiting}},
		{"a move", func() error {
			_, err := box.ChangeInput(ctx, talk, "d", transcript.InputCommand{Move: &transcript.Move{Before: "a"}})
			return err
		}, []string{byID, waiting}},
		{"a promotion", func() error {
			_, err := db.Transcripts().Commit(ctx, transcript.Change{Conversation: talk, Append: []transcript.NewEntry{spoken("a")}, Promote: []transcript.EntryID{"a"}})
			return err
		}, []string{byID}},
		{"an end", func() error {
			_, err := db.Transcripts().Commit(ctx, transcript.Change{Conversation: talk, Fence: 1, Begin: true, End: true})
			return err
		}, []string{waiting}},
		{"an archive", func() error {
			if _, err := db.Transcripts().Commit(ctx, transcript.Change{Conversation: talk, Status: transcript.Archived, CancelWaiting: true}); err != nil {
				return err
			}
			_, err := db.Transcripts().Commit(ctx, transcript.Change{Conversation: talk, Status: transcript.Active})
			return err
		}, []string{waiting, byID}},
	} {
		spy.reset(nil, nil)
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		lines := plan(t, db, spy.seen())
		all := strings.Join(lines, "\n")
		for _, line := range lines {
			found := line == "SCAN c" || strings.Contains(line, "CONSTANT ROW") || strings.Contains(line, "ROW VALUES") || strings.Contains(line, "VIRTUAL TABLE")
			if strings.HasPrefix(line, "SCAN ") && !found || strings.Contains(line, "TEMP B-TREE") {
				t.Errorf("%s: %s:\n%s", c.what, line, all)
			}
		}
		for _, index := range c.indexes {
			if !strings.Contains(all, index) {
				t.Errorf("%s: want %s:\n%s", c.what, index, all)
			}
		}
	}
}
