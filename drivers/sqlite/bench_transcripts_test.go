package sqlite_test

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
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// kilobyte is what an entry of a benchmark says.
var kilobyte = strings.Repeat("as was said. ", 79)

// saying is an entry of a kilobyte.
func saying() transcript.NewEntry {
	return transcript.NewEntry{
		ID: transcript.EntryID(id.New()), Kind: transcript.KindAssistant, Actor: "alice", Parts: []transcript.Part{transcript.TextPart(kilobyte)},
		Usage: transcript.Usage{Input: 1000, Output: 250, CostMicros: 40},
	}
}

func sayings(n int) (all []transcript.NewEntry) {
	for range n {
		all = append(all, saying())
	}
	return all
}

// talk is a conversation with as many entries, appended a thousand at a time.
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

// saidByHand is an append by hand and prepared, of the same rows under the same
// conditions, with the same content recognised by the same hash.
type saidByHand struct {
	db           *sql.DB
	head, insert *sql.Stmt
	many         *sql.Stmt // of 25
}

const manySaid = 25

func saidByHandOf(b *testing.B, raw *sql.DB) *saidByHand {
	b.Helper()
	const row = `(?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?)`
	const into = `INSERT INTO bunkroom_transcript_entries (tree, seq, id, branch, depth, parent, kind, turn, actor, hash, bytes, calls,
		context, whole, input, output, cache_read, cache_write, cost, created_at, preview, body) VALUES ` + row
	return &saidByHand{
		db: raw,
		head: prepare(b, raw, `UPDATE bunkroom_transcripts SET last_seq = last_seq + ?1, version = version + 1, head_was = head_id, head_id = ?2, head_depth = head_depth + ?1,
			head_input = head_input + ?3, head_output = head_output + ?4, head_cache_read = head_cache_read + ?5, head_cache_write = head_cache_write + ?6, head_cost = head_cost + ?7,
			input = input + ?3, output = output + ?4, cache_read = cache_read + ?5, cache_write = cache_write + ?6, cost = cost + ?7,
			entries = entries + ?1, bytes = bytes + ?8, updated_at = ?9
			WHERE conversation = ?10 AND status <> 'deleted' AND status = 'active' AND head_tip AND NOT in_turn AND draft = '' AND base_seq = 0
			RETURNING tree, last_seq, version, fence, head_was, head_branch, head_depth, head_input, head_output, head_cache_read, head_cache_write, head_cost,
			entries, bytes, input, output, cache_read, cache_write, cost, created_at`),
		insert: prepare(b, raw, into),
		many:   prepare(b, raw, into+strings.Repeat(", "+row, manySaid-1)),
	}
}

func (h *saidByHand) append(c access.ConversationID, entries []transcript.NewEntry) error {
	type row struct {
		body, hash string
		sum        transcript.Usage
	}
	rows, sum, bytes := make([]row, len(entries)), transcript.Usage{}, 0
	for i, e := range entries {
		body, err := json.Marshal(map[string]any{"parts": e.Parts, "usage": e.Usage})
		if err != nil {
			return err
		}
		digest := sha256.Sum256(body)
		sum = sum.Add(e.Usage)
		bytes += len(body)
		rows[i] = row{string(body), hex.EncodeToString(digest[:]), sum}
	}
	tx, err := h.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	now, last := time.Now().UnixMicro(), len(entries)-1
	var tree, seq, branch, depth, version, fence, n, size, created int64
	var parent string
	var at, all transcript.Usage
	if err := tx.Stmt(h.head).QueryRow(len(entries), string(entries[last].ID), sum.Input, sum.Output, sum.CacheRead, sum.CacheWrite, sum.CostMicros, bytes, now, string(c)).Scan(
		&tree, &seq, &version, &fence, &parent, &branch, &depth, &at.Input, &at.Output, &at.CacheRead, &at.CacheWrite, &at.CostMicros,
		&n, &size, &all.Input, &all.Output, &all.CacheRead, &all.CacheWrite, &all.CostMicros, &created); err != nil {
		return err
	}
	args := make([]any, 0, 21*len(entries))
	for i, e := range entries {
		u, back := at.Minus(sum).Add(rows[i].sum), int64(last-i)
		args = append(args, tree, seq-back, string(e.ID), branch, depth-back, parent, string(e.Kind), string(e.Actor), rows[i].hash, len(rows[i].body),
			u.Input, u.Output, u.CacheRead, u.CacheWrite, u.CostMicros, now, kilobyte[:transcript.PreviewRunes], rows[i].body)
		parent = string(e.ID)
	}
	const columns = 18
	for i := 0; i < len(entries); {
		st, k := h.insert, 1
		if len(entries)-i >= manySaid {
			st, k = h.many, manySaid
		}
		if _, err := tx.Stmt(st).Exec(args[i*columns : (i+k)*columns]...); err != nil {
			return err
		}
		i += k
	}
	return tx.Commit()
}

// appends compares appends of n entries each.
func appends(b *testing.B, n int) {
	db, raw := pair(b)
	theirs, err := sqlite.New(b.Context(), raw, nil)
	if err != nil {
		b.Fatal(err)
	}
	hand, mine, other := saidByHandOf(b, raw), talk(b, db.Transcripts(), 1), talk(b, theirs.Transcripts(), 1)
	b.ReportAllocs()
	compare(b, func() error {
		_, err := db.Transcripts().Commit(context.Background(), transcript.Change{Conversation: mine, Append: sayings(n)})
		return err
	}, func() error { return hand.append(other, sayings(n)) })
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

func BenchmarkTranscriptCrowd(b *testing.B) {
	for _, trees := range []int{1, 64} {
		b.Run(fmt.Sprint(trees), func(b *testing.B) {
			db, raw := pair(b)
			theirs, err := sqlite.New(b.Context(), raw, nil)
			if err != nil {
				b.Fatal(err)
			}
			hand := saidByHandOf(b, raw)
			var mine, other []access.ConversationID
			for range trees {
				mine, other = append(mine, talk(b, db.Transcripts(), 1)), append(other, talk(b, theirs.Transcripts(), 1))
			}
			var ours, hands writers
			compare(b, func() error {
				return ours.write(func(i int) error {
					_, err := db.Transcripts().Commit(context.Background(), transcript.Change{Conversation: mine[i%trees], Append: sayings(1)})
					return err
				})
			}, func() error { return hands.write(func(i int) error { return hand.append(other[i%trees], sayings(1)) }) })
			b.ReportMetric(float64(ours.p99())/float64(hands.p99()), "p99-ratio")
		})
	}
}

// The last fifty of a thousand and of a hundred thousand, against the same rows by hand.
func BenchmarkTranscriptPath(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, _ := pair(b)
			c := talk(b, db.Transcripts(), n)
			last := prepare(b, db.SQL(), `SELECT e.seq, e.id, e.depth, e.parent, e.kind, e.turn, e.actor, e.created_at, e.body FROM bunkroom_transcripts AS t
				JOIN bunkroom_transcript_entries AS e ON e.tree = t.head_tree AND e.branch = t.head_branch AND e.depth <= t.head_depth
				WHERE t.conversation = ? AND t.status <> 'deleted' ORDER BY e.depth DESC LIMIT 51`)
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

// What a model is given, of ten thousand entries that were compacted at nine thousand.
func BenchmarkTranscriptContext(b *testing.B) {
	db, _ := pair(b)
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

// A fork by reference of a hundred thousand entries, against an append to them.
func BenchmarkTranscriptFork(b *testing.B) {
	db, _ := pair(b)
	s := db.Transcripts()
	c := talk(b, s, 100_000)
	b.ReportAllocs()
	compare(b, func() error {
		_, err := s.Fork(context.Background(), transcript.Fork{To: access.ConversationID(id.New()), From: c, ByReference: true})
		return err
	}, func() error {
		_, err := s.Commit(context.Background(), transcript.Change{Conversation: c, Append: sayings(1)})
		return err
	})
}

// What an entry takes of the file, in a conversation of ten and in one of ten thousand.
func BenchmarkTranscriptBytes(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, _ := pair(b)
			size := func() (bytes int64) {
				if err := db.SQL().QueryRow(`SELECT (SELECT page_count FROM pragma_page_count()) * (SELECT page_size FROM pragma_page_size())`).Scan(&bytes); err != nil {
					b.Fatal(err)
				}
				return bytes
			}
			before, entries := size(), 0
			for b.Loop() {
				for range max(1, 10_000/n) { // as many in all
					talk(b, db.Transcripts(), n)
					entries += n
				}
			}
			b.ReportMetric(float64(size()-before)/float64(entries), "bytes/entry")
		})
	}
}
