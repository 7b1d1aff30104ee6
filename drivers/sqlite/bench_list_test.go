package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// A page of a hundred sessions with their newest conversations, of a million
// sessions in eight projects, against two statements written by hand and
// prepared. The page that is a thousand pages down costs what the first one does.
func BenchmarkListMillion(b *testing.B) {
	db, _ := pair(b)
	fill(b, db)
	deep := after(b, db, 999)
	list := func(after string) error {
		page, err := db.Sessions().List(context.Background(), session.ListQuery{Project: "p3", Limit: 100, After: after})
		if err == nil && (len(page.Items) != 100 || len(page.Items[99].Conversations) != 2) {
			err = fmt.Errorf("%d sessions, of which the last has %d conversations", len(page.Items), len(page.Items[99].Conversations))
		}
		return err
	}
	const columns = `SELECT s.id, s.version, s.project, s.owner, s.name, s.environment_id, s.created_at, s.last_active_at, s.ended_at, b.state
		FROM bunkroom_sessions AS s LEFT JOIN bunkroom_sandboxes AS b ON b.session_id = s.id
		WHERE s.project = ? AND s.project <> '' AND s.ended_at IS NULL `
	first := prepare(b, db.SQL(), columns+`ORDER BY s.last_active_at DESC, s.id DESC LIMIT 101`)
	conversations := prepare(b, db.SQL(), `SELECT c.id, c.session_id, c.project, c.owner, c.agent, c.title, c.shared, c.created_at, c.last_active_at, c.closed_at FROM
		(SELECT id AS newest, row_number() OVER (PARTITION BY session_id ORDER BY last_active_at DESC, id DESC) AS nth
		 FROM bunkroom_conversations WHERE session_id IN (SELECT value FROM json_each(?)) AND closed_at IS NULL) AS n
		JOIN bunkroom_conversations AS c ON c.id = n.newest WHERE n.nth <= 100 ORDER BY c.session_id, n.nth`)
	b.Run("first page", func(b *testing.B) {
		compare(b, func() error { return list("") }, func() error { return byHand(first, conversations) })
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
		byHand := prepare(b, db.SQL(), `SELECT conversation, status, version, last_seq, fence, in_turn, head_id, entries, bytes, input, output, cache_read, cache_write, cost,
				began_input, began_output, began_cache_read, began_cache_write, began_cost, held, from_conversation, from_entry, from_seq, by_reference, created_at, updated_at
			FROM bunkroom_transcripts WHERE conversation IN (SELECT value FROM json_each(?)) AND status <> 'deleted'`)
		ids, err := json.Marshal(talks)
		if err != nil {
			b.Fatal(err)
		}
		compare(b, func() error {
			found, err := db.Transcripts().LoadMany(context.Background(), talks...)
			if err == nil && len(found) != 200 {
				err = fmt.Errorf("%d transcripts", len(found))
			}
			return err
		}, func() error {
			rows, err := byHand.QueryContext(context.Background(), string(ids))
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
func byHand(sessions, conversations *sql.Stmt) error {
	rows, err := sessions.QueryContext(context.Background(), "p3")
	if err != nil {
		return err
	}
	defer rows.Close()
	found, ids := map[string][]session.Conversation{}, "["
	for rows.Next() && len(found) < 100 {
		var s session.Session
		var environment, state sql.NullString
		var created, active, ended sql.NullInt64
		if err := rows.Scan(&s.ID, &s.Version, &s.Project, &s.Owner, &s.Name, &environment, &created, &active, &ended, &state); err != nil {
			return err
		}
		if len(found) > 0 {
			ids += ","
		}
		found[string(s.ID)] = nil
		ids += `"` + string(s.ID) + `"`
	}
	if err := rows.Close(); err != nil {
		return err
	}
	rows, err = conversations.QueryContext(context.Background(), ids+"]")
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
func after(b *testing.B, db *sqlite.DB, n int) (next string) {
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
func fill(b *testing.B, db *sqlite.DB) {
	b.Helper()
	const count = `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999) `
	for _, text := range []string{
		count + `INSERT INTO bunkroom_sessions (id, version, project, owner, name, created_at, last_active_at)
			SELECT printf('s%07d', i), 1, 'p' || (i % 8), 'owner' || (i % 1000), 'room', i, (i * 7919) % 1000003 FROM n`,
		count + `INSERT INTO bunkroom_sandboxes (id, version, session_id, state, since) SELECT printf('b%07d', i), 1, printf('s%07d', i), 'none', i FROM n`,
		count + `INSERT INTO bunkroom_conversations (id, session_id, session_project, project, owner, title, created_at, last_active_at)
			SELECT printf('c%07d-%d', i, k), printf('s%07d', i), 'p' || (i % 8), 'p' || (i % 8), 'owner' || (i % 1000), 'talk', i, i + k
			FROM n, (SELECT 1 AS k UNION ALL SELECT 2)`,
		`INSERT INTO bunkroom_transcripts (conversation, status, version, last_seq, created_at, updated_at)
			SELECT id, 'active', 1, 0, created_at, last_active_at FROM bunkroom_conversations`,
	} {
		if _, err := db.SQL().ExecContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}
