package sqlstore

import (
	"context"

	"github.com/bunkroom/bunkroom/billing"
)

// changeHold takes half as long as to insert what is there.
const changeHold = `UPDATE bunkroom_holds SET state = ?, until_at = ?, closed_at = ? WHERE id = ? AND payer = ?`

// saveEach is save by a statement for each part, and for some rows of it at a
// time. Whoever does so has the one lock of the database since before it loaded: no account
// needs a new version to tell of what else was written.
func (p place) saveEach(ctx context.Context, c billing.Changes, was loaded) error {
	changed, opened := apart(c.Holds, was.Holds)
	for _, h := range changed {
		n, err := p.exec(ctx, changeHold, h.State.String(), h.Until.UnixMicro(), micros(h.ClosedAt), string(h.ID), string(h.Payer))
		if err == nil && n != 1 {
			err = errOvertaken
		}
		if err != nil {
			return err
		}
	}
	c.Holds = opened
	var postings [][]posting
	if all := postingsOf(c.Entries); len(all) > 0 {
		postings = append(postings, all)
	}
	for _, part := range parts(c, was, changedAccounts(c.Accounts, was.Accounts), postings) {
		rows := part.columns[0].len()
		for from := 0; from < rows; {
			to, some := rows, part.columns
			if rows > fewRows {
				to = min(from+fewRows, rows)
				if from+someRows <= rows {
					to = from + someRows
				}
				some = make([]column, len(part.columns))
				for i, c := range part.columns {
					some[i] = c.part(from, to)
				}
			}
			text, args := p.store.table(part.text, some...)
			n, err := p.exec(ctx, text, args...)
			if err != nil {
				return p.store.overtaken(err)
			}
			if part.counted && int(n) != to-from {
				return errOvertaken
			}
			from = to
		}
	}
	return nil
}

// apart are the holds that were there, and those that were not.
func apart(now, was []billing.Hold) (old, fresh []billing.Hold) {
	there := make(map[billing.HoldID]bool, len(was))
	for _, h := range was {
		there[h.ID] = true
	}
	for _, h := range now {
		if there[h.ID] {
			old = append(old, h)
		} else {
			fresh = append(fresh, h)
		}
	}
	return old, fresh
}

// changedAccounts are those that are not just as they were.
func changedAccounts(now, was []billing.Account) (all []billing.Account) {
	before := make(map[billing.Account]bool, len(was))
	for _, a := range was {
		before[a] = true
	}
	for _, a := range now {
		if !before[a] {
			all = append(all, a)
		}
	}
	return all
}
