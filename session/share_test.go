package session_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// S-05, the payoff: conversations of one session work in one sandbox, and
// nothing but the conversation's own id leads there.
func TestOneSandboxForAllConversations(t *testing.T) {
	inWorld(t, "S-05: two agents, one after the other, get the same machine, and the second finds the first one's file", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, first := r.spawn(ann)
		second := r.add(ann, s.ID, "tester")

		a := r.mustWork(ann, inConversation(first.ID))
		write(t, a, "plan.txt", "by the builder")
		was := a.Sandbox().Ref()
		closeWork(t, a)

		b := r.mustWork(ann, inConversation(second.ID))
		if got := b.Sandbox().Ref(); got != was {
			t.Errorf("second conversation works in %+v, first in %+v", got, was)
		}
		if got := read(t, b, "plan.txt"); got != "by the builder" {
			t.Errorf("second conversation reads %q", got)
		}
		if a.Session() != s.ID || b.Session() != s.ID || b.Conversation() != second.ID {
			t.Errorf("work tells sessions %s and %s and conversation %s", a.Session(), b.Session(), b.Conversation())
		}
		closeWork(t, b)
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "S-05: both at once see each other's files at once", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, first := r.spawn(ann)
		second := r.add(bob, s.ID, "tester")
		a, b := r.mustWork(ann, inConversation(first.ID)), r.mustWork(bob, inConversation(second.ID))
		write(t, a, "a.txt", "from a")
		write(t, b, "b.txt", "from b")
		if read(t, b, "a.txt") != "from a" || read(t, a, "b.txt") != "from b" {
			t.Error("one conversation does not see the other's file")
		}
		closeWork(t, a)
		if read(t, b, "a.txt") != "from a" {
			t.Error("the file is gone with the work that wrote it")
		}
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "S-05: twenty callers at once, from cold and through two replicas, make one machine ever", immediate, func(t *testing.T, w *world) {
		replicas := []*replica{w.replica(), w.replica()}
		s, first := replicas[0].spawn(ann)
		talks := []session.ConversationID{first.ID}
		for len(talks) < 20 {
			agent := access.AgentID([]string{"builder", "tester", ""}[len(talks)%3])
			talks = append(talks, replicas[0].add(ann, s.ID, agent).ID)
		}
		refs := make([]sandbox.Ref, len(talks))
		errs := together(len(talks), func(i int) error {
			wk, err := replicas[i%2].work(t.Context(), ann, inConversation(talks[i]))
			if err == nil {
				refs[i] = wk.Sandbox().Ref()
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for i, ref := range refs {
			if ref != refs[0] {
				t.Errorf("caller %d works in %+v, the first in %+v", i, ref, refs[0])
			}
		}
		if n := w.created(); n != 1 {
			t.Errorf("%d machines were asked for, want 1", n)
		}
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "S-05: so they do where the create takes long and the others wait", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, first := r.spawn(ann)
		second := r.add(ann, s.ID, "tester")
		slow := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{HoldReply: slow}))
		time.AfterFunc(40*time.Second, slow.Open)
		errs := together(2, func(i int) error {
			_, err := r.work(t.Context(), ann, inConversation([]session.ConversationID{first.ID, second.ID}[i]))
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "S-06: two spawns are two sessions with a machine each", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s1, v1 := r.spawn(ann)
		s2, v2 := r.spawn(ann)
		a, b := r.mustWork(ann, inConversation(v1.ID)), r.mustWork(ann, inConversation(v2.ID))
		if s1.ID == s2.ID || a.Sandbox().Ref() == b.Sandbox().Ref() {
			t.Errorf("sessions %s and %s work in %+v and %+v", s1.ID, s2.ID, a.Sandbox().Ref(), b.Sandbox().Ref())
		}
	})

	inWorld(t, "S-19: what has no conversation, such as a person's shell, works in the same machine", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		a, b := r.mustWork(ann, inConversation(v.ID)), r.mustWork(bob, inSession(s.ID))
		if a.Sandbox().Ref() != b.Sandbox().Ref() || b.Conversation() != "" {
			t.Errorf("the person works in %+v for %q, the agent in %+v", b.Sandbox().Ref(), b.Conversation(), a.Sandbox().Ref())
		}
	})
}

// T-01, T-03: neither id is derived from the other, nor leads to the other's object.
func TestSessionsAndConversationsHaveIDsOfTheirOwn(t *testing.T) {
	inWorld(t, "T-01/S-01: ids of a session, its conversation and its sandbox are all different", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		if box := w.snap(s.ID).Sandbox.ID; string(s.ID) == string(v.ID) || string(box) == string(s.ID) || string(box) == string(v.ID) {
			t.Errorf("session %s, conversation %s, sandbox %s", s.ID, v.ID, box)
		}
	})
	inWorld(t, "T-03/S-22: the id of one kind is not found as the other", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		_, err := r.Open(t.Context(), ann, inConversation(session.ConversationID(s.ID)))
		wantErr(t, "work in a conversation with a session's id", err, session.ErrNotFound)
		_, err = r.Open(t.Context(), ann, inSession(session.ID(v.ID)))
		wantErr(t, "work in a session with a conversation's id", err, session.ErrNotFound)
		_, err = r.Get(t.Context(), ann, session.ID(v.ID))
		wantErr(t, "get a session with a conversation's id", err, session.ErrNotFound)
	})
	inWorld(t, "T-03: a conversation may have the very id of its session, and neither is mistaken for the other", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		twin := session.ConversationID(s.ID)
		v, err := r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID, Agent: "tester", Conversation: twin})
		if err != nil || v.ID != twin || v.Session != s.ID {
			t.Fatalf("AddConversation: %+v, %v", v, err)
		}
		other, _ := r.spawn(ann)
		if _, err := r.AddConversation(t.Context(), ann, session.AddConversation{Session: other.ID, Agent: "tester", Conversation: twin}); !errors.Is(err, session.ErrConversationTaken) {
			t.Errorf("the twin in another session: %v", err)
		}
		if got := r.mustWork(ann, inConversation(twin)); got.Session() != s.ID {
			t.Errorf("work in conversation %s is in session %s", twin, got.Session())
		}
	})
}

// wantOneMachine fails the test unless there is one machine, and it is the session's.
func (w *world) wantOneMachine(id session.ID) {
	w.Helper()
	all, row := w.boxes.Machines(), w.snap(id).Sandbox
	if len(all) != 1 || row.State != sandbox.Live || all[0].Incarnation != row.Incarnation {
		w.Errorf("machines %+v, row %v %q, want just the row's", all, row.State, row.Incarnation)
	}
}

// together calls f from n goroutines at once.
func together(n int, f func(i int) error) []error {
	errs, start := make([]error, n), make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	done.Wait()
	return errs
}

func write(t testing.TB, w *session.Work, name, text string) {
	t.Helper()
	if err := sandbox.WriteFile(t.Context(), w.Sandbox().FS(), name, []byte(text), nil); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
}

func read(t testing.TB, w *session.Work, name string) string {
	t.Helper()
	data, err := sandbox.ReadFile(t.Context(), w.Sandbox().FS(), name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

func closeWork(t testing.TB, w *session.Work) session.Report {
	t.Helper()
	rep, err := w.Close(t.Context())
	if err != nil {
		t.Fatalf("Close: %v", err)
	}
	return rep
}
