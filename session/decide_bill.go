package session

import (
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// bill is the money of one work: what has been charged, for how long more may
// be used, and what is to be said to the gate next. It asks nobody: whoever
// has it now, the heartbeat, Close or the Keeper, says what has happened and
// what was answered. All deadlines are on the local clock, measured from before
// they were asked for; all spans on the clock of charges, which is the store's
// from when work began, and no step of that changes it later.
//
// It begins once, stops once, and is over once: when the last span is accounted
// for, or somebody else has closed the account. Whatever goes wrong in between, the next
// thing to say is always one that brings it there.
type bill struct {
	ttl     time.Duration // how long a hold shall last from when it is renewed
	ticket  billing.Ticket
	until   time.Time      // of the hold, on the local clock; zero = it lasts until it is given back
	clock   storeClock     // of charges; zero = work has not begun
	billed  time.Time      // accounted for up to here, on the clock of charges
	stopped time.Time      // when the work was told to stop, on the local clock; zero = it goes on
	unsure  *billing.Usage // said, and the outcome is not known
	noted   bool           // the gate knows that work has begun
	failing bool           // the last try has come to nothing
	over    bool
}

// admitted notes a ticket whose hold was asked for at that local time, to last for ttl.
func (b *bill) admitted(t billing.Ticket, asked time.Time, ttl time.Duration) {
	b.ticket = t
	b.holds(asked, ttl)
}

// holds notes that the hold was placed or renewed, asked for at that local time.
func (b *bill) holds(asked time.Time, ttl time.Duration) {
	b.until = time.Time{}
	if t := b.ticket; !t.Free && (t.Unheld || !t.Until.IsZero()) { // else it lasts until it is given back
		b.until = asked.Add(ttl)
	}
}

// begins notes that work begins at that local time, which is that one on the store's clock.
func (b *bill) begins(local, store time.Time) {
	b.clock = storeClock{store: store, local: local}
	b.billed = store
}

func (b *bill) begun() bool { return !b.clock.local.IsZero() }

// stops notes when the work was told to stop: what it was told first counts.
func (b *bill) stops(at time.Time) {
	if b.stopped.IsZero() {
		b.stopped = at
	}
}

// took is the time accounted for.
func (b *bill) took() time.Duration { return b.billed.Sub(b.clock.store) }

// used is up to when the work is charged at a local time, on the clock of
// charges: not beyond the moment it was told to stop, nor beyond what its lease
// vouches for, as of a process that was asleep for longer. It never runs back.
func (b *bill) used(now, vouched time.Time) time.Time {
	at := earlier(now, vouched)
	if !b.stopped.IsZero() {
		at = earlier(at, b.stopped)
	}
	return later(b.billed, b.clock.at(at))
}

// due reports whether something is to be said at a local time, where the next
// chance comes pause later: that work begins or has stopped, what could not be
// said the last time, or what was used, so that the hold is renewed three times in its life.
func (b *bill) due(now, vouched time.Time, pause time.Duration) bool {
	switch {
	case !b.begun() || b.over:
		return false
	case b.failing || !b.noted || !b.stopped.IsZero():
		return true
	}
	return b.used(now, vouched).Sub(b.billed)+pause >= b.ttl/3
}

// next is what to say. What may have been heard is said again just as it was:
// only the same span is accounted for once. Nothing: there is nothing to say.
func (b *bill) next(now, vouched time.Time) (u billing.Usage, ok bool) {
	switch {
	case !b.begun() || b.over:
		return billing.Usage{}, false
	case b.unsure != nil:
		return *b.unsure, true
	}
	u = billing.Usage{From: b.billed, To: b.used(now, vouched), Last: !b.stopped.IsZero(), TTL: b.ttl}
	if !u.Last && !b.noted {
		u.To = u.From // that it begins is said first
	}
	return u, u.Last || !b.noted || u.To.After(u.From)
}

// answered notes what came of u, said at that local time, and reports whether
// there is more to say at once: the rest, where u was not the end of it.
func (b *bill) answered(u billing.Usage, asked time.Time, t billing.Ticket, err error) (more bool) {
	again := b.unsure != nil
	if err == nil || t.Intent.ID != "" { // a gate that never answered has no say
		b.ticket = t
		if err == nil && !u.Last || err != nil && t.Grace {
			b.holds(asked, b.ttl)
		}
	}
	refused, no := errors.AsType[*billing.RefusedError](err)
	switch closed := no && refused.Decision.Reason == billing.RefusedClosed; {
	case closed: // by somebody else: u was not accounted for. What has stopped is over; else that is said next
		b.unsure, b.failing, b.over = nil, false, u.Last
	case err == nil || no:
		b.billed, b.noted, b.unsure, b.failing, b.over = u.To, true, nil, false, u.Last
	default:
		b.failing = true
		if u.Last || u.To.After(u.From) {
			b.unsure = &u
		}
		return false
	}
	return !b.over && (!b.stopped.IsZero() || again && !no)
}

// deadline is when the work must stop unless its hold is renewed, if that is so, on the local clock.
func (b *bill) deadline(grace time.Duration) (at time.Time, ends bool) {
	if !b.begun() || b.over || b.until.IsZero() {
		return time.Time{}, false
	}
	return b.until.Add(-2 * grace), true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
