package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// keeping begins a transaction that keeps all conversations to itself.
func keeping(t *testing.T, db *postgres.DB) *sql.Tx {
	t.Helper()
	tx, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec("SELECT 1 FROM bunkroom_transcripts FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return tx
}

// until waits until a condition holds in the database.
func until(t *testing.T, db *postgres.DB, condition string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for count(t, db, "SELECT CAST("+condition+" AS integer)") == 0 {
		<-tick.C // the test's own limit of time is the one that counts
	}
}

// Who waits for a transaction of a host that keeps a conversation to itself is answered
// when its context ends, whatever it writes, while the other goes on. Nothing is written, and it is
// known that nothing is; afterwards nobody waits, nothing is locked, and the same can be done.
func TestTalkWaitsEndWithTheContext(t *testing.T) {
	dbs := replicas(t)
	for what := range talkWrites("") {
		for _, when := range []string{"at once", "for long"} {
			chat := access.ConversationID(what + ", waited " + when)
			t.Run(string(chat), func(t *testing.T) {
				chatting(t, dbs[0], chat)
				write := talkWrites(chat)[what]
				before, err := dbs[0].Transcripts().Load(t.Context(), chat)
				if err != nil {
					t.Fatal(err)
				}
				tx := keeping(t, dbs[0])
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answer := make(chan error, 1)
				go func() { answer <- write(ctx, dbs[1]) }()
				waits := "l.granted"
				if when == "for long" { // not in a statement that is all there is
					waits += " OR a.query LIKE 'WITH%'"
				}
				until(t, dbs[0], "EXISTS (SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid WHERE NOT ("+waits+"))")
				cancel()
				if err := <-answer; !errors.Is(err, context.Canceled) || errors.Is(err, transcript.ErrUnknown) {
					t.Errorf("got %v, want the context's error", err)
				}
				until(t, dbs[0], "NOT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
				if err := tx.Rollback(); err != nil { // it was there all the while
					t.Fatal(err)
				}
				if after, err := dbs[0].Transcripts().Load(t.Context(), chat); err != nil || after != before {
					t.Errorf("there is %+v, %v; want %+v", after, err, before)
				}
				run(t, dbs[0], "SELECT 1 FROM bunkroom_transcripts FOR UPDATE NOWAIT")
				if err := write(t.Context(), dbs[1]); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
}

// Who waits for a connection of the pool is answered when its context ends, and
// knows that nothing was written, for nothing was sent.
func TestTalkWaitsForAConnectionEndWithTheContext(t *testing.T) {
	db := migrated(t)
	db.SQL().SetMaxOpenConns(1)
	for what := range talkWrites("") {
		chat := access.ConversationID(what)
		t.Run(what, func(t *testing.T) {
			chatting(t, db, chat)
			write := talkWrites(chat)[what]
			before, err := db.Transcripts().Load(t.Context(), chat)
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.SQL().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			waited := db.SQL().Stats().WaitCount
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := make(chan error, 1)
			go func() { answer <- write(ctx, db) }()
			for db.SQL().Stats().WaitCount == waited {
				runtime.Gosched()
			}
			cancel()
			if err := <-answer; !errors.Is(err, context.Canceled) || errors.Is(err, transcript.ErrUnknown) {
				t.Errorf("got %v, want the context's error", err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if after, err := db.Transcripts().Load(t.Context(), chat); err != nil || after != before {
				t.Errorf("there is %+v, %v; want %+v", after, err, before)
			}
			if err := write(t.Context(), db); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// However many of a process append to a conversation that somebody keeps to himself, one connection
// waits for it, and the rest of the pool is for others. All of them are answered when their context ends.
func TestTalkCrowdWaitsOnOneConnection(t *testing.T) {
	dbs := replicas(t)
	chatting(t, dbs[0], "chat")
	chatting(t, dbs[0], "other")
	tx, err := dbs[0].SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := dbs[0].In(tx).Transcripts().Commit(t.Context(), transcript.Change{Conversation: "chat", Append: []transcript.NewEntry{remark("kept")}}); err != nil {
		t.Fatal(err)
	}
	dbs[1].SQL().SetMaxOpenConns(2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const crowd = 8
	answers := make(chan error, crowd)
	for range crowd {
		go func() { answers <- talkWrites("chat")["append"](ctx, dbs[1]) }()
	}
	until(t, dbs[0], "EXISTS (SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid WHERE NOT l.granted AND a.query LIKE '%FOR UPDATE%')")
	for n := range 20 {
		if _, err := dbs[1].Transcripts().Commit(t.Context(), transcript.Change{Conversation: "other", Labels: []transcript.LabelChange{{Entry: "first", Label: fmt.Sprint(n)}}}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	for range crowd {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := talkWrites("chat")["append"](t.Context(), dbs[1]); err != nil {
		t.Error(err)
	}
	whole(t, dbs[0].Transcripts(), "chat", 4)
}

// What a statement that is all there is waits for longer than a moment is done all the same, once it can be.
func TestTalkWaitsForLong(t *testing.T) {
	dbs := replicas(t)
	for _, what := range []string{"append", "append many", "fork by reference"} {
		chat := access.ConversationID(what)
		t.Run(what, func(t *testing.T) {
			chatting(t, dbs[0], chat)
			tx := keeping(t, dbs[0])
			answer := make(chan error, 1)
			go func() { answer <- talkWrites(chat)[what](t.Context(), dbs[1]) }()
			until(t, dbs[0], "EXISTS (SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid WHERE NOT l.granted AND a.query LIKE '%FOR %')")
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; err != nil {
				t.Error(err)
			}
			whole(t, dbs[0].Transcripts(), chat, map[string]int{"append": 3, "append many": 23, "fork by reference": 2}[what])
		})
	}
	// That it waits for a moment only is for itself: whoever has the connection next waits as he would.
	dbs[1].SQL().SetMaxOpenConns(1)
	if err := talkWrites("append")["ref"](t.Context(), dbs[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := dbs[1].Transcripts().Commit(t.Context(), transcript.Change{Conversation: "append", Append: []transcript.NewEntry{remark("again")}}); err != nil {
		t.Fatal(err)
	}
	var timeout string
	if err := dbs[1].SQL().QueryRow("SHOW lock_timeout").Scan(&timeout); err != nil || timeout != "0" {
		t.Errorf("a lock is waited for %s, %v", timeout, err)
	}
}

// Goroutines that share a transaction of a host take turns, and none waits for its turn once its context has ended.
func TestTurnsInHostsTransactionEndWithTheContext(t *testing.T) {
	db := migrated(t)
	chatting(t, db, "chat")
	kept := keeping(t, db)
	tx, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	in, writes := db.In(tx), talkWrites("chat")
	answer := make(chan error, 1)
	go func() { answer <- writes["append"](t.Context(), in) }()
	blocked(t, db)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := writes["admit"](ctx, in); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("to write: got %v, want the context's error", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := in.Transcripts().Load(ctx, "chat"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("to read: got %v, want the context's error", err)
	}
	if err := kept.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := errors.Join(writes["admit"](t.Context(), in), tx.Commit()); err != nil {
		t.Error(err)
	}
	whole(t, db.Transcripts(), "chat", 3)
}

// Where the reply to a statement that is all there is gets lost, nobody knows what
// became of it, and says so. Who says the same again finds it done, once.
func TestTalkLostReplyIsUnknown(t *testing.T) {
	_, dsn := schema(t)
	direct := opened(t, dsn, nil)
	if err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	chatting(t, direct, "chat")
	chatting(t, direct, "before")
	p, leading := through(t, dsn)
	for _, what := range []string{"append", "fork by reference"} {
		db := opened(t, leading, &postgres.Options{Connections: 1})
		if err := talkWrites("before")[what](t.Context(), db); err != nil { // so that it is prepared
			t.Fatal(err)
		}
		p.sent.Store(false)
		p.lost.Store(true)
		if err := talkWrites("chat")[what](t.Context(), db); !errors.Is(err, transcript.ErrUnknown) || !p.sent.Load() {
			t.Errorf("%s: got %v, delivered %t, want ErrUnknown", what, err, p.sent.Load())
		}
		p.lost.Store(false)
		if err := talkWrites("chat")[what](t.Context(), db); err != nil {
			t.Errorf("%s, again: %v", what, err)
		}
		if what == "append" {
			whole(t, direct.Transcripts(), "chat", 3)
		} else if row, err := direct.Transcripts().Load(t.Context(), "chat, fork"); err != nil || row.Version != 1 {
			t.Errorf("the fork is %+v, %v", row, err)
		}
	}
}
