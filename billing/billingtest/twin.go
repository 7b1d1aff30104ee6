package billingtest

import (
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// twin keeps all rows, as a ledger should, and shows every one of them to the
// book that decides.
type twin struct {
	accounts map[access.UserID]billing.Account
	grants   map[billing.GrantID]billing.Grant
	holds    map[billing.HoldID]billing.Hold
	marks    map[billing.MarkKey]billing.Mark
	entries  []billing.Entry
}

func newTwin() *twin {
	return &twin{
		accounts: map[access.UserID]billing.Account{}, grants: map[billing.GrantID]billing.Grant{},
		holds: map[billing.HoldID]billing.Hold{}, marks: map[billing.MarkKey]billing.Mark{},
	}
}

// facts are all rows.
func (w *twin) facts() billing.Facts {
	return billing.Facts{
		Accounts: slices.Collect(maps.Values(w.accounts)), Grants: slices.Collect(maps.Values(w.grants)),
		Holds: slices.Collect(maps.Values(w.holds)), Marks: slices.Collect(maps.Values(w.marks)), Entries: slices.Clone(w.entries),
	}
}

func (w *twin) book(now time.Time) *billing.Book {
	b := billing.NewBook(now)
	b.Add(w.facts())
	return b
}

// write writes what a book has changed, and of a row that is there no more than may change.
func (w *twin) write(c billing.Changes) {
	for _, a := range c.Accounts {
		w.accounts[a.Payer] = a
	}
	for _, g := range c.Grants {
		if was, there := w.grants[g.ID]; there {
			was.Remaining = g.Remaining
			g = was
		}
		w.grants[g.ID] = g
	}
	for _, h := range c.Holds {
		if was, there := w.holds[h.ID]; there {
			was.State, was.Until, was.ClosedAt = h.State, h.Until, h.ClosedAt
			h = was
		}
		w.holds[h.ID] = h
	}
	for _, m := range c.Marks {
		w.marks[m.MarkKey] = m
	}
	w.entries = append(w.entries, c.Entries...)
}

// statement is the book of payer.
func (w *twin) statement(payer access.UserID) (all []billing.Entry) {
	for _, e := range w.entries {
		if e.Payer == payer {
			all = append(all, e)
		}
	}
	return all
}

// on are the holds on a resource.
func (w *twin) on(resource string) (all []billing.Hold) {
	for _, id := range slices.Sorted(maps.Keys(w.holds)) {
		if h := w.holds[id]; h.Resource == resource {
			all = append(all, h)
		}
	}
	return all
}

func (w *twin) mark(k billing.MarkKey) billing.Mark {
	if m, there := w.marks[k]; there {
		return m
	}
	return billing.Mark{MarkKey: k}
}
