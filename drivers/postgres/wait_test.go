package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
)

// while does first in a transaction of a host on one replica, second on the
// other, and commits the host's once second waits for it. It returns second's answer.
func while(t *testing.T, dbs [2]*postgres.DB, first func(*postgres.Tx) error, second func(*postgres.DB) error) error {
	t.Helper()
	tx, err := dbs[0].SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := first(dbs[0].In(tx)); err != nil {
		t.Fatalf("the first: %v", err)
	}
	answer := make(chan error, 1)
	go func() { answer <- second(dbs[1]) }()
	blocked(t, dbs[0])
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return <-answer
}

// Who wants a place under a ceiling waits for whoever has just taken the last
// one and not committed yet, and is then refused. (T-26)
func TestLimitsWait(t *testing.T) {
	dbs := replicas(t)
	room := commit(t, dbs[0].Sessions(), spawn("p"))
	for _, c := range []struct {
		limit session.Limit
		take  func() session.Change
	}{
		{session.Limit{Kind: session.SessionsPerOwner, Scope: "alice", Max: 2}, func() session.Change { return spawn("p") }},
		{session.Limit{Kind: session.MachinesPerPayer, Scope: "payer", Max: 1}, func() session.Change {
			c := spawn("p")
			c.Sandbox.State, c.Sandbox.Payer = sandbox.Creating, "payer"
			return c
		}},
		{session.Limit{Kind: session.ConversationsPerSession, Scope: string(room.Session.ID), Max: 2}, func() session.Change {
			v := *room.Conversation
			v.ID = session.ConversationID(id.New())
			return session.Change{Conversation: &v}
		}},
	} {
		take := func(s session.Store) error {
			change := c.take()
			change.Limits = []session.Limit{c.limit}
			_, err := s.Commit(t.Context(), change)
			return err
		}
		err := while(t, dbs,
			func(tx *postgres.Tx) error { return take(tx.Sessions()) },
			func(db *postgres.DB) error { return take(db.Sessions()) })
		if e, ok := errors.AsType[*session.LimitError](err); !ok || e.Kind != c.limit.Kind {
			t.Errorf("%v: got %v, want a LimitError", c.limit.Kind, err)
		}
	}
	slot := func(l session.Leases, name string) error {
		_, err := l.Acquire(t.Context(), session.Lease{Kind: session.LeaseWork, Name: name, Holder: "w", Payer: "payer", Slots: 1, For: time.Minute})
		return err
	}
	err := while(t, dbs,
		func(tx *postgres.Tx) error { return slot(tx.Leases(), "s1") },
		func(db *postgres.DB) error { return slot(db.Leases(), "s2") })
	if e, ok := errors.AsType[*session.LimitError](err); !ok || e.Kind != session.SlotsPerPayer {
		t.Errorf("slots: got %v, want a LimitError", err)
	}
}

// A lease that its holder has renewed just in time, and not committed yet, is
// not taken over by who finds it expired.
func TestRenewedJustInTime(t *testing.T) {
	clock := sessiontest.NewClock()
	dbs := shifted(t, clock)
	lease := session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "r1", For: time.Minute}
	lease, err := dbs[0].Leases().Acquire(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	lease.For = time.Hour
	err = while(t, dbs,
		func(tx *postgres.Tx) error {
			_, err := tx.Leases().Renew(t.Context(), lease)
			clock.Step(10 * time.Minute)
			return err
		},
		func(db *postgres.DB) error {
			_, err := db.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "r2", For: time.Minute})
			return err
		})
	if !errors.As(err, new(*session.HeldError)) {
		t.Errorf("got %v, want a HeldError", err)
	}
	if _, err := dbs[0].Leases().Renew(t.Context(), lease); err != nil {
		t.Errorf("the holder can't renew: %v", err)
	}
}

// Who renews a lease that somebody is just taking over waits, and is told that it is lost.
func TestTakenOverMeanwhile(t *testing.T) {
	clock := sessiontest.NewClock()
	dbs := shifted(t, clock)
	lease, err := dbs[0].Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "r1", For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	err = while(t, dbs,
		func(tx *postgres.Tx) error {
			clock.Step(10 * time.Minute)
			_, err := tx.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "r2", For: time.Minute})
			clock.Step(-10 * time.Minute) // so that the renewal, by the clock, is in time
			return err
		},
		func(db *postgres.DB) error {
			_, err := db.Leases().Renew(t.Context(), lease)
			return err
		})
	if !errors.Is(err, session.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
}

// Whoever takes a turn over waits for a work that is just being opened for the
// turn before, and finds it; who opens one while the turn is just being taken over waits, and is told that it is lost.
func TestTurnTakenOverMeanwhile(t *testing.T) {
	clock := sessiontest.NewClock()
	dbs := shifted(t, clock)
	turn := session.Lease{Kind: session.LeaseTurn, Name: "c", Holder: "r1", For: time.Minute}
	old, err := dbs[0].Leases().Acquire(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	work := session.Lease{
		Kind: session.LeaseWork, Name: "s", Holder: "w1", Payer: "payer", Slots: 1, For: time.Hour, Conversation: "c", Turn: old.Fence,
	}
	turn.Holder = "r2"
	var next session.Lease
	err = while(t, dbs,
		func(tx *postgres.Tx) error {
			_, err := tx.Leases().Acquire(t.Context(), work)
			clock.Step(10 * time.Minute)
			return err
		},
		func(db *postgres.DB) (err error) {
			if next, err = db.Leases().Acquire(t.Context(), turn); err != nil {
				return err
			}
			found, err := db.Leases().Works(t.Context(), "c", next.Fence-1, session.Lease{}, 10)
			if len(found) != 1 || found[0].Holder != "w1" {
				t.Errorf("found %+v", found)
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	turn.Holder, work.Holder, work.Turn = "r3", "w2", next.Fence
	err = while(t, dbs,
		func(tx *postgres.Tx) error {
			clock.Step(10 * time.Minute)
			_, err := tx.Leases().Acquire(t.Context(), turn)
			clock.Step(-10 * time.Minute) // so that the turn before, by the clock, is held
			return err
		},
		func(db *postgres.DB) error {
			_, err := db.Leases().Acquire(t.Context(), work)
			return err
		})
	if !errors.Is(err, session.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
}
