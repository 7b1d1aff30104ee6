package sessiontest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
)

func ExampleFaulty() {
	db := memory.New(nil)
	store, _ := sessiontest.Faulty(db.Sessions(), db.Leases(), func(c sessiontest.Call) sessiontest.Fault {
		return sessiontest.Fault{Lose: c.Method == sessiontest.Commit && c.Nth == 1}
	})
	_, err := store.Commit(context.Background(), opened("s1"))
	fmt.Println("unknown:", errors.Is(err, session.ErrUnknown))
	s, err := store.Load(context.Background(), session.Address{Session: "s1"})
	fmt.Println("and done:", s.Session.ID, err)
	// Output:
	// unknown: true
	// and done: s1 <nil>
}

// opened is the change that opens a session.
func opened(id session.ID) session.Change {
	return session.Change{
		Session: &session.Session{ID: id, Owner: "alice"},
		Sandbox: &sandbox.Row{ID: "b-" + sandbox.ID(id), Session: id},
	}
}

// Without faults the wrappers are stores as good as those they wrap.
func TestFaultlessStore(t *testing.T) {
	sessiontest.TestStore(t, func(_ *testing.T, clock *sessiontest.Clock) session.Store {
		db := memory.New(&memory.Options{Now: clock.Now})
		store, _ := sessiontest.Faulty(db.Sessions(), db.Leases(), nil)
		return store
	}, nil)
}

func TestFaultlessLeases(t *testing.T) {
	sessiontest.TestLeases(t, func(_ *testing.T, clock *sessiontest.Clock) session.Leases {
		db := memory.New(&memory.Options{Now: clock.Now})
		_, leases := sessiontest.Faulty(db.Sessions(), db.Leases(), nil)
		return leases
	}, nil)
}

var errFault = errors.New("test: a fault")

func TestFaultsOfACommit(t *testing.T) {
	for _, c := range []struct {
		rule  string
		fault func(shut chan struct{}) sessiontest.Fault
		want  error
		done  bool
	}{
		{"one that fails is not made", func(chan struct{}) sessiontest.Fault { return sessiontest.Fault{Fail: errFault} }, errFault, false},
		{"one that is held is not made where its context ends first", func(shut chan struct{}) sessiontest.Fault { return sessiontest.Fault{Hold: shut} }, context.DeadlineExceeded, false},
		{"one whose reply is held was made, for all that its caller knows", func(shut chan struct{}) sessiontest.Fault { return sessiontest.Fault{HoldReply: shut} }, session.ErrUnknown, true},
		{"one whose reply is lost was made, for all that its caller knows", func(chan struct{}) sessiontest.Fault { return sessiontest.Fault{Lose: true} }, session.ErrUnknown, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, fault := memory.New(nil), c.fault(make(chan struct{}))
				store, _ := sessiontest.Faulty(db.Sessions(), db.Leases(), func(sessiontest.Call) sessiontest.Fault { return fault })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := store.Commit(ctx, opened("s1")); !errors.Is(err, c.want) {
					t.Errorf("Commit: error %v, want %v", err, c.want)
				}
				if _, err := db.Sessions().Load(t.Context(), session.Address{Session: "s1"}); (err == nil) != c.done {
					t.Errorf("done %v, want %v", err == nil, c.done)
				}
			})
		})
	}
}

// Every method is put to the script, numbered, and what fails is not done.
func TestEveryMethodCanFail(t *testing.T) {
	db := memory.New(nil)
	var seen []sessiontest.Method
	store, leases := sessiontest.Faulty(db.Sessions(), db.Leases(), func(c sessiontest.Call) sessiontest.Fault {
		seen = append(seen, c.Method)
		if c.Seq != len(seen) || c.Nth != 1 {
			t.Errorf("%s is number %d and its %d., want %d and its first", c.Method, c.Seq, c.Nth, len(seen))
		}
		return sessiontest.Fault{Fail: errFault}
	})
	ctx := t.Context()
	for m, err := range map[sessiontest.Method]error{
		sessiontest.Load:         second(store.Load(ctx, session.Address{Session: "s1"})),
		sessiontest.Commit:       second(store.Commit(ctx, opened("s1"))),
		sessiontest.List:         second(store.List(ctx, session.ListQuery{})),
		sessiontest.Touch:        store.Touch(ctx, session.Address{Session: "s1"}),
		sessiontest.Known:        second(store.Known(ctx, nil)),
		sessiontest.Names:        second(store.Names(ctx, "")),
		sessiontest.Missing:      second(store.Missing(ctx, session.MissingQuery{Provider: "p", Limit: 1})),
		sessiontest.Stored:       second(store.Stored(ctx, "", 1)),
		sessiontest.Charged:      store.StorageCharged(ctx, nil),
		sessiontest.Owned:        second(store.Owned(ctx, session.PurgeTarget{}, 1)),
		sessiontest.Environments: second(store.Environments(ctx, session.EnvironmentQuery{})),
		sessiontest.Acquire:      second(leases.Acquire(ctx, session.Lease{Kind: session.LeaseSweep, Name: "n", Holder: "h", For: time.Minute})),
		sessiontest.Renew:        second(leases.Renew(ctx, session.Lease{})),
		sessiontest.Release:      leases.Release(ctx, session.Lease{}),
		sessiontest.Expired:      second(leases.Expired(ctx, 1)),
		sessiontest.Works:        second(leases.Works(ctx, "c", 1, session.Lease{}, 1)),
		sessiontest.Held:         second(leases.Held(ctx, session.LeaseSweep, "n")),
		sessiontest.Forget:       second(leases.Forget(ctx, time.Hour, 1)),
	} {
		if !errors.Is(err, errFault) {
			t.Errorf("%s: error %v, want the fault", m, err)
		}
	}
	for _, err := range store.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Limit: 1}) {
		if !errors.Is(err, errFault) {
			t.Errorf("Due: error %v, want the fault", err)
		}
	}
	if len(seen) != 19 {
		t.Errorf("the script was asked about %d calls, want 19: %v", len(seen), seen)
	}
	if _, err := db.Sessions().Load(ctx, session.Address{Session: "s1"}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a commit that failed was made: %v", err)
	}
	if _, err := db.Leases().Held(ctx, session.LeaseSweep, "n"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a lease that was refused is held: %v", err)
	}
}

func second[A any](_ A, err error) error { return err }

// A stream fails after so many items.
func TestDueFailsMidway(t *testing.T) {
	db := memory.New(nil)
	store, _ := sessiontest.Faulty(db.Sessions(), db.Leases(), func(c sessiontest.Call) sessiontest.Fault {
		if c.Method == sessiontest.Due {
			return sessiontest.Fault{Fail: errFault, After: 2}
		}
		return sessiontest.Fault{}
	})
	for _, id := range []session.ID{"s1", "s2", "s3"} {
		c := opened(id)
		c.Sandbox.State = sandbox.Destroying
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	var fault error
	for _, err := range store.Due(t.Context(), session.DueQuery{Kinds: session.DueDestroying, Limit: 10}) {
		if fault = err; err == nil {
			n++
		}
	}
	if n != 2 || !errors.Is(fault, errFault) {
		t.Errorf("%d items, then %v, want 2 and the fault", n, fault)
	}
}
