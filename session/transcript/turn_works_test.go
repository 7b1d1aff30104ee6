//go:build linux

package transcript_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// sessions are the sessions of a process on the host that has the machines.
func (h *host) sessions(machines sandbox.Provider) *session.Service {
	h.t.Helper()
	people := memory.NewDirectory()
	people.SetCode(ann.User, "", true)
	s, err := session.New(session.Config{
		Store: h.db.Sessions(), Leases: h.db.Leases(), Directory: people, Sandboxes: []sandbox.Provider{machines},
		KeySecret: []byte("0123456789abcdef0123456789abcdef"), Deployment: "turns", Lease: time.Hour,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// spawned is a session with a conversation, which ends with the test, and has a transcript.
func (h *host) spawned(t *testing.T, s *session.Service) (session.Session, session.Conversation) {
	t.Helper()
	room, v, err := s.Spawn(t.Context(), ann, session.Spawn{Conversation: "0199aaaa-0000-7000-8000-00000000000a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.End(context.Background(), ann, room.ID); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.db.Transcripts().Create(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	return room, v
}

// opens opens a work, which is closed when the test ends.
func opens(ctx context.Context, t *testing.T, s *session.Service, q session.WorkRequest) *session.Work {
	t.Helper()
	q.Ensure = true
	w, err := s.Open(ctx, ann, q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(context.Background()) })
	return w
}

// Lifecycle §2, cases 3 and 5, with real processes that were started through a session's work: once a turn is taken over,
// by another process or by the same, nothing runs of the one before, though its work has its lease still. What is of no turn, or of another conversation's, runs on.
func TestTakeoverEndsWorks(t *testing.T) {
	for what, same := range map[string]bool{"by another process": false, "by the same process": true} {
		t.Run(what, func(t *testing.T) {
			machines, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { machines.Close() })
			clock := sessiontest.NewClock()
			h := newHost(t, &memory.Options{Now: clock.Now})
			here, there := h.sessions(machines), h.sessions(machines)
			if same {
				there = here
			}
			room, v := h.spawned(t, here)
			late := h.runner(func(c *transcript.TurnsConfig) { c.EndProcesses = here.EndTurns })
			next := h.runner(func(c *transcript.TurnsConfig) { c.EndProcesses = there.EndTurns })
			old, err := late.Begin(t.Context(), v.ID)
			if err != nil {
				t.Fatal(err)
			}
			open := func(ctx context.Context, q session.WorkRequest) *session.Work { return opens(ctx, t, here, q) }
			work := open(context.Background(), session.WorkRequest{Conversation: v.ID, Turn: old.Fence()})
			left := []sandbox.Process{runs(t, old.Sandbox(work.Sandbox()), sandbox.Cmd{}), runs(t, old.Sandbox(work.Sandbox()), sandbox.Cmd{Detached: true})}
			others := []sandbox.Process{runs(t, open(context.Background(), session.WorkRequest{Session: room.ID}).Sandbox(), sandbox.Cmd{Detached: true})}
			others = append(others, runs(t, open(context.Background(), session.WorkRequest{Conversation: v.ID}).Sandbox(), sandbox.Cmd{}))

			if marked(t, work.ID()) == 0 {
				t.Error("nothing runs that could be ended")
			}
			clock.Step(turnLease) // whose process hangs, and does not know that it is late
			turn, err := next.Begin(t.Context(), v.ID)
			if err != nil {
				t.Fatal(err)
			}
			if n := marked(t, work.ID()); n > 0 {
				t.Errorf("the turn was handed out, and %d processes of the one before run", n)
			}
			for i, p := range left {
				if exit, done := ended(p, time.Minute); !done {
					t.Errorf("process %d runs", i)
				} else if exit.Reason == sandbox.Exited {
					t.Errorf("process %d ended by itself: %+v", i, exit)
				}
			}
			for i, p := range others {
				if exit, done := ended(p, 50*time.Millisecond); done {
					t.Errorf("process %d, which was none of its business, has ended: %+v", i, exit)
				}
			}
			if cause := context.Cause(work.Context()); same && !errors.Is(cause, session.ErrFenced) { // another's as it next renews itself
				t.Errorf("the work has ended with %v", cause)
			}
			if _, err := here.Open(t.Context(), ann, session.WorkRequest{Conversation: v.ID, Turn: old.Fence()}); !errors.Is(err, session.ErrFenced) {
				t.Errorf("work is opened for the old turn: %v", err)
			}
			if _, err := old.Commit(t.Context(), transcript.Change{Append: []transcript.NewEntry{question("late")}}); !errors.Is(err, transcript.ErrFenced) {
				t.Errorf("the old one, late: %v", err)
			}
			if _, err := old.Sandbox(work.Sandbox()).Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}}); !errors.Is(err, transcript.ErrFenced) {
				t.Errorf("it starts something: %v", err)
			}
			_, _ = old.Close(t.Context(), nil)
			now := open(turn.Context(), session.WorkRequest{Conversation: v.ID, Turn: turn.Fence()})
			if exit, err := sandbox.Run(t.Context(), turn.Sandbox(now.Sandbox()), sandbox.Cmd{Argv: []string{"true"}}, nil, nil); err != nil || exit.Code != 0 {
				t.Errorf("the new one works: %+v, %v", exit, err)
			}
			closeTurn(t, turn)
			<-now.Context().Done() // with its turn
		})
	}
}

// A work that was opened for a turn ends with it, where it was opened by its context.
func TestWorkEndsWithItsTurn(t *testing.T) {
	h := newHost(t, nil)
	boxes := memory.NewSandboxes(nil)
	s := h.sessions(boxes)
	_, v, err := s.Spawn(t.Context(), ann, session.Spawn{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.db.Transcripts().Create(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	r := h.runner(func(c *transcript.TurnsConfig) { c.EndProcesses = s.EndTurns })
	turn, err := r.Begin(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Open(turn.Context(), ann, session.WorkRequest{Conversation: v.ID, Turn: turn.Fence(), Ensure: true})
	if err != nil {
		t.Fatal(err)
	}
	closeTurn(t, turn)
	<-w.Context().Done()
	if cause := context.Cause(w.Context()); !errors.Is(cause, session.ErrClosed) {
		t.Errorf("it ended with %v", cause)
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
