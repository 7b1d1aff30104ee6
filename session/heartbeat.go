package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// beat renews the lease and accounts for the time used, three times in the
// life of a lease, and stops the work where it may not go on. It runs from
// the acquisition of the lease until the work is closed; time is accounted for
// from when work begins, and that it begins is noted with whoever accounts for
// it at once: from then on it is charged, whatever becomes of this process.
// Once the work was told to stop it is accounted for for good, and only the
// lease goes on being renewed: until it is closed its processes may be running.
//
// Whatever it asks answers within the time it has, or is not waited for: a
// database or gate that does not answer must not delay the stop.
func (w *Work) beat() {
	defer close(w.beating)
	lease, ended := w.runner.lease, w.ctx.Done()
	minute := w.vouched // when what is done once a minute was done last
	next := w.until.Add(-lease * 2 / 3)
	for {
		timer, due := time.NewTimer(time.Until(next)), false
		select {
		case <-w.quit:
		case <-w.begins:
			w.starts()
			// Where opening it took long it is asked at once whether it still may.
			due = time.Since(minute) >= time.Minute
			w.vouched = later(w.vouched, w.since.Add(lease/12-maxUnasked))
		case <-ended:
			ended = nil
		case <-timer.C:
			due = true
		}
		timer.Stop()
		select {
		case <-w.quit: // what is being closed renews nothing any more, be it due or not; Close settles
			return
		default:
		}
		ctx, cancel := w.bounded()
		if due {
			w.renew(ctx)
		}
		if now, vouched := w.moment(); w.bill.due(now, vouched, lease/3) {
			w.account(ctx)
		}
		if due && w.bill.begun() && w.ctx.Err() == nil {
			w.watch(ctx)
			if time.Since(minute) >= time.Minute {
				minute = time.Now()
				w.touch(ctx)
				w.askAgain(ctx)
			}
		}
		cancel()
		next = w.next(minute)
	}
}

// bounded is a context for what the heartbeat asks: until the work must stop,
// or a little longer where that is now. Close waits for it, and has time left.
func (w *Work) bounded() (context.Context, context.CancelFunc) {
	stop, _ := w.latest()
	lease := w.runner.lease
	return context.WithTimeout(context.WithoutCancel(w.ctx), min(lease/4, cleanup/2, max(time.Until(stop), lease/12)))
}

// next is when the next beat is due. Where the work must have stopped by now it is stopped.
func (w *Work) next(minute time.Time) time.Time {
	now, lease := time.Now(), w.runner.lease
	stop, why := w.latest()
	if !now.Before(stop) {
		w.stop(why)
	}
	going := w.ctx.Err() == nil
	next := w.until.Add(-lease * 2 / 3)
	if going && w.bill.begun() {
		next = earlier(next, minute.Add(time.Minute)) // of a lease that is renewed less often
	}
	switch {
	case next.After(now):
	case now.Before(w.until):
		// Where the lease could not be renewed the next try comes sooner, and
		// the work has stopped a grace before the lease is anybody else's.
		next = now.Add(lease / 12)
	default: // it is lost, and what is left is to account for the work
		next = now.Add(lease / 3)
	}
	if going {
		next = earlier(next, stop)
	}
	return next
}

// latest is when the work must stop unless what it rests on is renewed, on the local clock, and why.
func (w *Work) latest() (time.Time, error) {
	grace := w.runner.grace()
	stop, why := w.until.Add(-2*grace), fmt.Errorf("%w: not renewed in time", ErrFenced)
	if !w.bill.begun() {
		return stop, why
	}
	if held, ends := w.bill.deadline(grace); ends && held.Before(stop) {
		stop, why = held, fmt.Errorf("%w: hold not renewed in time", ErrOutOfCredit)
	}
	if vouched := w.vouched.Add(maxUnasked); vouched.Before(stop) {
		stop, why = vouched, fmt.Errorf("%w: nobody could say for %v", ErrRevoked, maxUnasked)
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
		w.heedTurn(ctx)
	case errors.Is(err, ErrFenced):
		w.stop(err)
	default:
		w.runner.log.WarnContext(ctx, "lease not renewed", "work", w.id, "session", w.session, "error", err)
	}
}

// heedTurn stops the work where the turn that it is for is not had any more.
func (w *Work) heedTurn(ctx context.Context) {
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.current(ctx) })
	switch {
	case errors.Is(err, ErrFenced):
		w.stop(err)
	case err != nil:
		w.runner.log.WarnContext(ctx, "turn not looked at", "work", w.id, "conversation", w.conversation, "error", err)
	}
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

// watch stops the work where its session has ended, or its machine is not the
// session's any more, and has a disk measured that is worked on for long.
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
		if time.Since(w.bill.clock.local) >= measureEvery { // what is shorter is measured by its end, when it has written what it writes
			w.measure(ctx)
		}
	}
}
