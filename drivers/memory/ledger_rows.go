package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// books are the rows of the ledger. What a verb needs of them is found by
// key, and what is over (holds closed, grants spent, entries of old) is not gone through.
type books struct {
	accounts   map[access.UserID]billing.Account
	grants     map[billing.GrantID]billing.Grant
	left       map[access.UserID]map[billing.GrantID]bool // grants with something left, by payer
	holds      map[billing.HoldID]billing.Hold
	open       map[access.UserID]map[billing.HoldID]bool // holds that are open, by payer
	on         map[string][]billing.HoldID               // holds by resource, the oldest first
	marks      map[billing.MarkKey]billing.Mark
	entries    map[access.UserID][]billing.Entry // by payer, in the order of N
	places     map[string]entryPlace
	queue      []string // ids of usage entries, the oldest first; some may have been exported
	unexported map[string]bool
}

// entryPlace is where an entry is: the one with that N in the book of payer.
type entryPlace struct {
	payer access.UserID
	n     int64
}

func newBooks() books {
	return books{
		accounts:   map[access.UserID]billing.Account{},
		grants:     map[billing.GrantID]billing.Grant{},
		left:       map[access.UserID]map[billing.GrantID]bool{},
		holds:      map[billing.HoldID]billing.Hold{},
		open:       map[access.UserID]map[billing.HoldID]bool{},
		on:         map[string][]billing.HoldID{},
		marks:      map[billing.MarkKey]billing.Mark{},
		entries:    map[access.UserID][]billing.Entry{},
		places:     map[string]entryPlace{},
		unexported: map[string]bool{},
	}
}

// of are the facts of a payer: the account, the grants with something left, the open holds.
func (k *books) of(payer access.UserID) (f billing.Facts) {
	if a, there := k.accounts[payer]; there {
		f.Accounts = append(f.Accounts, a)
	}
	for _, id := range sorted(k.left[payer]) {
		f.Grants = append(f.Grants, k.grants[id])
	}
	for _, id := range sorted(k.open[payer]) {
		f.Holds = append(f.Holds, k.holds[id])
	}
	return f
}

// hold adds a hold to some, if it is there.
func (k *books) hold(to []billing.Hold, id billing.HoldID) []billing.Hold {
	if h, there := k.holds[id]; there {
		return append(to, h)
	}
	return to
}

// entry adds an entry to some, if it is there.
func (k *books) entry(to []billing.Entry, id string) []billing.Entry {
	if at, there := k.places[id]; there {
		return append(to, k.entries[at.payer][at.n-1])
	}
	return to
}

// due are the facts of what has expired, at most limit holds and grants, and whether there are more.
func (k *books) due(now time.Time, lateness time.Duration, limit int) (f billing.Facts, more bool) {
	for _, open := range k.open {
		for id := range open {
			if h := k.holds[id]; !now.Before(h.Until) {
				f.Holds = append(f.Holds, h)
			}
		}
	}
	for _, left := range k.left {
		for id := range left {
			if g := k.grants[id]; !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt.Add(lateness)) {
				f.Grants = append(f.Grants, g)
			}
		}
	}
	more = len(f.Holds) > limit || len(f.Grants) > limit
	slices.SortFunc(f.Holds, func(a, b billing.Hold) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(f.Grants, func(a, b billing.Grant) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.ID, b.ID))
	})
	f.Holds, f.Grants = f.Holds[:min(limit, len(f.Holds))], f.Grants[:min(limit, len(f.Grants))]
	for _, g := range f.Grants {
		f.Accounts = append(f.Accounts, k.accounts[g.Payer])
	}
	return f, more
}

// write writes what a book has changed.
func (k *books) write(c billing.Changes) {
	for _, a := range c.Accounts {
		k.accounts[a.Payer] = a
	}
	for _, g := range c.Grants {
		k.grants[g.ID] = g
		keep(k.left, g.Payer, g.ID, g.Remaining > 0)
	}
	for _, h := range c.Holds {
		if _, there := k.holds[h.ID]; !there {
			k.on[h.Resource] = append(k.on[h.Resource], h.ID)
		}
		k.holds[h.ID] = h
		keep(k.open, h.Payer, h.ID, h.State == billing.HoldOpen)
	}
	for _, m := range c.Marks {
		k.marks[m.MarkKey] = m
	}
	for _, e := range c.Entries {
		k.entries[e.Payer] = append(k.entries[e.Payer], e)
		k.places[e.ID] = entryPlace{e.Payer, e.N}
		if e.Kind == billing.EntryUsage {
			k.queue = append(k.queue, e.ID)
			k.unexported[e.ID] = true
		}
	}
}

// keep has id in the payer's set, or not.
func keep[K comparable](sets map[access.UserID]map[K]bool, payer access.UserID, id K, in bool) {
	switch {
	case !in:
		delete(sets[payer], id)
		if len(sets[payer]) == 0 {
			delete(sets, payer)
		}
		return
	case sets[payer] == nil:
		sets[payer] = map[K]bool{}
	}
	sets[payer][id] = true
}
