package billing

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// The outcomes, wrapped with the subject; compare with errors.Is.
var (
	// ErrNotFound: there is no such hold.
	ErrNotFound = access.NewSentinel("billing: not found", 404, "not_found", "Not found.")
	// ErrConflict: the id was used before, for something else.
	ErrConflict = access.NewSentinel("billing: id used for something else", 409, "conflict", "This was asked for before, with other content.")
	// ErrClosed: the hold, or the meter, was closed; nothing more can be posted to it.
	ErrClosed = access.NewSentinel("billing: closed", 409, "closed", "This has been accounted for already.")
	// ErrUnknown: a reply was lost; it may have happened. Repeat the call with the same ids.
	ErrUnknown = access.NewSentinel("billing: outcome unknown", 503, "unknown_outcome", "It is not known whether this happened. Check before you try again.")
)

// RefusedError says that the payer's account does not allow the work.
type RefusedError struct {
	Payer    access.UserID
	Decision AdmitDecision // for logs
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("billing: refused: %v: payer %s (limit %d, remaining %d)", e.Decision.Reason, e.Payer, e.Decision.Limit, e.Decision.Remaining)
}

// Problem is the same for every payer and every reason but that of too much at once.
func (e *RefusedError) Problem() (status int, code, sentence string) {
	if e.Decision.Reason == RefusedInFlight {
		return 429, "work_limit", "As much is running as may run at once. Wait for something to end, or end it."
	}
	return 402, "payment_required", "There is not enough credit for this."
}

// MarkError says that a meter has been posted up to another time than the
// post begins at: somebody else has posted, or something was left out. Nothing was written.
type MarkError struct {
	MarkKey
	From    time.Time // where the post begins
	Through time.Time // where it must begin
}

func (e *MarkError) Error() string {
	return fmt.Sprintf("billing: %s of %s is posted through %v, not %v", e.Meter, e.Resource, e.Through, e.From)
}

// Problem is the same for every meter.
func (e *MarkError) Problem() (status int, code, sentence string) {
	return 409, "conflict", "Somebody else accounted for this at the same time. Try again."
}

// NoTariffError says that something has no price, and is therefore not to be used.
type NoTariffError struct {
	Meter Meter
	Class Class
}

func (e *NoTariffError) Error() string {
	return fmt.Sprintf("billing: no tariff for meter %q, class %q", e.Meter, e.Class)
}

// Problem is the same for every meter.
func (e *NoTariffError) Problem() (status int, code, sentence string) {
	return 503, "unavailable", "This can't be offered right now."
}

// OverflowError says that an amount or a quantity is more than can be told. Nothing was written.
type OverflowError struct{ What string }

func (e *OverflowError) Error() string { return "billing: too much: " + e.What }

// Problem is the same for every amount.
func (e *OverflowError) Problem() (status int, code, sentence string) {
	return 400, "out_of_range", "This is more than can be accounted for."
}
