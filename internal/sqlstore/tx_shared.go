package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// writer has those of this process that write to a database with one write
// lock wait for each other here, in turn, and not for that lock. Who
// is done while others wait passes its transaction on to the next of
// them, for what a COMMIT costs it costs once, for however many.
type writer struct {
	going time.Duration // how long a transaction is passed on once the first is done
	mu    sync.Mutex
	busy  bool // somebody writes
	queue []*seat
}

// seat is a place in the queue. It is told which transaction it goes on in; nil = it begins one.
type seat struct{ given chan *shared }

// enter waits for the turn. Who has been given it when ctx ends has it all the same.
func (w *writer) enter(ctx context.Context) (*shared, error) {
	w.mu.Lock()
	if !w.busy {
		w.busy = true
		w.mu.Unlock()
		return nil, nil
	}
	s := &seat{make(chan *shared, 1)}
	w.queue = append(w.queue, s)
	w.mu.Unlock()
	select {
	case open := <-s.given:
		return open, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.queue, s); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		return nil, ctx.Err()
	}
	return <-s.given, nil
}

// pass gives the turn, and the transaction, to the next who waits, and reports
// whether anybody does. Who has none to pass on has given up the turn either way.
func (w *writer) pass(open *shared) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.busy = w.busy && open != nil
		return false
	}
	w.queue[0].given <- open
	w.queue = slices.Delete(w.queue, 0, 1)
	return true
}

// alone waits for the turn of who writes outside of any transaction that is
// passed on, and returns what gives it up.
func (s *store) alone(ctx context.Context) (give func(), err error) {
	open, err := s.writer.enter(ctx)
	if err != nil {
		return nil, err
	}
	if open != nil {
		open.end(s, context.WithoutCancel(ctx))
	}
	if err := ctx.Err(); err != nil {
		s.writer.pass(nil)
		return nil, err
	}
	return func() { s.writer.pass(nil) }, nil
}

// A transaction is passed on until so many have written in it, or for so long
// after the first has: that one waits for its answer, and other processes for the lock.
const (
	sharedBy  = 64
	sharedFor = 10 * time.Millisecond
)

// shared is a transaction in which some write, one after the other. Each but
// the first has a savepoint, so that what it is refused leaves no trace. All get their
// answers once it has ended: what one of them saw of another's is then true, or both fail.
type shared struct {
	tx interface {
		Commit() error
		Rollback() error
	}
	release context.CancelFunc // what belongs to the tx
	fresh   []*statement
	since   time.Time // when the first had written
	written int       // by how many, of those that were not refused
	broken  error     // why nothing of it can be kept

	ended chan struct{} // closed then, and only then is err set
	err   error
}

// share is a transaction of our own under the one lock of the database, or a
// part of one. Only the wait for the lock ends with ctx: to break a
// statement off saves nothing. What ctx ends by then is not written.
func (v view) share(ctx context.Context, do func(context.Context, place) error) error {
	s := v.store
	open, err := s.writer.enter(ctx)
	if err != nil {
		return err
	}
	if open == nil {
		if open, err = v.begin(ctx); err != nil {
			s.writer.pass(nil)
			return err
		}
	}
	err = open.write(ctx, v, do)
	<-open.ended
	if open.err != nil && (err == nil || !errors.Is(err, ctx.Err())) {
		return open.err // also to who was refused: the reason may have been what another wrote
	}
	return err
}

// begin begins a transaction, and holds the lock then. ctx ends the wait for it, and nothing after that.
func (v view) begin(ctx context.Context) (*shared, error) {
	s, whole := v.store, context.WithoutCancel(ctx)
	open := &shared{release: func() {}, ended: make(chan struct{})}
	waiting, stop := whole, func() bool { return true }
	if ctx.Done() != nil { // else nothing need watch for its end
		waiting, open.release = context.WithCancel(whole)
		stop = context.AfterFunc(ctx, open.release)
	}
	err := s.open(waiting, open)
	begun := err == nil
	if begun && s.line == nil { // of somebody else's connections we don't know how they begin
		_, err = open.on(v).exec(waiting, s.dialect.Lock)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil && begun {
		_ = open.tx.Rollback() // it holds nothing
	}
	if err != nil {
		open.release()
		return nil, err
	}
	return open, nil
}

func (s *store) open(ctx context.Context, open *shared) (err error) {
	if s.line != nil {
		open.tx = s.line
		return s.line.begin(ctx)
	}
	open.tx, err = s.db.BeginTx(ctx, nil)
	return err
}

// on is where v writes in it.
func (open *shared) on(v view) place {
	if tx, pooled := open.tx.(*sql.Tx); pooled {
		return place{view: v, tx: tx, fresh: &open.fresh}
	}
	return place{view: v, line: v.store.line}
}

// write has do write, and passes the transaction on or ends it, also where do panics.
func (open *shared) write(ctx context.Context, v view, do func(context.Context, place) error) (err error) {
	whole := context.WithoutCancel(ctx)
	on := open.on(v)
	kept, nested := false, open.written > 0
	defer func() {
		switch {
		case kept:
			if open.written++; open.written == 1 {
				open.since = time.Now()
			}
		case nested && open.broken == nil:
			if stuck := on.undo(whole); stuck != nil { // err is one's own, and may be none of the database's
				open.broken = fmt.Errorf("%w, after: %v", stuck, err)
			}
		}
		going := open.written > 0 && open.broken == nil && open.written < sharedBy && time.Since(open.since) < v.store.writer.going
		if going && v.store.writer.pass(open) {
			return
		}
		open.end(v.store, whole)
		v.store.writer.pass(nil)
	}()
	if err := ctx.Err(); err != nil {
		nested = false // nothing to undo
		return err
	}
	if nested {
		if _, err := on.exec(whole, savepoint); err != nil {
			open.broken = err
			return err
		}
	}
	if err := do(whole, on); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if nested {
		if _, err := on.exec(whole, releaseSavepoint); err != nil { // the database has given up the whole
			open.broken = err
			return err
		}
	}
	kept = true
	return nil
}

const (
	savepoint        = "SAVEPOINT bunkroom"
	releaseSavepoint = "RELEASE SAVEPOINT bunkroom"
	backToSavepoint  = "ROLLBACK TO SAVEPOINT bunkroom"
)

// undo rolls back to the savepoint. Where that is gone the database has rolled back everything.
func (p place) undo(ctx context.Context) error {
	if _, err := p.exec(ctx, backToSavepoint); err != nil {
		return err
	}
	_, err := p.exec(ctx, releaseSavepoint)
	return err
}

// end commits what was written, if anything was, and lets everybody know.
func (open *shared) end(s *store, ctx context.Context) {
	defer close(open.ended)
	defer open.release()
	if open.written == 0 || open.broken != nil {
		open.err = open.broken
		_ = open.tx.Rollback()
		return
	}
	if err := open.tx.Commit(); err != nil {
		open.err = err
		if !s.dialect.RolledBack(err) {
			open.err = fmt.Errorf("%w: %w", session.ErrUnknown, err)
		}
		_ = open.tx.Rollback() // does nothing where it has ended
		return
	}
	// Only now, with the connection given back: a pool of one has no other to prepare on.
	for _, st := range open.fresh {
		st.prepare(ctx, s.db)
	}
}
