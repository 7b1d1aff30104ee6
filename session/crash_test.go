package session_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// mishap is what befalls one call of a process.
type mishap struct {
	name string
	of   func(call string) trouble
}

var mishaps = []mishap{
	{"can't be made", func(string) trouble { return trouble{before: errOutage} }},
	{"is done and its reply lost", func(c string) trouble {
		if c == "commit" {
			return trouble{after: session.ErrUnknown}
		}
		return trouble{after: errOutage}
	}},
	{"is where the process dies, before", func(string) trouble { return trouble{kill: true} }},
	{"is where the process dies, after", func(string) trouble { return trouble{kill: true, after: errCrash} }},
}

// story is something that a process does, and what there was before.
type story struct {
	name    string
	arrange func(w *world, r *replica) session.ID
	act     func(ctx context.Context, r *replica, id session.ID)
	again   bool // only whoever does it again finds out what there is to clean up
}

// Whatever befalls whichever call of whatever is under way: the next process
// finds a world in which rows, machines, holds and slots come to agree.
func TestCrashAtEveryStep(t *testing.T) {
	spawned := func(_ *world, r *replica) session.ID { s, _ := r.spawn(ann); return s.ID }
	work := func(q session.WorkRequest) func(context.Context, *replica, session.ID) {
		return func(ctx context.Context, r *replica, id session.ID) {
			q.Session, q.Ensure = id, true
			if wk, err := r.work(ctx, ann, q); err == nil {
				time.Sleep(50 * time.Second) // two beats
				wk.Close(ctx)
			}
		}
	}
	for _, s := range []story{
		{"spawn", func(*world, *replica) session.ID { return "" }, func(ctx context.Context, r *replica, _ session.ID) {
			r.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: "builder", Conversation: callersID})
		}, false},
		{"cold work", spawned, work(session.WorkRequest{}), false},
		{"end", func(_ *world, r *replica) session.ID { return r.warm() }, func(ctx context.Context, r *replica, id session.ID) {
			r.End(ctx, ann, id)
		}, false},
		{"work reopened", func(_ *world, r *replica) session.ID { return r.dying() }, work(session.WorkRequest{Reopen: true}), false},
		{"loss and its acceptance", func(w *world, r *replica) session.ID {
			id := r.warm()
			time.Sleep(time.Hour)
			w.boxes.Kill(w.snap(id).Sandbox.Incarnation)
			return id
		}, func(ctx context.Context, r *replica, id session.ID) {
			for range 3 { // told as an outage, then as a loss
				work(session.WorkRequest{AcceptLoss: 1})(ctx, r, id)
				time.Sleep(time.Minute)
			}
		}, true},
		{"reclaim", func(_ *world, r *replica) session.ID {
			id := r.abandoned(memory.Fault{Lose: true})
			r.abandoned(memory.Fault{Fail: errOutage})
			r.dying()
			r.orphan()
			return id
		}, func(ctx context.Context, r *replica, _ session.ID) {
			for range 3 {
				r.Reclaim(ctx, session.ReclaimOptions{})
				time.Sleep(time.Minute)
			}
		}, false},
		{"environment", func(*world, *replica) session.ID { return "" }, func(ctx context.Context, r *replica, _ session.ID) {
			environmentStory(ctx, r)
		}, false},
		{"deletion of an environment", func(_ *world, r *replica) session.ID {
			s, _ := r.borrow(ann, r.newEnvironment(ann))
			closeWork(r.w, r.mustWork(ann, inSession(s.ID)))
			return s.ID
		}, func(ctx context.Context, r *replica, id session.ID) {
			r.DeleteEnvironment(ctx, ann, r.w.snap(id).Session.Environment)
		}, false},
	} {
		for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
			for _, m := range mishaps {
				t.Run(fmt.Sprintf("%s, %s: a call that %s", s.name, what, m.name), func(t *testing.T) {
					n, reached := 0, true
					for reached {
						n++
						t.Run(fmt.Sprint(n), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { reached = crash(t, newWorld(t, caps), s, m, n) })
						})
					}
					if n < 3 {
						t.Errorf("only %d calls were reached", n-1)
					}
				})
			}
		}
	}
}

// environmentStory is the life of an environment that two sessions borrow, as
// far as it comes.
func environmentStory(ctx context.Context, r *replica) {
	e, err := r.CreateEnvironment(ctx, ann, session.NewEnvironment{Project: "p"})
	if err != nil {
		return
	}
	var works []*session.Work
	for _, own := range []session.ConversationID{callersID, "0199aaaa-0000-7000-8000-00000000000b"} {
		_, v, err := r.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: "builder", Conversation: own, Environment: e.ID})
		if err != nil {
			continue
		}
		if wk, err := r.work(ctx, ann, inConversation(v.ID)); err == nil {
			works = append(works, wk)
			time.Sleep(25 * time.Second) // a beat
		}
	}
	if len(works) > 0 {
		r.End(ctx, ann, works[0].Session())
	}
	for _, wk := range works {
		wk.Close(ctx)
	}
	r.DeleteEnvironment(ctx, ann, e.ID)
	for range 2 {
		r.Reclaim(ctx, session.ReclaimOptions{})
		time.Sleep(time.Minute)
	}
}

// crash plays the story with a mishap at its nth call, lets another process
// clean up, and reports whether there was such a call.
func crash(t *testing.T, w *world, s story, m mishap, n int) (reached bool) {
	id := s.arrange(w, w.replica())
	r := w.replica()
	r.meddle(func(call string, i, _ int) trouble {
		if i == n {
			reached = true
			return m.of(call)
		}
		return trouble{}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	s.act(ctx, r, id)
	next := w.replica()
	if s.again {
		s.act(t.Context(), next, id)
	}
	w.converge(next)
	if s.name == "spawn" {
		w.wantOneSpawn(next)
	}
	// And life goes on, in every session that has something to work in.
	time.Sleep(10 * time.Minute)
	for _, snap := range w.all() {
		wk, err := next.work(t.Context(), ann, session.WorkRequest{
			Session: snap.Session.ID, Ensure: true, Reopen: true, AcceptLoss: snap.Sandbox.Generation,
		})
		if snap.Environment.Deleted() {
			wantErr(t, "Open in a deleted environment afterwards", err, session.ErrEnvironmentGone)
			continue
		}
		if err != nil {
			t.Errorf("Open afterwards: %v", err)
			continue
		}
		closeWork(t, wk)
	}
	w.converge(next)
	return reached
}

// converge lets the Keeper work until nothing is left to do, and fails the
// test unless rows, machines, outbox, holds and slots then agree.
func (w *world) converge(keeper *replica) {
	w.Helper()
	quiet := false
	for passes := 0; !quiet && passes < 200; passes++ {
		rep := keeper.reclaim()
		quiet = len(rep.Items) == 0
		for _, s := range append(w.all(), w.allEnvironments()...) {
			quiet = quiet && s.Sandbox.State != sandbox.Creating
		}
		time.Sleep(30 * time.Second)
	}
	if !quiet {
		w.Error("the Keeper has not come to rest in 200 passes")
	}
	alive, named := map[sandbox.Incarnation]bool{}, map[sandbox.Incarnation]bool{}
	for _, m := range w.boxes.Machines() {
		alive[m.Incarnation] = true
	}
	for _, s := range append(w.all(), w.allEnvironments()...) {
		row := s.Sandbox
		switch {
		case row.State == sandbox.Live && !alive[row.Incarnation]:
			w.Errorf("sandbox %s: row names machine %s, which is not there", row.ID, row.Incarnation)
		case row.State == sandbox.Creating || row.State == sandbox.Destroying:
			w.Errorf("sandbox %s: row is still %v", row.ID, row.State)
		case row.State == sandbox.Live && row.Environment == "" && s.Session.Ended():
			w.Errorf("session %s has ended, and its machine lives", s.Session.ID)
		case row.State == sandbox.Live && s.Environment.Deleted():
			w.Errorf("environment %s is deleted, and its machine lives", s.Environment.ID)
		case row.ID == "" || row.Environment != s.Environment.ID:
			w.Errorf("session %s, environment %s: sandbox %+v", s.Session.ID, s.Environment.ID, row)
		}
		if row.State == sandbox.Live {
			named[row.Incarnation] = true
		}
	}
	maps.DeleteFunc(alive, func(i sandbox.Incarnation, _ bool) bool { return named[i] })
	for _, s := range w.all() {
		sum, err := keeper.Get(context.Background(), ann, s.Session.ID)
		if err != nil || len(sum.Conversations) == 0 {
			w.Errorf("S-08: session %s is half done: %+v, %v", s.Session.ID, sum, err)
		}
	}
	if len(alive) > 0 || len(w.outbox()) > 0 {
		w.Errorf("machines that no row names: %v; outbox %+v", alive, w.outbox())
	}

	time.Sleep(3 * time.Minute) // what a dead process held has run out
	if live := w.gate.live(); len(live) > 0 {
		w.Errorf("holds left: %v", live)
	}
	for id, h := range w.gate.all() {
		if h.settled > 1 || h.settled > 0 && h.given > 0 {
			w.Errorf("T-61: hold %s was settled %d times and released %d times", id, h.settled, h.given)
		}
	}
	for _, m := range w.boxes.Machines() { // what nobody works in falls asleep
		w.boxes.SetStatus(m.Incarnation, sandbox.StatusStopped)
	}
	keeper.slots(w)
	w.wantSlotsFree()
}

// wantOneSpawn fails the test unless a repeated spawn yields the one session there is.
func (w *world) wantOneSpawn(r *replica) {
	w.Helper()
	before := len(w.all())
	s, v, err := r.Spawn(w.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Conversation: callersID})
	if err != nil || v.ID != callersID || v.Session != s.ID {
		w.Errorf("Spawn again: %+v %+v %v", s, v, err)
	}
	if all := w.all(); before > 1 || len(all) != 1 || all[0].Session.ID != s.ID {
		w.Errorf("%d sessions before, %d after the retry", before, len(all))
	}
}

// Rule 10, in part: what a process that was killed had asked for may come late, and is found.
func TestCrashWithALateCreate(t *testing.T) {
	for what, late := range map[string]time.Duration{"before the deadline": 30 * time.Second, "after it, within the horizon": 3 * time.Minute} {
		inWorld(t, "a create of a dead process that is done "+what+" becomes the session's or is killed, whatever was decided meanwhile", lagging, func(t *testing.T, w *world) {
			for _, act := range []func(r *replica, id session.ID){
				func(*replica, session.ID) {},
				func(r *replica, id session.ID) { r.end(ann, id) },
				func(r *replica, id session.ID) {
					r.end(ann, id)
					r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true}).Close(context.Background())
				},
			} {
				w := newWorld(t, lagging)
				r := w.replica()
				s, _ := r.spawn(ann)
				done := latch(t)
				w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Late: done}))
				time.AfterFunc(late, done.Open)
				r.meddle(func(c string, _, _ int) trouble {
					if c == "create" {
						return trouble{after: errCrash, kill: true}
					}
					return trouble{}
				})
				if _, err := r.work(t.Context(), ann, inSession(s.ID)); !errors.Is(err, errCrash) {
					t.Errorf("Open by the process that dies: %v", err)
				}
				next := w.replica()
				act(next, s.ID)
				w.converge(next)
			}
		})
	}
}
