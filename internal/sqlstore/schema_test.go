package sqlstore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session"
)

// columns are the columns of a table, as the database knows them.
func columns(t *testing.T, db *sqlite.DB, table string) []string {
	t.Helper()
	rows, err := db.SQL().QueryContext(t.Context(), "SELECT name FROM pragma_table_info(?)", table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		t.Fatalf("columns of %s: %v, %v", table, names, err)
	}
	return names
}

// A session is not a conversation and has no agent of its own: no column of
// sessions or sandboxes names either. (S-01)
func TestNoColumnNamesAConversationOrAgent(t *testing.T) {
	db := migrated(t, nil)
	for _, table := range []string{"bunkroom_sessions", "bunkroom_sandboxes"} {
		for _, column := range columns(t, db, table) {
			for _, word := range []string{"conversation", "agent", "thread", "chat", "page"} {
				if strings.Contains(column, word) {
					t.Errorf("%s.%s names a %s", table, column, word)
				}
			}
		}
	}
}

// No statement writes a conversation's session but the insert, REPLACE (which
// skips delete triggers) and TRUNCATE are nowhere used, and no moment is left
// to the database's idea of a time zone. (S-02, T-32, T-58)
func TestForbiddenSQL(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	migrations, err := filepath.Glob("migrations/*/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatal("no migrations", err)
	}
	forbidden := []*regexp.Regexp{
		regexp.MustCompile(`\bREPLACE\b`),
		regexp.MustCompile(`\bTRUNCATE\s+(TABLE|ONLY|bunkroom)`),
		regexp.MustCompile(`(?i)CURRENT_TIMESTAMP|\bdatetime\(|\bTIMESTAMP\b`),
		regexp.MustCompile(`UPDATE bunkroom_conversations SET[^` + "`" + `]*session`),
	}
	for _, file := range append(files, migrations...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var code []string
		for line := range strings.Lines(string(text)) {
			if before, _, _ := strings.Cut(line, "--"); !strings.HasPrefix(strings.TrimSpace(before), "//") {
				code = append(code, before)
			}
		}
		for _, f := range forbidden {
			if found := f.FindString(strings.Join(code, "\n")); found != "" {
				t.Errorf("%s: %q", file, found)
			}
		}
	}
}

// The schema itself makes impossible what no code should write.
func TestSchemaRules(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p1")
	commit(t, db.Sessions(), c)
	other := spawn("p2")
	other.Sandbox = nil
	commit(t, db.Sessions(), other)
	sid, oid := string(c.Session.ID), string(other.Session.ID)

	run(t, db, `INSERT INTO bunkroom_environments (id, version, project, created_at) VALUES ('e1', 1, 'p1', 1)`)
	run(t, db, `INSERT INTO bunkroom_sessions (id, version, project, owner, environment_id, created_at, last_active_at) VALUES ('borrower', 1, 'p1', 'o', 'e1', 1, 1)`)
	const environment = `INSERT INTO bunkroom_environments (id, version, project, created_at) VALUES (?, ?, ?, 1)`
	const borrower = `INSERT INTO bunkroom_sessions (id, version, project, owner, environment_id, created_at, last_active_at) VALUES (?, 1, ?, 'o', ?, 1, 1)`
	const conversation = `INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, created_at, last_active_at) VALUES (?, ?, ?, ?, 'o', 1, 1)`
	const sandbox = `INSERT INTO bunkroom_sandboxes (id, version, session_id, environment_id, state, since) VALUES (?, ?, ?, ?, ?, 1)`
	const lease = `INSERT INTO bunkroom_leases (kind, name, holder, fence, until_at) VALUES (?, ?, ?, 1, 1)`
	for _, bad := range []struct {
		rule string
		text string
		args []any
	}{
		{"an edge into a session of another project", conversation, []any{"c1", sid, "p2", "p2"}},
		{"an edge that hides the session's project", conversation, []any{"c2", sid, "p1", "p2"}},
		{"an edge without the session's project", conversation, []any{"c3", sid, nil, "p1"}},
		{"a project without an edge", conversation, []any{"c4", nil, "p1", "p1"}},
		{"an edge to nothing", conversation, []any{"c5", "absent", "p1", "p1"}},
		{"a second sandbox of a session", sandbox, []any{"b1", 1, sid, nil, "none"}},
		{"a sandbox of nobody", sandbox, []any{"b2", 1, nil, nil, "none"}},
		{"a sandbox of a session and an environment", sandbox, []any{"b3", 1, oid, "e1", "none"}},
		{"a sandbox of a session that is not there", sandbox, []any{"b4", 1, "absent", nil, "none"}},
		{"an unknown state", sandbox, []any{"b5", 1, oid, nil, "asleep"}},
		{"a version of 0", sandbox, []any{"b6", 0, oid, nil, "none"}},
		{"a moment that is no number", `UPDATE bunkroom_sessions SET ended_at = '2026-01-02 03:04:05' WHERE id = ?`, []any{sid}},
		{"an environment without a project", environment, []any{"e2", 1, ""}},
		{"an environment of version 0", environment, []any{"e3", 0, "p1"}},
		{"a session that borrows from another project", borrower, []any{"s1", "p2", "e1"}},
		{"a personal session that borrows", borrower, []any{"s2", "", "e1"}},
		{"a session that borrows nothing that is there", borrower, []any{"s3", "p1", "absent"}},
		{"an environment deleted under who borrows it", `DELETE FROM bunkroom_environments WHERE id = ?`, []any{"e1"}},
		{"a sandbox of an environment that is not there", sandbox, []any{"b9", 1, nil, "absent", "none"}},
		{"a second holder of a sweep", lease, []any{2, "sweep", "b"}},
	} {
		if bad.rule == "a second holder of a sweep" {
			run(t, db, lease, 2, "sweep", "a")
			run(t, db, lease, 1, "work", "a") // of work there may be several
			run(t, db, lease, 1, "work", "b")
		}
		if _, err := db.SQL().ExecContext(t.Context(), bad.text, bad.args...); err == nil || !strings.Contains(err.Error(), "constraint") {
			t.Errorf("%s: got %v, want a constraint that refuses it", bad.rule, err)
		}
	}
	run(t, db, sandbox, "b7", 1, nil, "e1", "none")
	if _, err := db.SQL().ExecContext(t.Context(), sandbox, "b8", 1, nil, "e1", "none"); err == nil {
		t.Errorf("an environment has two sandboxes")
	}
}

// What is counted and what is due is found by an index, not by reading the table.
func TestQueriesUseIndexes(t *testing.T) {
	db := migrated(t, nil)
	for query, index := range map[string]string{
		`SELECT 1 FROM bunkroom_sessions WHERE owner = 'a' AND ended_at IS NULL LIMIT 3`:                                                                                                "bunkroom_sessions_open_owner",
		`SELECT 1 FROM bunkroom_sandboxes WHERE payer = 'a' AND state IN ('creating', 'live', 'destroying')`:                                                                            "bunkroom_sandboxes_machines",
		`SELECT 1 FROM bunkroom_outbox WHERE payer = 'a'`:                                                                                                                               "bunkroom_outbox_payer",
		`SELECT 1 FROM bunkroom_conversations WHERE session_id = 'a' AND closed_at IS NULL`:                                                                                             "bunkroom_conversations_session",
		`SELECT id FROM bunkroom_sandboxes WHERE state = 'creating' AND (deadline IS NULL OR deadline <= 5) ORDER BY since, version, id`:                                                "bunkroom_sandboxes_creating",
		`SELECT id FROM bunkroom_sandboxes WHERE state = 'destroying' ORDER BY since, version, id`:                                                                                      "bunkroom_sandboxes_destroying",
		`SELECT * FROM bunkroom_outbox WHERE host = '' ORDER BY since, attempts, sandbox_id, generation, incarnation`:                                                                   "bunkroom_outbox_due",
		`SELECT * FROM bunkroom_sessions WHERE project = 'p' AND project <> '' AND ended_at IS NULL AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:          "bunkroom_sessions_open_project",
		`SELECT * FROM bunkroom_sessions WHERE project = 'p' AND project <> '' AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:                               "bunkroom_sessions_project",
		`SELECT * FROM bunkroom_sessions WHERE project = '' AND owner = 'a' AND ended_at IS NULL AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:             "bunkroom_sessions_open_owner",
		`SELECT * FROM bunkroom_sessions WHERE project = '' AND owner = 'a' AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:                                  "bunkroom_sessions_owner",
		`SELECT DISTINCT name FROM bunkroom_leases WHERE kind = 1 AND payer = 'a'`:                                                                                                      "bunkroom_leases_slots",
		`SELECT * FROM bunkroom_leases AS l WHERE l.kind = 1 AND l.until_at <= 5 ORDER BY l.until_at, l.name, l.holder`:                                                                 "bunkroom_leases_expiry",
		`SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY last_active_at DESC, id DESC) FROM bunkroom_conversations WHERE session_id IN ('a', 'b') AND closed_at IS NULL`: "bunkroom_conversations_session",
	} {
		rows, err := db.SQL().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		rows.Close()
		all := strings.Join(plan, "; ")
		if !strings.Contains(all, index) || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s\n\tplan: %s\n\twant index %s and no sorting", query, all, index)
		}
	}
}

// A row that nobody of this program wrote is an error, and no guess.
func TestUnknownStateIsRefused(t *testing.T) {
	db := migrated(t, nil)
	c := spawn("p")
	commit(t, db.Sessions(), c)
	run(t, db, "PRAGMA ignore_check_constraints = 1; UPDATE bunkroom_sandboxes SET state = 'asleep'; PRAGMA ignore_check_constraints = 0")
	if s, err := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID}); err == nil || !strings.Contains(err.Error(), "asleep") {
		t.Errorf("Load: got %+v, %v, want an error that names the state", s.Sandbox, err)
	}
}
