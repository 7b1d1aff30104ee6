package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// rounds is how often every keeper does its round at most before all agrees.
const rounds = 60

// converge ends the faults, lets the keepers do their rounds, and wants that
// everything agrees then.
func (s *sim) converge() {
	s.log("--- faults stop")
	s.calm, s.outage, s.throttled, s.bank.outage = true, time.Time{}, time.Time{}, time.Time{}
	s.wait()
	for _, r := range slices.Concat(s.replicas, s.old) {
		if r.wake != nil && !r.dead {
			s.wakeUp(r)
		}
	}
	s.finish(20 * time.Minute)
	if s.failed() {
		return
	}
	s.catchUp()
	if s.failed() {
		return
	}
	s.advance(2 * time.Minute) // what was put off has happened, what was born is ready
	var keepers []*replica
	for host := range s.world.hosts {
		if host != s.gone {
			keepers = append(keepers, s.replica(host))
		}
	}
	s.comeAgain(keepers)
	left := ""
	for range rounds {
		for _, k := range keepers {
			s.round(k)
		}
		if s.failed() {
			return
		}
		s.advance(45 * time.Second)
		if left = s.disagreement(); left == "" {
			break
		}
	}
	if left != "" {
		s.violated("rest", "after %d rounds of every keeper: %s", rounds, left)
		return
	}
	s.checkMoney()
}

// catchUp lets the processes that live account for what they could not when it was closed.
func (s *sim) catchUp() {
	for _, r := range slices.Concat(s.replicas, s.old) {
		if !r.dead {
			s.round(r)
		}
	}
}

// comeAgain lets a client look in at every session: that is how a machine that has vanished is found lost.
func (s *sim) comeAgain(keepers []*replica) {
	for range 3 {
		for _, id := range slices.Clone(s.sessions) {
			for _, k := range keepers {
				s.begin(k, "look "+tip(id)+" ", func(ctx context.Context) error {
					return visit{q: session.WorkRequest{Session: id}, patience: time.Minute}.in(ctx, s, k)
				})
				s.finish(5 * time.Minute)
			}
		}
		s.advance(time.Minute)
	}
}

// round is one round of a keeper: its own chores, and a sweep.
func (s *sim) round(k *replica) {
	s.begin(k, "serve", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return k.Serve(ctx)
	})
	s.finish(5 * time.Minute)
	s.begin(k, "sweep", func(ctx context.Context) error {
		_, err := k.Sweep(ctx, session.SweepOptions{Grace: sweepGrace})
		return err
	})
	s.finish(5 * time.Minute)
	if s.gone >= 0 {
		s.giveUpHost(k)
		s.finish(5 * time.Minute)
	}
	for n := range 2 { // expire, deliver
		s.bookkeep(k, n)
		s.finish(5 * time.Minute)
	}
}

// disagreement says what is not yet as it should be.
func (s *sim) disagreement() string {
	s.refresh()
	alive := map[sandbox.Incarnation]*machine{}
	for _, m := range s.machines {
		switch {
		case m.foreign && !m.alive() && m.host != s.gone:
			s.violated("rule 10", "machine %v of somebody else is gone", m)
		case m.alive() && !m.foreign:
			alive[m.ref.Incarnation] = m
		}
	}
	for id, row := range s.state.rows {
		switch {
		case row.State == sandbox.Creating || row.State == sandbox.Destroying:
			return fmt.Sprintf("sandbox %s is still %v", tip(id), row.State)
		case row.State == sandbox.Live && s.state.closed[id]:
			return fmt.Sprintf("sandbox %s has ended, and its row is live", tip(id))
		case row.State == sandbox.Live && alive[row.Incarnation] == nil:
			return fmt.Sprintf("sandbox %s names machine %s, which is not there", tip(id), row.Incarnation)
		}
		if row.State == sandbox.Live {
			delete(alive, row.Incarnation)
		}
	}
	for key := range s.state.outbox {
		return fmt.Sprintf("the outbox still has generation %d of sandbox %s, machine %q", key.Generation, tip(key.Sandbox), key.Incarnation)
	}
	for _, m := range s.machines {
		if alive[m.ref.Incarnation] != nil {
			return fmt.Sprintf("machine %v lives, and no row names it", m)
		}
	}
	for k, l := range s.shadow {
		if k.kind == session.LeaseWork {
			return fmt.Sprintf("session %s still has a slot, for work %s, until %v ago", tip(session.ID(k.name)), tip(k.holder), s.clock().Sub(l.Until))
		}
	}
	return s.unsettled()
}
