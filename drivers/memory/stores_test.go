package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// What no decider asks for is refused by field, before anything is written.
func TestBadInputIsRefusedByField(t *testing.T) {
	db := memory.New(nil)
	store, leases := db.Sessions(), db.Leases()
	commit := func(c session.Change) error {
		_, err := store.Commit(t.Context(), c)
		return err
	}
	due := func(limit int) error {
		for _, err := range store.Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones, Limit: limit}) {
			return err
		}
		return nil
	}
	lease := func(edit func(*session.Lease)) error {
		l := session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "r1", For: time.Minute}
		edit(&l)
		_, err := leases.Acquire(t.Context(), l)
		_, again := leases.Renew(t.Context(), l)
		if again == nil || err == nil || again.Error() != err.Error() {
			t.Errorf("Acquire refuses %+v with %v, Renew with %v", l, err, again)
		}
		return err
	}
	_, expired := leases.Expired(t.Context(), 0)
	_, list := store.List(t.Context(), session.ListQuery{Limit: 1})
	for _, c := range []struct {
		rule, field string
		err         error
	}{
		{"a session has an id", "Session", commit(session.Change{Session: &session.Session{Owner: "alice"}})},
		{"a conversation has an id", "Conversation", commit(session.Change{Conversation: &session.Conversation{Owner: "alice"}})},
		{"a sandbox has an id", "Sandbox", commit(session.Change{Sandbox: &sandbox.Row{Session: "s1"}})},
		{"a sandbox belongs to something", "Sandbox", commit(session.Change{Sandbox: &sandbox.Row{ID: "b1"}})},
		{"a sandbox belongs to one thing", "Sandbox", commit(session.Change{Sandbox: &sandbox.Row{ID: "b1", Session: "s1", Environment: "e1"}})},
		{"a guard names a row", "Expect", commit(session.Change{Expect: []session.Guard{{}}})},
		{"a guard names one row", "Expect", commit(session.Change{Expect: []session.Guard{{Session: "s1", Sandbox: "b1"}}})},
		{"a limit has a kind", "Limits", commit(session.Change{Limits: []session.Limit{{Scope: "alice", Max: 1}}})},
		{"a list is somebody's", "Owner", list},
		{"what is due is bounded", "Limit", due(0)},
		{"a lease has a kind", "Kind", lease(func(l *session.Lease) { l.Kind = 0 })},
		{"a lease is on something", "Name", lease(func(l *session.Lease) { l.Name = "" })},
		{"a lease is somebody's", "Holder", lease(func(l *session.Lease) { l.Holder = "" })},
		{"a lease lasts", "For", lease(func(l *session.Lease) { l.For = 0 })},
		{"expired leases are bounded", "limit", expired},
	} {
		var fe *access.FieldError
		if !errors.As(c.err, &fe) || fe.Field != c.field {
			t.Errorf("%s: got error %v, want a *access.FieldError for %s", c.rule, c.err, c.field)
		}
	}
}

// An environment has at most one sandbox, as a session has.
func TestOneSandboxPerEnvironment(t *testing.T) {
	store := memory.New(nil).Sessions()
	insert := func(id sandbox.ID) error {
		_, err := store.Commit(t.Context(), session.Change{Sandbox: &sandbox.Row{ID: id, Environment: "e1"}})
		return err
	}
	if err := insert("b1"); err != nil {
		t.Fatal(err)
	}
	if err := insert("b2"); !errors.Is(err, session.ErrStale) {
		t.Errorf("a second one: got error %v, want ErrStale", err)
	}
}

// The stores of one DB date by its clock, and two DBs share nothing.
func TestClockAndIsolation(t *testing.T) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 999, time.FixedZone("CEST", 7200))
	want := time.Date(2026, 5, 6, 10, 0, 0, 0, time.UTC)
	one, two := memory.New(&memory.Options{Now: func() time.Time { return noon }}), memory.New(&memory.Options{})
	row, err := one.Mounts().GetOrCreate(t.Context(), mount.Row{ID: "m1", Scope: "user:alice", Slug: "s"})
	if err != nil || row.CreatedAt != want || row.UpdatedAt != want {
		t.Errorf("mount: got %+v, %v, want it dated %v", row, err, want)
	}
	l, err := one.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "chore", Holder: "r1", For: time.Minute})
	if err != nil || l.Until != want.Add(time.Minute) {
		t.Errorf("lease: got %+v, %v, want it until %v", l, err, want.Add(time.Minute))
	}
	if _, err := two.Mounts().Find(t.Context(), "user:alice", "s"); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("another DB has the mount (%v)", err)
	}
	if _, err := one.Mounts().GetOrCreate(t.Context(), mount.Row{ID: "m1", Scope: "user:bob", Slug: "s"}); err == nil {
		t.Error("two mounts have one id, and so one place for their files")
	}
}
