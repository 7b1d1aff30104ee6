package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// compare runs ours and theirs in turns and reports how many times as long
// ours takes: both meet the same disk and the same neighbours.
func compare(b *testing.B, ours, theirs func() error) {
	b.Helper()
	var spent [2]time.Duration
	sides := [2]func() error{ours, theirs}
	n := 0
	for b.Loop() {
		for i := range sides {
			side := (i + n) % 2 // neither is always first
			start := time.Now()
			if err := sides[side](); err != nil {
				b.Fatal(err)
			}
			spent[side] += time.Since(start)
		}
		n++
	}
	b.ReportMetric(float64(spent[0].Nanoseconds())/float64(n), "ours-ns/op")
	b.ReportMetric(float64(spent[1].Nanoseconds())/float64(n), "theirs-ns/op")
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "ratio")
}

// pair returns two databases alike: one for the store, one for statements written by hand.
func pair(b *testing.B) (*sqlite.DB, *sql.DB) {
	b.Helper()
	var both [2]*sqlite.DB
	for i := range both {
		db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { db.Close() })
		if err := db.Migrate(b.Context()); err != nil {
			b.Fatal(err)
		}
		both[i] = db
	}
	return both[0], both[1].SQL()
}

func prepare(b *testing.B, db *sql.DB, text string) *sql.Stmt {
	b.Helper()
	st, err := db.Prepare(text)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return st
}

// Opening a session with its first conversation, under a limit, against the
// same statements written by hand and prepared.
func BenchmarkSpawn(b *testing.B) {
	db, raw := pair(b)
	insertSession := prepare(b, raw, `INSERT INTO bunkroom_sessions (id, version, project, owner, name, created_at, last_active_at) VALUES (?, ?, ?, ?, ?, ?, ?)`)
	insertConversation := prepare(b, raw, `INSERT INTO bunkroom_conversations
		(id, session_id, session_project, project, owner, agent, title, created_at, last_active_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	countSessions := prepare(b, raw, `SELECT count(*) FROM (SELECT 1 FROM bunkroom_sessions WHERE owner = ? AND ended_at IS NULL LIMIT ?)`)
	const most = 100
	// An owner has a few sessions, not as many as the benchmark makes.
	var owner, rawOwner owners
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
		tx, err := raw.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		now := time.Now().UnixMicro()
		if _, err := tx.StmtContext(ctx, insertSession).ExecContext(ctx, sid, 1, "p", owner, "room", now, now); err != nil {
			return err
		}
		if _, err := tx.StmtContext(ctx, insertConversation).ExecContext(ctx, cid, sid, "p", "p", owner, "", "first", now, now); err != nil {
			return err
		}
		var n int
		if err := tx.StmtContext(ctx, countSessions).QueryRowContext(ctx, owner, most+1).Scan(&n); err != nil || n > most {
			return err
		}
		return tx.Commit()
	})
}

type owners int

func (o *owners) next() (owner access.UserID) {
	*o++
	return access.UserID(string(rune('a'+*o/50%26)) + string(rune('a'+*o/1300%26)))
}

// Loading a session with its sandbox, against the same join written by hand and prepared.
func BenchmarkLoad(b *testing.B) {
	db, _ := pair(b)
	var ids []session.ID
	for range 1000 {
		s := &session.Session{ID: session.ID(id.New()), Project: "p", Owner: "alice", Name: "room"}
		r := &sandbox.Row{
			ID: sandbox.ID(id.New()), Session: s.ID, Provider: "local", Key: "bkr-0123456789", Payer: "alice", Deployment: "d", State: sandbox.Live,
			Spec: sandbox.Spec{Image: "debian", Env: []string{"LANG=C"}}, Generation: 1, Name: "bkr-0123456789-g1", Incarnation: "i-1", Host: "h",
		}
		if _, err := db.Sessions().Commit(b.Context(), session.Change{Session: s, Sandbox: r, Stamps: sandbox.Stamps{Live: true}}); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	join := prepare(b, db.SQL(), `SELECT s.id, s.version, s.project, s.owner, s.name, s.environment_id, s.created_at, s.last_active_at, s.ended_at,
		b.id, b.version, b.session_id, b.environment_id, b.provider, b.sandbox_key, b.payer, b.deployment, b.spec, b.state, b.generation, b.name, b.incarnation, b.host, b.nonce,
		b.deadline, b.max_deadline, b.not_before, b.absent_since, b.attempts, b.live_at, b.destroyed_at, b.measured_bytes, b.measured_at, b.measured_incarnation
		FROM bunkroom_sessions AS s LEFT JOIN bunkroom_sandboxes AS b ON b.session_id = s.id WHERE s.id = ?`)
	ctx := context.Background()
	n, m := 0, 0
	compare(b, func() error {
		n++
		_, err := db.Sessions().Load(ctx, session.Address{Session: ids[n*7%len(ids)]})
		return err
	}, func() error {
		m++
		var s struct {
			id, project, owner, name, environment sql.NullString
			version, created, active, ended       sql.NullInt64
		}
		var r struct {
			id, session, environment, provider, key, payer, deployment, spec, state, name, incarnation, host, nonce, measuredIncarnation sql.NullString
			version, generation, deadline, most, notBefore, absent, attempts, live, destroyed, bytes, measured                           sql.NullInt64
		}
		if err := join.QueryRowContext(ctx, string(ids[m*7%len(ids)])).Scan(&s.id, &s.version, &s.project, &s.owner, &s.name, &s.environment, &s.created, &s.active, &s.ended,
			&r.id, &r.version, &r.session, &r.environment, &r.provider, &r.key, &r.payer, &r.deployment, &r.spec, &r.state, &r.generation, &r.name, &r.incarnation, &r.host, &r.nonce,
			&r.deadline, &r.most, &r.notBefore, &r.absent, &r.attempts, &r.live, &r.destroyed, &r.bytes, &r.measured, &r.measuredIncarnation); err != nil {
			return err
		}
		var spec sandbox.Spec
		return json.Unmarshal([]byte(r.spec.String), &spec)
	})
}
