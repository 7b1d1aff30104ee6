package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

const deployment = "sim"

// machine is one machine, as it truly is.
type machine struct {
	ref     sandbox.Ref // as the provider tells it
	inner   sandbox.Ref // as drivers/memory knows it
	host    int
	labels  map[string]string
	born    time.Time
	ready   time.Time
	died    time.Time // zero = it lives
	given   time.Time // when its row named it as live no more
	blinded bool      // it was not seen once though it was there
	stray   bool      // it was born later than the provider declares: its request left a paused process
	foreign bool      // nobody of ours has made it
	planted bool      // it has our labels, and no row ever knew of it
	bytes   int64     // what its disk holds
}

func (m *machine) alive() bool { return m.died.IsZero() }

func (m *machine) String() string {
	return fmt.Sprintf("%s (%s)", m.ref.Incarnation, short(m.ref.Name))
}

// short is a machine's name without what is the same in all.
func short(name string) string {
	if at := strings.LastIndex(name, "-g"); at > 4 {
		return name[4:8] + name[at:]
	}
	return name
}

// running is a process that was started in a machine.
type running struct {
	r       *replica
	tag     string
	inner   sandbox.Process
	machine *machine
}

// over reports whether the process has ended.
func (p *running) over() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.inner.Wait(ctx)
	return !errors.Is(err, context.Canceled)
}

// newCloud makes the providers' machines, and some that are nobody's.
func (s *sim) newCloud() {
	s.creates = map[birthplace]int{}
	s.goneName, s.goneOne = map[string]sandbox.Incarnation{}, map[sandbox.Incarnation]bool{}
	for host := range s.world.hosts {
		o := &memory.SandboxOptions{Name: "cloud", Caps: &s.world.caps, Now: s.clock}
		if s.world.caps.HostBound {
			o.Host = fmt.Sprintf("host%d", host)
		}
		boxes := memory.NewSandboxes(o)
		boxes.Handle("work", func(ctx context.Context, _ *memory.Command) int { <-ctx.Done(); return 0 })
		s.boxes = append(s.boxes, boxes)
		for _, labels := range []map[string]string{nil, {sandbox.LabelDeployment: "another", sandbox.LabelSandbox: "x", sandbox.LabelGeneration: "1"}} {
			m, err := s.bear(host, sandbox.CreateRequest{Name: fmt.Sprintf("foreign-%d-%d", host, len(labels)), Labels: labels}, 0)
			if err != nil {
				s.Fatalf("a foreign machine: %v", err)
			}
			m.foreign = true
		}
	}
}

// bear makes a machine, or returns the one that stands in its way where names are unique.
func (s *sim) bear(host int, q sandbox.CreateRequest, starts time.Duration) (*machine, error) {
	if !s.world.duplicates {
		for _, m := range s.machines {
			if m.alive() && m.ref.Name == q.Name {
				return m, nil
			}
		}
	}
	q.Labels = maps.Clone(q.Labels)
	inner := q
	inner.Name = fmt.Sprintf("%s~%d", q.Name, len(s.machines))
	made, err := s.boxes[host].Create(context.Background(), inner)
	if err != nil {
		return nil, err
	}
	m := &machine{
		ref: made.Ref, inner: made.Ref, host: host, labels: q.Labels, born: s.clock(), ready: s.clock().Add(starts),
		bytes: int64(len(s.machines)%7) * 1500,
	}
	m.ref.Name, m.ref.Incarnation = q.Name, sandbox.Incarnation(fmt.Sprintf("m%d", len(s.machines)))
	s.machines = append(s.machines, m)
	s.log("machine %v is born", m)
	return m, nil
}

// seen reports whether who looks at the state of so long ago sees m.
func (s *sim) seen(m *machine, age time.Duration) bool {
	at := s.clock().Add(-age)
	return !m.born.After(at) && (m.alive() || m.died.After(at))
}

func (s *sim) status(m *machine) sandbox.Status {
	if m.ready.After(s.clock()) {
		return sandbox.StatusStarting
	}
	for _, in := range s.boxes[m.host].Machines() {
		if in.Incarnation == m.inner.Incarnation {
			return in.Status
		}
	}
	return sandbox.StatusRunning
}

// named are the machines that ref names, of the host.
func (s *sim) named(host int, ref sandbox.Ref) (all []*machine) {
	for _, m := range s.machines {
		if m.host == host && (ref.Incarnation != "" && m.ref.Incarnation == ref.Incarnation || ref.Incarnation == "" && m.ref.Name == ref.Name) {
			all = append(all, m)
		}
	}
	return all
}

// die is the end of a machine. asked says that we had it destroyed.
func (s *sim) die(m *machine, asked bool) {
	if !m.alive() {
		return
	}
	if asked {
		s.checkKill(m)
		_ = s.boxes[m.host].Destroy(context.Background(), m.inner)
	} else {
		s.boxes[m.host].Kill(m.inner.Incarnation)
	}
	m.died = s.clock()
	s.log("machine %v dies, asked for: %v", m, asked)
	if m.planted && asked {
		s.tell("orphan swept")
	}
	if m.stray && asked {
		s.tell("stray killed")
	}
}

// later has something done in so long. The scheduler does it.
func (s *sim) later(d time.Duration, do func()) {
	if d <= 0 {
		do()
		return
	}
	s.dues++
	s.due = append(s.due, due{time.Now().Add(d), s.dues, do})
	slices.SortFunc(s.due, func(a, b due) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.n - b.n
	})
}

// birthplace is where a machine of that name is being made.
type birthplace struct {
	host int
	name string
}

// due is something that will be done.
type due struct {
	at time.Time
	n  int
	do func()
}

// birth is what a create does, in time.
func (s *sim) birth(host int, q sandbox.CreateRequest, stray bool, starts time.Duration) *machine {
	m, err := s.bear(host, q, starts)
	if err != nil {
		s.Fatalf("a machine could not be made: %v", err)
	}
	if stray {
		m.stray = true
		s.tell("stray")
	}
	s.checkBirth(m)
	return m
}
