package billing

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Intent is work that would like to start.
type Intent struct {
	ID      HoldID
	Work    string           // the id of the work: what is metered
	Payer   access.UserID    // the account charged
	Plan    access.Plan      // the payer's, in the host's words
	Session access.SessionID // where it happens
	Project access.ProjectID // the session's; empty = personal
	Meter   Meter            // what will be used, such as MeterRuntime
	Class   Class            // the size of the machine
	TTL     time.Duration    // how long the hold shall last at first, unless it is renewed
}

func (in Intent) use() Use {
	return Use{Meter: in.Meter, Class: in.Class, Resource: in.Work, Payer: in.Payer, Session: in.Session, Project: in.Project}
}

// Ticket is an admission. Its holder passes back the one it got last, unchanged.
type Ticket struct {
	Intent Intent // its ID is that of the latest hold
	Free   bool   // nothing is charged for this
	// Unheld: the account could not be asked, and the host has work go on
	// then. It is charged all the same as soon as that can be done.
	Unheld bool
	// Grace is set together with an error only: the host lets the work go on
	// as if its hold had been renewed.
	Grace bool
	Until time.Time // when the hold expires; zero = never
}

// Usage is a span of use, half-open, that has not been accounted for before.
// One without length says that the work begins now.
type Usage struct {
	From, To time.Time
	Last     bool // the work is over: the hold ends with this
	// TTL is how long the hold shall last from now on, unless Last; 0 = as long as at first.
	TTL time.Duration
}

// Abandoned is a work whose process has died, or has not been heard of for too long.
type Abandoned struct {
	Work  string
	Meter Meter
	// Through is up to when it is charged: as long as it was surely at work, and one interval.
	Through time.Time
}

// Gate admits work and accounts for it. The calls of one work are made
// by one goroutine at a time; those of different works concurrently.
type Gate interface {
	// Admit asks whether the work may start and reserves for it. A
	// [*RefusedError] is a no; any other error means it could not be found
	// out, and the work does not start. The same Intent.ID twice is one admission.
	Admit(ctx context.Context, in Intent) (Ticket, error)
	// Settle accounts for a span of use, also after the ticket has expired,
	// and unless u.Last renews the hold. The same span twice is accounted for
	// once. A [*RefusedError] means the span is accounted for and there is nothing left to go on;
	// of [RefusedClosed] that it was not, and is not to be: somebody else has closed the account of the work.
	// With any other error it may or may not be accounted for, and is to be settled again just
	// as it was; the ticket that is returned replaces the old one all the same.
	Settle(ctx context.Context, t Ticket, u Usage) (Ticket, error)
	// Release gives an admission back whose work never began. Twice succeeds.
	Release(ctx context.Context, t Ticket) error
	// Abandon accounts for what is left of a work whose process can't do it,
	// and ends its holds; of one that never began nothing is charged. Twice is
	// once, and the process itself, should it come back, accounts for nothing more; only of what was
	// never heard to have begun it may still say, as a whole, that it is over.
	Abandon(ctx context.Context, a Abandoned) error
}

// Sweeper is a [Gate] that leaves something to be cleared away.
type Sweeper interface {
	// Sweep ends the holds nobody renewed and the grants that have expired.
	// Several may run at once, and it may be cut short anywhere: the next one goes on from there.
	Sweep(ctx context.Context) error
}

// Asker is a [Gate] that says whether work would start, and reserves nothing; see [Ask].
type Asker interface {
	// Ask asks of in what Admit would: nil is a yes, as things stand now, a [*RefusedError] a no, and any
	// other error means that it could not be found out. Where in has no Meter, nothing is asked but
	// whether the account may start something. A gate that wraps one which can't say this answers errors.ErrUnsupported.
	Ask(ctx context.Context, in Intent) error
}

// Ask asks whether the work would start now. It is for what only waits for its turn, and
// so may not keep others from starting. Nothing is promised by it: when the work starts, it is admitted or refused.
// A gate that is no [Asker] admits it, for as long as in.TTL says at most, and has it released at once.
func Ask(ctx context.Context, g Gate, in Intent) error {
	if a, ok := g.(Asker); ok {
		if err := a.Ask(ctx, in); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	t, err := g.Admit(ctx, in)
	switch {
	case errors.As(err, new(*RefusedError)):
		return err
	case err != nil: // it may have been placed all the same
		t = Ticket{Intent: in}
	}
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), askCleanup)
	defer cancel()
	_ = g.Release(giving, t) // what is not given back expires
	return err
}

// askCleanup is how long giving back what a question has reserved may take.
const askCleanup = 10 * time.Second

// Free is a [Gate] that admits everything and charges nothing.
type Free struct{}

var (
	_ Gate  = Free{}
	_ Asker = Free{}
)

// Admit admits.
func (Free) Admit(_ context.Context, in Intent) (Ticket, error) {
	return Ticket{Intent: in, Free: true}, nil
}

// Ask says yes.
func (Free) Ask(context.Context, Intent) error { return nil }

// Settle accounts for nothing.
func (Free) Settle(_ context.Context, t Ticket, _ Usage) (Ticket, error) { return t, nil }

// Release does nothing.
func (Free) Release(context.Context, Ticket) error { return nil }

// Abandon does nothing.
func (Free) Abandon(context.Context, Abandoned) error { return nil }
