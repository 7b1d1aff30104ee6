package billing

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// HoldID identifies a hold. Callers make it, so that a repeated call is the same call.
type HoldID string

// MeterRuntime is the meter of the time a session's sandbox is worked in.
const MeterRuntime = "runtime"

// Intent is work that would like to start.
type Intent struct {
	ID      HoldID
	Payer   access.UserID // the account charged
	Session access.SessionID
	Meter   string        // what will be used, such as MeterRuntime
	TTL     time.Duration // how long the hold shall last unless it is renewed
}

// Ticket is an admission. Its holder passes it back unchanged.
type Ticket struct {
	Hold  HoldID
	Free  bool      // nothing is charged for this
	Until time.Time // when the hold expires; zero = never
}

// Usage is a span of use, half-open, that has not been accounted for before.
type Usage struct {
	From, To time.Time
	Last     bool // the work is over: the hold ends with this
}

// Gate admits work and accounts for it. The three calls of one work are made
// by one goroutine at a time; those of different works concurrently.
type Gate interface {
	// Admit asks whether the work may start and reserves for it. A
	// [*RefusedError] is a no; any other error means it could not be found
	// out, and the work does not start. The same Intent.ID twice is one admission.
	Admit(ctx context.Context, in Intent) (Ticket, error)
	// Settle accounts for a span of use, also after the ticket has expired,
	// and unless u.Last renews the hold. The same span twice is accounted for
	// once. A [*RefusedError] means the span is accounted for and there is nothing left to go on.
	Settle(ctx context.Context, t Ticket, u Usage) (Ticket, error)
	// Release gives an admission back whose work never began. Twice succeeds.
	Release(ctx context.Context, t Ticket) error
}

// RefusedError says that the payer's account does not allow the work.
type RefusedError struct {
	Payer  access.UserID
	Reason string // for logs, such as "out of credit"
}

func (e *RefusedError) Error() string {
	return "billing: refused: " + e.Reason + ": payer " + string(e.Payer)
}

// Problem is the same for every payer.
func (e *RefusedError) Problem() (status int, code, sentence string) {
	return 402, "payment_required", "There is not enough credit for this."
}

// Free is a [Gate] that admits everything and charges nothing.
type Free struct{}

var _ Gate = Free{}

// Admit admits.
func (Free) Admit(_ context.Context, in Intent) (Ticket, error) {
	return Ticket{Hold: in.ID, Free: true}, nil
}

// Settle accounts for nothing.
func (Free) Settle(_ context.Context, t Ticket, _ Usage) (Ticket, error) { return t, nil }

// Release does nothing.
func (Free) Release(context.Context, Ticket) error { return nil }
