package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// sinceSeq are the facts in order, entries among them, as far as they were
// committed when the tree was read: whoever commits later has a greater seq.
const sinceSeq = `SELECT f.seq, f.kind, f.entry, f.at_root, f.call_id, f.name, f.status, f.fence FROM (
		SELECT * FROM (SELECT e.seq, CASE WHEN e.branch IS NULL THEN 'entry_aborted' ELSE 'entry_appended' END AS kind, e.id AS entry, FALSE AS at_root,
			'' AS call_id, '' AS name, '' AS status, 0 AS fence FROM bunkroom_transcript_entries AS e
			WHERE e.tree = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?) AS a
		UNION ALL
		SELECT * FROM (SELECT g.seq, g.kind, g.entry, g.at_root, g.call_id, g.name, g.status, g.fence FROM bunkroom_transcript_facts AS g
			WHERE g.tree = ? AND g.seq > ? AND g.seq <= ? ORDER BY g.seq LIMIT ?) AS b
	) AS f ORDER BY f.seq LIMIT ?`

func (s transcripts) Since(ctx context.Context, c access.ConversationID, after int64, limit int) (page transcript.FactPage, err error) {
	if after < 0 {
		return page, field("after", "not negative")
	}
	if limit, err = transcript.Page(limit); err != nil {
		return page, err
	}
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		page = transcript.FactPage{Next: after}
		from := max(after, t.Lineage.Seq) // what a fork began with is no fact of its own
		rows, err := on.rows(ctx, sinceSeq, t.key, from, t.LastSeq, limit+1, t.key, from, t.LastSeq, limit+1, limit+1)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if len(page.Facts) == limit {
				page.More = true
				break
			}
			f, err := scannedFact(rows.Scan)
			if err != nil {
				return err
			}
			page.Facts = append(page.Facts, f)
			page.Next = f.Seq
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if err := rows.Close(); err != nil {
			return err
		}
		return on.called(ctx, t, page.Facts)
	})
	return page, err
}

func scannedFact(scan func(...any) error) (f transcript.Fact, err error) {
	var call transcript.CallID
	var name, status string
	if err := scan(&f.Seq, (*string)(&f.Kind), (*string)(&f.Entry), flag{&f.At.Root}, (*string)(&call), &name, &status, &f.Fence); err != nil {
		return f, err
	}
	switch f.Kind {
	case transcript.FactHead, transcript.FactForked, transcript.FactRefMoved:
		f.At.Entry, f.Entry = f.Entry, ""
	}
	switch f.Kind {
	case transcript.FactRefMoved, transcript.FactRefRemoved:
		f.Ref = name
	case transcript.FactLabelled, transcript.FactUnlabelled:
		f.Label = name
	case transcript.FactInput:
		f.Input = transcript.InputState(status)
	case transcript.FactStatus:
		f.To = transcript.Status(status)
	case transcript.FactCallStarted, transcript.FactCallSettled:
		f.Call = &transcript.Call{ID: call, Status: transcript.CallStatus(status)}
	}
	return f, nil
}

// called completes the calls of facts: what was asked for is in their entries.
func (p place) called(ctx context.Context, t *tree, facts []transcript.Fact) error {
	var ids []transcript.EntryID
	for _, f := range facts {
		if f.Call != nil && !slices.Contains(ids, f.Entry) {
			ids = append(ids, f.Entry)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := p.get(ctx, t, ids)
	if err != nil {
		return err
	}
	asked := map[transcript.CallAddress]*transcript.Call{}
	for _, e := range found {
		for _, part := range e.Parts {
			if part.Call != nil {
				asked[transcript.CallAddress{Entry: e.ID, Call: part.Call.ID}] = part.Call
			}
		}
	}
	for _, f := range facts {
		if f.Call == nil {
			continue
		}
		call := asked[transcript.CallAddress{Entry: f.Entry, Call: f.Call.ID}]
		if call == nil {
			return errUprooted
		}
		f.Call.Name, f.Call.Arguments = call.Name, slices.Clone(call.Arguments)
	}
	return nil
}

const openEntries = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e
	WHERE e.tree = ? AND e.seq IN (SELECT o.seq FROM bunkroom_transcript_calls AS o WHERE o.tree = ? AND o.settled_at IS NULL) ORDER BY e.seq`

func (s transcripts) Unsettled(ctx context.Context, c access.ConversationID) (open transcript.Open, err error) {
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		open = transcript.Open{Conversation: c, Fence: t.Fence, InTurn: t.InTurn}
		if open.Draft, err = on.draft(ctx, t); err != nil || t.open == 0 {
			return err
		}
		found, err := on.entriesOf(ctx, nil, openEntries, t.key, t.key)
		for _, e := range found {
			for _, part := range e.Parts {
				if part.Call != nil && !part.Call.Status.Settled() {
					open.Calls = append(open.Calls, transcript.OpenCall{Entry: e.ID, Call: *part.Call})
				}
			}
		}
		return err
	})
	return open, err
}

const unfinished = `SELECT t.conversation FROM bunkroom_transcripts AS t WHERE t.unfinished AND t.status <> 'deleted' AND t.conversation > ? ORDER BY t.conversation LIMIT ?`

func (s transcripts) Unfinished(ctx context.Context, after access.ConversationID, limit int) (ids []access.ConversationID, err error) {
	if limit < 1 || limit > transcript.MaxListed {
		return nil, field("limit", fmt.Sprintf("1 to %d", transcript.MaxListed))
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, unfinished, string(after), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id access.ConversationID
			if err := rows.Scan(str(&id)); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
}
