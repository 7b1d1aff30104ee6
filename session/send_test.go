package session_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// Who may say something, and who pays for what comes of it, is asked of the host once; nothing is written.
func TestSendInput(t *testing.T) {
	inWorld(t, "T-56: who pays is who pays for the session, whoever speaks in it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		v := r.add(ada, s.ID, "")
		r.meddle(nil)
		got, err := r.SendInput(t.Context(), ada, v.ID)
		if want := (session.Sending{Conversation: v, Payer: "ann", Plan: "pro"}); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		if calls := r.only("ask", "commit", "admit", "touch", "acquire"); len(calls) != 1 {
			t.Errorf("called %v, want the host asked once", calls)
		}
		if got, err := r.WriteConversation(t.Context(), ada, v.ID); err != nil || got != v {
			t.Errorf("WriteConversation: %+v, %v", got, err)
		}
	})

	inWorld(t, "T-57: where that can't be found out its owner pays; where the plan can't, nothing is admitted", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		v := r.add(ada, s.ID, "")
		_, own, err := r.Spawn(t.Context(), ada, session.Spawn{})
		if err != nil {
			t.Fatal(err)
		}
		w.dir.Blind(access.WantBilling)
		if got, err := r.SendInput(t.Context(), ada, v.ID); err != nil || got.Payer != bob.User {
			t.Errorf("%+v, %v", got, err)
		}
		w.dir.Fail(errOutage)
		_, err = r.SendInput(t.Context(), ada, own.ID)
		wantErr(t, "what is personal", err, session.ErrUnavailable)
		wantErr(t, "the cause shows in the chain", err, errOutage)
		if got, err := r.WriteConversation(t.Context(), ada, own.ID); err != nil || got != own {
			t.Errorf("and it is written in: %+v, %v", got, err)
		}
	})

	inWorld(t, "nothing is said in a conversation that is closed, also where its session goes on; it is still its owner's", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		v := session.Conversation{ID: "0199ffff-0000-7000-8000-00000000000d", Session: s.ID, Project: "p", Owner: "bob", ClosedAt: s.CreatedAt}
		if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Conversation: &v}); err != nil {
			t.Fatal(err)
		}
		_, err := r.SendInput(t.Context(), bob, v.ID)
		wantErr(t, "closed", err, session.ErrConversationClosed)
		if got, err := r.WriteConversation(t.Context(), bob, v.ID); err != nil || got.ID != v.ID {
			t.Errorf("WriteConversation: %+v, %v", got, err)
		}
		_, err = r.SendInput(t.Context(), eve, v.ID)
		wantErr(t, "a stranger learns nothing of that either", err, session.ErrNotFound)
	})
}
