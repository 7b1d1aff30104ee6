package sqlstore

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

func (s sessions) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	after, err := checkList(q)
	if err != nil {
		return session.Page{}, err
	}
	var page session.Page
	err = s.read(ctx, func(ctx context.Context, on place) error {
		if page, err = on.listSessions(ctx, q, after); err != nil || len(page.Items) == 0 {
			return err
		}
		return on.listConversations(ctx, page.Items)
	})
	if err != nil {
		return session.Page{}, err
	}
	return page, nil
}

func checkList(q session.ListQuery) (after token, err error) {
	switch {
	case q.Limit < 1 || q.Limit > session.MaxListed:
		return token{}, field("Limit", fmt.Sprintf("must be 1 to %d", session.MaxListed))
	case q.Project == "" && q.Owner == "":
		return token{}, field("Owner", "must be set where Project is not")
	}
	// These become part of the statement's text, where what is not UTF-8 would turn into something else.
	for _, id := range []struct{ field, value string }{
		{"Project", string(q.Project)}, {"Owner", string(q.Owner)}, {"Session", string(q.Session)},
	} {
		if err := access.CheckOptionalID(id.field, id.value); err != nil {
			return token{}, err
		}
	}
	if q.After == "" {
		return token{}, nil
	}
	after, ok := parseToken(q.After)
	if !ok {
		return token{}, field("After", "must be Next of an earlier page")
	}
	return after, nil
}

func (p place) listSessions(ctx context.Context, q session.ListQuery, after token) (session.Page, error) {
	list := p.store.bun.NewSelect().Conn(p.conn()).
		TableExpr(p.store.named("bunkroom_sessions AS s")).
		Join(p.store.named("LEFT JOIN bunkroom_sandboxes AS b ON b.session_id = s.id")).
		Join(p.store.named("LEFT JOIN bunkroom_sandboxes AS l ON l.environment_id = s.environment_id")). // lent to it
		ColumnExpr(sessionColumns).ColumnExpr("COALESCE(b.state, l.state)").
		Where("s.project = ?", string(q.Project)).
		OrderExpr("s.last_active_at DESC, s.id DESC").
		Limit(int64(q.Limit) + 1) // one more, to know whether there is more
	if q.Project != "" {
		list.Where("s.project <> ''") // which it is; the index says so too
	}
	if q.Owner != "" {
		list.Where("s.owner = ?", string(q.Owner))
	}
	if q.Session != "" {
		list.Where("s.id = ?", string(q.Session))
	}
	if !q.Ended {
		list.Where("s.ended_at IS NULL")
	}
	if q.After != "" {
		list.Where("(s.last_active_at, s.id) < (?, ?)", after.at.UnixMicro(), after.id)
	}
	rows, err := list.Rows(ctx)
	if err != nil {
		return session.Page{}, err
	}
	defer rows.Close()
	var page session.Page
	for rows.Next() {
		if len(page.Items) == q.Limit {
			last := page.Items[q.Limit-1].Session
			page.Next = token{last.LastActiveAt, string(last.ID)}.String()
			break
		}
		var item session.Summary
		if err := rows.Scan(append(sessionInto(&item.Session), state{&item.Machine})...); err != nil {
			return session.Page{}, err
		}
		page.Items = append(page.Items, item)
	}
	return page, rows.Err()
}

// listConversations adds to each item the newest of its open conversations.
// They are ranked in an index that has their order; only those that are listed are read whole.
func (p place) listConversations(ctx context.Context, items []session.Summary) error {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = string(item.Session.ID)
	}
	newest := p.store.bun.NewSelect().
		TableExpr(p.store.named("bunkroom_conversations")).
		ColumnExpr("id AS newest").
		ColumnExpr("row_number() OVER (PARTITION BY session_id ORDER BY last_active_at DESC, id DESC) AS nth").
		Where("session_id IN (?)", bun.List(ids)).
		Where("closed_at IS NULL")
	rows, err := p.store.bun.NewSelect().Conn(p.conn()).
		TableExpr("(?) AS n", newest).
		Join(p.store.named("JOIN bunkroom_conversations AS c ON c.id = n.newest")).
		ColumnExpr(conversationColumns).
		Where("n.nth <= ?", session.MaxListed).
		OrderExpr("c.session_id, n.nth").
		Rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var v session.Conversation
		if err := rows.Scan(conversationInto(&v)...); err != nil {
			return err
		}
		i := slices.Index(ids, string(v.Session))
		items[i].Conversations = append(items[i].Conversations, v)
	}
	return rows.Err()
}

// token is where a page ended. As a string it is opaque to callers.
type token struct {
	at time.Time
	id string
}

const tokenVersion = "1"

func (t token) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(tokenVersion + ":" + strconv.FormatInt(t.at.UnixMicro(), 10) + ":" + t.id))
}

func parseToken(s string) (t token, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return token{}, false
	}
	version, rest, _ := strings.Cut(string(text), ":")
	at, id, _ := strings.Cut(rest, ":")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || version != tokenVersion || access.CheckID("After", id) != nil {
		return token{}, false
	}
	t = token{time.UnixMicro(micros).UTC(), id}
	return t, t.String() == s // what only decodes to a token is none
}
