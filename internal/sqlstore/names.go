package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Names are read in the order of the primary keys: first those of the rows, then the outbox.
const (
	namedByRows = `SELECT id, generation, incarnation FROM bunkroom_sandboxes
		WHERE id > ? AND state IN ('creating', 'live', 'destroying') ORDER BY id LIMIT ?`
	namedByOutbox = `SELECT sandbox_id, generation, incarnation FROM bunkroom_outbox
		WHERE (sandbox_id, generation, incarnation) > (?, ?, ?) ORDER BY sandbox_id, generation, incarnation LIMIT ?`
)

// namesPlace is where a page of names ended. It is opaque to callers.
type namesPlace struct {
	Outbox bool // it is among the outbox, no more among the rows
	Last   sandbox.TombstoneKey
}

func (s sessions) Names(ctx context.Context, after string) (session.NamesPage, error) {
	var from namesPlace
	if after != "" && (json.Unmarshal([]byte(after), &from) != nil || !from.Outbox && from.Last.Sandbox == "") {
		return session.NamesPage{}, field("after", "must be Next of an earlier page")
	}
	text, args := namedByRows, []any{string(from.Last.Sandbox), session.MaxNames}
	if from.Outbox {
		text, args = namedByOutbox, []any{string(from.Last.Sandbox), from.Last.Generation, string(from.Last.Incarnation), session.MaxNames}
	}
	var page session.NamesPage
	err := s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var key sandbox.TombstoneKey
			if err := rows.Scan(&key.Sandbox, &key.Generation, &key.Incarnation); err != nil {
				return err
			}
			page.Items = append(page.Items, key)
		}
		return rows.Err()
	})
	if err != nil {
		return session.NamesPage{}, err
	}
	next := namesPlace{Outbox: true}
	if n := len(page.Items); n == session.MaxNames {
		next = namesPlace{from.Outbox, page.Items[n-1]}
	} else if from.Outbox {
		return page, nil
	}
	token, err := json.Marshal(next)
	page.Next = string(token)
	return page, err
}
