package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// compare runs ours and theirs in turns and reports how many times as long
// ours takes: both meet the same server and the same neighbours. It goes by
// medians, which hold still where the neighbours don't.
func compare(b *testing.B, ours, theirs func() error) {
	b.Helper()
	var spent [2][]time.Duration
	sides := [2]func() error{ours, theirs}
	n := 0
	for b.Loop() {
		for i := range sides {
			side := (i + n) % 2 // neither is always first
			start := time.Now()
			if err := sides[side](); err != nil {
				b.Fatal(err)
			}
			spent[side] = append(spent[side], time.Since(start))
		}
		n++
	}
	for _, all := range spent {
		slices.Sort(all)
	}
	b.ReportMetric(float64(spent[0][n/2].Nanoseconds()), "ours-ns/op")
	b.ReportMetric(float64(spent[1][n/2].Nanoseconds()), "theirs-ns/op")
	b.ReportMetric(float64(spent[0][n/2])/float64(spent[1][n/2]), "ratio")
}

// pair returns a database and a connection of pgx's own to another one alike, for statements written by hand.
func pair(b *testing.B) (*postgres.DB, *pgx.Conn) {
	b.Helper()
	db := migrated(b)
	_, dsn := schema(b)
	if err := opened(b, dsn, nil).Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(b.Context(), dsn) // which prepares what it is told
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(context.Background()) })
	return db, conn
}

// now is the server's clock, as a statement written by hand would have it.
const now = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// Opening a session with its first conversation, under a limit, against the
// same statements written by hand.
func BenchmarkSpawn(b *testing.B) {
	db, conn := pair(b)
	const most = 100
	var owner, rawOwner owners // who have a few sessions each, not as many as the benchmark makes
	ctx := context.Background()
	compare(b, func() error {
		s := &session.Session{ID: session.ID(id.New()), Project: "p", Owner: owner.next(), Name: "room"}
		_, err := db.Sessions().Commit(ctx, session.Change{
			Session:      s,
			Conversation: &session.Conversation{ID: session.ConversationID(id.New()), Session: s.ID, Project: "p", Owner: s.Owner, Title: "first"},
			Limits:       []session.Limit{{Kind: session.SessionsPerOwner, Scope: string(s.Owner), Max: most}},
		})
		return err
	}, func() error {
		sid, cid, owner := id.New(), id.New(), string(rawOwner.next())
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		var at int64
		if err := tx.QueryRow(ctx, `SELECT `+now+` FROM (SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text AS held) AS l WHERE held = ''`, owner).Scan(&at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO bunkroom_sessions (id, version, project, owner, name, created_at, last_active_at)
			VALUES ($1, 1, $2, $3, $4, $5, $5)`, sid, "p", owner, "room", at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, agent, title, created_at, last_active_at)
			VALUES ($1, $2, $3, $3, $4, '', $5, $6, $6)`, cid, sid, "p", owner, "first", at); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM bunkroom_sessions WHERE owner = $1 AND ended_at IS NULL`, owner).Scan(&n); err != nil {
			return err
		}
		if n > most {
			return fmt.Errorf("%d sessions", n)
		}
		return tx.Commit(ctx)
	})
}

type owners int

func (o *owners) next() access.UserID {
	*o++
	return access.UserID(fmt.Sprint("owner ", *o/50))
}

// One step of a machine's life, which rests on its session, against the same
// statements written by hand.
func BenchmarkStep(b *testing.B) {
	db, conn := pair(b)
	c := spawn("p")
	c.Sandbox.State, c.Sandbox.Generation, c.Sandbox.Key, c.Sandbox.Payer = sandbox.Creating, 1, "bkr-key", "alice"
	c = commit(b, db.Sessions(), c)
	row := *c.Sandbox
	ctx := context.Background()
	if _, err := conn.Exec(ctx, `INSERT INTO bunkroom_sessions (id, version, owner, created_at, last_active_at) VALUES ('s', 1, 'alice', 1, 1)`); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `INSERT INTO bunkroom_sandboxes (id, version, session_id, state, since) VALUES ('b', 1, 's', 'creating', 1)`); err != nil {
		b.Fatal(err)
	}
	version := 1
	compare(b, func() error {
		row.Nonce = "n"
		next := session.Change{
			Sandbox: &row, Stamps: sandbox.Stamps{Deadline: time.Minute},
			Expect: []session.Guard{{Session: c.Session.ID, Version: 1}},
		}
		clock, err := db.Sessions().Commit(ctx, next)
		row = *next.Stamped(clock).Sandbox
		return err
	}, func() error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		var at, found int64
		if err := tx.QueryRow(ctx, `SELECT `+now+`, version FROM bunkroom_sessions WHERE id = $1 FOR SHARE`, "s").Scan(&at, &found); err != nil || found != 1 {
			return fmt.Errorf("version %d: %w", found, err)
		}
		tag, err := tx.Exec(ctx, `UPDATE bunkroom_sandboxes SET provider = $1, sandbox_key = $2, payer = $3, deployment = $4, spec = $5, state = $6, generation = $7,
			name = $8, incarnation = $9, host = $10, nonce = $11, deadline = $12, attempts = $13, since = $14, version = $15 WHERE id = $16 AND version = $17`,
			"", "bkr-key", "alice", "", "{}", "creating", 1, "", "", "", "n", at+60_000_000, 0, at, version+1, "b", version)
		if err != nil || tag.RowsAffected() != 1 {
			return fmt.Errorf("%v: %w", tag, err)
		}
		version++
		return tx.Commit(ctx)
	})
}

// A page of a hundred sessions, with two conversations each, of a thousand.
func BenchmarkList(b *testing.B) {
	db := migrated(b)
	for range 1000 {
		c := spawn("p")
		commit(b, db.Sessions(), c)
		v := *c.Conversation
		v.ID = session.ConversationID(id.New())
		commit(b, db.Sessions(), session.Change{Conversation: &v})
	}
	run(b, db, "ANALYZE bunkroom_sessions, bunkroom_conversations, bunkroom_sandboxes")
	for b.Loop() {
		page, err := db.Sessions().List(b.Context(), session.ListQuery{Project: "p", Limit: 100})
		if err != nil || len(page.Items) != 100 || len(page.Items[99].Conversations) != 2 {
			b.Fatal(err)
		}
	}
}

// What is known of the machines that a provider lists, of a hundred thousand
// rows with tombstones: a hundred and a thousand at a time.
func BenchmarkKnown(b *testing.B) {
	db := migrated(b)
	populate(b, db, 100_000)
	for _, n := range []int{100, session.MaxKnown} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys, at := make([]sandbox.TombstoneKey, n), 0
			for b.Loop() {
				for i := range keys {
					at = (at + 7919) % 100_000
					keys[i] = sandbox.TombstoneKey{Sandbox: sandbox.ID(fmt.Sprint("b", at+1)), Generation: 1, Incarnation: "i"}
				}
				known, err := db.Sessions().Known(b.Context(), keys)
				if err != nil || known[n-1].Sandbox.ID != keys[n-1].Sandbox {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
		})
	}
}
