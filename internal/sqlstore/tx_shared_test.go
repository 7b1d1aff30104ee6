package sqlstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/session"
)

// queue has several write to one database, one after the other in one transaction.
type queue struct {
	*testing.T
	kept    bool
	db      *sqlite.DB
	spy     *spy
	commits int
	commit  func(func() error) error // in place of a COMMIT; may be nil
	now     func() time.Time         // called by each once it writes; may be nil
}

// queues runs a test where any connection is written on, and where one is kept for that.
func queues(t *testing.T, test func(q *queue)) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept=%t", kept), func(t *testing.T) {
			q := &queue{T: t, kept: kept}
			q.db, q.spy = spiedOn(t, &sqlite.Options{Now: func() time.Time {
				if q.now != nil {
					return q.now()
				}
				return time.Now()
			}}, kept)
			sqlstore.ShareFor(q.db.Sessions(), time.Hour)
			credited(t, q.db.Ledger(), "alice")
			test(q)
		})
	}
}

// run holds up the first in its transaction until the others wait behind it, in
// their order, and returns what each was answered. meanwhile is called once they do.
func (q *queue) run(meanwhile func(), all ...func() error) []error {
	held, free := make(chan struct{}), make(chan struct{})
	q.spy.reset(func(n int) {
		if n == 1 {
			close(held)
			<-free
		}
	}, func(commit func() error) error {
		q.commits++
		if q.commit != nil {
			return q.commit(commit)
		}
		return commit()
	})
	defer q.spy.reset(nil, nil)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, do := range all {
		over := make(chan struct{})
		wg.Go(func() {
			defer close(over)
			errs[i] = do()
		})
		if i == 0 {
			select {
			case <-held:
			case <-over:
				q.Fatalf("the first: %v", errs[0])
			}
		}
		for sqlstore.Waiting(q.db.Sessions()) < i {
			runtime.Gosched()
		}
	}
	meanwhile()
	close(free)
	wg.Wait()
	return errs
}

func nothing() {}

func (q *queue) hold(ctx context.Context, asked billing.HoldRequest) func() error {
	return func() error { _, err := q.db.Ledger().Hold(ctx, asked); return err }
}

// spawn opens a session, of which alice may have so many. What is one too many is written before it is refused.
func (q *queue) spawn(c session.Change, most int) func() error {
	c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: most}}
	return func() error { _, err := q.db.Sessions().Commit(q.Context(), c); return err }
}

func (q *queue) sessions() int { return count(q.T, q.db, "SELECT count(*) FROM bunkroom_sessions") }
func (q *queue) holds() int    { return count(q.T, q.db, "SELECT count(*) FROM bunkroom_holds") }

// Who waits to write shares the transaction of who writes: one COMMIT for all.
// What one of them is refused leaves no trace, and the others' is written.
func TestWritersShareATransaction(t *testing.T) {
	queues(t, func(q *queue) {
		errs := q.run(nothing, q.hold(q.Context(), ask("alice")), q.spawn(spawn("p"), 1), q.spawn(spawn("p"), 1), q.hold(q.Context(), ask("bob")), q.hold(q.Context(), ask("alice")))
		if errs[0] != nil || errs[1] != nil || errs[4] != nil {
			t.Errorf("got %v", errs)
		}
		if !errors.As(errs[2], new(*session.LimitError)) || !errors.As(errs[3], new(*billing.RefusedError)) {
			t.Errorf("got %v and %v, want what each is refused for", errs[2], errs[3])
		}
		if q.sessions() != 1 || q.holds() != 2 || q.commits != 1 {
			t.Errorf("%d sessions, %d holds, %d commits", q.sessions(), q.holds(), q.commits)
		}
	})
}

// The first that is refused leaves nothing to share, and the next begins anew.
func TestFirstWriterIsRefused(t *testing.T) {
	queues(t, func(q *queue) {
		errs := q.run(nothing, q.spawn(spawn("p"), 0), q.hold(q.Context(), ask("alice")))
		if !errors.As(errs[0], new(*session.LimitError)) || errs[1] != nil || q.sessions() != 0 || q.holds() != 1 {
			t.Errorf("got %v, %d sessions, %d holds", errs, q.sessions(), q.holds())
		}
	})
}

// Nobody is answered before the COMMIT: where that fails all are told so, also
// who was refused for what another had written, and where it may have happened it is ErrUnknown.
func TestSharedCommitFails(t *testing.T) {
	lost := errors.New("the reply was lost")
	for _, c := range []struct {
		name              string
		happened, unknown bool
		why               error
	}{
		{"it happened", true, true, lost},
		{"it did not", false, true, lost},
		{"the disk is full", false, false, full(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			queues(t, func(q *queue) {
				q.commit = func(commit func() error) error {
					if c.happened {
						return errors.Join(commit(), c.why)
					}
					if !q.kept { // so that the pool parts with the connection, which has its transaction still
						return errors.Join(c.why, driver.ErrBadConn)
					}
					return c.why
				}
				errs := q.run(nothing, q.hold(q.Context(), ask("alice")), q.spawn(spawn("p"), 1), q.spawn(spawn("p"), 1))
				for i, err := range errs {
					if !errors.Is(err, c.why) || errors.Is(err, session.ErrUnknown) != c.unknown || errors.Is(err, billing.ErrUnknown) != (c.unknown && i == 0) {
						q.Errorf("%s: the %dth is told %v", c.name, i, err)
					}
				}
				written := 0
				if c.happened {
					written = 1
				}
				if q.sessions() != written || q.holds() != written {
					q.Errorf("%s: %d sessions, %d holds", c.name, q.sessions(), q.holds())
				}
				q.commit = nil
				if err := errors.Join(q.run(nothing, q.hold(q.Context(), ask("alice")), q.spawn(spawn("p"), 5))...); err != nil {
					q.Errorf("%s, and then: %v", c.name, err)
				}
			})
		})
	}
}

// Who gives up while it waits writes nothing, nor does who does so as it
// writes; the others don't notice.
func TestOneOfManyGivesUp(t *testing.T) {
	queues(t, func(q *queue) {
		waiting, leave := context.WithCancel(q.Context())
		writing, stop := context.WithCancel(q.Context())
		turn := 0
		q.now = func() time.Time {
			if turn++; turn == 2 { // the second that writes
				stop()
			}
			return time.Now()
		}
		errs := q.run(func() {
			leave()
			for sqlstore.Waiting(q.db.Sessions()) > 2 {
				runtime.Gosched()
			}
		}, q.hold(q.Context(), ask("alice")), q.hold(waiting, ask("alice")), q.hold(writing, ask("alice")), q.hold(q.Context(), ask("alice")))
		if errs[0] != nil || !errors.Is(errs[1], context.Canceled) || !errors.Is(errs[2], context.Canceled) || errs[3] != nil {
			q.Errorf("got %v", errs)
		}
		if q.holds() != 2 || q.commits != 1 {
			q.Errorf("%d holds, %d commits, want 2 in 1", q.holds(), q.commits)
		}
	})
}

// A panic is its caller's own: what it had written is undone, and the others' is not.
func TestOneOfManyPanics(t *testing.T) {
	queues(t, func(q *queue) {
		turn := 0
		q.now = func() time.Time {
			if turn++; turn == 2 {
				panic("the clock fell")
			}
			return time.Now()
		}
		falling := func() (err error) {
			defer func() { err = fmt.Errorf("%v", recover()) }()
			return q.hold(q.Context(), ask("alice"))()
		}
		errs := q.run(nothing, q.hold(q.Context(), ask("alice")), falling, q.hold(q.Context(), ask("alice")))
		if errs[0] != nil || errs[1].Error() != "the clock fell" || errs[2] != nil || q.holds() != 2 {
			q.Errorf("got %v, %d holds", errs, q.holds())
		}
	})
}

// Where the database gives up the whole transaction, all that had written in
// it are told why, nothing of it is there, and the next begins anew.
func TestDatabaseGivesUpWhatIsShared(t *testing.T) {
	queues(t, func(q *queue) {
		run(q.T, q.db, "CREATE TRIGGER strike BEFORE INSERT ON bunkroom_sessions BEGIN SELECT RAISE(ROLLBACK, 'struck'); END")
		errs := q.run(nothing, q.hold(q.Context(), ask("alice")), q.spawn(spawn("p"), 5), q.hold(q.Context(), ask("alice")))
		for i, err := range errs[:2] {
			if err == nil || !strings.Contains(err.Error(), "struck") || errors.Is(err, session.ErrUnknown) {
				q.Errorf("the %dth is told %v", i, err)
			}
		}
		if errs[2] != nil || q.holds() != 1 || q.sessions() != 0 {
			q.Errorf("got %v, %d holds, %d sessions", errs[2], q.holds(), q.sessions())
		}
	})
}

// What one of them is refused is told to nobody else, also where it can't be
// undone and nothing of all is kept for that: the others are told what kept it from being undone.
func TestWhatIsRefusedCannotBeUndone(t *testing.T) {
	broken := errors.New("the disk is broken")
	queues(t, func(q *queue) {
		q.spy.failing(func(text string) error {
			if strings.HasPrefix(text, "ROLLBACK TO") {
				return broken
			}
			return nil
		})
		errs := q.run(nothing, q.hold(q.Context(), ask("alice")), q.spawn(spawn("p"), 0), q.hold(q.Context(), ask("alice")))
		if !errors.Is(errs[0], broken) || errors.As(errs[0], new(*session.LimitError)) {
			q.Errorf("the first is told %v", errs[0])
		}
		if errs[1] == nil || errs[2] != nil || q.holds() != 1 || q.sessions() != 0 {
			q.Errorf("got %v, %d holds, %d sessions", errs[1:], q.holds(), q.sessions())
		}
	})
}

// Who is refused for what another has written, and gives up before that is
// committed, is not told to be refused where the COMMIT fails: it was for nothing.
func TestRefusedAndGivesUpBeforeCommitFails(t *testing.T) {
	lost := errors.New("the reply was lost")
	queues(t, func(q *queue) {
		ctx, leave := context.WithCancel(q.Context())
		q.commit = func(func() error) error {
			leave()
			if q.kept {
				return lost
			}
			return errors.Join(lost, driver.ErrBadConn) // so that the pool parts with the connection
		}
		second := spawn("p")
		second.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: 1}}
		errs := q.run(nothing, q.spawn(spawn("p"), 1), func() error { _, err := q.db.Sessions().Commit(ctx, second); return err })
		if !errors.Is(errs[0], lost) || !errors.Is(errs[1], lost) || errors.As(errs[1], new(*session.LimitError)) {
			q.Errorf("got %v", errs)
		}
		if q.sessions() != 0 {
			q.Errorf("%d sessions", q.sessions())
		}
	})
}

// Who waits to write behind a Close finds it closed, and has no connection
// that nobody would close.
func TestCloseDuringWrites(t *testing.T) {
	queues(t, func(q *queue) {
		if !q.kept {
			return
		}
		errs := q.run(nothing, q.hold(q.Context(), ask("alice")), q.db.Close, q.hold(q.Context(), ask("alice")))
		if errs[0] != nil || errs[1] != nil || errs[2] == nil || q.holds() != 1 {
			q.Errorf("got %v, %d holds", errs, q.holds())
		}
		if n := q.spy.writer.Stats().InUse; n != 0 {
			q.Errorf("%d connections are kept", n)
		}
		if err := q.db.Close(); err != nil {
			q.Errorf("closed twice: %v", err)
		}
	})
}
