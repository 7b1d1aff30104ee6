package sandbox_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"pgregory.net/rapid"
)

const (
	simLag     = 6 * time.Second
	simHorizon = 14 * time.Second
	simWindow  = 12 * time.Second // for the whole of a create; its caller waits 9 s for the answer
	simAnswer  = 9 * time.Second
)

// sim is one sandbox with everything that can go wrong around it: a store
// whose replies get lost, a provider that makes machines late and twice and
// sees old states, and processes that run in any order and die at any step.
type sim struct {
	*rapid.T
	caps  sandbox.Caps
	now   time.Time
	bound bool // caps.HostBound: machines are bound to the host that made them
	calm  bool // the faults have stopped
	steps []string

	exists, ended bool // the session
	session       int  // its version
	row           sandbox.Row
	outbox        map[sandbox.TombstoneKey]sandbox.Tombstone

	machines []*vm
	pending  []late
	outage   time.Time
	sent     map[int64]bool // creates, by generation
	nonces   int
	host     int // which of the hosts we are on; those before it are gone
	suspects map[sandbox.Incarnation]time.Time

	procs []proc
	// What was proven gone, and for a whole generation the machine that was spared.
	gone    map[sandbox.Incarnation]bool
	goneAll map[int64]sandbox.Incarnation
}

// proc does one atomic step and returns what is left of it.
type proc func() proc

type vm struct {
	incarnation       sandbox.Incarnation
	generation        int64
	host              string
	born, ready, died time.Time
}

// late is what a provider still does with a request it has taken.
type late struct {
	at time.Time
	do func()
}

func (s *sim) logf(format string, a ...any) {
	s.steps = append(s.steps, s.now.Format("04:05 ")+fmt.Sprintf(format, a...))
}

func (s *sim) violated(format string, a ...any) {
	s.Fatalf("%s\n%s", fmt.Sprintf(format, a...), strings.Join(s.steps, "\n"))
}

// pick is any of 0 to n-1, each as likely: rapid's own ranges prefer small
// numbers, and a schedule of small numbers has few accidents.
func (s *sim) pick(n int) int {
	const bits = 10
	v := 0
	for range bits {
		v *= 2
		if rapid.Bool().Draw(s.T, "bit") {
			v++
		}
	}
	return v * n >> bits
}

// chance is true in percent of 100 cases while there are faults.
func (s *sim) chance(percent int) bool { return !s.calm && s.pick(100) >= 100-percent }

func (s *sim) upTo(most time.Duration) time.Duration {
	if s.calm {
		return 0
	}
	return time.Duration(s.pick(int(most/time.Second)+1)) * time.Second
}

// The provider.

func (v *vm) alive() bool { return v.died.IsZero() }

func (s *sim) alive(i sandbox.Incarnation) bool {
	return slices.ContainsFunc(s.machines, func(v *vm) bool { return v.incarnation == i && v.alive() })
}

// die is the end of a machine; killed says that we asked for it.
func (s *sim) die(v *vm, killed bool) {
	if !v.alive() {
		return
	}
	v.died = s.now
	s.logf("machine %s of generation %d dies, killed %v", v.incarnation, v.generation, killed)
	if killed && s.exists && s.row.State == sandbox.Live && s.row.Incarnation == v.incarnation {
		s.violated("a machine was killed that the row names as live")
	}
}

type answer struct {
	heard       bool
	incarnation sandbox.Incarnation
}

// create begins a create, which may be carried out late, and twice where names are not unique.
func (s *sim) create(generation int64) *answer {
	if s.sent[generation] {
		s.violated("generation %d was asked for twice", generation)
	}
	s.sent[generation] = true
	a, lost := &answer{}, s.chance(15)
	born := 1
	if !s.caps.UniqueNames && s.chance(15) {
		born = 2
	}
	for n := range born {
		at := s.now.Add(s.upTo(3 * time.Second))
		if s.chance(35) {
			at = s.now.Add(s.upTo(simHorizon))
		}
		s.pending = append(s.pending, late{at, func() {
			v := &vm{incarnation: sandbox.Incarnation(fmt.Sprintf("i%d", len(s.machines))), generation: generation, host: s.here(), born: s.now, ready: s.now}
			if s.chance(20) {
				v.ready = s.now.Add(s.upTo(90 * time.Second))
			}
			s.machines = append(s.machines, v)
			s.logf("machine %s of generation %d is born", v.incarnation, generation)
			if n == 0 && !lost && !v.ready.After(s.now) {
				a.heard, a.incarnation = true, v.incarnation
			}
		}})
	}
	return a
}

// inspect answers from a state that may be as old as the lag.
func (s *sim) inspect(generation int64, i sandbox.Incarnation) (found []sandbox.Found, ok bool) {
	if s.now.Before(s.outage) || s.chance(5) {
		return nil, false
	}
	seen := s.now.Add(-s.upTo(s.caps.Lag()))
	for _, v := range s.machines {
		if (v.incarnation == i || i == "" && v.generation == generation) && v.host == s.here() && !v.born.After(seen) && (v.alive() || v.died.After(seen)) {
			f := sandbox.Found{Incarnation: v.incarnation, Status: sandbox.StatusRunning}
			if v.ready.After(seen) {
				f.Status = sandbox.StatusStarting
			}
			found = append(found, f)
		}
	}
	return found, true
}

func (s *sim) destroy(doomed []sandbox.Incarnation) {
	for _, i := range doomed {
		if s.now.Before(s.outage) || s.chance(10) {
			continue // it fails, and nobody knows how
		}
		for _, v := range s.machines {
			if v.incarnation == i && v.host == s.here() {
				s.pending = append(s.pending, late{s.now.Add(s.upTo(5 * time.Second)), func() { s.die(v, true) }})
			}
		}
	}
}

// The store.

type snapshot struct {
	row     sandbox.Row
	session int
	facts   sandbox.Facts
}

func (s *sim) load() snapshot {
	n := snapshot{row: s.row, session: s.session, facts: sandbox.Facts{
		Now: s.now, Ended: s.ended, Caps: s.caps, Window: simWindow, MaxWindow: 4 * simWindow,
	}}
	if !s.exists {
		n.row = sandbox.Row{}
	}
	return n
}

type outcome int

const (
	committed outcome = iota
	stale
	claimed
	unknown // it may have happened
)

// commit writes a step, and with it what also writes of the session.
func (s *sim) commit(n snapshot, step sandbox.Step, also func()) outcome {
	switch {
	case n.session != s.session, s.exists && n.row.Version != s.row.Version, !s.exists && n.row.ID != "":
		return stale
	case step.Unclaimed != "" && s.named(s.row.Generation, step.Unclaimed, false):
		return claimed
	case s.chance(2):
		return unknown
	}
	if step.Write {
		next := step.Stamps.Apply(step.Row, s.now)
		next.Version++
		s.checkEdge(s.row, next)
		if step.Stamps.Destroyed {
			s.proven(s.row.Generation, s.row.Incarnation, "")
		}
		s.row = next
	}
	for _, t := range step.Bury {
		s.bury(t.Stamped(s.now))
	}
	if also != nil {
		also()
		s.session++
	}
	s.logf("commit: %v, generation %d, machine %q, ended %v; %d in the outbox", s.row.State, s.row.Generation, s.row.Incarnation, s.ended, len(s.outbox))
	if s.chance(3) {
		return unknown
	}
	return committed
}

func (s *sim) bury(t sandbox.Tombstone) {
	if _, there := s.outbox[t.TombstoneKey]; !there {
		s.outbox[t.TombstoneKey] = t
	}
}

// named reports whether the outbox names the machine, if wide also as one of its generation.
func (s *sim) named(generation int64, i sandbox.Incarnation, wide bool) bool {
	for k := range s.outbox {
		if k.Incarnation == i || wide && k.Incarnation == "" && k.Generation == generation {
			return true
		}
	}
	return false
}

// What must always hold.

var edgesAllowed = map[sandbox.State][]sandbox.State{
	sandbox.None:       {sandbox.Creating},
	sandbox.Creating:   {sandbox.Creating, sandbox.None, sandbox.Live, sandbox.Destroying},
	sandbox.Live:       {sandbox.Live, sandbox.Lost, sandbox.Destroying},
	sandbox.Lost:       {sandbox.Creating},
	sandbox.Destroying: {sandbox.Destroying, sandbox.None, sandbox.Creating},
}

func (s *sim) checkEdge(from, to sandbox.Row) {
	begins := to.State == sandbox.Creating && from.State != sandbox.Creating
	switch {
	case !slices.Contains(edgesAllowed[from.State], to.State):
		s.violated("edge from %v to %v", from.State, to.State)
	case begins && to.Generation != from.Generation+1, !begins && to.Generation != from.Generation:
		s.violated("generation %d after %d, %v after %v", to.Generation, from.Generation, to.State, from.State)
	case from.State == sandbox.Live && to.State == sandbox.Lost && s.caps.Lag() > 0 && s.alive(from.Incarnation):
		s.violated("a machine that lives was taken for lost")
	}
}

// proven notes that something was declared gone. From now on it must stay so.
func (s *sim) proven(generation int64, i, spared sandbox.Incarnation) {
	if i != "" {
		s.gone[i] = true
	} else {
		s.goneAll[generation] = spared
	}
	s.checkGone()
}

func (s *sim) checkGone() {
	for _, v := range s.machines {
		spared, all := s.goneAll[v.generation]
		if v.alive() && (s.gone[v.incarnation] || all && v.incarnation != spared) {
			s.violated("machine %s of generation %d lives and was proven gone", v.incarnation, v.generation)
		}
	}
}

// advance lets time pass, second by second, and the provider work.
func (s *sim) advance(d time.Duration) {
	for range d / time.Second {
		s.now = s.now.Add(time.Second)
		for k := 0; k < len(s.pending); {
			if p := s.pending[k]; !p.at.After(s.now) {
				s.pending = slices.Delete(s.pending, k, k+1)
				p.do()
			} else {
				k++
			}
		}
		s.checkGone()
	}
}

func newSim(t *rapid.T, caps sandbox.Caps) *sim {
	return &sim{T: t, caps: caps, bound: caps.HostBound, now: now, suspects: map[sandbox.Incarnation]time.Time{}, exists: true, row: sandbox.Row{ID: "s", Version: 1},
		outbox: map[sandbox.TombstoneKey]sandbox.Tombstone{}, sent: map[int64]bool{},
		gone: map[sandbox.Incarnation]bool{}, goneAll: map[int64]sandbox.Incarnation{}}
}

// keys are those of the outbox, in a fixed order.
func (s *sim) keys() []sandbox.TombstoneKey {
	return slices.SortedFunc(maps.Keys(s.outbox), func(a, b sandbox.TombstoneKey) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

func TestMachinesUnderFaults(t *testing.T) {
	for _, unique := range []bool{true, false} {
		for _, lag := range []time.Duration{simLag, sandbox.Immediate} {
			// Half of the worlds have hosts that can be lost with all that is on them.
			caps := sandbox.Caps{UniqueNames: unique, VisibilityLag: lag, CreateHorizon: simHorizon, HostBound: unique == (lag == simLag)}
			t.Run(fmt.Sprintf("unique names %v, lag %v, bound %v", unique, caps.Lag(), caps.HostBound), func(t *testing.T) {
				rounds := 10
				if testing.Short() || raceEnabled {
					rounds = 2
				}
				for range rounds {
					rapid.Check(t, func(t *rapid.T) { newSim(t, caps).run() })
				}
			})
		}
	}
}
