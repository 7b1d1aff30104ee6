package sqlstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// A COMMIT whose reply is lost is ErrUnknown, whether it happened or not: the
// next load tells.
func TestLostReplyIsUnknown(t *testing.T) {
	for _, happened := range []bool{true, false} {
		db, spy := spied(t, nil)
		c := spawn("p")
		spy.reset(nil, func(commit func() error) error {
			if happened {
				if err := commit(); err != nil {
					return err
				}
			}
			return driver.ErrBadConn
		})
		_, err := db.Sessions().Commit(t.Context(), c)
		if !errors.Is(err, session.ErrUnknown) || !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("happened %t: got %v, want ErrUnknown with its cause", happened, err)
		}
		spy.reset(nil, nil)
		if _, err := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID}); (err == nil) != happened {
			t.Errorf("happened %t: Load answers %v", happened, err)
		}
	}
}

// full is the error of a database that has no room for more.
func full(t *testing.T) error {
	t.Helper()
	db := migrated(t, nil)
	conn, err := db.SQL().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{"PRAGMA max_page_count = 1", "CREATE TABLE large (b BLOB)", "INSERT INTO large VALUES (zeroblob(1000000))"} {
		if _, err = conn.ExecContext(t.Context(), text); err != nil {
			return err
		}
	}
	t.Fatal("there is room")
	return nil
}

// A COMMIT for which the disk has no room wrote nothing, and the store says so:
// its caller need not look, and goes on once there is room.
func TestFullDiskIsNotUnknown(t *testing.T) {
	db, spy := spied(t, nil)
	c, why := spawn("p"), full(t)
	spy.reset(nil, func(func() error) error { return why })
	_, err := db.Sessions().Commit(t.Context(), c)
	if !errors.Is(err, why) || errors.Is(err, session.ErrUnknown) {
		t.Errorf("got %v, want the error of the disk, and not ErrUnknown", err)
	}
	spy.reset(nil, nil)
}

// A commit whose context ends before, between or in any of its statements is
// written as a whole or not at all, and its answer says which.
func TestContextEndsMidway(t *testing.T) {
	for n := 1; ; n++ {
		db, spy := spied(t, nil)
		old := spawn("p")
		old.Sandbox.State, old.Sandbox.Name = sandbox.Live, "m"
		commit(t, db.Sessions(), old)
		commit(t, db.Sessions(), spawn("p")) // so that every statement is prepared
		c := spawn("p")
		c.Expect = []session.Guard{{Session: old.Session.ID, Version: 1}}
		c.Delete = []session.Address{{Session: old.Session.ID}}
		c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: 5}}

		ended, err := spy.givenUp(t, n, func(ctx context.Context) error {
			_, err := db.Sessions().Commit(ctx, c)
			return err
		})
		_, loaded := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID, Conversation: c.Conversation.ID})
		_, gone := db.Sessions().Load(t.Context(), session.Address{Session: old.Session.ID})
		if written := err == nil; written != (loaded == nil) || written == (gone == nil) || written != (len(outbox(t, db.Sessions())) == 1) {
			t.Errorf("statement %d: Commit answers %v, the new session %v, the old one %v", n, err, loaded, gone)
		}
		if !ended { // there were fewer statements
			if n < 6 || err != nil {
				t.Errorf("%d statements, error %v", n-1, err)
			}
			return
		}
	}
}

// Who waits for the one writer of this process stops waiting when its context
// ends, and writes nothing.
func TestContextEndsWhileWaiting(t *testing.T) {
	db, spy := spied(t, nil)
	commit(t, db.Sessions(), spawn("p"))
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error)
	spy.reset(func(n int) {
		if n == 1 {
			close(held)
			<-free
		}
	}, nil)
	first, second := spawn("p"), spawn("p")
	go func() {
		_, err := db.Sessions().Commit(context.WithoutCancel(t.Context()), first)
		done <- err
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := db.Sessions().Commit(ctx, second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	close(free)
	if err := <-done; err != nil {
		t.Errorf("the one that held the writer: %v", err)
	}
	if _, err := db.Sessions().Load(t.Context(), session.Address{Session: second.Session.ID}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Load: got %v, want ErrNotFound", err)
	}
}

// One kind of due work that can't be read does not keep the others from being yielded. (T-36)
func TestDueIsolatesItsSources(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	c.Sandbox.State = sandbox.Destroying
	c.Bury = []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: "gone", Generation: 1}}}
	commit(t, db.Sessions(), c)
	run(t, db, "DROP TABLE bunkroom_outbox")
	var kinds []session.DueKind
	var failed []session.DueKind
	for d, err := range db.Sessions().Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones | session.DueDestroying, Limit: 5}) {
		if err != nil {
			failed = append(failed, d.Kind)
			continue
		}
		kinds = append(kinds, d.Kind)
	}
	if len(kinds) != 1 || kinds[0] != session.DueDestroying || len(failed) != 1 || failed[0] != session.DueTombstones {
		t.Errorf("yielded %v, failed %v", kinds, failed)
	}
}
