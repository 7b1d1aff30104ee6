package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// What a book has changed is written by one statement of several parts, where
// the database can do that, and else by a statement each: see saveEach. The account of each payer
// that something is written about gets its next version, or nothing is written: then somebody else has
// written since it was loaded. Nothing of another
// payer's is ever overwritten: ids and watermarks are no payer's alone, and
// whoever holds the locks of one may meet somebody who holds another's.
const (
	writeAccounts = `INSERT INTO bunkroom_accounts (payer, debt, day, spent, entries, version)
		SELECT r.payer, r.debt, r.day, r.spent, r.entries, r.version
		FROM ROWS(payer text, debt bigint, day bigint, spent bigint, entries bigint, version bigint) AS r WHERE true
		ON CONFLICT (payer) DO UPDATE SET debt = excluded.debt, day = excluded.day, spent = excluded.spent, entries = excluded.entries,
			version = excluded.version WHERE bunkroom_accounts.version = excluded.version - 1`
	writeGrants = `INSERT INTO bunkroom_grants (id, payer, amount, source, priority, granted_at, expires_at, repay, remaining)
		SELECT r.id, r.payer, r.amount, r.source, r.priority, r.granted_at, r.expires_at, r.repay, r.remaining
		FROM ROWS(id text, payer text, amount bigint, source text, priority bigint, granted_at bigint, expires_at bigint null, repay boolean, remaining bigint) AS r WHERE true
		ON CONFLICT (id) DO UPDATE SET remaining = excluded.remaining WHERE bunkroom_grants.payer = excluded.payer`
	writeHolds = `INSERT INTO bunkroom_holds (id, payer, meter, class, resource, session_id, project, estimate, state, opened_at, until_at, closed_at)
		SELECT r.id, r.payer, r.meter, r.class, r.resource, r.session_id, r.project, r.estimate, r.state, r.opened_at, r.until_at, r.closed_at
		FROM ROWS(id text, payer text, meter text, class text, resource text, session_id text, project text, estimate bigint, state text, opened_at bigint, until_at bigint, closed_at bigint null) AS r WHERE true
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, until_at = excluded.until_at, closed_at = excluded.closed_at WHERE bunkroom_holds.payer = excluded.payer`
	writeMarks = `INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed)
		SELECT r.resource, r.meter, r.version, r.through_at, r.total, r.left_n, r.left_per, r.closed
		FROM ROWS(resource text, meter text, version bigint, through_at bigint, total bigint, left_n bigint, left_per bigint, closed boolean) AS r WHERE true
		ON CONFLICT (resource, meter) DO UPDATE SET version = excluded.version, through_at = excluded.through_at, total = excluded.total,
			left_n = excluded.left_n, left_per = excluded.left_per, closed = excluded.closed WHERE bunkroom_marks.version = excluded.version - 1`
	// writeFirstMarks writes whose they are too: they are new, or somebody else pays from now on.
	writeFirstMarks = `INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed, payer, class, session_id, project)
		SELECT r.resource, r.meter, r.version, r.through_at, r.total, r.left_n, r.left_per, r.closed, r.payer, r.class, r.session_id, r.project
		FROM ROWS(resource text, meter text, version bigint, through_at bigint, total bigint, left_n bigint, left_per bigint, closed boolean, payer text, class text, session_id text, project text) AS r WHERE true
		ON CONFLICT (resource, meter) DO UPDATE SET version = excluded.version, through_at = excluded.through_at, total = excluded.total,
			left_n = excluded.left_n, left_per = excluded.left_per, closed = excluded.closed,
			payer = excluded.payer, class = excluded.class, session_id = excluded.session_id, project = excluded.project WHERE bunkroom_marks.version = excluded.version - 1`
	writeUsage = `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, meter, class, resource, session_id, project,
			from_at, to_at, quantity, price, per, carried_n, carried_per)
		SELECT r.payer, r.n, r.id, 'usage', r.amount, r.posted_at, r.meter, r.class, r.resource, r.session_id, r.project,
			r.from_at, r.to_at, r.quantity, r.price, r.per, r.carried_n, r.carried_per
		FROM ROWS(payer text, n bigint, id text, amount bigint, posted_at bigint, meter text, class text, resource text, session_id text, project text, from_at bigint, to_at bigint, quantity bigint, price bigint, per bigint, carried_n bigint, carried_per bigint) AS r`
	writeCredit = `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, grant_id)
		SELECT r.payer, r.n, r.id, r.kind, r.amount, r.posted_at, r.grant_id
		FROM ROWS(payer text, n bigint, id text, kind text, amount bigint, posted_at bigint, grant_id text) AS r`
	writePostings = `INSERT INTO bunkroom_postings (payer, n, place, account, amount)
		SELECT r.payer, r.n, r.place, r.account, r.amount FROM ROWS(payer text, n bigint, place bigint, account text, amount bigint) AS r`
)

// part is a part of what is written.
type part struct {
	text    string
	columns []column
	counted bool // it may write fewer rows than there are; else it writes all, or fails
}

// errOvertaken says that somebody else has written a row since it was looked at.
var errOvertaken = errors.New("sqlstore: somebody else wrote the same at the same time, again and again")

// save writes what a book has changed of what was loaded.
func (p place) save(ctx context.Context, c billing.Changes, was loaded) error {
	if !p.store.dialect.Arrays {
		return p.saveEach(ctx, c, was)
	}
	parts := parts(c, was, concerned(c, was), postingsByPlace(c.Entries))
	if len(parts) == 0 {
		return nil
	}
	with, count, args, want := p.store.together(parts)
	got := 0
	if err := p.row(ctx, with+" SELECT "+count, args...).Scan(&got); err != nil {
		return p.store.overtaken(err)
	}
	if got != want {
		return errOvertaken
	}
	return nil
}

// together is all parts for one statement, and what counts how many rows of those that are counted were written.
func (s *store) together(parts []part) (with, count string, args []any, want int) {
	var all, counts []string
	for i, part := range parts {
		text, values := s.table(part.text, part.columns...)
		name := "w" + strconv.Itoa(i)
		if part.counted {
			text += " RETURNING 1"
			counts = append(counts, "(SELECT count(*) FROM "+name+")")
			want += part.columns[0].len()
		}
		all, args = append(all, name+" AS ("+text+")"), append(args, values...)
	}
	counts = append(counts, "0")
	return "WITH " + strings.Join(all, ", "), strings.Join(counts, " + "), args, want
}

// saveAlone is save by one statement that is its own transaction: it fails
// where not all of it can be written, and is not broken off.
func (p place) saveAlone(ctx context.Context, c billing.Changes, was loaded) error {
	parts := parts(c, was, concerned(c, was), postingsByPlace(c.Entries))
	if len(parts) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWait)
	defer cancel()
	with, count, args, want := p.store.together(parts)
	var one int64
	err := p.row(whole, with+" SELECT 1 / CASE "+count+" WHEN CAST(? AS bigint) THEN 1 ELSE 0 END", append(args, want)...).Scan(&one)
	switch told := p.store.overtaken(err); {
	case err == nil, errors.Is(told, errOvertaken), p.store.dialect.RolledBack(err):
		return told
	}
	return fmt.Errorf("%w: %w", session.ErrUnknown, err)
}

// overtaken is err, as errOvertaken where it says that a row is there already.
func (s *store) overtaken(err error) error {
	if s.dialect.Taken != nil && s.dialect.Taken(err) {
		return fmt.Errorf("%w: %w", errOvertaken, err)
	}
	return err
}

// parts are what is to be written. What is as it was is left out.
func parts(c billing.Changes, was loaded, accounts []billing.Account, postings [][]posting) (parts []part) {
	add := func(text string, counted bool, columns ...column) {
		parts = append(parts, part{text, columns, counted})
	}
	if all := accounts; len(all) > 0 {
		add(writeAccounts, true,
			texts(all, func(a *billing.Account) access.UserID { return a.Payer }), numbers(all, func(a *billing.Account) billing.Micros { return a.Debt }),
			numbers(all, func(a *billing.Account) int64 { return a.Day }), numbers(all, func(a *billing.Account) billing.Micros { return a.Spent }),
			numbers(all, func(a *billing.Account) int64 { return a.Entries }), numbers(all, func(a *billing.Account) int64 { return was.accounts[a.Payer] + 1 }))
	}
	if all := c.Grants; len(all) > 0 {
		add(writeGrants, true,
			texts(all, func(g *billing.Grant) billing.GrantID { return g.ID }), texts(all, func(g *billing.Grant) access.UserID { return g.Payer }),
			numbers(all, func(g *billing.Grant) billing.Micros { return g.Amount }), texts(all, func(g *billing.Grant) string { return g.Source }),
			numbers(all, func(g *billing.Grant) int { return g.Priority }), numbers(all, func(g *billing.Grant) int64 { return g.GrantedAt.UnixMicro() }),
			moments(all, func(g *billing.Grant) time.Time { return g.ExpiresAt }), flags(all, func(g *billing.Grant) bool { return g.Repay }),
			numbers(all, func(g *billing.Grant) billing.Micros { return g.Remaining }))
	}
	if all := c.Holds; len(all) > 0 {
		add(writeHolds, true,
			texts(all, func(h *billing.Hold) billing.HoldID { return h.ID }), texts(all, func(h *billing.Hold) access.UserID { return h.Payer }),
			texts(all, func(h *billing.Hold) billing.Meter { return h.Meter }), texts(all, func(h *billing.Hold) billing.Class { return h.Class }),
			texts(all, func(h *billing.Hold) string { return h.Resource }), texts(all, func(h *billing.Hold) access.SessionID { return h.Session }),
			texts(all, func(h *billing.Hold) access.ProjectID { return h.Project }), numbers(all, func(h *billing.Hold) billing.Micros { return h.Estimate }),
			texts(all, func(h *billing.Hold) string { return h.State.String() }), numbers(all, func(h *billing.Hold) int64 { return h.OpenedAt.UnixMicro() }),
			numbers(all, func(h *billing.Hold) int64 { return h.Until.UnixMicro() }), moments(all, func(h *billing.Hold) time.Time { return h.ClosedAt }))
	}
	moved, first := changed(c.Marks, was.marks)
	if len(moved) > 0 {
		add(writeMarks, true, markColumnsOf(moved)...)
	}
	if len(first) > 0 {
		add(writeFirstMarks, true, append(markColumnsOf(first),
			texts(first, func(m *markRow) access.UserID { return m.Of.Payer }), texts(first, func(m *markRow) billing.Class { return m.Of.Class }),
			texts(first, func(m *markRow) access.SessionID { return m.Of.Session }), texts(first, func(m *markRow) access.ProjectID { return m.Of.Project }))...)
	}
	if all := of(c.Entries, true); len(all) > 0 {
		add(writeUsage, false, usageColumns(all)...)
	}
	if all := of(c.Entries, false); len(all) > 0 {
		add(writeCredit, false, texts(all, func(e *billing.Entry) access.UserID { return e.Payer }), numbers(all, func(e *billing.Entry) int64 { return e.N }),
			texts(all, func(e *billing.Entry) string { return e.ID }), texts(all, func(e *billing.Entry) billing.EntryKind { return e.Kind }),
			numbers(all, func(e *billing.Entry) billing.Micros { return e.Amount }), numbers(all, func(e *billing.Entry) int64 { return e.PostedAt.UnixMicro() }),
			texts(all, func(e *billing.Entry) billing.GrantID { return e.Grant }))
	}
	for _, all := range postings { // none is empty
		add(writePostings, false,
			texts(all, func(p *posting) access.UserID { return p.payer }), numbers(all, func(p *posting) int64 { return p.n }),
			numbers(all, func(p *posting) int { return p.place }), texts(all, func(p *posting) string { return p.Account }),
			numbers(all, func(p *posting) billing.Micros { return p.Amount }))
	}
	return parts
}

// of are the entries of usage, or the others.
func of(entries []billing.Entry, usage bool) []billing.Entry {
	other := func(e billing.Entry) bool { return (e.Kind == billing.EntryUsage) != usage }
	if !slices.ContainsFunc(entries, other) { // as in a tick of a meter, which has a thousand
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), other)
}

func usageColumns(all []billing.Entry) []column {
	return []column{
		texts(all, func(e *billing.Entry) access.UserID { return e.Payer }), numbers(all, func(e *billing.Entry) int64 { return e.N }),
		texts(all, func(e *billing.Entry) string { return e.ID }), numbers(all, func(e *billing.Entry) billing.Micros { return e.Amount }),
		numbers(all, func(e *billing.Entry) int64 { return e.PostedAt.UnixMicro() }), texts(all, func(e *billing.Entry) billing.Meter { return e.Use.Meter }),
		texts(all, func(e *billing.Entry) billing.Class { return e.Use.Class }), texts(all, func(e *billing.Entry) string { return e.Use.Resource }),
		texts(all, func(e *billing.Entry) access.SessionID { return e.Use.Session }), texts(all, func(e *billing.Entry) access.ProjectID { return e.Use.Project }),
		numbers(all, func(e *billing.Entry) int64 { return e.From.UnixMicro() }), numbers(all, func(e *billing.Entry) int64 { return e.To.UnixMicro() }),
		numbers(all, func(e *billing.Entry) int64 { return e.Quantity }), numbers(all, func(e *billing.Entry) billing.Micros { return e.Rate.Price }),
		numbers(all, func(e *billing.Entry) int64 { return e.Rate.Per }), numbers(all, func(e *billing.Entry) int64 { return e.Carried.N }),
		numbers(all, func(e *billing.Entry) int64 { return e.Carried.Per }),
	}
}

// posting is a posting and where it is.
type posting struct {
	payer access.UserID
	n     int64
	place int
	billing.Posting
}

func postingsOf(entries []billing.Entry) []posting {
	all := make([]posting, 0, 2*len(entries))
	for i := range entries {
		for place, p := range entries[i].Postings {
			all = append(all, posting{entries[i].Payer, entries[i].N, place, p})
		}
	}
	return all
}

// postingsByPlace are those that come first, those that come second, and all
// others. Of what is used the second mostly go to what one meter earns, and
// what is the same in every row is said once.
func postingsByPlace(entries []billing.Entry) [][]posting {
	var by [3][]posting
	for i := range entries {
		for place, p := range entries[i].Postings {
			to := &by[min(place, len(by)-1)]
			if *to == nil {
				*to = make([]posting, 0, len(entries))
			}
			*to = append(*to, posting{entries[i].Payer, entries[i].N, place, p})
		}
	}
	return slices.DeleteFunc(by[:], func(all []posting) bool { return len(all) == 0 })
}

// concerned are the accounts of all payers that something is written about, also where they are as they were.
func concerned(c billing.Changes, was loaded) []billing.Account {
	now := map[access.UserID]billing.Account{}
	about := func(payer access.UserID) {
		if _, known := now[payer]; !known {
			now[payer] = billing.Account{Payer: payer}
		}
	}
	for _, g := range c.Grants {
		about(g.Payer)
	}
	for _, h := range c.Holds {
		about(h.Payer)
	}
	for _, e := range c.Entries {
		about(e.Payer)
	}
	for _, a := range was.Accounts {
		if _, concerned := now[a.Payer]; concerned {
			now[a.Payer] = a
		}
	}
	for _, a := range c.Accounts {
		now[a.Payer] = a
	}
	return slices.SortedFunc(maps.Values(now), func(a, b billing.Account) int { return strings.Compare(string(a.Payer), string(b.Payer)) })
}

// changed are those of now that are not just the same in was, each with the version it had there.
func changed(now []billing.Mark, was map[billing.MarkKey]markRow) (moved, first []markRow) {
	moved = make([]markRow, 0, len(now))
	for _, m := range now {
		switch before := was[m.MarkKey]; {
		case before.Mark == m:
		case before.Of == m.Of:
			moved = append(moved, markRow{m, before.version})
		default:
			first = append(first, markRow{m, before.version})
		}
	}
	return moved, first
}

func markColumnsOf(all []markRow) []column {
	return []column{
		texts(all, func(m *markRow) string { return m.Resource }), texts(all, func(m *markRow) billing.Meter { return m.Meter }),
		numbers(all, func(m *markRow) int64 { return m.version + 1 }), numbers(all, func(m *markRow) int64 { return m.Through.UnixMicro() }),
		numbers(all, func(m *markRow) int64 { return m.Total }), numbers(all, func(m *markRow) int64 { return m.Left.N }),
		numbers(all, func(m *markRow) int64 { return m.Left.Per }), flags(all, func(m *markRow) bool { return m.Closed }),
	}
}
