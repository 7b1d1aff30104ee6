package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const (
	leanColumns = `i.id, i.state, i.version, i.lane, i.place, i.admitted, i.promoted, i.fence, i.cancel_asked, i.attempts, i.last_error,
		i.not_before, i.expires, i.created_at, i.after_entry, i.after_root, i.ref, i.wait, i.life, i.billing, i.hash`
	inputColumns = leanColumns + `, i.entry`

	loadInput = `SELECT ` + inputColumns + ` FROM bunkroom_transcript_inputs AS i WHERE i.tree = ? AND i.id = ?`
	// leanWaiting are those that wait, without their content.
	leanWaiting = `SELECT ` + leanColumns + `, '' FROM bunkroom_transcript_inputs AS i WHERE i.tree = ? AND i.state IN ('pending', 'claimed') ORDER BY i.place, i.admitted`

	// leanDue are the first of those whose time is over that no turn has claimed, without their content. (SQLite asks for the words of its index.)
	leanDue = `SELECT ` + leanColumns + `, '' FROM bunkroom_transcript_inputs AS i WHERE i.tree = ? AND i.state IN ('pending', 'claimed') AND i.state = 'pending'
		AND i.expires <= ? ORDER BY i.place, i.admitted LIMIT ?`

	inputPage = `SELECT ` + inputColumns + ` FROM bunkroom_transcript_inputs AS i WHERE i.tree = ? AND (i.place, i.admitted) > (?, ?)`
	thatWait  = ` AND i.state IN ('pending', 'claimed')`
	inStates  = ` AND i.state IN IDS(?)`
	inOrder   = ` ORDER BY i.place, i.admitted LIMIT ?`

	// idleWaiting says in SQL what transcript.Deliverable says of a turn's end.
	idleWaiting = `SELECT t.conversation FROM bunkroom_transcripts AS t, (SELECT COALESCE(NOW(), ?) AS now) AS c
		WHERE t.waits AND t.status <> 'deleted' AND t.status = 'active' AND NOT t.in_turn AND NOT t.held AND t.conversation > ?
		AND EXISTS (SELECT 1 FROM bunkroom_transcript_inputs AS i WHERE i.tree = t.tree AND i.state IN ('pending', 'claimed')
			AND NOT i.cancel_asked AND (i.not_before IS NULL OR i.not_before <= c.now) AND (i.expires IS NULL OR i.expires > c.now)
			AND NOT EXISTS (SELECT 1 FROM bunkroom_transcript_inputs AS b WHERE b.tree = i.tree AND b.state IN ('pending', 'claimed')
				AND b.lane = 'barrier' AND b.admitted < i.admitted AND NOT b.cancel_asked AND (b.expires IS NULL OR b.expires > c.now)))
		ORDER BY t.conversation LIMIT ?`

	withExpired = `SELECT t.conversation FROM bunkroom_transcripts AS t, (SELECT COALESCE(NOW(), ?) AS now) AS c
		WHERE t.waits AND t.status <> 'deleted' AND t.status = 'active' AND t.conversation > ?
		AND EXISTS (SELECT 1 FROM bunkroom_transcript_inputs AS i WHERE i.tree = t.tree AND i.state IN ('pending', 'claimed') AND i.state = 'pending' AND i.expires <= c.now)
		ORDER BY t.conversation LIMIT ?`
)

// input is an input as it is kept.
type input struct {
	transcript.Input
	hash string // of its content as it came
}

// entryText is the content of an input as it is kept: byte for byte, as it
// will be compared with what is appended.
func entryText(e transcript.NewEntry) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return "", fmt.Errorf("sqlstore: input %s: %w", e.ID, err)
	}
	return b.String(), nil
}

func scannedInput(scan func(...any) error) (*input, error) {
	in := &input{}
	var id transcript.EntryID
	var text string
	err := scan(str(&id), str(&in.State), &in.Version, str(&in.Lane), &in.Order, &in.Admitted, &in.Promoted, &in.Fence, flag{&in.CancelAsked}, &in.Attempts, &in.LastError,
		moment{&in.NotBefore}, moment{&in.Expires}, moment{&in.CreatedAt}, str(&in.After.Entry), flag{&in.After.Root}, &in.Ref, num(&in.Wait), num(&in.Life), &in.Billing, &in.hash, &text)
	if err != nil {
		return nil, err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &in.Entry); err != nil {
			return nil, fmt.Errorf("sqlstore: input %s can't be read: %w", id, err)
		}
	}
	if string(in.Entry.Payload) == "null" {
		in.Entry.Payload = nil
	}
	in.Entry.ID = id
	return in, nil
}

// input is one input; nil: there is none of that id.
func (p place) input(ctx context.Context, t *tree, id transcript.EntryID) (*input, error) {
	in, err := scannedInput(p.row(ctx, loadInput, t.key, string(id)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return in, err
}

// inputs are those that a statement finds.
func (p place) inputs(ctx context.Context, text string, args ...any) (found []transcript.Input, err error) {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		in, err := scannedInput(rows.Scan)
		if err != nil {
			return nil, err
		}
		found = append(found, in.Input)
	}
	return found, rows.Err()
}

func (s inbox) Input(ctx context.Context, c access.ConversationID, id transcript.EntryID) (found transcript.Input, err error) {
	if err := access.CheckID("Input", id); err != nil {
		return found, err
	}
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		in, err := on.input(ctx, t, id)
		if err == nil && in == nil {
			err = fmt.Errorf("%w: input %s of %s", transcript.ErrNotFound, id, c)
		}
		if err == nil {
			found = in.Input
		}
		return err
	})
	return found, err
}

func (s inbox) Inputs(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) (found []transcript.Input, err error) {
	if err := transcript.CheckInputs(after, limit, states); err != nil {
		return nil, err
	}
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		order, admitted := int64(math.MinInt64), int64(0)
		if after != "" {
			last, err := on.input(ctx, t, after)
			if err != nil {
				return err
			}
			if last == nil {
				return fmt.Errorf("%w: input %s of %s", transcript.ErrNotFound, after, c)
			}
			order, admitted = last.Order, last.Admitted
		}
		text, args := inputPage+thatWait+inOrder, []any{t.key, order, admitted}
		if len(states) > 0 {
			texts := make([]string, len(states))
			for i, state := range states {
				texts[i] = string(state)
			}
			text, args = inputPage+inStates+inOrder, append(args, idsJSON(texts))
		}
		found, err = on.inputs(ctx, text, append(args, limit)...)
		return err
	})
	return found, err
}

func (s inbox) Waiting(ctx context.Context, after access.ConversationID, limit int) (ids []access.ConversationID, err error) {
	return s.conversations(ctx, idleWaiting, after, limit)
}

// conversations are those that a statement finds, which is given the clock.
func (s inbox) conversations(ctx context.Context, text string, after access.ConversationID, limit int) (ids []access.ConversationID, err error) {
	if err := transcript.CheckWaiting(after, limit); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, text, s.store.own(), string(after), limit)
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
