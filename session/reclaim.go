package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// reclaimCap is how many items of each kind one pass takes on by default.
const reclaimCap = 200

// ReclaimOptions bound a pass.
type ReclaimOptions struct {
	// Limit is the most items of each kind; 0 = 200.
	Limit int
}

// ReclaimReport says what a pass found and did.
type ReclaimReport struct {
	Items  []ReclaimItem
	Proven int // machines proven gone by this pass
	Failed int // items that could not be seen to; the next pass tries again
	// Capped: there was more of a kind than the pass took on.
	Capped bool
	// Incomplete: what is due of some kind could not be read; the rest was seen to.
	Incomplete bool
}

// ReclaimItem is what became of one item.
type ReclaimItem struct {
	Kind      DueKind
	Tombstone sandbox.TombstoneKey // which machine; its incarnation may be unknown
	Action    ReclaimAction
	Err       error // why it could not be seen to
}

// ReclaimAction says what a pass did with an item.
type ReclaimAction string

// The actions.
const (
	ReclaimWaited  ReclaimAction = "waited"   // too early to say or do anything
	ReclaimKilled  ReclaimAction = "killed"   // asked the provider to destroy what is there
	ReclaimProven  ReclaimAction = "proven"   // gone for certain; nothing is left of it
	ReclaimAdopted ReclaimAction = "adopted"  // a machine that a dead process had asked for is its session's now
	ReclaimGivenUp ReclaimAction = "given up" // an attempt that came to nothing is being torn down
	ReclaimSkipped ReclaimAction = "skipped"  // somebody else saw to it
	ReclaimFailed  ReclaimAction = "failed"
)

// Reclaim makes one pass over what is left to do: creates past their
// deadline, machines that are to be destroyed, and the outbox. Each kind is read by
// itself and each item seen to by itself: a failure stops neither the others
// nor later passes. The error is what made it Incomplete, or ctx's.
//
// What another host alone can see to is left to that host.
func (k *Keeper) Reclaim(ctx context.Context, o ReclaimOptions) (ReclaimReport, error) {
	if o.Limit <= 0 {
		o.Limit = reclaimCap
	}
	var rep ReclaimReport
	var fault error
	for _, kind := range []DueKind{DueCreating, DueDestroying, DueTombstones} {
		n := 0
		for due, err := range k.machines.rows.store.Due(ctx, DueQuery{Kinds: kind, Hosts: k.hosts(), Limit: o.Limit + 1}) {
			if err != nil {
				rep.Incomplete = true
				fault = errors.Join(fault, err)
				break
			}
			if n++; n > o.Limit {
				rep.Capped = true
				break
			}
			item := k.see(ctx, due)
			switch item.Action {
			case ReclaimProven:
				rep.Proven++
			case ReclaimFailed:
				rep.Failed++
			}
			rep.Items = append(rep.Items, item)
			if ctx.Err() != nil {
				rep.Incomplete = true
				return rep, context.Cause(ctx)
			}
		}
	}
	return rep, fault
}

func (k *Keeper) see(ctx context.Context, due Due) ReclaimItem {
	item := ReclaimItem{Kind: due.Kind, Tombstone: due.Tombstone.TombstoneKey}
	if due.Kind != DueTombstones {
		row := due.Snapshot.Sandbox
		item.Tombstone = sandbox.TombstoneKey{Sandbox: row.ID, Generation: row.Generation, Incarnation: row.Incarnation}
	}
	act := k.seeRow
	if due.Kind == DueTombstones {
		act = k.seeTombstone
	}
	item.Action, item.Err = act(ctx, due)
	var more *sandbox.ProvisioningError // somebody else has granted the attempt more time
	switch {
	case errors.Is(item.Err, ErrStale), errors.Is(item.Err, sandbox.ErrNotAllowed):
		item.Action, item.Err = ReclaimSkipped, nil // somebody else was there first
	case errors.Is(item.Err, sandbox.ErrUnavailable), errors.As(item.Err, &more):
		item.Action, item.Err = ReclaimWaited, nil
	case item.Err != nil:
		item.Action = ReclaimFailed
		k.log.WarnContext(ctx, "not reclaimed", "sandbox", item.Tombstone.Sandbox, "generation", item.Tombstone.Generation, "error", item.Err)
	}
	return item
}

// passes is how often one pass asks about one machine: the kill, and the two
// not-found answers that prove it where the provider hides nothing.
const passes = 3

// seeRow carries a sandbox's row on: what a dead process left creating, or a teardown.
func (k *Keeper) seeRow(ctx context.Context, due Due) (ReclaimAction, error) {
	m, s := k.machines, due.Snapshot
	action := ReclaimWaited
	for range passes {
		out, err := m.observe(ctx, s)
		if err != nil {
			return action, err
		}
		switch state := out.Sandbox.State; {
		case state == sandbox.Live:
			return ReclaimAdopted, nil
		case state == sandbox.None:
			return ReclaimProven, nil
		case out.Then == sandbox.EffectDestroy:
			m.destroy(ctx, out.Sandbox, out.Kill)
			action = ReclaimKilled
		case s.Sandbox.State == sandbox.Creating && state == sandbox.Destroying:
			action = ReclaimGivenUp
		}
		if !out.committed && out.Then == sandbox.EffectNone || m.terms(out.Sandbox).Caps.Lag() > 0 {
			return action, nil
		}
		if s, err = m.rows.store.Load(ctx, Address{Session: s.Session.ID}); err != nil {
			return action, err
		}
		if state := s.Sandbox.State; state != sandbox.Creating && state != sandbox.Destroying {
			return ReclaimSkipped, nil // somebody else has brought it to an end
		}
	}
	return action, nil
}

// seeTombstone carries an entry of the outbox on: kill what is there, then prove that nothing is.
func (k *Keeper) seeTombstone(ctx context.Context, due Due) (ReclaimAction, error) {
	m, t, now := k.machines, due.Tombstone, due.Snapshot.Now
	action := ReclaimWaited
	for range passes {
		step, err := k.askTombstone(ctx, t, due.Snapshot, now)
		if err != nil {
			failed := t.Marked(sandbox.TombstoneStep{}, err.Error())
			if _, marked := m.rows.store.Commit(ctx, Change{Mark: []sandbox.Tombstone{failed}}); marked != nil {
				err = fmt.Errorf("%w (and not noted: %w)", err, marked)
			}
			return action, err
		}
		if step.Proven {
			_, err := m.rows.store.Commit(ctx, Change{Prove: []sandbox.Tombstone{t}})
			return ReclaimProven, err
		}
		row := sandbox.Row{ID: t.Sandbox, Provider: t.Provider, Name: t.Name, Host: t.Host}
		if step.Kill != nil {
			m.destroy(ctx, row, step.Kill)
			action = ReclaimKilled
		}
		marked := Change{Mark: []sandbox.Tombstone{t.Marked(step, "")}}
		clock, err := m.rows.store.Commit(ctx, marked)
		if err != nil {
			return action, err
		}
		if step.Kill == nil && !step.Absent || m.terms(row).Caps.Lag() > 0 {
			return action, nil
		}
		t, now = marked.Stamped(clock).Mark[0], clock
	}
	return action, nil
}

// askTombstone asks the provider which of the tombstone's machines it sees.
func (k *Keeper) askTombstone(ctx context.Context, t sandbox.Tombstone, s Snapshot, now time.Time) (sandbox.TombstoneStep, error) {
	row := sandbox.Row{ID: t.Sandbox, Provider: t.Provider}
	p, err := k.machines.provider(row)
	if err != nil {
		return sandbox.TombstoneStep{}, err
	}
	call, cancel := context.WithTimeout(ctx, k.machines.timeout)
	defer cancel()
	found, err := p.Inspect(call, t.Ref())
	if err != nil {
		return sandbox.TombstoneStep{}, err
	}
	var live sandbox.Incarnation
	if s.Sandbox.State == sandbox.Live {
		live = s.Sandbox.Incarnation
	}
	return sandbox.DecideTombstone(t, sandbox.Facts{Now: now, Caps: k.machines.terms(row).Caps}, live, p.Info().Host, found)
}
