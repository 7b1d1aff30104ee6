package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// lend is the change that opens an environment with a sandbox.
func lend(project access.ProjectID) session.Change {
	e := &session.Environment{ID: session.EnvironmentID(id.New()), Project: project, CreatedBy: "alice", Name: "lab"}
	return session.Change{Environment: e, Sandbox: &sandbox.Row{ID: sandbox.ID(id.New()), Environment: e.ID}}
}

// borrow is the change that opens a session which borrows e.
func borrow(e session.Environment) session.Change {
	c := spawn(e.Project)
	c.Session.Environment, c.Sandbox = e.ID, nil
	c.Expect = []session.Guard{{Environment: e.ID, Version: e.Version}}
	return c
}

// What is decided about an environment, or about a session that borrows it,
// holds when it is committed: who would make it otherwise waits, and goes by what is then.
func TestEnvironmentExpectationsHold(t *testing.T) {
	type stored struct{ lent, borrower session.Change }
	ensure := func(s stored) session.Change {
		row := *s.lent.Sandbox
		row.State, row.Generation, row.Name = sandbox.Creating, 1, "bkr-g1"
		return session.Change{Sandbox: &row, Expect: []session.Guard{
			{Session: s.borrower.Session.ID, Version: 1}, {Environment: s.lent.Environment.ID, Version: 1},
		}}
	}
	retire := func(s stored) session.Change {
		return session.Change{Environment: s.lent.Environment, Retire: true, Expect: []session.Guard{{Sandbox: s.lent.Sandbox.ID, Version: 1}}}
	}
	another := func(s stored) session.Change { return borrow(*s.lent.Environment) }
	remove := func(s stored) session.Change { // and whoever borrows it that is known of
		return session.Change{Delete: []session.Address{{Session: s.borrower.Session.ID}, {Environment: s.lent.Environment.ID}}}
	}
	purge := func(s stored) session.Change {
		return session.Change{Delete: []session.Address{{Session: s.borrower.Session.ID}, {Conversation: s.borrower.Conversation.ID}}}
	}
	unguarded := func(s stored) session.Change {
		c := borrow(*s.lent.Environment)
		c.Expect = nil
		return c
	}
	for _, c := range []struct {
		rule          string
		first, second func(stored) session.Change
		want          error // of the second, once the first is committed
	}{
		{"an environment is deleted while a machine is wanted in it: too late", ensure, retire, session.ErrStale},
		{"a machine is wanted in an environment while that is deleted: too late", retire, ensure, session.ErrStale},
		{"an environment is borrowed while it is deleted: too late", retire, another, session.ErrStale},
		{"an environment is deleted while it is borrowed: the deletion comes after", another, retire, nil},
		{"the row of an environment is deleted while it is borrowed: too late", another, remove, session.ErrStale},
		{"the row of an environment is deleted while it is borrowed without a word: too late", unguarded, remove, session.ErrStale},
		{"an environment is borrowed while its row is deleted: too late", remove, another, session.ErrStale},
		{"an environment is borrowed without a word while its row is deleted: too late", remove, unguarded, session.ErrStale},
		{"a session is purged while a machine is wanted by it: the purge comes after", ensure, purge, nil},
		{"a machine is wanted by a session while that is purged: too late", purge, ensure, session.ErrStale},
		{"a machine is wanted in an environment while its row is deleted: too late", remove, ensure, session.ErrStale},
		{"the row of an environment is deleted while a machine is wanted in it: the deletion comes after", ensure, remove, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			dbs := replicas(t)
			var s stored
			s.lent = commit(t, dbs[0].Sessions(), lend("p"))
			s.borrower = commit(t, dbs[0].Sessions(), borrow(*s.lent.Environment))
			err := while(t, dbs, func(tx *postgres.Tx) error {
				_, err := tx.Sessions().Commit(t.Context(), c.first(s))
				return err
			}, func(db *postgres.DB) error {
				_, err := db.Sessions().Commit(t.Context(), c.second(s))
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			// Whatever came first, what may be alive is still known of. (T-31, T-32, S-03)
			rows := count(t, dbs[0], "SELECT count(*) FROM bunkroom_sandboxes WHERE state = 'creating'")
			made := strings.Contains(c.rule, "a machine is wanted") && (err == nil || !strings.HasPrefix(c.rule, "a machine"))
			if known := rows+len(outbox(t, dbs[0].Sessions())) == 1; known != made {
				t.Errorf("a machine was asked for: %t; a row or the outbox names it: %t", made, known)
			}
		})
	}
}

// An idle stop and a work that begins exclude each other: whoever is second
// waits, and an idle stop that is second is refused. (mounts trap 36)
func TestIdleAgainstAcquire(t *testing.T) {
	stop := func(s session.Store, c session.Change) error {
		row := *c.Sandbox
		row.State = sandbox.Destroying
		_, err := s.Commit(t.Context(), session.Change{Sandbox: &row, Idle: row.ID})
		return err
	}
	work := func(l session.Leases, c session.Change, name string) error {
		_, err := l.Acquire(t.Context(), session.Lease{
			Kind: session.LeaseWork, Name: name, Holder: "w", Payer: "alice", Slots: 5, Sandbox: c.Sandbox.ID, For: time.Minute,
		})
		return err
	}
	for _, name := range []string{"its session", "another session that borrows it"} {
		dbs := replicas(t)
		c := spawn("p")
		c.Sandbox.State = sandbox.Live
		c = commit(t, dbs[0].Sessions(), c)
		err := while(t, dbs,
			func(tx *postgres.Tx) error { return work(tx.Leases(), c, name) },
			func(db *postgres.DB) error { return stop(db.Sessions(), c) })
		if !errors.Is(err, sandbox.ErrWorking) {
			t.Errorf("%s: the idle stop got %v, want ErrWorking", name, err)
		}

		dbs = replicas(t)
		c = spawn("p")
		c.Sandbox.State = sandbox.Live
		c = commit(t, dbs[0].Sessions(), c)
		err = while(t, dbs,
			func(tx *postgres.Tx) error { return stop(tx.Sessions(), c) },
			func(db *postgres.DB) error { return work(db.Leases(), c, name) })
		if got := load(t, dbs[0].Sessions(), session.Address{Session: c.Session.ID}); err != nil || got.Sandbox.State != sandbox.Destroying {
			t.Errorf("%s: the work got %v and finds the machine %v, want that it is destroying", name, err, got.Sandbox.State)
		}
	}
}

// Of an idle stop and a work that begin at once either the stop is refused, or
// the work finds the machine destroying: never is one stopped under a work.
func TestIdleAndAcquireAtOnce(t *testing.T) {
	dbs := replicas(t)
	for _, db := range dbs {
		connected(t, db)
	}
	for range 30 {
		c := spawn("p")
		c.Sandbox.State = sandbox.Live
		c = commit(t, dbs[0].Sessions(), c)
		var state sandbox.State
		errs := atOnce(2, func(i int) error {
			if i == 0 {
				row := *c.Sandbox
				row.State = sandbox.Destroying
				_, err := dbs[0].Sessions().Commit(t.Context(), session.Change{Sandbox: &row, Idle: row.ID})
				return err
			}
			_, err := dbs[1].Leases().Acquire(t.Context(), session.Lease{
				Kind: session.LeaseWork, Name: string(c.Session.ID), Holder: "w", Payer: "alice", Slots: 100, Sandbox: c.Sandbox.ID, For: time.Minute,
			})
			if err != nil {
				return err
			}
			snap, err := dbs[1].Sessions().Load(t.Context(), session.Address{Session: c.Session.ID})
			state = snap.Sandbox.State
			return err
		})
		stopped := errs[0] == nil
		if errs[1] != nil || !stopped && !errors.Is(errs[0], sandbox.ErrWorking) || stopped != (state == sandbox.Destroying) {
			t.Fatalf("stop %v, work %v, which finds the machine %v", errs[0], errs[1], state)
		}
	}
}

// Callers who purge, look at, borrow, want and delete the same few rows from
// two replicas, in whatever order they name them, never wait for each other in a circle.
func TestPurgeStorm(t *testing.T) {
	dbs := replicas(t)
	var lent, rooms []session.Change
	for range 3 {
		e := commit(t, dbs[0].Sessions(), lend("p"))
		lent = append(lent, e)
		for range 4 { // what belongs together is not in the same place of its order
			own, borrows := spawn("p"), borrow(*e.Environment)
			n := 99 - len(rooms)
			own.Sandbox.ID = sandbox.ID(fmt.Sprintf("sandbox %d", n))
			own.Conversation.ID, borrows.Conversation.ID = session.ConversationID(fmt.Sprintf("a%d", n)), session.ConversationID(fmt.Sprintf("b%d", n))
			rooms = append(rooms, commit(t, dbs[0].Sessions(), own), commit(t, dbs[0].Sessions(), borrows))
		}
	}
	var sandboxes []sandbox.ID
	for _, c := range slices.Concat(lent, rooms) {
		if c.Sandbox != nil {
			sandboxes = append(sandboxes, c.Sandbox.ID)
		}
	}
	backwards := slices.Clone(sandboxes)
	slices.Reverse(backwards)
	errs := atOnce(30, func(i int) error {
		store := dbs[i%2].Sessions()
		for n := range 12 {
			r, other, e := rooms[(i+n)%len(rooms)], rooms[(i*5+n)%len(rooms)], lent[(i+n)%len(lent)]
			var c session.Change
			switch (i + n) % 6 {
			case 0:
				c = session.Change{Waited: sandboxes}
			case 1:
				c = session.Change{Waited: backwards}
			case 2:
				c = session.Change{Delete: []session.Address{{Conversation: r.Conversation.ID}, {Session: other.Session.ID}, {Conversation: other.Conversation.ID}, {Session: r.Session.ID}}}
				if n < 6 {
					c.Delete = c.Delete[:1]
				}
			case 3:
				c = borrow(*e.Environment)
			case 4:
				snap, err := store.Load(t.Context(), session.Address{Session: r.Session.ID})
				if errors.Is(err, session.ErrNotFound) || snap.Sandbox.ID == "" && err == nil {
					continue
				} else if err != nil {
					return err
				}
				snap.Sandbox.State, snap.Sandbox.Generation = sandbox.Creating, snap.Sandbox.Generation+1
				c = session.Change{Sandbox: &snap.Sandbox, Expect: []session.Guard{{Session: r.Session.ID, Version: snap.Session.Version}}}
				if snap.Environment.ID != "" {
					c.Expect = append(c.Expect, session.Guard{Environment: snap.Environment.ID, Version: snap.Environment.Version})
				}
			case 5:
				owned, err := store.Owned(t.Context(), session.PurgeTarget{Project: "p", History: true}, 8)
				if err != nil {
					return err
				}
				if n > 9 {
					c = session.Change{Delete: owned}
				} else {
					snap, err := store.Load(t.Context(), session.Address{Environment: e.Environment.ID})
					if errors.Is(err, session.ErrNotFound) {
						continue
					} else if err != nil {
						return err
					}
					snap.Sandbox.State = sandbox.Destroying
					c = session.Change{Environment: &snap.Environment, Retire: true, Sandbox: &snap.Sandbox}
				}
			}
			_, err := store.Commit(t.Context(), c)
			if server, told := errors.AsType[*pgconn.PgError](err); told { // a circle would be one
				return fmt.Errorf("case %d: %w: %s", (i+n)%6, err, server.Detail)
			}
			if err != nil && !errors.Is(err, session.ErrStale) {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
