package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// callers is how many want the last place at once, from two replicas.
const callers = 200

// Of 200 callers at one below the ceiling exactly one is admitted, whatever is
// counted, and the others are told which ceiling it was. (T-26)
func TestLastPlace(t *testing.T) {
	limits := func(k session.LimitKind, scope string) []session.Limit {
		return []session.Limit{{Kind: k, Scope: scope, Max: 3}}
	}
	room := spawn("p")
	for _, what := range []struct {
		kind session.LimitKind
		take func(db *postgres.DB, n int) error
	}{
		{session.SessionsPerOwner, func(db *postgres.DB, _ int) error {
			c := spawn("p")
			c.Session.Owner = "bob"
			c.Limits = limits(session.SessionsPerOwner, "bob")
			_, err := db.Sessions().Commit(t.Context(), c)
			return err
		}},
		{session.MachinesPerPayer, func(db *postgres.DB, _ int) error {
			c := spawn("p")
			c.Sandbox.State, c.Sandbox.Payer = sandbox.Creating, "payer"
			c.Limits = limits(session.MachinesPerPayer, "payer")
			_, err := db.Sessions().Commit(t.Context(), c)
			return err
		}},
		{session.ConversationsPerSession, func(db *postgres.DB, _ int) error {
			v := *room.Conversation
			v.ID = session.ConversationID(id.New())
			_, err := db.Sessions().Commit(t.Context(), session.Change{
				Conversation: &v, Expect: []session.Guard{{Session: v.Session, Version: 1}},
				Limits: limits(session.ConversationsPerSession, string(v.Session)),
			})
			return err
		}},
		{session.SlotsPerPayer, func(db *postgres.DB, n int) error {
			_, err := db.Leases().Acquire(t.Context(), session.Lease{
				Kind: session.LeaseWork, Name: "s" + strconv.Itoa(n), Holder: "w", Payer: "payer", Slots: 3, For: time.Minute,
			})
			return err
		}},
	} {
		t.Run(what.kind.String(), func(t *testing.T) {
			dbs := replicas(t)
			commit(t, dbs[0].Sessions(), room)
			first := 2
			if what.kind == session.ConversationsPerSession {
				first = 1 // it has one
			}
			for n := range first {
				if err := what.take(dbs[0], n); err != nil {
					t.Fatal(err)
				}
			}
			for _, db := range dbs { // to connect takes longer than to take a place
				connected(t, db)
			}
			admitted := 0
			for _, err := range atOnce(callers, func(i int) error { return what.take(dbs[i%2], 100+i) }) {
				limit, refused := errors.AsType[*session.LimitError](err)
				switch {
				case err == nil:
					admitted++
				case !refused || limit.Kind != what.kind || limit.Max != 3:
					t.Errorf("got %v", err)
				}
			}
			if admitted != 1 {
				t.Errorf("%d were admitted, want 1", admitted)
			}
		})
	}
}

// connected has all connections of the pool made.
func connected(t *testing.T, db *postgres.DB) {
	t.Helper()
	for range db.SQL().Stats().MaxOpenConnections {
		conn, err := db.SQL().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
}

// blocked waits until a transaction of the server waits for a lock that another holds.
func blocked(t *testing.T, db *postgres.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for count(t, db, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("nothing waits")
		}
	}
}

// What a change rests on and does not write can't become otherwise before it
// is committed: who would make it so waits, and goes by what is then. (T-14, T-15)
func TestExpectationsHold(t *testing.T) {
	machine := func(c session.Change) *sandbox.Row {
		row := *c.Sandbox
		row.State, row.Generation, row.Incarnation = sandbox.Live, 1, "i"
		return &row
	}
	buried := func(c session.Change) []sandbox.Tombstone {
		return []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: c.Sandbox.ID, Generation: 1, Incarnation: "i"}}}
	}
	absent := session.ID(id.New())
	for _, c := range []struct {
		rule          string
		first, second func(c session.Change) session.Change // c is a session as stored
		want          error                                 // of the second, once the first is committed
	}{
		{"a conversation is added while its session is ended: the end comes after",
			func(c session.Change) session.Change {
				v := *c.Conversation
				v.ID = session.ConversationID(id.New())
				return session.Change{Conversation: &v, Expect: []session.Guard{{Session: c.Session.ID, Version: 1}}}
			},
			func(c session.Change) session.Change { return session.Change{Session: c.Session, End: true} }, nil},
		{"a session is ended while a conversation is added: too late",
			func(c session.Change) session.Change { return session.Change{Session: c.Session, End: true} },
			func(c session.Change) session.Change {
				v := *c.Conversation
				v.ID = session.ConversationID(id.New())
				return session.Change{Conversation: &v, Expect: []session.Guard{{Session: c.Session.ID, Version: 1}}}
			}, session.ErrStale},
		{"a session ends and expects no machine, while one is made: too late",
			func(c session.Change) session.Change {
				return session.Change{Session: c.Session, End: true, Expect: []session.Guard{{Sandbox: c.Sandbox.ID, Version: 1}}}
			},
			func(c session.Change) session.Change {
				return session.Change{Sandbox: machine(c), Expect: []session.Guard{{Session: c.Session.ID, Version: 1}}}
			}, session.ErrStale},
		{"a machine is made and expects the session not to end, while it ends: too late",
			func(c session.Change) session.Change {
				return session.Change{Sandbox: machine(c), Expect: []session.Guard{{Session: c.Session.ID, Version: 1}}}
			},
			func(c session.Change) session.Change {
				return session.Change{Session: c.Session, End: true, Expect: []session.Guard{{Sandbox: c.Sandbox.ID, Version: 1}}}
			}, session.ErrStale},
		{"a row is expected not to be there while it is inserted: the insert comes after",
			func(session.Change) session.Change {
				return session.Change{Expect: []session.Guard{{Session: absent}}}
			},
			func(session.Change) session.Change {
				n := spawn("p")
				n.Session.ID, n.Sandbox, n.Conversation = absent, nil, nil
				return n
			}, nil},
		{"a row is inserted while it is expected not to be there: too late",
			func(session.Change) session.Change {
				n := spawn("p")
				n.Session.ID, n.Sandbox, n.Conversation = absent, nil, nil
				return n
			},
			func(session.Change) session.Change {
				return session.Change{Expect: []session.Guard{{Session: absent}}}
			}, session.ErrStale},
		{"a machine is buried while it is taken into use: claimed",
			func(c session.Change) session.Change { return session.Change{Bury: buried(c)} },
			func(c session.Change) session.Change { return session.Change{Sandbox: machine(c), Unclaimed: "i"} }, session.ErrClaimed},
		{"a machine is buried by who expects its row as it is, while it is taken into use: claimed",
			func(c session.Change) session.Change {
				return session.Change{Bury: buried(c), Expect: []session.Guard{{Sandbox: c.Sandbox.ID, Version: 1}}}
			},
			func(c session.Change) session.Change { return session.Change{Sandbox: machine(c), Unclaimed: "i"} }, session.ErrClaimed},
		{"a session is deleted while a conversation is added: too late",
			func(c session.Change) session.Change {
				return session.Change{Delete: []session.Address{{Session: c.Session.ID}}}
			},
			func(c session.Change) session.Change {
				v := *c.Conversation
				v.ID = session.ConversationID(id.New())
				return session.Change{Conversation: &v}
			}, session.ErrStale},
	} {
		t.Run(c.rule, func(t *testing.T) {
			dbs := replicas(t)
			stored := commit(t, dbs[0].Sessions(), spawn("p"))
			err := while(t, dbs, func(tx *postgres.Tx) error {
				_, err := tx.Sessions().Commit(t.Context(), c.first(stored))
				return err
			}, func(db *postgres.DB) error {
				_, err := db.Sessions().Commit(t.Context(), c.second(stored))
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// The fence of a session's works stays while one is being opened, though the
// session is deleted at that moment: the next fence is still a greater one.
func TestFenceSurvivesOpening(t *testing.T) {
	dbs := replicas(t)
	c := commit(t, dbs[0].Sessions(), spawn("p"))
	lease := session.Lease{Kind: session.LeaseWork, Name: string(c.Session.ID), Holder: "w1", Payer: "alice", Slots: 5, For: time.Minute}
	var first session.Lease
	err := while(t, dbs, func(tx *postgres.Tx) (err error) {
		first, err = tx.Leases().Acquire(t.Context(), lease)
		return err
	}, func(db *postgres.DB) error {
		_, err := db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: c.Session.ID}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lease.Holder = "w2"
	if next, err := dbs[1].Leases().Acquire(t.Context(), lease); err != nil || next.Fence <= first.Fence {
		t.Errorf("got fence %d, %v, want more than %d", next.Fence, err, first.Fence)
	}
}

// Transactions of hosts that wait for each other in a circle end: one of them
// with ErrStale, without a trace, and both go on.
func TestCircle(t *testing.T) {
	dbs := replicas(t)
	var rooms [2]session.Change
	var txs [2]*sql.Tx
	for i := range rooms {
		rooms[i] = commit(t, dbs[0].Sessions(), spawn("p"))
	}
	for i := range txs {
		tx, err := dbs[i].SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		txs[i] = tx
		commit(t, dbs[i].In(tx).Sessions(), session.Change{Session: rooms[i].Session, End: true})
	}
	errs := atOnce(2, func(i int) error {
		in := dbs[i].In(txs[i]).Sessions()
		_, err := in.Commit(t.Context(), session.Change{Session: rooms[1-i].Session, End: true})
		if err != nil { // what it waited for is the other's: let it have ours, too
			_, loading := in.Load(t.Context(), session.Address{Session: rooms[i].Session.ID})
			return errors.Join(err, loading, txs[i].Rollback())
		}
		return txs[i].Commit()
	})
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), session.ErrStale) || errors.Is(errors.Join(errs...), session.ErrNotFound) {
		t.Errorf("got %v, want one ErrStale", errs)
	}
}

// Callers who delete, end, touch and open the same few sessions from two
// replicas never meet an error that the store does not name.
func TestStorm(t *testing.T) {
	dbs := replicas(t)
	var rooms []session.Change
	for range 4 {
		rooms = append(rooms, commit(t, dbs[0].Sessions(), spawn("p")))
	}
	errs := atOnce(40, func(i int) error {
		store := dbs[i%2].Sessions()
		r, other := rooms[i%4], rooms[(i+1)%4]
		a := session.Address{Session: r.Session.ID, Conversation: r.Conversation.ID}
		for n := range 10 {
			var c session.Change
			switch (i + n) % 5 {
			case 0:
				if err := store.Touch(t.Context(), a); err != nil && !errors.Is(err, session.ErrStale) {
					return err
				}
				continue
			case 1:
				snap, err := store.Load(t.Context(), a)
				if errors.Is(err, session.ErrNotFound) {
					continue
				} else if err != nil {
					return err
				}
				c = session.Change{Session: &snap.Session, End: true, Expect: []session.Guard{{Sandbox: snap.Sandbox.ID, Version: snap.Sandbox.Version}}}
			case 2:
				c = spawn("p")
				c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: 30}}
			case 3:
				snap, err := store.Load(t.Context(), a)
				if errors.Is(err, session.ErrNotFound) {
					continue
				} else if err != nil {
					return err
				}
				snap.Sandbox.State, snap.Sandbox.Generation = sandbox.Creating, snap.Sandbox.Generation+1
				c = session.Change{Sandbox: &snap.Sandbox, Expect: []session.Guard{{Session: r.Session.ID, Version: snap.Session.Version}}}
			case 4:
				if n < 8 {
					continue
				}
				c = session.Change{Delete: []session.Address{{Session: r.Session.ID}, {Session: other.Session.ID}}}
			}
			_, err := store.Commit(t.Context(), c)
			if err != nil && !errors.Is(err, session.ErrStale) && !errors.As(err, new(*session.LimitError)) && !errors.As(err, new(*access.FieldError)) {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
