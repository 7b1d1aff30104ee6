package sandbox_test

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// given is one case: a row, what is known beside it, and what happens.
type given struct {
	row   sandbox.Row
	facts sandbox.Facts
	event sandbox.Event
}

// after is what must follow: a refusal, or the row and the outbox as the
// store has them once the step is committed at clock, and the rest of the step.
type after struct {
	refused error // then nothing else is set

	row       sandbox.Row
	bury      []sandbox.Tombstone
	unclaimed sandbox.Incarnation
	counted   bool
	idle      bool
	then      sandbox.Effect
	kill      []sandbox.Incarnation
	report    error
}

// edge is one row of the lifecycle's table.
type edge struct {
	says string
	from string // N none, C creating, L live, X lost, D destroying
	on   string
	when []guard // all of them
	// What follows. A nil function changes nothing.
	refuse func(*given) error
	set    func(g *given, clock time.Time, row *sandbox.Row)
	more   func(g *given, clock time.Time, a *after)
	then   sandbox.Effect
	report func(*given) error
}

type guard func(*given) bool

func not(q guard) guard { return func(g *given) bool { return !q(g) } }

// anyState is every state a row can be in.
const anyState = "NCLXD"

// table is the lifecycle of one machine, a row for a row. What it does not list is refused.
var table = []edge{
	{says: "ended: nothing is made or used", from: anyState, on: "ensure", when: []guard{ended},
		refuse: sentinel(sandbox.ErrEnded)},
	{says: "a new generation begins; a dying machine moves to the outbox in the same commit", from: "NXD", on: "ensure",
		when: []guard{not(ended), lossAccepted, not(backingOff)}, set: begin, more: beginMore, then: sandbox.EffectCreate},
	{says: "failed attempts back off", from: "NXD", on: "ensure",
		when: []guard{not(ended), lossAccepted, backingOff}, refuse: attemptsFailed},
	{says: "an agent must not wake in an empty directory unawares", from: "X", on: "ensure",
		when: []guard{not(ended), not(lossAccepted)}, refuse: lossUnknown},
	{says: "others wait on the row while one creates", from: "C", on: "ensure",
		when: []guard{not(ended), not(due), not(nonceMine)}, refuse: beingMade},
	{says: "the intent whose commit was not answered is one's own", from: "C", on: "ensure",
		when: []guard{not(ended), not(due), nonceMine}, then: sandbox.EffectCreate},
	{says: "after the deadline anybody looks", from: "C", on: "ensure",
		when: []guard{not(ended), due}, then: sandbox.EffectInspect},
	{says: "there is a machine: use it", from: "L", on: "ensure", when: []guard{not(ended)}, then: sandbox.EffectAttach},

	{says: "proven not sent", from: "C", on: "not sent", when: []guard{nonceMine}, set: neverAsked},
	{says: "unknown: the reconciler owns it", from: "C", on: "unanswered"},
	{says: "the reply of the attempt", from: "C", on: "created", when: []guard{named, ofGeneration},
		set: becomeLive, more: claim, then: sandbox.EffectAttach},
	{says: "the row names the machine as live: use it", from: "L", on: "created",
		when: []guard{named, ofGeneration, ofIncarnation}, then: sandbox.EffectAttach},
	{says: "the creator lost: to the outbox, never a kill", from: "L", on: "created",
		when: []guard{named, not(both(ofGeneration, ofIncarnation))}, more: buryCreated, report: sentinel(sandbox.ErrStale)},
	{says: "the creator lost: to the outbox, never a kill", from: "C", on: "created",
		when: []guard{named, not(ofGeneration)}, more: buryCreated, report: sentinel(sandbox.ErrStale)},
	{says: "the creator lost: to the outbox, never a kill", from: "NXD", on: "created",
		when: []guard{named}, more: buryCreated, report: sentinel(sandbox.ErrStale)},

	{says: "attached is a sighting", from: "L", on: "attached", set: seen},
	{says: "an outage changes nothing", from: "L", on: "unreached", refuse: sentinel(sandbox.ErrUnavailable)},

	{says: "another host can't tell", from: "CLD", on: "observed", when: []guard{ofGeneration, ofIncarnation, not(here)},
		refuse: sentinel(sandbox.ErrWrongHost)},
	{says: "before the deadline the creator's attempt is its own", from: "C", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(due)}, refuse: beingMade},
	{says: "found running: adopt before giving up", from: "C", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, due, running},
		set:  becomeLive, more: claimAndBuryOthers, then: sandbox.EffectAttach},
	{says: "found starting, under the hard maximum: a later deadline", from: "C", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, due, not(running), comingUp, underMaximum},
		set:  prolong, report: prolonged},
	{says: "not found: destroying, with the intent's not_before", from: "C", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, due, not(running), not(both(comingUp, underMaximum))},
		set:  giveUp, more: killAll, then: sandbox.EffectInspect, report: sentinel(sandbox.ErrUnavailable)},

	{says: "seen", from: "L", on: "observed", when: []guard{ofGeneration, ofIncarnation, here, own}, set: seen},
	{says: "younger than the lag: unknown", from: "L", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(own), young}, refuse: sentinel(sandbox.ErrUnavailable)},
	{says: "not found once", from: "L", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(own), not(young), not(absentBefore)},
		set:  absent, report: sentinel(sandbox.ErrUnavailable)},
	{says: "not found again, less than the lag later", from: "L", on: "observed",
		when:   []guard{ofGeneration, ofIncarnation, here, not(own), not(young), absentBefore, not(lagApart)},
		refuse: sentinel(sandbox.ErrUnavailable)},
	{says: "not found twice, the lag apart: lost, and to the outbox", from: "L", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(own), not(young), absentBefore, lagApart}, set: lose, more: buryLost},

	{says: "still there: kill", from: "D", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, doomed}, set: seen, more: killAll, then: sandbox.EffectDestroy},
	{says: "the first not-found since", from: "D", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(doomed), not(absentBefore)}, set: absent},
	{says: "too early for proof", from: "D", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(doomed), absentBefore, not(both(lagApart, notBeforePassed))}},
	{says: "proof", from: "D", on: "observed",
		when: []guard{ofGeneration, ofIncarnation, here, not(doomed), absentBefore, lagApart, notBeforePassed}, set: destroyed},

	{says: "ended already: nothing is killed again", from: anyState, on: "end", when: []guard{ended}},
	{says: "dying already, or nothing there", from: "NXD", on: "end", when: []guard{not(ended)}},
	{says: "end while creating: same not_before", from: "C", on: "end", when: []guard{not(ended)}, set: doom, then: sandbox.EffectInspect},
	{says: "end", from: "L", on: "end", when: []guard{not(ended)}, set: doomLive, more: killOwn, then: sandbox.EffectDestroy},
	{says: "idle: only where nobody works", from: "L", on: "idle", when: []guard{working}, refuse: sentinel(sandbox.ErrWorking)},
	{says: "idle, guarded in the same statement", from: "L", on: "idle", when: []guard{not(working)},
		set: doomLive, more: killOwnIdle, then: sandbox.EffectDestroy},

	{says: "the host is gone: no machine comes of the attempt", from: "C", on: "host gone", when: []guard{onThatHost}, set: bare},
	{says: "the host is gone: the machine is lost, and nothing is left to kill", from: "L", on: "host gone",
		when: []guard{onThatHost}, set: loseWithHost},
	{says: "the host is gone: so is what was to be destroyed", from: "D", on: "host gone", when: []guard{onThatHost}, set: destroyed},

	{says: "reopen clears ended, never the teardown", from: anyState, on: "reopen", when: []guard{ended}},
	{says: "nothing there to bury", from: "N", on: "deleted"},
	{says: "lost with its host: nothing to bury, for nobody could prove it", from: "X", on: "deleted", when: []guard{nameless}},
	{says: "the trigger", from: "X", on: "deleted", when: []guard{not(nameless)}, more: buryRow},
	{says: "the trigger", from: "CLD", on: "deleted", more: buryRow},
}

// twin matches the table naively and fills a. It returns how many edges fit.
func twin(g *given, clock time.Time, a *after) int {
	fit := edges(g)
	*a = after{}
	if len(fit) == 0 {
		a.refused = sandbox.ErrNotAllowed
		return 0
	}
	e := fit[0]
	if e.refuse != nil {
		a.refused = e.refuse(g)
		return len(fit)
	}
	a.row, a.then = g.row, e.then
	if e.set != nil {
		e.set(g, clock, &a.row)
	}
	if e.more != nil {
		e.more(g, clock, a)
	}
	if e.report != nil {
		a.report = e.report(g)
	}
	return len(fit)
}

// edges are those that fit. There must never be two.
func edges(g *given) (fit []*edge) {
	on, state := nameOf(g.event), anyState[g.row.State]
	for i := range table {
		e := &table[i]
		if e.on == on && strings.IndexByte(e.from, state) >= 0 && !slices.ContainsFunc(e.when, func(q guard) bool { return !q(g) }) {
			fit = append(fit, e)
		}
	}
	return fit
}

func (e *edge) String() string { return e.says }

func nameOf(e sandbox.Event) string {
	switch e := e.(type) {
	case sandbox.Ensure:
		return "ensure"
	case sandbox.NotSent:
		return "not sent"
	case sandbox.Unanswered:
		return "unanswered"
	case sandbox.Created:
		return "created"
	case sandbox.Attached:
		return "attached"
	case sandbox.Unreached:
		return "unreached"
	case sandbox.Observed:
		return "observed"
	case sandbox.Reopen:
		return "reopen"
	case sandbox.Deleted:
		return "deleted"
	case sandbox.HostGone:
		return "host gone"
	case sandbox.Stop:
		switch e.Why {
		case sandbox.StopEnd, sandbox.StopEnvironment: // the end of what owns it, whichever that is
			return "end"
		case sandbox.StopIdle:
			return "idle"
		}
	}
	return "something else"
}

// sorted is what order means for machines that were found.
func sorted(found []sandbox.Found, keep func(sandbox.Found) bool) []sandbox.Incarnation {
	var all []sandbox.Incarnation
	for _, m := range found {
		if keep(m) {
			all = append(all, m.Incarnation)
		}
	}
	slices.SortFunc(all, cmp.Compare[sandbox.Incarnation])
	return all
}
