package billing

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Grant is [Ledger.Grant].
func (b *Book) Grant(g Grant) (Grant, error) {
	for _, id := range []struct{ field, value string }{{"ID", string(g.ID)}, {"Payer", string(g.Payer)}, {"Source", g.Source}} {
		if err := access.CheckID(id.field, id.value); err != nil {
			return Grant{}, err
		}
	}
	g.GrantedAt, g.ExpiresAt = utc(g.GrantedAt), utc(g.ExpiresAt)
	switch {
	case g.Amount < 1:
		return Grant{}, field("Amount", "must be at least 1")
	case !g.ExpiresAt.IsZero() && !g.ExpiresAt.After(later(g.GrantedAt, time.Time{})):
		return Grant{}, field("ExpiresAt", "must be after GrantedAt")
	}
	if was, ok := b.entries[GrantEntryID(g.ID)]; ok {
		return b.granted(g, *was)
	}
	if !g.ExpiresAt.IsZero() && !b.now.Before(g.ExpiresAt) {
		return Grant{}, field("ExpiresAt", "must not have passed")
	}
	if g.GrantedAt.IsZero() {
		g.GrantedAt = b.now
	}
	if _, ok := available(b.grants[g.Payer], g.Amount); !ok {
		return Grant{}, &OverflowError{What: "account"}
	}
	g.Remaining = g.Amount
	postings := []Posting{{sourceAccount(g.Source), -g.Amount}, {grantAccount(g.ID), g.Amount}}
	a := b.account(g.Payer)
	if repaid := min(a.Debt, g.Amount); g.Repay && g.counts(b.now) && repaid > 0 {
		a.Debt -= repaid
		g.Remaining -= repaid
		postings = append(postings, Posting{grantAccount(g.ID), -repaid}, Posting{debtAccount(g.Payer), repaid})
	}
	b.putGrant(g)
	put(&b.dirty.grants, g.ID, g.Payer)
	b.enter(Entry{ID: GrantEntryID(g.ID), Kind: EntryGrant, Payer: g.Payer, Amount: g.Amount, Grant: g.ID, Postings: postings})
	return g, nil
}

// GrantEntryID is the id of the entry by which a grant was given.
func GrantEntryID(id GrantID) string { return "grant/" + string(id) }

// ExpiryEntryID is the id of the entry by which what was left of a grant was taken back.
func ExpiryEntryID(id GrantID) string { return "expiry/" + string(id) }

// granted answers a grant whose id was used before.
func (b *Book) granted(g Grant, was Entry) (Grant, error) {
	is := b.grants[g.Payer][g.ID]
	if was.Payer != g.Payer || is == nil {
		return Grant{}, fmt.Errorf("%w: grant %s", ErrConflict, g.ID)
	}
	same := is.Amount == g.Amount && is.Source == g.Source && is.Priority == g.Priority && is.ExpiresAt.Equal(g.ExpiresAt) &&
		is.Repay == g.Repay && (g.GrantedAt.IsZero() || is.GrantedAt.Equal(g.GrantedAt))
	if !same {
		return Grant{}, fmt.Errorf("%w: grant %s", ErrConflict, g.ID)
	}
	return *is, nil
}

// available is what is left of all grants and more.
func available(grants map[GrantID]*Grant, sum Micros) (Micros, bool) {
	ok := true
	for _, g := range grants {
		if g.Remaining > 0 && ok {
			sum, ok = sum.plus(g.Remaining)
		}
	}
	return sum, ok
}

// Expire is [Ledger.Expire], for the payers of the book.
func (b *Book) Expire(lateness time.Duration) (rep ExpireReport) {
	lateness = max(lateness, 0)
	for _, id := range slices.Sorted(maps.Keys(b.holds)) {
		if h := *b.holds[id]; h.State == HoldOpen && !b.now.Before(h.Until) {
			h.State, h.ClosedAt = HoldExpired, b.now
			b.write(h)
			rep.Holds++
		}
	}
	for _, payer := range slices.Sorted(maps.Keys(b.grants)) {
		for _, id := range slices.Sorted(maps.Keys(b.grants[payer])) {
			g := b.grants[payer][id]
			if g.Remaining <= 0 || g.ExpiresAt.IsZero() || b.now.Before(g.ExpiresAt.Add(lateness)) {
				continue
			}
			rest := g.Remaining
			b.draw(payer, id, rest)
			b.enter(Entry{
				ID: ExpiryEntryID(id), Kind: EntryExpiry, Payer: payer, Amount: rest, Grant: id,
				Postings: []Posting{{grantAccount(id), -rest}, {expiredAccount, rest}},
			})
			rep.Grants++
			rep.Amount += rest
		}
	}
	return rep
}

// utc is t as ledgers keep it: in UTC, to the microsecond.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
