package transcript_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func (h *host) changes(id transcript.EntryID, cmd transcript.InputCommand) {
	h.t.Helper()
	if _, err := h.db.Inbox().ChangeInput(context.Background(), talk, id, cmd); err != nil {
		h.t.Fatal(err)
	}
}

// What is drained is given back once: not what somebody has taken back before,
// claimed or not, nor what is taken back just then. What was merely edited is. (spec §3.2 rule 8)
func TestCloseDrainsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		for _, id := range []transcript.EntryID{"taken back just then", "edited just then", "left"} {
			h.admit(saying(id, follow))
		}
		h.admit(saying("claimed and taken back", steer))
		h.changes("claimed and taken back", transcript.InputCommand{Claim: turn.Fence()})
		h.changes("claimed and taken back", transcript.InputCommand{Cancel: true})
		once := false
		r.meddle(func(call string, _ int, after bool) error {
			if call == "change input" && !after && !once {
				once = true
				h.changes("taken back just then", transcript.InputCommand{Cancel: true})
				edited := question("edited just then")
				edited.Turn = "other"
				h.changes("edited just then", transcript.InputCommand{Edit: &edited})
			}
			return nil
		})
		drained, err := turn.Close(t.Context(), &transcript.CloseOptions{Drain: true})
		if err != nil || said(drained) != "edited just then left" || drained[0].Entry.Turn != "other" {
			t.Errorf("gave back %q, %v", said(drained), err)
		}
	})
}

// Of two that drain at once each input is given back to one. (spec §3.2 rule 8)
func TestDrainTwice(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	for _, id := range []transcript.EntryID{"a", "b"} {
		if _, err := h.service().Admit(t.Context(), ann, theTalk, input(id)); err != nil {
			t.Fatal(err)
		}
	}
	m := &meddling{Inbox: h.db.Inbox(), times: 1}
	m.changed = func() {
		if got, err := h.service().Drain(t.Context(), ann, theTalk); err != nil || said(got) != "waits a b" {
			t.Errorf("the first gave back %q, %v", said(got), err)
		}
	}
	got, err := h.service(func(c *transcript.ServiceConfig) { c.Inbox = m }).Drain(t.Context(), ann, theTalk)
	if err != nil || len(got) > 0 {
		t.Errorf("the second gave back %q, %v", said(got), err)
	}
}

// A barrier that the turn has claimed and somebody has taken back will never be
// done: at the end of the turn it keeps nothing back that was told of the turn. (case 32)
func TestFinishPastABarrierThatWasTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		turn := h.begins(h.runner())
		h.admit(saying("compact", transcript.LaneBarrier))
		h.changes("compact", transcript.InputCommand{Claim: turn.Fence()})
		h.changes("compact", transcript.InputCommand{Cancel: true})
		if a := h.admit(saying("f", follow)); !a.InTurn {
			t.Error("it was not told of the turn")
		}
		if waiting, err := turn.Finish(t.Context()); err != nil || said(waiting) != "f" {
			t.Errorf("the turn is to say %q, %v", said(waiting), err)
		}
		if _, err := turn.Close(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// A turn that was lost writes nothing as it is closed, not even that inputs are held.
func TestLostCloseHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		r.meddle(func(call string, _ int, _ bool) error {
			if call == "renew" {
				return errNoConnection
			}
			return nil
		})
		time.Sleep(turnLease)
		if _, err := turn.Close(t.Context(), &transcript.CloseOptions{Hold: true}); !errors.Is(err, transcript.ErrFenced) || h.row().Held {
			t.Errorf("got %v, held %t", err, h.row().Held)
		}
	})
}

// Close behind a Finish that hangs gives up, and the lease runs out by itself.
func TestCloseBehindAFinishThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		goOn := make(chan struct{})
		r.meddle(func(call string, _ int, after bool) error {
			if call == "inputs" && !after {
				<-goOn
				return errNoConnection
			}
			return nil
		})
		finished := make(chan error, 1)
		go func() {
			_, err := turn.Finish(context.Background())
			finished <- err
		}()
		synctest.Wait()
		if _, err := turn.Close(t.Context(), nil); err == nil {
			t.Error("it was closed")
		}
		close(goOn)
		if err := <-finished; err == nil {
			t.Error("it was finished")
		}
		time.Sleep(turnLease)
		if l, err := h.db.Leases().Held(t.Context(), session.LeaseTurn, string(talk)); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("a lease later %s has it still, %v", l.Holder, err)
		}
	})
}

// A turn whose end was not heard of has ended idle all the same, whoever asks again.
func TestFinishUnheardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		ended := false
		r.meddle(func(call string, _ int, after bool) error {
			switch {
			case call == "end idle" && after:
				ended = true
				return transcript.ErrUnknown
			case call == "load" && !after && ended:
				return errNoConnection
			}
			return nil
		})
		if _, err := turn.Finish(t.Context()); !errors.Is(err, transcript.ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
		r.meddle(nil)
		if waiting, err := turn.Finish(t.Context()); err != nil || len(waiting) > 0 {
			t.Errorf("asked again: %q, %v", said(waiting), err)
		}
	})
}

// What is said again for a ref, because nobody heard of it, is said once.
func TestPromoteAgainForARef(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		h.commit(transcript.Change{Append: []transcript.NewEntry{question("x")}})
		turn := h.begins(h.runner())
		for _, id := range []transcript.EntryID{"a", "b"} {
			in := saying(id, steer)
			in.Ref = "r"
			h.admit(in)
			inputs, err := turn.Deliver(t.Context(), false)
			if err != nil || said(inputs) != string(id) {
				t.Fatalf("to be said is %q, %v", said(inputs), err)
			}
			first, err1 := turn.Promote(t.Context(), inputs...)
			again, err2 := turn.Promote(t.Context(), inputs...)
			if err1 != nil || err2 != nil || first.Retried || !again.Retried || again.Transcript.Entries != first.Transcript.Entries {
				t.Errorf("%s: %+v, %v; again %+v, %v", id, first, err1, again, err2)
			}
		}
		if _, err := turn.Close(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// What is being imported is no failure of a recovery, and is nobody's to recover.
func TestRecoverPassesImports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		h.commit(transcript.Change{Status: transcript.Importing})
		h.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: question("half")}})
		done, err := h.runner().Recover(t.Context(), 10, nil)
		if err != nil || len(done.Settled) > 0 || h.row().Status != transcript.Importing {
			t.Errorf("recovered %+v, %v", done, err)
		}
	})
}
