package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// talkColumns are those of an entry as it is read, with its calls packed into
// one, for most have none. What is large is not among them.
const talkColumns = `e.tree, e.branch, e.seq, e.id, e.depth, e.parent, e.kind, e.turn, e.actor, e.created_at, e.body,
	CASE WHEN e.calls > 0 THEN (SELECT ` + packedCalls + ` FROM bunkroom_transcript_calls AS c WHERE c.tree = e.tree AND c.seq = e.seq) END`

const packedCalls = `PACKED('id', c.call_id, 'status', c.status, 'settled', c.settled_at, 'hash', c.hash, 'size', c.size, 'result', c.result)`

// entry is an entry and whose row it is.
type entry struct {
	transcript.Entry
	tree, branch int64
}

// callRow is a call as it is packed.
type callRow struct {
	ID      transcript.CallID     `json:"id"`
	Status  transcript.CallStatus `json:"status"`
	Settled int64                 `json:"settled"` // 0 = it is not
	Hash    string                `json:"hash"`
	Size    int64                 `json:"size"`
	Result  *string               `json:"result"`
}

// as is the call as a tree knows it that reads its row through a seq: what was
// not settled when a fork was made is interrupted there, whatever came of it.
func (c callRow) as(through int64) transcript.Call {
	call := transcript.Call{ID: c.ID, Status: c.Status}
	if through != unread && (c.Settled == 0 || c.Settled > through) {
		call.Status = transcript.CallInterrupted
		return call
	}
	if c.Result != nil {
		call.Result = json.RawMessage(*c.Result)
	}
	if c.Hash != "" {
		call.Blob = &transcript.Blob{Hash: c.Hash, Size: c.Size}
	}
	return call
}

// view of a tree: through which seq it reads whose rows; nil: its own alone.
type sight map[int64]int64

func (s sight) through(tree int64) int64 {
	if s == nil {
		return unread
	}
	return s[tree]
}

const loadReads = `SELECT r.source, r.through_seq FROM bunkroom_transcript_reads AS r WHERE r.tree = ?`

// sight is what a tree sees.
func (p place) sight(ctx context.Context, t *tree) (sight, error) {
	if !t.reads() {
		return nil, nil
	}
	rows, err := p.rows(ctx, loadReads, t.key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := sight{}
	for rows.Next() {
		var source, through int64
		if err := rows.Scan(&source, &through); err != nil {
			return nil, err
		}
		s[source] = through
	}
	return s, rows.Err()
}

// entries are what a statement of talkColumns finds.
func (p place) entriesOf(ctx context.Context, sees sight, text string, args ...any) ([]entry, error) {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return readEntries(rows, sees)
}

func readEntries(rows *sql.Rows, sees sight) (found []entry, err error) {
	defer rows.Close()
	var e entry
	var body, packed sql.RawBytes
	var calls []transcript.Call
	into := []any{&e.tree, num(&e.branch), &e.Seq, (*string)(&e.ID), &e.Depth, (*string)(&e.Parent.Entry), (*string)(&e.Kind), (*string)(&e.Turn), (*string)(&e.Actor),
		moment{&e.CreatedAt}, &body, &packed}
	for rows.Next() {
		e = entry{}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		e.Parent.Root, e.Aborted = e.Parent.Entry == "", e.branch == 0
		calls = calls[:0]
		if len(packed) > 0 {
			var kept []callRow
			if err := json.Unmarshal(packed, &kept); err != nil {
				return nil, err
			}
			for _, c := range kept {
				calls = append(calls, c.as(sees.through(e.tree)))
			}
		}
		if err := transcript.Unseal(&e.Entry, body, calls); err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, rows.Err()
}

// plain are the entries without where they are; where blobs is set, with what is large.
func (p place) plain(ctx context.Context, found []entry, blobs bool) ([]transcript.Entry, error) {
	if len(found) == 0 {
		return nil, nil
	}
	out := make([]transcript.Entry, 0, len(found))
	for _, e := range found {
		if blobs {
			if err := p.fill(ctx, &e); err != nil {
				return nil, err
			}
		}
		out = append(out, e.Entry)
	}
	return out, nil
}

const loadBlob = `SELECT data FROM bunkroom_transcript_blobs WHERE tree = ? AND hash = ?`

// fill puts what is large where it belongs.
func (p place) fill(ctx context.Context, e *entry) error {
	for i := range e.Parts {
		part := &e.Parts[i]
		if part.Blob != nil {
			if err := p.row(ctx, loadBlob, e.tree, part.Blob.Hash).Scan((*[]byte)(&part.Data)); err != nil {
				return orUprooted(err)
			}
			part.Blob = nil
		}
		if call := part.Call; call != nil && call.Blob != nil {
			if err := p.row(ctx, loadBlob, e.tree, call.Blob.Hash).Scan((*[]byte)(&call.Result)); err != nil {
				return orUprooted(err)
			}
			call.Blob = nil
		}
	}
	return nil
}

// orUprooted is err, or errUprooted where a row is gone that was there.
func orUprooted(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return errUprooted
	}
	return err
}
