package session

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// seeTombstone carries an entry of the outbox on: kill what is there, then prove that nothing is.
func (p *pass) seeTombstone(ctx context.Context, due *Due) (o outcome) {
	m, t, now := p.machines, due.Tombstone, due.Snapshot.Now
	row := sandbox.Row{ID: t.Sandbox, Provider: t.Provider, Name: t.Name, Host: t.Host}
	lag := m.terms(row.Provider).Caps.Lag()
	for range looks {
		step, err := p.askTombstone(ctx, &t, &due.Snapshot.Sandbox, now)
		if err != nil {
			p.excuse(ctx, &Due{Tombstone: t, Kind: due.Kind}, err)
			return o.failing(err)
		}
		if step.Proven && ofLoss(t, due.Snapshot.Sandbox) {
			blind, err := p.tripped(ctx, t.Provider)
			if err != nil {
				p.excuse(ctx, due, err)
				return o.failing(err)
			}
			if blind {
				step, o = sandbox.TombstoneStep{}, o.because(ReclaimSpared, "it was lost, and more machines are missing at its provider than may be lost at once, so that its word that it sees none proves nothing")
			}
		}
		switch {
		case step.Proven:
			o = o.because(ReclaimProven, absent(lag))
		case step.Kill != nil:
			o = o.because(ReclaimKilled, "the outbox names it, and its provider shows it")
		case o.action == "":
			o = o.because(ReclaimWaited, unproven(lag))
		}
		if p.options.DryRun {
			return o
		}
		if step.Proven {
			_, err := m.rows.store.Commit(ctx, Change{Prove: []sandbox.Tombstone{t}})
			return o.failing(err)
		}
		var why string
		refused := p.destroy(ctx, row, step.Kill)
		if refused != nil {
			why = refused.Error()
		}
		marked := Change{Mark: []sandbox.Tombstone{t.Marked(step, why)}}
		clock, err := m.rows.store.Commit(ctx, marked)
		if err != nil {
			return o.failing(err)
		}
		if timedOut(refused) {
			return o.failing(refused)
		}
		if step.Kill == nil && !step.Absent || lag > 0 {
			return o
		}
		t, now = marked.Stamped(clock).Mark[0], clock
	}
	return o
}

// ofLoss reports whether a tombstone is of a machine that was lost: nobody
// decided that it be destroyed, but its provider did not show it. One that an
// earlier program wrote does not say so: only a lost
// machine's tombstone names it and has a moment before which absence proves
// nothing; where the provider hides nothing it has none, and the row tells as
// long as it has no new machine.
func ofLoss(t sandbox.Tombstone, row sandbox.Row) bool {
	if t.Origin != "" {
		return t.Origin == sandbox.OriginLost
	}
	lost := row.State == sandbox.Lost && row.Generation == t.Generation && row.Incarnation == t.Incarnation
	return t.Incarnation != "" && (lost || !t.NotBefore.IsZero())
}

// askTombstone asks the provider which of the tombstone's machines it sees; of is the row of its sandbox.
func (p *pass) askTombstone(ctx context.Context, t *sandbox.Tombstone, of *sandbox.Row, now time.Time) (sandbox.TombstoneStep, error) {
	provider, err := p.machines.provider(sandbox.Row{ID: t.Sandbox, Provider: t.Provider})
	if err != nil {
		return sandbox.TombstoneStep{}, err
	}
	found, err := inspected(p.patience.of(ctx, p.machines.timeout), provider, t.Ref())
	p.mute.answered(ctx, t.Provider, callInspect, err)
	if err != nil {
		return sandbox.TombstoneStep{}, err
	}
	var live sandbox.Incarnation
	if of.State == sandbox.Live {
		live = of.Incarnation
	}
	return sandbox.DecideTombstone(*t, sandbox.Facts{Now: now, Caps: p.machines.terms(t.Provider).Caps}, live, provider.Info().Host, found)
}

// excuse notes on a tombstone why it could not be seen to, for the operator,
// and so that it comes last in the next pass. That this fails is no more than logged.
func (p *pass) excuse(ctx context.Context, due *Due, why error) {
	if due.Kind != DueTombstones || p.options.DryRun || ctx.Err() != nil {
		return
	}
	t := due.Tombstone.Marked(sandbox.TombstoneStep{}, why.Error())
	if _, err := p.machines.rows.store.Commit(ctx, Change{Mark: []sandbox.Tombstone{t}}); err != nil {
		p.log.WarnContext(ctx, "what was looked at could not be noted", "sandbox", t.Sandbox, "error", fmt.Errorf("%w (of: %w)", err, why))
	}
}
