package session_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// serve runs the chores of a replica until the test ends or stop is called.
func (r *replica) serve(t testing.TB, more ...session.Chore) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, more...) }()
	var stopped atomic.Bool
	stop = func() {
		cancel()
		if !stopped.Swap(true) {
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestServe(t *testing.T) {
	inWorld(t, "of two replicas one does a chore at a time, as often as asked", immediate, func(t *testing.T, w *world) {
		var running, most, runs atomic.Int32
		chore := session.Chore{Name: "count", Every: time.Minute, Run: func(ctx context.Context) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			runs.Add(1)
			time.Sleep(10 * time.Second)
			return nil
		}}
		w.replica().serve(t, chore)
		time.Sleep(5 * time.Second)
		w.replica().serve(t, chore)
		time.Sleep(time.Hour)
		if most.Load() != 1 {
			t.Errorf("%d ran at once", most.Load())
		}
		// A run takes ten seconds, and the next comes a minute later.
		if n := runs.Load(); n < 51 || n > 52 {
			t.Errorf("%d runs in an hour", n)
		}
	})

	inWorld(t, "ten replicas make no more passes than one would: the lease is kept until the next is due", immediate, func(t *testing.T, w *world) {
		var all []*replica
		for range 10 {
			r := w.replica()
			all = append(all, r)
			r.serve(t)
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		passes := 0
		for _, r := range all {
			passes += r.count("due destroying")
		}
		if passes < 20 || passes > 22 {
			t.Errorf("%d passes in ten minutes, where one is due every half", passes)
		}
	})

	inWorld(t, "a chore that fails, and one that is shut down, is another replica's at once", immediate, func(t *testing.T, w *world) {
		var failed, second, third atomic.Int32
		chore := func(n *atomic.Int32, err error) session.Chore {
			return session.Chore{Name: "c", Every: time.Hour, Run: func(context.Context) error { n.Add(1); return err }}
		}
		w.replica().serve(t, chore(&failed, errOutage))
		synctest.Wait()
		stop := w.replica().serve(t, chore(&second, nil))
		synctest.Wait()
		stop()
		w.replica().serve(t, chore(&third, nil))
		synctest.Wait()
		if failed.Load() != 1 || second.Load() != 1 || third.Load() != 1 {
			t.Errorf("ran %d, %d and %d times", failed.Load(), second.Load(), third.Load())
		}
	})

	inWorld(t, "a chore of the host's that panics has failed, and runs again; the others go on", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		runs := 0
		stop := r.serve(t, session.Chore{Name: "bad", Every: time.Minute, Run: func(context.Context) error { runs++; panic("host: nil map") }})
		time.Sleep(5 * time.Minute)
		stop()
		if runs < 5 || w.snap(id).Sandbox.State != sandbox.None {
			t.Errorf("%d runs, row %v", runs, w.snap(id).Sandbox.State)
		}
	})

	inWorld(t, "where a process dies in the midst of a chore another takes over once the lease has run out", immediate, func(t *testing.T, w *world) {
		stuck := make(chan struct{})
		var second atomic.Int32
		r := w.replica()
		r.serve(t, session.Chore{Name: "c", Every: time.Minute, Run: func(context.Context) error { <-stuck; return nil }})
		t.Cleanup(func() { close(stuck) })
		synctest.Wait()
		r.kill()
		w.replica().serve(t, session.Chore{Name: "c", Every: time.Minute, Run: func(context.Context) error { second.Add(1); return nil }})
		time.Sleep(2*time.Minute - time.Second)
		if second.Load() != 0 {
			t.Error("taken over while the lease was held")
		}
		time.Sleep(61 * time.Second)
		if second.Load() == 0 {
			t.Error("never taken over")
		}
	})

	inWorld(t, "what a chore returns, and a lease that can't be had, stop nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		var runs int
		r.meddle(func(c string, _, nth int) trouble {
			if c == "acquire" && nth%2 == 0 {
				return trouble{before: errOutage}
			}
			return trouble{}
		})
		stop := r.serve(t, session.Chore{Name: "bad", Every: time.Minute, Run: func(context.Context) error { runs++; return errOutage }})
		time.Sleep(20 * time.Minute)
		stop()
		if runs < 5 || w.snap(id).Sandbox.State != sandbox.None {
			t.Errorf("%d runs, row %v", runs, w.snap(id).Sandbox.State)
		}
	})

	inWorld(t, "Serve returns once its context has ended and the chore that was running has, and gives its leases back", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		var finished bool
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Serve(ctx, session.Chore{Name: "slow", Every: time.Minute, Run: func(context.Context) error {
			time.Sleep(time.Minute)
			finished = true
			return nil
		}})
		if err != nil || !finished {
			t.Errorf("Serve: %v, finished %v", err, finished)
		}
		_, err = w.db.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "slow", Holder: "x", For: time.Second})
		if err != nil {
			t.Errorf("the lease: %v", err)
		}
	})

	inWorld(t, "its own chores finish what is left without being asked", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		r.orphan()
		stop := r.serve(t)
		time.Sleep(5 * time.Minute)
		stop()
		if w.snap(id).Sandbox.State != sandbox.None || len(w.outbox()) > 0 || len(w.boxes.Machines()) > 0 {
			t.Errorf("row %v, outbox %+v, machines %+v", w.snap(id).Sandbox.State, w.outbox(), w.boxes.Machines())
		}
	})

	run := func(context.Context) error { return nil }
	for field, bad := range map[string][]session.Chore{
		"Chore.Name":  {{Every: time.Minute, Run: run}},
		"Chore.Every": {{Name: "a", Run: run}},
		"Chore.Run":   {{Name: "a", Every: time.Minute}},
	} {
		inWorld(t, "a chore without "+field+" is refused by name, and nothing runs", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			wantField(t, "Serve", r.Serve(t.Context(), bad...), field)
			if calls := r.calls(); len(calls) > 0 {
				t.Errorf("called %v", calls)
			}
		})
	}
	inWorld(t, "two chores of one name are refused, one of the Keeper's own names too", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Replica = "me" })
		a := session.Chore{Name: "a", Every: time.Minute, Run: run}
		wantField(t, "Serve", r.Serve(t.Context(), a, a), "Chore.Name")
		a.Name = "slots me"
		wantField(t, "Serve", r.Serve(t.Context(), a), "Chore.Name")
	})
}

// crashed is a session in which a process that is dead now was working; its lease has run out.
func (w *world) crashed() session.ID {
	w.Helper()
	r := w.replica()
	s, _ := r.spawn(ann)
	r.mustWork(ann, inSession(s.ID))
	r.kill()
	time.Sleep(2 * time.Minute)
	return s.ID
}

// slots runs the Keeper's chores of a replica once.
func (r *replica) slots(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.Serve(ctx); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// The slots of the dead.
func TestSlotsAreFreed(t *testing.T) {
	for what, c := range map[string]struct {
		act  func(t *testing.T, w *world, id session.ID)
		free bool
	}{
		"runs": {func(*testing.T, *world, session.ID) {}, false},
		"can't be asked about": {func(_ *testing.T, w *world, _ session.ID) {
			w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: errOutage}))
		}, false},
		"is not seen": {func(_ *testing.T, w *world, _ session.ID) {
			w.boxes.Inject(always(memory.OpInspect, memory.Fault{Unseen: true}))
		}, false},
		"sleeps": {func(_ *testing.T, w *world, _ session.ID) {
			w.boxes.SetStatus(w.boxes.Machines()[0].Incarnation, sandbox.StatusStopped)
		}, true},
		"was destroyed": {func(_ *testing.T, w *world, id session.ID) { w.replica().end(ann, id) }, true},
		"is gone with its session": {func(t *testing.T, w *world, id session.ID) {
			w.replica().end(ann, id)
			if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: id}}}); err != nil {
				t.Error(err)
			}
		}, true},
		"was lost": {func(t *testing.T, w *world, id session.ID) {
			w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
			w.limits.Slots = 2
			_, err := w.replica().work(t.Context(), ann, inSession(id))
			wantType[*sandbox.LostError](t, "Open", err)
		}, true},
	} {
		inWorld(t, "a slot whose process is dead and whose machine "+what+map[bool]string{true: " is freed", false: " goes on counting"}[c.free], immediate, func(t *testing.T, w *world) {
			id := w.crashed()
			c.act(t, w, id)
			keeper := w.replica()
			keeper.slots(t) // all chores at once: what one of them proves another knows the next time
			time.Sleep(time.Minute)
			keeper.slots(t)
			l, err := w.db.Leases().Expired(t.Context(), 10)
			if err != nil || (len(l) == 0) != c.free {
				t.Errorf("expired leases that count: %+v, %v", l, err)
			}
			if c.free {
				w.wantSlotsFree()
			}
		})
	}

	inWorld(t, "a lost machine that is seen again holds its slot until it is killed", immediate, func(t *testing.T, w *world) {
		id := w.crashed()
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			return memory.Fault{Unseen: c.Op == memory.OpAttach || c.Op == memory.OpInspect}
		})
		r := w.replica()
		_, err := r.work(t.Context(), ann, inSession(id))
		wantType[*sandbox.LostError](t, "Open", err)
		w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
		r.slots(t)
		if l, err := w.db.Leases().Expired(t.Context(), 10); err != nil || len(l) != 1 {
			t.Errorf("expired leases that count: %+v, %v", l, err)
		}
		w.boxes.Inject(nil)
		time.Sleep(time.Minute)
		r.slots(t) // both chores run at once: the second time the machine is gone for certain
		time.Sleep(time.Minute)
		r.slots(t)
		w.wantSlotsFree()
	})

	inWorld(t, "a provider that never answers keeps the slots of others from being freed for no longer than a call may take", immediate, func(t *testing.T, w *world) {
		stuck, id := w.crashed(), w.crashed()
		mute := w.snap(stuck).Sandbox.Incarnation
		w.boxes.SetStatus(w.snap(id).Sandbox.Incarnation, sandbox.StatusStopped)
		never := latch(t)
		w.boxes.Inject(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpInspect && c.Incarnation == mute {
				return memory.Fault{Hold: never}
			}
			return memory.Fault{}
		})
		stop := w.replica().serve(t)
		time.Sleep(2 * time.Minute)
		stop()
		l, err := w.db.Leases().Expired(t.Context(), 10)
		if err != nil || len(l) != 1 || l[0].Name != string(stuck) {
			t.Errorf("expired leases that count: %+v, %v; want the one of %s", l, err, stuck)
		}
	})

	inWorld(t, "a work of this very process that is open is never taken for dead", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		w.boxes.SetStatus(w.boxes.Machines()[0].Incarnation, sandbox.StatusStopped)
		r.meddle(func(c string, _, _ int) trouble {
			if c == "renew" {
				return trouble{before: errOutage}
			}
			return trouble{}
		})
		time.Sleep(2 * time.Minute) // fenced, and not closed yet
		r.slots(t)
		if l, err := w.db.Leases().Expired(t.Context(), 10); err != nil || len(l) != 1 {
			t.Errorf("expired leases: %+v, %v", l, err)
		}
		r.fail("free", 1, errOutage)
		if _, err := wk.Close(t.Context()); !errors.Is(err, errOutage) {
			t.Errorf("Close: %v", err)
		}
		r.slots(t)
		w.wantSlotsFree()
	})
}
