package memory_test

import (
	"encoding/base64"
	"errors"
	"strings"
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
	_, held := leases.Held(t.Context(), session.LeaseHost, "")
	for _, c := range []struct {
		rule, field string
		err         error
	}{
		{"a session has an id", "Session", commit(session.Change{Session: &session.Session{Owner: "alice"}})},
		{"a conversation has an id", "Conversation", commit(session.Change{Conversation: &session.Conversation{Owner: "alice"}})},
		{"a sandbox has an id", "Sandbox", commit(session.Change{Sandbox: &sandbox.Row{Session: "s1"}})},
		{"a sandbox belongs to something", "Sandbox", commit(session.Change{Sandbox: &sandbox.Row{ID: "b1"}})},
		{"a sandbox belongs to one thing", "Sandbox", commit(session.Change{Sandbox: &sandbox.Row{ID: "b1", Session: "s1", Environment: "e1"}})},
		{"an environment has an id", "Environment", commit(session.Change{Environment: &session.Environment{Project: "p"}})},
		{"an environment has a project", "Environment", commit(session.Change{Environment: &session.Environment{ID: "e1"}})},
		{"who borrows has a project", "Session", commit(session.Change{Session: &session.Session{ID: "s1", Owner: "alice", Environment: "e1"}})},
		{"a guard names a row", "Expect", commit(session.Change{Expect: []session.Guard{{}}})},
		{"a guard names one row", "Expect", commit(session.Change{Expect: []session.Guard{{Session: "s1", Sandbox: "b1"}}})},
		{"a limit has a kind", "Limits", commit(session.Change{Limits: []session.Limit{{Scope: "alice", Max: 1}}})},
		{"a list is somebody's", "Owner", list},
		{"what is due is bounded", "Limit", due(0)},
		{"a lease has a kind", "Kind", lease(func(l *session.Lease) { l.Kind = 0 })},
		{"a lease is on something", "Name", lease(func(l *session.Lease) { l.Name = "" })},
		{"a lease is somebody's", "Holder", lease(func(l *session.Lease) { l.Holder = "" })},
		{"a lease lasts", "For", lease(func(l *session.Lease) { l.For = 0 })},
		{"a lease that is looked for has a name", "Name", held},
		{"expired leases are bounded", "limit", expired},
	} {
		var fe *access.FieldError
		if !errors.As(c.err, &fe) || fe.Field != c.field {
			t.Errorf("%s: got error %v, want a *access.FieldError for %s", c.rule, c.err, c.field)
		}
	}
}

// A page token says of which form it is, so that one of another form is
// refused and not read as something else. (The suite can't know the form.)
func TestTokensOfAnotherVersionAreRefused(t *testing.T) {
	store := memory.New(nil).Sessions()
	for _, id := range []session.EnvironmentID{"e1", "e2"} {
		if _, err := store.Commit(t.Context(), session.Change{Environment: &session.Environment{ID: id, Project: "p"}}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := store.Environments(t.Context(), session.EnvironmentQuery{Project: "p", Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("got %+v, %v", page, err)
	}
	text, err := base64.RawURLEncoding.DecodeString(page.Next)
	if err != nil || !strings.HasPrefix(string(text), "1 ") {
		t.Fatalf("token %q (%v) does not begin with its version", text, err)
	}
	after := func(text string) error {
		_, err := store.Environments(t.Context(), session.EnvironmentQuery{Project: "p", Limit: 1, After: base64.RawURLEncoding.EncodeToString([]byte(text))})
		return err
	}
	if err := after(string(text)); err != nil {
		t.Errorf("the token itself: %v", err)
	}
	for _, bad := range []string{"2" + string(text)[1:], string(text)[2:], "1 now e1", "1 5 "} {
		var fe *access.FieldError
		if err := after(bad); !errors.As(err, &fe) || fe.Field != "After" {
			t.Errorf("%q: got error %v, want a *access.FieldError for After", bad, err)
		}
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
