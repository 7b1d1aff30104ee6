package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// The commonest of all changes appends at the head, which is the last of its
// branch, and does nothing else. It loads nothing: one statement says on what
// conditions the head moves, and the entries go where that has moved to. Where a
// condition does not hold, or an entry is there already, nothing is written, and
// the change is decided on like any other.

// appendable reports whether a change is such an append.
func appendable(c transcript.Change, sealed []transcript.Sealed) bool {
	if len(c.Append) == 0 || c.KeepHead || c.Begin || c.End || c.Expect.Root || c.After.Root || c.Draft != nil || c.Status != "" ||
		c.EndIdle || c.Hold || c.Resume || len(c.Start)+len(c.Settle)+len(c.Abort)+len(c.Refs)+len(c.Labels)+len(c.Promote) > 0 ||
		!c.Expect.IsZero() && !c.After.IsZero() && c.Expect != c.After {
		return false
	}
	var bytes int64
	for i, e := range c.Append {
		bytes += sealed[i].Bytes
		if e.Compaction != nil || e.State != nil && e.State.Whole || len(sealed[i].Blobs) > 0 {
			return false
		}
	}
	return bytes <= transcript.MaxBatchBytes
}

// moveHead has its arguments by number, as some stand in several places: see args.
// moveOwn is it for a tree that reads no others: to get ready to look for an entry among theirs costs a
// tenth of an append, whether there are any or not.
const (
	moveHead = movesHead + ` AND (t.base_seq = 0 OR NOT EXISTS (SELECT 1 FROM bunkroom_transcript_reads AS r JOIN bunkroom_transcript_entries AS x ON x.tree = r.source
		WHERE r.tree = t.tree AND r.source <> r.tree AND x.id IN IDS(?)))` + headMoved
	moveOwn = movesHead + ` AND t.base_seq = 0` + headMoved
)

const movesHead = `UPDATE bunkroom_transcripts AS t SET last_seq = t.last_seq + ?1, version = t.version + 1,
	head_was = t.head_id, head_id = ?2, head_depth = t.head_depth + ?1,
	head_input = t.head_input + ?3, head_output = t.head_output + ?4, head_cache_read = t.head_cache_read + ?5, head_cache_write = t.head_cache_write + ?6, head_cost = t.head_cost + ?7,
	entries = t.entries + ?1, bytes = t.bytes + ?8,
	input = t.input + ?3, output = t.output + ?4, cache_read = t.cache_read + ?5, cache_write = t.cache_write + ?6, cost = t.cost + ?7,
	open_calls = t.open_calls + ?9, updated_at = COALESCE(NOW(), ?10)
	WHERE t.conversation = ?11 AND t.status <> 'deleted' AND FRESH AND t.status = 'active' AND t.head_tip AND t.draft = ''
	AND CASE WHEN CAST(?12 AS bigint) = 0 THEN NOT t.in_turn ELSE t.in_turn AND t.fence = ?12 END
	AND (CAST(?13 AS text) = '' OR t.head_id = ?13) AND (CAST(?14 AS bigint) = 0 OR t.version = ?14) AND (CAST(?15 AS bigint) = 0 OR t.bytes + ?8 <= ?15)`

const headMoved = `
	RETURNING ` + movedPlace + `, ` + movedTexts + `, ` + movedNumbers + `, CASE WHEN by_reference THEN 1 ELSE 0 END AS reads_on, CASE WHEN held THEN 1 ELSE 0 END AS kept_back`

// What moveHead answers with: where the head is, and what of the transcript is not known to who moves it.
const (
	movedPlace   = `tree, head_branch, head_depth, head_context, head_whole, head_input, head_output, head_cache_read, head_cache_write, head_cost, head_was`
	movedTexts   = `from_conversation, from_entry`
	movedNumbers = `last_seq, version, fence, entries, bytes, input, output, cache_read, cache_write, cost,
		began_input, began_output, began_cache_read, began_cache_write, began_cost, from_seq, created_at, updated_at`
)

const (
	intoEntries = `INSERT INTO bunkroom_transcript_entries (tree, seq, id, branch, depth, parent, kind, turn, actor, hash, bytes, calls,
		context, whole, input, output, cache_read, cache_write, cost, created_at, preview, body) `
	intoCalls = `INSERT INTO bunkroom_transcript_calls (tree, seq, call_id, status, settled_at, hash, size, result) `

	// movedEntries and movedCalls are the entries as arguments, by where they are among the new.
	movedEntries = intoEntries + `SELECT t.tree, t.last_seq + r.i, r.id, t.head_branch, t.head_depth + r.i, CASE r.parent WHEN '' THEN t.head_was ELSE r.parent END,
		r.kind, r.turn, r.actor, r.hash, r.bytes, r.calls, t.head_context, t.head_whole,
		t.head_input + r.input, t.head_output + r.output, t.head_cache_read + r.cache_read, t.head_cache_write + r.cache_write, t.head_cost + r.cost,
		t.updated_at, r.preview, r.body
		FROM t, ROWS(i bigint, id text, parent text, kind text, turn text, actor text, hash text, bytes bigint, calls bigint, input bigint, output bigint, cache_read bigint, cache_write bigint, cost bigint, preview text, body text) AS r`
	movedCalls = intoCalls + `SELECT t.tree, t.last_seq + r.i, r.call_id, r.status, CASE WHEN r.settled THEN t.last_seq + r.i END, '', 0, r.result
		FROM t, ROWS(i bigint, call_id text, status text, settled boolean, result text null) AS r`
)

// movedEntry is movedEntries for one entry: what the statement that moves the
// head has of it already is not said again, and what is 0 for the last of
// several not at all. To send and to read an argument costs more than what is in it.
const movedEntry = intoEntries + `SELECT t.tree, t.last_seq, CAST(?2 AS text), t.head_branch, t.head_depth, t.head_was,
	CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(?8 AS bigint), CAST(? AS bigint), t.head_context, t.head_whole,
	t.head_input, t.head_output, t.head_cache_read, t.head_cache_write, t.head_cost, t.updated_at, CAST(? AS text), CAST(? AS text) FROM t`

// added is an entry that is appended, and its place among those it comes with,
// counted back from the last, which has 0; usage is what is still to come after it, as a negative sum.
type added struct {
	transcript.NewEntry
	transcript.Sealed
	i      int64
	parent transcript.EntryID // empty: what the head was
	after  transcript.Usage
}

// addedCall is a call of one of them.
type addedCall struct {
	transcript.Call
	i int64
}

// appending is such an append.
type appending struct {
	transcript.Change
	own     bool // to a tree that is not known to read others
	several bool // each entry is a change of its own
	entries []added
	calls   []addedCall
	bytes   int64
	open    int64
	usage   transcript.Usage
	ids     []string
}

func newAppending(c transcript.Change, sealed []transcript.Sealed) *appending {
	n := len(c.Append)
	a := &appending{Change: c, entries: make([]added, n), ids: make([]string, n)}
	for i := n - 1; i >= 0; i-- {
		e := &a.entries[i]
		*e = added{NewEntry: c.Append[i], Sealed: sealed[i], i: int64(i - n + 1), after: transcript.Usage{}.Minus(a.usage)}
		if i > 0 {
			e.parent = c.Append[i-1].ID
		}
		a.usage = a.usage.Add(e.Usage)
		a.bytes += e.Bytes
		a.ids[i] = string(e.ID)
		for _, call := range e.Calls {
			a.calls = append(a.calls, addedCall{call, e.i})
			if !call.Status.Settled() {
				a.open++
			}
		}
	}
	return a
}

// move is the statement that moves the head.
func (a *appending) move() string {
	if a.own {
		return moveOwn
	}
	return moveHead
}

// args are the arguments of it.
func (a *appending) args(s *store) []any {
	n := len(a.entries)
	expect := string(a.Expect.Entry) + string(a.After.Entry)
	if a.Expect == a.After {
		expect = string(a.Expect.Entry)
	}
	args := make([]any, 0, 40)
	args = append(args, int64(n), a.ids[n-1])
	args = append(args, usageArgs(a.usage)...)
	args = append(args, a.bytes, a.open, s.own(), string(a.Conversation), a.Fence, expect, a.Version, a.MaxBytes)
	if !a.own {
		args = append(args, idsJSON(a.ids))
	}
	return args
}

// errRefused says that a condition of an append does not hold.
var errRefused = errors.New("sqlstore: not at once")

// append writes it, or nothing: then it answers errRefused, or an error that Taken reports.
func (s transcripts) append(ctx context.Context, a *appending) (done transcript.Committed, err error) {
	var t *tree
	switch arrays := s.store.dialect.Arrays; {
	case arrays && s.host == nil:
		t, err = s.appendAlone(ctx, a, nil)
	case arrays:
		err = s.within(ctx, func(ctx context.Context, on place) (err error) {
			t, err = on.appendOnce(ctx, a, nil)
			return err
		})
	default:
		err = s.within(ctx, func(ctx context.Context, on place) (err error) {
			t, err = on.appendEach(ctx, a)
			return err
		})
	}
	if err != nil {
		return done, s.said(err)
	}
	return a.committed(t, 0, len(a.entries)), nil
}

// appendAlone is the append as one statement that is a transaction of its own. It is not sent unless go, where there is one, agrees.
func (s transcripts) appendAlone(ctx context.Context, a *appending, agreed func() bool) (t *tree, err error) {
	err = s.alone(ctx, agreed, func(ctx context.Context, on place, first *sending) (err error) {
		t, err = on.appendOnce(ctx, a, first)
		return err
	})
	return t, err
}

// committed is what became of those of its entries that are from there on, before to. If there
// are others after them, each is a change of its own.
func (a *appending) committed(t *tree, from, to int) transcript.Committed {
	all := t.Transcript
	last := &a.entries[to-1]
	all.Head.Entry = last.ID
	all.LastSeq += last.i
	all.Version += last.i
	all.Entries += last.i
	all.Usage = all.Usage.Add(last.after)
	for _, later := range a.entries[to:] {
		all.Bytes -= later.Bytes
	}
	done := transcript.Committed{Transcript: all, Seqs: make([]int64, to-from)}
	for i := range done.Seqs {
		done.Seqs[i] = t.LastSeq + a.entries[from+i].i
	}
	return done
}

// moved is the transcript whose head was moved, and where that is if it was asked for.
type moved struct {
	tree
	was     transcript.EntryID
	numbers [20]int64
}

// place is where a scan puts movedPlace.
func (m *moved) place() []any {
	return append([]any{&m.key, &m.head.branch, &m.head.depth, &m.at.context, &m.at.whole}, append(usageInto(&m.at.usage), (*string)(&m.was))...)
}

// texts is where it puts movedTexts.
func (m *moved) texts() []any {
	return []any{(*string)(&m.Lineage.Conversation), (*string)(&m.Lineage.At.Entry)}
}

// done makes of the numbers, and of what a has asked for, what they are.
func (m *moved) done(a *appending) {
	n := m.numbers
	usage := func(n []int64) transcript.Usage {
		return transcript.Usage{Input: n[0], Output: n[1], CacheRead: n[2], CacheWrite: n[3], CostMicros: n[4]}
	}
	m.Conversation, m.Status, m.InTurn = a.Conversation, transcript.Active, a.Fence > 0
	m.Head.Entry = transcript.EntryID(a.ids[len(a.ids)-1])
	m.LastSeq, m.Version, m.Fence, m.Entries, m.Bytes, m.Usage, m.Inherited = n[0], n[1], n[2], n[3], n[4], usage(n[5:]), usage(n[10:])
	m.Lineage.Seq, m.CreatedAt, m.UpdatedAt = n[15], time.UnixMicro(n[16]).UTC(), time.UnixMicro(n[17]).UTC()
	m.Lineage.ByReference, m.Held = n[18] != 0, n[19] != 0
	m.Lineage.At.Root = m.Lineage.Conversation != "" && m.Lineage.At.Entry == ""
}

// refused is err, or errRefused where no row was found that could be moved.
func refused(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return errRefused
	}
	return err
}

// appendEach is a statement for the head, and one for some of the entries at a time.
func (p place) appendEach(ctx context.Context, a *appending) (*tree, error) {
	var m moved
	into := append(m.place(), m.texts()...)
	for i := range m.numbers {
		into = append(into, &m.numbers[i])
	}
	if err := refused(p.row(ctx, a.move(), a.args(p.store)...).Scan(into...)); err != nil {
		return nil, err
	}
	m.done(a)
	t := &m.tree
	rows := make([][]any, len(a.entries))
	var calls [][]any
	for i, e := range a.entries {
		parent := e.parent
		if i == 0 {
			parent = m.was
		}
		seq, at := t.LastSeq+e.i, sums{t.at.context, t.at.whole, t.at.usage.Add(e.after)}
		rows[i] = entryArgs(t.key, seq, t.head.branch, t.head.depth+e.i, parent, at, t.UpdatedAt, e.NewEntry, e.Sealed)
		calls = append(calls, callArgs(t.key, seq, e.Calls)...)
	}
	if err := p.insert(ctx, intoEntries, rows); err != nil {
		return nil, err
	}
	return t, p.insert(ctx, intoCalls, calls)
}

// entryArgs are the arguments of intoEntries.
func entryArgs(tree, seq, branch, depth int64, parent transcript.EntryID, at sums, created time.Time, e transcript.NewEntry, s transcript.Sealed) []any {
	args := make([]any, 0, 22)
	var in any
	if branch != 0 {
		in = branch
	}
	args = append(args, tree, seq, string(e.ID), in, depth, string(parent), string(e.Kind), string(e.Turn), string(e.Actor), s.Hash, s.Bytes, len(s.Calls), at.context, at.whole)
	args = append(args, usageArgs(at.usage)...)
	return append(args, micros(created), s.Preview, string(s.Body))
}

// callArgs are the arguments of intoCalls.
func callArgs(tree, seq int64, calls []transcript.Call) (rows [][]any) {
	for _, c := range calls {
		var settled, result any
		if c.Status.Settled() {
			settled = seq
		}
		if len(c.Result) > 0 {
			result = string(c.Result)
		}
		blob := transcript.Blob{}
		if c.Blob != nil {
			blob = *c.Blob
		}
		rows = append(rows, []any{tree, seq, string(c.ID), string(c.Status), settled, blob.Hash, blob.Size, result})
	}
	return rows
}

// insert inserts rows, some at a time.
func (p place) insert(ctx context.Context, into string, rows [][]any) error {
	for len(rows) > 0 {
		n := min(len(rows), fewRows)
		if len(rows) >= someRows {
			n = someRows
		}
		one := "(?" + strings.Repeat(", ?", len(rows[0])-1) + ")"
		args := make([]any, 0, n*len(rows[0]))
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		if _, err := p.exec(ctx, into+"VALUES "+one+strings.Repeat(", "+one, n-1), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
