package sandbox_test

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	simDeployment = "d"
	simGrace      = 5 * time.Second
)

// The host, and its end.

// here is the host we are on, empty where machines are bound to none.
func (s *sim) here() string {
	if !s.bound {
		return ""
	}
	return fmt.Sprint("host-", s.host)
}

// loseHost: the host burns down with all machines on it, with the requests
// they would have come from, and with whoever was at work there. We go on on another.
func (s *sim) loseHost() {
	s.logf("%s is lost", s.here())
	for _, v := range s.machines {
		s.die(v, false)
	}
	s.pending, s.procs = nil, nil
	s.host++
}

// operator tells of every host that is lost that it is gone, and strikes from
// the outbox what was on it: its word is the only proof there can be.
func (s *sim) operator() proc {
	for _, k := range s.keys() {
		if t := s.outbox[k]; t.Host != s.here() {
			delete(s.outbox, k)
			s.logf("outbox: generation %d, machine %q was on %s", k.Generation, k.Incarnation, t.Host)
		}
	}
	if n := s.load(); n.row.Host != "" && n.row.Host != s.here() {
		return s.happened(sandbox.HostGone{Host: n.row.Host})
	}
	return nil
}

// sweep buries old machines that nothing names, as DecideOrphan says. It
// kills none. Where names are unique nothing is ever left to it.
func (s *sim) sweep() proc {
	if s.caps.UniqueNames || s.now.Before(s.outage) {
		return nil
	}
	listed := s.list()
	n := s.load()
	buried := make([]bool, len(listed))
	for i, l := range listed {
		key, _ := l.Labelled(simDeployment)
		buried[i] = s.named(key.Generation, key.Incarnation, true)
	}
	return func() proc {
		for i, l := range listed {
			s.judge(n, l, buried[i])
		}
		return nil
	}
}

// judge commits what follows for one machine of a list, if the row is as it was read.
func (s *sim) judge(n snapshot, l sandbox.Listed, buried bool) {
	first := s.suspects[l.Ref.Incarnation]
	verdict, t := sandbox.DecideOrphan(
		sandbox.Orphan{Listed: l, Row: n.row, Buried: buried, FirstSeen: first},
		sandbox.OrphanFacts{Now: n.facts.Now, Deployment: simDeployment, Grace: simGrace, Caps: s.caps, Window: simWindow})
	switch verdict {
	case sandbox.OrphanForeign, sandbox.OrphanNamed:
		delete(s.suspects, l.Ref.Incarnation)
		return
	case sandbox.OrphanSuspected:
		if first.IsZero() {
			s.suspects[l.Ref.Incarnation] = n.facts.Now
		}
		return
	case sandbox.OrphanYoung:
		return
	}
	if n.session != s.session || s.exists && n.row.Version != s.row.Version || s.exists != (n.row.ID != "") {
		return
	}
	if found, ok := s.inspect(t.Generation, t.Incarnation); !ok || found == nil {
		return // a list may be stale: only what is still seen is buried
	}
	if s.row.State == sandbox.Live && s.row.Incarnation == t.Incarnation {
		s.violated("the sweep buries the live machine %s", t.Incarnation)
	}
	if v := s.vm(t.Incarnation); s.now.Before(v.born.Add(simWindow + s.caps.Horizon() + s.caps.Lag())) {
		s.violated("the sweep buries the machine %s, born only at %v", t.Incarnation, v.born)
	}
	s.bury(t)
	s.logf("the sweep buries machine %s of generation %d", t.Incarnation, t.Generation)
}

func (s *sim) vm(i sandbox.Incarnation) *vm {
	return s.machines[slices.IndexFunc(s.machines, func(v *vm) bool { return v.incarnation == i })]
}

// list is from a state that may be as old as the lag: the youngest are left out, some dead are shown.
func (s *sim) list() (all []sandbox.Listed) {
	seen := s.now.Add(-s.upTo(s.caps.Lag()))
	for _, v := range s.machines {
		if v.host != s.here() || v.born.After(seen) || !v.alive() && !v.died.After(seen) {
			continue
		}
		all = append(all, sandbox.Listed{
			Ref: sandbox.Ref{Name: sandbox.Name("bkr-key", v.generation), Incarnation: v.incarnation, Host: v.host},
			Labels: map[string]string{
				sandbox.LabelDeployment: simDeployment, sandbox.LabelSandbox: "s", sandbox.LabelGeneration: strconv.FormatInt(v.generation, 10),
			},
			Status: sandbox.StatusRunning, CreatedAt: v.born,
		})
	}
	return all
}
