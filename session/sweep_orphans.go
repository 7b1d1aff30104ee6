package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// suspect is a machine that nobody names.
type suspect struct {
	provider string
	machine  sandbox.TombstoneKey
}

// maxSuspects is how many machines without a name are remembered. The others
// are suspected anew in each pass, until there is room.
const maxSuspects = 10_000

// orphanage remembers the machines that nobody names, and since when. The zero value is empty.
type orphanage struct {
	mu    sync.Mutex
	first map[suspect]time.Time // on the store's clock
}

// remember notes that nobody names a machine, unless that is known, and
// reports whether it is remembered. o.mu is held.
func (o *orphanage) remember(id suspect, now time.Time) bool {
	if _, known := o.first[id]; known {
		return true
	}
	if len(o.first) >= maxSuspects {
		return false
	}
	if o.first == nil {
		o.first = map[suspect]time.Time{}
	}
	o.first[id] = now
	return true
}

func (o *orphanage) forget(id suspect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.first, id)
}

// forgetUnlisted forgets a provider's machines but for those seen.
func (o *orphanage) forgetUnlisted(provider string, seen map[suspect]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.first {
		if id.provider == provider && !seen[id] {
			delete(o.first, id)
		}
	}
}

// The bounds of the budget where the caller has set none.
const (
	leastBudget = 5
	mostBudget  = 50
	budgetShare = 20 // one in so many
)

// budget is how many orphans may be buried by this sweep.
func (s *sweep) budget() int {
	if s.options.Budget > 0 {
		return s.options.Budget
	}
	ours := 0
	for _, p := range s.sources {
		ours += p.Listed - p.Foreign
	}
	return min(max(ours/budgetShare, leastBudget), mostBudget)
}

// judge asks for each proven machine by id and then buries those that are
// there, or none where they are more than the budget. What could not be asked
// counts as there, so that a provider that answers now and then can't have
// them buried a budget at a time.
func (s *sweep) judge(ctx context.Context) {
	budget, weight := s.budget(), 0
	var there []proven
	for i, p := range s.proven {
		if ctx.Err() != nil {
			s.spare(slices.Concat(there, s.proven[i:]), "an orphan; the sweep was broken off")
			return
		}
		if weight > budget { // they are too many already: more questions would change nothing
			there = append(there, s.proven[i:]...)
			break
		}
		seen, err := s.shown(ctx, p)
		switch {
		case err != nil:
			weight++
			s.outcome(p, SweepFailed, "the provider could not be asked for it by id", err)
		case !seen:
			s.outcome(p, SweepSkipped, "it is listed, but the provider, asked for it by id, does not show it", nil)
		default:
			weight++
			there = append(there, p)
		}
	}
	s.tripped = weight > budget
	switch {
	case s.tripped:
		s.spare(there, fmt.Sprintf("an orphan; more of them than the budget of %d were found, and none is buried", budget))
	case s.options.DryRun:
		s.spare(there, "an orphan; this is a dry run")
	default:
		s.bury(ctx, there)
	}
}

// shown asks the provider for one machine.
func (s *sweep) shown(ctx context.Context, p proven) (bool, error) {
	found, err := s.machines.inspect(ctx, p.provider, p.tombstone.Ref())
	return slices.ContainsFunc(found, func(f sandbox.Found) bool { return f.Incarnation == p.tombstone.Incarnation }), err
}

// bury puts machines into the outbox, each by itself.
func (s *sweep) bury(ctx context.Context, all []proven) {
	for i, p := range all {
		if ctx.Err() != nil {
			s.spare(all[i:], "an orphan; the sweep was broken off")
			return
		}
		_, err := s.machines.rows.store.Commit(ctx, Change{
			Bury:   []sandbox.Tombstone{p.tombstone},
			Expect: []Guard{{Sandbox: p.tombstone.Sandbox, Version: p.version}},
		})
		switch {
		case err == nil:
			s.orphans.forget(suspect{s.sources[p.source].Provider, p.tombstone.TombstoneKey})
			s.outcome(p, SweepBuried, "nobody has named it in two passes, and it is there: it is in the outbox now", nil)
		case errors.Is(err, ErrStale):
			s.outcome(p, SweepSkipped, "its sandbox's row has changed since it was read", nil)
		default:
			s.outcome(p, SweepFailed, "the outbox could not be written", err)
		}
	}
}

func (s *sweep) spare(all []proven, reason string) {
	for _, p := range all {
		s.outcome(p, SweepSpared, reason, nil)
	}
}

// outcome notes what became of a proven machine.
func (s *sweep) outcome(p proven, action SweepAction, reason string, err error) {
	count := &s.sources[p.source]
	switch action {
	case SweepBuried:
		count.Buried++
	case SweepSpared:
		count.Spared++
	case SweepSkipped:
		count.Skipped++
	case SweepFailed:
		count.Failed++
	}
	item := SweepItem{Provider: count.Provider, Machine: p.tombstone.TombstoneKey, Name: p.tombstone.Name}
	s.keep(&s.done, item, action, reason, err)
}
