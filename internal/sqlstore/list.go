package sqlstore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Of what is listed only those columns are read that the question does not
// say: a page is a hundred rows, and what a row takes is what its columns take.
const (
	listedSession      = `s.id, s.version, s.owner, s.name, s.environment_id, s.durable_workdir, s.created_at, s.last_active_at`
	listedConversation = `c.id, c.session_id, c.owner, c.agent, c.title, c.shared, c.created_at, c.last_active_at`
)

// listedInto is where a row of a page goes.
func listedInto(s *session.Summary, q session.ListQuery) []any {
	into := []any{str(&s.Session.ID), num(&s.Session.Version), str(&s.Session.Owner), str(&s.Session.Name), str(&s.Session.Environment), flag{&s.Session.DurableWorkdir},
		moment{&s.Session.CreatedAt}, moment{&s.Session.LastActiveAt}}
	if q.Ended {
		into = append(into, moment{&s.Session.EndedAt})
	}
	return append(into, state{&s.Machine})
}

func listedConversationInto(c *session.Conversation) []any {
	return []any{str(&c.ID), str(&c.Session), str(&c.Owner), str(&c.Agent), str(&c.Title), flag{&c.Shared}, moment{&c.CreatedAt}, moment{&c.LastActiveAt}}
}

// listing is the statement for a page, and its arguments. There are a few of
// them, by what is asked, and each is prepared once.
func listing(q session.ListQuery, after token) (text string, args []any) {
	var b strings.Builder
	b.WriteString(`SELECT ` + listedSession)
	if q.Ended {
		b.WriteString(`, s.ended_at`)
	}
	b.WriteString(`, COALESCE(b.state, (SELECT l.state FROM bunkroom_sandboxes AS l WHERE l.environment_id = s.environment_id))
		FROM bunkroom_sessions AS s LEFT JOIN bunkroom_sandboxes AS b ON b.session_id = s.id WHERE s.project = ?`)
	args = append(args, string(q.Project))
	where := func(condition string, with ...any) {
		b.WriteString(" AND " + condition)
		args = append(args, with...)
	}
	if q.Project != "" {
		where("s.project <> ''") // which it is; the index says so too
	}
	if q.Owner != "" {
		where("s.owner = ?", string(q.Owner))
	}
	if q.Session != "" {
		where("s.id = ?", string(q.Session))
	}
	if !q.Ended {
		where("s.ended_at IS NULL")
	}
	if q.After != "" {
		where("(s.last_active_at, s.id) < (?, ?)", after.at.UnixMicro(), after.id)
	}
	b.WriteString(" ORDER BY s.last_active_at DESC, s.id DESC LIMIT ?")
	return b.String(), append(args, q.Limit+1) // one more, to know whether there is more
}

func (p place) listSessions(ctx context.Context, q session.ListQuery, after token) (session.Page, error) {
	text, args := listing(q, after)
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return session.Page{}, err
	}
	defer rows.Close()
	var page session.Page
	item := session.Summary{Session: session.Session{Project: q.Project}}
	into := listedInto(&item, q)
	for rows.Next() {
		if len(page.Items) == q.Limit {
			last := page.Items[q.Limit-1].Session
			page.Next = token{last.LastActiveAt, string(last.ID)}.String()
			break
		}
		if err := rows.Scan(into...); err != nil { // every column is set, also where it is NULL
			return session.Page{}, err
		}
		page.Items = append(page.Items, item)
	}
	return page, rows.Err()
}

const (
	// newestConversations ranks them in an index that has their order; only
	// those that are listed are read whole.
	newestConversations = `SELECT ` + listedConversation + ` FROM (
		SELECT id AS newest, row_number() OVER (PARTITION BY session_id ORDER BY last_active_at DESC, id DESC) AS nth
		FROM bunkroom_conversations WHERE session_id IN IDS(?) AND closed_at IS NULL) AS n
		JOIN bunkroom_conversations AS c ON c.id = n.newest WHERE n.nth <= ? ORDER BY c.session_id, n.nth`
	// newestOfEach reads no more of a session than is listed, each by one look into that index.
	newestOfEach = `SELECT ` + listedConversation + ` FROM ROWS(id text) AS s CROSS JOIN LATERAL (
		SELECT * FROM bunkroom_conversations AS c WHERE c.session_id = s.id AND c.closed_at IS NULL
		ORDER BY c.last_active_at DESC, c.id DESC LIMIT ?) AS c`
)

// newest is the statement for the newest conversations of sessions, each's in
// their order, and its arguments.
func (s *store) newest(ids []string) (text string, args []any, err error) {
	if s.dialect.Lateral {
		text, args = s.table(newestOfEach, texts(ids, func(id *string) string { return *id }))
		return text, append(args, session.MaxListed), nil
	}
	asked, err := json.Marshal(ids)
	return newestConversations, []any{string(asked), session.MaxListed}, err
}

// listConversations adds to each item the newest of its open conversations.
func (p place) listConversations(ctx context.Context, items []session.Summary) error {
	ids, at := make([]string, len(items)), make(map[session.ID]int, len(items))
	for i, item := range items {
		ids[i], at[item.Session.ID] = string(item.Session.ID), i
	}
	text, args, err := p.store.newest(ids)
	if err != nil {
		return err
	}
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var v session.Conversation
	into := listedConversationInto(&v)
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		to := &items[at[v.Session]]
		v.Project = to.Session.Project // a conversation's is its session's
		to.Conversations = append(to.Conversations, v)
	}
	for i := range items { // a query says how it chooses, and not always how it hands on
		slices.SortFunc(items[i].Conversations, newerFirst)
	}
	return rows.Err()
}

func newerFirst(a, b session.Conversation) int {
	if order := b.LastActiveAt.Compare(a.LastActiveAt); order != 0 {
		return order
	}
	return strings.Compare(string(b.ID), string(a.ID))
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
