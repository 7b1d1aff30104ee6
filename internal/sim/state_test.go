package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// state is what the store holds of machines.
type state struct {
	rows   map[sandbox.ID]sandbox.Row
	closed map[sandbox.ID]bool // what it belongs to has ended, or was deleted
	outbox map[sandbox.TombstoneKey]sandbox.Tombstone
}

type leaseKey struct {
	kind         session.LeaseKind
	name, holder string
}

// told is a change in short.
func told(c session.Change) string {
	text := ""
	add := func(is bool, format string, args ...any) {
		if is {
			text += fmt.Sprintf(format, args...) + "; "
		}
	}
	if v := c.Session; v != nil {
		add(true, "session %s ends %v/%v", tip(v.ID), v.Ended(), c.End)
	}
	if v := c.Environment; v != nil {
		add(true, "environment %s goes %v", tip(v.ID), c.Retire)
	}
	if v := c.Sandbox; v != nil {
		add(true, "sandbox %s v%d %v g%d %s", tip(v.ID), v.Version, v.State, v.Generation, v.Incarnation)
	}
	if v := c.Conversation; v != nil {
		add(true, "conversation %s", tip(v.ID))
	}
	for _, t := range c.Bury {
		add(true, "bury %s", grave(t))
	}
	for _, t := range c.Mark {
		add(true, "mark %s, absent %v", grave(t), t.Absent || !t.AbsentSince.IsZero())
	}
	for _, t := range c.Prove {
		add(true, "PROVE %s", grave(t))
	}
	add(len(c.Waited) > 0, "waited %d", len(c.Waited))
	add(c.Idle != "", "if idle")
	for _, a := range c.Delete {
		add(true, "delete %s%s%s", tip(a.Session), tip(a.Environment), tip(a.Conversation))
	}
	return text
}

func grave(t sandbox.Tombstone) string {
	return fmt.Sprintf("%s g%d %q", tip(t.Sandbox), t.Generation, t.Incarnation)
}

// tip is the part of an id that tells it from others.
func tip[T ~string](id T) string {
	if len(id) < 12 {
		return string(id)
	}
	return string(id[6:8]) + string(id[len(id)-3:])
}

// commit writes a change and compares what there is then with the rules.
func (s *sim) commit(ctx context.Context, r *replica, c session.Change) (time.Time, error) {
	at, err := s.store.Commit(ctx, c)
	s.log("  commit: %s", class(err))
	s.tell("commit " + class(err))
	if err != nil {
		return at, err
	}
	if v := c.Session; v != nil && v.Version == 0 {
		s.sessions = append(s.sessions, v.ID)
		s.loans[v.ID], s.owners[v.ID] = v.Environment, v.Project
	}
	if v := c.Environment; v != nil && v.Version == 0 {
		s.environments = append(s.environments, v.ID)
		s.projects[v.ID] = v.Project
	}
	if c.Idle != "" {
		s.checkIdle(c.Idle)
	}
	before := s.state
	s.refresh()
	s.compare(before, c)
	return at, nil
}

// checkIdle: what is stopped for being idle is worked in by nobody.
func (s *sim) checkIdle(id sandbox.ID) {
	s.tell("idle stop")
	for k, l := range s.shadow {
		if k.kind == session.LeaseWork && l.Sandbox == id {
			s.violated("rule 11", "sandbox %s is stopped as idle, and work %s has a lease in it", tip(id), tip(k.holder))
		}
	}
}

// refresh reads the state.
func (s *sim) refresh() {
	ctx := context.Background()
	next := state{rows: map[sandbox.ID]sandbox.Row{}, closed: map[sandbox.ID]bool{}, outbox: map[sandbox.TombstoneKey]sandbox.Tombstone{}}
	load := func(a session.Address) bool {
		n, err := s.store.Load(ctx, a)
		switch {
		case errors.Is(err, session.ErrNotFound):
			return false
		case err != nil:
			s.Fatalf("Load: %v", err)
		case n.Sandbox.ID == "":
			s.violated("rows", "%+v has no sandbox", a)
			return true
		}
		next.rows[n.Sandbox.ID] = n.Sandbox
		if a.Environment != "" || n.Sandbox.Session != "" {
			next.closed[n.Sandbox.ID] = n.Session.Ended() || n.Environment.Deleted()
		}
		return true
	}
	s.sessions = slices.DeleteFunc(s.sessions, func(id session.ID) bool { return !load(session.Address{Session: id}) })
	s.environments = slices.DeleteFunc(s.environments, func(id session.EnvironmentID) bool { return !load(session.Address{Environment: id}) })
	var hosts []string
	for _, b := range s.boxes {
		hosts = append(hosts, b.Info().Host)
	}
	for due, err := range s.store.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Hosts: hosts, Limit: 1000}) {
		if err != nil {
			s.Fatalf("Due: %v", err)
		}
		next.outbox[due.Tombstone.TombstoneKey] = due.Tombstone
	}
	s.state = next
}

// granted notes a lease that was had, on the store's clock.
func (s *sim) granted(r *replica, op string, l session.Lease) {
	s.shadow[leaseKey{l.Kind, l.Name, l.Holder}] = l
	if l.Kind != session.LeaseWork {
		return
	}
	s.job(r, op, l.Holder)
	slots := map[string]bool{}
	for k, held := range s.shadow {
		if k.kind == session.LeaseWork && held.Payer == l.Payer {
			slots[k.name] = true
		}
	}
	if len(slots) > s.limits.Slots {
		s.violated("slots", "%d sessions of %s are worked in or drain, at most %d may", len(slots), l.Payer, s.limits.Slots)
	}
}

// released notes that a lease was given up: nothing of its work may run any more.
func (s *sim) released(l session.Lease) {
	key := leaseKey{l.Kind, l.Name, l.Holder}
	if s.shadow[key].Fence != l.Fence {
		return
	}
	delete(s.shadow, key)
	if l.Kind != session.LeaseWork {
		return
	}
	for _, p := range s.procs {
		if p.tag == l.Holder && !p.over() {
			s.violated("slots", "the slot of work %s was freed while a process of it runs in machine %v", tip(l.Holder), p.machine)
		}
	}
}
