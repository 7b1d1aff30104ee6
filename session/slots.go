package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// slotsCap is how many expired leases are read at first.
const slotsCap = 200

// freeSlots releases work leases that ran out without being given back, where
// it is sure that nothing of that work runs any more. Any other drains, and
// goes on counting: one that can't be seen to keeps no other waiting, and a
// provider that does not answer is not asked again and again. Works of this
// very process that were closed and could not be accounted for are first.
func (k *Keeper) freeSlots(ctx context.Context) error {
	type work struct {
		holder string
		fence  int64
	}
	seen, mute := map[work]bool{}, mutes{}
	fault := k.settleLate(ctx)
	for limit := slotsCap; ; limit *= 2 {
		expired, err := k.leases.Expired(ctx, limit)
		if err != nil {
			return errors.Join(fault, err)
		}
		for _, l := range expired {
			id := work{l.Holder, l.Fence}
			if seen[id] {
				continue
			}
			seen[id] = true
			quiet, err := k.quiet(ctx, l, mute)
			if err == nil && quiet {
				quiet, err = k.abandoned(ctx, l)
			}
			if err == nil && quiet {
				err = k.accounts.close(ctx, l)
			}
			if err == nil && quiet {
				if err = k.leases.Release(ctx, l); err == nil {
					k.doubts.settle(l.Holder)
				}
			}
			if err != nil {
				fault = errors.Join(fault, fmt.Errorf("session: slot of work %s in session %s: %w", l.Holder, l.Name, err))
			}
			if ctx.Err() != nil {
				return fault
			}
		}
		if len(expired) < limit {
			k.doubts.prune(time.Now(), func(work string) bool {
				return k.mine(work) || slices.ContainsFunc(expired, func(l Lease) bool { return l.Holder == work })
			})
			return fault
		}
	}
}

// abandoned reports whether nobody else will account for a work whose lease
// has run out: its process shows as long as it lives where it has such works that are closed.
func (k *Keeper) abandoned(ctx context.Context, l Lease) (bool, error) {
	if l.Replica == k.process { // it is closed and accounted for, or else it would not be quiet
		return true, nil
	}
	switch _, err := k.leases.Held(ctx, LeaseSweep, lateLease(l.Replica).Name); {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, nil
}

// quiet reports whether nothing runs any more of the work whose lease has run
// out. A work of this very process is quiet once it is closed and accounted for, unless
// its processes could not be stopped then. Of such a one, and of another's, it takes
// the machines: those it may have worked in earlier are proven gone where the outbox
// has no entry of its sandbox; in the present one nothing runs, or what the work has
// started is ended now, and nothing else.
//
// The holder may be alive, and merely have been asleep: it starts nothing once its lease has run out.
func (k *Keeper) quiet(ctx context.Context, l Lease, mute mutes) (bool, error) {
	if l.Replica == k.process {
		if mine := k.mine(l.Holder); mine || !k.doubts.has(l.Holder) {
			return !mine, nil
		}
	}
	switch _, err := k.still(ctx, l, mute); {
	case err == nil:
		return true, nil
	case errors.Is(err, errUnsure), errors.Is(err, errElsewhere): // its own host sees to it
		return false, nil
	default:
		return false, err
	}
}

// Why it can't be said that nothing runs of a work, though nothing is wrong.
var (
	errUnsure    = access.NewSentinel("session: something may run", 503, "unavailable", "The session can't be reached right now. Try again shortly.")
	errElsewhere = access.NewSentinel("session: its machine lives on another host", 503, "unavailable", "The session can't be reached right now. Try again shortly.")
)

// still makes sure that nothing runs of a work in any machine that it may have
// worked in: it ends what runs in the present one, whose row it returns, and nothing else.
func (k *Keeper) still(ctx context.Context, l Lease, mute mutes) (sandbox.Row, error) {
	known, err := k.machines.rows.store.Known(ctx, []sandbox.TombstoneKey{{Sandbox: l.Sandbox}})
	switch {
	case err != nil:
		return sandbox.Row{}, err
	case l.Sandbox == "" || len(known) != 1:
		return sandbox.Row{}, fmt.Errorf("session: the store does not say where")
	}
	row := known[0].Sandbox
	switch {
	case known[0].Outbox > 0:
		return row, fmt.Errorf("%w: a machine of sandbox %s is not proven gone", errUnsure, l.Sandbox)
	case row.State == sandbox.None, row.State == sandbox.Lost, row.State == sandbox.Creating: // of the generation that is being made no machine has had work
		return row, nil
	case row.State != sandbox.Live:
		return row, fmt.Errorf("%w: the machine of sandbox %s is %v", errUnsure, l.Sandbox, row.State)
	}
	return row, k.quieten(ctx, row, l.Holder, mute)
}

// quieten ends what a work has started in the live machine of row. In a machine
// that sleeps nothing runs; but what ran may go on once it wakes, so that its
// provider is told there too, if it can reap. Of a provider that can't, a
// machine that sleeps is taken for quiet: one whose processes outlast a sleep must be a [sandbox.Reaper].
func (k *Keeper) quieten(ctx context.Context, row sandbox.Row, work string, mute mutes) error {
	p, err := k.machines.provider(row)
	switch {
	case err != nil:
		return err
	case row.Host != "" && row.Host != p.Info().Host:
		return errElsewhere
	case mute.has(row.Provider):
		return errMute
	}
	found, err := k.machines.inspect(ctx, p, row.Ref())
	mute.answered(ctx, row.Provider, callInspect, err)
	switch {
	case errors.Is(err, sandbox.ErrWrongHost):
		return errElsewhere
	case err != nil:
		return err
	case len(found) == 0: // that proves nothing
		return fmt.Errorf("%w: machine %s is not to be seen", errUnsure, row.Name)
	}
	asleep := !slices.ContainsFunc(found, func(m sandbox.Found) bool { return m.Status != sandbox.StatusStopped })
	r, can := sandbox.As[sandbox.Reaper](p)
	if can {
		err = k.machines.reap(ctx, r, row.Ref(), work)
		mute.answered(ctx, row.Provider, callReap, err)
	}
	switch {
	case !can, errors.Is(err, sandbox.ErrUnsupported):
		if !asleep {
			return fmt.Errorf("%w: machine %s is awake, and its provider can't end what runs there", errUnsure, row.Name)
		}
		return nil
	case errors.Is(err, sandbox.ErrWrongHost):
		return errElsewhere
	}
	return err
}
