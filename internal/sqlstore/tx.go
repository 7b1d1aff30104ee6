package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/bunkroom/bunkroom/session"
)

// read calls do with where to read. What it reads in one statement it sees at one instant.
func (v view) read(ctx context.Context, do func(ctx context.Context, on place) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if v.host != nil {
		give, err := v.take(ctx)
		if err != nil {
			return err
		}
		defer give()
	}
	return v.store.fault(do(ctx, place{view: v, tx: v.host}))
}

// write calls do with where to write, and with the clock, once it holds the
// keys. What do writes is committed if it returns nil, else there will be no trace of it.
func (v view) write(ctx context.Context, keys keys, do func(ctx context.Context, on place, clock time.Time) error) error {
	return v.within(ctx, func(ctx context.Context, on place) error {
		clock, err := on.lock(ctx, keys)
		if err != nil {
			return err
		}
		return do(ctx, on, clock)
	})
}

// within is write where do locks and reads the clock by itself.
func (v view) within(ctx context.Context, do func(ctx context.Context, on place) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if v.host != nil {
		return v.store.fault(v.nested(ctx, do))
	}
	return v.store.fault(v.transact(ctx, do))
}

// commitWait is how long the reply to a COMMIT is waited for where many write
// at once. Then nobody knows what became of it.
const commitWait = 30 * time.Second

// transact is a transaction of our own. It ends with ctx until it is about to
// be committed; to break a COMMIT off would leave nobody knowing whether it
// happened.
func (v view) transact(ctx context.Context, do func(context.Context, place) error) error {
	s := v.store
	if s.writer != nil {
		return v.share(ctx, do)
	}
	whole := context.WithoutCancel(ctx)
	waiting, cancel := context.WithCancel(whole)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	tx, err := s.db.BeginTx(waiting, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if !stop() {
		if err == nil {
			_ = tx.Rollback() // it holds nothing
		}
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once it is committed

	var fresh []*statement
	if err := do(ctx, place{view: v, tx: tx, fresh: &fresh}); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer time.AfterFunc(commitWait, cancel).Stop()
	if err := tx.Commit(); err != nil {
		if s.dialect.RolledBack(err) {
			return err
		}
		return fmt.Errorf("%w: %w", session.ErrUnknown, err)
	}
	// Only now, with the connection given back: a pool of one has no other to prepare on.
	for _, st := range fresh {
		st.prepare(whole, s.db)
	}
	return nil
}

// nested is a savepoint in the host's transaction.
func (v view) nested(ctx context.Context, do func(context.Context, place) error) error {
	give, err := v.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	ctx = context.WithoutCancel(ctx)
	if _, err := v.host.ExecContext(ctx, "SAVEPOINT bunkroom"); err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept { // refused, or do panicked
			_, _ = v.host.ExecContext(ctx, "ROLLBACK TO SAVEPOINT bunkroom")
			_, _ = v.host.ExecContext(ctx, "RELEASE SAVEPOINT bunkroom")
		}
	}()
	if err := do(ctx, place{view: v, tx: v.host}); err != nil {
		return err
	}
	_, err = v.host.ExecContext(ctx, "RELEASE SAVEPOINT bunkroom")
	kept = err == nil
	return err
}

// take waits for the turn in the host's transaction, and returns what gives it up.
func (v view) take(ctx context.Context) (give func(), err error) {
	select {
	case v.turn <- struct{}{}:
		return func() { <-v.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// place is where statements run: in a transaction, or where there is none on the pool.
type place struct {
	view
	tx    *sql.Tx
	fresh *[]*statement // of a transaction of our own: those that were not prepared
	line  *line         // on which a transaction of our own runs instead
}

func (p place) conn() bun.IConn {
	switch {
	case p.line != nil:
		return p.line.conn
	case p.tx != nil:
		return p.tx
	}
	return p.store.db
}

// exec runs a statement and returns how many rows it wrote.
func (p place) exec(ctx context.Context, text string, args ...any) (int64, error) {
	st := p.statement(text)
	var r sql.Result
	var err error
	if prepared := p.prepared(ctx, st); prepared != nil {
		r, err = prepared.ExecContext(ctx, args...)
	} else {
		r, err = p.conn().ExecContext(ctx, st.text, args...)
	}
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row runs a statement for its first row.
func (p place) row(ctx context.Context, text string, args ...any) *sql.Row {
	st := p.statement(text)
	if prepared := p.prepared(ctx, st); prepared != nil {
		return prepared.QueryRowContext(ctx, args...)
	}
	return p.conn().QueryRowContext(ctx, st.text, args...)
}

// rows runs a statement for all its rows.
func (p place) rows(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	st := p.statement(text)
	if prepared := p.prepared(ctx, st); prepared != nil {
		return prepared.QueryContext(ctx, args...)
	}
	return p.conn().QueryContext(ctx, st.text, args...)
}

func (p place) statement(text string) *statement {
	return p.store.statements.get(text, p.store.text)
}

// prepared is st prepared for this place, or nil where it has to run as text.
// In a transaction nothing is prepared on the pool, which may have no connection to spare.
func (p place) prepared(ctx context.Context, st *statement) *sql.Stmt {
	switch prepared := st.prepared.Load(); {
	case p.line != nil:
		return p.line.prepared(ctx, st)
	case p.tx == nil:
		return st.prepare(ctx, p.store.db)
	case prepared != nil:
		return p.tx.StmtContext(ctx, prepared)
	case p.fresh != nil:
		*p.fresh = append(*p.fresh, st)
	}
	return nil
}
