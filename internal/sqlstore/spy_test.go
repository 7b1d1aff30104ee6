package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	moderncsqlite "modernc.org/sqlite"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
)

// spy sees, and can disturb, what a pool sends to its database.
type spy struct {
	mu     sync.Mutex
	sent   []string                        // statements, in order, but for BEGIN and COMMIT
	before func(n int)                     // called before the n-th of them since the last reset, from 1
	commit func(commit func() error) error // in place of a COMMIT
	fail   func(text string) error         // what a statement fails with, if anything; it is not sent then
	writer *sql.DB                         // the pool to write on; nil = there is none
}

func (s *spy) statement(text string) error {
	s.mu.Lock()
	s.sent = append(s.sent, text)
	n, before, fail := len(s.sent), s.before, s.fail
	s.mu.Unlock()
	if before != nil {
		before(n)
	}
	if fail != nil {
		return fail(text)
	}
	return nil
}

// failing sets what fails.
func (s *spy) failing(fail func(text string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// reset forgets what was sent and sets what disturbs.
func (s *spy) reset(before func(n int), commit func(func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.before, s.commit = nil, before, commit
}

// givenUp calls do with a context that ends as its n-th statement begins. It
// reports whether there were so many, and what do has answered: an error of another kind than the context's fails the test.
func (s *spy) givenUp(t *testing.T, n int, do func(ctx context.Context) error) (ended bool, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.reset(func(i int) {
		if i == n {
			ended = true
			cancel()
		}
	}, nil)
	err = do(ctx)
	s.reset(nil, nil)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("given up at statement %d: %v", n, err)
	}
	return ended, err
}

func (s *spy) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.sent...)
}

// spied returns a migrated database with a spy between it and its pool.
func spied(t testing.TB, opts *sqlite.Options) (*sqlite.DB, *spy) {
	t.Helper()
	return spiedOn(t, opts, false)
}

// spiedOn is spied, where there may be a pool to write on, which the spy sees too.
func spiedOn(t testing.TB, opts *sqlite.Options, writer bool) (*sqlite.DB, *spy) {
	t.Helper()
	c, err := moderncsqlite.NewConnector("file:" + filepath.Join(t.TempDir(), "spied.db") +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{}
	pool := sql.OpenDB(spyConnector{c, s})
	t.Cleanup(func() { pool.Close() })
	if writer {
		on := sql.OpenDB(spyConnector{c, s})
		s.writer = on
		t.Cleanup(func() { on.Close() })
		with := sqlite.Options{Writer: on}
		if opts != nil {
			with.Now = opts.Now
		}
		opts = &with
	}
	db, err := sqlite.New(t.Context(), pool, opts)
	if err == nil {
		err = db.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s.reset(nil, nil)
	return db, s
}

type spyConnector struct {
	driver.Connector
	spy *spy
}

func (c spyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return spyConn{conn.(fullConn), c.spy}, nil
}

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type spyConn struct {
	fullConn
	spy *spy
}

func (c spyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	return spyTx{tx, c.spy}, err
}

func (c spyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	st, err := c.fullConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return spyStmt{st.(fullStmt), c.spy, query}, nil
}

func (c spyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.spy.statement(query); err != nil {
		return nil, err
	}
	return c.fullConn.ExecContext(ctx, query, args)
}

func (c spyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.spy.statement(query); err != nil {
		return nil, err
	}
	return c.fullConn.QueryContext(ctx, query, args)
}

type spyTx struct {
	driver.Tx
	spy *spy
}

func (tx spyTx) Commit() error { return tx.spy.committing(tx.Tx.Commit) }

// committing is a COMMIT.
func (s *spy) committing(do func() error) error {
	s.mu.Lock()
	commit := s.commit
	s.mu.Unlock()
	if commit != nil {
		return commit(do)
	}
	return do()
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type spyStmt struct {
	fullStmt
	spy  *spy
	text string
}

func (s spyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	do := func() error {
		r, err = s.fullStmt.ExecContext(ctx, args)
		return err
	}
	switch s.text {
	case "COMMIT":
		err = s.spy.committing(do)
	case "BEGIN IMMEDIATE", "ROLLBACK":
		err = do()
	default:
		if err = s.spy.statement(s.text); err == nil {
			err = do()
		}
	}
	return r, err
}

func (s spyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.spy.statement(s.text); err != nil {
		return nil, err
	}
	return s.fullStmt.QueryContext(ctx, args)
}
