package billing

import (
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Account is what a ledger keeps of one payer, besides its grants and holds.
type Account struct {
	Payer   access.UserID
	Debt    Micros // charged and covered by no grant; at least 0
	Day     int64  // the latest day of UTC, counted from 1970, on which something was charged
	Spent   Micros // charged on Day
	Entries int64  // how many entries its book has
}

// HoldID identifies a hold. Callers make it, so that a repeated call is the same call.
type HoldID string

// HoldState is the state of a hold. All but the first are final.
type HoldState uint8

// The states.
const (
	HoldOpen     HoldState = iota + 1
	HoldSettled            // the work is over and accounted for
	HoldReleased           // the work never began
	HoldExpired            // it was not renewed in time; what was used may still be posted
)

func (s HoldState) String() string {
	if s > HoldExpired {
		s = 0
	}
	return [...]string{"none", "open", "settled", "released", "expired"}[s]
}

// Use is what something is used for and by whom. It is part of holds, of
// entries and of meter events, and none of them says more: no agent, no page, no surface.
type Use struct {
	Meter    Meter
	Class    Class
	Resource string // what is metered: the work's id, the sandbox's id
	Payer    access.UserID
	Session  access.SessionID // empty: of an environment
	Project  access.ProjectID // empty = personal
}

// Hold reserves an account's credit for work that is under way. It does not
// decide whether what is used is charged: everything is.
type Hold struct {
	ID HoldID
	Use
	Estimate Micros
	State    HoldState
	OpenedAt time.Time
	Until    time.Time // when it expires unless it is renewed
	ClosedAt time.Time // zero = open
}

// MarkKey names a watermark.
type MarkKey struct {
	Resource string
	Meter    Meter
}

// Mark is a watermark: how far a resource's meter has been posted. It only
// ever moves on, from where it was, and what is posted begins there. It belongs to the ledger.
type Mark struct {
	MarkKey
	Through time.Time // zero = nothing was posted yet
	Total   int64     // quantity, of all that was posted
	Left    Remainder // of a micro
	Closed  bool      // nothing more will be posted
	// Of is what was used by the latest span, or where none has a length by the first: who pays for what
	// comes, and at which price, where no hold says so. Zero: only a program that did not note it has posted.
	Of Use
}

// EntryKind says what an entry is.
type EntryKind string

// The kinds.
const (
	EntryUsage  EntryKind = "usage"  // something was used; it is a meter event too
	EntryGrant  EntryKind = "grant"  // credit was given
	EntryExpiry EntryKind = "expiry" // what was left of a grant expired
)

// Entry is one line of an account's book. It is never changed. Its postings sum to zero.
type Entry struct {
	ID     string // of usage as [UsageID] makes it, else the grant's
	N      int64  // its place in the book of its payer, from 1, without gaps
	Kind   EntryKind
	Payer  access.UserID
	Amount Micros // charged or granted or expired; at least 0
	// PostedAt is when it was written, on the ledger's clock.
	PostedAt time.Time

	// Of usage: what, how much, over which half-open span, at what price.
	Use      Use
	From, To time.Time
	Quantity int64
	Rate     Rate
	Carried  Remainder // from the charge before: Amount is what Rate.Charge makes of it and Quantity

	Grant    GrantID // of the other kinds
	Postings []Posting
}

// about reports whether a posting of the entry to that account is of its whole Amount.
func (e Entry) about(account string) bool {
	switch e.Kind {
	case EntryUsage:
		return account == revenueAccount(e.Use.Meter)
	case EntryGrant:
		return strings.HasPrefix(account, sourceAccount(""))
	}
	return account == expiredAccount
}

// Posting is one side of an entry: Amount goes to Account, or from it where it is negative.
type Posting struct {
	Account string
	Amount  Micros
}

// The accounts that postings name.
func grantAccount(id GrantID) string         { return "grant:" + string(id) }
func debtAccount(payer access.UserID) string { return "debt:" + string(payer) }
func revenueAccount(m Meter) string          { return "revenue:" + string(m) }
func sourceAccount(source string) string     { return "source:" + source }

const expiredAccount = "expired"

// UsageID is the id of the charge, and of the meter event, for what a resource
// used from that time on. The same span always has the same id.
func UsageID(k MarkKey, from time.Time) string {
	return "usage/" + string(k.Meter) + "/" + k.Resource + "/" + strconv.FormatInt(from.UnixMicro(), 10)
}

// day is the day of UTC that t is in, counted from 1970.
func day(t time.Time) int64 {
	const micros = 24 * 60 * 60 * 1_000_000
	at := t.UnixMicro()
	if at < 0 {
		return (at+1)/micros - 1
	}
	return at / micros
}
