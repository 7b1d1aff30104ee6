package sim

import (
	"context"
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// loseHost lets a host die for good, with every process and machine on it; or
// has an operator say again that it has.
func (s *sim) loseHost() {
	switch {
	case s.world.hosts < 2:
		return
	case s.gone >= 0:
		s.giveUpHost(s.replicas[s.rnd.IntN(len(s.replicas))])
		return
	case s.chance(60): // in many schedules both hosts last
		return
	}
	s.gone = s.rnd.IntN(s.world.hosts)
	s.log("host %d is GONE", s.gone)
	for _, r := range s.old {
		if r.host == s.gone {
			s.kill(r)
		}
	}
	for at, r := range s.replicas {
		if r.host == s.gone {
			s.kill(r)
			s.replicas[at] = s.replica((s.gone + 1) % s.world.hosts)
			s.log("%v starts", s.replicas[at])
		}
	}
	for _, m := range s.machines {
		if m.host == s.gone {
			s.die(m, false)
		}
	}
	s.wait()
}

// giveUpHost is an operator's word, which is not taken for as long as one of its processes seems to serve it.
func (s *sim) giveUpHost(r *replica) {
	name := s.boxes[s.gone].Info().Host
	s.begin(r, "host gone", func(ctx context.Context) error {
		rep, err := r.HostGone(ctx, name)
		if rep.Lost+rep.GivenUp+rep.Destroyed+rep.Proven > 0 {
			s.tell("host given up")
		}
		return err
	})
}

// lostWithHost reports whether what was live on that row went with its host, which leaves nothing to be proven.
func (s *sim) lostWithHost(old sandbox.Row) bool {
	return s.gone >= 0 && old.Host == s.boxes[s.gone].Info().Host
}

// rideAlong writes rows in a transaction of the host's, in which one write is
// refused, and keeps it or rolls it back: then it leaves no trace. It is one step, for
// a transaction that waits for its turn has all others wait.
func (s *sim) rideAlong(r *replica) {
	if s.host == nil {
		return
	}
	keep := s.chance(50)
	s.begin(r, "host's transaction", func(ctx context.Context) error {
		_, err := through(ctx, wire{r}, "Transaction", "", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.ride(ctx, r, keep) })
		return err
	})
}

func (s *sim) ride(ctx context.Context, r *replica, keep bool) error {
	var made session.Session
	err := s.host(ctx, keep, func(tx session.Store) error {
		rows, err := session.New(session.Config{
			Store: tx, Leases: s.leases, Directory: s.directory, Replica: "host", NewID: r.newID,
			Limits: func(access.Plan) session.Limits { return session.Limits{Sessions: s.limits.Sessions, Conversations: 1} },
		})
		if err != nil {
			return err
		}
		v, _, err := rows.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: agentOf("p")})
		if err != nil {
			return err
		}
		if _, err := rows.AddConversation(ctx, ann, session.AddConversation{Session: v.ID, Agent: agentOf("p")}); err == nil {
			s.violated("limits", "session %s has one conversation more than it may", tip(v.ID))
		}
		made = v
		return rows.Rename(ctx, ann, v.ID, "of the host")
	})
	s.log("  the host's transaction, kept %v: %s", keep, class(err))
	if err != nil {
		return err
	}
	n, err := s.store.Load(ctx, session.Address{Session: made.ID})
	switch {
	case !keep && !errors.Is(err, session.ErrNotFound):
		s.violated("host", "session %s was rolled back, and is there: %v", tip(made.ID), err)
	case keep && (err != nil || n.Session.Name != "of the host"):
		s.violated("host", "session %s was committed by the host, and is not as it was written: %v", tip(made.ID), err)
	case keep:
		s.sessions, s.owners[made.ID] = append(s.sessions, made.ID), "p"
		s.tell("the host committed")
	default:
		s.tell("the host rolled back")
	}
	s.refresh()
	return nil
}
