package sqlstore

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// What a book needs is read in one statement, put together of these: rows of
// one shape, of which each kind leaves some columns empty. Each is found in an index.
const (
	// Of holds that are open only what is reserved is asked, and packed into one row of a payer's, for there may be many.
	ofOpenHolds = iota
	ofAccount
	ofGrant
	ofHold
	ofMark
	ofClock
)

// lookup is a part that finds rows of one table by a column of theirs that is an id.
type lookup struct {
	columns, table, as, by string // of the table, under its alias
	only, group            string // which of them alone, and what is packed into one
}

const grantRow = `2, g.id, g.payer, g.source, '', '', '', '', '', g.amount, g.priority, g.granted_at, g.expires_at, CASE WHEN g.repay THEN 1 ELSE 0 END, g.remaining`

func lookAccounts() lookup {
	return lookup{columns: `1 AS what, a.payer, '', '', '', '', '', '', '', a.debt, a.day, a.spent, a.entries, a.version, 0`, table: "bunkroom_accounts", as: "a", by: "payer"}
}

func lookLeft() lookup {
	return lookup{columns: grantRow, table: "bunkroom_grants", as: "g", by: "payer", only: " AND NOT g.used_up"}
}

func lookGrants() lookup {
	return lookup{columns: grantRow, table: "bunkroom_grants", as: "g", by: "id"}
}

func lookOpen() lookup {
	return lookup{columns: `0, h.payer, PACKED('id', h.id, 'estimate', h.estimate, 'until', h.until_at), '', '', '', '', '', '', 0, 0, 0, 0, 0, 0`,
		table: "bunkroom_holds", as: "h", by: "payer", only: " AND h.state = 'open'", group: " GROUP BY h.payer"}
}

func lookHolds() lookup {
	return lookup{columns: `3, h.id, h.payer, h.meter, h.class, h.resource, h.session_id, h.project, h.state, h.estimate, h.opened_at, h.until_at, h.closed_at, 0, 0`,
		table: "bunkroom_holds", as: "h", by: "id"}
}

func lookEntries() lookup {
	return lookup{columns: entryColumns, table: "bunkroom_entries", as: "e", by: "id"}
}

const (
	loadMarks = `SELECT 4, m.resource, m.meter, m.payer, m.class, m.session_id, m.project, '', '', m.version, m.through_at, m.total, m.left_n, m.left_per, CASE WHEN m.closed THEN 1 ELSE 0 END
		FROM MARKS`
	loadClock = `SELECT 5, '', '', '', '', '', '', '', '', NOW(), 0, 0, 0, 0, 0`
)

const (
	joinMarks = `ROWS(resource text, meter text) AS k JOIN bunkroom_marks AS m ON m.resource = k.resource AND m.meter = k.meter`
	// lookMarks looks each up, whatever is known of the table: a plan that was made
	// while it was small would go through all of it.
	lookMarks = `ROWS(resource text, meter text) AS k CROSS JOIN LATERAL
		(SELECT * FROM bunkroom_marks AS m WHERE m.resource = k.resource AND m.meter = k.meter LIMIT 1) AS m`
)

// needs says what a book needs. What can't be an id is nobody's, and not looked for.
type needs struct {
	payers   []string // their accounts, and
	left     bool     // the grants of theirs that have something left
	standing []string // payers whose open holds count
	grants   []string // of these ids
	holds    []string
	marks    []billing.MarkKey
	clock    bool
}

// loaded is what there is of it.
type loaded struct {
	billing.Facts
	marks    map[billing.MarkKey]markRow
	accounts map[access.UserID]int64 // their versions; of one that is not there none
	clock    time.Time               // of the database, if it has one
}

// markRow is a mark and its version.
type markRow struct {
	billing.Mark
	version int64
}

func (p place) load(ctx context.Context, n needs) (loaded, error) {
	var parts []string
	var args []any
	add := func(part lookup, ids []string) {
		if text, arg := p.store.among(part, ids); arg != nil {
			parts, args = append(parts, text), append(args, arg)
		}
	}
	add(lookAccounts(), n.payers)
	if n.left {
		add(lookLeft(), n.payers)
	}
	add(lookOpen(), n.standing)
	add(lookGrants(), n.grants)
	add(lookHolds(), n.holds)
	if text, keys := p.store.keyed(loadMarks, n.marks); keys != nil {
		parts, args = append(parts, text), append(args, keys...)
	}
	if n.clock {
		parts = append(parts, loadClock)
	}
	l := loaded{marks: make(map[billing.MarkKey]markRow, len(n.marks)), accounts: make(map[access.UserID]int64, len(n.payers))}
	l.Marks = make([]billing.Mark, 0, len(n.marks))
	if len(parts) == 0 {
		return l, nil
	}
	rows, err := p.rows(ctx, strings.Join(parts, " UNION ALL "), args...)
	if err != nil {
		return loaded{}, err
	}
	defer rows.Close()
	var r ledgerRow
	into := r.into()
	var whole []billing.Hold
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return loaded{}, err
		}
		switch r.what {
		case ofAccount:
			l.accounts[access.UserID(r.t[0])] = r.n[4].Int64
			l.Accounts = append(l.Accounts, billing.Account{
				Payer: access.UserID(r.t[0]), Debt: r.micros(0), Day: r.n[1].Int64, Spent: r.micros(2), Entries: r.n[3].Int64,
			})
		case ofGrant:
			l.Grants = append(l.Grants, billing.Grant{
				ID: billing.GrantID(r.t[0]), Payer: access.UserID(r.t[1]), Source: r.t[2], Amount: r.micros(0), Priority: int(r.n[1].Int64),
				GrantedAt: r.moment(2), ExpiresAt: r.moment(3), Repay: r.n[4].Int64 != 0, Remaining: r.micros(5),
			})
		case ofOpenHolds:
			var open []struct {
				ID       billing.HoldID
				Estimate billing.Micros
				Until    int64
			}
			if err := json.Unmarshal([]byte(r.t[1]), &open); err != nil {
				return loaded{}, err
			}
			for _, h := range open {
				l.Holds = append(l.Holds, billing.Hold{
					ID: h.ID, Use: billing.Use{Payer: access.UserID(r.t[0])}, State: billing.HoldOpen, Estimate: h.Estimate, Until: time.UnixMicro(h.Until).UTC(),
				})
			}
		case ofHold:
			h := billing.Hold{ID: billing.HoldID(r.t[0]), Use: billing.Use{
				Payer: access.UserID(r.t[1]), Meter: billing.Meter(r.t[2]), Class: billing.Class(r.t[3]), Resource: r.t[4],
				Session: access.SessionID(r.t[5]), Project: access.ProjectID(r.t[6]),
			}, Estimate: r.micros(0), OpenedAt: r.moment(1), Until: r.moment(2), ClosedAt: r.moment(3)}
			if err := (holdState{&h.State}).Scan(r.t[7]); err != nil {
				return loaded{}, err
			}
			whole = append(whole, h)
		case ofMark:
			m := billing.Mark{
				MarkKey: billing.MarkKey{Resource: r.t[0], Meter: billing.Meter(r.t[1])}, Through: r.moment(1), Total: r.n[2].Int64,
				Left: billing.Remainder{N: r.n[3].Int64, Per: r.n[4].Int64}, Closed: r.n[5].Int64 != 0,
			}
			m.Of = markOf(m.MarkKey, billing.Use{
				Payer: access.UserID(r.t[2]), Class: billing.Class(r.t[3]), Session: access.SessionID(r.t[4]), Project: access.ProjectID(r.t[5]),
			})
			l.Marks, l.marks[m.MarkKey] = append(l.Marks, m), markRow{m, r.n[0].Int64}
		case ofClock:
			l.clock = r.moment(0)
		}
	}
	l.Holds = append(l.Holds, whole...) // those that were asked for by their ids are known whole
	return l, rows.Err()
}

// among is the statement that looks these ids up, and its argument; nil =
// none of them can be anything's. One is asked for as one. Many are looked up one
// by one where the database can be told to, whatever it knows of the table: to go
// through a table that was small when the plan was made, each row against all ids, is slow long before it is big.
func (s *store) among(l lookup, ids []string) (text string, arg any) {
	known := make([]string, 0, len(ids))
	for _, id := range ids {
		if id != "" && textual(id) {
			known = append(known, id)
		}
	}
	from, where := l.table+" AS "+l.as, " WHERE "+l.as+"."+l.by
	switch {
	case len(known) == 0:
		return "", nil
	case len(known) == 1:
		return "SELECT " + l.columns + " FROM " + from + where + " = ?" + l.only + l.group, known[0]
	case s.dialect.Lateral && s.dialect.Arrays:
		return "SELECT " + l.columns + " FROM ROWS(id text) AS k CROSS JOIN LATERAL (SELECT * FROM " + from + where + " = k.id" + l.only + " OFFSET 0) AS " + l.as + l.group, known
	}
	return "SELECT " + l.columns + " FROM " + from + where + " IN IDS(?)" + l.only + l.group, idsJSON(known)
}

// keyed is a statement with MARKS, those of these keys, and its arguments; nil = none of them can be any mark's.
func (s *store) keyed(statement string, keys []billing.MarkKey) (text string, args []any) {
	known := make([]billing.MarkKey, 0, len(keys))
	for _, k := range keys {
		if textual(k.Resource) && textual(string(k.Meter)) {
			known = append(known, k)
		}
	}
	if len(known) == 0 {
		return "", nil
	}
	marks := joinMarks
	if s.dialect.Lateral {
		marks = lookMarks
	}
	return s.table(strings.Replace(statement, "MARKS", marks, 1), texts(known, func(k *billing.MarkKey) string { return k.Resource }), texts(known, func(k *billing.MarkKey) billing.Meter { return k.Meter }))
}

// entries are those of the ids that are there, without their postings.
func (p place) entries(ctx context.Context, ids []string) ([]billing.Entry, error) {
	text, arg := p.store.among(lookEntries(), ids)
	if arg == nil {
		return nil, nil
	}
	return p.listEntries(ctx, text, arg)
}

func (p place) listEntries(ctx context.Context, text string, args ...any) ([]billing.Entry, error) {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []billing.Entry
	for rows.Next() {
		var e billing.Entry
		if err := rows.Scan(entryInto(&e)...); err != nil {
			return nil, err
		}
		if e.Kind == billing.EntryUsage {
			e.Use.Payer = e.Payer
		}
		found = append(found, e)
	}
	return found, rows.Err()
}
