package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// compare runs ours and theirs in turns and reports how many times as long
// ours takes: both meet the same disk and the same neighbours. It goes by
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

// Loading a session with its environment and its sandbox, which is its own or
// the environment's, against the same join written by hand and prepared.
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
		b.deadline, b.max_deadline, b.not_before, b.absent_since, b.attempts, b.live_at, b.destroyed_at, b.measured_bytes, b.measured_at, b.measured_incarnation,
		e.id, e.version, e.project, e.created_by, e.name, e.created_at, e.deleted_at
		FROM bunkroom_sessions AS s LEFT JOIN bunkroom_environments AS e ON e.id = s.environment_id
		LEFT JOIN bunkroom_sandboxes AS b ON b.session_id = s.id OR b.environment_id = s.environment_id WHERE s.id = ?`)
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
		var e struct {
			id, project, creator, name sql.NullString
			version, created, deleted  sql.NullInt64
		}
		if err := join.QueryRowContext(ctx, string(ids[m*7%len(ids)])).Scan(&s.id, &s.version, &s.project, &s.owner, &s.name, &s.environment, &s.created, &s.active, &s.ended,
			&r.id, &r.version, &r.session, &r.environment, &r.provider, &r.key, &r.payer, &r.deployment, &r.spec, &r.state, &r.generation, &r.name, &r.incarnation, &r.host, &r.nonce,
			&r.deadline, &r.most, &r.notBefore, &r.absent, &r.attempts, &r.live, &r.destroyed, &r.bytes, &r.measured, &r.measuredIncarnation,
			&e.id, &e.version, &e.project, &e.creator, &e.name, &e.created, &e.deleted); err != nil {
			return err
		}
		var spec sandbox.Spec
		return json.Unmarshal([]byte(r.spec.String), &spec)
	})
}

// What is known of the machines that a provider lists, of a hundred thousand
// rows and half as many tombstones: a hundred and a thousand at a time.
func BenchmarkKnown(b *testing.B) {
	db, _ := pair(b)
	for _, text := range []string{
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
			INSERT INTO bunkroom_sessions (id, version, owner, created_at, last_active_at) SELECT 's' || i, 1, 'o', i, i FROM n`,
		`INSERT INTO bunkroom_sandboxes (id, version, session_id, state, generation, incarnation, name, since)
			SELECT 'b' || created_at, 1, id, 'live', 1, 'i', 'bkr-g1', 1 FROM bunkroom_sessions`,
		`INSERT INTO bunkroom_outbox (sandbox_id, generation, incarnation, name, provider, payer, deployment, since)
			SELECT 'b' || created_at, 1, 'old', '', '', '', '', 1 FROM bunkroom_sessions WHERE created_at % 2 = 0`,
	} {
		if _, err := db.SQL().Exec(text); err != nil {
			b.Fatal(err)
		}
	}
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
