package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// populate fills a database as that of a large installation is: sessions with
// a sandbox of their own, sessions that borrow, conversations, tombstones and works.
func populate(t testing.TB, db *postgres.DB, n int) {
	t.Helper()
	for _, text := range []string{
		`INSERT INTO bunkroom_environments (id, version, project, created_at) SELECT 'e' || i, 1, 'p' || i % 50, i FROM generate_series(1, $1::bigint) AS i WHERE i % 20 = 0`,
		`INSERT INTO bunkroom_sessions (id, version, project, owner, created_at, last_active_at) SELECT 's' || i, 1, 'p' || i % 50, 'u' || i % 500, i, i FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_sessions (id, version, project, owner, environment_id, created_at, last_active_at)
			SELECT 't' || i, 1, 'p' || i % 50, 'u' || i % 500, 'e' || i, i, i FROM generate_series(1, $1::bigint) AS i WHERE i % 20 = 0`,
		`INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, created_at, last_active_at)
			SELECT 'c' || i, 's' || i, 'p' || i % 50, 'p' || i % 50, 'u' || i % 500, i, i FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_sandboxes (id, version, session_id, state, generation, incarnation, name, since)
			SELECT 'b' || i, 1, 's' || i, CASE i % 4 WHEN 0 THEN 'live' ELSE 'none' END, 1, 'i' || i, 'bkr-g1', i FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_sandboxes (id, version, environment_id, state, since) SELECT 'f' || i, 1, 'e' || i, 'live', i FROM generate_series(1, $1::bigint) AS i WHERE i % 20 = 0`,
		`INSERT INTO bunkroom_outbox (sandbox_id, generation, name, provider, payer, deployment, since)
			SELECT 'b' || i, 1, '', '', '', '', i FROM generate_series(1, $1::bigint) AS i WHERE i % 10 = 0`,
		`INSERT INTO bunkroom_leases (kind, name, holder, sandbox_id, conversation, turn, fence, until_at) SELECT 1, 's' || i, 'w', 'b' || i, 'c' || i, i % 3, 1, i FROM generate_series(1, $1::bigint) AS i WHERE i % 4 = 0`,
		`INSERT INTO bunkroom_fences (kind, name, fence, used_on) SELECT 1, 's' || i, 1, 30000 + i % 1000 FROM generate_series(1, $1::bigint) AS i`,
	} {
		run(t, db, text, n)
	}
	run(t, db, "ANALYZE")
}

// What a request or a chore asks for is found by indexes in a large database,
// by the statements as they are sent: no table is read from end to end. (Of
// two indexes that would do, it does not matter which.)
func TestPlansAtScale(t *testing.T) {
	db, spy := spied(t, "exec")
	populate(t, db, 20_000)
	store := db.Sessions()
	var keys []sandbox.TombstoneKey
	for range session.MaxKnown {
		keys = append(keys, sandbox.TombstoneKey{Sandbox: "b40", Generation: 1, Incarnation: "i40"})
	}
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
	for _, c := range []struct {
		what    string
		do      func() error
		indexes []string
	}{
		{"load by session", load(session.Address{Session: "s40"}), []string{"bunkroom_sessions_", "bunkroom_environments_", "bunkroom_sandboxes_session_id_key", "bunkroom_sandboxes_environment_id_key"}},
		{"load by conversation", load(session.Address{Conversation: "c40"}), []string{"bunkroom_conversations_pkey", "bunkroom_sandboxes_session_id_key", "bunkroom_sandboxes_environment_id_key"}},
		{"load by both", load(session.Address{Session: "t40", Conversation: "c40"}), []string{"bunkroom_sandboxes_session_id_key", "bunkroom_sandboxes_environment_id_key"}},
		{"load by environment", load(session.Address{Environment: "e40"}), []string{"bunkroom_environments_", "bunkroom_sandboxes_environment_id_key"}},
		{"list", func() error {
			_, err := store.List(t.Context(), session.ListQuery{Project: "p3", Limit: 20})
			return err
		}, []string{"bunkroom_sandboxes_session_id_key", "bunkroom_sandboxes_environment_id_key"}},
		{"environments", func() error {
			_, err := store.Environments(t.Context(), session.EnvironmentQuery{Project: "p40", Limit: 20})
			return err
		}, []string{"bunkroom_environments_open", "bunkroom_sandboxes_environment_id_key"}},
		{"known", func() error { _, err := store.Known(t.Context(), keys); return err }, []string{"bunkroom_sandboxes_pkey", "bunkroom_outbox_pkey"}},
		{"missing", func() error {
			_, err := store.Missing(t.Context(), session.MissingQuery{Provider: "p", Lately: time.Hour, Limit: 6})
			return err
		}, []string{"bunkroom_sandboxes_missing", "bunkroom_sandboxes_lost"}},
		{"due live", due(session.DueLive), []string{"bunkroom_sandboxes_live"}},
		{"due idle", due(session.DueIdle), []string{"bunkroom_sandboxes_live", "bunkroom_sessions_"}},
		{"due creating", due(session.DueCreating), []string{"bunkroom_sandboxes_creating"}},
		{"due destroying", due(session.DueDestroying), []string{"bunkroom_sandboxes_destroying"}},
		{"due tombstones", due(session.DueTombstones), []string{"bunkroom_outbox_due", "bunkroom_sandboxes_pkey"}},
		{"owned by a session", owned(session.PurgeTarget{Session: "s40", History: true}), []string{"bunkroom_sessions_", "bunkroom_conversations_"}},
		{"owned by a project", owned(session.PurgeTarget{Project: "p3", History: true}), []string{"bunkroom_sessions_project", "bunkroom_environments_project", "bunkroom_conversations_project"}},
		{"owned by a user", owned(session.PurgeTarget{User: "u3", History: true}), []string{"bunkroom_sessions_owner", "bunkroom_conversations_owner"}},
		{"what is forgotten", func() error {
			_, err := db.Leases().Forget(t.Context(), time.Hour, 100)
			return err
		}, []string{"bunkroom_fences_used", "bunkroom_leases_"}},
		{"works of turns", func() error {
			_, err := db.Leases().Works(t.Context(), "c40", 5, session.Lease{Turn: 1}, 10)
			return err
		}, []string{"bunkroom_leases_turns"}},
		{"held", func() error {
			_, err := db.Leases().Held(t.Context(), session.LeaseWork, "s40")
			if err != nil && strings.Contains(err.Error(), "not found") {
				return nil
			}
			return err
		}, []string{"bunkroom_leases_pkey"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			spy.during(func() { // prepares what there is to prepare
				if err := c.do(); err != nil {
					t.Fatal(err)
				}
			})
			plan := spy.plans(t, db, func() {
				if err := c.do(); err != nil {
					t.Fatal(err)
				}
			})
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("a table is read from end to end:\n%s", plan)
			}
			for _, index := range c.indexes {
				if !strings.Contains(plan, index) {
					t.Errorf("want index %s:\n%s", index, plan)
				}
			}
		})
	}
}

// plans explains the queries that are sent while do runs, and what begins with any of also.
func (s *spy) plans(t *testing.T, db *postgres.DB, do func(), also ...string) string {
	t.Helper()
	s.during(do)
	s.mu.Lock()
	sent := s.queries
	s.mu.Unlock()
	var plan strings.Builder
	for _, q := range sent {
		if !slices.ContainsFunc(append(also, "SELECT"), func(begin string) bool { return strings.HasPrefix(strings.TrimSpace(q.SQL), begin) }) {
			continue
		}
		rows, err := db.SQL().QueryContext(t.Context(), "EXPLAIN "+q.SQL, q.Args...)
		if err != nil {
			t.Fatalf("EXPLAIN %s: %v", q.SQL, err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(line + "\n")
		}
		rows.Close()
	}
	return plan.String()
}
