package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	// minIdle is the shortest Config.IdleAfter: activity is noted once a minute.
	minIdle   = time.Minute
	idleEvery = time.Minute
	idleCap   = 50
)

// stopIdle destroys the machines of sessions that nobody has worked in for
// long. That nobody does is checked by the commit itself: a work that begins at
// the same time either finds the machine, and then it stays, or finds it on
// its way out and gets a new one.
//
// What a work's lease still stands on keeps its place in the line: to move it
// to the end would also put off that its machine is looked at, and with it the end of a lease nobody holds any more.
func (k *Keeper) stopIdle(ctx context.Context) error {
	store := k.machines.rows.store
	seen, worked := map[sandbox.ID]bool{}, 0
	var waited []sandbox.ID
	var fault error
	for limit, found := idleCap, 0; ; limit, found = 2*limit, 0 {
		for due, err := range store.Due(ctx, DueQuery{Kinds: DueIdle, Hosts: k.hosts(), Limit: limit, Idle: k.idleAfter}) {
			if err != nil {
				fault = errors.Join(fault, err)
				break
			}
			id := due.Snapshot.Sandbox.ID
			if found++; seen[id] {
				continue
			}
			seen[id] = true
			switch stopped, err := k.stopOne(ctx, due.Snapshot); {
			case errors.Is(err, sandbox.ErrWorking):
				worked++
			case err != nil:
				fault = errors.Join(fault, fmt.Errorf("session: idle stop of %s: %w", due.Snapshot.subject(), err))
				waited = append(waited, id)
			case !stopped:
				waited = append(waited, id)
			}
			if ctx.Err() != nil {
				break
			}
		}
		if found < limit || worked <= limit/2 || fault != nil || ctx.Err() != nil {
			break
		}
	}
	if len(waited) > 0 {
		closing, cancel := detached(ctx)
		defer cancel()
		if _, err := store.Commit(closing, Change{Waited: waited}); err != nil {
			fault = errors.Join(fault, err)
		}
	}
	return fault
}

// stopOne stops one session's machine if nobody has come to work since it was found idle. ErrWorking: somebody has, or had and the lease still stands.
func (k *Keeper) stopOne(ctx context.Context, found Snapshot) (stopped bool, err error) {
	m := k.machines
	s, err := m.rows.store.Load(ctx, found.owner())
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case s.Now.Before(s.Session.LastActiveAt.Add(k.idleAfter)):
		return false, nil
	}
	out, err := m.rows.commit(ctx, s, func(s Snapshot) (Decision, error) {
		return Decide(s, CommandIdle{Terms: m.terms(s.Sandbox.Provider)})
	})
	switch {
	case errors.Is(err, sandbox.ErrNotAllowed), errors.Is(err, ErrStale):
		return false, nil // somebody has changed it meanwhile
	case err != nil:
		return false, err
	}
	k.log.InfoContext(ctx, "idle machine is stopped", "session", s.Session.ID, "sandbox", s.Sandbox.ID, "generation", s.Sandbox.Generation)
	if _, _, err := m.prove(ctx, out.Snapshot, out.Then, out.Kill); err != nil {
		k.log.WarnContext(ctx, "idle stop not finished; the next pass finishes it", "session", s.Session.ID, "error", err)
	}
	return true, nil
}
