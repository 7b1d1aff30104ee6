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

// later opens work in the background; the answer is to be had once.
func (r *replica) later(ctx context.Context, q session.WorkRequest) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.work(ctx, ann, q)
		done <- err
	}()
	return done
}

// settle lets the Keeper pass every half minute until there is nothing left to do.
func (r *replica) settle() {
	r.w.Helper()
	for range 120 {
		rep := r.reclaim()
		if len(rep.Items) == 0 {
			return
		}
		time.Sleep(30 * time.Second)
	}
	r.w.Errorf("the Keeper has not come to rest in an hour: %+v", r.reclaim())
}

// T-14: an end while the create is in flight.
func TestEndDuringCreate(t *testing.T) {
	for what, caps := range map[string]sandbox.Caps{"that hides nothing": immediate, "that says nothing of itself": unknown} {
		inWorld(t, "T-14: the late create of a provider "+what+" is destroyed, and the session stays ended", caps, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(ann)
			answer := latch(t)
			w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
			opening := r.later(t.Context(), inSession(s.ID))
			<-answer.Reached()
			wantReport(t, "End", w.replica().end(ann, s.ID), session.EndReport{Ended: true, Pending: true})
			answer.Open()
			wantErr(t, "Open", <-opening, session.ErrEnded)
			if snap := w.snap(s.ID); !snap.Session.Ended() || snap.Sandbox.State != sandbox.Destroying {
				t.Errorf("session %+v, row %v", snap.Session, snap.Sandbox.State)
			}
			r.settle()
			if snap := w.snap(s.ID); len(w.boxes.Machines()) > 0 || !snap.Session.Ended() || snap.Sandbox.State != sandbox.None {
				t.Errorf("machines %+v, %+v", w.boxes.Machines(), snap)
			}
			if w.created() != 1 || len(w.gate.live()) > 0 {
				t.Errorf("%d creates, holds %v", w.created(), w.gate.live())
			}
			w.gate.wantEndedOnce(t)
		})
	}

	inWorld(t, "T-14: the end retries when a create begins between its look and its commit", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 { // it has seen no machine
				return trouble{hold: func(context.Context) { closeWork(t, other.mustWork(ann, inSession(s.ID))) }}
			}
			return trouble{}
		})
		wantReport(t, "End", r.end(ann, s.ID), session.EndReport{Ended: true, Destroyed: true})
		if len(w.boxes.Machines()) > 0 {
			t.Errorf("machines %+v", w.boxes.Machines())
		}
	})

	inWorld(t, "T-15: work that begins never takes back an end that came between", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 { // the intent
				return trouble{hold: func(context.Context) { other.end(ann, s.ID) }}
			}
			return trouble{}
		})
		_, err := r.work(t.Context(), ann, inSession(s.ID))
		wantErr(t, "Open", err, session.ErrEnded)
		if snap := w.snap(s.ID); !snap.Session.Ended() || snap.Sandbox.State != sandbox.None || w.created() > 0 {
			t.Errorf("%+v, %d creates", snap, w.created())
		}
		w.gate.wantEndedOnce(t)
	})

	inWorld(t, "rule 4: reopened while the create of generation 1 is still in flight, generation 2 is made and the late one killed", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		opening := r.later(t.Context(), inSession(s.ID))
		<-answer.Reached()
		other.end(ann, s.ID)
		wk := other.mustWork(ann, session.WorkRequest{Session: s.ID, Ensure: true, Reopen: true})
		answer.Open()
		if err := <-opening; err != nil {
			t.Errorf("the first caller shares generation 2: %v", err)
		}
		r.settle()
		w.wantOneMachine(s.ID)
		if row := w.snap(s.ID).Sandbox; row.Generation != 2 || row.Incarnation != wk.Sandbox().Ref().Incarnation {
			t.Errorf("row %+v", row)
		}
	})
}

// T-21, T-22: several have one machine made.
func TestLostRaces(t *testing.T) {
	inWorld(t, "T-22: the machine of a creator that was overtaken is buried and then killed, not by the loser", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{HoldReply: answer}))
		opening := r.later(t.Context(), inSession(s.ID))
		<-answer.Reached()
		other.end(ann, s.ID)
		wk := other.mustWork(ann, session.WorkRequest{Session: s.ID, Ensure: true, Reopen: true})
		r.meddle(nil)
		answer.Open()
		if err := <-opening; err != nil {
			t.Errorf("the loser's caller gets the winner's machine: %v", err)
		}
		if n := r.count("destroy"); n > 0 {
			t.Errorf("rule 5: the loser destroyed %d machines itself", n)
		}
		other.settle()
		w.wantOneMachine(s.ID)
		if got := w.snap(s.ID).Sandbox.Incarnation; got != wk.Sandbox().Ref().Incarnation {
			t.Errorf("row names %s", got)
		}
	})

	inWorld(t, "T-21: where the commit of the reply was done and unanswered, the machine is ours: used, neither buried nor killed", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.lose("commit", 2, session.ErrUnknown)
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
		if box := w.outbox(); len(box) > 0 || r.count("destroy") > 0 {
			t.Errorf("outbox %+v, calls %v", box, r.calls())
		}
	})

	inWorld(t, "a reply that can't be committed at once is committed as soon as the store answers again", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth >= 2 && nth <= 20 {
				return trouble{before: errOutage}
			}
			return trouble{}
		})
		begun := time.Now()
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
		if took := time.Since(begun); took > 15*time.Second || w.created() != 1 {
			t.Errorf("Open took %v and %d creates", took, w.created())
		}
	})

	inWorld(t, "T-21: where somebody adopted the machine before its creator could, it is used", immediate, func(t *testing.T, w *world) {
		r, keeper := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 2 { // the reply, paused beyond the deadline
				return trouble{hold: func(context.Context) {
					time.Sleep(76 * time.Second)
					if rep := keeper.reclaim(); len(rep.Items) != 1 || rep.Items[0].Action != session.ReclaimAdopted {
						t.Errorf("Reclaim: %+v", rep)
					}
				}}
			}
			return trouble{}
		})
		wk := r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
		if box := w.outbox(); len(box) > 0 || wk.Sandbox().Ref().Incarnation != w.boxes.Machines()[0].Incarnation {
			t.Errorf("outbox %+v", box)
		}
	})

	inWorld(t, "rule 5: a machine of whose two copies one was adopted: the other is buried and killed, the adopted one never", unknown, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Twice: true, Lose: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.work(ctx, ann, inSession(s.ID))
		wantType[*sandbox.ProvisioningError](t, "Open while the answer is out", err)
		time.Sleep(2 * time.Minute)
		wk := r.mustWork(ann, inSession(s.ID)) // adopts
		if len(w.boxes.Machines()) != 2 {
			t.Fatalf("machines %+v", w.boxes.Machines())
		}
		r.settle()
		w.wantOneMachine(s.ID)
		if cause := context.Cause(wk.Context()); cause != nil {
			t.Errorf("the work was stopped: %v", cause)
		}
	})

	inWorld(t, "rule 5: what the outbox names is not adopted", unknown, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Lose: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.work(ctx, ann, inSession(s.ID))
		wantType[*sandbox.ProvisioningError](t, "Open while the answer is out", err)
		row := w.snap(s.ID).Sandbox
		claim := sandbox.Tombstone{
			TombstoneKey: sandbox.TombstoneKey{Sandbox: row.ID, Generation: 1, Incarnation: w.boxes.Machines()[0].Incarnation},
			Name:         row.Name, Provider: row.Provider, Payer: row.Payer,
		}
		if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Bury: []sandbox.Tombstone{claim}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		_, err = r.work(t.Context(), ann, inSession(s.ID))
		wantErr(t, "Open once the attempt has come to nothing", err, session.ErrUnavailable)
		r.settle()
		if n := len(w.boxes.Machines()); n != 0 || w.snap(s.ID).Sandbox.State != sandbox.None {
			t.Errorf("%d machines, row %v", n, w.snap(s.ID).Sandbox.State)
		}
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "two that come after the deadline adopt one machine and both work in it", immediate, func(t *testing.T, w *world) {
		replicas := []*replica{w.replica(), w.replica()}
		s, _ := replicas[0].spawn(ann)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Lose: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := replicas[0].work(ctx, ann, inSession(s.ID))
		wantType[*sandbox.ProvisioningError](t, "Open while the answer is out", err)
		time.Sleep(2 * time.Minute)
		// The second decides on what it saw before the first adopted.
		seen := latch(t)
		w.boxes.Inject(on(memory.OpInspect, 1, memory.Fault{HoldReply: seen}))
		slow := replicas[1].later(t.Context(), inSession(s.ID))
		<-seen.Reached()
		replicas[0].mustWork(ann, inSession(s.ID))
		seen.Open()
		if err := errors.Join(<-slow); err != nil {
			t.Errorf("the slow one: %v", err)
		}
		w.wantOneMachine(s.ID)
	})
}
