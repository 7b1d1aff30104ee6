package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// A page takes two queries whatever it holds, an empty one takes one, and a
// snapshot is one. (S-35)
func TestQueriesPerCall(t *testing.T) {
	db, spy := spied(t, nil)
	store := db.Sessions()
	queries := func(what string, want int, do func() error) {
		t.Helper()
		spy.reset(nil, nil)
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := spy.seen(); len(got) != want {
			t.Errorf("%s: %d statements, want %d: %s", what, len(got), want, strings.Join(got, "\n\t"))
		}
	}
	list := func() error {
		_, err := store.List(t.Context(), session.ListQuery{Project: "p", Limit: 100})
		return err
	}
	queries("an empty list", 1, list)
	var last session.Change
	for n := range 60 {
		last = spawn("p")
		commit(t, store, last)
		for range n % 4 {
			v := *last.Conversation
			v.ID = session.ConversationID(id.New())
			commit(t, store, session.Change{Conversation: &v})
		}
		if n == 0 || n == 59 {
			queries(fmt.Sprintf("a list of %d", n+1), 2, list)
		}
	}
	queries("environments", 1, func() error {
		_, err := store.Environments(t.Context(), session.EnvironmentQuery{Project: "p", Limit: 100})
		return err
	})
	queries("what is known of many machines", 1, func() error {
		_, err := store.Known(t.Context(), make([]sandbox.TombstoneKey, session.MaxKnown))
		return err
	})
	for _, target := range []session.PurgeTarget{{Session: "s", History: true}, {Project: "p"}, {Project: "p", History: true}, {User: "alice"}, {User: "alice", History: true}} {
		queries(fmt.Sprintf("owned %+v", target), 1, func() error {
			_, err := store.Owned(t.Context(), target, 10)
			return err
		})
	}
	queries("held", 1, func() error {
		if _, err := db.Leases().Held(t.Context(), session.LeaseHost, "h"); !errors.Is(err, session.ErrNotFound) {
			return err
		}
		return nil
	})
	for _, a := range []session.Address{
		{Session: last.Session.ID}, {Conversation: last.Conversation.ID}, {Session: last.Session.ID, Conversation: last.Conversation.ID},
	} {
		queries(fmt.Sprintf("load %+v", a), 1, func() error {
			_, err := store.Load(t.Context(), a)
			return err
		})
	}
}

// What bun writes into a statement's text can't break out of it, and what it
// could not write faithfully is refused rather than turned into another id.
func TestListQuotes(t *testing.T) {
	db := migrated(t, nil)
	for _, project := range []access.ProjectID{"it's", `back\slash`, "a?b", "'; DROP TABLE bunkroom_sessions; --", "ü\n", "%", "{}"} {
		c := spawn(project)
		commit(t, db.Sessions(), c)
		page, err := db.Sessions().List(t.Context(), session.ListQuery{Project: project, Limit: 10})
		if err != nil || len(page.Items) != 1 || page.Items[0].Session.ID != c.Session.ID || len(page.Items[0].Conversations) != 1 {
			t.Errorf("project %q: got %+v, %v", project, page.Items, err)
		}
	}
	for _, q := range []session.ListQuery{
		{Project: "p\x00"}, {Project: "p\xff"}, {Owner: "o\x00"}, {Owner: "o\xff"}, {Owner: "o", Session: "s\xff"},
		{Project: access.ProjectID(strings.Repeat("p", access.MaxID+1))},
	} {
		q.Limit = 1
		if _, err := db.Sessions().List(t.Context(), q); !errors.As(err, new(*access.FieldError)) {
			t.Errorf("%+v: got %v, want a FieldError", q, err)
		}
	}
}

// Hosts that can't be anybody's are passed over; quotes in others do no harm.
func TestDueQuotesHosts(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Host = sandbox.Destroying, "h'1"
	commit(t, db.Sessions(), c)
	n := 0
	for _, err := range db.Sessions().Due(t.Context(), session.DueQuery{Kinds: session.DueDestroying, Hosts: []string{"", "x\xff", "') OR ('' = '", "h'1"}, Limit: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d due, want 1", n)
	}
}
