package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// In a host's transaction that goes on seeing what was there when it began,
// nothing is written to a transcript, whatever it is and whatever others have written since: what would be
// decided on is not what there is. It says so, and goes on; what is read there is as it was.
// In any other each write rests on what others have committed by then, and loses nothing of it.
func TestTalkInHostsTransactionOfAnyIsolation(t *testing.T) {
	for level, fresh := range map[sql.IsolationLevel]bool{
		sql.LevelDefault: true, sql.LevelReadCommitted: true, sql.LevelRepeatableRead: false, sql.LevelSerializable: false,
	} {
		db := migrated(t)
		for what := range talkWrites("") {
			for _, meanwhile := range []bool{false, true} {
				chat := access.ConversationID(fmt.Sprintf("%v, %s, others write=%t", level, what, meanwhile))
				t.Run(string(chat), func(t *testing.T) {
					chatting(t, db, chat)
					write := talkWrites(chat)[what]
					s, ctx, entries := db.Transcripts(), t.Context(), 2
					tx, err := db.SQL().BeginTx(ctx, &sql.TxOptions{Isolation: level})
					if err != nil {
						t.Fatal(err)
					}
					defer tx.Rollback()
					in := db.In(tx)
					if row, err := in.Transcripts().Load(ctx, chat); err != nil || row.Entries != 2 { // it has seen something
						t.Fatalf("got %+v, %v", row, err)
					}
					if meanwhile {
						if _, err := s.Commit(ctx, transcript.Change{Conversation: chat, Append: []transcript.NewEntry{remark("meanwhile")}}); err != nil {
							t.Fatal(err)
						}
						entries++
					}
					before, err := s.Load(ctx, chat)
					if err != nil {
						t.Fatal(err)
					}
					err = write(ctx, in)
					if refused, ok := errors.AsType[*access.FieldError](err); ok == fresh || (err == nil) != fresh || ok && refused.Field != "tx" {
						t.Errorf("got %v", err)
					}
					// Its reads go on, and what it has seen stays so where it must.
					row, err := in.Transcripts().Load(ctx, chat)
					if !fresh && (err != nil || row.Entries != 2) {
						t.Errorf("read afterwards: %+v, %v", row, err)
					}
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					if !fresh {
						if after, err := s.Load(ctx, chat); err != nil || after != before {
							t.Errorf("there is %+v, %v; want %+v", after, err, before)
						}
						if err := write(ctx, db); err != nil { // what the host does next
							t.Errorf("in no transaction: %v", err)
						}
					}
					switch what {
					case "append", "promote":
						entries++
					case "append many":
						entries += 21
					case "fork by reference":
						whole(t, s, chat+", fork", entries)
					case "fork":
						whole(t, s, chat+", copy", 1)
					case "delete":
						return
					}
					whole(t, s, chat, entries)
				})
			}
		}
	}
}

// Where transactions go on seeing what was there when they began unless they
// ask for something else, appends and forks do: of all who write at once none is refused for another.
func TestTalkWhateverTheDefaultIsolation(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			_, dsn := schema(t)
			db := opened(t, dsn+" default_transaction_isolation='"+level+"'", nil)
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			const chat, each = "chat", 5
			chatting(t, db, chat)
			s, ctx := db.Transcripts(), t.Context()
			errs := atOnce(8, func(i int) (err error) {
				for n := range each {
					_, appended := s.Commit(ctx, transcript.Change{Conversation: chat, Append: []transcript.NewEntry{remark(transcript.EntryID(fmt.Sprintf("%d of %d", n, i)))}})
					_, forked := s.Fork(ctx, transcript.Fork{From: chat, To: access.ConversationID(fmt.Sprintf("%d by %d", n, i)), ByReference: true})
					err = errors.Join(err, appended, forked)
				}
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			whole(t, s, chat, 2+8*each)
		})
	}
}

// A write in a host's transaction waits for another that has the conversation, and rests on what that one has written.
func TestTalkInHostsTransactionWaits(t *testing.T) {
	db := migrated(t)
	for what, entries := range map[string]int{"append": 4, "append many": 24, "promote": 4, "admit": 3, "change input": 3} {
		t.Run(what, func(t *testing.T) {
			chat := access.ConversationID(what)
			chatting(t, db, chat)
			ctx := t.Context()
			var txs [2]*sql.Tx
			for i := range txs {
				tx, err := db.SQL().BeginTx(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				txs[i] = tx
			}
			if _, err := db.In(txs[0]).Transcripts().Commit(ctx, transcript.Change{Conversation: chat, Refs: []transcript.RefChange{{Name: "first", To: transcript.After("first"), Version: -1}},
				Append: []transcript.NewEntry{remark("of the first")}}); err != nil {
				t.Fatal(err)
			}
			answer := make(chan error, 1)
			go func() { answer <- talkWrites(chat)[what](ctx, db.In(txs[1])) }()
			blocked(t, db)
			if err := txs[0].Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; err != nil {
				t.Fatal(err)
			}
			if err := txs[1].Commit(); err != nil {
				t.Fatal(err)
			}
			whole(t, db.Transcripts(), chat, entries)
		})
	}
}
