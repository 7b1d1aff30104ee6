package billing

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
)

// Entries reads an account's book from the entry after that place on, a page
// at a time. An error ends it.
func Entries(ctx context.Context, l Ledger, payer access.UserID, after int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			page, err := l.Statement(ctx, StatementQuery{Payer: payer, After: after, Limit: MaxPosts})
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Items {
				if !yield(e, nil) {
					return
				}
			}
			if page.Next == 0 {
				return
			}
			after = page.Next
		}
	}
}

// Verification says what folding a book has come to.
type Verification struct {
	Payer   access.UserID
	Entries int64  // that were folded
	Charged Micros // the sum of what was charged
	// Faults are the differences between what the ledger says and its book, in
	// words for an operator. None = they agree.
	Faults []string
}

// Verify folds the book of an account and compares it with its balance: the
// postings of every entry sum to zero, places have no gap, every charge is what
// its quantity costs, spans of a meter are disjoint and none is past its watermark, grants have left what was
// not drawn, and what is owed is what no grant paid. (Another payer's book may
// have the spans in between, where a project has changed hands.) It may run at any
// time: what is posted meanwhile is left out. It reads the whole book, and remembers
// of each resource in it how far it came, some 200 bytes, until it is done.
func Verify(ctx context.Context, l Ledger, payer access.UserID) (Verification, error) {
	balance, err := l.Balance(ctx, payer)
	if err != nil {
		return Verification{}, err
	}
	f := fold{Verification: Verification{Payer: payer}, sums: map[string]Micros{}, marks: map[MarkKey]Mark{}}
	for e, err := range Entries(ctx, l, payer, 0) {
		if err != nil {
			return Verification{}, err
		}
		if e.N > balance.Account.Entries {
			break
		}
		f.entry(e)
	}
	if f.Entries != balance.Account.Entries {
		f.fault("the account has %d entries, the book %d", balance.Account.Entries, f.Entries)
	}
	f.compare(balance)
	return f.Verification, f.compareMarks(ctx, l)
}

// fold is a book under way.
type fold struct {
	Verification
	sums  map[string]Micros // by account
	marks map[MarkKey]Mark
}

func (f *fold) fault(format string, args ...any) {
	f.Faults = append(f.Faults, fmt.Sprintf(format, args...))
}

func (f *fold) entry(e Entry) {
	f.Entries++
	if e.N != f.Entries {
		f.fault("entry %s is at place %d, not %d", e.ID, e.N, f.Entries)
		f.Entries = e.N
	}
	var sum, told Micros
	for _, p := range e.Postings {
		sum += p.Amount
		f.sums[p.Account] += p.Amount
		if e.about(p.Account) {
			told += p.Amount
		}
	}
	if sum != 0 {
		f.fault("the postings of entry %s sum to %v", e.ID, sum)
	}
	if told != e.Amount && told != -e.Amount {
		f.fault("entry %s is about %v, and its postings about %v", e.ID, e.Amount, told)
	}
	if e.Kind != EntryUsage {
		return
	}
	f.Charged += e.Amount
	key := MarkKey{e.Use.Resource, e.Use.Meter}
	m, known := f.marks[key]
	switch {
	case !e.To.After(e.From):
		f.fault("the span of entry %s has no length", e.ID)
	case known && e.From.Before(m.Through):
		f.fault("entry %s begins at %v, before the one before it ended at %v", e.ID, e.From, m.Through)
	}
	if amount, _, err := e.Rate.Charge(e.Quantity, e.Carried); err != nil || amount != e.Amount {
		f.fault("entry %s charges %v for what costs %v", e.ID, e.Amount, amount)
	}
	m.MarkKey, m.Through, m.Total = key, e.To, m.Total+e.Quantity
	f.marks[key] = m
}

func (f *fold) compare(b Balance) {
	if owed := -f.sums[debtAccount(f.Payer)]; owed != b.Account.Debt {
		f.fault("the account owes %v, by its book %v", b.Account.Debt, owed)
	}
	left := map[string]Micros{}
	for _, g := range b.Grants {
		left[grantAccount(g.ID)] = g.Remaining
	}
	for _, account := range slices.Sorted(maps.Keys(f.sums)) {
		if strings.HasPrefix(account, grantAccount("")) && f.sums[account] != left[account] {
			f.fault("%s has %v left, by the book %v", account, left[account], f.sums[account])
		}
		delete(left, account)
	}
	for _, account := range slices.Sorted(maps.Keys(left)) {
		f.fault("%s has %v left, and the book does not know it", account, left[account])
	}
}

// compareMarks compares the watermarks, which may have moved on since.
func (f *fold) compareMarks(ctx context.Context, l Ledger) error {
	keys := slices.SortedFunc(maps.Keys(f.marks), func(a, b MarkKey) int {
		return strings.Compare(string(a.Meter)+" "+a.Resource, string(b.Meter)+" "+b.Resource)
	})
	for some := range slices.Chunk(keys, MaxPosts) {
		marks, err := l.Marks(ctx, some)
		if err != nil {
			return err
		}
		for _, m := range marks {
			if want := f.marks[m.MarkKey]; m.Through.Before(want.Through) || m.Total < want.Total {
				f.fault("%s of %s is posted through %v and %d, by the book through %v and %d", m.Meter, m.Resource, m.Through, m.Total, want.Through, want.Total)
			}
		}
	}
	return nil
}
