package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// It is said only where it is certain that nothing runs.
func TestTurnsAreEndedForCertain(t *testing.T) {
	elsewhere := new(session.ElsewhereError)
	for what, c := range map[string]struct {
		act  func(t *testing.T, w *world, r *replica, yard *graveyard, id session.ID)
		want error // nil: it is certain
	}{
		"is there, and can be reaped in": {func(*testing.T, *world, *replica, *graveyard, session.ID) {}, nil},
		"is proven gone": {func(t *testing.T, w *world, r *replica, _ *graveyard, id session.ID) {
			if rep := r.end(ann, id); !rep.Destroyed {
				t.Errorf("%+v", rep)
			}
		}, nil},
		"is proven gone, another in its place": {func(t *testing.T, _ *world, r *replica, _ *graveyard, id session.ID) {
			r.end(ann, id)
			closeWork(t, r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true}))
		}, nil},
		"is being destroyed": {func(_ *testing.T, w *world, r *replica, _ *graveyard, id session.ID) {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			r.end(ann, id)
		}, session.ErrUnavailable},
		"is in the outbox, another in its place": {func(t *testing.T, w *world, r *replica, _ *graveyard, id session.ID) {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			r.end(ann, id)
			closeWork(t, r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true}))
		}, session.ErrUnavailable},
		"is in the outbox, its session deleted": {func(t *testing.T, w *world, _ *replica, _ *graveyard, id session.ID) {
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: id}}}); err != nil {
				t.Fatal(err)
			}
		}, session.ErrUnavailable},
		"is not to be seen": {func(_ *testing.T, w *world, _ *replica, _ *graveyard, id session.ID) {
			w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
		}, session.ErrUnavailable},
		"can't be asked about": {func(_ *testing.T, w *world, _ *replica, _ *graveyard, _ session.ID) {
			w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: errOutage}))
		}, session.ErrUnavailable},
		"can't be reaped in now": {func(_ *testing.T, _ *world, _ *replica, yard *graveyard, _ session.ID) { yard.failing(errOutage) }, session.ErrUnavailable},
		"can never be reaped in": {func(_ *testing.T, _ *world, _ *replica, yard *graveyard, _ session.ID) {
			yard.failing(sandbox.ErrUnsupported)
		}, session.ErrUnavailable},
		"can never be reaped in, but sleeps": {func(_ *testing.T, w *world, _ *replica, yard *graveyard, id session.ID) {
			yard.failing(sandbox.ErrUnsupported)
			w.boxes.SetStatus(w.snap(id).Sandbox.Incarnation, sandbox.StatusStopped)
		}, nil},
		"is another host's": {func(_ *testing.T, w *world, _ *replica, _ *graveyard, _ session.ID) {
			w.boxes.Inject(always(memory.OpInspect, memory.Fault{Fail: sandbox.ErrWrongHost}))
		}, elsewhere},
		"can be reaped in from another host": {func(_ *testing.T, _ *world, _ *replica, yard *graveyard, _ session.ID) {
			yard.failing(sandbox.ErrWrongHost)
		}, elsewhere},
		"is not looked for, for the works can't be listed": {func(_ *testing.T, _ *world, r *replica, _ *graveyard, _ session.ID) {
			r.fail("works", 0, errOutage)
		}, errOutage},
	} {
		inWorld(t, "a work for a turn whose machine "+what, immediate, func(t *testing.T, w *world) {
			yard := newGraveyard()
			dead, r := w.replica(yard.on()), w.replica(yard.on())
			s, v := dead.spawn(ann)
			one := w.turn(v.ID)
			dead.mustWork(ann, inTurn(one))
			dead.kill()
			w.turn(v.ID)
			c.act(t, w, r, yard, s.ID)
			err := r.EndTurns(t.Context(), v.ID, one.Fence)
			switch {
			case c.want == elsewhere:
				if e := wantType[*session.ElsewhereError](t, "EndTurns", err); e.Session != s.ID {
					t.Errorf("%+v", e)
				}
			case c.want == nil && err != nil, !errors.Is(err, c.want):
				t.Errorf("EndTurns: %v, want %v", err, c.want)
			}
			w.boxes.Inject(nil)
			yard.failing(nil)
			r.meddle(nil)
			for range 6 { // what is on its way out gets there, and what has vanished is found to have
				time.Sleep(12 * time.Hour)
				r.reclaim()
			}
			if err := r.EndTurns(t.Context(), v.ID, one.Fence); err != nil {
				t.Errorf("once everything can be seen to: %v", err)
			}
		})
	}

	inWorld(t, "a machine that is awake, of a provider that can't end what it runs", immediate, func(t *testing.T, w *world) {
		dead, r := w.replica(), w.replica()
		_, v := dead.spawn(ann)
		one := w.turn(v.ID)
		dead.mustWork(ann, inTurn(one))
		dead.kill()
		w.turn(v.ID)
		wantErr(t, "EndTurns", r.EndTurns(t.Context(), v.ID, one.Fence), session.ErrUnavailable)
	})

	inWorld(t, "a machine that can't be looked up", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		dead, r := w.replica(yard.on()), w.replica(yard.on(), func(c *session.Config) { c.Store = blindStore{c.Store} })
		_, v := dead.spawn(ann)
		one := w.turn(v.ID)
		dead.mustWork(ann, inTurn(one))
		dead.kill()
		w.turn(v.ID)
		wantErr(t, "EndTurns", r.EndTurns(t.Context(), v.ID, one.Fence), session.ErrUnavailable)
	})

	inLand(t, "a machine of another host is ended by who serves that, whom the error names", func(t *testing.T, w *land) {
		yard := newGraveyard()
		dead, south, north := w.at("north", "n", yard.on()), w.at("south", "s", yard.on()), w.at("north", "m", yard.on())
		s, v := dead.spawn(ann)
		one := w.turn(v.ID)
		ghost := start(t, dead.mustWork(ann, inTurn(one)))
		dead.kill()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- north.Serve(ctx) }()
		time.Sleep(time.Second)
		w.turn(v.ID)
		err := south.EndTurns(t.Context(), v.ID, one.Fence)
		if e := wantType[*session.ElsewhereError](t, "from the other host", err); e.Session != s.ID || e.Host != "north" || e.Replica != "m" || !running(ghost) {
			t.Errorf("from the other host: %+v, it runs: %v", e, running(ghost))
		}
		if err := north.EndTurns(t.Context(), v.ID, one.Fence); err != nil || running(ghost) {
			t.Errorf("from this host: %v, it runs: %v", err, running(ghost))
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	inWorld(t, "a provider that does not answer is not asked for each of many works", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		dead, r := w.replica(yard.on()), w.replica(yard.on(), func(c *session.Config) { c.CallTimeout = time.Second })
		_, v := dead.spawn(ann)
		one := w.turn(v.ID)
		for range 20 {
			dead.mustWork(ann, inTurn(one))
		}
		dead.kill()
		w.turn(v.ID)
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Hold: latch(t)}))
		began := time.Now()
		wantErr(t, "EndTurns", r.EndTurns(t.Context(), v.ID, one.Fence), session.ErrUnavailable)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		wantErr(t, "with a context that ends", r.EndTurns(ctx, v.ID, one.Fence), context.DeadlineExceeded)
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// blindStore does not answer what is known of a sandbox.
type blindStore struct{ session.Store }

func (blindStore) Known(context.Context, []sandbox.TombstoneKey) ([]session.Known, error) {
	return nil, errOutage
}
