//go:build linux

package mount_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// step is one throw of the dice.
func (s *sim) step() {
	s.wait()
	time.Sleep(simBlink)
	switch x := s.rnd.IntN(1000); {
	case x < 150:
		s.operate()
	case x < 250:
		s.advance(s.upTo(2 * time.Second))
	case x < 275 && len(s.eligible()) == 0:
		s.advance(s.upTo(time.Minute))
	case x >= 275 && x < 280:
		s.advance(s.upTo(4 * time.Minute))
	case x >= 280 && x < 286:
		s.crash()
	case x >= 286 && x < 290:
		s.outage = time.Now().Add(s.upTo(30 * time.Second))
		s.log("the bucket can't be reached until %v", s.outage.Sub(s.began))
	case x >= 290 && x < 293:
		s.tableBroken = time.Now().Add(s.upTo(20 * time.Second))
		s.log("the kernel's list can't be read until %v", s.tableBroken.Sub(s.began))
	case x >= 293 && x < 299:
		s.mu.Lock()
		s.noMinter, s.minterWay, s.minterBad = time.Now().Add(s.life/2+s.upTo(s.life)), s.rnd.IntN(minterWays), time.Now()
		s.add("the minter fails (%d) until %v", s.minterWay, s.noMinter.Sub(s.began))
		s.mu.Unlock()
	case x >= 299 && x < 318:
		s.befall()
	default:
		if all := s.eligible(); len(all) > 0 {
			c := all[s.rnd.IntN(len(all))]
			s.release(c, s.draw(c))
		} else {
			s.advance(s.upTo(20 * time.Second))
		}
	}
}

// draw says what befalls a call.
func (s *sim) draw(c *simCall) (v simVerdict) {
	n := s.rnd.IntN(100)
	switch c.method {
	case "serve":
		v.deaf = n < 12
		if n >= 90 {
			v.fail = errSimOutage
		}
		if s.chance(25) {
			v.late = s.upTo(20 * time.Second)
		}
	case "stop":
		if n < 10 {
			v.fail = errSimOutage
		}
		v.lose = n >= 10 && n < 16
	case "unmount", "bind":
		if n < 8 {
			v.fail = errSimOutage
		}
	case "unbind":
		if n < 4 {
			v.fail = errSimOutage
		}
	case "list", "abort", "release", "serving late":
	case "Gone":
		if n < 5 {
			v.fail = errSimOutage
		}
	default: // of the store, the bucket, the host's directory
		if n < 5 {
			v.fail = errSimOutage
		}
		v.lose = n >= 5 && n < 10
	}
	return v
}

// befall is what happens to what serves a folder by itself.
func (s *sim) befall() {
	s.mu.Lock()
	var alive []*simServing
	for _, v := range s.servings {
		if !v.over && !v.p.dead {
			alive = append(alive, v)
		}
	}
	s.mu.Unlock()
	if len(alive) == 0 {
		return
	}
	v := alive[s.rnd.IntN(len(alive))]
	switch n := s.rnd.IntN(10); {
	case n < 4:
		go func() { _ = v.renewer.Stop(context.Background()) }()
		v.die(errSimOutage)
	case n < 8:
		v.hang()
		if s.chance(60) {
			s.later(s.upTo(40*time.Second), func() { v.let(false) })
		}
	default:
		v.let(false)
	}
	s.wait()
}

// crash kills a process; another takes its place.
func (s *sim) crash() {
	at := s.rnd.IntN(len(s.processes))
	s.kill(s.processes[at])
	s.processes[at] = s.process()
}

// simMost is how much is under way at most.
const simMost = 8

// operate starts something that somebody does.
func (s *sim) operate() {
	ready := s.ready()
	s.mu.Lock()
	busy := 0
	for _, p := range s.ops {
		if !p.dead {
			busy++
		}
	}
	s.mu.Unlock()
	if len(ready) == 0 || busy >= simMost {
		return
	}
	p := ready[s.rnd.IntN(len(ready))]
	switch n := s.rnd.IntN(40); {
	case n < 22:
		s.work(p)
	case n < 24:
		s.byHand(p)
	case n < 30:
		s.begin(p, "collect", func(ctx context.Context) error {
			_, err := p.collector.Collect(ctx, mount.CollectOptions{})
			return err
		})
	case n < 32:
		s.begin(p, "sweep", func(ctx context.Context) error { _, _, err := p.purger.Sweep(ctx, "", mount.MaxListed); return err })
	case n < 36:
		s.comeOrGo()
	case n == 36:
		s.begin(p, "archive", func(ctx context.Context) error { return p.archive(ctx) })
	case n == 37 && s.chance(30):
		s.close("old")
		s.purge(p, "old")
	case n == 38:
		s.shutDown(p)
	}
}

// comeOrGo has an agent deleted, or come back. Of a project that is being purged nobody comes back.
func (s *sim) comeOrGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	agent := slices.Sorted(maps.Keys(s.owners))[s.rnd.IntN(len(s.owners))]
	o := s.owners[agent]
	if s.closing[o.project] {
		return
	}
	o.gone, o.since = !o.gone, s.clock()
	s.add("agent %s is gone: %v", agent, o.gone)
}

// archive has a user put a folder away.
func (p *simProcess) archive(ctx context.Context) error {
	rows, err := simStore{p.store, p}.Scan(ctx, "", mount.MaxListed)
	if err != nil || len(rows) == 0 {
		return err
	}
	is := true
	_, err = simStore{p.store, p}.Update(ctx, rows[0].ID, mount.Change{By: "ann", Archived: &is})
	return err
}

// close ends a project: nobody works there any more.
func (s *sim) close(project access.ProjectID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing[project] = true
	for _, o := range s.owners {
		if o.project == project && !o.gone {
			o.gone, o.since = true, s.clock()
		}
	}
}

// purge deletes all of a project once the works in it have ended, as who ends a project does.
func (s *sim) purge(p *simProcess, project access.ProjectID) {
	s.begin(p, "purge", func(ctx context.Context) error {
		for s.worked(project) {
			if err := p.nap(ctx, 5*time.Second); err != nil {
				return err
			}
		}
		scope, err := mount.ScopeOf(project, "")
		if err != nil {
			return err
		}
		for {
			if n, err := p.purger.DeleteScope(ctx, scope, 2); err != nil || n == 0 {
				return err
			}
		}
	})
}

// worked reports whether anything is under way for somebody of a project.
func (s *sim) worked(project access.ProjectID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.ops {
		agent, work := strings.CutPrefix(name, "work of ")
		if !work || p.dead {
			continue
		}
		agent, _, _ = strings.Cut(agent, " ")
		if s.owners[access.AgentID(agent)].project == project {
			return true
		}
	}
	return false
}

// shutDown closes a process in good order, once nobody works there any more, and starts another.
func (s *sim) shutDown(p *simProcess) {
	s.mu.Lock()
	p.drains = true
	s.mu.Unlock()
	s.begin(p, "close", func(ctx context.Context) error {
		for {
			s.mu.Lock()
			busy := -1 // this one
			for _, other := range s.ops {
				if other == p {
					busy++
				}
			}
			s.mu.Unlock()
			if busy == 0 {
				break
			}
			if err := p.nap(ctx, 5*time.Second); err != nil {
				return err
			}
		}
		for p.host.Close(ctx) != nil {
			if err := p.nap(ctx, 10*time.Second); err != nil {
				return err
			}
		}
		s.tell("closed")
		return nil
	})
	for at := range s.processes {
		if s.processes[at] == p {
			s.old = append(s.old, p)
			s.processes[at] = s.process()
		}
	}
}

// byHand has a user write to another folder of an agent, past every mount.
func (s *sim) byHand(p *simProcess) {
	agent, ok := s.present()
	if !ok {
		return
	}
	s.begin(p, fmt.Sprintf("work of %s by hand ", agent), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		row, err := p.folders.GetOrCreate(ctx, mount.Folder{Project: s.owners[agent].project, Agent: agent, Name: "notes"}, "ann")
		if err != nil {
			return err
		}
		d, err := p.files.Folder(row)
		if err != nil {
			return err
		}
		name, _ := ctx.Value(simOp{}).(string)
		name = strings.ReplaceAll(name, " ", "-")
		if _, err := d.Write(ctx, name, strings.NewReader(name), nil); err != nil {
			return err
		}
		p.acknowledge(row.ID, name)
		return nil
	})
}

// present is one of the agents that are there.
func (s *sim) present() (access.AgentID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var there []access.AgentID
	for agent, o := range s.owners {
		if !o.gone {
			there = append(there, agent)
		}
	}
	if len(there) == 0 {
		return "", false
	}
	slices.Sort(there)
	return there[s.rnd.IntN(len(there))], true
}

// work is somebody's work in a session: it has the agent's folder carried,
// writes to it now and then, and gives it up.
func (s *sim) work(p *simProcess) {
	agent, ok := s.present()
	if !ok {
		return
	}
	session := access.SessionID(fmt.Sprint("m", s.rnd.IntN(2)))
	patience := s.upTo(time.Minute)
	var naps []time.Duration
	for range s.rnd.IntN(5) {
		naps = append(naps, s.upTo(25*time.Second)) // all of them are shorter than what a folder waits for
	}
	q := mount.Request{Session: session, Project: s.owners[agent].project, Owner: "ann", Agent: agent}
	s.begin(p, fmt.Sprintf("work of %s in %s ", agent, session), func(ctx context.Context) error {
		q.Run, _ = ctx.Value(simOp{}).(string)
		return p.visit(ctx, q, patience, naps)
	})
}

func (p *simProcess) visit(ctx context.Context, q mount.Request, patience time.Duration, naps []time.Duration) error {
	box := p.open(q.Session)
	carrying, cancel := context.WithCancel(ctx)
	impatient := time.AfterFunc(patience, cancel)
	c, err := p.manager.Carry(carrying, box, q)
	impatient.Stop()
	cancel()
	if err != nil {
		_ = box.Close()
		return err
	}
	o := c.Outcomes[0]
	p.mu.Lock()
	p.note("  %s: %s of %s (%s)", q.Run, o.State, q.Agent, simClass(o.Cause))
	p.mu.Unlock()
	p.tell("carried: " + o.State.String())
	if o.State == mount.Mounted {
		w := p.atWork(q, o, box)
		for n, d := range naps {
			if err := p.nap(ctx, d); err != nil {
				return err
			}
			p.writes(ctx, w, box, o.Path, fmt.Sprintf("%s-%d", strings.ReplaceAll(q.Run, " ", "-"), n))
		}
		p.mu.Lock()
		delete(p.works, q.Run)
		p.mu.Unlock()
	}
	// As who works with machines does: what can't be released with the handle
	// open, and then with it closed, is nobody's but the manager's.
	if c.Release(ctx) == nil {
		return box.Close()
	}
	_ = box.Close()
	if c.Release(ctx) != nil {
		p.tell("given up by its work")
	}
	return nil
}

// atWork notes a work: its owner may be gone by now, but not for long.
func (p *simProcess) atWork(q mount.Request, o mount.Outcome, box *simBox) *simWork {
	dir, err := box.dir(o.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := o.Row.ID
	w := &simWork{p: p, mount: id, carried: time.Now(), seen: p.seen[fmt.Sprint(p, id)]}
	if m := p.top(dir); err == nil && m != nil {
		w.serving = m.serving
	}
	p.works[q.Run] = w
	n := 0
	for _, other := range p.works {
		if other.p == p && other.mount == id {
			n++
		}
	}
	if n > 1 {
		p.tally["two works on one folder"]++
	}
	return w
}

// writes writes a file as a program in the sandbox does, which waits for some seconds.
func (p *simProcess) writes(ctx context.Context, w *simWork, box *simBox, at, name string) {
	dir, err := box.dir(at)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err = p.write(bounded, w, dir, name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note("  writes %s: %v", name, err == nil)
}
