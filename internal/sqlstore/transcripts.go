package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// transcripts has transcript.Decide decide on all but the commonest append.
//
// An entry has a spot: the tree whose row it is, a branch in it, and a depth. A
// branch is a stretch of entries each of which follows the one before it, so that
// a path, however long, is a few stretches, and a page of it is a range of an index.
// An entry that follows the last of a branch goes on in it; any other opens one.
//
// A fork by reference has rows for what is its own, and reads those of its
// source as they were when it was made: a call that was settled there later than the
// tree reads through is interrupted in the fork. Purge copies what such a fork reads before that goes.
type transcripts struct{ view }

var _ transcript.Store = transcripts{}

// Transcripts returns the store of transcripts.
func (v view) Transcripts() transcript.Store { return transcripts{v} }

// spot is where the row of an entry is. The zero value is before the root.
type spot struct{ tree, branch, depth int64 }

// sums are of the whole path to an entry.
type sums struct {
	context int64 // from which depth on a model is given it; 0 = from the root
	whole   int64 // from which depth on its state changes count
	usage   transcript.Usage
}

// tree is the row of a transcript.
type tree struct {
	transcript.Transcript
	key     int64
	head    spot
	tip     bool // what follows the head goes on in its branch
	at      sums // of the head
	draft   transcript.EntryID
	open    int64 // calls that are not settled
	inputs  int64 // that wait
	base    spot  // of a fork that reads its source: where its own begin
	baseSeq int64 // what is its own is newer
}

// reads reports whether the tree reads rows of others.
func (t *tree) reads() bool { return t.baseSeq > 0 }

const (
	// rowColumns are what a [transcript.Transcript] says.
	rowColumns = `conversation, status, version, last_seq, fence, in_turn, head_id, entries, bytes, input, output, cache_read, cache_write, cost,
	began_input, began_output, began_cache_read, began_cache_write, began_cost, held, from_conversation, from_entry, from_seq, by_reference, created_at, updated_at`
	treeColumns = rowColumns + `, tree, head_tree, head_branch, head_depth, head_tip,
	head_context, head_whole, head_input, head_output, head_cache_read, head_cache_write, head_cost,
	draft, open_calls, inputs, base_tree, base_branch, base_depth, base_seq`
)

func usageInto(u *transcript.Usage) []any {
	return []any{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.CostMicros}
}

func usageArgs(u transcript.Usage) []any {
	return []any{u.Input, u.Output, u.CacheRead, u.CacheWrite, u.CostMicros}
}

// rowInto is where a scan puts rowColumns; rowDone makes of them what they are.
func rowInto(t *transcript.Transcript) []any {
	into := make([]any, 0, 45)
	into = append(into, (*string)(&t.Conversation), (*string)(&t.Status), &t.Version, &t.LastSeq, &t.Fence, flag{&t.InTurn}, (*string)(&t.Head.Entry), &t.Entries, &t.Bytes)
	into = append(into, usageInto(&t.Usage)...)
	into = append(into, usageInto(&t.Inherited)...)
	return append(into, flag{&t.Held}, (*string)(&t.Lineage.Conversation), (*string)(&t.Lineage.At.Entry), &t.Lineage.Seq, flag{&t.Lineage.ByReference}, moment{&t.CreatedAt}, moment{&t.UpdatedAt})
}

func rowDone(t *transcript.Transcript) {
	t.Head.Root = t.Head.Entry == ""
	t.Lineage.At.Root = t.Lineage.Conversation != "" && t.Lineage.At.Entry == ""
}

// into is where a scan puts treeColumns; done makes of them what they are.
func (t *tree) into() (into []any, done func()) {
	into = append(rowInto(&t.Transcript), &t.key, &t.head.tree, &t.head.branch, &t.head.depth, flag{&t.tip}, &t.at.context, &t.at.whole)
	into = append(into, usageInto(&t.at.usage)...)
	into = append(into, (*string)(&t.draft), &t.open, &t.inputs, num(&t.base.tree), num(&t.base.branch), num(&t.base.depth), &t.baseSeq)
	return into, func() { rowDone(&t.Transcript) }
}

// scanned is a tree read from a row.
func scanned(row *sql.Row) (*tree, error) {
	t := &tree{}
	into, done := t.into()
	if err := row.Scan(into...); err != nil {
		return nil, err
	}
	done()
	return t, nil
}

const (
	loadTree  = `SELECT ` + treeColumns + ` FROM bunkroom_transcripts AS t WHERE t.conversation = ? AND t.status <> 'deleted'`
	loadMany  = `SELECT ` + rowColumns + ` FROM bunkroom_transcripts AS t WHERE t.conversation IN IDS(?) AND t.status <> 'deleted'`
	keepTree  = loadTree + ` FOR UPDATE`
	readsTree = loadTree + ` FOR KEY SHARE` // it is not purged meanwhile

	insertTree = `INSERT INTO bunkroom_transcripts AS t (conversation, status, version, last_seq, head_id, head_tree, head_branch, head_depth,
		head_context, head_whole, head_input, head_output, head_cache_read, head_cache_write, head_cost,
		began_input, began_output, began_cache_read, began_cache_write, began_cost,
		from_conversation, from_entry, from_seq, by_reference, base_tree, base_branch, base_depth, base_seq, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING RETURNING tree`
	intoReads = `INSERT INTO bunkroom_transcript_reads (tree, source, through_seq) `
)

// unread is what a tree reads its own rows through.
const unread = 1<<63 - 1

// find is the tree of a conversation.
func (p place) find(ctx context.Context, text string, c access.ConversationID) (*tree, error) {
	t, err := scanned(p.row(ctx, text, string(c)))
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: %s", transcript.ErrNotFound, c)
	}
	return t, err
}

// plant inserts a tree, and gives it its key. False: there is one of that conversation.
func (p place) plant(ctx context.Context, t *tree) (bool, error) {
	args := []any{string(t.Conversation), string(t.Status), t.Version, t.LastSeq, string(t.Head.Entry), t.head.tree, t.head.branch, t.head.depth, t.at.context, t.at.whole}
	args = append(args, usageArgs(t.at.usage)...)
	args = append(args, usageArgs(t.Inherited)...)
	args = append(args, string(t.Lineage.Conversation), string(t.Lineage.At.Entry), t.Lineage.Seq, t.Lineage.ByReference)
	if t.base == (spot{}) {
		args = append(args, nil, nil, nil)
	} else {
		args = append(args, t.base.tree, t.base.branch, t.base.depth)
	}
	args = append(args, t.baseSeq, micros(t.CreatedAt), micros(t.UpdatedAt))
	switch err := p.row(ctx, insertTree, args...).Scan(&t.key); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	err := p.insert(ctx, intoReads, [][]any{{t.key, t.key, int64(unread)}})
	return err == nil, err
}

func (s transcripts) Create(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return transcript.Transcript{}, err
	}
	var t *tree
	err := s.change(ctx, func(ctx context.Context, on place, clock time.Time) error {
		t = &tree{Transcript: transcript.Empty(c, clock)}
		made, err := on.plant(ctx, t)
		if err == nil && !made {
			t, err = on.find(ctx, loadTree, c)
		}
		return err
	})
	if err != nil {
		return transcript.Transcript{}, err
	}
	return t.Transcript, nil
}

func (s transcripts) Load(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
	t, err := s.of(ctx, c, nil)
	if err != nil {
		return transcript.Transcript{}, err
	}
	return t.Transcript, nil
}

func (s transcripts) LoadMany(ctx context.Context, conversations ...access.ConversationID) (out []transcript.Transcript, err error) {
	if err := transcript.CheckMany(conversations); err != nil {
		return nil, err
	}
	asked := make([]string, len(conversations))
	for i, c := range conversations {
		asked[i] = string(c)
	}
	ids := idsJSON(asked)
	if ids == "" {
		return nil, ctx.Err()
	}
	all := make(map[access.ConversationID]transcript.Transcript, len(conversations))
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, loadMany, ids)
		if err != nil {
			return err
		}
		defer rows.Close()
		var t transcript.Transcript
		into := rowInto(&t)
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			rowDone(&t)
			all[t.Conversation] = t
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	for _, c := range conversations {
		if t, there := all[c]; there {
			out = append(out, t)
		}
	}
	return out, nil
}

// of reads the tree of a conversation, and then calls do, which may be nil.
func (s transcripts) of(ctx context.Context, c access.ConversationID, do func(ctx context.Context, on place, t *tree) error) (t *tree, err error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return nil, err
	}
	for range attempts {
		err = s.read(ctx, func(ctx context.Context, on place) error {
			if t, err = on.find(ctx, loadTree, c); err != nil || do == nil {
				return err
			}
			return do(ctx, on, t)
		})
		if !errors.Is(err, errUprooted) {
			break
		}
	}
	return t, err
}

// errUprooted says that rows have gone while a tree was read: it was purged, or
// what it read was, and it has rows of its own now. Then it is read again.
var errUprooted = errors.New("sqlstore: what is read of a transcript goes away, again and again")

// change is write in this package's words.
func (s transcripts) change(ctx context.Context, do func(ctx context.Context, on place, clock time.Time) error) (err error) {
	for range overtakings {
		err = s.said(s.write(ctx, nil, do))
		if s.host != nil || !errors.Is(err, session.ErrStale) {
			break
		}
	}
	return err
}

// said is err in the words of the transcripts.
func (s transcripts) said(err error) error {
	switch busy := s.store.dialect.Busy; {
	case err == nil:
	case busy != nil && busy(err):
		return fmt.Errorf("%w: %w", transcript.ErrBusy, err)
	case errors.Is(err, session.ErrUnknown):
		return fmt.Errorf("%w: %w", transcript.ErrUnknown, err)
	case errors.Is(err, session.ErrStale): // which is what a deadlock is told as
		return fmt.Errorf("%w: %w", transcript.ErrBusy, err)
	}
	return err
}
