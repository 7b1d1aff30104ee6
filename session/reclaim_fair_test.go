package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// otherProvider is a second provider, called "other", whose machines sessions get while it is on.
type otherProvider struct {
	boxes *memory.Sandboxes
	on    bool
}

func newOther() *otherProvider {
	return &otherProvider{boxes: memory.NewSandboxes(&memory.SandboxOptions{Name: "other"})}
}

func (s *otherProvider) config(c *session.Config) {
	p := c.Sandboxes[0].(wiredProvider)
	p.Provider = s.boxes
	c.Sandboxes = append(c.Sandboxes, p)
	c.Place = func(session.Placing) (session.Placement, error) {
		if s.on {
			return session.Placement{Provider: "other"}, nil
		}
		return session.Placement{}, nil
	}
}

// What can't be finished keeps nothing else waiting.
func TestReclaimIsFair(t *testing.T) {
	for what, fault := range map[string]memory.Fault{
		"fails":         {Fail: errOutage},
		"never answers": {Hold: new(memory.Latch)},
	} {
		inWorld(t, "the rows of a provider that "+what+" take turns, so that those of one that works are seen to, however many there are", immediate, func(t *testing.T, w *world) {
			dead := newOther()
			r := w.replica(dead.config)
			dead.on = true
			var stuck []session.ID
			for range 5 {
				id := r.warm()
				dead.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
				r.end(ann, id)
				stuck = append(stuck, id)
			}
			dead.boxes.Inject(func(c memory.Call) memory.Fault { return fault })
			dead.on = false
			living := r.dying()
			looked := map[sandbox.ID]int{}
			for pass := 1; w.snap(living).Sandbox.State != sandbox.None; pass++ {
				if pass > 3 {
					t.Fatal("what could be finished was not in three passes of two")
				}
				rep := r.pass(session.ReclaimOptions{Limit: 2})
				for _, i := range rep.Items {
					looked[i.Tombstone.Sandbox]++
				}
			}
			for range 2 {
				for _, i := range r.pass(session.ReclaimOptions{Limit: 2}).Items {
					looked[i.Tombstone.Sandbox]++
				}
			}
			for _, id := range stuck {
				if row := w.snap(id).Sandbox; looked[row.ID] == 0 || row.State != sandbox.Destroying {
					t.Errorf("looked %d times, row %+v", looked[row.ID], row)
				}
			}
			dead.boxes.Inject(nil)
			r.settle()
			for _, id := range stuck {
				if state := w.snap(id).Sandbox.State; state != sandbox.None {
					t.Errorf("once it works again: %v", state)
				}
			}
		})
	}

	inWorld(t, "so do the rows and the outbox of a provider that is not configured", immediate, func(t *testing.T, w *world) {
		gone := newOther()
		full, bare := w.replica(gone.config), w.replica()
		gone.on = true
		for range 5 {
			id := full.warm()
			gone.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			full.end(ann, id)
			full.orphan()
		}
		gone.on = false
		living := bare.dying()
		bare.orphan()
		for range 3 {
			rep := bare.pass(session.ReclaimOptions{Limit: 2})
			for _, i := range rep.Items {
				if (i.Action == session.ReclaimFailed) != (i.Provider == "other") || i.Action == session.ReclaimFailed && !strings.Contains(i.Reason, "configured") {
					t.Errorf("item %+v", i)
				}
			}
		}
		if state := w.snap(living).Sandbox.State; state != sandbox.None || len(w.outbox()) != 5 {
			t.Errorf("row %v, %d in the outbox", state, len(w.outbox()))
		}
	})

	inWorld(t, "and live machines of a provider that fails, and those that only wait", lagging, func(t *testing.T, w *world) {
		dead := newOther()
		r := w.replica(dead.config)
		dead.on = true
		for range 5 {
			r.warm()
		}
		dead.on = false
		vanished := r.warm()
		time.Sleep(time.Hour)
		w.boxes.Kill(w.snap(vanished).Sandbox.Incarnation)
		dead.boxes.Inject(func(memory.Call) memory.Fault { return memory.Fault{Fail: errOutage} })
		for pass := 1; w.snap(vanished).Sandbox.State == sandbox.Live; pass++ {
			if pass > 6 {
				t.Fatal("not found lost in six passes of two")
			}
			r.pass(session.ReclaimOptions{Limit: 2, Unseen: time.Minute})
			time.Sleep(time.Minute)
		}
	})

	inWorld(t, "what can't be noted as looked at is seen to all the same", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		r.dying()
		w.boxes.Inject(on(memory.OpInspect, w.asked(memory.OpInspect)+1, memory.Fault{Fail: errOutage}))
		live := r.warm()
		time.Sleep(time.Hour)
		r.fail("commit", 0, errOutage)
		rep := r.pass(session.ReclaimOptions{})
		wantActions(t, "the row", rep, session.DueDestroying, session.ReclaimFailed)
		wantActions(t, "the live one", rep, session.DueLive, session.ReclaimSeen)
		r.meddle(nil)
		rep = r.reclaim()
		wantActions(t, "again, the row", rep, session.DueDestroying, session.ReclaimProven)
		wantActions(t, "again, the live one", rep, session.DueLive, session.ReclaimSeen)
		if state := w.snap(live).Sandbox.State; state != sandbox.Live {
			t.Errorf("row %v", state)
		}
	})
}

// broken is a provider whose driver has a fault of its own.
type broken struct {
	sandbox.Provider
	inspect, destroy func(context.Context)
}

func (p broken) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	if p.inspect != nil {
		p.inspect(ctx)
	}
	return p.Provider.Inspect(ctx, ref)
}

func (p broken) Destroy(ctx context.Context, ref sandbox.Ref) error {
	if p.destroy != nil {
		p.destroy(ctx)
	}
	return p.Provider.Destroy(ctx, ref)
}

// A broken driver spoils its own machines, and not the pass.
func TestReclaimOutlivesDrivers(t *testing.T) {
	for what, fault := range map[string]func(never chan struct{}) func(context.Context){
		"panics": func(chan struct{}) func(context.Context) {
			return func(context.Context) { panic("driver: index out of range") }
		},
		"waits for the end of its context": func(chan struct{}) func(context.Context) {
			return func(ctx context.Context) { <-ctx.Done() }
		},
		"takes no notice of its context": func(never chan struct{}) func(context.Context) {
			return func(context.Context) { <-never }
		},
	} {
		inWorld(t, "a driver that "+what+" stops no pass: the machines of others are seen to", immediate, func(t *testing.T, w *world) {
			never := make(chan struct{})
			defer close(never)
			other := newOther()
			r := w.replica(other.config)
			other.on = true
			var theirs []session.ID
			for range 6 {
				id := r.warm()
				other.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
				r.end(ann, id)
				theirs = append(theirs, id)
			}
			other.boxes.Inject(nil)
			other.on = false
			mine := r.dying()
			r.orphan()

			f := fault(never)
			keeper := w.replica(other.config, func(c *session.Config) {
				c.Sandboxes[1] = broken{c.Sandboxes[1], f, nil}
			})
			begun := time.Now()
			rep := keeper.reclaim()
			if took := time.Since(begun); took > 4*time.Minute {
				t.Errorf("the pass took %v", took)
			}
			if rep.Failed != 6 || rep.Proven != 2 || rep.Incomplete || w.snap(mine).Sandbox.State != sandbox.None {
				t.Errorf("%+v", rep)
			}
			keeper = w.replica(other.config, func(c *session.Config) { c.Sandboxes[1] = broken{c.Sandboxes[1], nil, f} })
			unanswered := 6 // what was answered, if with a panic, is asked about again
			if what == "panics" {
				unanswered = 0
			}
			begun = time.Now()
			if rep := keeper.reclaim(); rep.Failed != unanswered || rep.Proven > 0 || time.Since(begun) > 4*time.Minute {
				t.Errorf("where it is the kill, after %v: %+v", time.Since(begun), rep)
			}
			r.settle()
			for _, id := range theirs {
				if state := w.snap(id).Sandbox.State; state != sandbox.None {
					t.Errorf("once it works: row %v", state)
				}
			}
		})
	}

	inWorld(t, "a provider that leaves three calls unanswered is not asked again in that pass, and is in the next", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for range 10 {
			r.dying()
		}
		hold := latch(t)
		w.boxes.Inject(always(memory.OpInspect, memory.Fault{Hold: hold}))
		for range 2 {
			before := w.asked(memory.OpInspect)
			rep := r.reclaim()
			if n := w.asked(memory.OpInspect) - before; n != 3 || rep.Failed != 10 {
				t.Errorf("asked %d times, %+v", n, rep)
			}
			for _, i := range rep.Items {
				if i.Err == nil || i.Reason == "" {
					t.Errorf("item %+v", i)
				}
			}
		}
	})

	inWorld(t, "a driver that panics in a create leaves the outcome open, and the process running", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Sandboxes[0] = panicking{c.Sandboxes[0]} })
		s, _ := r.spawn(ann)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.work(ctx, ann, inSession(s.ID))
		wantType[*sandbox.ProvisioningError](t, "Open", err)
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.Creating {
			t.Errorf("row %+v", row)
		}
		time.Sleep(5 * time.Minute)
		w.replica().settle()
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.None {
			t.Errorf("row %+v", row)
		}
	})
}

type panicking struct{ sandbox.Provider }

func (panicking) Create(context.Context, sandbox.CreateRequest) (sandbox.Machine, error) {
	panic(errors.New("driver: nil map"))
}

// What belongs to an environment is carried on by way of it.
func TestReclaimEnvironments(t *testing.T) {
	type made struct {
		id      session.EnvironmentID
		session session.ID
	}
	borrowed := func(t *testing.T, r *replica) made {
		e, err := r.CreateEnvironment(t.Context(), ann, session.NewEnvironment{Project: "p", Name: "e"})
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Environment: e.ID})
		if err != nil {
			t.Fatal(err)
		}
		return made{e.ID, s.ID}
	}
	row := func(w *world, id session.EnvironmentID) sandbox.Row {
		s, err := w.db.Sessions().Load(context.Background(), session.Address{Environment: id})
		if err != nil {
			w.Fatal(err)
		}
		return s.Sandbox
	}
	for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
		inWorld(t, "an environment's machine that was asked for by the dead is adopted, one that came to nothing is given up, a deleted one's is proven gone, a vanished one's is lost: "+what, caps, func(t *testing.T, w *world) {
			r := w.replica()
			open := func(m made, fault memory.Fault) {
				w.boxes.Inject(on(memory.OpCreate, w.created()+1, fault))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := r.work(ctx, ann, inSession(m.session))
				wantType[*sandbox.ProvisioningError](t, "Open", err)
				w.boxes.Inject(nil)
			}
			adopted, givenUp, deleted, vanished := borrowed(t, r), borrowed(t, r), borrowed(t, r), borrowed(t, r)
			for _, m := range []made{deleted, vanished} {
				closeWork(t, r.mustWork(ann, inSession(m.session)))
			}
			open(adopted, memory.Fault{Lose: true})
			open(givenUp, memory.Fault{Fail: errOutage})
			w.boxes.Kill(row(w, vanished.id).Incarnation)
			w.boxes.Inject(always(memory.OpDestroy, memory.Fault{Fail: errOutage}))
			if rep, err := r.DeleteEnvironment(t.Context(), ann, deleted.id); err != nil || !rep.Pending {
				t.Errorf("DeleteEnvironment: %+v, %v", rep, err)
			}
			w.boxes.Inject(nil)
			time.Sleep(10 * time.Minute)
			for range 30 {
				if rep := r.reclaim(); rep.Failed > 0 || rep.Incomplete {
					t.Errorf("%+v", rep)
				}
				time.Sleep(time.Minute)
			}
			for m, want := range map[made]sandbox.State{adopted: sandbox.Live, givenUp: sandbox.None, deleted: sandbox.None, vanished: sandbox.Lost} {
				if got := row(w, m.id); got.State != want {
					t.Errorf("row %+v, want %v", got, want)
				}
			}
			w.wantOutboxEmpty()
			closeWork(t, r.mustWork(ann, inSession(adopted.session)))
			if got := row(w, adopted.id); got.Generation != 1 {
				t.Errorf("row %+v", got)
			}
		})
	}
}

// T-31, as the outbox is kept here: one entry for each generation and
// incarnation, so that no entry hides another.
func TestOutboxOfOneSandbox(t *testing.T) {
	inWorld(t, "T-31: what a deleted session leaves is a new entry beside the old one of the same sandbox, and both are proven", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		first := w.snap(id).Sandbox
		if _, err := r.Reopen(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		closeWork(t, r.mustWork(ann, inSession(id))) // generation 2; the first goes to the outbox
		latest := w.snap(id).Sandbox
		if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: id}}}); err != nil {
			t.Fatal(err)
		}
		got := map[sandbox.TombstoneKey]bool{}
		for _, tomb := range w.outbox() {
			got[tomb.TombstoneKey] = true
		}
		for _, row := range []sandbox.Row{first, latest} {
			if !got[sandbox.TombstoneKey{Sandbox: row.ID, Generation: row.Generation, Incarnation: row.Incarnation}] {
				t.Errorf("no entry of generation %d, %s: %v", row.Generation, row.Incarnation, got)
			}
		}
		if rep := r.reclaim(); rep.Proven != 2 || len(w.boxes.Machines()) != 0 {
			t.Errorf("%+v", rep)
		}
		w.wantOutboxEmpty()
	})

	inWorld(t, "T-31: a create whose answer was lost, and whose session is deleted, leaves an entry of the whole generation beside that of the machine before", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.dying()
		if _, err := r.Reopen(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		w.boxes.Inject(on(memory.OpCreate, w.created()+1, memory.Fault{Lose: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.work(ctx, ann, inSession(id))
		wantType[*sandbox.ProvisioningError](t, "Open", err)
		w.boxes.Inject(nil)
		if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: id}}}); err != nil {
			t.Fatal(err)
		}
		if box := w.outbox(); len(box) != 2 || fmt.Sprint(box[0].Incarnation == "", box[1].Incarnation == "") != "false true" || len(w.boxes.Machines()) != 2 {
			t.Errorf("outbox %+v, machines %+v", box, w.boxes.Machines())
		}
		time.Sleep(2 * time.Minute) // the create's window
		if rep := r.reclaim(); rep.Proven != 2 || len(w.boxes.Machines()) != 0 {
			t.Errorf("%+v, machines %+v", rep, w.boxes.Machines())
		}
	})
}
