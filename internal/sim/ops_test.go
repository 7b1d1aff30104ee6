package sim

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const (
	mostSessions     = 5
	mostEnvironments = 2
	mostAtOnce       = 7
)

// operate starts something that a client, a keeper or the host does.
func (s *sim) operate() {
	r := s.replicas[s.rnd.IntN(len(s.replicas))]
	s.mu.Lock()
	busy := len(s.ops)
	for _, o := range s.ops {
		if o.r.dead {
			busy--
		}
	}
	idle := r.wake == nil && !r.drains
	s.mu.Unlock()
	if busy >= mostAtOnce || !idle {
		return
	}
	n := s.rnd.IntN(51)
	switch {
	case n >= 33 && n < 36 && len(s.sessions) < mostSessions:
		var in session.EnvironmentID
		p := projects[s.rnd.IntN(len(projects))].id
		if len(s.environments) > 0 && s.chance(40) {
			in = s.environments[s.rnd.IntN(len(s.environments))]
			p = s.projects[in]
		}
		s.begin(r, "spawn", func(ctx context.Context) error { return s.spawn(ctx, r, p, in) })
		return
	case n == 36 && len(s.environments) < mostEnvironments:
		p := projects[s.rnd.IntN(2)].id
		s.begin(r, "environment", func(ctx context.Context) error {
			_, err := r.CreateEnvironment(ctx, ann, session.NewEnvironment{Project: p})
			return err
		})
		return
	case n == 37 && len(s.environments) > 0:
		e := s.environments[s.rnd.IntN(len(s.environments))]
		s.begin(r, "delete "+tip(e)+" ", func(ctx context.Context) error { _, err := r.DeleteEnvironment(ctx, ann, e); return err })
		return
	case n >= 24 && n < 29:
		o, name := session.ReclaimOptions{DryRun: s.chance(20)}, "reclaim"
		if o.DryRun {
			name = dry + name
			o.Unseen = time.Second // it looks at all
		}
		s.begin(r, name, func(ctx context.Context) error { _, err := r.Reclaim(ctx, o); return err })
		return
	case n >= 29 && n < 31:
		o, name := session.SweepOptions{Grace: sweepGrace, DryRun: s.chance(10)}, "sweep"
		if o.DryRun {
			name = dry + name
		}
		s.begin(r, name, func(ctx context.Context) error { _, err := r.Sweep(ctx, o); return err })
		return
	case n >= 31 && n < 33:
		lasts := s.upTo(100 * time.Second)
		s.begin(r, "serve", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, lasts)
			defer cancel()
			return r.Serve(ctx)
		})
		return
	case n == 38:
		s.drain(r)
		return
	case n >= 42 && n < 45:
		s.grant(r, s.rnd.IntN(len(s.bank.grants)))
		return
	case n >= 45 && n < 49:
		s.bookkeep(r, n-45)
		return
	case n == 49:
		s.loseHost()
		return
	case n == 50:
		s.rideAlong(r)
		return
	}
	if len(s.sessions) == 0 {
		return
	}
	id := s.sessions[s.rnd.IntN(len(s.sessions))]
	switch {
	case n < 17:
		v := s.visit(id)
		s.begin(r, "work in "+tip(id)+" ", func(ctx context.Context) error { return v.in(ctx, s, r) })
	case n < 21:
		s.begin(r, "end "+tip(id)+" ", func(ctx context.Context) error { _, err := r.End(ctx, ann, id); return err })
	case n < 24:
		s.begin(r, "reopen "+tip(id)+" ", func(ctx context.Context) error { _, err := r.Reopen(ctx, ann, id); return err })
	case n == 39:
		s.begin(r, "add to "+tip(id)+" ", func(ctx context.Context) error {
			_, err := r.AddConversation(ctx, ann, session.AddConversation{Session: id, Agent: agentOf(s.owners[id])})
			return err
		})
	case n == 40:
		t := session.PurgeTarget{Session: id, History: s.chance(50)}
		if s.chance(5) {
			t = session.PurgeTarget{Project: projects[s.rnd.IntN(len(projects))].id}
		}
		s.begin(r, "purge "+tip(id)+" ", func(ctx context.Context) error { _, err := r.Purge(ctx, t, session.PurgeOptions{}); return err })
	case n == 41:
		s.begin(r, "rename "+tip(id)+" ", func(ctx context.Context) error { return r.Rename(ctx, ann, id, "another") })
	}
}

// dry begins the name of what only looks.
const dry = "dry "

// sweepGrace is short, so that a schedule has time for two passes.
const sweepGrace = 5 * time.Second

// drain shuts a process down in good order, and another takes its place. It
// waits for as long as its works take: to have them stopped is tested beside the Runner.
func (s *sim) drain(r *replica) {
	s.mu.Lock()
	r.drains = true
	s.mu.Unlock()
	s.begin(r, "drain", func(ctx context.Context) error { return r.Drain(ctx) })
	for at := range s.replicas {
		if s.replicas[at] == r {
			s.replicas[at] = s.replica(r.host)
			s.old = append(s.old, r)
		}
	}
}

// visit is somebody's work.
type visit struct {
	q        session.WorkRequest
	patience time.Duration
	naps     []time.Duration // between them, processes are started
}

func (s *sim) visit(id session.ID) visit {
	v := visit{
		q:        session.WorkRequest{Session: id, Ensure: !s.chance(10), Reopen: s.chance(40)},
		patience: s.upTo(2 * time.Minute),
	}
	for range s.rnd.IntN(4) {
		v.naps = append(v.naps, s.upTo(50*time.Second))
	}
	return v
}

// in works, and accepts a loss where there was one.
func (v visit) in(ctx context.Context, s *sim, r *replica) error {
	for {
		opening, cancel := context.WithCancel(ctx)
		impatient := time.AfterFunc(v.patience, cancel)
		w, err := r.Open(opening, ann, v.q)
		patient := impatient.Stop()
		s.opened(opOf(ctx), w)
		if lost, ok := errors.AsType[*sandbox.LostError](err); ok && v.q.AcceptLoss == 0 {
			cancel()
			v.q.AcceptLoss = lost.Generation
			continue
		}
		if err != nil {
			cancel()
			s.expected("Open", err)
			return err
		}
		s.tell("opened")
		if patient {
			v.work(ctx, r, w)
		}
		_, err = w.Close(ctx)
		s.closed(w)
		cancel()
		return err
	}
}

func (v visit) work(ctx context.Context, r *replica, w *session.Work) {
	for _, d := range v.naps {
		p, err := w.Sandbox().Start(ctx, sandbox.Cmd{Argv: []string{"work"}})
		r.nap(w.Context(), d)
		if err == nil && d > 20*time.Second {
			p.Close()
		}
		if w.Context().Err() != nil {
			r.tell("work stopped: " + class(context.Cause(w.Context())))
			return
		}
	}
}

// expected: whatever is refused is refused with an error that is documented.
func (s *sim) expected(what string, err error) {
	for _, is := range []error{
		session.ErrUnavailable, session.ErrEnded, session.ErrStale, session.ErrUnknown, session.ErrFenced, session.ErrNotFound,
		session.ErrNoMachine, session.ErrEnvironmentGone, session.ErrDraining, session.ErrClaimed, sandbox.ErrGone,
		billing.ErrUnknown, errOutage, errBusy, errLost, errDead, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, is) {
			return
		}
	}
	for _, as := range []any{
		new(*sandbox.ProvisioningError), new(*sandbox.LostError), new(*sandbox.AttemptsError), new(*access.DeniedError),
		new(*session.LimitError), new(*session.ElsewhereError), new(*billing.RefusedError),
	} {
		if errors.As(err, as) {
			return
		}
	}
	s.violated("errors", "%s: %v (%T), which its documentation does not name", what, err, err)
}
