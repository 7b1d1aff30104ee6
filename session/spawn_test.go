package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestSpawn(t *testing.T) {
	inWorld(t, "S-08: a session is born with its first conversation, bound to it, and T-08/S-24: with its names", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Name: "  release ", Title: " fix the tests "})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().UTC()
		wantS := session.Session{ID: s.ID, Version: 1, Project: "p", Owner: "ann", Name: "release", CreatedAt: now, LastActiveAt: now}
		wantV := session.Conversation{
			ID: v.ID, Session: s.ID, Project: "p", Owner: "ann", Agent: "builder", Title: "fix the tests", CreatedAt: now, LastActiveAt: now,
		}
		if diff := cmp.Diff([]any{wantS, wantV}, []any{s, v}); diff != "" {
			t.Errorf("Spawn returns (-want +got)\n%s", diff)
		}
		sum, err := r.Get(t.Context(), ann, s.ID)
		if diff := cmp.Diff(session.Summary{Session: wantS, Conversations: []session.Conversation{wantV}}, sum); err != nil || diff != "" {
			t.Errorf("Get: %v (-want +got)\n%s", err, diff)
		}
	})

	inWorld(t, "S-09: a spawn makes no machine, asks for no credit and takes no slot", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		r.add(ann, s.ID, "tester")
		if calls := r.only("create", "inspect", "attach", "destroy", "admit", "acquire"); len(calls) > 0 || len(w.boxes.Calls()) > 0 {
			t.Errorf("Spawn and AddConversation called %v", calls)
		}
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.None || row.Generation != 0 || row.Key != "" || row.Session != s.ID {
			t.Errorf("sandbox of a new session: %+v", row)
		}
		// The same without any provider: the catalog has no way to need one.
		bare := w.replica(func(c *session.Config) { c.Sandboxes, c.KeySecret = nil, nil })
		if _, _, err := bare.Spawn(t.Context(), ann, session.Spawn{}); err != nil {
			t.Errorf("Spawn without providers: %v", err)
		}
		_, err := bare.Open(t.Context(), ann, inConversation(v.ID))
		wantErr(t, "Open without providers", err, session.ErrUnavailable)
	})

	inWorld(t, "S-08/T-34: all in one commit: where that fails nothing exists, nor counts against the ceiling", immediate, func(t *testing.T, w *world) {
		w.limits.Sessions = 1
		r := w.replica()
		id := session.ConversationID("01990000-0000-7000-8000-000000000001")
		ask := session.Spawn{Project: "p", Agent: "builder", Conversation: id}
		r.fail("commit", 0, errOutage)
		_, _, err := r.Spawn(t.Context(), ann, ask)
		wantErr(t, "Spawn while the store is down", err, errOutage)
		if n := r.count("commit"); n != 1 {
			t.Errorf("one spawn took %d commits", n)
		}
		r.meddle(nil)
		_, err = r.Conversation(t.Context(), ann, id)
		wantErr(t, "the conversation after a failed spawn", err, session.ErrNotFound)
		if page, err := r.List(t.Context(), ann, session.Query{Project: "p", Ended: true}); err != nil || len(page.Items) > 0 {
			t.Errorf("after a failed spawn: %+v, %v", page, err)
		}
		if _, _, err := r.Spawn(t.Context(), ann, ask); err != nil {
			t.Errorf("Spawn again: %v", err)
		}
		if n := r.count("commit"); n != 1 {
			t.Errorf("one spawn took %d commits", n)
		}
	})

	inWorld(t, "S-12/S-37: a spawn that is half specified is refused, and a personal session hosts only the assistant", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p"})
		wantField(t, "a project without an agent", err, "Agent")
		_, _, err = r.Spawn(t.Context(), ann, session.Spawn{Agent: "builder"})
		if e := wantType[*access.DeniedError](t, "an agent without a project", err); e.Reason != access.ReasonAssistantOnly {
			t.Errorf("reason %v", e.Reason)
		}
		s, v, err := r.Spawn(t.Context(), ann, session.Spawn{})
		if err != nil || s.Project != "" || v.Agent != "" || v.Project != "" || v.Session != s.ID {
			t.Fatalf("personal: %+v %+v %v", s, v, err)
		}
		_, err = r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID, Agent: "builder"})
		if e := wantType[*access.DeniedError](t, "an agent in a personal session", err); e.Reason != access.ReasonAssistantOnly {
			t.Errorf("reason %v", e.Reason)
		}
		if status, _, _ := wantType[*access.DeniedError](t, "personal", err).Problem(); status != 400 {
			t.Errorf("status %d, want 400", status)
		}
		_, err = r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID})
		if err != nil {
			t.Errorf("a second thread with the assistant: %v", err)
		}
		if n := r.count("commit"); n != 2 {
			t.Errorf("%d commits, want the 2 that were allowed", n)
		}
	})

	inWorld(t, "S-12: a session of a project may host the assistant too", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		if v := r.add(bob, s.ID, ""); v.Agent != "" || v.Session != s.ID || v.Project != "p" || v.Owner != "bob" {
			t.Errorf("bound %+v", v)
		}
	})

	inWorld(t, "S-13: of a personal session no membership is asked; of its work the right to run code is", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v, err := r.Spawn(t.Context(), ann, session.Spawn{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Get(t.Context(), ann, s.ID); err != nil {
			t.Error(err)
		}
		if err := r.Rename(t.Context(), ann, s.ID, "x"); err != nil {
			t.Error(err)
		}
		closeWork(t, r.mustWork(ann, inConversation(v.ID)))
		var code bool
		for _, q := range w.dir.Questions() {
			if q.Want.Has(access.WantRole) || q.Project != "" {
				t.Errorf("asked %+v of a personal session", q)
			}
			code = code || q.Want.Has(access.WantCode)
		}
		if !code {
			t.Error("work was opened without asking for the right to run code")
		}
		w.dir.SetCode("ann", "", false)
		_, err = r.Open(t.Context(), ann, inConversation(v.ID))
		if e := wantType[*access.DeniedError](t, "Open without the right", err); e.Reason != access.ReasonNoCode {
			t.Errorf("reason %v", e.Reason)
		}
	})
}

func TestBinding(t *testing.T) {
	inWorld(t, "T-06/S-17: an agent of another project is refused with 400 at the one way to bind, and one that can't be resolved with 409", immediate, func(t *testing.T, w *world) {
		w.dir.AddMember("q", "ann", access.RoleMember) // she may see the agent, and still may not bring it here
		r := w.replica()
		s, _ := r.spawn(ann)
		r.meddle(nil)
		for _, c := range []struct {
			agent  access.AgentID
			reason access.Reason
			status int
		}{{"spy", access.ReasonAgentElsewhere, 400}, {"nobody", access.ReasonAgentUnavailable, 409}} {
			_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: c.agent})
			spawned := wantType[*access.DeniedError](t, "Spawn", err)
			_, err = r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID, Agent: c.agent})
			added := wantType[*access.DeniedError](t, "AddConversation", err)
			for _, e := range []*access.DeniedError{spawned, added} {
				if status, _, _ := e.Problem(); e.Reason != c.reason || status != c.status {
					t.Errorf("agent %s: reason %v, status %d, want %v and %d", c.agent, e.Reason, status, c.reason, c.status)
				}
			}
		}
		if n := r.count("commit"); n > 0 {
			t.Errorf("%d commits", n)
		}
		r.fail("load", 0, errOutage)
		_, err := r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID, Agent: "tester"})
		wantErr(t, "S-17: a fault of the store is told as what it is", err, errOutage)
	})

	inWorld(t, "S-07/S-23: a conversation of no session has nothing to work in, and nothing is minted for it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		v, err := r.NewConversation(t.Context(), ann, session.NewConversation{Project: "p", Agent: "builder", Title: "chat"})
		if err != nil || v.Session != "" || v.Title != "chat" || v.Project != "p" {
			t.Fatalf("NewConversation: %+v, %v", v, err)
		}
		r.meddle(nil)
		q := inConversation(v.ID)
		q.Reopen = true
		_, err = r.Open(t.Context(), ann, q)
		wantErr(t, "Open", err, session.ErrNoSession)
		if calls := r.only("commit", "admit", "acquire", "create"); len(calls) > 0 {
			t.Errorf("Open called %v", calls)
		}
		_, err = r.Open(t.Context(), eve, q)
		wantErr(t, "a stranger does not even learn that much", err, session.ErrNotFound)
	})

	inWorld(t, "S-02/T-02: a change can only insert a conversation: what is there is never bound anew, nor is what is unbound", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		other, _ := r.spawn(ann)
		loose, err := r.NewConversation(t.Context(), ann, session.NewConversation{Project: "p", Agent: "builder"})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []session.ConversationID{v.ID, loose.ID} {
			moved := session.Conversation{ID: id, Session: other.ID, Project: "p", Owner: "ann", Agent: "builder"}
			_, err := w.db.Sessions().Commit(t.Context(), session.Change{Conversation: &moved})
			wantErr(t, "a change that names a conversation that is there", err, session.ErrExists)
		}
		for id, bound := range map[session.ConversationID]session.ID{v.ID: s.ID, loose.ID: ""} {
			for what, try := range map[string]func() error{
				"AddConversation": func() error {
					_, err := r.AddConversation(t.Context(), ann, session.AddConversation{Session: other.ID, Agent: "builder", Conversation: id})
					return err
				},
				"Spawn": func() error { // with the same agent it would be a retry of the bound one
					_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "tester", Conversation: id})
					return err
				},
			} {
				wantErr(t, what+" with the id of a conversation that is bound elsewhere", try(), session.ErrConversationTaken)
			}
			if got, err := r.Conversation(t.Context(), ann, id); err != nil || got.Session != bound {
				t.Errorf("conversation %s is bound to %q now, was to %q (%v)", id, got.Session, bound, err)
			}
		}
	})

	inWorld(t, "T-04/S-21: every id that a list returns can be used where it is meant to be", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.add(ann, s.ID, "tester")
		page, err := r.List(t.Context(), ann, session.Query{Project: "p"})
		if err != nil || len(page.Items) != 1 || len(page.Items[0].Conversations) != 2 {
			t.Fatalf("List: %+v, %v", page, err)
		}
		for _, item := range page.Items {
			if _, err := r.Get(t.Context(), ann, item.Session.ID); err != nil {
				t.Errorf("Get a listed session: %v", err)
			}
			for _, v := range item.Conversations {
				got, err := r.Conversation(t.Context(), ann, v.ID)
				if err != nil || !cmp.Equal(got, v) {
					t.Errorf("a listed conversation: %+v, %v", got, err)
				}
				if wk := r.mustWork(ann, inConversation(v.ID)); wk.Session() != item.Session.ID {
					t.Errorf("work in conversation %s is in session %s", v.ID, wk.Session())
				}
			}
		}
	})

	inWorld(t, "T-15: a conversation that is added while the session ends is refused, never bound to an ended one unseen", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 {
				return trouble{hold: func(context.Context) { other.end(ann, s.ID) }}
			}
			return trouble{}
		})
		_, err := r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID, Agent: "tester"})
		wantErr(t, "AddConversation", err, session.ErrEnded)
		if n := r.count("commit"); n != 1 {
			t.Errorf("%d commits, want the one that came too late", n)
		}
	})

	inWorld(t, "what others write first is decided on anew, five times at most, and the host is asked once", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		for what, try := range map[string]func() error{
			"Rename": func() error { return r.Rename(t.Context(), ann, s.ID, "new") },
			"AddConversation": func() error {
				return second(r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID, Agent: "tester"}))
			},
			"End": func() error { return second(r.End(t.Context(), ann, s.ID)) },
		} {
			r.fail("commit", 0, session.ErrStale)
			err := try()
			if !errors.Is(err, session.ErrStale) || r.count("commit") != 5 || r.count("ask") != 1 {
				t.Errorf("%s: %v after %d commits and %d questions, want ErrStale after 5 and 1", what, err, r.count("commit"), r.count("ask"))
			}
		}
	})
}
