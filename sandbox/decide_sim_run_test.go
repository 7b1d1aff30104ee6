package sandbox_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// The processes: what a runner does with the decider's answers.

func (s *sim) start(p proc) { s.procs = append(s.procs, p) }

// ensure wants a machine. After a commit without a reply it looks and decides again, with its old nonce.
func (s *sim) ensure(nonce string, accepted int64) proc {
	n := s.load()
	n.facts.LossAccepted = accepted
	if n.row.ID == "" {
		return nil
	}
	step, err := sandbox.Decide(n.row, n.facts, sandbox.Ensure{Nonce: nonce, Caps: s.caps, Host: s.here(), Key: "bkr-key", Payer: "p", Deployment: simDeployment})
	if lost := (*sandbox.LostError)(nil); errors.As(err, &lost) && accepted == 0 {
		return func() proc { return s.ensure(nonce, lost.Generation) }
	}
	if err != nil {
		return nil
	}
	return func() proc {
		switch {
		case !step.Write:
		case s.commit(n, step, nil) != committed:
			return func() proc { return s.ensure(nonce, accepted) }
		default:
			n = s.load()
		}
		switch step.Then {
		case sandbox.EffectCreate:
			return func() proc { return s.send(n.row) }
		case sandbox.EffectAttach:
			return func() proc { return s.attach(n) }
		}
		return func() proc { return s.look(n, false) }
	}
}

// send asks for the machine, unless the deadline has passed, and waits for the answer.
func (s *sim) send(row sandbox.Row) proc {
	if !s.now.Before(row.Deadline) || s.chance(10) {
		return func() proc { return s.happened(sandbox.NotSent{Nonce: row.Nonce}) }
	}
	s.logf("create of generation %d is sent", row.Generation)
	a, until := s.create(row.Generation), s.now.Add(simAnswer)
	var wait proc
	wait = func() proc {
		switch {
		case a.heard:
			as, _ := row.Buried()
			as.Incarnation, as.NotBefore = a.incarnation, time.Time{}
			return s.happened(sandbox.Created{As: as})
		case s.now.After(until):
			return s.happened(sandbox.Unanswered{})
		}
		return wait
	}
	return wait
}

// happened commits what was heard, decided anew for as long as others write first.
func (s *sim) happened(e sandbox.Event) proc {
	n := s.load()
	step, err := sandbox.Decide(n.row, n.facts, e)
	if err != nil || !step.Write && step.Bury == nil {
		return nil
	}
	return func() proc {
		if o := s.commit(n, step, nil); o == stale || o == unknown {
			return func() proc { return s.happened(e) }
		}
		return s.killing(step.Kill)
	}
}

func (s *sim) killing(doomed []sandbox.Incarnation) proc {
	if doomed == nil {
		return nil
	}
	return func() proc { s.destroy(doomed); return nil }
}

func (s *sim) attach(n snapshot) proc {
	if n.row.Host != s.here() {
		return nil // only the other host can tell
	}
	found, ok := s.inspect(n.row.Generation, n.row.Incarnation)
	switch {
	case !ok:
		return s.happened(sandbox.Unreached{})
	case found == nil:
		return func() proc { return s.look(n, false) }
	}
	return s.happened(sandbox.Attached{})
}

// look asks the provider and decides about the row and the clock from before
// it asked. Where somebody else wrote meanwhile, the answer is thrown away: it
// is about a row that is no more.
func (s *sim) look(n snapshot, stray bool) proc {
	found, ok := s.inspect(n.row.Generation, n.row.Incarnation)
	if !ok {
		return nil
	}
	if stray && s.caps.Lag() == 0 && s.chance(10) {
		found = nil // the provider errs: to be missed must not be taken for dead
	}
	return func() proc {
		step, err := sandbox.Decide(n.row, n.facts, sandbox.Observed{Generation: n.row.Generation, Incarnation: n.row.Incarnation, Host: s.here(), Found: found})
		if err != nil || step.Write && s.commit(n, step, nil) != committed {
			return nil
		}
		return s.killing(step.Kill)
	}
}

// stop ends what the sandbox belongs to, or the machine only.
func (s *sim) stop(why sandbox.StopReason) proc {
	n := s.load()
	if n.facts.SlotsLive = s.chance(30); n.row.ID == "" {
		return nil
	}
	step, err := sandbox.Decide(n.row, n.facts, sandbox.Stop{Why: why})
	if err != nil {
		return nil
	}
	return func() proc {
		var also func()
		if why != sandbox.StopIdle {
			also = func() { s.ended = true }
		}
		switch s.commit(n, step, also) {
		case stale, unknown:
			return func() proc { return s.stop(why) }
		}
		return s.killing(step.Kill)
	}
}

func (s *sim) reopen() proc {
	n := s.load()
	step, err := sandbox.Decide(n.row, n.facts, sandbox.Reopen{})
	if err != nil {
		return nil
	}
	return func() proc { s.commit(n, step, func() { s.ended = false }); return nil }
}

// remove deletes the row, as its trigger would.
func (s *sim) remove() proc {
	if t, ok := s.row.Buried(); ok && s.exists {
		s.bury(t)
	}
	s.exists = false
	s.row = sandbox.Row{}
	s.logf("row deleted; %d in the outbox", len(s.outbox))
	return nil
}

// reconcile carries on what others began.
func (s *sim) reconcile() proc {
	for _, k := range s.keys() {
		s.start(func() proc { return s.dig(k) })
	}
	if n := s.load(); n.row.State == sandbox.Destroying || n.row.State == sandbox.Creating && !s.now.Before(n.row.Deadline) {
		return s.look(n, false)
	} else if n.row.State == sandbox.Live {
		return s.look(n, true)
	}
	return nil
}

// dig makes one pass over one entry of the outbox.
func (s *sim) dig(k sandbox.TombstoneKey) proc {
	t, there := s.outbox[k]
	n := s.load()
	found, ok := s.inspect(k.Generation, k.Incarnation)
	if !there || !ok {
		return nil
	}
	return func() proc {
		var live sandbox.Incarnation
		if n.row.State == sandbox.Live {
			live = n.row.Incarnation
		}
		step, err := sandbox.DecideTombstone(t, n.facts, live, s.here(), found)
		if now, there := s.outbox[k]; err != nil || !there || now.Attempts != t.Attempts {
			if errors.Is(err, sandbox.ErrNotAllowed) && s.row.State == sandbox.Live && s.row.Incarnation == k.Incarnation {
				s.violated("the outbox names the live machine %s", k.Incarnation)
			}
			return nil
		}
		if step.Proven {
			delete(s.outbox, k)
			s.logf("outbox: generation %d, machine %q is proven gone", k.Generation, k.Incarnation)
			s.proven(k.Generation, k.Incarnation, live)
			return nil
		}
		s.outbox[k] = t.Marked(step, "").Stamped(s.now)
		return s.killing(step.Kill)
	}
}

// run lets things happen in any order, then without faults until all is settled.
func (s *sim) run() {
	for range 50 + s.pick(450) {
		switch x := s.pick(100); {
		case x < 20 && len(s.procs) < 6:
			s.start(s.something())
		case x < 40:
			s.advance(time.Duration(1+x%4) * time.Second)
		case x < 42 && len(s.procs) > 0: // a process dies
			k := x % len(s.procs)
			s.procs = slices.Delete(s.procs, k, k+1)
		case x == 42:
			s.outage = s.now.Add(s.upTo(30 * time.Second))
		case x == 43 && len(s.machines) > 0: // a machine breaks by itself
			s.die(s.machines[len(s.machines)-1], false)
		case x == 44 && s.bound && s.chance(50):
			s.loseHost()
		case len(s.procs) > 0:
			s.resume(x % len(s.procs))
		}
	}
	s.logf("the faults stop")
	s.calm, s.outage = true, time.Time{}
	s.settle()
	s.checkSettled()
	if s.exists { // and it is still good for work
		s.ended = false
		for pass := 0; s.row.State != sandbox.Live && pass < 60; pass++ {
			s.start(func() proc { return s.ensure(s.nonce(), 0) })
			s.settle()
		}
		if s.row.State != sandbox.Live {
			s.violated("no machine can be had any more")
		}
		s.checkSettled()
	}
}

func (s *sim) nonce() string { s.nonces++; return fmt.Sprint("n", s.nonces) }

func (s *sim) something() proc {
	switch x := s.pick(1000); {
	case x < 450:
		nonce := s.nonce()
		return func() proc { return s.ensure(nonce, 0) }
	case x < 700:
		return s.reconcile
	case x < 740:
		return func() proc { return s.stop(sandbox.StopEnd) }
	case x < 780:
		return func() proc { return s.stop(sandbox.StopEnvironment) }
	case x < 900:
		return s.reopen
	case x < 940:
		return func() proc { return s.stop(sandbox.StopIdle) }
	case x < 980:
		return s.sweep
	case x < 998:
		return s.operator
	}
	return s.remove
}

func (s *sim) resume(k int) {
	if next := s.procs[k](); next != nil {
		s.procs[k] = next
	} else {
		s.procs = slices.Delete(s.procs, k, k+1)
	}
}

// settle lets all processes end, and makes passes until nothing is left to do.
func (s *sim) settle() {
	for pass := 0; pass < 40 && (pass < 3 || s.unsettled() != ""); pass++ {
		for n := 0; len(s.procs) > 0 && n < 2000; n++ {
			s.resume(n % len(s.procs))
			if n%3 == 0 {
				s.advance(time.Second)
			}
		}
		s.advance(10 * time.Second)
		s.start(s.reconcile)
		s.start(s.sweep)
		s.start(s.operator)
	}
}

func (s *sim) checkSettled() {
	if what := s.unsettled(); what != "" {
		s.violated("not settled: %s", what)
	}
}

func (s *sim) unsettled() string {
	live, there := s.exists && s.row.State == sandbox.Live, false
	for _, v := range s.machines {
		if v.alive() && !(live && s.row.Incarnation == v.incarnation) {
			return fmt.Sprintf("machine %s of generation %d is left over", v.incarnation, v.generation)
		}
		there = there || v.alive()
	}
	switch {
	case len(s.outbox) > 0:
		return fmt.Sprintf("outbox %v", s.keys())
	case live && s.ended:
		return "a machine of an ended session"
	case live && !there:
		return "the live machine is dead"
	case s.exists && (s.row.State == sandbox.Creating || s.row.State == sandbox.Destroying):
		return "row stays " + s.row.State.String()
	}
	return ""
}
