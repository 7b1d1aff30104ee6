package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// line is the one connection on which a process writes, with what is prepared
// on it. As nobody else has it, what it has read stays true while nobody else writes,
// and a transaction on it is three words instead of what database/sql makes of one.
// It is used by who has the turn of the [writer].
type line struct {
	pool  *sql.DB // of this one connection
	conn  *sql.Conn
	stmts map[*statement]*sql.Stmt
	gone  bool // closed: who waited for the turn all the while must not connect again

	open, commit, rollback *sql.Stmt
}

// begin begins a transaction, which holds the lock of the database.
func (l *line) begin(ctx context.Context) error {
	if l.gone {
		return sql.ErrConnDone
	}
	if l.conn == nil {
		if err := l.connect(ctx); err != nil {
			return err
		}
	}
	return l.say(ctx, l.open) // where that fails it may have begun all the same
}

// Commit commits it. Where that fails it is rolled back.
func (l *line) Commit() error { return l.say(context.Background(), l.commit) }

// Rollback rolls it back, unless it has ended.
func (l *line) Rollback() error {
	if l.conn == nil {
		return sql.ErrTxDone
	}
	return l.say(context.Background(), l.rollback)
}

// say runs one of the three words. Where that fails nobody knows in what state the connection is.
func (l *line) say(ctx context.Context, word *sql.Stmt) error {
	_, err := word.ExecContext(ctx)
	if err != nil {
		l.hangUp()
	}
	return err
}

func (l *line) connect(ctx context.Context) (err error) {
	if l.conn, err = l.pool.Conn(ctx); err != nil {
		return err
	}
	l.stmts = map[*statement]*sql.Stmt{}
	for _, st := range []struct {
		text string
		to   **sql.Stmt
	}{{"BEGIN IMMEDIATE", &l.open}, {"COMMIT", &l.commit}, {"ROLLBACK", &l.rollback}} {
		if *st.to, err = l.conn.PrepareContext(ctx, st.text); err != nil {
			l.hangUp()
			return err
		}
	}
	return nil
}

// close gives the connection up for good.
func (l *line) close() {
	l.gone = true
	l.hangUp()
}

// hangUp gives the connection up, and first what has begun on it: a connection
// keeps its locks until the last of its statements is closed.
func (l *line) hangUp() {
	if l.conn == nil {
		return
	}
	if l.rollback != nil {
		_, _ = l.rollback.ExecContext(context.Background())
	}
	for _, st := range l.stmts {
		_ = st.Close()
	}
	for _, word := range []**sql.Stmt{&l.open, &l.commit, &l.rollback} {
		if *word != nil {
			_ = (*word).Close()
		}
		*word = nil
	}
	_ = l.conn.Raw(func(any) error { return driver.ErrBadConn }) // out of the pool with it
	_ = l.conn.Close()
	l.conn, l.stmts = nil, nil
}

// prepared is st prepared, or nil where that fails.
func (l *line) prepared(ctx context.Context, st *statement) *sql.Stmt {
	if p := l.stmts[st]; p != nil {
		return p
	}
	p, err := l.conn.PrepareContext(ctx, st.text)
	if err != nil {
		return nil
	}
	l.stmts[st] = p
	return p
}
