package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Random schedules: several processes open, end, reopen and reclaim the same
// few sessions at once, two of which borrow from one environment that is
// deleted now and then, while calls fail, replies get lost, creates come late
// and twice, machines vanish and processes die. The world watches every call
// that reaches the provider; when the faults stop everything must come to agree.
func TestRandomSchedules(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 40
	}
	for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", what, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					newSchedule(t, newWorld(t, caps), rand.New(rand.NewPCG(1, uint64(seed)))).run()
				})
			})
		}
	}
}

type schedule struct {
	testing.TB
	w        *world
	mu       sync.Mutex // guards rnd: faults are drawn from many goroutines
	rnd      *rand.Rand
	calm     bool
	replicas []*replica
	sessions []session.ID
	bench    session.EnvironmentID // that the last two sessions borrow from
	under    sync.WaitGroup
}

func newSchedule(t testing.TB, w *world, rnd *rand.Rand) *schedule {
	s := &schedule{TB: t, w: w, rnd: rnd}
	first := w.replica()
	for range 2 {
		s.sessions = append(s.sessions, first.warm())
	}
	s.bench = first.newEnvironment(ann)
	for range 2 {
		b, _ := first.borrow(ann, s.bench)
		closeWork(t, first.mustWork(ann, inSession(b.ID)))
		s.sessions = append(s.sessions, b.ID)
	}
	w.boxes.Inject(s.provider)
	for range 3 {
		s.replicas = append(s.replicas, s.fresh())
	}
	return s
}

// fresh is a new process, with faults on its wire.
func (s *schedule) fresh() *replica {
	r := s.w.replica()
	r.meddle(func(call string, _, _ int) trouble {
		switch n := s.draw(100); {
		case n < 3:
			return trouble{before: errOutage}
		case n < 6 && call == "commit":
			return trouble{after: session.ErrUnknown}
		case n < 6:
			return trouble{after: errOutage}
		case n < 8:
			pause := time.Duration(s.draw(30)) * time.Second
			return trouble{hold: func(ctx context.Context) { nap(ctx, pause) }}
		}
		return trouble{}
	})
	return r
}

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// draw is a number below n, and never one that makes trouble once all is calm.
func (s *schedule) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return n - 1
	}
	return s.rnd.IntN(n)
}

// provider is what goes wrong at the provider, within what its caps claim.
func (s *schedule) provider(c memory.Call) memory.Fault {
	claims := s.w.boxes.Info().Caps
	within := func(d time.Duration) *memory.Latch {
		l := new(memory.Latch)
		if d <= 0 {
			l.Open()
			return l
		}
		time.AfterFunc(time.Duration(s.draw(int(d/time.Second)))*time.Second, l.Open)
		return l
	}
	switch n := s.draw(100); {
	case n < 4:
		return memory.Fault{Fail: errOutage}
	case n < 8:
		return memory.Fault{Lose: true}
	case n < 12 && c.Op == memory.OpCreate:
		return memory.Fault{Late: within(claims.Horizon())}
	case n < 16 && c.Op == memory.OpCreate && !claims.UniqueNames:
		return memory.Fault{Twice: true, Lose: true}
	case n < 20 && c.Op == memory.OpCreate:
		return memory.Fault{Hidden: within(claims.Lag())}
	case n < 24 && c.Op == memory.OpCreate:
		time.AfterFunc(time.Duration(s.draw(300))*time.Second, s.w.letRun)
		return memory.Fault{Status: sandbox.StatusStarting}
	case n < 12 && c.Op == memory.OpDestroy:
		return memory.Fault{Late: within(claims.Lag())}
	}
	return memory.Fault{}
}

func (s *schedule) run() {
	for range 25 {
		s.step()
		time.Sleep(time.Duration(s.draw(40)) * time.Second)
	}
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.under.Wait()
	time.Sleep(10 * time.Minute) // what was put off has happened

	next := s.w.replica()
	for _, id := range s.sessions { // whoever comes again finds a vanished machine lost
		// An environment's may have vanished after all of its sessions had ended.
		q := session.WorkRequest{Session: id, Reopen: s.w.snap(id).Session.Environment != ""}
		for range 3 {
			if wk, err := next.work(context.Background(), ann, q); err == nil {
				closeWork(s, wk)
			}
			time.Sleep(time.Minute)
		}
	}
	s.w.converge(next)
}

// step lets one process do one thing, beside all that is under way.
func (s *schedule) step() {
	id := s.sessions[s.draw(len(s.sessions))]
	at := s.draw(len(s.replicas))
	r := s.replicas[at]
	switch n := s.draw(20); {
	case n < 9:
		q := session.WorkRequest{Session: id, Ensure: true, Reopen: n%2 == 0}
		patience := time.Duration(1+s.draw(120)) * time.Second
		lasts := time.Duration(s.draw(150)) * time.Second
		s.background(func(ctx context.Context) { s.work(ctx, r, q, patience, lasts) })
	case n < 11:
		s.background(func(ctx context.Context) { r.End(ctx, ann, id) })
	case n < 12 && s.draw(5) == 0: // so that half of the schedules keep it
		s.background(func(ctx context.Context) { r.DeleteEnvironment(ctx, ann, s.bench) })
	case n < 12:
		s.background(func(ctx context.Context) { r.End(ctx, ann, id) })
	case n < 13:
		s.background(func(ctx context.Context) { r.Reopen(ctx, ann, id) })
	case n < 17:
		s.background(func(ctx context.Context) { r.Reclaim(ctx, session.ReclaimOptions{}) })
	case n < 18:
		if all := s.w.boxes.Machines(); len(all) > 0 {
			s.w.boxes.Kill(all[s.draw(len(all))].Incarnation)
		}
	default:
		r.kill()
		s.replicas[at] = s.fresh()
	}
}

func (s *schedule) background(do func(ctx context.Context)) {
	s.under.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		do(ctx)
	})
}

// work works for a while, and accepts a loss where there was one. What may be
// refused and why is fixed.
func (s *schedule) work(ctx context.Context, r *replica, q session.WorkRequest, patience, lasts time.Duration) {
	for {
		opening, cancel := context.WithCancel(ctx)
		defer cancel()
		impatient := time.AfterFunc(patience, cancel)
		wk, err := r.work(opening, ann, q)
		impatient.Stop()
		if lost, ok := errors.AsType[*sandbox.LostError](err); ok && q.AcceptLoss == 0 {
			q.AcceptLoss = lost.Generation
			continue
		}
		if err != nil {
			wantDocumented(s, err)
			return
		}
		nap(wk.Context(), lasts)
		if rep, err := wk.Close(ctx); err == nil && rep.Used > lasts+time.Minute {
			s.Errorf("charged %v for %v", rep.Used, lasts)
		}
		return
	}
}

// wantDocumented fails the test where an error is none of those that Open documents.
func wantDocumented(t testing.TB, err error) {
	t.Helper()
	for _, is := range []error{
		session.ErrUnavailable, session.ErrEnded, session.ErrEnvironmentGone, session.ErrStale, session.ErrUnknown, session.ErrFenced, session.ErrNotFound,
		errOutage, errCrash, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, is) {
			return
		}
	}
	for _, as := range []any{new(*sandbox.ProvisioningError), new(*sandbox.LostError), new(*sandbox.AttemptsError), new(*access.DeniedError)} {
		if errors.As(err, as) {
			return
		}
	}
	t.Errorf("Open: %v (%T), which its documentation does not name", err, err)
}
