package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// turn takes the next turn of a conversation for an hour, whoever had it.
func (w *world) turn(of session.ConversationID) session.Lease {
	w.Helper()
	if was, err := w.db.Leases().Held(context.Background(), session.LeaseTurn, string(of)); err == nil {
		if err := w.db.Leases().Release(context.Background(), was); err != nil {
			w.Fatal(err)
		}
	}
	l, err := w.db.Leases().Acquire(context.Background(), session.Lease{
		Kind: session.LeaseTurn, Name: string(of), Holder: fmt.Sprint("turn of ", of), Replica: "r", For: time.Hour,
	})
	if err != nil {
		w.Fatalf("turn of %s: %v", of, err)
	}
	return l
}

// inTurn asks for work for a turn.
func inTurn(turn session.Lease) session.WorkRequest {
	return session.WorkRequest{Conversation: session.ConversationID(turn.Name), Turn: turn.Fence, Ensure: true}
}

// forTurns are the works there are for turns of a conversation.
func (w *world) forTurns(of session.ConversationID) []session.Lease {
	w.Helper()
	l, err := w.db.Leases().Works(context.Background(), of, 1<<62, session.Lease{}, 1000)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func TestTurnsAreEnded(t *testing.T) {
	inWorld(t, "lifecycle §2: what a dead process has started for a turn is ended by who takes that over, long before its lease has run out, and nothing else is", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		dead, r := w.replica(yard.on()), w.replica(yard.on())
		s, v := dead.spawn(ann)
		other := dead.add(ann, s.ID, "tester")
		one := w.turn(v.ID)
		ghosts := []sandbox.Process{start(t, dead.mustWork(ann, inTurn(one))), start(t, dead.mustWork(ann, inTurn(one)))}
		others := map[string]sandbox.Process{
			"of no turn":         start(t, dead.mustWork(ann, inConversation(v.ID))),
			"of no conversation": start(t, dead.mustWork(ann, inSession(s.ID))),
			"of another's turn":  start(t, dead.mustWork(ann, inTurn(w.turn(other.ID)))),
		}
		dead.kill()
		others["of the turn that is on"] = start(t, r.mustWork(ann, inTurn(w.turn(v.ID))))
		if err := r.EndTurns(t.Context(), v.ID, one.Fence-1); err != nil || len(yard.asked()) > 0 || !running(ghosts[0]) {
			t.Errorf("of turns before: %v, asked %v", err, yard.asked())
		}
		if err := r.EndTurns(t.Context(), v.ID, one.Fence); err != nil || running(ghosts[0]) || running(ghosts[1]) {
			t.Errorf("%v, they run: %v, %v", err, running(ghosts[0]), running(ghosts[1]))
		}
		if n := len(w.forTurns(v.ID)); n != 3 {
			t.Errorf("%d works count, want the two whose process is dead until their leases have run out, and the one that is on", n)
		}
		if err := r.EndTurns(t.Context(), v.ID, one.Fence); err != nil {
			t.Errorf("again: %v", err)
		}
		for what, p := range others {
			if !running(p) {
				t.Errorf("what ran %s was ended", what)
			}
			if err := p.Signal(t.Context(), sandbox.SignalKill); err != nil {
				t.Error(err)
			}
		}
	})

	inWorld(t, "a work of this process for a turn that was taken over is stopped with ErrFenced, its process has ended by then, and its lease stays its holder's", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		r := w.replica(yard.on())
		_, v := r.spawn(ann)
		one := w.turn(v.ID)
		late, free := r.mustWork(ann, inTurn(one)), r.mustWork(ann, inConversation(v.ID))
		two := w.turn(v.ID)
		mine := r.mustWork(ann, inTurn(two))
		p := start(t, late)
		if err := r.EndTurns(t.Context(), v.ID, one.Fence); err != nil || running(p) {
			t.Errorf("%v, it runs: %v", err, running(p))
		}
		wantErr(t, "the work", context.Cause(late.Context()), session.ErrFenced)
		if _, err := late.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"sleep", "1h"}}); !errors.Is(err, session.ErrFenced) {
			t.Errorf("it starts something: %v", err)
		}
		for what, wk := range map[string]*session.Work{"of no turn": free, "of the turn that is on": mine} {
			if cause := context.Cause(wk.Context()); cause != nil {
				t.Errorf("a work %s was stopped: %v", what, cause)
			}
		}
		if n := len(w.forTurns(v.ID)); n != 2 {
			t.Errorf("%d works count", n)
		}
		if rep := closeWork(t, late); !errors.Is(rep.Cause, session.ErrFenced) {
			t.Errorf("the report tells of %v", rep.Cause)
		}
		if left := w.forTurns(v.ID); len(left) != 1 || left[0].Turn != two.Fence {
			t.Errorf("works left: %+v", left)
		}
	})

	inWorld(t, "a work of this process whose machine does not let go of its handle is waited for no longer than a call may take, and that is an error", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		r := w.replica(yard.on(), func(c *session.Config) { c.CallTimeout = 5 * time.Second })
		_, v := r.spawn(ann)
		one := w.turn(v.ID)
		r.mustWork(ann, inTurn(one))
		w.turn(v.ID)
		letsGo := make(chan struct{})
		r.meddle(func(call string, _, _ int) trouble {
			if call == "close" {
				return trouble{hold: func(context.Context) { <-letsGo }}
			}
			return trouble{}
		})
		began := time.Now()
		wantErr(t, "EndTurns", r.EndTurns(t.Context(), v.ID, one.Fence), session.ErrUnavailable)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		close(letsGo)
		if err := r.EndTurns(t.Context(), v.ID, one.Fence); err != nil {
			t.Errorf("once it has let go: %v", err)
		}
	})

	inWorld(t, "one that can't be ended keeps no other running, and there may be hundreds", immediate, func(t *testing.T, w *world) {
		yard := newGraveyard()
		r := w.replica(yard.on())
		s, v := r.spawn(ann)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		live, stuck := w.snap(s.ID).Sandbox.ID, w.snap(r.dying()).Sandbox.ID
		one := w.turn(v.ID)
		for i := range 450 {
			l := session.Lease{
				Kind: session.LeaseWork, Name: "other", Holder: fmt.Sprint("w", i), Replica: "dead", Payer: "ann", Slots: 1000, For: time.Minute,
				Sandbox: live, Conversation: v.ID, Turn: one.Fence,
			}
			if i%100 == 0 {
				l.Sandbox = stuck
			}
			if _, err := w.db.Leases().Acquire(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		err := r.EndTurns(t.Context(), v.ID, one.Fence)
		wantErr(t, "EndTurns", err, session.ErrUnavailable)
		asked := yard.asked()
		slices.Sort(asked)
		if n := len(slices.Compact(asked)); n != 445 {
			t.Errorf("%d works were ended, want 445", n)
		}
	})
}
