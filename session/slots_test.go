package session_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// graveyard is what a host knows of the processes on it: they outlive the
// handles that they were started through, as those of a process that was killed do.
type graveyard struct {
	mu    sync.Mutex
	procs map[sandbox.Incarnation]map[string][]sandbox.Process // by machine and tag
	fault error                                                // what a Reap fails with
	calls []string                                             // the tags asked for
}

func newGraveyard() *graveyard {
	return &graveyard{procs: map[sandbox.Incarnation]map[string][]sandbox.Process{}}
}

// on gives a replica's provider the power to reap.
func (g *graveyard) on() func(*session.Config) {
	return func(c *session.Config) { c.Sandboxes = []sandbox.Provider{reapingProvider{c.Sandboxes[0], g}} }
}

type reapingProvider struct {
	sandbox.Provider
	yard *graveyard
}

func (p reapingProvider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Attach(ctx, ref)
	if err != nil {
		return nil, err
	}
	return reapingSandbox{sb, p.yard}, nil
}

func (p reapingProvider) Reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	p.yard.mu.Lock()
	defer p.yard.mu.Unlock()
	p.yard.calls = append(p.yard.calls, tag)
	if p.yard.fault != nil {
		return p.yard.fault
	}
	for _, proc := range p.yard.procs[ref.Incarnation][tag] {
		if err := proc.Signal(ctx, sandbox.SignalKill); err != nil {
			return err
		}
		if _, err := proc.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *graveyard) failing(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = err
}

func (g *graveyard) asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

type reapingSandbox struct {
	sandbox.Sandbox
	yard *graveyard
}

func (s reapingSandbox) As(target any) bool { return asOf(s.Sandbox, target) }

func (s reapingSandbox) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	c.Detached = true
	p, err := s.Sandbox.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	s.yard.mu.Lock()
	defer s.yard.mu.Unlock()
	of := s.yard.procs[s.Ref().Incarnation]
	if of == nil {
		of = map[string][]sandbox.Process{}
		s.yard.procs[s.Ref().Incarnation] = of
	}
	of[c.Tag] = append(of[c.Tag], p)
	return p, nil
}

// running reports whether p has not ended.
func running(p sandbox.Process) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Wait(ctx)
	return err != nil
}

// expired are the work leases that ran out and count.
func (w *world) expired() []session.Lease {
	w.Helper()
	l, err := w.db.Leases().Expired(context.Background(), 1000)
	if err != nil {
		w.Errorf("Expired: %v", err)
	}
	return l
}

// wantFull fails the test unless the payer may not work in one session more.
func (r *replica) wantFull(what string, id session.ID) {
	r.w.Helper()
	_, err := r.work(r.w.Context(), ann, inSession(id))
	if e := wantType[*session.LimitError](r.w, what, err); e.Kind != session.SlotsPerPayer {
		r.w.Errorf("%s: %v", what, err)
	}
}

func TestDrainingSlots(t *testing.T) {
	inWorld(t, "lifecycle §2: the slot of a dead replica counts until its processes are dead, and no other work's process is touched", immediate, func(t *testing.T, w *world) {
		w.limits.Slots = 1
		yard := newGraveyard()
		dead, r := w.replica(yard.on()), w.replica(yard.on())
		s, _ := dead.spawn(ann)
		other, _ := r.spawn(ann)
		ghost := start(t, dead.mustWork(ann, inSession(s.ID)))
		wk := r.mustWork(ann, inSession(s.ID)) // the same session, machine and slot
		mine := start(t, wk)
		dead.kill()

		r.wantFull("while the lease lasts", other.ID)
		r.slots(t)
		if !running(ghost) {
			t.Error("what a work with a live lease has started was ended")
		}
		time.Sleep(2 * time.Minute)
		r.wantFull("once the lease has run out", other.ID)
		if !running(ghost) {
			t.Fatal("the process of the dead replica has ended by itself")
		}
		yard.failing(errOutage)
		r.slots(t)
		if len(w.expired()) != 1 || !running(ghost) {
			t.Errorf("a reap that failed: expired %+v", w.expired())
		}
		yard.failing(nil)
		time.Sleep(time.Minute)
		r.slots(t)
		if len(w.expired()) != 0 || running(ghost) {
			t.Errorf("after the reap: expired %+v, its process runs: %v", w.expired(), running(ghost))
		}
		if !running(mine) || context.Cause(wk.Context()) != nil {
			t.Errorf("the other work was disturbed: %v", context.Cause(wk.Context()))
		}
		r.wantFull("while the other work lasts", other.ID)
		if err := mine.Signal(t.Context(), sandbox.SignalKill); err != nil {
			t.Error(err)
		}
		closeWork(t, wk)
		closeWork(t, r.mustWork(ann, inSession(other.ID)))
	})

	inWorld(t, "lifecycle §2: a process that is restarted under the name of a dead one does not take its works for its own, which are closed", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		named := func(c *session.Config) { c.Replica = "a" }
		dead := w.replica(yard.on(), named)
		s, _ := dead.spawn(ann)
		ghost := start(t, dead.mustWork(ann, inSession(s.ID)))
		dead.kill()
		time.Sleep(2 * time.Minute)
		again := w.replica(yard.on(), named)
		yard.failing(errOutage)
		again.slots(t)
		if len(w.expired()) != 1 || !running(ghost) {
			t.Errorf("its process may run, and the lease is released: expired %+v", w.expired())
		}
		yard.failing(nil)
		again.slots(t)
		if len(w.expired()) != 0 || running(ghost) {
			t.Errorf("after the reap: expired %+v, its process runs: %v", w.expired(), running(ghost))
		}
	})

	inWorld(t, "lifecycle §2: a replica that was asleep, and whose lease was taken from it, ends its work with ErrFenced when it wakes", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		asleep, r := w.replica(yard.on()), w.replica(yard.on())
		s, _ := asleep.spawn(ann)
		wk := asleep.mustWork(ann, inSession(s.ID))
		p := start(t, wk)
		wakes := make(chan struct{})
		asleep.meddle(func(call string, _, _ int) trouble {
			if call == "renew" {
				return trouble{hold: func(context.Context) { <-wakes }}
			}
			return trouble{}
		})
		time.Sleep(2 * time.Minute)
		r.slots(t)
		if len(w.expired()) != 0 || running(p) {
			t.Fatalf("expired %+v, its process runs: %v", w.expired(), running(p))
		}
		// It wakes before its heartbeat does: nothing is started after until − 2 × grace.
		_, err := wk.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"sleep", "1h"}})
		wantErr(t, "a process was started without a lease", err, session.ErrFenced)
		close(wakes)
		<-wk.Context().Done()
		wantErr(t, "the work", context.Cause(wk.Context()), session.ErrFenced)
		if n := len(w.boxes.Machines()); n != 1 {
			t.Errorf("%d machines", n)
		}
	})

	for what, c := range map[string]struct {
		act  func(t *testing.T, w *world, r *replica, id session.ID)
		free bool
	}{
		"is being destroyed": {func(_ *testing.T, w *world, r *replica, id session.ID) {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			r.end(ann, id)
		}, false},
		"is in the outbox, its session deleted": {func(t *testing.T, w *world, _ *replica, id session.ID) {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: id}}}); err != nil {
				t.Fatal(err)
			}
		}, false},
		"is in the outbox, another in its place": {func(t *testing.T, w *world, r *replica, id session.ID) {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			r.end(ann, id)
			closeWork(t, r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true}))
		}, false},
		"is gone, another being made in its place": {func(t *testing.T, w *world, r *replica, id session.ID) {
			r.end(ann, id)
			w.boxes.Inject(on(memory.OpCreate, w.created()+1, memory.Fault{Fail: errOutage}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := r.work(ctx, ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true})
			wantType[*sandbox.ProvisioningError](t, "Open", err)
			if state := w.snap(id).Sandbox.State; state != sandbox.Creating {
				t.Errorf("row %v", state)
			}
		}, true},
		"is gone, another in its place": {func(t *testing.T, w *world, r *replica, id session.ID) {
			r.end(ann, id)
			closeWork(t, r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true}))
		}, true},
		"has failed": {func(_ *testing.T, w *world, _ *replica, id session.ID) {
			w.boxes.SetStatus(w.snap(id).Sandbox.Incarnation, sandbox.StatusFailed)
		}, true},
		"is another host's": {func(_ *testing.T, w *world, r *replica, _ session.ID) {
			w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: sandbox.ErrWrongHost}))
		}, false},
		"can't be reaped in, for that takes another host": {func(*testing.T, *world, *replica, session.ID) {}, false},
	} {
		inWorld(t, "a slot whose process is dead and whose machine "+what+map[bool]string{true: " is freed", false: " goes on counting"}[c.free], immediate, func(t *testing.T, w *world) {
			yard := newGraveyard()
			if what == "can't be reaped in, for that takes another host" {
				yard.failing(sandbox.ErrWrongHost)
			}
			dead, r := w.replica(yard.on()), w.replica(yard.on())
			s, _ := dead.spawn(ann)
			dead.mustWork(ann, inSession(s.ID))
			dead.kill()
			time.Sleep(2 * time.Minute)
			c.act(t, w, r, s.ID)
			r.slots(t)
			if left := w.expired(); (len(left) == 0) != c.free {
				t.Errorf("expired leases that count: %+v", left)
			}
			w.boxes.Inject(nil)
			yard.failing(nil)
			time.Sleep(10 * time.Minute)
			r.slots(t)
			time.Sleep(time.Minute)
			r.slots(t)
			if left := w.expired(); len(left) > 0 {
				t.Errorf("once everything can be seen to: %+v", left)
			}
		})
	}

	inWorld(t, "a machine that sleeps is not woken, and its provider is told all the same what must not go on once it wakes", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		dead, r := w.replica(yard.on()), w.replica(yard.on())
		s, _ := dead.spawn(ann)
		dead.mustWork(ann, inSession(s.ID))
		dead.kill()
		time.Sleep(2 * time.Minute)
		w.boxes.SetStatus(w.snap(s.ID).Sandbox.Incarnation, sandbox.StatusStopped)
		yard.failing(errOutage)
		r.slots(t)
		if len(w.expired()) != 1 || len(yard.asked()) != 1 {
			t.Errorf("it could not be told: expired %+v, asked %v", w.expired(), yard.asked())
		}
		yard.failing(nil)
		r.slots(t)
		if len(w.expired()) > 0 || len(yard.asked()) != 2 || w.boxes.Machines()[0].Status != sandbox.StatusStopped {
			t.Errorf("expired %+v, asked %v, machines %+v", w.expired(), yard.asked(), w.boxes.Machines())
		}
	})

	inWorld(t, "a machine that sleeps, of a provider that can't end what it runs, is quiet: nothing runs in it", immediate, func(t *testing.T, w *world) {
		dead, r := w.replica(), w.replica()
		s, _ := dead.spawn(ann)
		dead.mustWork(ann, inSession(s.ID))
		dead.kill()
		time.Sleep(2 * time.Minute)
		w.boxes.SetStatus(w.snap(s.ID).Sandbox.Incarnation, sandbox.StatusStopped)
		r.slots(t)
		if len(w.expired()) > 0 {
			t.Errorf("expired %+v", w.expired())
		}
	})

	inWorld(t, "hundreds of slots that can't be freed keep no other waiting", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		stuck := w.snap(r.dying()).Sandbox
		take := func(name string, on sandbox.ID) {
			_, err := w.db.Leases().Acquire(t.Context(), session.Lease{
				Kind: session.LeaseWork, Name: name, Holder: "work " + name, Replica: "dead", Payer: "ann", Slots: 1000, Sandbox: on, For: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		for i := range 450 {
			take(fmt.Sprint(i), stuck.ID)
		}
		take("free", "a sandbox that is gone")
		time.Sleep(time.Minute)
		w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
		r.slots(t)
		left := w.expired()
		if len(left) != 450 || slices.ContainsFunc(left, func(l session.Lease) bool { return l.Name == "free" }) {
			t.Errorf("%d expired leases are left", len(left))
		}
	})
}
