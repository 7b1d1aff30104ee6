package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// edges are all that may ever be seen of a row's states.
var edges = map[sandbox.State][]sandbox.State{
	sandbox.None:       {sandbox.Creating},
	sandbox.Creating:   {sandbox.Creating, sandbox.None, sandbox.Live, sandbox.Destroying},
	sandbox.Live:       {sandbox.Live, sandbox.Lost, sandbox.Destroying},
	sandbox.Lost:       {sandbox.Creating, sandbox.Lost},
	sandbox.Destroying: {sandbox.Destroying, sandbox.None, sandbox.Creating},
}

// compare says what is wrong with the step from before to now that c was.
func (s *sim) compare(before state, c session.Change) {
	for id, old := range before.rows {
		row, there := s.state.rows[id]
		if old.State == sandbox.Live && (row.State != sandbox.Live || row.Incarnation != old.Incarnation) {
			s.given(old.Incarnation)
		}
		if !there {
			if t, ok := old.Buried(); ok {
				s.wantBuried(t.TombstoneKey, "its row was deleted")
				s.tell("deleted while " + old.State.String())
			}
			continue
		}
		if row.Version != old.Version {
			s.tell(old.State.String() + " to " + row.State.String())
			s.checkEdge(old, row)
		}
	}
	for key, t := range before.outbox {
		if _, there := s.state.outbox[key]; there {
			continue
		}
		row := s.state.rows[key.Sandbox]
		spared := sandbox.Incarnation("")
		if row.Generation == key.Generation { // its row sees to that one, or another entry does
			spared = row.Incarnation
		}
		s.proven(t.Name, key.Incarnation, spared)
		s.tell("tombstone proven")
	}
	names := map[sandbox.Incarnation]sandbox.ID{}
	for id, row := range s.state.rows {
		if row.State != sandbox.Live {
			continue
		}
		if other, twice := names[row.Incarnation]; twice {
			s.violated("one row", "sandboxes %s and %s both name machine %s", tip(other), tip(id), row.Incarnation)
		}
		names[row.Incarnation] = id
		key := sandbox.TombstoneKey{Sandbox: id, Generation: row.Generation, Incarnation: row.Incarnation}
		if _, doomed := s.state.outbox[key]; doomed {
			s.violated("rule 5", "the outbox names machine %s, which row %s names as live", row.Incarnation, tip(id))
		}
	}
	if next := c.Sandbox; next != nil && next.State == sandbox.Creating && before.rows[next.ID].Generation != next.Generation {
		if n := s.counted(next.Payer); n > s.limits.Machines {
			s.violated("rule 7", "machine %d of %s was begun, at most %d may", n, next.Payer, s.limits.Machines)
		}
	}
}

// counted is how many machines count against a payer's limit.
func (s *sim) counted(payer any) (n int) {
	for _, row := range s.state.rows {
		if any(row.Payer) == payer && row.State != sandbox.None && row.State != sandbox.Lost {
			n++
		}
	}
	for _, t := range s.state.outbox {
		if any(t.Payer) == payer {
			n++
		}
	}
	return n
}

func (s *sim) wantBuried(key sandbox.TombstoneKey, why string) {
	if _, there := s.state.outbox[key]; !there {
		s.violated("rule 3", "the outbox does not name generation %d of sandbox %s, machine %q: %s", key.Generation, tip(key.Sandbox), key.Incarnation, why)
	}
}

func (s *sim) checkEdge(old, row sandbox.Row) {
	begins := row.State == sandbox.Creating && old.State != sandbox.Creating
	key := sandbox.TombstoneKey{Sandbox: old.ID, Generation: old.Generation, Incarnation: old.Incarnation}
	switch {
	case !slices.Contains(edges[old.State], row.State):
		s.violated("rule 4", "edge of sandbox %s from %v to %v", tip(row.ID), old.State, row.State)
	case begins && row.Generation != old.Generation+1, !begins && row.Generation != old.Generation:
		s.violated("rule 2", "sandbox %s: generation %d after %d, %v after %v", tip(row.ID), row.Generation, old.Generation, row.State, old.State)
	case begins && s.state.closed[row.ID]:
		s.violated("rule 4", "sandbox %s has ended and gets a machine", tip(row.ID))
	case old.State == sandbox.Destroying && begins:
		s.wantBuried(key, "the next generation began")
	case old.State == sandbox.Destroying && row.State == sandbox.None:
		s.proven(old.Name, old.Incarnation, "")
	case old.State == sandbox.Creating && row.State == sandbox.None:
		s.proven(old.Name, "", "")
	case old.State == sandbox.Live && row.State == sandbox.Lost:
		if !s.lostWithHost(old) {
			s.wantBuried(key, "it was lost")
		}
		for _, m := range s.machines {
			if m.ref.Incarnation == old.Incarnation && m.alive() {
				s.violated("rule 6", "machine %v lives and was taken for lost", m)
			}
		}
	}
	if old.State == sandbox.Destroying && row.State == sandbox.Destroying && old.Incarnation != row.Incarnation {
		s.violated("rule 4", "sandbox %s: what is to be destroyed was %q and is %q", tip(row.ID), old.Incarnation, row.Incarnation)
	}
}

// given: a row names a machine as live no more.
func (s *sim) given(i sandbox.Incarnation) {
	for _, m := range s.machines {
		if m.ref.Incarnation == i {
			m.given = s.clock()
		}
	}
}

// proven: something was declared gone. It must be, and stay so.
func (s *sim) proven(name string, i, spared sandbox.Incarnation) {
	if i != "" {
		s.goneOne[i] = true
	} else {
		s.goneName[name] = spared
		for at, n := range s.creates {
			if at.name == name && at.host != s.gone && n > 0 {
				s.violated("rule 6", "%s was proven gone while a create of it is under way", short(name))
			}
		}
	}
	for _, m := range s.machines {
		if m.alive() && m.ref.Name == name && !m.stray && (m.ref.Incarnation == i || i == "" && m.ref.Incarnation != spared && !s.buried(m)) {
			s.violated("rule 6", "machine %v lives and was proven gone", m)
		}
	}
}

// buried reports whether the outbox names exactly this machine.
func (s *sim) buried(m *machine) bool {
	for key, t := range s.state.outbox {
		if t.Name == m.ref.Name && key.Incarnation == m.ref.Incarnation {
			return true
		}
	}
	return false
}

// checkBirth: what was proven gone stays so.
func (s *sim) checkBirth(m *machine) {
	if spared, gone := s.goneName[m.ref.Name]; gone && !m.stray && m.ref.Incarnation != spared {
		s.violated("rule 6", "machine %v is born after its generation was proven gone", m)
	}
	if s.goneOne[m.ref.Incarnation] {
		s.violated("rule 2", "machine %v was proven gone and has come back", m)
	}
}

// checkIntent: no provider call before its intent is committed.
func (s *sim) checkIntent(name string) {
	for _, row := range s.state.rows {
		if row.Name == name {
			return
		}
	}
	for _, t := range s.state.outbox {
		if t.Name == name {
			return
		}
	}
	if _, gone := s.goneName[name]; gone {
		return // whoever asks was paused for so long that it has been seen to
	}
	s.violated("rule 1", "machine %s is asked for, and nothing says so", short(name))
}

// checkKill: only what is destroying or in the outbox is ever killed.
func (s *sim) checkKill(m *machine) {
	if m.foreign {
		s.violated("rule 10", "a machine of somebody else was killed: %v", m)
		return
	}
	doomed := false
	for id, row := range s.state.rows {
		if row.Name != m.ref.Name {
			continue
		}
		if row.State == sandbox.Live && row.Incarnation == m.ref.Incarnation {
			s.violated("rule 4", "machine %v is killed while row %s names it as live", m, tip(id))
		}
		doomed = doomed || row.State == sandbox.Destroying && (row.Incarnation == "" || row.Incarnation == m.ref.Incarnation)
	}
	for key, t := range s.state.outbox {
		doomed = doomed || t.Name == m.ref.Name && (key.Incarnation == "" || key.Incarnation == m.ref.Incarnation)
	}
	if !doomed {
		s.violated("rule 4", "machine %v is killed, and nothing says that it is to be", m)
	}
	if age := s.clock().Sub(m.born); m.planted && age < window+horizon+s.world.caps.Lag() {
		s.violated("rule 10", "machine %v was nobody's for no more than %v and is killed", m, age)
	}
}

// checkDry: a pass that only looks does nothing.
func (s *sim) checkDry(ctx context.Context, what string) {
	if strings.HasPrefix(opOf(ctx), dry) {
		s.violated("dry run", "%s %s", opOf(ctx), what)
	}
}

// checkStart: a process is started under a lease and a hold that last.
func (s *sim) checkStart(r *replica, tag string) {
	if l, ok := s.workLease(tag); !ok || !s.clock().Before(l.Until.Add(-s.grace())) {
		s.violated("lease", "%v starts a process of work %s without a lease that lasts", r, tip(tag))
	}
	if !s.paid(tag) {
		s.violated("money", "%v starts a process of work %s without a hold that lasts", r, tip(tag))
	}
}

// grace is what must be left of a lease when its work has stopped.
func (s *sim) grace() time.Duration { return s.lease / 8 }

func (s *sim) workLease(holder string) (session.Lease, bool) {
	for k, l := range s.shadow {
		if k.kind == session.LeaseWork && k.holder == holder {
			return l, true
		}
	}
	return session.Lease{}, false
}

// check is what must hold of what runs.
func (s *sim) check() {
	s.procs = slices.DeleteFunc(s.procs, func(p *running) bool { return p.over() })
	for _, p := range s.procs {
		s.mu.Lock()
		runs := !p.r.dead && p.r.wake == nil
		s.mu.Unlock()
		l, held := s.workLease(p.tag)
		switch {
		case !held:
			s.violated("slots", "a process of work %s runs in machine %v, and nothing counts it", tip(p.tag), p.machine)
		case runs && !s.clock().Before(l.Until.Add(-s.grace())):
			s.violated("lease", "a process of work %s runs in machine %v and its lease is over in %v", tip(p.tag), p.machine, l.Until.Sub(s.clock()))
		case runs && !s.paid(p.tag) && !s.stopped(p.tag):
			s.violated("money", "a process of work %s runs in machine %v without a hold that lasts", tip(p.tag), p.machine)
		}
	}
	for work, j := range s.jobs {
		s.mu.Lock()
		at := j.at()
		s.mu.Unlock()
		l, held := s.workLease(work)
		switch {
		case !at:
		case !held || !s.clock().Before(l.Until.Add(-s.grace())):
			s.violated("lease", "work %s goes on and its lease is over in %v", tip(work), l.Until.Sub(s.clock()))
		case !s.paid(work):
			s.violated("money", "work %s goes on without a hold that lasts", tip(work))
		}
	}
}
