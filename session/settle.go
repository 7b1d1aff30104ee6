package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// account says what is due to the gate. What could not be said is said again
// with the next beat, or when the work closes.
func (w *Work) account(ctx context.Context) {
	err := w.settle(ctx)
	var refused *billing.RefusedError
	switch {
	case errors.As(err, &refused):
		w.stop(fmt.Errorf("%w: %w", ErrOutOfCredit, err))
	case err != nil:
		w.runner.log.WarnContext(ctx, "usage not accounted for", "work", w.id, "session", w.session, "error", err)
	}
}

// settle accounts for the time used, and for good once the work has stopped.
func (w *Work) settle(ctx context.Context) error {
	for {
		asked, vouched := w.moment()
		u, ok := w.bill.next(asked, vouched)
		if !ok {
			return nil
		}
		t, err := w.say(ctx, u)
		if !w.bill.answered(u, asked, t, err) {
			return err
		}
	}
}

// moment is now, and up to when its lease vouches for the work, on the local
// clock. That the work has stopped by now is in its bill then.
func (w *Work) moment() (now, vouched time.Time) {
	now = time.Now() // first: what is stopped after this was used until this
	if w.ctx.Err() != nil {
		<-w.stamped
		w.bill.stops(w.stopped)
	}
	return now, w.until.Add(-w.runner.grace())
}

// say tells the gate of u. A call that is not waited for any more is still
// under way: until it has returned the gate is told nothing else of this work.
func (w *Work) say(ctx context.Context, u billing.Usage) (billing.Ticket, error) {
	select {
	case w.saying <- struct{}{}:
	case <-ctx.Done():
		return billing.Ticket{}, fmt.Errorf("session: the gate has not answered the call before: %w", context.Cause(ctx))
	}
	old := w.bill.ticket
	return guarded(ctx, func(ctx context.Context) (billing.Ticket, error) {
		defer func() { <-w.saying }()
		if d, ok := ctx.Deadline(); ok { // a gate whose ledger hangs hears of it in time to say what becomes of the work
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Until(d)*3/4)
			defer cancel()
		}
		return w.runner.gate.Settle(ctx, old, u)
	})
}

// finish accounts for what has stopped, and whose heartbeat has ended. That
// nothing is left on the account, or that somebody else has closed it, is no error: the work is over anyway.
func (w *Work) finish(ctx context.Context) error {
	if err := w.settle(ctx); !w.bill.over {
		return err
	}
	return nil
}

// finishTwice is finish for Close: a reply may have been lost. It leaves time
// to say that this process sees to it, where neither try has come to anything.
func (w *Work) finishTwice(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanup*5/6)
	defer cancel()
	if w.finish(ctx) == nil {
		return nil
	}
	return w.finish(ctx)
}

// lateLease is had by a process that has works to account for which are
// closed. As long as it has it no other process takes it for dead and closes their accounts.
func lateLease(process string) Lease {
	return Lease{Kind: LeaseSweep, Name: "late " + process, Holder: process, Replica: process, For: slotsEvery + time.Minute}
}

// lives shows that this process lives and will account for its works.
func (r *Runner) lives(ctx context.Context) (Lease, error) {
	return guarded(ctx, func(ctx context.Context) (Lease, error) { return r.leases.Acquire(ctx, lateLease(r.process)) })
}

// showLife is lives for Close, where nothing is lost if it fails: the Keeper does it again.
func (r *Runner) showLife(ctx context.Context) {
	if _, err := r.lives(ctx); err != nil {
		r.log.WarnContext(ctx, "other processes can't be told that works are accounted for later", "error", err)
	}
}

// settleLate accounts for the works that were closed while that could not be
// done, and gives their leases back then.
func (r *Runner) settleLate(ctx context.Context) error {
	select {
	case r.late <- struct{}{}:
		defer func() { <-r.late }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	works := r.unsettledWorks()
	if len(works) == 0 {
		return nil
	}
	alive, fault := r.lives(ctx)
	for _, w := range works {
		w.tried = time.Now()
		bounded, cancel := context.WithTimeout(ctx, cleanup)
		err := w.finish(bounded)
		if err == nil && !r.doubts.has(w.id) {
			err = r.giveBack(bounded, w.lease)
		}
		cancel()
		if err != nil {
			fault = errors.Join(fault, fmt.Errorf("session: work %s in session %s, closed: %w", w.id, w.session, err))
			if timedOut(err) { // the others might wait as long: they are first the next time
				return fault
			}
			continue
		}
		r.settled(w)
		r.log.InfoContext(ctx, "work accounted for late", "work", w.id, "session", w.session, "used", w.bill.took())
	}
	if alive.Fence != 0 && len(r.unsettledWorks()) == 0 {
		fault = errors.Join(fault, r.giveBack(ctx, alive))
		if len(r.unsettledWorks()) > 0 { // closed meanwhile, with the same lease
			_, err := r.lives(ctx)
			fault = errors.Join(fault, err)
		}
	}
	return fault
}

// leaveLate is settleLate for the last time: what is left is anybody's to account for.
func (r *Runner) leaveLate(ctx context.Context) error {
	err := r.settleLate(ctx)
	if err == nil {
		return nil
	}
	alive, fault := r.lives(ctx)
	if fault == nil {
		fault = r.giveBack(ctx, alive)
	}
	return errors.Join(err, fault)
}

func (r *Runner) giveBack(ctx context.Context, l Lease) error {
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.leases.Release(ctx, l) })
	return err
}

// unsettledWorks are the works of this process that were closed and are not accounted for, least lately tried first.
func (r *Runner) unsettledWorks() []*Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Work, 0, len(r.unsettled))
	for _, w := range r.unsettled {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *Work) int { return cmp.Or(a.tried.Compare(b.tried), cmp.Compare(a.id, b.id)) })
	return all
}

func (r *Runner) settled(w *Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unsettled, w.id)
}
