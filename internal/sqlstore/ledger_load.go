package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// What a book needs is read in one statement, put together of these: rows of
// one shape, of which each kind leaves some columns empty. Each is found in an index.
const (
	ofHeld = iota // the sums of a payer's, for there may be many
	ofAccount
	ofGrant
	ofHold
	ofMark
	ofClock
)

// lookup is a part that finds rows of one table by a column of theirs that is an id.
type lookup struct {
	columns, table, as, by string // of the table, under its alias
	only, group            string // which of them alone, and what is summed up
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

// lookHeld sums up what is open and has not expired by a clock, without some.
func lookHeld(without int) lookup {
	only := " AND h.state = 'open' AND h.until_at > COALESCE(?, NOW())"
	switch without {
	case 0:
	case 1:
		only += " AND h.id <> ?"
	default:
		only += " AND NOT h.id IN IDS(?)"
	}
	return lookup{columns: `0, h.payer, '', '', '', '', '', '', '', CAST(sum(h.estimate) AS bigint), count(*), 0, 0, 0, 0`,
		table: "bunkroom_holds", as: "h", by: "payer", only: only, group: " GROUP BY h.payer"}
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
		FROM `
	loadJoined = loadMarks + joinMarks
	loadLooked = loadMarks + lookMarks
	loadClock  = `SELECT 5, '', '', '', '', '', '', '', '', NOW(), 0, 0, 0, 0, 0`
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
	standing []string // payers of whom what they hold counts
	grants   []string // of these ids
	holds    []string
	marks    []billing.MarkKey
	now      time.Time // the clock it goes by; not set = the one that counts, which is then told
}

// loaded is what there is of it.
type loaded struct {
	billing.Facts
	marks    map[billing.MarkKey]markRow
	accounts map[access.UserID]int64 // their versions; of one that is not there none
	clock    time.Time               // what it went by
}

// markRow is a mark and its version.
type markRow struct {
	billing.Mark
	version int64
}

// loading is what the statement for some needs depends on: how many ids there
// are of each kind, 2 for any number.
type loading struct {
	accounts, left, held, grants, holds int
	marks                               string // as they are to be said
	clock                               bool
}

// load loads what there is of n.
func (p place) load(ctx context.Context, n needs) (loaded, error) {
	s := p.store
	if n.now.IsZero() && s.writer != nil { // the one that counts is this process's
		n.now = s.at(n.now)
	}
	l := loaded{marks: make(map[billing.MarkKey]markRow, len(n.marks)), accounts: make(map[access.UserID]int64, len(n.payers)), clock: n.now}
	l.Marks = make([]billing.Mark, 0, len(n.marks))
	text, args := s.loading(n)
	if text == "" {
		return l, nil
	}
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return loaded{}, err
	}
	defer rows.Close()
	var r ledgerRow
	into := r.into()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return loaded{}, err
		}
		if err := l.add(&r); err != nil {
			return loaded{}, err
		}
	}
	return l, rows.Err()
}

// loading is the statement for n and its arguments.
func (s *store) loading(n needs) (text string, args []any) {
	l := loading{clock: n.now.IsZero()}
	args = make([]any, 0, 8)
	ask := func(many *int, ids []string) bool {
		if *many = min(len(ids), 2); *many > 0 {
			args = append(args, s.ids(ids))
		}
		return *many > 0
	}
	payers, holds := known(n.payers), known(n.holds)
	ask(&l.accounts, payers)
	if n.left {
		ask(&l.left, payers)
	}
	l.holds = min(len(holds), 2)
	if ask(&l.held, known(n.standing)) {
		args = append(args, micros(n.now))
		switch l.holds {
		case 1:
			args = append(args, holds[0])
		case 2:
			args = append(args, idsJSON(holds))
		}
	}
	ask(&l.grants, known(n.grants))
	ask(&l.holds, holds)
	text, marks := s.keyed(loadJoined, loadLooked, n.marks)
	l.marks, args = text, append(args, marks...)
	if made, ok := s.made.Load(l); ok {
		return made.(string), args
	}
	text = s.loadingText(l)
	s.made.Store(l, text)
	return text, args
}

func (s *store) loadingText(l loading) string {
	var parts []string
	for _, part := range []struct {
		many int
		lookup
	}{
		{l.accounts, lookAccounts()}, {l.left, lookLeft()}, {l.held, lookHeld(l.holds)}, {l.grants, lookGrants()}, {l.holds, lookHolds()},
	} {
		if part.many > 0 {
			parts = append(parts, s.among(part.lookup, part.many))
		}
	}
	if l.marks != "" {
		parts = append(parts, l.marks)
	}
	if l.clock {
		parts = append(parts, loadClock)
	}
	return strings.Join(parts, " UNION ALL ")
}

// add adds a row to what is loaded.
func (l *loaded) add(r *ledgerRow) error {
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
	case ofHeld:
		l.Held = append(l.Held, billing.Held{Payer: access.UserID(r.t[0]), Estimate: r.micros(0), Holds: int(r.n[1].Int64)})
	case ofHold:
		h := billing.Hold{ID: billing.HoldID(r.t[0]), Use: billing.Use{
			Payer: access.UserID(r.t[1]), Meter: billing.Meter(r.t[2]), Class: billing.Class(r.t[3]), Resource: r.t[4],
			Session: access.SessionID(r.t[5]), Project: access.ProjectID(r.t[6]),
		}, Estimate: r.micros(0), OpenedAt: r.moment(1), Until: r.moment(2), ClosedAt: r.moment(3)}
		if err := (holdState{&h.State}).Scan(r.t[7]); err != nil {
			return err
		}
		l.Holds = append(l.Holds, h)
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
	return nil
}

// known are those of ids that can be any.
func known(ids []string) []string {
	for i, id := range ids {
		if id == "" || !textual(id) {
			return append(slices.Clone(ids[:i]), known(ids[i+1:])...)
		}
	}
	return ids
}

// among is the statement that looks that many ids up, and ids is its argument.
// One is asked for as one. Many are looked up one
// by one where the database can be told to, whatever it knows of the table: to go
// through a table that was small when the plan was made, each row against all ids, is slow long before it is big.
func (s *store) among(l lookup, many int) string {
	from, where := l.table+" AS "+l.as, " WHERE "+l.as+"."+l.by
	switch {
	case many == 1:
		return "SELECT " + l.columns + " FROM " + from + where + " = ?" + l.only + l.group
	case s.dialect.Lateral && s.dialect.Arrays:
		return "SELECT " + l.columns + " FROM ROWS(id text) AS k CROSS JOIN LATERAL (SELECT * FROM " + from + where + " = k.id" + l.only + " OFFSET 0) AS " + l.as + l.group
	}
	return "SELECT " + l.columns + " FROM " + from + where + " IN IDS(?)" + l.only + l.group
}

func (s *store) ids(known []string) any {
	switch {
	case len(known) == 1:
		return known[0]
	case s.dialect.Lateral && s.dialect.Arrays:
		return known
	}
	return idsJSON(known)
}

// keyed is the statement for these marks, said as this database can, and its
// arguments; nil = none of them can be any mark's.
func (s *store) keyed(joined, looked string, keys []billing.MarkKey) (text string, args []any) {
	isNone := func(k billing.MarkKey) bool { return !textual(k.Resource) || !textual(string(k.Meter)) }
	if slices.ContainsFunc(keys, isNone) {
		keys = slices.DeleteFunc(slices.Clone(keys), isNone)
	}
	if len(keys) == 0 {
		return "", nil
	}
	statement := joined
	if s.dialect.Lateral {
		statement = looked
	}
	return s.table(statement, texts(keys, func(k *billing.MarkKey) string { return k.Resource }), texts(keys, func(k *billing.MarkKey) billing.Meter { return k.Meter }))
}

// entries are those of the ids that are there, without their postings.
func (p place) entries(ctx context.Context, ids []string) ([]billing.Entry, error) {
	asked := known(ids)
	if len(asked) == 0 {
		return nil, nil
	}
	return p.listEntries(ctx, p.store.among(lookEntries(), len(asked)), p.store.ids(asked))
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
