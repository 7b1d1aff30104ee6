package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session"
)

// Two hundred callers open a session of one owner who may have fifty, against
// a counter kept by hand: a conditional update of it and an insert. Fifty are
// let in and the others told so, on either side. (Case 61's kind, for sessions.)
func BenchmarkSpawnCrowd(b *testing.B) {
	const most = 50
	db := migrated(b)
	_, dsn := schema(b)
	theirs := pool(b, dsn)
	theirs.SetMaxOpenConns(db.SQL().Stats().MaxOpenConnections)
	theirs.SetMaxIdleConns(db.SQL().Stats().MaxOpenConnections)
	if err := opened(b, dsn, nil).Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, err := theirs.ExecContext(b.Context(), `CREATE TABLE quota (owner text COLLATE "C" PRIMARY KEY, used bigint NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	var crowds atomic.Int64
	compare(b, func() error {
		owner := access.UserID(fmt.Sprint("owner ", crowds.Add(1)))
		return crowd(most, func() error {
			s := &session.Session{ID: session.ID(id.New()), Project: "p", Owner: owner, Name: "room"}
			_, err := db.Sessions().Commit(context.Background(), session.Change{
				Session:      s,
				Conversation: &session.Conversation{ID: session.ConversationID(id.New()), Session: s.ID, Project: "p", Owner: owner, Title: "first"},
				Limits:       []session.Limit{{Kind: session.SessionsPerOwner, Scope: string(owner), Max: most}},
			})
			return err
		})
	}, func() error {
		owner := fmt.Sprint("owner ", crowds.Add(1))
		if _, err := theirs.Exec(`INSERT INTO quota VALUES ($1, 0)`, owner); err != nil {
			return err
		}
		return crowd(most, func() error { return spawnByHand(theirs, owner, most) })
	})
}

// crowd is two hundred callers at once, of whom as many as may are let in.
func crowd(most int, call func() error) error {
	var in atomic.Int64
	var fault atomic.Pointer[error]
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			switch err := call(); {
			case err == nil:
				in.Add(1)
			case !isLimit(err):
				fault.Store(&err)
			}
		})
	}
	all.Wait()
	if err := fault.Load(); err != nil {
		return *err
	}
	if in.Load() != int64(most) {
		return fmt.Errorf("%d were let in, and %d may be", in.Load(), most)
	}
	return nil
}

var errFull = errors.New("full")

func isLimit(err error) bool {
	_, ours := errors.AsType[*session.LimitError](err)
	return ours || errors.Is(err, errFull)
}

func spawnByHand(pool *sql.DB, owner string, most int) error {
	ctx := context.Background()
	sid, cid := id.New(), id.New()
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var at int64
	err = tx.QueryRowContext(ctx, `UPDATE quota SET used = used + 1 WHERE owner = $1 AND used < $2 RETURNING `+now, owner, most).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return errFull
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO bunkroom_sessions (id, version, project, owner, name, created_at, last_active_at)
		VALUES ($1, 1, $2, $3, $4, $5, $5)`, sid, "p", owner, "room", at); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, agent, title, created_at, last_active_at)
		VALUES ($1, $2, $3, $3, $4, '', $5, $6, $6)`, cid, sid, "p", owner, "first", at); err != nil {
		return err
	}
	return tx.Commit()
}
