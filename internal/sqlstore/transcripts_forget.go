package sqlstore

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const (
	oldestFacts  = `SELECT f.seq, f.kind, f.entry, f.status, f.created_at FROM bunkroom_transcript_facts AS f WHERE f.tree = ? ORDER BY f.seq LIMIT ?`
	forgetFacts  = `DELETE FROM bunkroom_transcript_facts WHERE tree = ? AND seq <= ?`
	forgetInputs = `DELETE FROM bunkroom_transcript_inputs WHERE tree = ? AND id IN IDS(?) AND state IN ('promoted', 'cancelled', 'expired', 'dead')`
)

// Forget leaves a fact in the place of the last that it removes, which says that there were others.
func (s transcripts) Forget(ctx context.Context, c access.ConversationID, older time.Duration, limit int) (gone transcript.Forgotten, err error) {
	if err := transcript.CheckForget(c, older, limit); err != nil {
		return gone, err
	}
	err = s.change(ctx, func(ctx context.Context, on place, clock time.Time) error {
		gone = transcript.Forgotten{}
		t, err := on.find(ctx, keepTree, c)
		if err != nil {
			return err
		}
		last, done, err := on.oldest(ctx, t, clock.Add(-older), limit, &gone)
		if err != nil || gone.Facts == 0 {
			return err
		}
		if _, err := on.exec(ctx, forgetFacts, t.key, last.seq); err != nil {
			return err
		}
		mark := transcript.Fact{Seq: last.seq, Kind: transcript.FactForgotten}
		if err := on.insert(ctx, intoFacts, [][]any{factArgs(t.key, mark, last.at)}); err != nil {
			return err
		}
		if ids := idsJSON(done); ids != "" {
			n, err := on.exec(ctx, forgetInputs, t.key, ids)
			if err != nil {
				return err
			}
			gone.Inputs = int(n)
		}
		return nil
	})
	if err != nil {
		return transcript.Forgotten{}, err
	}
	return gone, nil
}

// oldFact is a fact that is forgotten.
type oldFact struct {
	seq int64
	at  time.Time
}

// oldest are the facts of a tree that are as old as that, counted in gone, and the inputs that are done with them.
func (p place) oldest(ctx context.Context, t *tree, before time.Time, limit int, gone *transcript.Forgotten) (last oldFact, done []string, err error) {
	rows, err := p.rows(ctx, oldestFacts, t.key, limit+2) // one may be the mark
	if err != nil {
		return last, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f oldFact
		var kind transcript.FactKind
		var entry, status string
		var at int64
		if err := rows.Scan(&f.seq, (*string)(&kind), &entry, &status, &at); err != nil {
			return last, nil, err
		}
		if f.at = time.UnixMicro(at).UTC(); f.at.After(before) {
			break
		}
		if kind != transcript.FactForgotten {
			if gone.Facts == limit {
				gone.More = true
				break
			}
			gone.Facts++
		}
		last = f
		if kind == transcript.FactInput && transcript.InputState(status).Done() {
			done = append(done, entry)
		}
	}
	return last, done, rows.Err()
}

// idle looks at some, and says of each whether it was left alone.
const idle = `SELECT ` + treeColumns + `, t.updated_at <= COALESCE(NOW(), ?) - ? FROM bunkroom_transcripts AS t
	WHERE t.status <> 'deleted' AND t.conversation > ? ORDER BY t.conversation LIMIT ?`

func (s transcripts) Idle(ctx context.Context, q transcript.IdleQuery) (page transcript.IdlePage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	err = s.read(ctx, func(ctx context.Context, on place) error {
		page = transcript.IdlePage{}
		rows, err := on.rows(ctx, idle, s.store.own(), q.For.Microseconds(), string(q.After), limit+1)
		if err != nil {
			return err
		}
		defer rows.Close()
		last := q.After
		for seen := 0; rows.Next(); seen++ {
			if seen == limit {
				page.Next = last
				break
			}
			var t tree
			var alone bool
			into, done := t.into()
			if err := rows.Scan(append(into, flag{&alone})...); err != nil {
				return err
			}
			done()
			if last = t.Conversation; alone && (q.Status == "" || t.Status == q.Status) {
				page.Transcripts = append(page.Transcripts, t.Transcript)
			}
		}
		return rows.Err()
	})
	return page, err
}
