package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// wantDenied fails the test unless err is an open denial for that reason,
// which was audited once and shows the client nothing of it.
func (w *world) wantDenied(what string, err error, reason access.Reason) {
	w.Helper()
	e := wantType[*access.DeniedError](w, what, err)
	if e.Reason != reason {
		w.Errorf("%s: denied for %v, want %v", what, e.Reason, reason)
	}
	events := w.audited()
	if len(events) != 1 || events[0].Reason != reason || events[0].Verb == "" || events[0].Object == "" {
		w.Errorf("%s: audited %+v, want one event for %v", what, events, reason)
	}
	if _, _, sentence := e.Problem(); strings.Contains(sentence, "_") || strings.Contains(sentence, reason.String()) {
		w.Errorf("T-45: %s: the client is shown %q", what, sentence)
	}
}

func TestEndAccess(t *testing.T) {
	inWorld(t, "T-43: who ends another's session needs the role and, really, the right to run code", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		try := func(a access.Actor) error { _, err := r.End(t.Context(), a, s.ID); return err }

		w.dir.AddMember("p", "eve", access.RoleMember)
		w.dir.SetCode("eve", "p", true)
		w.wantDenied("a member", try(eve), access.ReasonNotYoursToStop)
		w.dir.SetCode("ada", "p", false)
		w.wantDenied("an admin without the right to run code", try(ada), access.ReasonNoCode)
		w.dir.SetCode("ada", "p", true)
		w.wantDenied("an admin through an agent without it", try(access.Actor{User: "ada", Agent: "mute"}), access.ReasonAgentNoCode)
		if w.snap(s.ID).Session.Ended() {
			t.Error("a denied end ended the session")
		}
		if rep := r.end(ada, s.ID); !rep.Ended {
			t.Errorf("an admin: %+v", rep)
		}
		other, _ := r.spawn(bob)
		if rep := r.end(ann, other.ID); !rep.Ended {
			t.Errorf("the project's owner: %+v", rep)
		}
	})

	inWorld(t, "T-47/S-14: its owner loses the session with the project, and keeps the power to end it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		closeWork(t, r.mustWork(bob, inSession(s.ID)))
		w.dir.RemoveMember("p", "bob")
		for _, method := range []string{"Get", "Rename", "Reopen", "AddConversation", "Open", "Run"} {
			_, err := waysIn[method][0].ask(t.Context(), r, bob, string(s.ID))
			wantErr(t, method+" by the removed owner", err, session.ErrNotFound)
		}
		rep := r.end(bob, s.ID)
		if !rep.Ended || !rep.Destroyed || len(w.boxes.Machines()) > 0 {
			t.Errorf("End by the removed owner: %+v, machines %+v", rep, w.boxes.Machines())
		}
	})

	for what, arrange := range map[string]func(w *world, r *replica){
		"while the directory is down":         func(w *world, _ *replica) { w.dir.Fail(errOutage) },
		"when the project has vanished":       func(w *world, _ *replica) { w.dir.RemoveProject("p") },
		"without the right to run code":       func(w *world, _ *replica) { w.dir.SetCode("bob", "p", false) },
		"while the directory does not answer": func(_ *world, r *replica) { r.fail("ask", 0, context.DeadlineExceeded) },
	} {
		inWorld(t, "S-14: the owner's end works "+what, immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(bob)
			closeWork(t, r.mustWork(bob, inSession(s.ID)))
			arrange(w, r)
			asked := r.count("ask")
			if rep := r.end(bob, s.ID); !rep.Ended || !rep.Destroyed {
				t.Errorf("End: %+v", rep)
			}
			if r.count("ask") > asked {
				t.Error("the owner's end asked the directory")
			}
		})
	}
}

func TestRunCodeAccess(t *testing.T) {
	inWorld(t, "T-48: the human and the agent must both have the right to run code", immediate, func(t *testing.T, w *world) {
		w.dir.SetCode("ada", "p", false)
		r := w.replica()
		s, _ := r.spawn(ann)
		talk := func(a access.Actor, agent access.AgentID) session.ConversationID { return r.add(a, s.ID, agent).ID }
		for _, c := range []struct {
			what   string
			actor  access.Actor
			in     session.ConversationID
			reason access.Reason // none = allowed
		}{
			{"a human for an agent that may", bob, talk(bob, "builder"), 0},
			{"a human for an agent that may not", bob, talk(bob, "mute"), access.ReasonAgentNoCode},
			{"a human who may not, for an agent that may", ada, talk(ada, "builder"), access.ReasonNoCode},
			{"an agent that may not, for a human who may", access.Actor{User: "bob", Agent: "mute"}, talk(bob, ""), access.ReasonAgentNoCode},
			{"an agent that may, for a human who may not", access.Actor{User: "ada", Agent: "builder"}, talk(ada, ""), access.ReasonNoCode},
			{"an agent that may, in a thread of one that may not", access.Actor{User: "bob", Agent: "builder"}, talk(bob, "mute"), access.ReasonAgentNoCode},
			{"an agent of another project", access.Actor{User: "bob", Agent: "spy"}, talk(bob, "builder"), access.ReasonAgentNoCode},
		} {
			r.meddle(nil)
			wk, err := r.work(t.Context(), c.actor, inConversation(c.in))
			if c.reason == 0 {
				if err != nil {
					t.Errorf("%s: %v", c.what, err)
				} else {
					closeWork(t, wk)
				}
				continue
			}
			w.wantDenied(c.what, err, c.reason)
			if calls := r.only("admit", "acquire", "commit", "create", "attach", "inspect"); len(calls) > 0 {
				t.Errorf("%s: called %v", c.what, calls)
			}
		}
	})

	inWorld(t, "T-49: without the right to run code one sees and arranges sessions, and reaches no machine by any way", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(bob)
		warm := r.mustWork(bob, inConversation(v.ID)) // a warm machine must not let anybody in
		w.dir.SetCode("bob", "p", false)
		for _, method := range []string{"Get", "Rename", "Reopen", "AddConversation"} {
			if _, err := waysIn[method][0].ask(t.Context(), r, bob, string(s.ID)); err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
		w.audited()
		for _, way := range append(waysIn["Open"], waysIn["Run"]...) {
			id := map[string]string{"session": string(s.ID), "conversation": string(v.ID)}[way.takes]
			_, err := way.ask(t.Context(), r, bob, id)
			w.wantDenied("work by "+way.takes, err, access.ReasonNoCode)
		}
		_, err := r.Open(t.Context(), bob, session.WorkRequest{Session: s.ID})
		w.wantDenied("work without Ensure", err, access.ReasonNoCode)
		closeWork(t, warm)
	})

	inWorld(t, "T-50: a confined credential never reaches what is personal, its owner's though it be", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v, err := r.Spawn(t.Context(), bob, session.Spawn{})
		if err != nil {
			t.Fatal(err)
		}
		confined := access.Actor{User: "bob", Scope: access.ScopeOf("p")}
		if _, err := r.Get(t.Context(), confined, s.ID); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		if _, err := r.Conversation(t.Context(), confined, v.ID); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Conversation: %v", err)
		}
		if _, err := r.End(t.Context(), confined, s.ID); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("End: %v", err)
		}
		if page, err := r.List(t.Context(), confined, session.Query{}); err != nil || len(page.Items) > 0 {
			t.Errorf("List: %+v, %v", page, err)
		}
		p, _ := r.spawn(bob)
		if _, err := r.Get(t.Context(), confined, p.ID); err != nil {
			t.Errorf("Get inside the scope: %v", err)
		}
	})
}

// What the directory can't say never allows, and is nobody's fault where the asker may know of the object.
func TestDirectoryOutage(t *testing.T) {
	inWorld(t, "an outage denies the owner of what is personal nothing but what rests on unknown facts", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v, err := r.Spawn(t.Context(), ann, session.Spawn{})
		if err != nil {
			t.Fatal(err)
		}
		gone, _, err := r.Spawn(t.Context(), ann, session.Spawn{})
		if err != nil {
			t.Fatal(err)
		}
		r.end(ann, gone.ID)
		w.dir.Fail(errOutage)
		w.audited()

		if _, err := r.Get(t.Context(), ann, s.ID); err != nil {
			t.Errorf("Get: %v", err)
		}
		if err := r.Rename(t.Context(), ann, s.ID, "x"); err != nil {
			t.Errorf("Rename: %v", err)
		}
		r.meddle(nil)
		_, err = r.Open(t.Context(), ann, inConversation(v.ID))
		wantErr(t, "Open: whether she may run code is unknown", err, session.ErrUnavailable)
		_, err = r.Reopen(t.Context(), ann, gone.ID)
		wantErr(t, "Reopen: her plan, and so her ceiling, is unknown", err, session.ErrUnavailable)
		_, _, err = r.Spawn(t.Context(), ann, session.Spawn{})
		wantErr(t, "Spawn: so it is here", err, session.ErrUnavailable)
		_, err = r.AddConversation(t.Context(), ann, session.AddConversation{Session: s.ID})
		wantErr(t, "AddConversation: and here", err, session.ErrUnavailable)
		wantErr(t, "the cause shows in the chain, for the log", err, errOutage)
		if n := r.count("commit", "admit", "create"); n > 0 {
			t.Errorf("an outage wrote: %v", r.calls())
		}
		if events := w.audited(); len(events) > 0 {
			t.Errorf("an outage is no denial, audited %+v", events)
		}
	})

	inWorld(t, "T-57: where the project's payer can't be found out the session's owner pays: nothing runs unmetered", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		w.dir.Blind(access.WantBilling)
		wk := r.mustWork(ada, inSession(s.ID))
		if h := w.gate.all()[wk.ID()]; h.intent.Payer != bob.User || wk.Payer() != bob.User {
			t.Errorf("charged %+v, work says %s", h.intent, wk.Payer())
		}
	})

	inWorld(t, "T-56/T-05: who pays is the project's owner, whoever opened the session and whoever works", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(bob)
		wk := r.mustWork(ada, inSession(s.ID))
		if h := w.gate.all()[wk.ID()]; h.intent.Payer != "ann" || h.intent.Session != s.ID || wk.Payer() != "ann" {
			t.Errorf("charged %+v, work says %s", h.intent, wk.Payer())
		}
		if row := w.snap(s.ID).Sandbox; row.Payer != "ann" || row.State != sandbox.Live {
			t.Errorf("machine counts against %q", row.Payer)
		}
	})
}
