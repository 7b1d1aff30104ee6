package billing_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// shelf keeps the rows that books have written, as a ledger does, and looks at
// every change of them: final states are not left, watermarks do not go back, entries are not written twice.
type shelf struct {
	accounts map[access.UserID]billing.Account
	grants   map[billing.GrantID]billing.Grant
	holds    map[billing.HoldID]billing.Hold
	marks    map[billing.MarkKey]billing.Mark
	entries  []billing.Entry
}

func newShelf() *shelf {
	return &shelf{
		accounts: map[access.UserID]billing.Account{}, grants: map[billing.GrantID]billing.Grant{},
		holds: map[billing.HoldID]billing.Hold{}, marks: map[billing.MarkKey]billing.Mark{},
	}
}

// book is a book of everything on the shelf.
func (s *shelf) book(now time.Time) *billing.Book {
	b := billing.NewBook(now)
	b.Add(billing.Facts{
		Accounts: slices.Collect(maps.Values(s.accounts)), Grants: slices.Collect(maps.Values(s.grants)),
		Holds: slices.Collect(maps.Values(s.holds)), Marks: slices.Collect(maps.Values(s.marks)), Entries: s.entries,
	})
	return b
}

// put writes changes, and says what is wrong with them.
func (s *shelf) put(c billing.Changes) error {
	for _, e := range c.Entries {
		if slices.ContainsFunc(s.entries, func(was billing.Entry) bool { return was.ID == e.ID }) {
			return fmt.Errorf("entry %s is written twice", e.ID)
		}
		var sum billing.Micros
		for _, p := range e.Postings {
			if p.Amount == 0 {
				return fmt.Errorf("entry %s has a posting of nothing", e.ID)
			}
			sum += p.Amount
		}
		if sum != 0 || len(e.Postings) == 1 {
			return fmt.Errorf("the postings of entry %s sum to %v", e.ID, sum)
		}
		s.entries = append(s.entries, e)
	}
	for _, a := range c.Accounts {
		if a.Debt < 0 || a.Spent < 0 || a.Entries < s.accounts[a.Payer].Entries {
			return fmt.Errorf("account %+v", a)
		}
		s.accounts[a.Payer] = a
	}
	for _, g := range c.Grants {
		if was, there := s.grants[g.ID]; g.Remaining < 0 || there && g.Remaining >= was.Remaining {
			return fmt.Errorf("grant %+v was %+v", g, was)
		}
		s.grants[g.ID] = g
	}
	for _, h := range c.Holds {
		was, there := s.holds[h.ID]
		if there && (was.State != billing.HoldOpen || h.Until.Before(was.Until) || h.Use != was.Use) || h.State == billing.HoldOpen != h.ClosedAt.IsZero() {
			return fmt.Errorf("hold %+v was %+v", h, was)
		}
		s.holds[h.ID] = h
	}
	for _, m := range c.Marks {
		if was := s.marks[m.MarkKey]; m.Through.Before(was.Through) || m.Total < was.Total || was.Closed {
			return fmt.Errorf("mark %+v was %+v", m, was)
		}
		s.marks[m.MarkKey] = m
	}
	return nil
}

// must writes what a book has changed.
func (s *shelf) must(t testing.TB, b *billing.Book) {
	t.Helper()
	if err := s.put(b.Changes()); err != nil {
		t.Fatal(err)
	}
}

// runtimeOf is the use of a work of ann's.
func runtimeOf(work string) billing.Use {
	return billing.Use{Meter: billing.MeterRuntime, Resource: work, Payer: "ann", Session: "session-1"}
}

// perSecond is one micro a second of runtime.
var perSecond = billing.Rate{Price: 1, Per: 1_000_000}

// span is a post of the seconds from to to after noon.
func span(work string, from, to int) billing.Post {
	return billing.Post{
		Use: runtimeOf(work), From: second(from), To: second(to), Quantity: int64(to-from) * 1_000_000, Rate: perSecond,
		Terms: billing.Terms{Estimate: 10, InFlight: 2},
	}
}

func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// nothing reports whether no row was changed.
func nothing(c billing.Changes) bool {
	return len(c.Accounts)+len(c.Grants)+len(c.Holds)+len(c.Marks)+len(c.Entries) == 0
}
