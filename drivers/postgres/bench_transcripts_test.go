package postgres_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// kilobyte is what an entry of a benchmark says.
var kilobyte = strings.Repeat("as was said. ", 79)

// sayings are n entries of a kilobyte.
func sayings(n int) (all []transcript.NewEntry) {
	for range n {
		all = append(all, transcript.NewEntry{
			ID: transcript.EntryID(id.New()), Kind: transcript.KindAssistant, Actor: "alice", Parts: []transcript.Part{transcript.TextPart(kilobyte)},
			Usage: transcript.Usage{Input: 1000, Output: 250, CostMicros: 40},
		})
	}
	return all
}

// talk is a conversation with as many entries.
func talk(b testing.TB, s transcript.Store, n int) access.ConversationID {
	b.Helper()
	c := access.ConversationID(id.New())
	if _, err := s.Create(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	for ; n > 0; n -= transcript.MaxAppend {
		if _, err := s.Commit(b.Context(), transcript.Change{Conversation: c, Append: sayings(min(n, transcript.MaxAppend))}); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// twoPools are a database and a pool to another one alike, of the same size.
func twoPools(b *testing.B) (ours, theirs *postgres.DB, raw *sql.DB) {
	b.Helper()
	ours = migrated(b)
	_, dsn := schema(b)
	theirs = opened(b, dsn, nil)
	if err := theirs.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	raw = pool(b, dsn)
	raw.SetMaxOpenConns(ours.SQL().Stats().MaxOpenConnections)
	raw.SetMaxIdleConns(ours.SQL().Stats().MaxOpenConnections)
	return ours, theirs, raw
}

// saidByHand is an append of as many entries by hand, prepared: one statement, of the
// same rows under the same conditions, with the same content recognised by the same hash.
// Both sides have a context that ends, as a request's does.
func saidByHand(b *testing.B, raw *sql.DB, n int) func(c access.ConversationID) error {
	b.Helper()
	rows := `SELECT 0 AS i, CAST($11 AS text) AS id, '' AS parent, CAST($12 AS text) AS hash, CAST($13 AS bigint) AS bytes, 0 AS input, 0 AS output, 0 AS cost, CAST($14 AS text) AS preview, CAST($15 AS text) AS body`
	if n > 1 {
		rows = `SELECT * FROM unnest(CAST($11 AS bigint[]), CAST($12 AS text[]), CAST($13 AS text[]), CAST($14 AS text[]), CAST($15 AS bigint[]), CAST($16 AS bigint[]), CAST($17 AS bigint[]), CAST($18 AS bigint[]), CAST($19 AS text[]), CAST($20 AS text[]))
			AS u (i, id, parent, hash, bytes, input, output, cost, preview, body)`
	}
	st, err := raw.Prepare(`WITH t AS (UPDATE bunkroom_transcripts SET last_seq = last_seq + $1, version = version + 1, head_was = head_id, head_id = $2, head_depth = head_depth + $1,
			head_input = head_input + $3, head_output = head_output + $4, head_cost = head_cost + $5, input = input + $3, output = output + $4, cost = cost + $5,
			entries = entries + $1, bytes = bytes + $6, updated_at = (SELECT ` + now + `)
			WHERE conversation = $7 AND status <> 'deleted' AND status = 'active' AND head_tip AND NOT in_turn AND draft = '' AND base_seq = 0
			RETURNING *),
		e AS (INSERT INTO bunkroom_transcript_entries (tree, seq, id, branch, depth, parent, kind, actor, hash, bytes, context, whole, input, output, cache_read, cache_write, cost, created_at, preview, body)
			SELECT t.tree, t.last_seq + r.i, r.id, t.head_branch, t.head_depth + r.i, CASE r.parent WHEN '' THEN t.head_was ELSE r.parent END, CAST($8 AS text), CAST($9 AS text), r.hash, r.bytes, t.head_context, t.head_whole,
			t.head_input + r.input, t.head_output + r.output, 0, 0, t.head_cost + r.cost, t.updated_at, r.preview, r.body FROM t, (` + rows + `) AS r WHERE CAST($10 AS bigint) > 0)
		SELECT last_seq, version, head_id, head_depth, entries, bytes, input, output, cache_read, cache_write, cost, created_at, updated_at FROM t`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return func(c access.ConversationID) error {
		entries := sayings(n)
		var sum transcript.Usage
		var size int64
		seqs, bytes, input, output, cost := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		ids, parents, hashes, previews, bodies := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		for i := n - 1; i >= 0; i-- {
			body, err := json.Marshal(map[string]any{"parts": entries[i].Parts, "usage": entries[i].Usage})
			if err != nil {
				return err
			}
			digest := sha256.Sum256(body)
			seqs[i], ids[i], hashes[i], bytes[i], previews[i], bodies[i] = int64(i-n+1), string(entries[i].ID), hex.EncodeToString(digest[:]), int64(len(body)), kilobyte[:80], string(body)
			input[i], output[i], cost[i] = -sum.Input, -sum.Output, -sum.CostMicros
			if i > 0 {
				parents[i] = string(entries[i-1].ID)
			}
			sum, size = sum.Add(entries[i].Usage), size+bytes[i]
		}
		args := []any{n, ids[n-1], sum.Input, sum.Output, sum.CostMicros, size, string(c), "assistant", "alice", 1}
		if n > 1 {
			args = append(args, seqs, ids, parents, hashes, bytes, input, output, cost, previews, bodies)
		} else {
			args = append(args, ids[0], hashes[0], bytes[0], previews[0], bodies[0])
		}
		var v [11]int64
		var head string
		var depth int64
		return st.QueryRowContext(b.Context(), args...).Scan(&v[0], &v[1], &head, &depth, &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10])
	}
}

func appends(b *testing.B, n int) {
	db, theirs, raw := twoPools(b)
	hand, mine, other := saidByHand(b, raw, n), talk(b, db.Transcripts(), 1), talk(b, theirs.Transcripts(), 1)
	b.ReportAllocs()
	compare(b, func() error {
		_, err := db.Transcripts().Commit(b.Context(), transcript.Change{Conversation: mine, Append: sayings(n)})
		return err
	}, func() error { return hand(other) })
}

func BenchmarkTranscriptAppend(b *testing.B) { appends(b, 1) }

func BenchmarkTranscriptBatch(b *testing.B) { appends(b, 100) }

// writers are what 64 writers take who append four entries each.
type writers struct{ each []time.Duration }

func (c *writers) write(write func(writer int) error) error {
	errs, took := make([]error, 64), make([][4]time.Duration, 64)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for n := range took[i] {
				start := time.Now()
				errs[i] = errors.Join(errs[i], write(i))
				took[i][n] = time.Since(start)
			}
		})
	}
	all.Wait()
	for _, t := range took {
		c.each = append(c.each, t[:]...)
	}
	return errors.Join(errs...)
}

// p99 is what all but one of a hundred take at most.
func (c *writers) p99() time.Duration {
	slices.Sort(c.each)
	return c.each[len(c.each)*99/100]
}

// Sixty-four writers append four entries each, on one conversation and on their own.
func BenchmarkTranscriptCrowd(b *testing.B) {
	for _, trees := range []int{1, 64} {
		b.Run(fmt.Sprint(trees), func(b *testing.B) {
			db, theirs, raw := twoPools(b)
			hand := saidByHand(b, raw, 1)
			var mine, other []access.ConversationID
			for range trees {
				mine, other = append(mine, talk(b, db.Transcripts(), 1)), append(other, talk(b, theirs.Transcripts(), 1))
			}
			var ours, hands writers
			compare(b, func() error {
				return ours.write(func(i int) error {
					_, err := db.Transcripts().Commit(b.Context(), transcript.Change{Conversation: mine[i%trees], Append: sayings(1)})
					return err
				})
			}, func() error { return hands.write(func(i int) error { return hand(other[i%trees]) }) })
			b.ReportMetric(float64(ours.p99())/float64(hands.p99()), "p99-ratio")
		})
	}
}

// The last fifty of a thousand and of a hundred thousand, against the same rows by hand.
func BenchmarkTranscriptPath(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db := migrated(b)
			c := talk(b, db.Transcripts(), n)
			run(b, db, "ANALYZE bunkroom_transcript_entries, bunkroom_transcripts")
			last, err := db.SQL().Prepare(`SELECT e.seq, e.id, e.depth, e.parent, e.kind, e.turn, e.actor, e.created_at, e.body FROM bunkroom_transcripts AS t
				CROSS JOIN LATERAL (SELECT * FROM bunkroom_transcript_entries AS e WHERE e.tree = t.head_tree AND e.branch = t.head_branch AND e.depth <= t.head_depth ORDER BY e.depth DESC LIMIT 51) AS e
				WHERE t.conversation = $1 AND t.status <> 'deleted'`)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { last.Close() })
			b.ReportAllocs()
			compare(b, func() error {
				page, err := db.Transcripts().Path(context.Background(), transcript.PathQuery{Conversation: c, Limit: 50})
				if err == nil && len(page.Entries) != 50 {
					err = fmt.Errorf("%d entries", len(page.Entries))
				}
				return err
			}, func() error {
				rows, err := last.Query(string(c))
				if err != nil {
					return err
				}
				defer rows.Close()
				var all []transcript.Entry
				for rows.Next() {
					var e transcript.Entry
					var at int64
					var body []byte
					if err := rows.Scan(&e.Seq, &e.ID, &e.Depth, &e.Parent.Entry, &e.Kind, &e.Turn, &e.Actor, &at, &body); err != nil {
						return err
					}
					var doc struct {
						Parts []transcript.Part `json:"parts"`
						Usage transcript.Usage  `json:"usage"`
					}
					if err := json.Unmarshal(body, &doc); err != nil {
						return err
					}
					e.CreatedAt, e.Parts, e.Usage = time.UnixMicro(at).UTC(), doc.Parts, doc.Usage
					all = append(all, e)
				}
				if len(all) != 51 {
					return fmt.Errorf("%d entries: %w", len(all), rows.Err())
				}
				return rows.Err()
			})
		})
	}
}

// A fork by reference of a hundred thousand entries, against an append to them.
func BenchmarkTranscriptFork(b *testing.B) {
	db := migrated(b)
	s := db.Transcripts()
	c := talk(b, s, 100_000)
	b.ReportAllocs()
	compare(b, func() error {
		_, err := s.Fork(b.Context(), transcript.Fork{To: access.ConversationID(id.New()), From: c, ByReference: true})
		return err
	}, func() error {
		_, err := s.Commit(b.Context(), transcript.Change{Conversation: c, Append: sayings(1)})
		return err
	})
}

// What a model is given, of ten thousand entries that were compacted at nine thousand.
func BenchmarkTranscriptContext(b *testing.B) {
	db := migrated(b)
	s := db.Transcripts()
	c := talk(b, s, 10_000)
	page, err := s.Path(b.Context(), transcript.PathQuery{Conversation: c, Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	compaction := transcript.NewEntry{ID: "compaction", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "much was said", FirstKept: page.Entries[999].ID}}
	if _, err := s.Commit(b.Context(), transcript.Change{Conversation: c, Append: []transcript.NewEntry{compaction}}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		found, err := s.Context(b.Context(), c, transcript.Position{}, 2000)
		if err != nil || len(found) != 1001 {
			b.Fatal(len(found), err)
		}
	}
}

// What an entry takes of the tables and their indexes, in a conversation of ten and in one of ten thousand.
func BenchmarkTranscriptBytes(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, entries := migrated(b), 0
			for b.Loop() {
				for range max(1, 10_000/n) { // as many in all
					talk(b, db.Transcripts(), n)
					entries += n
				}
			}
			size := count(b, db, `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c WHERE c.relname LIKE 'bunkroom_transcript%' AND c.relkind = 'r' AND pg_table_is_visible(c.oid)`)
			b.ReportMetric(float64(size)/float64(entries), "bytes/entry")
		})
	}
}
