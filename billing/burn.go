package billing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// GrantID identifies a grant. Callers make it, so that a repeated purchase is the same purchase.
type GrantID string

// Grant is credit that an account was given.
type Grant struct {
	ID       GrantID
	Payer    access.UserID
	Amount   Micros // at least 1
	Source   string // where it comes from, such as "monthly" or "top-up"; required
	Priority int    // the lowest is spent first
	// GrantedAt is from when it counts; zero = when it is posted. It pays for nothing that was used before.
	GrantedAt time.Time
	// ExpiresAt is from when it counts no more; zero = never. It still pays for what was used before.
	// What has expired already is not given.
	ExpiresAt time.Time
	// Repay has it pay what the account owes at once, if it counts when it is posted.
	Repay bool

	Remaining Micros // set by the ledger
}

// counts reports whether the grant pays for what was used at that time.
func (g Grant) counts(at time.Time) bool {
	return !g.GrantedAt.After(at) && (g.ExpiresAt.IsZero() || at.Before(g.ExpiresAt))
}

// Draw is a part of a charge that one grant pays.
type Draw struct {
	Grant  GrantID
	Amount Micros
}

// BurnOrder compares grants by which is spent first: by priority, then the
// one that expires earlier, then the older one, then by id. It is an order for slices.SortFunc.
func BurnOrder(a, b Grant) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), compareExpiry(a.ExpiresAt, b.ExpiresAt),
		a.GrantedAt.Compare(b.GrantedAt), strings.Compare(string(a.ID), string(b.ID)))
}

func compareExpiry(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(b2i(a.IsZero()), b2i(b.IsZero()))
	}
	return a.Compare(b)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Burn says which grants pay amount for something that was used at that time,
// and what none of them covers, which is owed. The order of grants makes no difference.
func Burn(grants []Grant, at time.Time, amount Micros) (draws []Draw, short Micros) {
	return burn(slices.Clone(grants), at, amount)
}

// burn is Burn of grants that it may put in order.
func burn(order []Grant, at time.Time, amount Micros) (draws []Draw, short Micros) {
	slices.SortFunc(order, BurnOrder)
	for _, g := range order {
		if amount <= 0 {
			break
		}
		if !g.counts(at) || g.Remaining <= 0 {
			continue
		}
		part := min(amount, g.Remaining)
		draws = append(draws, Draw{g.ID, part})
		amount -= part
	}
	return draws, max(amount, 0)
}
