package sqlstore

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func (s ledger) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	var was loaded
	one := []string{string(payer)}
	err := s.read(ctx, func(ctx context.Context, on place) (err error) {
		was, err = on.load(ctx, needs{payers: one, left: true, standing: one})
		return err
	})
	if err != nil {
		return billing.Balance{}, err
	}
	b := billing.NewBook(was.clock)
	b.Add(was.Facts)
	return b.Balance(payer), nil
}

const (
	statementPage = `SELECT ` + entryColumns + ` FROM bunkroom_entries AS e WHERE e.payer = ? AND e.n > ? ORDER BY e.n LIMIT ?`
	unexported    = `SELECT ` + entryColumns + ` FROM bunkroom_entries AS e
		WHERE e.kind = 'usage' AND e.exported_at IS NULL ORDER BY e.posted_at, e.payer, e.n LIMIT ?`
	postingsFrom = `SELECT p.payer, p.n, p.account, p.amount FROM bunkroom_postings AS p
		WHERE p.payer = ? AND p.n >= ? AND p.n <= ? ORDER BY p.n, p.place`
	postingsOfEach = `SELECT p.payer, p.n, p.account, p.amount
		FROM ROWS(payer text, n bigint) AS k JOIN bunkroom_postings AS p ON p.payer = k.payer AND p.n = k.n ORDER BY p.payer, p.n, p.place`
)

func (s ledger) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	if err := paged("Limit", q.Limit); err != nil {
		return billing.StatementPage{}, err
	}
	if q.After < 0 {
		return billing.StatementPage{}, field("After", "must not be negative")
	}
	if !textual(string(q.Payer)) {
		return billing.StatementPage{}, ctx.Err()
	}
	var page billing.StatementPage
	err := s.read(ctx, func(ctx context.Context, on place) error {
		found, err := on.listEntries(ctx, statementPage, string(q.Payer), q.After, q.Limit+1) // one more, to know whether there is more
		if err != nil || len(found) == 0 {
			return err
		}
		if len(found) > q.Limit {
			found = found[:q.Limit]
			page.Next = found[q.Limit-1].N
		}
		page.Items = found
		return on.postings(ctx, found, postingsFrom, string(q.Payer), found[0].N, found[len(found)-1].N)
	})
	if err != nil {
		return billing.StatementPage{}, err
	}
	return page, nil
}

// postings adds to each entry its postings.
func (p place) postings(ctx context.Context, to []billing.Entry, text string, args ...any) error {
	type place struct {
		payer access.UserID
		n     int64
	}
	at := make(map[place]int, len(to))
	for i, e := range to {
		at[place{e.Payer, e.N}] = i
	}
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var in place
		var of billing.Posting
		if err := rows.Scan(str(&in.payer), &in.n, &of.Account, num(&of.Amount)); err != nil {
			return err
		}
		if i, asked := at[in]; asked {
			to[i].Postings = append(to[i].Postings, of)
		}
	}
	return rows.Err()
}

const payersAfter = `SELECT payer FROM bunkroom_accounts WHERE payer > ? ORDER BY payer LIMIT ?`

func (s ledger) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	if err := paged("limit", limit); err != nil {
		return nil, err
	}
	if err := access.CheckOptionalID("after", after); err != nil {
		return nil, err
	}
	found, err := s.texts(ctx, payersAfter, string(after), limit)
	if err != nil {
		return nil, err
	}
	payers := make([]access.UserID, len(found))
	for i, payer := range found {
		payers[i] = access.UserID(payer)
	}
	return payers, nil
}

func (s ledger) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	if err := atMost("keys", len(keys)); err != nil {
		return nil, err
	}
	found := make(map[billing.MarkKey]billing.Mark, len(keys))
	err := s.read(ctx, func(ctx context.Context, on place) error {
		text, args := s.store.keyed(marksOf+joinMarks, marksOf+lookMarks, keys)
		if args == nil {
			return nil
		}
		rows, err := on.rows(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m billing.Mark
			if err := rows.Scan(markInto(&m)...); err != nil {
				return err
			}
			m.Of = markOf(m.MarkKey, m.Of)
			found[m.MarkKey] = m
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	marks := make([]billing.Mark, len(keys))
	for i, k := range keys {
		marks[i] = found[k]
		marks[i].MarkKey = k
	}
	return marks, nil
}

const (
	marksOf = `SELECT ` + markColumns + ` FROM `
	holdsOn = `SELECT ` + holdColumns + ` FROM bunkroom_holds AS h WHERE h.resource = ? ORDER BY h.opened_at, h.id`
)

func (s ledger) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	if !textual(resource) {
		return nil, ctx.Err()
	}
	var found []billing.Hold
	err := s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, holdsOn, resource)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h billing.Hold
			if err := rows.Scan(holdInto(&h)...); err != nil {
				return err
			}
			found = append(found, h)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (s ledger) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	if err := paged("limit", limit); err != nil {
		return nil, err
	}
	var found []billing.Entry
	err := s.read(ctx, func(ctx context.Context, on place) (err error) {
		if found, err = on.listEntries(ctx, unexported, limit); err != nil || len(found) == 0 {
			return err
		}
		text, args := s.store.table(postingsOfEach,
			texts(found, func(e *billing.Entry) access.UserID { return e.Payer }), numbers(found, func(e *billing.Entry) int64 { return e.N }))
		return on.postings(ctx, found, text, args...)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

const (
	exportedKey  = "exported" // one at a time: then nobody waits for another in a circle
	markExported = `UPDATE bunkroom_entries SET exported_at = ? WHERE id IN IDS(?) AND kind = 'usage' AND exported_at IS NULL`
)

func (s ledger) Exported(ctx context.Context, ids []string) error {
	if err := atMost("ids", len(ids)); err != nil {
		return err
	}
	asked := idsJSON(append([]string(nil), ids...))
	if asked == "" {
		return ctx.Err()
	}
	return lost(s.write(ctx, keys{exportedKey}, func(ctx context.Context, on place, clock time.Time) error {
		_, err := on.exec(ctx, markExported, micros(clock), asked)
		return err
	}))
}

// texts are the texts that a statement answers with.
func (s ledger) texts(ctx context.Context, text string, args ...any) (found []string, err error) {
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var v string
			if err := rows.Scan(&v); err != nil {
				return err
			}
			found = append(found, v)
		}
		return rows.Err()
	})
	return found, err
}

// pairs are the pairs of texts that a statement answers with.
func (s ledger) pairs(ctx context.Context, text string, args ...any) (found [][2]string, err error) {
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var v [2]string
			if err := rows.Scan(&v[0], &v[1]); err != nil {
				return err
			}
			found = append(found, v)
		}
		return rows.Err()
	})
	return found, err
}
