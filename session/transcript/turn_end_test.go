package transcript_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// A reply that was lost is no failure: what is said is said once, whatever place it is for.
func TestRepliesLost(t *testing.T) {
	for _, call := range []string{"begin", "settle", "commit", "end", "end idle", "acquire"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, nil)
			h.leaves(1)
			time.Sleep(turnLease)
			in := saying("for a ref", steer)
			in.Ref = "r"
			h.admit(in)
			lost := map[string]int{}
			r := h.runner()
			r.meet = func(now string, _ int, after bool) error {
				if now != call || !after || lost[now] > 0 {
					return nil
				}
				lost[now]++
				if now == "acquire" {
					return errUnknownLease
				}
				return transcript.ErrUnknown
			}
			turn := h.begins(r)
			h.tidy(turn)
			if got := next(t, turn, false); got != "for a ref" {
				t.Errorf("%s: said %q", call, got)
			}
			if waiting, err := turn.Finish(t.Context()); call != "end" && (err != nil || len(waiting) > 0) {
				t.Errorf("%s: Finish: %v, %v", call, waiting, err)
			}
			again := h.begins(r) // at once: the lease was given back
			if _, err := again.Close(t.Context(), nil); err != nil {
				t.Errorf("%s: Close: %v", call, err)
			}
			if lost[call] != 1 || h.row().InTurn {
				t.Errorf("%s: lost %v; it is in a turn: %v", call, lost, h.row().InTurn)
			}
			if d := cmp.Diff([]transcript.EntryID{"answer", "for a ref"}, h.path()); d != "" {
				t.Errorf("%s: %s", call, d)
			}
		})
	}
}

// Case 32: what comes as a turn is ending, at whichever moment of that, is looked at by this turn, or
// whoever sent it was told that there is none. There is no third outcome.
func TestNoThirdOutcome(t *testing.T) {
	seen := map[bool]int{}
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			reached := false
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, nil)
				h.create()
				r := h.runner()
				turn := h.begins(r)
				var admitted transcript.Admitted
				r.meddle(func(_ string, nth int, done bool) error {
					if nth == n && done == after {
						reached = true
						admitted = h.admit(saying("just now", follow))
					}
					return nil
				})
				waiting, err := turn.Finish(t.Context())
				r.meddle(nil)
				switch {
				case err != nil:
					t.Fatal(err)
				case !reached:
					return
				case admitted.InTurn && (said(waiting) != "just now" || !h.row().InTurn):
					t.Errorf("call %d: told of a turn, which has %q to look at and goes on: %v", n, said(waiting), h.row().InTurn)
				case !admitted.InTurn && (len(waiting) > 0 || h.row().InTurn || !h.listed(r.inbox.Waiting)):
					t.Errorf("call %d: told of no turn, which has %q and goes on: %v", n, said(waiting), h.row().InTurn)
				}
				seen[admitted.InTurn]++
				if !admitted.InTurn {
					turn = h.begins(r)
					if waiting, err = turn.Finish(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := turn.Promote(t.Context(), waiting...); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if waiting, err := turn.Finish(t.Context()); err != nil || len(waiting) > 0 {
						t.Errorf("call %d: Finish: %v, %v", n, waiting, err)
					}
				}
				closeTurn(t, turn)
				if got := h.states()["just now"]; got != transcript.InputPromoted {
					t.Errorf("call %d: it is %s", n, got)
				}
			})
			if !reached {
				break
			}
		}
	}
	if seen[true] < 4 || seen[false] < 2 {
		t.Errorf("seen: %v", seen)
	}
}

// Case 32: a turn that is broken off loses nothing that waits, whatever it was at.
func TestCloseKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		h.admit(saying("a", steer))
		h.admit(saying("b", follow))
		if _, err := h.db.Inbox().ChangeInput(t.Context(), talk, "a", transcript.InputCommand{Claim: turn.Fence()}); err != nil {
			t.Fatal(err)
		}
		if inputs, err := turn.Deliver(t.Context(), false); err != nil || said(inputs) != "a" {
			t.Errorf("delivered %q, %v", said(inputs), err)
		}
		if _, err := turn.Commit(t.Context(), transcript.Change{Draft: &transcript.Draft{NewEntry: question("half an answer")}}); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if drained, err := turn.Close(ended, nil); err != nil || len(drained) > 0 {
			t.Errorf("Close: %v, %v", drained, err)
		}
		if d := cmp.Diff(map[transcript.EntryID]transcript.InputState{"a": transcript.InputPending, "b": transcript.InputPending}, h.states()); d != "" {
			t.Error(d)
		}
		if open := h.open(); open.InTurn || open.Draft != nil || !h.listed(r.inbox.Waiting) {
			t.Errorf("left %+v", open)
		}
		if _, err := turn.Finish(t.Context()); !errors.Is(err, transcript.ErrFenced) {
			t.Errorf("Finish after Close: %v", err)
		}
		after := h.begins(r)
		if got := next(t, after, true) + ", " + next(t, after, true); got != "a, b" {
			t.Errorf("the next says %q", got)
		}
		closeTurn(t, after)
	})
}

func TestCloseHoldsAndDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // spec §3.2 rules 8 and 9
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		h.admit(saying("a", steer))
		if _, err := turn.Close(t.Context(), &transcript.CloseOptions{Hold: true}); err != nil {
			t.Fatal(err)
		}
		if !h.row().Held || h.listed(r.inbox.Waiting) {
			t.Error("what waits is not held")
		}
		turn = h.begins(r)
		if waiting, err := turn.Finish(t.Context()); err != nil || len(waiting) > 0 {
			t.Errorf("while it is held: %v, %v", waiting, err)
		}
		h.commit(transcript.Change{Resume: true})
		turn = h.begins(r)
		h.admit(saying("b", follow))
		h.admit(saying("c", steer))
		if _, err := h.db.Inbox().ChangeInput(t.Context(), talk, "c", transcript.InputCommand{Claim: turn.Fence()}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			drained, err := turn.Close(t.Context(), &transcript.CloseOptions{Drain: true})
			if err != nil || said(drained) != "a b c" {
				t.Errorf("drained %q, %v", said(drained), err)
			}
		}
		for id, state := range h.states() {
			if state != transcript.InputCancelled {
				t.Errorf("%s is %s", id, state)
			}
		}
		if h.row().InTurn {
			t.Error("it is in a turn")
		}
	})
}

// Whatever Close fails at, the lease is given back, and what is left is the next turn's, which settles it.
func TestCloseFails(t *testing.T) {
	for n := 1; ; n++ {
		failed := false
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, nil)
			h.create()
			r := h.runner()
			turn := h.begins(r)
			h.admit(saying("a", steer))
			if _, err := turn.Commit(t.Context(), transcript.Change{Draft: &transcript.Draft{NewEntry: question("draft")}}); err != nil {
				t.Fatal(err)
			}
			r.meddle(func(call string, nth int, after bool) error {
				if nth == n && !after && call != "release" {
					failed = true
					return errNoConnection
				}
				return nil
			})
			if _, err := turn.Close(t.Context(), &transcript.CloseOptions{Drain: true}); errors.Is(err, errNoConnection) != failed {
				t.Errorf("call %d: %v", n, err)
			}
			r.meddle(nil)
			after := h.begins(r)
			h.tidy(after)
			closeTurn(t, after)
			if got := h.states()["a"]; got != transcript.InputCancelled && got != transcript.InputPending {
				t.Errorf("call %d: the input is %s", n, got)
			}
		})
		if !failed {
			break
		}
		if n > 20 {
			t.Fatal("it never succeeds")
		}
	}
}

// What is due by the store's clock is found, though this process's estimate of it differs by what a call takes.
func TestFinishWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		r.meet = func(call string, _ int, after bool) error {
			if call == "acquire" && after { // the answer is long under way
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		turn := h.begins(r)
		r.meddle(nil)
		in := saying("soon", follow)
		in.Wait = 10 * time.Second
		h.admit(in)
		time.Sleep(in.Wait)
		waiting, err := turn.Finish(t.Context())
		if err != nil || said(waiting) != "soon" {
			t.Errorf("got %q, %v", said(waiting), err)
		}
		mortal := saying("mortal", steer)
		mortal.Life = 10 * time.Second
		h.admit(mortal)
		if _, err := turn.Promote(t.Context(), waiting...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(mortal.Life)
		if waiting, err := turn.Finish(t.Context()); err != nil || len(waiting) > 0 {
			t.Errorf("got %q, %v", said(waiting), err)
		}
	})
}
