package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
	"github.com/bunkroom/bunkroom/session"
)

// stuckHandles is a provider whose handles can't be closed while they are
// stuck, the first time: closed again, what is closed already is closed.
type stuckHandles struct {
	reapingProvider
	stuck atomic.Bool
}

type stuckHandle struct {
	sandbox.Sandbox
	of     *stuckHandles
	closed atomic.Bool
	lost   atomic.Bool // the first time has failed
}

func (p *stuckHandles) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	sb, err := p.reapingProvider.Attach(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &stuckHandle{Sandbox: sb, of: p}, nil
}

func (s *stuckHandle) As(target any) bool { return asOf(s.Sandbox, target) }

// asOf has a wrapper pass on what the sandbox in it can do.
func asOf(sb sandbox.Sandbox, target any) bool {
	w, ok := sb.(interface{ As(target any) bool })
	return ok && w.As(target)
}

func (s *stuckHandle) Close() error {
	switch first := s.closed.CompareAndSwap(false, true); {
	case first && s.of.stuck.Load():
		s.lost.Store(true)
		return errOutage
	case s.lost.Load():
		return nil
	}
	return s.Sandbox.Close()
}

// stuckReplica is a replica whose handles are stuck, at a provider with faults.
func (w *world) stuckReplica(script func(sandboxtest.Call) sandboxtest.Fault) (r *replica, handles *stuckHandles) {
	r = w.replica(func(c *session.Config) {
		handles = &stuckHandles{reapingProvider: reapingProvider{c.Sandboxes[0], newGraveyard()}}
		handles.stuck.Store(true)
		c.Sandboxes = []sandbox.Provider{sandboxtest.Faulty(handles, script)}
	})
	return r, handles
}

// What could not be stopped when its work was closed may run on: its slot is
// taken until that is known not to be so, by the proof that the works of dead processes take.
func TestASlotIsTakenWhileItsProcessesMayLive(t *testing.T) {
	for how, stop := range map[string]func(gone context.CancelFunc, wk *session.Work){
		"by Close":                               func(context.CancelFunc, *session.Work) {},
		"when it was told to stop, before Close": func(gone context.CancelFunc, wk *session.Work) { gone(); <-wk.Context().Done() },
	} {
		inWorld(t, "lifecycle §2: a work whose processes could not be stopped "+how+" keeps its slot until they are dead, and is charged no more", immediate, func(t *testing.T, w *world) {
			w.limits.Slots = 1
			r, handles := w.stuckReplica(nil)
			s, _ := r.spawn(ann)
			other, _ := r.spawn(ann)
			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			wk, err := r.work(ctx, ann, inSession(s.ID))
			if err != nil {
				t.Fatal(err)
			}
			ghost := start(t, wk)
			time.Sleep(10 * time.Second)
			stop(gone, wk)
			rep, err := wk.Close(t.Context())
			wantErr(t, "Close", err, errOutage)
			if !running(ghost) {
				t.Fatal("it was to go on")
			}
			r.wantFull("closed, and its lease has not run out", other.ID)
			r.slots(t)
			if rep.Used < 10*time.Second || rep.Used > 11*time.Second {
				t.Errorf("used %v", rep.Used)
			}
			time.Sleep(90 * time.Second)
			r.wantFull("its lease has run out", other.ID)
			r.slots(t)
			if running(ghost) || len(w.expired()) > 0 {
				t.Errorf("once it was seen to: its process runs: %v, expired %+v", running(ghost), w.expired())
			}
			handles.stuck.Store(false)
			closeWork(t, r.mustWork(ann, inSession(other.ID)))
		})
	}

	// Every call of the provider that the proof takes goes wrong, one at a time and in every way.
	never := func() <-chan struct{} { return make(chan struct{}) } // of the bubble it is made in
	for what, fault := range map[string]func() sandboxtest.Fault{
		"fails":                 func() sandboxtest.Fault { return sandboxtest.Fault{Fail: errOutage} },
		"is lost":               func() sandboxtest.Fault { return sandboxtest.Fault{Lose: true} },
		"is made twice":         func() sandboxtest.Fault { return sandboxtest.Fault{Twice: true} },
		"is of another host":    func() sandboxtest.Fault { return sandboxtest.Fault{Fail: sandbox.ErrWrongHost} },
		"hangs":                 func() sandboxtest.Fault { return sandboxtest.Fault{Hold: never()} },
		"hangs once it is done": func() sandboxtest.Fault { return sandboxtest.Fault{HoldReply: never()} },
	} {
		for nth := 1; nth <= 6; nth++ {
			inWorld(t, fmt.Sprintf("call %d %s: no slot is free while the process runs, and none is taken for ever", nth, what), immediate, func(t *testing.T, w *world) {
				w.limits.Slots = 1
				var calls, from atomic.Int64
				from.Store(1 << 32)
				r, handles := w.stuckReplica(func(c sandboxtest.Call) sandboxtest.Fault {
					if calls.Add(1) == from.Load()+int64(nth) {
						return fault()
					}
					return sandboxtest.Fault{}
				})
				s, _ := r.spawn(ann)
				other, _ := r.spawn(ann)
				wk := r.mustWork(ann, inSession(s.ID))
				ghost := start(t, wk)
				from.Store(calls.Load())
				if _, err := wk.Close(t.Context()); !errors.Is(err, errOutage) {
					t.Fatalf("Close: %v", err)
				}
				for range 8 {
					time.Sleep(30 * time.Second)
					r.slots(t)
					if running(ghost) {
						r.wantFull("while its process runs", other.ID)
					}
				}
				if running(ghost) || len(w.expired()) > 0 {
					t.Errorf("its process runs: %v, expired %+v", running(ghost), w.expired())
				}
				handles.stuck.Store(false)
				from.Store(1 << 32)
				closeWork(t, r.mustWork(ann, inSession(other.ID)))
			})
		}
	}

	inWorld(t, "another process sees to it as well, and the one that could not does not mistake a later work for it", immediate, func(t *testing.T, w *world) {
		r, handles := w.stuckReplica(nil)
		healthy := w.replica(func(c *session.Config) {
			c.Sandboxes = []sandbox.Provider{reapingProvider{c.Sandboxes[0], handles.yard}}
		})
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		ghost := start(t, wk)
		if _, err := wk.Close(t.Context()); !errors.Is(err, errOutage) {
			t.Fatalf("Close: %v", err)
		}
		time.Sleep(90 * time.Second)
		healthy.slots(t)
		if running(ghost) || len(w.expired()) > 0 {
			t.Errorf("its process runs: %v, expired %+v", running(ghost), w.expired())
		}
		handles.stuck.Store(false)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		time.Sleep(50 * time.Hour)
		r.slots(t)
		if left := w.expired(); len(left) > 0 {
			t.Errorf("expired %+v", left)
		}
	})

	inWorld(t, "a work that never began, and whose handle can't be closed, keeps its slot too", immediate, func(t *testing.T, w *world) {
		w.limits.Slots = 1
		r, handles := w.stuckReplica(nil)
		s, _ := r.spawn(ann)
		other, _ := r.spawn(ann)
		ctx, cancel := context.WithCancel(t.Context())
		r.meddle(func(call string, _, _ int) trouble {
			if call == "attach" {
				return trouble{late: func(context.Context) { cancel() }}
			}
			return trouble{}
		})
		if _, err := r.work(ctx, ann, inSession(s.ID)); err == nil {
			t.Fatal("opened for a caller who has gone")
		}
		r.meddle(nil)
		r.wantFull("while something of it may run", other.ID)
		for range 4 {
			time.Sleep(30 * time.Second)
			r.slots(t)
		}
		handles.stuck.Store(false)
		closeWork(t, r.mustWork(ann, inSession(other.ID)))
	})
}
