package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	moderncsqlite "modernc.org/sqlite"
)

// A call that writes has more places to die at, inside its transaction: after
// each statement that has written, and before the COMMIT. (What is one
// statement has none: it stands once it has run.) They are found by the call's
// context, which comes down to the database's own driver. They are the same
// whether it has a transaction of its own or goes on in another call's.
type inside struct {
	places *places
	call   string // "post 2"
	wrote  int
}

type insideKey struct{}

// write makes a call that writes.
func write[T any](ctx context.Context, p *places, call string, f func(context.Context) (T, error)) (T, error) {
	return get(p, call, func() (T, error) {
		if place, ok := p.last(call); ok {
			ctx = context.WithValue(ctx, insideKey{}, &inside{places: p, call: place})
		}
		return f(ctx)
	})
}

// within is the call that ctx is of; nil = none whose inside matters.
func within(ctx context.Context) *inside {
	in, _ := ctx.Value(insideKey{}).(*inside)
	return in
}

// writes reports whether a statement writes. The one that only takes the lock
// is said by whoever begins the transaction, and writes nothing.
func writes(statement string) bool {
	statement = strings.TrimSpace(statement)
	return !strings.HasSuffix(statement, "WHERE 0") && slices.ContainsFunc([]string{"INSERT", "WITH", "UPDATE", "DELETE"}, func(word string) bool { return strings.HasPrefix(statement, word) })
}

// ran notes that a statement that writes has run. A transaction is one goroutine's.
func (in *inside) ran() {
	in.wrote++
	in.places.at(fmt.Sprintf("%s wrote %d", in.call, in.wrote))
}

func (in *inside) commits() { in.places.at(in.call + " commits") }

// openSQLite is sqlite.Open's pool with the places in between.
func openSQLite(path string) (*sql.DB, error) {
	query := "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)&_txlock=immediate"
	c, err := moderncsqlite.NewConnector((&url.URL{Scheme: "file", Path: path, RawQuery: query}).String())
	if err != nil {
		return nil, err
	}
	return openPool(c, 8), nil
}

// openPostgres is postgres.Open's pool with the places in between.
func openPostgres(dsn string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return openPool(stdlib.GetConnector(*config), 4), nil
}

func openPool(c driver.Connector, connections int) *sql.DB {
	pool := sql.OpenDB(connector{c})
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool
}

type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	under, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := under.(fullConn)
	if !ok {
		return nil, fmt.Errorf("%T can't be watched", under)
	}
	return &conn{fullConn: full}, nil
}

// fullConn is what both drivers' connections are.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

// conn is used by one goroutine at a time.
type conn struct {
	fullConn
	inTx bool
	in   []*inside // the calls that wrote in it
}

// ran notes that a statement has run, if it is one of a transaction and writes.
func (c *conn) ran(ctx context.Context, statement string, err error) {
	in := within(ctx)
	if !c.inTx || in == nil || err != nil || !writes(statement) {
		return
	}
	if !slices.Contains(c.in, in) {
		c.in = append(c.in, in)
	}
	in.ran()
}

func (c *conn) begins() { c.inTx, c.in = true, nil }

func (c *conn) commits() {
	for _, in := range c.in {
		in.commits()
	}
	c.inTx = false
}

// word is before a statement that may be one of those by which a transaction
// begins or ends where there is no driver.Tx.
func (c *conn) word(statement string) {
	switch statement {
	case "BEGIN IMMEDIATE":
		c.begins()
	case "COMMIT":
		c.commits()
	case "ROLLBACK":
		c.inTx = false
	}
}

// CheckNamedValue leaves it to the driver which values it takes.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if own, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return own.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	begun, err := c.fullConn.BeginTx(ctx, opts)
	if err == nil {
		c.begins()
	}
	return tx{begun, c}, err
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	st, err := c.fullConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	full, ok := st.(fullStmt)
	if !ok {
		return nil, fmt.Errorf("%T can't be watched", st)
	}
	return stmt{full, c, query}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.fullConn.ExecContext(ctx, query, args)
	c.ran(ctx, query, err)
	return r, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.fullConn.QueryContext(ctx, query, args)
	c.ran(ctx, query, err)
	return r, err
}

type tx struct {
	driver.Tx
	conn *conn
}

func (t tx) Commit() error {
	t.conn.commits()
	return t.Tx.Commit()
}

func (t tx) Rollback() error {
	t.conn.inTx = false
	return t.Tx.Rollback()
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type stmt struct {
	fullStmt
	conn  *conn
	query string
}

func (s stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.conn.word(s.query)
	r, err := s.fullStmt.ExecContext(ctx, args)
	s.conn.ran(ctx, s.query, err)
	return r, err
}

func (s stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	r, err := s.fullStmt.QueryContext(ctx, args)
	s.conn.ran(ctx, s.query, err)
	return r, err
}
