package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// SweepOptions bound a sweep.
type SweepOptions struct {
	// DryRun: nothing is buried; the report lists what would have been.
	DryRun bool
	// Budget is how many orphans one sweep may bury. Where there are more,
	// something bigger is wrong than a machine that was forgotten, such as a
	// database that was restored, and nothing is buried at all. 0 = one in
	// twenty of the deployment's machines that are listed, but at least 5 and at most 50.
	Budget int
	// Grace is how far apart the two passes are at least that find a machine
	// without a name. 0 = 5 minutes.
	Grace time.Duration
}

const (
	sweepEvery = 10 * time.Minute // more than the grace: the second pass after a start buries what the first has found
	sweepGrace = 5 * time.Minute
)

// Sweep makes one pass over the machines that providers list (those that are
// a [sandbox.Lister]) and looks for orphans: machines of this deployment that
// no row and no outbox entry names. It kills none. What was found in two
// passes a grace apart, is older than any create that could still be answered,
// and is there when the provider is asked for it by id, is put into the outbox, where
// [Keeper.Reclaim] destroys it and proves it gone. That is done only while the sandbox's row
// is as it was read, so that a machine that somebody is about to use is never buried.
//
// What an earlier pass has found is remembered in the process. Several sweeps
// at once, in one process or in many, do no harm.
//
// Each provider is listed by itself: where one fails, or the store does, the
// others are seen to all the same. The error is what made the sweep
// Incomplete, or ctx's; a *access.FieldError names what is wrong with o.
func (k *Keeper) Sweep(ctx context.Context, o SweepOptions) (SweepReport, error) {
	switch {
	case o.Budget < 0:
		return SweepReport{}, &access.FieldError{Field: "Budget", Rule: "must not be negative"}
	case o.Grace < 0:
		return SweepReport{}, &access.FieldError{Field: "Grace", Rule: "must not be negative"}
	}
	o.Grace = cmp.Or(o.Grace, sweepGrace)
	s := &sweep{Keeper: k, options: o}
	if err := s.readNames(ctx); err != nil {
		return s.report(), err
	}
	for _, name := range slices.Sorted(maps.Keys(k.machines.providers)) {
		p := k.machines.providers[name]
		if lister, ok := sandbox.As[sandbox.Lister](p); ok && ctx.Err() == nil {
			s.list(ctx, p, lister)
		}
	}
	s.judge(ctx)
	if ctx.Err() != nil {
		s.fault = context.Cause(ctx)
	}
	return s.report(), s.fault
}

// sweepChore is the Keeper's own sweep.
func (k *Keeper) sweepChore(ctx context.Context) error {
	rep, err := k.Sweep(ctx, SweepOptions{})
	for _, p := range rep.Providers {
		if p.Buried+p.Failed > 0 {
			k.log.InfoContext(ctx, "swept", "provider", p.Provider, "listed", p.Listed, "suspected", p.Suspected, "buried", p.Buried, "failed", p.Failed)
		}
	}
	if rep.Tripped {
		k.log.ErrorContext(ctx, "sweep found more orphans than its budget and buried none; sweep with a larger budget if they are orphans indeed",
			"orphans", rep.Orphans, "budget", rep.Budget)
	}
	return err
}

// sweep is one pass under way. It holds two chunks of a list at a time, eight
// bytes for each machine that has a name, and what it suspects.
type sweep struct {
	*Keeper
	options SweepOptions

	sources []ProviderSweep
	proven  []proven
	waiting []SweepItem // suspected and young ones
	done    []SweepItem // what became of the proven ones
	rest    bool        // there were more of either than are kept
	tripped bool
	fault   error

	names nameSet
	keys  []sandbox.TombstoneKey // of those of the chunk that are to be asked for; reused
}

// proven is a machine that goes to the outbox if the provider, asked for it by id, shows it.
type proven struct {
	source    int // in sources
	provider  sandbox.Provider
	tombstone sandbox.Tombstone
	version   int64 // of the sandbox's row as it was read
}

// source is one provider's list while it is read.
type source struct {
	index    int
	provider sandbox.Provider
	facts    sandbox.OrphanFacts
	seen     map[suspect]bool // those remembered, or newly so, that this pass has listed
}

// list reads a provider's list, chunk by chunk. Where the list ends in order,
// whatever was remembered and is not listed any more is forgotten.
func (s *sweep) list(ctx context.Context, p sandbox.Provider, lister sandbox.Lister) {
	info := p.Info()
	s.sources = append(s.sources, ProviderSweep{Provider: info.Provider})
	src := &source{
		index: len(s.sources) - 1, provider: p, seen: map[suspect]bool{},
		facts: sandbox.OrphanFacts{
			Deployment: s.machines.deployment, Grace: s.options.Grace, Caps: info.Caps, Window: s.machines.window(),
		},
	}
	var fault error
	for chunk, err := range s.machines.listed(ctx, lister) {
		looked := s.look(ctx, src, chunk)
		if fault = cmp.Or(looked, err); fault != nil {
			break
		}
	}
	if fault != nil {
		s.sources[src.index].Err = fault
		s.fault = errors.Join(s.fault, fmt.Errorf("session: sweep of provider %s: %w", info.Provider, fault))
		return
	}
	s.orphans.forgetUnlisted(info.Provider, src.seen)
}

// look says of each machine of a chunk what it is.
func (s *sweep) look(ctx context.Context, src *source, chunk []sandbox.Listed) error {
	count := &s.sources[src.index]
	count.Listed += len(chunk)
	ours := chunk[:0] // the chunk is ours to reuse
	s.keys = s.keys[:0]
	s.orphans.mu.Lock()
	suspects := len(s.orphans.first) > 0
	s.orphans.mu.Unlock()
	for _, l := range chunk {
		key, labelled := l.Labelled(s.machines.deployment)
		if !labelled {
			count.Foreign++
			continue
		}
		if s.names.has(key) {
			count.Named++
			if suspects {
				s.orphans.forget(suspect{count.Provider, key})
			}
			continue
		}
		l.Ref.Provider = count.Provider // who lists it is asked for it
		s.keys, ours = append(s.keys, key), append(ours, l)
	}
	if len(ours) == 0 {
		return nil
	}
	known, err := s.machines.rows.store.Known(ctx, s.keys)
	if err == nil && len(known) != len(s.keys) {
		err = fmt.Errorf("the store knows %d machines of %d", len(known), len(s.keys))
	}
	if err != nil {
		count.Failed += len(ours)
		return err
	}
	s.orphans.mu.Lock()
	defer s.orphans.mu.Unlock()
	for i, l := range ours {
		id, row := suspect{count.Provider, s.keys[i]}, known[i].Sandbox
		first := s.orphans.first[id]
		src.facts.Now = known[i].Now
		verdict, tombstone := sandbox.DecideOrphan(sandbox.Orphan{Listed: l, Row: row, Buried: known[i].Buried, FirstSeen: first}, src.facts)
		switch verdict {
		case sandbox.OrphanForeign:
			count.Foreign++
			continue
		case sandbox.OrphanNamed:
			delete(s.orphans.first, id)
			count.Named++
			continue
		}
		remembered := s.orphans.remember(id, known[i].Now)
		twice := src.seen[id]
		if remembered {
			src.seen[id] = true
		}
		item := SweepItem{Provider: count.Provider, Machine: s.keys[i], Name: l.Ref.Name}
		switch {
		case verdict == sandbox.OrphanProven && twice:
			count.Skipped++
			s.keep(&s.done, item, SweepSkipped, "it is listed twice", nil)
		case verdict == sandbox.OrphanProven:
			s.proven = append(s.proven, proven{src.index, src.provider, tombstone, row.Version})
		case verdict == sandbox.OrphanYoung:
			count.Young++
			s.keep(&s.waiting, item, SweepYoung, "nobody names it, and it is so young that whoever had it made may still say so", nil)
		default:
			count.Suspected++
			s.keep(&s.waiting, item, SweepSuspected, suspicion(first, remembered, known[i].Now, s.options.Grace), nil)
		}
	}
	return nil
}

func suspicion(first time.Time, remembered bool, now time.Time, grace time.Duration) string {
	switch {
	case !remembered:
		return "nobody names it, and more are suspected than can be remembered: it waits for its turn"
	case first.IsZero():
		return fmt.Sprintf("nobody names it, for the first time; it is looked at again after %v", grace)
	}
	return fmt.Sprintf("nobody has named it for %v; it is looked at again after %v", now.Sub(first).Round(time.Second), grace)
}
