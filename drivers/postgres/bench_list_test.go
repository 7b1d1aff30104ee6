package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// A page of a hundred sessions with their newest conversations, of a million
// sessions in eight projects, against two statements written by hand for pgx,
// which prepares them. The page that is a thousand pages down costs what the first one does.
func BenchmarkListMillion(b *testing.B) {
	name, dsn := schema(b)
	db := opened(b, dsn, nil)
	if err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	fill(b, db)
	conn, err := pgx.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(b.Context(), "SET search_path TO "+name); err != nil {
		b.Fatal(err)
	}
	deep := after(b, db, 999)
	list := func(after string) error {
		page, err := db.Sessions().List(context.Background(), session.ListQuery{Project: "p3", Limit: 100, After: after})
		if err == nil && (len(page.Items) != 100 || len(page.Items[99].Conversations) != 2) {
			err = fmt.Errorf("%d sessions, of which the last has %d conversations", len(page.Items), len(page.Items[99].Conversations))
		}
		return err
	}
	b.Run("first page", func(b *testing.B) {
		compare(b, func() error { return list("") }, func() error { return byHand(conn) })
	})
	b.Run("transcripts of a page", func(b *testing.B) {
		page, err := db.Sessions().List(b.Context(), session.ListQuery{Project: "p3", Limit: 100})
		if err != nil {
			b.Fatal(err)
		}
		var talks []access.ConversationID
		for _, s := range page.Items {
			for _, c := range s.Conversations {
				talks = append(talks, c.ID)
			}
		}
		b.ReportAllocs()
		compare(b, func() error {
			found, err := db.Transcripts().LoadMany(context.Background(), talks...)
			if err == nil && len(found) != 200 {
				err = fmt.Errorf("%d transcripts", len(found))
			}
			return err
		}, func() error {
			rows, err := conn.Query(context.Background(), `SELECT conversation, status, version, last_seq, fence, in_turn, head_id, entries, bytes, input, output, cache_read, cache_write, cost,
				began_input, began_output, began_cache_read, began_cache_write, began_cost, held, from_conversation, from_entry, from_seq, by_reference, created_at, updated_at
				FROM bunkroom_transcripts WHERE conversation = ANY($1) AND status <> 'deleted'`, talks)
			if err != nil {
				return err
			}
			defer rows.Close()
			return rowsByHand(rows)
		})
	})
	b.Run("thousandth page against first", func(b *testing.B) {
		compare(b, func() error { return list(deep) }, func() error { return list("") })
	})
}

// byHand reads a page as one would write it down.
func byHand(conn *pgx.Conn) error {
	rows, err := conn.Query(context.Background(), `SELECT s.id, s.version, s.project, s.owner, s.name, s.environment_id, s.created_at, s.last_active_at, s.ended_at, b.state
		FROM bunkroom_sessions AS s LEFT JOIN bunkroom_sandboxes AS b ON b.session_id = s.id
		WHERE s.project = $1 AND s.project <> '' AND s.ended_at IS NULL ORDER BY s.last_active_at DESC, s.id DESC LIMIT 101`, "p3")
	if err != nil {
		return err
	}
	defer rows.Close()
	found, ids := map[string][]session.Conversation{}, []string{}
	for rows.Next() && len(found) < 100 {
		var s session.Session
		var environment, state sql.NullString
		var created, active, ended sql.NullInt64
		if err := rows.Scan(&s.ID, &s.Version, &s.Project, &s.Owner, &s.Name, &environment, &created, &active, &ended, &state); err != nil {
			return err
		}
		found[string(s.ID)] = nil
		ids = append(ids, string(s.ID))
	}
	rows.Close()
	rows, err = conn.Query(context.Background(), `SELECT c.id, c.session_id, c.project, c.owner, c.agent, c.title, c.shared, c.created_at, c.last_active_at, c.closed_at
		FROM unnest($1::text[]) AS s (id) CROSS JOIN LATERAL (SELECT * FROM bunkroom_conversations AS c
			WHERE c.session_id = s.id AND c.closed_at IS NULL ORDER BY c.last_active_at DESC, c.id DESC LIMIT 100) AS c`, ids)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var v session.Conversation
		var created, active, closed sql.NullInt64
		if err := rows.Scan(&v.ID, &v.Session, &v.Project, &v.Owner, &v.Agent, &v.Title, &v.Shared, &created, &active, &closed); err != nil {
			return err
		}
		found[string(v.Session)] = append(found[string(v.Session)], v)
	}
	return rows.Err()
}

// rowsByHand reads the rows of transcripts from what a statement finds.
func rowsByHand(rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}) error {
	all := map[access.ConversationID]transcript.Transcript{}
	for rows.Next() {
		var t transcript.Transcript
		var created, updated int64
		if err := rows.Scan(&t.Conversation, &t.Status, &t.Version, &t.LastSeq, &t.Fence, &t.InTurn, &t.Head.Entry, &t.Entries, &t.Bytes, &t.Usage.Input, &t.Usage.Output, &t.Usage.CacheRead, &t.Usage.CacheWrite, &t.Usage.CostMicros,
			&t.Inherited.Input, &t.Inherited.Output, &t.Inherited.CacheRead, &t.Inherited.CacheWrite, &t.Inherited.CostMicros, &t.Held, &t.Lineage.Conversation, &t.Lineage.At.Entry, &t.Lineage.Seq, &t.Lineage.ByReference, &created, &updated); err != nil {
			return err
		}
		t.CreatedAt, t.UpdatedAt = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
		all[t.Conversation] = t
	}
	if len(all) != 200 {
		return fmt.Errorf("%d transcripts", len(all))
	}
	return rows.Err()
}

// after is where the page after the nth begins.
func after(b *testing.B, db *postgres.DB, n int) (next string) {
	b.Helper()
	for range n {
		page, err := db.Sessions().List(b.Context(), session.ListQuery{Project: "p3", Limit: 100, After: next})
		if err != nil || page.Next == "" {
			b.Fatalf("%v, next %q", err, page.Next)
		}
		next = page.Next
	}
	return next
}

// fill makes a million sessions in eight projects, each with its sandbox and two conversations with their transcripts.
func fill(b *testing.B, db *postgres.DB) {
	b.Helper()
	for _, text := range []string{
		`INSERT INTO bunkroom_sessions (id, version, project, owner, name, created_at, last_active_at)
			SELECT 's' || lpad(i::text, 7, '0'), 1, 'p' || i % 8, 'owner' || i % 1000, 'room', i, (i * 7919) % 1000003 FROM generate_series(0::bigint, 999999) AS n (i)`,
		`INSERT INTO bunkroom_sandboxes (id, version, session_id, state, since)
			SELECT 'b' || lpad(i::text, 7, '0'), 1, 's' || lpad(i::text, 7, '0'), 'none', i FROM generate_series(0::bigint, 999999) AS n (i)`,
		`INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, title, created_at, last_active_at)
			SELECT 'c' || lpad(i::text, 7, '0') || '-' || k, 's' || lpad(i::text, 7, '0'), 'p' || i % 8, 'p' || i % 8, 'owner' || i % 1000, 'talk', i, i + k
			FROM generate_series(0::bigint, 999999) AS n (i), generate_series(1, 2) AS m (k)`,
		`INSERT INTO bunkroom_transcripts (conversation, status, version, last_seq, created_at, updated_at)
			SELECT id, 'active', 1, 0, created_at, last_active_at FROM bunkroom_conversations`,
		`ANALYZE bunkroom_sessions, bunkroom_conversations, bunkroom_sandboxes, bunkroom_transcripts`,
	} {
		run(b, db, text)
	}
}
