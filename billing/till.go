package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// TillConfig is what a [Till] needs.
type TillConfig struct {
	Ledger Ledger // required
	// Tariffs is the price list. What has no price does not start.
	Tariffs Tariffs
	// Terms are those of a plan, asked anew for every decision. Required.
	Terms func(access.Plan) Terms
	// OnFault says what becomes of work where the ledger can't be asked, by
	// operation. nil: it fails closed.
	OnFault func(Operation) FaultPolicy
	// Lateness is how long after a grant has expired [Till.Sweep] takes back
	// what is left of it: what was used before may be posted until then. 0 = 24 hours.
	Lateness time.Duration
}

// Operation is what a [Till] may be unable to do.
type Operation uint8

// The operations.
const (
	OpAdmit Operation = iota + 1 // to let work start
	OpRenew                      // to let it go on
)

// FaultPolicy is what becomes of work where the ledger can't be asked.
type FaultPolicy uint8

// The policies. The zero value is the safe one.
const (
	// FailClosed: no work starts, and what runs stops before its hold expires.
	FailClosed FaultPolicy = iota
	// FailOpen: work starts and goes on, its ticket says Unheld, and it is charged once the ledger
	// can be asked again, also where it is over by then: its own process goes on trying. Where its hold
	// has run out meanwhile it needs another. Of what was let in without a hold, and whose process dies
	// before anything was posted, nothing is charged: that it began is known to nobody.
	FailOpen
)

// Till is the [Gate] to a [Ledger]: it reserves before work starts, and
// charges what the work uses by a price list. All methods may be called concurrently.
type Till struct {
	ledger  Ledger
	tariffs Tariffs
	terms   func(access.Plan) Terms
	onFault func(Operation) FaultPolicy
	late    time.Duration
}

var (
	_ Gate    = (*Till)(nil)
	_ Sweeper = (*Till)(nil)
)

// NewTill checks c. A *access.FieldError names the field. A till is made anew
// with another price list, and all its lines must still be there for which work runs; see [Tariffs].
func NewTill(c TillConfig) (*Till, error) {
	switch {
	case c.Ledger == nil:
		return nil, field("Ledger", "must be set")
	case c.Terms == nil:
		return nil, field("Terms", "must be set")
	case c.Lateness < 0:
		return nil, field("Lateness", "must not be negative")
	}
	if c.OnFault == nil {
		c.OnFault = func(Operation) FaultPolicy { return FailClosed }
	}
	return &Till{ledger: c.Ledger, tariffs: c.Tariffs, terms: c.Terms, onFault: c.OnFault, late: cmp.Or(c.Lateness, 24*time.Hour)}, nil
}

// Admit places a hold.
func (g *Till) Admit(ctx context.Context, in Intent) (Ticket, error) {
	if _, err := g.tariffs.Rate(in.Meter, in.Class); err != nil {
		return Ticket{}, err
	}
	t, err := g.hold(ctx, in, in.TTL)
	if isFault(err) && g.onFault(OpAdmit) == FailOpen {
		return Ticket{Intent: in, Unheld: true}, nil
	}
	return t, err
}

func (g *Till) hold(ctx context.Context, in Intent, ttl time.Duration) (Ticket, error) {
	h, err := g.ledger.Hold(ctx, HoldRequest{ID: in.ID, Use: in.use(), Terms: g.terms(in.Plan), TTL: ttl})
	switch {
	case err != nil:
		return Ticket{}, err
	case h.State != HoldOpen:
		return Ticket{}, fmt.Errorf("%w: hold %s is %v", ErrClosed, h.ID, h.State)
	}
	return Ticket{Intent: in, Until: h.Until}, nil
}

// isFault reports whether err says nothing about the account: the ledger could
// not be asked. Whatever is not an answer that this package knows is the database's own, whatever its
// public sentence: also that somebody else has changed the same rows once too often.
func isFault(err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict), errors.Is(err, ErrClosed),
		errors.As(err, new(*RefusedError)), errors.As(err, new(*MarkError)), errors.As(err, new(*OverflowError)),
		errors.As(err, new(*NoTariffError)), errors.As(err, new(*access.FieldError)):
		return false
	}
	return true
}

// settleAttempts is how often a span is begun anew where somebody else has posted a part of it.
const settleAttempts = 5

// Settle charges a span. Where a part of it has been posted by somebody else,
// the rest is.
func (g *Till) Settle(ctx context.Context, t Ticket, u Usage) (Ticket, error) {
	t.Grace = false
	t, err := g.settle(ctx, t, u)
	if isFault(err) && !u.Last && g.onFault(OpRenew) == FailOpen {
		t.Unheld, t.Grace = true, true
		if !t.Until.IsZero() {
			t.Until = later(t.Until, u.To.Add(u.ttl(t)))
		}
	}
	return t, err
}

func (g *Till) settle(ctx context.Context, t Ticket, u Usage) (Ticket, error) {
	rate, err := g.tariffs.Rate(t.Intent.Meter, t.Intent.Class)
	if err != nil {
		return t, err
	}
	terms := g.terms(t.Intent.Plan)
	held := !t.Until.IsZero()
	for n := 1; ; n++ {
		p := Post{
			Use: t.Intent.use(), From: u.From, To: u.To, Quantity: quantity(u), Rate: rate, Terms: terms, Last: u.Last,
		}
		if held {
			p.Hold = t.Intent.ID
		}
		if held && !u.Last {
			p.Renew = u.ttl(t)
		}
		out, err := g.post(ctx, p)
		var mark *MarkError
		switch {
		case errors.As(err, &mark) && n < settleAttempts && mark.Through.After(u.From):
			u.From = mark.Through
			u.To = later(u.To, u.From)
			continue
		case errors.Is(err, ErrClosed) && held && u.Last:
			// Taken for one that never began, its hold was given back. What it took is charged without one,
			// unless it is its account that was closed.
			held = false
			continue
		case errors.Is(err, ErrClosed): // somebody else has closed the account of this work
			return t, &RefusedError{Payer: t.Intent.Payer, Decision: AdmitDecision{Reason: RefusedClosed}}
		case err != nil:
			return t, err
		case out.Refused != nil && out.Refused.Decision.Reason == RefusedHoldEnded && t.Unheld:
			// the hold ran out while the ledger could not be asked: another is
		case out.Refused != nil:
			return t, out.Refused
		case held && !u.Last && out.Hold.State != HoldOpen: // it was accounted for before, and somebody else has closed it since
			return t, &RefusedError{Payer: t.Intent.Payer, Decision: AdmitDecision{Reason: RefusedHoldEnded}}
		case held && !u.Last:
			t.Until, t.Unheld = out.Hold.Until, false
			return t, nil
		case u.Last || t.Free:
			return t, nil
		}
		return g.holdNow(ctx, t, u)
	}
}

// holdNow places a hold for work that went on without one while the ledger
// could not be asked. What has ended since is not opened again, and what was asked for at other terms
// is not asked for anew: the next hold has an id of its own. With an error the span is posted, and
// settling it again places the hold.
func (g *Till) holdNow(ctx context.Context, t Ticket, u Usage) (Ticket, error) {
	in := t.Intent
	for n := range settleAttempts {
		held, err := g.hold(ctx, in, u.ttl(t))
		switch {
		case errors.Is(err, ErrClosed), errors.Is(err, ErrConflict), n == 0 && err == nil && !held.Until.After(u.To):
			in.ID += "+"
			continue
		case err != nil:
			return t, err
		}
		return held, nil
	}
	return t, &RefusedError{Payer: in.Payer, Decision: AdmitDecision{Reason: RefusedHoldEnded}}
}

func (g *Till) post(ctx context.Context, p Post) (Posted, error) {
	out, err := g.ledger.Post(ctx, p)
	if err != nil {
		return Posted{}, err
	}
	return out[0], out[0].Err
}

// ttl is how long the hold of t shall last from now on.
func (u Usage) ttl(t Ticket) time.Duration { return cmp.Or(u.TTL, t.Intent.TTL) }

// quantity is the quantity of a span: its length in microseconds.
func quantity(u Usage) int64 { return utc(u.To).Sub(utc(u.From)).Microseconds() }

// Release releases the hold.
func (g *Till) Release(ctx context.Context, t Ticket) error {
	if t.Free {
		return nil
	}
	_, err := g.ledger.Release(ctx, t.Intent.ID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Sweep closes the holds nobody renewed, and takes back what is left of
// grants that have expired, TillConfig.Lateness later.
func (g *Till) Sweep(ctx context.Context) error {
	for {
		rep, err := g.ledger.Expire(ctx, g.late, MaxPosts)
		if err != nil || !rep.Capped || rep.Holds+rep.Grants == 0 { // nothing done and more to do: somebody else is at it
			return err
		}
	}
}
