package billing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Book is what a ledger knows of some payers at one instant, and all the rules
// of accounting. It is pure: a ledger fills it with [Book.Add], under a lock on
// every payer in it, calls one of its verbs, and writes its [Book.Changes].
// A verb that returns an error has changed nothing. It must not be used concurrently.
type Book struct {
	now      time.Time
	accounts map[access.UserID]*Account
	grants   map[access.UserID]map[GrantID]*Grant
	holds    map[HoldID]*Hold
	open     map[access.UserID]map[HoldID]bool
	held     map[access.UserID]Held // by others
	marks    map[MarkKey]*bookMark
	entries  map[string]*Entry // that are there already, of the ids that matter; none is ever changed
	changes  Changes
	dirty    dirty
	paying   []Grant // what a charge chooses from; kept, for a tick of a meter has a thousand charges
}

// bookMark is a mark, and whether it has moved.
type bookMark struct {
	Mark
	dirty bool
}

type dirty struct {
	accounts map[access.UserID]bool
	grants   map[GrantID]access.UserID
	holds    map[HoldID]bool
}

// Facts are rows of a ledger.
type Facts struct {
	Accounts []Account
	Grants   []Grant // of those payers, with something left; of a grant's own id, with nothing left too
	Holds    []Hold  // those that are open, of those payers; of a hold's own id, closed ones too
	Held     []Held  // instead of open holds of those payers that no verb is about: their sums
	Marks    []Mark
	Entries  []Entry // with the ids that are about to be written, as far as they are there
}

// Held is what some holds of a payer reserve that are open and, by the clock
// of the book, have not expired. None of them is among [Facts.Holds].
type Held struct {
	Payer    access.UserID
	Estimate Micros // of all together
	Holds    int    // how many they are
}

// Changes is what a verb has changed, in a fixed order.
type Changes struct {
	Accounts []Account // to insert or replace
	Grants   []Grant   // to insert, or to replace the Remaining of
	Holds    []Hold    // to insert, or to replace State, Until and ClosedAt of
	Marks    []Mark    // to insert or replace
	Entries  []Entry   // to insert, with their postings
}

// NewBook returns an empty book. now is the ledger's clock, read once the locks are held.
func NewBook(now time.Time) *Book { return &Book{now: utc(now)} }

// put puts v into a map that is made when it is first needed: of a book's most stay empty.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// Add adds what the ledger has. What it does not have need not be added.
func (b *Book) Add(f Facts) {
	if n := len(f.Marks); n > 0 && len(b.marks)+len(b.entries) == 0 { // a tick of a meter has a thousand, and an entry comes of each
		b.marks, b.entries, b.changes.Entries = make(map[MarkKey]*bookMark, n), make(map[string]*Entry, n), slices.Grow(b.changes.Entries, n)
	}
	for _, a := range f.Accounts {
		put(&b.accounts, a.Payer, &a)
	}
	for _, g := range f.Grants {
		b.putGrant(g)
	}
	for _, h := range f.Holds {
		b.putHold(h)
	}
	for _, h := range f.Held {
		was := b.held[h.Payer]
		put(&b.held, h.Payer, Held{h.Payer, was.Estimate + h.Estimate, was.Holds + h.Holds})
	}
	marks := make([]bookMark, len(f.Marks))
	for i, m := range f.Marks {
		marks[i].Mark = m
		put(&b.marks, m.MarkKey, &marks[i])
	}
	for _, e := range f.Entries {
		put(&b.entries, e.ID, &e)
	}
}

// Changes is what the verbs have changed since the book was made.
func (b *Book) Changes() Changes {
	c := Changes{Entries: b.changes.Entries}
	for _, payer := range sorted(b.dirty.accounts) {
		c.Accounts = append(c.Accounts, *b.accounts[payer])
	}
	for _, id := range sorted(b.dirty.grants) {
		c.Grants = append(c.Grants, *b.grants[b.dirty.grants[id]][id])
	}
	for _, id := range sorted(b.dirty.holds) {
		c.Holds = append(c.Holds, *b.holds[id])
	}
	for _, m := range b.marks {
		if m.dirty {
			if c.Marks == nil {
				c.Marks = make([]Mark, 0, len(b.marks))
			}
			c.Marks = append(c.Marks, m.Mark)
		}
	}
	slices.SortFunc(c.Marks, func(a, b Mark) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), cmp.Compare(a.Meter, b.Meter))
	})
	return c
}

// sorted are the keys of m in their order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}

// Balance is how an account stands.
func (b *Book) Balance(payer access.UserID) Balance {
	out := Balance{Now: b.now, Account: Account{Payer: payer}}
	if a := b.accounts[payer]; a != nil {
		out.Account = *a
	}
	for _, g := range b.grants[payer] {
		if g.Remaining > 0 {
			out.Grants = append(out.Grants, *g)
		}
	}
	slices.SortFunc(out.Grants, BurnOrder)
	out.Standing = b.standing(payer, "")
	return out
}

// standing is how the account stands, without the hold that is about to go on.
func (b *Book) standing(payer access.UserID, without HoldID) Standing {
	s := Standing{Held: b.held[payer].Estimate, Holds: b.held[payer].Holds}
	if a := b.accounts[payer]; a != nil {
		s.Debt = a.Debt
		if a.Day >= day(b.now) { // a clock that was set back over a midnight is still in the later day
			s.Spent = a.Spent
		}
	}
	for _, g := range b.grants[payer] {
		if g.counts(b.now) {
			s.Available += g.Remaining
		}
	}
	for id := range b.open[payer] {
		if h := b.holds[id]; id != without && b.now.Before(h.Until) {
			s.Held += h.Estimate
			s.Holds++
		}
	}
	return s
}

func (b *Book) account(payer access.UserID) *Account {
	if b.accounts[payer] == nil {
		put(&b.accounts, payer, &Account{Payer: payer})
	}
	put(&b.dirty.accounts, payer, true)
	return b.accounts[payer]
}

func (b *Book) putGrant(g Grant) {
	if b.grants[g.Payer] == nil {
		put(&b.grants, g.Payer, map[GrantID]*Grant{})
	}
	b.grants[g.Payer][g.ID] = &g
}

func (b *Book) putHold(h Hold) {
	put(&b.holds, h.ID, &h)
	if h.State == HoldOpen {
		if b.open[h.Payer] == nil {
			put(&b.open, h.Payer, map[HoldID]bool{})
		}
		b.open[h.Payer][h.ID] = true
	} else {
		delete(b.open[h.Payer], h.ID)
	}
}

// write writes a hold.
func (b *Book) write(h Hold) {
	b.putHold(h)
	put(&b.dirty.holds, h.ID, true)
}

// enter writes an entry into the book of its payer.
func (b *Book) enter(e Entry) {
	a := b.account(e.Payer)
	a.Entries++
	e.N, e.PostedAt = a.Entries, b.now
	b.changes.Entries = append(b.changes.Entries, e)
	put(&b.entries, e.ID, &b.changes.Entries[len(b.changes.Entries)-1])
}

func field(name, rule string) error { return &access.FieldError{Field: name, Rule: rule} }

func (u Use) check() error {
	for _, id := range []struct{ field, value string }{
		{"Meter", string(u.Meter)}, {"Resource", u.Resource}, {"Payer", string(u.Payer)},
	} {
		if err := access.CheckID(id.field, id.value); err != nil {
			return err
		}
	}
	for _, id := range []struct{ field, value string }{
		{"Class", string(u.Class)}, {"Session", string(u.Session)}, {"Project", string(u.Project)},
	} {
		if err := access.CheckOptionalID(id.field, id.value); err != nil {
			return err
		}
	}
	if strings.Contains(string(u.Meter), "/") {
		return field("Meter", "must not hold a slash") // it would make two charges one, see UsageID
	}
	return nil
}

// Hold is [Ledger.Hold].
func (b *Book) Hold(r HoldRequest) (Hold, error) {
	if err := access.CheckID("ID", r.ID); err != nil {
		return Hold{}, err
	}
	if err := r.Use.check(); err != nil {
		return Hold{}, err
	}
	switch {
	case r.TTL <= 0:
		return Hold{}, field("TTL", "must be over 0")
	case r.Terms.Estimate < 0:
		return Hold{}, field("Terms", "must have an estimate of at least 0")
	}
	if was := b.holds[r.ID]; was != nil {
		if was.Use != r.Use || was.Estimate != r.Terms.Estimate {
			return Hold{}, fmt.Errorf("%w: hold %s", ErrConflict, r.ID)
		}
		return *was, nil
	}
	if d := Admit(b.standing(r.Payer, ""), r.Terms); !d.Allow {
		return Hold{}, &RefusedError{Payer: r.Payer, Decision: d}
	}
	h := Hold{
		ID: r.ID, Use: r.Use, Estimate: r.Terms.Estimate, State: HoldOpen,
		OpenedAt: b.now, Until: b.now.Add(r.TTL).Truncate(time.Microsecond),
	}
	b.account(r.Payer)
	b.write(h)
	return h, nil
}

// Release is [Ledger.Release].
func (b *Book) Release(id HoldID) (Hold, error) {
	was := b.holds[id]
	switch {
	case was == nil:
		return Hold{}, fmt.Errorf("%w: hold %s", ErrNotFound, id)
	case was.State == HoldSettled:
		return *was, fmt.Errorf("%w: hold %s", ErrClosed, id)
	case was.State != HoldOpen:
		return *was, nil
	}
	h := *was
	h.State, h.ClosedAt = HoldReleased, b.now
	b.write(h)
	return h, nil
}
