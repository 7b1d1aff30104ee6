package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// talkWrite is a way to write to what chatting has made.
type talkWrite struct {
	what string
	do   func(ctx context.Context) error
}

// chatting has a conversation of an entry and two inputs, and another that was
// deleted. It returns all kinds of writes to them, each of which can be done once, in their order.
func chatting(t *testing.T, db *sqlite.DB) []talkWrite {
	t.Helper()
	s, box := db.Transcripts(), db.Inbox()
	commit := func(ctx context.Context, c transcript.Change) error {
		_, err := s.Commit(ctx, c)
		return err
	}
	for _, c := range []access.ConversationID{common, "deleted"} {
		if _, err := s.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := commit(t.Context(), transcript.Change{Conversation: c, Append: []transcript.NewEntry{remark(0, 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := commit(t.Context(), transcript.Change{Conversation: "deleted", Status: transcript.Deleted}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if _, err := box.Admit(t.Context(), common, transcript.NewInput{Entry: remark(1, n), Lane: transcript.LaneSteer}, 10); err != nil {
			t.Fatal(err)
		}
	}
	promoted := remark(1, 0)
	return []talkWrite{
		{"append", func(ctx context.Context) error {
			return commit(ctx, transcript.Change{Conversation: common, Append: []transcript.NewEntry{remark(0, 2)}})
		}},
		{"promote", func(ctx context.Context) error {
			return commit(ctx, transcript.Change{Conversation: common, Append: []transcript.NewEntry{promoted}, Promote: []transcript.EntryID{promoted.ID}})
		}},
		{"fork by reference", func(ctx context.Context) error {
			_, err := s.Fork(ctx, transcript.Fork{From: common, To: "fork", ByReference: true})
			return err
		}},
		{"fork", func(ctx context.Context) error {
			_, err := s.Fork(ctx, transcript.Fork{From: common, To: "copy"})
			return err
		}},
		{"admit", func(ctx context.Context) error {
			_, err := box.Admit(ctx, common, transcript.NewInput{Entry: remark(2, 0), Lane: transcript.LaneFollowUp}, 10)
			return err
		}},
		{"change input", func(ctx context.Context) error {
			_, err := box.ChangeInput(ctx, common, remark(1, 1).ID, transcript.InputCommand{Cancel: true})
			return err
		}},
		{"purge", func(ctx context.Context) error {
			_, err := s.Purge(ctx, 100)
			return err
		}},
		{"delete", func(ctx context.Context) error {
			return commit(ctx, transcript.Change{Conversation: common, Status: transcript.Deleted, CancelWaiting: true})
		}},
	}
}

// Who waits for a transaction of a host that has the lock, or behind others who
// do, is answered when its context ends, long before the busy timeout and while the other goes
// on, however the connections begin. Nothing is written; afterwards nothing is locked, and the same can be done.
func TestTalkWaitsEndWithTheContext(t *testing.T) {
	const patient = "_pragma=busy_timeout(600000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)"
	for how, open := range map[string]func(path string) (*sqlite.DB, error){
		"opened": func(path string) (*sqlite.DB, error) {
			return sqlite.Open(t.Context(), path, &sqlite.Options{BusyTimeout: 10 * time.Minute})
		},
		"immediate": func(path string) (*sqlite.DB, error) {
			return sqlite.New(t.Context(), pool(t, "file:"+path+"?"+patient+"&_txlock=immediate"), nil)
		},
		"deferred": func(path string) (*sqlite.DB, error) {
			return sqlite.New(t.Context(), pool(t, "file:"+path+"?"+patient), nil)
		},
		"deferred, with a pool to write on": func(path string) (*sqlite.DB, error) {
			return sqlite.New(t.Context(), pool(t, "file:"+path+"?"+patient), &sqlite.Options{Writer: pool(t, "file:"+path+"?"+patient)})
		},
	} {
		t.Run(how, func(t *testing.T) {
			db, err := open(template.Copy(t, migrated))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			writes := chatting(t, db)
			tx, err := db.SQL().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.Exec("DELETE FROM bunkroom_fences WHERE 0"); err != nil { // takes the lock
				t.Fatal(err)
			}
			before := row(t, tx, db)
			for _, w := range writes {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if err := w.do(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, transcript.ErrUnknown) {
					t.Errorf("%s: got %v, want the context's error", w.what, err)
				}
				cancel()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var all sync.WaitGroup
			for _, w := range writes {
				all.Go(func() {
					if err := w.do(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, transcript.ErrUnknown) {
						t.Errorf("%s, behind others: got %v, want the context's error", w.what, err)
					}
				})
			}
			all.Wait()
			if now := row(t, tx, db); now != before {
				t.Errorf("there is %+v, want %+v", now, before)
			}
			if err := tx.Rollback(); err != nil { // it was there all the while
				t.Fatal(err)
			}
			for _, w := range writes {
				if err := w.do(t.Context()); err != nil {
					t.Errorf("%s, afterwards: %v", w.what, err)
				}
			}
		})
	}
}

// row is the common conversation, as a transaction of the host sees it.
func row(t *testing.T, tx *sql.Tx, db *sqlite.DB) transcript.Transcript {
	t.Helper()
	row, err := db.In(tx).Transcripts().Load(t.Context(), common)
	if err != nil {
		t.Fatal(err)
	}
	return row
}
