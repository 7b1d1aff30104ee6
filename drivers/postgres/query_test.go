package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// spy sees what is sent to the server, but for what is prepared.
type spy struct {
	mu      sync.Mutex
	sent    []string
	queries []pgx.TraceQueryStartData // the same, with their arguments
}

func (s *spy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.queries = append(s.sent, q.SQL), append(s.queries, q)
	return ctx
}

func (*spy) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// during returns what is sent while do runs.
func (s *spy) during(do func()) []string {
	s.mu.Lock()
	s.sent, s.queries = nil, nil
	s.mu.Unlock()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// spied returns a migrated database of one connection, in a host's own pool in some mode, with a spy in between.
func spied(t *testing.T, mode string) (*postgres.DB, *spy) {
	t.Helper()
	_, dsn := schema(t)
	config, err := pgx.ParseConfig(dsn + " default_query_exec_mode=" + mode)
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{}
	config.Tracer = s
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { pool.Close() })
	db, err := postgres.New(t.Context(), pool, nil)
	if err == nil {
		err = db.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// A page takes two queries whatever it holds, an empty one takes one, and a
// snapshot is one; a spawn is one for the locks, the session and the
// conversation, one for the sandbox, the count, BEGIN and COMMIT. (S-35)
func TestQueriesPerCall(t *testing.T) {
	db, spy := spied(t, "exec")
	store := db.Sessions()
	queries := func(what string, want int, do func() error) {
		t.Helper()
		got := spy.during(func() {
			if err := do(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		})
		if len(got) != want {
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
	for _, a := range []session.Address{
		{Session: last.Session.ID}, {Conversation: last.Conversation.ID}, {Session: last.Session.ID, Conversation: last.Conversation.ID},
	} {
		queries(fmt.Sprintf("load %+v", a), 1, func() error {
			_, err := store.Load(t.Context(), a)
			return err
		})
	}
	queries("environments", 1, func() error {
		_, err := store.Environments(t.Context(), session.EnvironmentQuery{Project: "p", Limit: 100})
		return err
	})
	queries("what is known of many machines", 1, func() error {
		_, err := store.Known(t.Context(), make([]sandbox.TombstoneKey, session.MaxKnown))
		return err
	})
	queries("what a project owns", 1, func() error {
		_, err := store.Owned(t.Context(), session.PurgeTarget{Project: "p", History: true}, 10)
		return err
	})
	queries("a spawn under a limit", 5, func() error {
		c := spawn("p")
		c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: 1000}}
		_, err := store.Commit(t.Context(), c)
		return err
	})
}

// Every change comes to its rows in one order, sessions first and each kind by
// id, so that no two wait for each other in a circle: the second of an end and
// an ensure waits for the first, and is not found out to be in a deadlock.
func TestOneOrder(t *testing.T) {
	db, spy := spied(t, "exec")
	a, b := commit(t, db.Sessions(), spawn("p")), commit(t, db.Sessions(), spawn("p")) // a's ids are the smaller ones
	guard := func(c session.Change) (session.Guard, session.Guard) {
		return session.Guard{Session: c.Session.ID, Version: 1}, session.Guard{Sandbox: c.Sandbox.ID, Version: 1}
	}
	sa, ba := guard(a)
	sb, bb := guard(b)
	for _, c := range []struct {
		change session.Change
		want   []string
	}{
		{session.Change{Expect: []session.Guard{bb, sb, ba, sa}}, []string{"sessions FOR SHARE", "sessions FOR SHARE", "sandboxes FOR SHARE", "sandboxes FOR SHARE"}},
		{session.Change{Sandbox: a.Sandbox, Expect: []session.Guard{bb, sa}}, []string{"sessions FOR SHARE", "sandboxes UPDATE", "sandboxes FOR SHARE"}},
		{session.Change{Session: b.Session, End: true, Expect: []session.Guard{ba, sa}}, []string{"sessions FOR SHARE", "sessions UPDATE", "sandboxes FOR SHARE"}},
		{session.Change{Delete: []session.Address{{Session: b.Session.ID}, {Session: a.Session.ID}}, Bury: []sandbox.Tombstone{{TombstoneKey: sandbox.TombstoneKey{Sandbox: "x"}}}},
			[]string{"sessions FOR UPDATE", "sandboxes FOR UPDATE", "conversations FOR UPDATE", "outbox INSERT", "sessions DELETE"}},
	} {
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, text := range spy.during(func() { commit(t, db.In(tx).Sessions(), c.change) }) {
			for _, table := range []string{"conversations", "sessions", "environments", "sandboxes", "outbox"} {
				for _, verb := range []string{"FOR SHARE", "FOR UPDATE", "UPDATE", "INSERT", "DELETE"} {
					if strings.Contains(text, "bunkroom_"+table) && strings.Contains(text, verb) {
						got = append(got, table+" "+verb)
						break
					}
				}
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.change, got, c.want)
		}
	}
}

// The stores work in whatever way the host's pool sends statements.
func TestExecModes(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol", "describe_exec", "cache_describe", "cache_statement"} {
		db, _ := spied(t, mode)
		for range 3 { // as text, and prepared
			c := spawn("it's \\ $1 ?")
			c.Conversation.Title, c.Conversation.Shared = "'; -- $1 \\", true
			c.Limits = []session.Limit{{Kind: session.MachinesPerPayer, Scope: "o'payer", Max: 1}}
			c = commit(t, db.Sessions(), c)
			got := load(t, db.Sessions(), session.Address{Conversation: c.Conversation.ID})
			if got.Conversation != *c.Conversation || got.Session != *c.Session {
				t.Errorf("%s: got %+v", mode, got)
			}
		}
		if page, err := db.Sessions().List(t.Context(), session.ListQuery{Project: "it's \\ $1 ?", Limit: 5}); err != nil || len(page.Items) != 3 {
			t.Errorf("%s: List: %+v, %v", mode, page, err)
		}
	}
}

// What is written into a statement's text can't break out of it.
func TestListQuotes(t *testing.T) {
	db := migrated(t)
	for _, project := range []access.ProjectID{"it's", `back\slash`, `\'; --`, "a?b", "$1", "'; DROP TABLE bunkroom_sessions; --", "ü\n", "%", "{}"} {
		c := spawn(project)
		commit(t, db.Sessions(), c)
		page, err := db.Sessions().List(t.Context(), session.ListQuery{Project: project, Limit: 10})
		if err != nil || len(page.Items) != 1 || page.Items[0].Session.ID != c.Session.ID || len(page.Items[0].Conversations) != 1 {
			t.Errorf("project %q: got %+v, %v", project, page, err)
		}
	}
	_, err := db.Sessions().List(t.Context(), session.ListQuery{Project: "a\x00b", Limit: 10})
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Project" {
		t.Errorf("got %v, want a FieldError of Project", err)
	}
}

// What is counted and what is due is found by an index, not by reading the table.
// (Of two that would do, it does not matter which.)
func TestQueriesUseIndexes(t *testing.T) {
	db := migrated(t)
	db.SQL().SetMaxOpenConns(1)
	run(t, db, "SET enable_seqscan = off") // the tables are empty: else nothing is worth an index
	for query, index := range map[string]string{
		`SELECT 1 FROM bunkroom_sessions WHERE owner = 'a' AND ended_at IS NULL LIMIT 3`:                                                                                                "_owner on bunkroom_sessions",
		`SELECT 1 FROM bunkroom_sandboxes WHERE payer = 'a' AND state IN ('creating', 'live', 'destroying')`:                                                                            "bunkroom_sandboxes_machines",
		`SELECT 1 FROM bunkroom_outbox WHERE payer = 'a'`:                                                                                                                               "bunkroom_outbox_payer",
		`SELECT 1 FROM bunkroom_conversations WHERE session_id = 'a' AND closed_at IS NULL`:                                                                                             "bunkroom_conversations_",
		`SELECT 1 FROM bunkroom_conversations WHERE session_id = 'a' AND session_project = ''`:                                                                                          "bunkroom_conversations_session",
		`SELECT id FROM bunkroom_sandboxes WHERE state = 'creating' AND (deadline IS NULL OR deadline <= 5) ORDER BY since, version, id`:                                                "bunkroom_sandboxes_creating",
		`SELECT id FROM bunkroom_sandboxes WHERE state = 'destroying' ORDER BY since, version, id`:                                                                                      "bunkroom_sandboxes_destroying",
		`SELECT * FROM bunkroom_outbox WHERE host = '' ORDER BY since, attempts, sandbox_id, generation, incarnation`:                                                                   "bunkroom_outbox_due",
		`SELECT * FROM bunkroom_sessions WHERE project = 'p' AND project <> '' AND ended_at IS NULL AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:          "_project on bunkroom_sessions",
		`SELECT * FROM bunkroom_sessions WHERE project = 'p' AND project <> '' AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:                               "_project on bunkroom_sessions",
		`SELECT * FROM bunkroom_sessions WHERE project = '' AND owner = 'a' AND ended_at IS NULL AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:             "_owner on bunkroom_sessions",
		`SELECT * FROM bunkroom_sessions WHERE project = '' AND owner = 'a' AND (last_active_at, id) < (1, 'x') ORDER BY last_active_at DESC, id DESC`:                                  "_owner on bunkroom_sessions",
		`SELECT DISTINCT name FROM bunkroom_leases WHERE kind = 1 AND payer = 'a'`:                                                                                                      "bunkroom_leases_slots",
		`SELECT * FROM bunkroom_leases AS l WHERE l.kind = 1 AND l.until_at <= 5 ORDER BY l.until_at, l.name, l.holder`:                                                                 "bunkroom_leases_expiry",
		`SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY last_active_at DESC, id DESC) FROM bunkroom_conversations WHERE session_id IN ('a', 'b') AND closed_at IS NULL`: "bunkroom_conversations_open",
	} {
		rows, err := db.SQL().QueryContext(t.Context(), "EXPLAIN "+query)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, line)
		}
		rows.Close()
		if all := strings.Join(plan, "; "); !strings.Contains(all, index) || strings.Contains(all, "Seq Scan") {
			t.Errorf("%s\n\tplan: %s\n\twant index %s", query, all, index)
		}
	}
}

// An append is one statement, in a fork that reads its source as much as in any other
// conversation, once it has an entry of its own: also in one that another process has made, once this one has
// written to it. No id is used a second time that its source has.
func TestStatementsOfAnAppend(t *testing.T) {
	db, spy := spied(t, "exec")
	other, err := postgres.New(t.Context(), db.SQL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	chatting(t, other, "chat")
	for c, by := range map[access.ConversationID]*postgres.DB{"mine": db, "theirs": other} {
		if _, err := by.Transcripts().Fork(t.Context(), transcript.Fork{From: "chat", To: c, ByReference: true}); err != nil {
			t.Fatal(err)
		}
	}
	appended := func(c access.ConversationID, e transcript.NewEntry) (statements int, err error) {
		sent := spy.during(func() {
			_, err = db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: c, Append: []transcript.NewEntry{e}})
		})
		return len(sent), err
	}
	for _, c := range []access.ConversationID{"chat", "mine", "theirs"} {
		for i, id := range []transcript.EntryID{"third", "fourth", "fifth"} {
			n, err := appended(c, remark(id+" of "+transcript.EntryID(c)))
			if err != nil || n != 1 && (i > 0 || c == "chat") {
				t.Errorf("%s of %s: %d statements, %v", id, c, n, err)
			}
		}
		if _, err := appended(c, sayings(1)[0]); err != nil {
			t.Error(err)
		}
		e := remark("first")
		e.Turn = "another"
		if _, err := appended(c, e); !errors.As(err, new(*transcript.EntryConflictError)) {
			t.Errorf("%s: got %v, want an EntryConflictError", c, err)
		}
		whole(t, db.Transcripts(), c, 6)
	}
}
