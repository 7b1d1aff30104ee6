package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
)

// beat renews the lease and accounts for the time used, three times in the
// life of a lease, and stops the work where it may not go on. It runs from
// the acquisition of the lease until the work is closed; time is accounted for
// from when work begins.
func (w *Work) beat() {
	defer close(w.beating)
	begun := false
	lease, grace := w.runner.lease, w.runner.grace()
	touched := time.Now()
	next := w.until.Add(-lease * 2 / 3)
	for {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-w.quit:
			timer.Stop()
			return
		case <-w.begins:
			timer.Stop()
			begun = true
			w.starts()
			continue
		case <-timer.C:
		}
		// A database that does not answer must not delay the stop below.
		stop, _ := w.latest(begun)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), min(lease/4, max(time.Until(stop), lease/12)))
		w.renew(ctx)
		if begun {
			w.account(ctx, grace)
			w.watch(ctx)
			if time.Since(touched) >= time.Minute {
				touched = time.Now()
				if err := w.runner.rows.store.Touch(ctx, Address{Session: w.session, Conversation: w.conversation}); err != nil {
					w.runner.log.WarnContext(ctx, "activity not noted", "session", w.session, "error", err)
				}
			}
		}
		cancel()
		// Where the lease could not be renewed the next try comes sooner, and
		// the work has stopped a grace before the lease is anybody else's.
		next = w.until.Add(-lease * 2 / 3)
		if now := time.Now(); !next.After(now) {
			next = now.Add(lease / 12)
		}
		stop, why := w.latest(begun)
		if now := time.Now(); !now.Before(stop) {
			w.stop(fmt.Errorf("%w: not renewed in time", why))
		} else if stop.Before(next) {
			next = stop
		}
	}
}

// latest is when the work must stop unless its lease and its hold are renewed, on the local clock, and why.
func (w *Work) latest(begun bool) (time.Time, error) {
	grace := w.runner.grace()
	stop, why := w.until.Add(-2*grace), error(ErrFenced)
	if begun && !w.ticket.Until.IsZero() {
		if held := time.Now().Add(w.ticket.Until.Sub(w.clock.now()) - 2*grace); held.Before(stop) {
			stop, why = held, ErrOutOfCredit
		}
	}
	return stop, why
}

func (w *Work) renew(ctx context.Context) {
	asked := time.Now()
	l, err := w.runner.leases.Renew(ctx, w.lease)
	switch {
	case err == nil:
		w.lease = l
		w.held(asked)
	case errors.Is(err, ErrFenced):
		w.stop(err)
	default:
		w.runner.log.WarnContext(ctx, "lease not renewed", "work", w.id, "session", w.session, "error", err)
	}
}

// account posts the time used since the last time, and renews the hold. What
// could not be posted is posted with the next beat, or when the work closes.
func (w *Work) account(ctx context.Context, grace time.Duration) {
	err := w.settle(ctx, false)
	var refused *billing.RefusedError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		w.stop(fmt.Errorf("%w: %w", ErrOutOfCredit, err))
	default:
		w.runner.log.WarnContext(ctx, "usage not accounted for", "work", w.id, "session", w.session, "error", err)
		if until := w.ticket.Until; !until.IsZero() && !w.clock.now().Before(until.Add(-2*grace)) {
			w.stop(fmt.Errorf("%w: hold not renewed in time: %w", ErrOutOfCredit, err))
		}
	}
}

// settle accounts for the time up to now. A span whose outcome is not known
// is posted again just as it was: only the same span is accounted for once.
func (w *Work) settle(ctx context.Context, last bool) error {
	var refused *billing.RefusedError
	if w.posted.After(w.billed) {
		err := w.post(ctx, billing.Usage{From: w.billed, To: w.posted})
		if err != nil && !(last && errors.As(err, &refused)) {
			return err
		}
	}
	now := w.clock.now()
	if now.Equal(w.billed) && !last {
		return nil
	}
	return w.post(ctx, billing.Usage{From: w.billed, To: now, Last: last})
}

func (w *Work) post(ctx context.Context, u billing.Usage) error {
	w.posted = u.To
	t, err := w.runner.gate.Settle(ctx, w.ticket, u)
	var refused *billing.RefusedError
	switch {
	case err == nil:
		w.ticket, w.billed = t, u.To
	case errors.As(err, &refused):
		w.billed = u.To
	}
	return err
}

// watch stops the work where its session has ended, or its machine is not the session's any more.
func (w *Work) watch(ctx context.Context) {
	s, err := w.runner.rows.store.Load(ctx, Address{Session: w.session})
	switch {
	case errors.Is(err, ErrNotFound):
		w.stop(ErrEnded)
	case err != nil:
		w.runner.log.WarnContext(ctx, "session not looked at", "work", w.id, "session", w.session, "error", err)
	case s.Session.Ended():
		w.stop(ErrEnded)
	case s.Environment.Deleted():
		w.stop(ErrEnvironmentGone)
	case s.Sandbox.State != sandbox.Live || s.Sandbox.Incarnation != w.sb.Ref().Incarnation:
		w.stop(sandbox.ErrGone)
	}
}
