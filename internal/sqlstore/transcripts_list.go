package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const (
	getEntries = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND +e.seq > ? AND e.id IN IDS(?)`
	getRead    = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_reads AS r JOIN bunkroom_transcript_entries AS e ON e.tree = r.source
		WHERE r.tree = ? AND r.source <> r.tree AND +e.seq <= r.through_seq AND e.id IN IDS(?)`
)

// get reads the entries of ids that there are, in their order.
func (p place) get(ctx context.Context, t *tree, ids []transcript.EntryID) ([]entry, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	asked := idsJSON(texts)
	if asked == "" {
		return nil, nil
	}
	found, err := p.entriesOf(ctx, nil, getEntries, t.key, t.baseSeq, asked)
	if err != nil {
		return nil, err
	}
	if t.reads() {
		more, err := p.inherited(ctx, t, getRead, t.key, asked)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	all := make(map[transcript.EntryID]entry, len(found))
	for _, e := range found {
		all[e.ID] = e
	}
	var out []entry
	for _, id := range ids {
		if e, there := all[id]; there {
			out = append(out, e)
		}
	}
	return out, nil
}

// inherited are those that a statement finds in the rows of others and that are
// on the path which a fork began with.
func (p place) inherited(ctx context.Context, t *tree, text string, args ...any) ([]entry, error) {
	sees, err := p.sight(ctx, t)
	if err != nil {
		return nil, err
	}
	base, err := p.spans(ctx, t.base)
	if err != nil {
		return nil, err
	}
	found, err := p.entriesOf(ctx, sees, text, args...)
	return slices.DeleteFunc(found, func(e entry) bool { return !covers(base, spot{e.tree, e.branch, e.Depth}) }), err
}

func (s transcripts) Get(ctx context.Context, c access.ConversationID, ids ...transcript.EntryID) (out []transcript.Entry, err error) {
	if len(ids) > transcript.MaxListed {
		return nil, field("ids", fmt.Sprintf("at most %d", transcript.MaxListed))
	}
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		found, err := on.get(ctx, t, ids)
		if err != nil {
			return err
		}
		out, err = on.plain(ctx, found, false)
		return err
	})
	return out, err
}

const (
	ownTimeline = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq > ? AND e.seq < ?`
	// Of a turn, or a kind that there are few of, all are in an index of their own.
	fewTimeline = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND +e.seq > ? AND +e.seq < ?`
	ofTurn      = ` AND e.turn = ? AND e.turn <> ''`
	ofKinds     = ` AND e.kind IN IDS(?)`
	ofKind      = ` AND e.kind = ? AND e.kind NOT IN ('user', 'assistant')`
	newestFirst = ` ORDER BY e.seq DESC LIMIT ?`
	// onStretch is a stretch of the path that a fork began with, whose seqs rise with its depths.
	onStretch = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.branch = ? AND e.depth BETWEEN ? AND ? AND e.seq < ?`
	deepFirst = ` ORDER BY e.depth DESC LIMIT ?`
)

func (s transcripts) Timeline(ctx context.Context, q transcript.TimelineQuery) (page transcript.TimelinePage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	before := q.Before
	if before == 0 {
		before = unread
	}
	own, only, args := ownTimeline, "", []any{}
	if q.Turn != "" {
		own, only, args = fewTimeline, ofTurn, append(args, string(q.Turn))
	}
	switch rare := len(q.Kinds) == 1 && q.Kinds[0] != transcript.KindUser && q.Kinds[0] != transcript.KindAssistant; {
	case rare:
		own, only, args = fewTimeline, only+ofKind, append(args, string(q.Kinds[0]))
	case len(q.Kinds) > 0:
		kinds := make([]string, len(q.Kinds))
		for i, kind := range q.Kinds {
			kinds[i] = string(kind)
		}
		only, args = only+ofKinds, append(args, idsJSON(kinds))
	}
	_, err = s.of(ctx, q.Conversation, func(ctx context.Context, on place, t *tree) error {
		page = transcript.TimelinePage{}
		found, err := on.entriesOf(ctx, nil, own+only+newestFirst, slices.Concat([]any{t.key, t.baseSeq, before}, args, []any{limit + 1})...)
		if err != nil {
			return err
		}
		if len(found) <= limit && t.reads() {
			sees, err := on.sight(ctx, t)
			if err != nil {
				return err
			}
			base, err := on.spans(ctx, t.base)
			if err != nil {
				return err
			}
			for _, s := range slices.Backward(base) {
				more, err := on.entriesOf(ctx, sees, onStretch+only+deepFirst,
					slices.Concat([]any{s.tree, s.branch, s.first, s.depth, before}, args, []any{limit + 1 - len(found)})...)
				if err != nil {
					return err
				}
				if found = append(found, more...); len(found) > limit {
					break
				}
			}
		}
		if len(found) > limit {
			found = found[:limit]
			page.Next = found[limit-1].Seq
		}
		page.Entries, err = on.plain(ctx, found, q.Blobs)
		return err
	})
	return page, err
}

const (
	findCalls = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_calls AS k JOIN bunkroom_transcript_entries AS e ON e.tree = k.tree AND e.seq = k.seq
		WHERE k.tree = ? AND k.seq > ? AND k.call_id = ? ORDER BY k.seq`
	findRead = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_reads AS r JOIN bunkroom_transcript_calls AS k ON k.tree = r.source
		JOIN bunkroom_transcript_entries AS e ON e.tree = k.tree AND e.seq = k.seq
		WHERE r.tree = ? AND r.source <> r.tree AND k.seq <= r.through_seq AND k.call_id = ? ORDER BY k.seq`
)

func (s transcripts) FindCall(ctx context.Context, c access.ConversationID, call transcript.CallID) (out []transcript.Entry, err error) {
	if err := access.CheckID("Call", call); err != nil {
		return nil, err
	}
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		var found []entry
		if t.reads() {
			if found, err = on.inherited(ctx, t, findRead, t.key, string(call)); err != nil {
				return err
			}
		}
		own, err := on.entriesOf(ctx, nil, findCalls, t.key, t.baseSeq, string(call))
		if err != nil {
			return err
		}
		out, err = on.plain(ctx, append(found, own...), false)
		return err
	})
	return out, err
}

const loadRefs = `SELECT r.name, r.entry, r.version FROM bunkroom_transcript_refs AS r WHERE r.tree = ? ORDER BY r.name`

func (p place) refs(ctx context.Context, t *tree) (refs []transcript.Ref, err error) {
	rows, err := p.rows(ctx, loadRefs, t.key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r transcript.Ref
		if err := rows.Scan(&r.Name, (*string)(&r.At.Entry), &r.Version); err != nil {
			return nil, err
		}
		r.At.Root = r.At.Entry == ""
		refs = append(refs, r)
	}
	return refs, rows.Err()
}

func (s transcripts) Refs(ctx context.Context, c access.ConversationID) (refs []transcript.Ref, err error) {
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		refs, err = on.refs(ctx, t)
		return err
	})
	return refs, err
}

const (
	ownBlob = `SELECT b.data FROM bunkroom_transcript_blobs AS b WHERE b.tree = ? AND b.hash = ?
		AND EXISTS (SELECT 1 FROM bunkroom_transcript_uses AS u WHERE u.tree = b.tree AND u.hash = b.hash)`
	// readUses are the entries of others that have it, as far as the tree reads them.
	readUses = `SELECT e.tree, e.branch, e.depth FROM bunkroom_transcript_reads AS r JOIN bunkroom_transcript_uses AS u ON u.tree = r.source
		JOIN bunkroom_transcript_entries AS e ON e.tree = u.tree AND e.seq = u.seq
		WHERE r.tree = ? AND r.source <> r.tree AND u.hash = ? AND u.since <= r.through_seq AND e.branch IS NOT NULL`
)

func (s transcripts) OpenBlob(ctx context.Context, c access.ConversationID, hash string) (content io.ReadCloser, err error) {
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		absent := fmt.Errorf("%w: content %s of %s", transcript.ErrNotFound, strings.ToValidUTF8(hash, ""), c)
		if !textual(hash) {
			return absent
		}
		var data []byte
		err := on.row(ctx, ownBlob, t.key, hash).Scan(&data)
		if errors.Is(err, sql.ErrNoRows) && t.reads() {
			err = on.readBlob(ctx, t, hash, &data)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return absent
		}
		content = io.NopCloser(bytes.NewReader(data))
		return err
	})
	return content, err
}

// readBlob reads what an entry has on the path that a fork began with.
func (p place) readBlob(ctx context.Context, t *tree, hash string, data *[]byte) error {
	base, err := p.spans(ctx, t.base)
	if err != nil {
		return err
	}
	rows, err := p.rows(ctx, readUses, t.key, hash)
	if err != nil {
		return err
	}
	defer rows.Close()
	at := spot{}
	for rows.Next() && !covers(base, at) {
		if err := rows.Scan(&at.tree, &at.branch, &at.depth); err != nil {
			return err
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	if !covers(base, at) {
		return sql.ErrNoRows
	}
	return p.row(ctx, loadBlob, at.tree, hash).Scan(data)
}

// draft is the draft that a tree keeps; nil: none.
func (p place) draft(ctx context.Context, t *tree) (*transcript.Draft, error) {
	if t.draft == "" {
		return nil, nil
	}
	var text string
	if err := p.row(ctx, loadDraft, t.key).Scan(&text); err != nil {
		return nil, orUprooted(err) // or it was ended just now
	}
	d := &transcript.Draft{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		return nil, fmt.Errorf("sqlstore: the draft of %s can't be read: %w", t.Conversation, err)
	}
	if string(d.Payload) == "null" {
		d.Payload = nil
	}
	return d, nil
}

const loadDraft = `SELECT d.draft FROM bunkroom_transcript_drafts AS d WHERE d.tree = ?`
