package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// The conversation in which all processes talk, and how much each says.
const (
	common  = access.ConversationID("common")
	talkers = 4
	remarks = 25
)

func remark(by, n int) transcript.NewEntry {
	return transcript.NewEntry{ID: transcript.EntryID(fmt.Sprintf("%d of %d", n, by)), Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("so I say")}}
}

// talkMuch says things in the common conversation and in one of its own, and leaves inputs in both.
func talkMuch(ctx context.Context, db *sqlite.DB, by int) error {
	own := access.ConversationID(fmt.Sprint("own of ", by))
	if _, err := db.Transcripts().Create(ctx, own); err != nil {
		return err
	}
	for n := range remarks {
		for _, c := range []access.ConversationID{common, own} {
			e := remark(by, n)
			if _, err := db.Transcripts().Commit(ctx, transcript.Change{Conversation: c, Append: []transcript.NewEntry{e}}); err != nil {
				return err
			}
			e.ID += " waits"
			if _, err := db.Inbox().Admit(ctx, c, transcript.NewInput{Entry: e, Lane: transcript.LaneFollowUp}, 1000); err != nil {
				return err
			}
		}
	}
	return nil
}

// Several processes talk in one file at the same time: each of them gets through, without an
// error, and nothing of what any of them says is lost. (cases 1, 2)
func TestProcessesTalk(t *testing.T) {
	path, db := shared(t, nil)
	if _, err := db.Transcripts().Create(t.Context(), common); err != nil {
		t.Fatal(err)
	}
	var others []*process
	for by := 1; by < talkers; by++ {
		others = append(others, start(t, "talk", path, strconv.Itoa(by)))
	}
	for _, p := range others {
		p.goOn()
	}
	if err := talkMuch(t.Context(), db, 0); err != nil {
		t.Error(err)
	}
	for _, p := range others {
		p.wait()
	}
	for c, by := range map[access.ConversationID]int{common: talkers, "own of 0": 1, "own of 3": 1} {
		page, err1 := db.Transcripts().Path(t.Context(), transcript.PathQuery{Conversation: c, Limit: transcript.MaxListed})
		inputs, err2 := db.Inbox().Inputs(t.Context(), c, "", transcript.MaxListed)
		faults, err3 := db.Transcripts().Verify(t.Context(), c)
		if err := errors.Join(err1, err2, err3); err != nil || len(faults) > 0 {
			t.Errorf("%s: %q, %v", c, faults, err)
		}
		if len(page.Entries) != by*remarks || len(inputs) != by*remarks {
			t.Errorf("%s has %d entries and %d inputs, want %d of each", c, len(page.Entries), len(inputs), by*remarks)
		}
	}
}

// While another process holds the lock for longer than the busy timeout, a
// write is refused with ErrBusy, which a host may send again, and nothing is written; reads go on. (case 2)
func TestTalkWhileBusy(t *testing.T) {
	path, db := shared(t, &sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	s, ctx := db.Transcripts(), t.Context()
	if _, err := s.Create(ctx, common); err != nil {
		t.Fatal(err)
	}
	writes := map[string]func() error{
		"append": func() error {
			_, err := s.Commit(ctx, transcript.Change{Conversation: common, Append: []transcript.NewEntry{remark(0, 1)}})
			return err
		},
		"ref": func() error {
			_, err := s.Commit(ctx, transcript.Change{Conversation: common, Refs: []transcript.RefChange{{Name: "here", To: transcript.BeforeRoot(), Version: -1}}})
			return err
		},
		"create": func() error { _, err := s.Create(ctx, "new"); return err },
		"fork":   func() error { _, err := s.Fork(ctx, transcript.Fork{From: common, To: "fork"}); return err },
		"purge":  func() error { _, err := s.Purge(ctx, 1); return err },
		"admit": func() error {
			_, err := db.Inbox().Admit(ctx, common, transcript.NewInput{Entry: remark(0, 2), Lane: transcript.LaneSteer}, 10)
			return err
		},
	}
	other := start(t, "lock", path)
	other.goOn()
	if line := other.line(); line != "ready" { // it has the lock
		t.Fatalf("the child said %q", line)
	}
	for what, write := range writes {
		if err := write(); !errors.Is(err, transcript.ErrBusy) {
			t.Errorf("%s: got %v, want ErrBusy", what, err)
		}
	}
	if row, err := s.Load(ctx, common); err != nil || row.LastSeq != 0 {
		t.Errorf("meanwhile there is %+v, %v", row, err)
	}
	other.goOn()
	other.wait()
	for what, write := range writes {
		if err := write(); err != nil {
			t.Errorf("%s, afterwards: %v", what, err)
		}
	}
}
