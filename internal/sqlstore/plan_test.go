package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// What a request or a chore asks for is found by indexes, by the statements as
// they are sent: no table is read from end to end, and what is kept in the
// order of an index is not sorted.
func TestPlans(t *testing.T) {
	db, spy := spied(t, nil)
	store := db.Sessions()
	due := func(k session.DueKind) func() error {
		return func() error {
			for _, err := range store.Due(t.Context(), session.DueQuery{Kinds: k, Limit: 10, Idle: time.Hour, Unseen: time.Hour, Hosts: []string{"h"}}) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	load := func(a session.Address) func() error {
		return func() error { _, err := store.Load(t.Context(), a); return err }
	}
	owned := func(target session.PurgeTarget) func() error {
		return func() error { _, err := store.Owned(t.Context(), target, 100); return err }
	}
	remove := func(a session.Address) func() error {
		return func() error {
			_, err := store.Commit(t.Context(), session.Change{Delete: []session.Address{a}})
			return err
		}
	}
	const ownSandbox, lentSandbox = "sqlite_autoindex_bunkroom_sandboxes_2", "sqlite_autoindex_bunkroom_sandboxes_3"
	for _, c := range []struct {
		what    string
		do      func() error
		indexes []string
		sorted  bool // it may be: what is sorted is a page
	}{
		{"load by session", load(session.Address{Session: "s"}), []string{"SEARCH s USING PRIMARY KEY", "SEARCH e USING PRIMARY KEY", ownSandbox, lentSandbox}, false},
		{"load by conversation", load(session.Address{Conversation: "c"}), []string{"SEARCH c USING PRIMARY KEY", ownSandbox, lentSandbox}, false},
		{"load by both", load(session.Address{Session: "s", Conversation: "c"}), []string{"SEARCH s USING PRIMARY KEY", ownSandbox, lentSandbox}, false},
		{"load by environment", load(session.Address{Environment: "e"}), []string{"SEARCH e USING PRIMARY KEY", lentSandbox}, false},
		{"list", func() error {
			_, err := store.List(t.Context(), session.ListQuery{Project: "p", Limit: 20})
			return err
		}, []string{"bunkroom_sessions_open_project", ownSandbox, lentSandbox}, false},
		{"environments", func() error {
			_, err := store.Environments(t.Context(), session.EnvironmentQuery{Project: "p", Limit: 20})
			return err
		}, []string{"bunkroom_environments_open", lentSandbox}, false},
		{"known", func() error {
			_, err := store.Known(t.Context(), make([]sandbox.TombstoneKey, session.MaxKnown))
			return err
		}, []string{"sqlite_autoindex_bunkroom_sandboxes_1", "SEARCH o USING PRIMARY KEY (sandbox_id=? AND generation=? AND incarnation=?)"}, false},
		{"missing", func() error {
			_, err := store.Missing(t.Context(), session.MissingQuery{Provider: "p", Lately: time.Hour, Limit: 6})
			return err
		}, []string{"bunkroom_sandboxes_missing (provider=?)", "bunkroom_sandboxes_lost (provider=? AND since>?)"}, false},
		{"due live", due(session.DueLive), []string{"bunkroom_sandboxes_live (since<?)"}, false},
		{"due idle", due(session.DueIdle), []string{"bunkroom_sandboxes_live", "SEARCH s USING PRIMARY KEY"}, false},
		{"due creating", due(session.DueCreating), []string{"bunkroom_sandboxes_creating"}, false},
		{"due destroying", due(session.DueDestroying), []string{"bunkroom_sandboxes_destroying"}, false},
		{"due tombstones", due(session.DueTombstones), []string{"o USING INDEX bunkroom_outbox_due", "sqlite_autoindex_bunkroom_sandboxes_1"}, false},
		{"owned by a session", owned(session.PurgeTarget{Session: "s", History: true}), []string{"bunkroom_conversations_session", "bunkroom_sessions USING PRIMARY KEY"}, true},
		{"owned by a project", owned(session.PurgeTarget{Project: "p", History: true}), []string{"bunkroom_sessions_project", "bunkroom_environments_project", "bunkroom_conversations_project"}, true},
		{"owned by a user", owned(session.PurgeTarget{User: "u", History: true}), []string{"bunkroom_sessions_owner", "bunkroom_conversations_owner"}, true},
		{"held", func() error {
			_, err := db.Leases().Held(t.Context(), session.LeaseWork, "s")
			return err
		}, []string{"SEARCH l USING PRIMARY KEY (kind=? AND name=?)"}, true},
		{"works of turns", func() error {
			_, err := db.Leases().Works(t.Context(), "c", 5, session.Lease{Turn: 1}, 10)
			return err
		}, []string{"bunkroom_leases_turns (conversation=?"}, false},
		{"a work for a turn", func() error {
			l := session.Lease{Kind: session.LeaseWork, Name: "s", Holder: "w", Payer: "p", Slots: 1, For: time.Minute, Conversation: "c", Turn: 1}
			if _, err := db.Leases().Acquire(t.Context(), l); !errors.Is(err, session.ErrFenced) {
				return err
			}
			return nil
		}, []string{"SEARCH l USING PRIMARY KEY (kind=? AND name=?)"}, false},
		{"what is forgotten", func() error {
			_, err := db.Leases().Forget(t.Context(), time.Hour, 100)
			return err
		}, []string{"bunkroom_fences_used (used_on<?)", "SEARCH l USING PRIMARY KEY (kind=? AND name=?)"}, false},
		{"an idle stop", func() error {
			c := spawn("p")
			c.Idle = c.Sandbox.ID
			_, err := store.Commit(t.Context(), c)
			return err
		}, []string{"bunkroom_leases_sandbox"}, false},
		{"a session that goes", remove(session.Address{Session: "s"}), []string{"SEARCH bunkroom_sessions USING PRIMARY KEY", "SEARCH bunkroom_fences USING PRIMARY KEY"}, true},
		{"an environment that goes", remove(session.Address{Environment: "e"}), []string{"bunkroom_sessions_environment", "SEARCH bunkroom_environments USING PRIMARY KEY"}, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			spy.reset(nil, nil)
			if err := c.do(); err != nil && !errors.Is(err, session.ErrNotFound) {
				t.Fatal(err)
			}
			lines := plan(t, db, spy.seen())
			all := strings.Join(lines, "\n")
			for _, line := range lines {
				what, scanned := strings.CutPrefix(line, "SCAN ")
				switch {
				case !scanned, strings.Contains(what, "VIRTUAL TABLE"), strings.Contains(all, "CO-ROUTINE "+what): // what was asked for, and a page of what was found
				case strings.HasPrefix(what, "b USING INDEX bunkroom_sandboxes_"), what == "o USING INDEX bunkroom_outbox_due": // in its order, until there is a page of it
				default:
					t.Errorf("%s: a table is read from end to end:\n%s", line, all)
				}
			}
			if strings.Contains(all, "TEMP B-TREE") && !c.sorted {
				t.Errorf("something is sorted:\n%s", all)
			}
			for _, index := range c.indexes {
				if !strings.Contains(all, index) {
					t.Errorf("want %s:\n%s", index, all)
				}
			}
		})
	}
}

// A page of what is due is found by its keys, whatever else is due, and also
// where the database has counted what there is: it is not asked for an order,
// in which a page of the outbox is nowhere but in all of it.
func TestPagesOfDueArePlanned(t *testing.T) {
	db, spy := spied(t, nil)
	store := db.Sessions()
	for i := range 20 {
		c := spawn("p")
		c.Sandbox.State = sandbox.Live
		for g := range int64(5) {
			c.Bury = append(c.Bury, sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Sandbox: c.Sandbox.ID, Generation: g + 1}, Name: fmt.Sprint(i), Payer: "p"})
		}
		commit(t, store, c)
	}
	for _, counted := range []bool{false, true} {
		if counted {
			if _, err := db.SQL().ExecContext(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		for kind, index := range map[session.DueKind]string{
			session.DueTombstones: "SEARCH o USING PRIMARY KEY (sandbox_id=?)", session.DueLive: "SEARCH b USING INDEX sqlite_autoindex_bunkroom_sandboxes_1 (id=?)",
		} {
			spy.reset(nil, nil)
			for _, err := range store.Due(t.Context(), session.DueQuery{Kinds: kind, Limit: 10_000}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			seen := spy.seen()
			if len(seen) != 2 {
				t.Fatalf("kind %b: %d statements, want one for the keys and one for the page", kind, len(seen))
			}
			all := strings.Join(plan(t, db, seen[1:]), "\n")
			if strings.Contains(all, "TEMP B-TREE") || !strings.Contains(all, index) && (!counted || kind == session.DueTombstones) { // a small table may be read as it is
				t.Errorf("kind %b, counted %v: want %s, nothing sorted:\n%s", kind, counted, index, all)
			}
		}
	}
}

// plan is how the database goes about statements.
func plan(t *testing.T, db *sqlite.DB, statements []string) (lines []string) {
	t.Helper()
	for _, text := range statements {
		if strings.HasSuffix(text, "WHERE 0") { // takes the lock
			continue
		}
		rows, err := db.SQL().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
		if err != nil {
			t.Fatalf("EXPLAIN %s: %v", text, err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, detail)
		}
		rows.Close()
	}
	return lines
}
