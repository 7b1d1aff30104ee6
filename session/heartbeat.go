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
// from when work begins, and that it begins is noted with whoever accounts for
// it at once: from then on it is charged, whatever becomes of this process.
//
// Whatever it asks answers within the time it has, or is not waited for: a
// database or gate that does not answer must not delay the stop.
func (w *Work) beat() {
	defer close(w.beating)
	begun := false
	lease, grace := w.runner.lease, w.runner.grace()
	touched := time.Now()
	next := w.until.Add(-lease * 2 / 3)
	for {
		select {
		case <-w.quit: // what is being closed renews nothing any more, be it due or not
			return
		default:
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-w.quit:
			timer.Stop()
			return
		case <-w.begins:
			timer.Stop()
			begun = true
			w.starts()
			ctx, cancel := w.bounded(begun)
			w.account(ctx, grace)
			cancel()
			continue
		case <-timer.C:
		}
		ctx, cancel := w.bounded(begun)
		w.renew(ctx)
		if begun {
			if w.accounts() {
				w.account(ctx, grace)
			}
			w.watch(ctx)
			if time.Since(touched) >= time.Minute {
				touched = time.Now()
				w.touch(ctx)
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

// bounded is a context for what the heartbeat asks: until the work must stop,
// or a little longer where that is now.
func (w *Work) bounded(begun bool) (context.Context, context.CancelFunc) {
	stop, _ := w.latest(begun)
	lease := w.runner.lease
	return context.WithTimeout(context.WithoutCancel(w.ctx), min(lease/4, max(time.Until(stop), lease/12)))
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
	asked, held := time.Now(), w.lease
	l, err := guarded(ctx, func(ctx context.Context) (Lease, error) { return w.runner.leases.Renew(ctx, held) })
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

// accounts reports whether it is time to account for what was used: where the
// next beat would come after more than a third of what the hold lasts, or the last try has come to nothing.
func (w *Work) accounts() bool {
	return w.failing || !w.noted || w.clock.now().Sub(w.billed)+w.runner.lease/3 >= w.runner.holding/3
}

// account posts the time used since the last time, and renews the hold. What
// could not be posted is posted with the next beat, or when the work closes.
func (w *Work) account(ctx context.Context, grace time.Duration) {
	err := w.settle(ctx, false)
	var refused *billing.RefusedError
	w.failing = err != nil && !errors.As(err, &refused)
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
		err := w.post(ctx, billing.Usage{From: w.billed, To: w.posted, TTL: w.runner.holding})
		if err != nil && !(last && errors.As(err, &refused)) {
			return err
		}
	}
	now := w.clock.now()
	switch {
	case !last && !w.noted:
		return w.post(ctx, billing.Usage{From: w.billed, To: w.billed, TTL: w.runner.holding})
	case !last && now.Equal(w.billed):
		return nil
	}
	return w.post(ctx, billing.Usage{From: w.billed, To: now, Last: last, TTL: w.runner.holding})
}

func (w *Work) post(ctx context.Context, u billing.Usage) error {
	w.posted = u.To
	old, span := w.ticket, u
	t, err := guarded(ctx, func(ctx context.Context) (billing.Ticket, error) { return w.runner.gate.Settle(ctx, old, span) })
	var refused *billing.RefusedError
	if err == nil || t.Intent.ID != "" { // a gate that never answered has no say
		w.ticket = t
	}
	if err == nil || errors.As(err, &refused) {
		w.billed, w.noted = u.To, true
	}
	return err
}

// touch notes that the session is worked in.
func (w *Work) touch(ctx context.Context) {
	at := Address{Session: w.session, Conversation: w.conversation}
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.runner.rows.store.Touch(ctx, at)
	})
	if err != nil {
		w.runner.log.WarnContext(ctx, "activity not noted", "session", w.session, "error", err)
	}
}

// watch stops the work where its session has ended, or its machine is not the session's any more.
func (w *Work) watch(ctx context.Context) {
	s, err := guarded(ctx, func(ctx context.Context) (Snapshot, error) {
		return w.runner.rows.store.Load(ctx, Address{Session: w.session})
	})
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
	default:
		w.knows(s.Sandbox)
		if w.clock.now().Sub(w.first) >= measureEvery { // what is shorter is measured by its end, when it has written what it writes
			w.measure(ctx)
		}
	}
}
