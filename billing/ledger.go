package billing

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Ledger keeps accounts: what they were given, what they hold, what they used
// and what of it was charged. Every rule is in [Book]; a ledger loads what a
// book needs, under a lock on the payer, lets it decide and writes what has
// changed, all in one transaction. Its own clock dates everything.
//
// Whatever can be repeated has an id that the caller makes: the same id with
// the same content is done once, with other content it is ErrConflict. A call whose
// reply was lost (ErrUnknown) is therefore just called again.
//
// All methods may be called concurrently, from many processes. Errors other
// than those named are the database's own; then nothing was written.
type Ledger interface {
	// Hold admits work: it asks [Admit] and reserves r.Terms.Estimate, in one
	// transaction, so that of many callers with credit for one, one is let in.
	// *RefusedError: it does not. An account that is not there yet has nothing.
	// The hold that was made with that id before is returned as it is now, whatever its state.
	Hold(ctx context.Context, r HoldRequest) (Hold, error)

	// Post writes usages, at most [MaxPosts], each with its charge and its
	// watermark, and renews or closes its hold. All are written in one
	// transaction, but for those whose Posted has an Err: of those nothing is.
	// The answers have the order of the posts.
	Post(ctx context.Context, posts ...Post) ([]Posted, error)

	// Release closes an open hold whose work never began. Twice succeeds, and so
	// does releasing one that has expired. ErrNotFound, which is as good; ErrClosed: it was settled.
	Release(ctx context.Context, id HoldID) (Hold, error)

	// Grant gives credit. Twice with one id is once, also where it has expired since.
	Grant(ctx context.Context, g Grant) (Grant, error)

	// Balance is how an account stands, with its grants that have something
	// left, in the order in which they are spent. An account that is not there is empty.
	Balance(ctx context.Context, payer access.UserID) (Balance, error)

	// Statement reads a page of an account's book, in its order.
	Statement(ctx context.Context, q StatementQuery) (StatementPage, error)

	// Payers reads a page of who has an account, in the order of their ids, at most [MaxPosts]. Empty: that was all.
	Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error)

	// Marks are the watermarks of keys, in their order, at most [MaxPosts]. One that is not there has only its key.
	Marks(ctx context.Context, keys []MarkKey) ([]Mark, error)

	// Holds lists the holds on a resource, whatever their state, the oldest first.
	Holds(ctx context.Context, resource string) ([]Hold, error)

	// Unexported lists usage entries that were not marked as exported, oldest first, at most limit.
	Unexported(ctx context.Context, limit int) ([]Entry, error)

	// Exported marks usage entries as exported, at most [MaxPosts]. Twice succeeds.
	Exported(ctx context.Context, ids []string) error

	// Expire closes holds that have expired, and takes back what is left of
	// grants that expired longer than lateness ago, at most limit of each. Until
	// then they pay what was used before they expired. What it does it does once.
	Expire(ctx context.Context, lateness time.Duration, limit int) (ExpireReport, error)
}

// MaxPosts is the most that is posted, or asked for, at once.
const MaxPosts = 1000

// HoldRequest asks to start work.
type HoldRequest struct {
	ID HoldID
	Use
	Terms Terms
	TTL   time.Duration // over 0
}

// Post is a span of use that was not accounted for before.
type Post struct {
	Use
	// From and To are the span, half-open. From is the watermark as it is, or
	// anything where there is none yet. A span of no length posts no entry: it sets
	// the first watermark, says that work has begun, or renews and closes holds.
	From, To time.Time
	Quantity int64 // at least 0; 0 where the span has no length
	Rate     Rate
	// Hold is the hold that this belongs to; empty = none. It reserves, and does not decide: what was used is
	// posted also where the hold has expired. ErrClosed where it was settled or released.
	Hold HoldID
	// Renew, over 0, prolongs the open hold by that from now, if [Admit] with
	// Terms allows it, however much is in flight: it was let in already. If not, the span is posted all the same, the hold runs out, and Posted says why.
	Renew time.Duration
	Terms Terms
	// Last settles the hold, and closes the meter: nothing can be posted to it any more.
	Last bool
}

// Key is the watermark that the post moves.
func (p Post) Key() MarkKey { return MarkKey{p.Resource, p.Meter} }

// Posted is what became of a post.
type Posted struct {
	// Err is *access.FieldError, *MarkError, ErrConflict, ErrClosed, ErrNotFound (the
	// hold), *OverflowError. Then nothing of the post was written.
	Err error
	// Repeated: it had been posted before, and was not again.
	Repeated bool
	Charged  Micros // by this post or, if repeated, back then
	Hold     Hold   // as it is now; zero = none
	// Refused is why the hold may not go on; nil if it may, or was not asked to.
	Refused *RefusedError
}

// Balance is how an account stands.
type Balance struct {
	Now     time.Time // on the ledger's clock
	Account Account
	Standing
	Grants []Grant // with something left, also those that count only later
}

// StatementQuery asks for a page of an account's book.
type StatementQuery struct {
	Payer access.UserID
	After int64 // the N of the entry before the first; 0 = from the beginning
	Limit int   // 1 to MaxPosts
}

// StatementPage is a page of an account's book.
type StatementPage struct {
	Items []Entry
	Next  int64 // for StatementQuery.After; 0 = this is the last page
}

// ExpireReport says what was closed and taken back.
type ExpireReport struct {
	Holds  int
	Grants int
	Amount Micros // taken back
	Capped bool   // there may be more
}
