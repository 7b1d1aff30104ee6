package sqlstore

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// The commonest fork is by reference, at the head of a transcript that reads no
// other's rows and has no labels. Like the commonest append it loads nothing: a
// statement says on what conditions it is made, and of what. Where one of them
// does not hold, or there is such a transcript already, nothing is written, and
// the fork is made like any other.

// forkable reports whether it may be such a fork.
func forkable(f transcript.Fork) bool { return f.ByReference && !f.At.Root && !f.Before && !f.Refs }

// forkHead has its arguments by number: the fork, its source, the entry that is to be
// the head or none, and the clock. It reads its source, and (by LIMIT) the clock, once. Where it had to wait
// for a commit to its source, it sees that one's row, but no label of it: then the row is not the one it began with.
const forkHead = `INSERT INTO bunkroom_transcripts AS t (conversation, status, version, last_seq, head_id, head_tree, head_branch, head_depth,
		head_context, head_whole, head_input, head_output, head_cache_read, head_cache_write, head_cost,
		began_input, began_output, began_cache_read, began_cache_write, began_cost,
		from_conversation, from_entry, from_seq, by_reference, base_tree, base_branch, base_depth, base_seq, created_at, updated_at)
	SELECT ?1, 'active', 1, s.last_seq + 1, s.head_id, s.tree, s.head_branch, s.head_depth,
		s.head_context, s.head_whole, s.head_input, s.head_output, s.head_cache_read, s.head_cache_write, s.head_cost,
		s.head_input, s.head_output, s.head_cache_read, s.head_cache_write, s.head_cost,
		s.conversation, s.head_id, s.last_seq, TRUE, s.tree, s.head_branch, s.head_depth, s.last_seq, n.at, n.at
	FROM bunkroom_transcripts AS s CROSS JOIN (SELECT COALESCE(NOW(), ?4) AS at LIMIT 1) AS n
	WHERE s.conversation = ?2 AND s.status <> 'deleted' AND FRESH AND s.base_seq = 0 AND s.head_depth > 0 AND s.head_tree = s.tree
	AND (CAST(?3 AS text) = '' OR s.head_id = ?3) AND NOT EXISTS (SELECT 1 FROM bunkroom_transcript_labels AS l WHERE l.tree = s.tree)
	AND s.last_seq = (SELECT v.last_seq FROM bunkroom_transcripts AS v WHERE v.conversation = ?2 AND v.status <> 'deleted') FOR KEY SHARE
	ON CONFLICT DO NOTHING
	RETURNING head_id, ` + forkNumbers

const forkNumbers = `tree, base_tree, base_seq, head_input, head_output, head_cache_read, head_cache_write, head_cost, created_at`

// forkAll is all of it in one statement.
const forkAll = `WITH t AS (` + forkHead + `),
	r AS (` + intoReads + `SELECT t.tree, t.tree, CAST(? AS bigint) FROM t UNION ALL SELECT t.tree, t.base_tree, t.base_seq FROM t),
	f AS (` + intoFacts + `SELECT t.tree, t.base_seq + 1, CAST(? AS text), t.head_id, FALSE, '', '', '', 0, t.created_at FROM t)
	SELECT head_id, CAST(ARRAY[` + forkNumbers + `] AS text) FROM t`

// forkAlone is forkAll as a transaction of its own, which is made once.
func (s *store) forkAlone() string {
	if text, ok := s.made.Load(forkAll); ok {
		return text.(string)
	}
	text := briefly(forkAll)
	s.made.Store(forkAll, text)
	return text
}

// forkOnce makes it, or nothing: then it answers errRefused.
func (s transcripts) forkOnce(ctx context.Context, f transcript.Fork) (row transcript.Transcript, err error) {
	args := []any{string(f.To), string(f.From), string(f.At.Entry), s.store.own()}
	switch arrays := s.store.dialect.Arrays; {
	case arrays && s.host == nil:
		err = s.alone(ctx, nil, func(ctx context.Context, on place, first *sending) (err error) {
			args[0] = first.of(args[0])
			row, err = on.forkAll(ctx, f, s.store.forkAlone(), args)
			return err
		})
	case arrays:
		err = s.within(ctx, func(ctx context.Context, on place) (err error) {
			row, err = on.forkAll(ctx, f, forkAll, args)
			return err
		})
	default:
		err = s.within(ctx, func(ctx context.Context, on place) (err error) {
			row, err = on.forkEach(ctx, f, args)
			return err
		})
	}
	if err != nil {
		return transcript.Transcript{}, s.said(err)
	}
	s.store.readers.add(f.To)
	return row, nil
}

func (p place) forkAll(ctx context.Context, f transcript.Fork, text string, args []any) (transcript.Transcript, error) {
	var m forkedHead
	var numbers string
	if err := refused(p.row(ctx, text, append(args, int64(unread), string(transcript.FactForked))...).Scan((*string)(&m.head), &numbers)); err != nil {
		return transcript.Transcript{}, err
	}
	if err := readArray(numbers, m.numbers[:]); err != nil {
		return transcript.Transcript{}, err
	}
	row, _ := m.row(f)
	return row, nil
}

// forkEach is a statement for each table.
func (p place) forkEach(ctx context.Context, f transcript.Fork, args []any) (transcript.Transcript, error) {
	var m forkedHead
	into := []any{(*string)(&m.head)}
	for i := range m.numbers {
		into = append(into, &m.numbers[i])
	}
	if err := refused(p.row(ctx, forkHead, args...).Scan(into...)); err != nil {
		return transcript.Transcript{}, err
	}
	row, fact := m.row(f)
	tree, source, seq := m.numbers[0], m.numbers[1], m.numbers[2]
	if err := p.insert(ctx, intoReads, [][]any{{tree, tree, int64(unread)}, {tree, source, seq}}); err != nil {
		return row, err
	}
	return row, p.insert(ctx, intoFacts, [][]any{factArgs(tree, fact, row.CreatedAt)})
}

// forkedHead is what forkHead answers with.
type forkedHead struct {
	head    transcript.EntryID
	numbers [9]int64
}

// row is what was made, and its first fact, in the words of who decides.
func (m *forkedHead) row(f transcript.Fork) (transcript.Transcript, transcript.Fact) {
	n := m.numbers
	inherited := transcript.Usage{Input: n[3], Output: n[4], CacheRead: n[5], CacheWrite: n[6], CostMicros: n[7]}
	return f.Row(transcript.Transcript{LastSeq: n[2]}, transcript.Position{Entry: m.head}, inherited, time.UnixMicro(n[8]).UTC())
}
