package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// What a pass takes on by default, of each kind, and of live machines at most.
const (
	reclaimCap    = 200
	reclaimLive   = 50
	reclaimUnseen = 10 * time.Minute
	reclaimBudget = 5
)

// ReclaimOptions bound a pass.
type ReclaimOptions struct {
	// Limit is the most items of each kind; 0 = 200. Of live machines it is 50 at most.
	Limit int
	// DryRun: providers are asked and decisions made, but nothing is written
	// and nothing destroyed. The report says what would have been the first step with each item.
	DryRun bool
	// Unseen is how long nobody must have looked at a live machine for this
	// pass to look; 0 = 10 minutes, less than 0 = it looks at none.
	Unseen time.Duration
	// Budget is how many machines of one provider may be missing for a pass to
	// declare any of them lost: live ones that were not to be seen when last
	// looked at, by whichever pass of whichever replica, and those lost within
	// twice the time between two looks. Where more are, something bigger is wrong
	// than a machine that vanished, such as an account that shows somebody else's
	// machines: none is declared lost, and none that was is taken for proven
	// gone; their own sessions still find out one by one, when they are
	// worked in. 0 = 5. Nothing else needs a budget: what is destroyed was
	// decided to be, when its row or its entry of the outbox was written, and a
	// sweep has a budget of its own for what it puts there.
	Budget int
}

// ReclaimReport says what a pass found and did.
type ReclaimReport struct {
	Items  []ReclaimItem
	Proven int // machines proven gone by this pass; a dry run proves none
	Failed int // items that could not be seen to; the next pass tries again
	// Capped are the kinds of which there was more than the pass took on.
	Capped DueKind
	// Incomplete: what is due of some kind could not be read; the rest was seen to.
	Incomplete bool
	// Tripped: of some provider more machines were missing than the budget allows.
	Tripped bool
}

// ReclaimItem is what became of one item.
type ReclaimItem struct {
	Kind      DueKind
	Tombstone sandbox.TombstoneKey // which machine; its incarnation may be unknown
	Provider  string               // whose machine it is
	Host      string               // the host it is bound to; empty = none
	Action    ReclaimAction
	Reason    string // why, in a sentence for the operator
	Err       error  // why it could not be seen to
}

// ReclaimAction says what a pass did with an item.
type ReclaimAction string

// The actions.
const (
	ReclaimSeen    ReclaimAction = "seen"     // a live machine is there
	ReclaimWaited  ReclaimAction = "waited"   // too early to say or do anything
	ReclaimKilled  ReclaimAction = "killed"   // asked the provider to destroy what is there
	ReclaimProven  ReclaimAction = "proven"   // gone for certain; nothing is left of it
	ReclaimAdopted ReclaimAction = "adopted"  // a machine that a dead process had asked for is its session's now
	ReclaimGivenUp ReclaimAction = "given up" // an attempt that came to nothing is being torn down
	ReclaimLost    ReclaimAction = "lost"     // a live machine has vanished; whoever works next is told
	ReclaimSpared  ReclaimAction = "spared"   // it would be lost, or proven gone that was lost, but for the budget
	ReclaimSkipped ReclaimAction = "skipped"  // somebody else saw to it
	ReclaimFailed  ReclaimAction = "failed"
)

// Reclaim makes one pass over what is left to do: creates past their
// deadline, machines that are to be destroyed, the outbox, and live machines
// that nobody has looked at for long. Each kind is read by itself and each
// item seen to by itself: a failure stops neither the others nor later
// passes. The error is what made it Incomplete, or ctx's; a *access.FieldError
// names what is wrong with o.
//
// What a pass has looked at comes last in the next, so that what can't be
// finished keeps nothing else waiting. A provider that lets three calls of one kind in a
// row run into their timeout is not asked again in that pass.
//
// A live machine is inspected, never woken. Once two looks at least the
// provider's lag apart have not found it, it is lost. What another host alone
// can see to is left to that host.
func (k *Keeper) Reclaim(ctx context.Context, o ReclaimOptions) (ReclaimReport, error) {
	if o.Budget < 0 {
		return ReclaimReport{}, &access.FieldError{Field: "Budget", Rule: "must not be negative"}
	}
	if o.Limit <= 0 {
		o.Limit = reclaimCap
	}
	o.Budget, o.Unseen = cmp.Or(o.Budget, reclaimBudget), cmp.Or(o.Unseen, reclaimUnseen)
	p := &pass{Keeper: k, options: o, mute: mutes{}, trips: map[string]bool{}}
	defer p.patience.end()
	var fault error
	for _, kind := range []DueKind{DueCreating, DueDestroying, DueTombstones, DueLive} {
		if kind == DueLive && o.Unseen < 0 {
			continue
		}
		fault = errors.Join(fault, p.seeTo(ctx, kind))
		if ctx.Err() != nil {
			p.rep.Incomplete = true
			return p.rep, context.Cause(ctx)
		}
	}
	return p.rep, fault
}

// pass is one pass under way.
type pass struct {
	*Keeper
	options  ReclaimOptions
	rep      ReclaimReport
	looked   []sandbox.ID // looked at and not written
	missing  []missing    // live machines that are not to be seen, for the second time
	mute     mutes
	patience patience        // with tombstones, of which there may be many
	trips    map[string]bool // of which providers more machines are missing than may be lost, or are not, where that was asked
}

// seeTo sees to all that is due of one kind.
func (p *pass) seeTo(ctx context.Context, kind DueKind) (fault error) {
	limit := p.options.Limit
	if kind == DueLive {
		limit = min(limit, reclaimLive)
	}
	n := 0
	for due, err := range p.machines.rows.store.Due(ctx, DueQuery{Kinds: kind, Hosts: p.hosts(), Limit: limit + 1, Unseen: p.options.Unseen}) {
		if err != nil {
			p.rep.Incomplete = true
			fault = err
			break
		}
		if n++; n > limit {
			p.rep.Capped |= kind
			break
		}
		p.see(ctx, &due)
		if ctx.Err() != nil {
			break
		}
	}
	p.lose(ctx)
	p.note(ctx)
	return fault
}

// see sees to one item.
func (p *pass) see(ctx context.Context, due *Due) {
	var out outcome
	switch row := &due.Snapshot.Sandbox; {
	case p.mute.has(cmp.Or(due.Tombstone.Provider, row.Provider)):
		out = failed(errMute)
		p.excuse(ctx, due, out.err)
	case due.Kind == DueTombstones:
		out = p.seeTombstone(ctx, due)
	case due.Kind == DueLive:
		out = p.seeLive(ctx, due)
	default:
		out = p.seeRow(ctx, due)
	}
	if !out.later {
		p.report(ctx, due, out)
	}
}

// report adds an item to the report, and counts it.
func (p *pass) report(ctx context.Context, due *Due, out outcome) {
	row := &due.Snapshot.Sandbox
	item := ReclaimItem{
		Kind:      due.Kind,
		Tombstone: sandbox.TombstoneKey{Sandbox: row.ID, Generation: row.Generation, Incarnation: row.Incarnation},
		Provider:  row.Provider, Host: row.Host,
	}
	if t := &due.Tombstone; due.Kind == DueTombstones {
		item.Tombstone, item.Provider, item.Host = t.TombstoneKey, t.Provider, t.Host
	}
	out = out.settled()
	item.Action, item.Reason, item.Err = out.action, out.reason, out.err
	switch item.Action {
	case ReclaimProven:
		if !p.options.DryRun { // what would be proven is in Items
			p.rep.Proven++
		}
	case ReclaimFailed:
		p.rep.Failed++
		p.log.WarnContext(ctx, "not reclaimed", "sandbox", item.Tombstone.Sandbox, "generation", item.Tombstone.Generation,
			"provider", item.Provider, "error", item.Err)
	}
	if n := len(p.rep.Items); n == cap(p.rep.Items) { // append would grow it by a quarter, and copy it as often
		p.rep.Items = slices.Grow(p.rep.Items, n+1)
	}
	p.rep.Items = append(p.rep.Items, item)
	if due.Kind != DueTombstones && !out.written {
		p.looked = append(p.looked, row.ID)
	}
}

// note moves what was looked at and not written to the end of what is due.
// That this fails is no more than logged: the items were seen to.
func (p *pass) note(ctx context.Context) {
	looked := p.looked
	p.looked = nil
	if len(looked) == 0 || p.options.DryRun {
		return
	}
	closing, cancel := detached(ctx)
	defer cancel()
	if _, err := p.machines.rows.store.Commit(closing, Change{Waited: looked}); err != nil {
		p.log.WarnContext(ctx, "what was looked at could not be noted", "sandboxes", len(looked), "error", err)
	}
}
