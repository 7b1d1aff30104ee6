package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// draining calls Drain in the background.
func (r *replica) draining(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.Drain(ctx) }()
	return done
}

func wantNotYet(t testing.TB, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("%s: Drain has returned %v", what, err)
	default:
	}
}

func TestDrain(t *testing.T) {
	inWorld(t, "Drain refuses new work and waits for what is open", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		drained := r.draining(t.Context())
		time.Sleep(time.Hour)
		r.meddle(nil)
		for _, q := range []session.WorkRequest{inConversation(v.ID), inSession(s.ID), inSession("absent")} {
			_, err := r.Open(t.Context(), ann, q)
			wantErr(t, "Open", err, session.ErrDraining)
		}
		if calls := r.only("load", "ask", "admit"); len(calls) > 0 && calls[0] == "ask" {
			t.Errorf("Open called %v", calls)
		}
		wantNotYet(t, "while work is open", drained)
		if cause := context.Cause(wk.Context()); cause != nil {
			t.Errorf("the work was stopped: %v", cause)
		}
		w.wantCharged(closeWork(t, wk), time.Hour)
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Errorf("Drain again: %v", err)
		}
		// Rows, ends and upkeep go on, and so do other processes.
		if _, err := r.Get(t.Context(), ann, s.ID); err != nil {
			t.Errorf("Get: %v", err)
		}
		closeWork(t, w.replica().mustWork(ann, inConversation(v.ID)))
		r.end(ann, s.ID)
	})

	inWorld(t, "when its context ends what is open is stopped with ErrDraining, closed and charged", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		var works []*session.Work
		for range 3 {
			s, _ := r.spawn(ann)
			works = append(works, r.mustWork(ann, inSession(s.ID)))
		}
		p := start(t, works[0])
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		wantErr(t, "Drain", r.Drain(ctx), context.DeadlineExceeded)
		for _, wk := range works {
			wantErr(t, "the work", context.Cause(wk.Context()), session.ErrDraining)
			rep := closeWork(t, wk) // by its holder, after all
			w.wantCharged(rep, 10*time.Second)
			wantErr(t, "Report.Cause", rep.Cause, session.ErrDraining)
		}
		if exit, err := p.Wait(t.Context()); err != nil || exit.Reason != sandbox.Cancelled {
			t.Errorf("the process: %+v, %v", exit, err)
		}
		w.wantSlotsFree()
	})

	inWorld(t, "Drain waits for a create under way, whose caller is long gone", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		ctx, cancel := context.WithCancel(t.Context())
		opening := r.later(ctx, inSession(s.ID))
		<-answer.Reached()
		cancel()
		wantErr(t, "Open", <-opening, context.Canceled)
		drained := r.draining(t.Context())
		time.Sleep(10 * time.Second)
		wantNotYet(t, "while a machine is being made", drained)
		answer.Open()
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
		w.wantOneMachine(s.ID) // its reply is committed
	})

	inWorld(t, "Drain waits for work that is being opened, and lets it begin", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		opened := make(chan *session.Work, 1)
		go func() { opened <- r.mustWork(ann, inSession(s.ID)) }()
		<-answer.Reached()
		drained := r.draining(t.Context())
		time.Sleep(10 * time.Second)
		answer.Open()
		wk := <-opened
		wantNotYet(t, "while work is open", drained)
		closeWork(t, wk)
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
	})

	inWorld(t, "a Drain that waits no longer stops what is being opened, too, and waits for nobody's machine", immediate, func(t *testing.T, w *world) {
		creator, r := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		first := creator.later(t.Context(), inSession(s.ID))
		<-answer.Reached()
		waiting := r.later(t.Context(), inSession(s.ID))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		wantErr(t, "Drain", r.Drain(ctx), context.Canceled)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Drain took %v", took)
		}
		wantErr(t, "Open", <-waiting, session.ErrDraining)
		answer.Open()
		if err := <-first; err != nil {
			t.Errorf("the other process: %v", err)
		}
		w.gate.wantEndedOnceBut(t, 1)
	})

	inWorld(t, "after a Drain that waited no longer nothing begins, however late its turn comes", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		gate := make(chan struct{})
		r.meddle(func(c string, _, _ int) trouble {
			if c == "admit" { // a gate that takes no notice of contexts
				return trouble{hold: func(context.Context) { <-gate }}
			}
			return trouble{}
		})
		opening := r.later(t.Context(), inSession(s.ID))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.Drain(ctx)
		wantErr(t, "Drain", err, context.Canceled)
		wantErr(t, "Drain tells that something is still under way", err, context.DeadlineExceeded)
		close(gate)
		wantErr(t, "Open", <-opening, session.ErrDraining)
		w.gate.wantEndedOnce(t)
		w.wantSlotsFree()
		if w.created() > 0 {
			t.Error("a machine was made")
		}
	})

	inWorld(t, "a Drain that waits no longer closes work whose beginning its heartbeat has not heard of: Open returns, and nothing is charged", immediate, func(t *testing.T, w *world) {
		for range 20 { // which of the two the heartbeat hears of first is not for the test to say
			r := w.replica()
			s, _ := r.spawn(ann)
			answer, renewal := latch(t), make(chan struct{})
			calls := w.asked(memory.OpCreate)
			w.boxes.Inject(on(memory.OpCreate, calls+1, memory.Fault{Hold: answer}))
			r.meddle(func(call string, _, nth int) trouble {
				if call == "renew" && nth == 1 {
					return trouble{hold: func(context.Context) { <-renewal }}
				}
				return trouble{}
			})
			opened := make(chan *session.Work, 1)
			go func() { opened <- r.mustWork(ann, inSession(s.ID)) }()
			<-answer.Reached()
			time.Sleep(25 * time.Second) // the heartbeat waits for its first renewal
			answer.Open()
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			drained := r.draining(ctx)
			synctest.Wait()
			close(renewal)
			wk := <-opened
			wantErr(t, "Drain", <-drained, context.Canceled)
			wantErr(t, "the work", context.Cause(wk.Context()), session.ErrDraining)
			w.wantCharged(closeWork(t, wk), 0)
			r.end(ann, s.ID)
		}
	})
}
