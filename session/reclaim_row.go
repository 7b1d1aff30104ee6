package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// outcome is what became of one item.
type outcome struct {
	action  ReclaimAction
	reason  string
	err     error
	written bool // the item's row was
	later   bool // it is still to be decided: the item is among the missing
}

func failed(err error) outcome { return outcome{action: ReclaimFailed, err: err} }

// settled reads an error that is no failure for what it says, and gives a failure its reason.
func (o outcome) settled() outcome {
	var more *sandbox.ProvisioningError
	switch {
	case o.err == nil:
	case errors.Is(o.err, ErrStale), errors.Is(o.err, ErrNotFound), errors.Is(o.err, sandbox.ErrNotAllowed):
		o.action, o.reason, o.err = ReclaimSkipped, "somebody else has seen to it meanwhile", nil
	case errors.As(o.err, &more):
		o.action, o.reason, o.err = ReclaimWaited, "its machine is being made, and the attempt was granted more time", nil
	case errors.Is(o.err, sandbox.ErrUnavailable):
		o.action, o.reason, o.err = ReclaimWaited, "its provider does not show it, which proves nothing yet", nil
	case errors.Is(o.err, errMute):
		o.action, o.reason = ReclaimFailed, "its provider has not answered in time again and again, and is not asked any more in this pass"
	case errors.Is(o.err, errUnconfigured):
		o.action, o.reason = ReclaimFailed, "its provider is not among those configured here"
	default:
		o.action, o.reason = ReclaimFailed, "its provider or the store could not be asked, or gave no answer to go by"
	}
	return o
}

// sees asks a provider about a row, and counts what was not answered in time.
func (p *pass) sees(ctx context.Context, s Snapshot) (sandbox.Observed, error) {
	seen, err := p.machines.sees(ctx, s)
	p.mute.answered(ctx, s.Sandbox.Provider, callInspect, err)
	return seen, err
}

// destroy has machines destroyed, and counts what was not answered in time.
func (p *pass) destroy(ctx context.Context, row sandbox.Row, doomed []sandbox.Incarnation) error {
	err := p.machines.destroy(ctx, row, doomed)
	p.mute.answered(ctx, row.Provider, callDestroy, err)
	return err
}

// learn decides what follows from what was seen of s, and commits it unless nothing may be.
func (p *pass) learn(ctx context.Context, s Snapshot, seen sandbox.Observed) (decided, error) {
	if !p.options.DryRun {
		return p.machines.learn(ctx, s, seen)
	}
	d, err := Decide(s, CommandHappened{Event: seen, Terms: p.machines.terms(s.Sandbox.Provider)})
	if err != nil {
		return decided{}, err
	}
	return decided{Snapshot: s.after(d.Change.Stamped(s.Now)), Decision: d}, nil
}

// looks is how often one pass asks about one machine: the kill, and the two
// not-found answers that prove it where the provider hides nothing.
const looks = 3

// seeRow carries a sandbox's row on: what a dead process left creating, or a teardown.
func (p *pass) seeRow(ctx context.Context, due *Due) (o outcome) {
	m, s := p.machines, due.Snapshot
	for range looks {
		seen, err := p.sees(ctx, s)
		if err != nil {
			return o.failing(err)
		}
		out, err := p.learn(ctx, s, seen)
		if err != nil {
			return o.failing(err)
		}
		o.written = o.written || out.committed
		lag := m.terms(out.Sandbox.Provider).Caps.Lag()
		switch state := out.Sandbox.State; {
		case state == sandbox.Live:
			return o.because(ReclaimAdopted, "its create was not answered by its deadline, and the machine it made was found")
		case state == sandbox.None:
			return o.because(ReclaimProven, absent(lag))
		case state == sandbox.Creating:
			return o.because(ReclaimWaited, "its create was not answered by its deadline, and what was found is still starting")
		case s.Sandbox.State == sandbox.Creating:
			o = o.because(ReclaimGivenUp, "its create was not answered by its deadline, and nothing that could run was found")
		case out.Then == sandbox.EffectDestroy:
			o = o.because(ReclaimKilled, "it is to be destroyed, and its provider shows it")
		case o.action == "":
			o = o.because(ReclaimWaited, unproven(lag))
		}
		if p.options.DryRun {
			return o
		}
		if out.Then == sandbox.EffectDestroy {
			if err := p.destroy(ctx, out.Sandbox, out.Kill); timedOut(err) { // it would only be asked to again
				return o.failing(err)
			}
		}
		if !out.committed && out.Then == sandbox.EffectNone || lag > 0 {
			return o
		}
		if s, err = m.rows.store.Load(ctx, s.owner()); err != nil {
			return o.failing(err)
		}
		if state := s.Sandbox.State; state != sandbox.Creating && state != sandbox.Destroying {
			return o.failing(ErrStale) // somebody else has brought it to an end
		}
	}
	return o
}

func (o outcome) because(a ReclaimAction, reason string) outcome {
	o.action, o.reason = a, reason
	return o
}

// failing is the outcome where something went wrong after what o tells of.
func (o outcome) failing(err error) outcome {
	o.err = err
	return o
}

// absent and unproven say in words how far a proof is.
func absent(lag time.Duration) string {
	return fmt.Sprintf("its provider has not shown it twice, at least %v apart: it is gone", lag)
}

func unproven(lag time.Duration) string {
	return fmt.Sprintf("its provider does not show it, which is proof once it is so twice, at least %v apart, and whatever was asked for could no longer come", lag)
}
