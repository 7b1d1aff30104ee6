package session_test

import (
	"context"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// What becomes of a conversation that is there: what is so already is no change.
func TestDecideAmend(t *testing.T) {
	yes, no := true, false
	open := session.Conversation{ID: "v", Project: "p", Owner: "ann"}
	shared, closed, personal := open, open, open
	shared.Shared, personal.Project = true, ""
	closed.ClosedAt = t0
	for _, c := range []struct {
		rule    string
		is      session.Conversation
		command session.CommandAmend
		want    *session.Amendment // nil: nothing is written
	}{
		{"what is open is closed", open, session.CommandAmend{Close: true}, &session.Amendment{Was: open, Close: true}},
		{"and stays shared", shared, session.CommandAmend{Close: true}, &session.Amendment{Was: shared, Shared: true, Close: true}},
		{"what is closed stays so", closed, session.CommandAmend{Close: true}, nil},
		{"what is not shared is shared", open, session.CommandAmend{Shared: &yes}, &session.Amendment{Was: open, Shared: true}},
		{"also where it is closed", closed, session.CommandAmend{Shared: &yes}, &session.Amendment{Was: closed, Shared: true}},
		{"what is shared stays so", shared, session.CommandAmend{Shared: &yes}, nil},
		{"or is no longer", shared, session.CommandAmend{Shared: &no}, &session.Amendment{Was: shared}},
		{"what is personal is shared with nobody", personal, session.CommandAmend{Shared: &no}, nil},
		{"and is closed as any other", personal, session.CommandAmend{Close: true}, &session.Amendment{Was: personal, Close: true}},
		{"nothing is nothing", open, session.CommandAmend{}, nil},
	} {
		want := session.Decision{}
		if c.want != nil {
			want.Change.Amend = c.want
		}
		wantDecision(t, c.rule, session.Snapshot{Conversation: c.is}, c.command, want, nil)
	}
	_, err := session.Decide(session.Snapshot{Conversation: personal}, session.CommandAmend{Shared: &yes})
	wantField(t, "what is personal is shared", err, "shared")
}

func TestCloseConversation(t *testing.T) {
	inWorld(t, "who has opened a conversation closes it, once; nothing is said in it any more, and its session has room for another", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(bob)
		closed, err := r.CloseConversation(t.Context(), bob, v.ID)
		if err != nil || closed.ClosedAt.IsZero() || closed.ID != v.ID {
			t.Fatalf("%+v, %v", closed, err)
		}
		r.meddle(nil)
		if again, err := r.CloseConversation(t.Context(), bob, v.ID); err != nil || again != closed || len(r.only("commit")) > 0 {
			t.Errorf("again: %+v, %v; called %v", again, err, r.calls())
		}
		_, err = r.SendInput(t.Context(), bob, v.ID)
		wantErr(t, "SendInput", err, session.ErrConversationClosed)
		if got, err := r.Conversation(t.Context(), bob, v.ID); err != nil || got != closed {
			t.Errorf("it is read as %+v, %v", got, err)
		}
		if got, err := r.Get(t.Context(), bob, s.ID); err != nil || len(got.Conversations) > 0 {
			t.Errorf("its session lists %+v, %v", got.Conversations, err)
		}
		_, err = r.AddConversation(t.Context(), bob, session.AddConversation{Session: s.ID, Conversation: v.ID, Agent: v.Agent})
		wantErr(t, "what is closed is opened by nobody", err, session.ErrConversationTaken)
	})

	inWorld(t, "who only sees a conversation neither closes it nor says who may read it; nobody is asked twice", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(bob)
		if _, err := r.ShareConversation(t.Context(), bob, v.ID, true); err != nil {
			t.Fatal(err)
		}
		r.meddle(nil)
		w.audited()
		_, err := r.CloseConversation(t.Context(), ada, v.ID)
		w.wantDenied("CloseConversation", err, access.ReasonNotYourConversation)
		_, err = r.ShareConversation(t.Context(), ada, v.ID, false)
		w.wantDenied("ShareConversation", err, access.ReasonNotYourConversation)
		deep := bob
		deep.Agent, deep.Depth = "builder", access.MaxDepth
		_, err = r.CloseConversation(t.Context(), deep, v.ID)
		w.wantDenied("T-55: at the end of a chain of agents", err, access.ReasonTooDeep)
		if n := r.count("ask"); n != 3 || len(r.only("commit")) > 0 {
			t.Errorf("called %v", r.calls())
		}
	})
}

func TestShareConversation(t *testing.T) {
	inWorld(t, "what is shared is read by the project's members, until it is not", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		v := r.add(ann, s.ID, "")
		for _, shared := range []bool{true, true, false, false} {
			got, err := r.ShareConversation(t.Context(), ann, v.ID, shared)
			if err != nil || got.Shared != shared {
				t.Fatalf("%+v, %v", got, err)
			}
			if _, err := r.Conversation(t.Context(), ada, v.ID); shared && err != nil {
				t.Errorf("shared: %v", err)
			} else if !shared {
				wantErr(t, "not shared", err, session.ErrNotFound)
			}
		}
		_, own, err := r.Spawn(t.Context(), ann, session.Spawn{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.ShareConversation(t.Context(), ann, own.ID, true)
		wantField(t, "what is personal", err, "shared")
	})

	inWorld(t, "of two at once neither undoes the other, and a reply that is lost is looked up", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		_, v := r.spawn(bob)
		r.meddle(func(call string, _, nth int) trouble {
			switch {
			case call != "commit":
			case nth == 1:
				return trouble{hold: func(ctx context.Context) {
					if _, err := other.CloseConversation(ctx, bob, v.ID); err != nil {
						t.Error(err)
					}
				}}
			case nth == 2:
				return trouble{after: session.ErrUnknown}
			}
			return trouble{}
		})
		got, err := r.ShareConversation(t.Context(), bob, v.ID, true)
		if err != nil || !got.Shared || got.ClosedAt.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
