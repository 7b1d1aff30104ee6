package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

const absentEnvironment session.EnvironmentID = "0199ffff-0000-7000-8000-00000000000c"

func TestDeleteEnvironmentAccess(t *testing.T) {
	inWorld(t, "it takes an owner or admin who may run code, and so may the agent that asks; who made it has no right of its own", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(bob)
		s, _ := r.borrow(bob, id)
		wk := r.mustWork(bob, inSession(s.ID))
		try := func(a access.Actor) error { return second(r.DeleteEnvironment(t.Context(), a, id)) }
		w.wantDenied("who made it, a member", try(bob), access.ReasonNotYoursToStop)
		w.dir.SetCode("ada", "p", false)
		w.wantDenied("an admin without the right to run code", try(ada), access.ReasonNoCode)
		w.dir.SetCode("ada", "p", true)
		w.wantDenied("an admin through an agent without it", try(access.Actor{User: "ada", Agent: "mute"}), access.ReasonAgentNoCode)
		w.wantDenied("an admin through an agent of another project", try(access.Actor{User: "ada", Agent: "spy"}), access.ReasonAgentNoCode)
		w.dir.Blind(access.WantCode)
		w.wantDenied("an admin of whom it is not known", try(ada), access.ReasonNoCode)
		w.dir.Blind(0)
		w.dir.Fail(errOutage)
		wantErr(t, "while the directory is down", try(ada), session.ErrNotFound)
		w.dir.Fail(nil)
		w.wantOneMachine(s.ID)
		if cause := context.Cause(wk.Context()); cause != nil || w.env(id).Environment.Deleted() {
			t.Errorf("a denied deletion: environment %+v, work stopped for %v", w.env(id).Environment, cause)
		}
		w.audited()
		if err := try(access.Actor{User: "ada", Agent: "builder", Scope: access.ScopeOf("p")}); err != nil {
			t.Errorf("an admin through an agent that may: %v", err)
		}
		if events := w.audited(); len(events) > 0 {
			t.Errorf("audited %+v", events)
		}
		other := r.newEnvironment(bob)
		wantReport(t, "the project's owner", r.deleteEnvironment(ann, other), session.EndReport{Ended: true})
	})

	inWorld(t, "every member makes, sees, renames and borrows, without the right to run code; work asks for that", immediate, func(t *testing.T, w *world) {
		w.dir.SetCode("bob", "p", false)
		r := w.replica()
		id := r.newEnvironment(bob)
		theirs := r.newEnvironment(ann)
		if err := r.RenameEnvironment(t.Context(), bob, theirs, "x"); err != nil {
			t.Errorf("RenameEnvironment: %v", err)
		}
		s, _ := r.borrow(bob, id)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		w.audited()
		_, err := r.work(t.Context(), bob, inSession(s.ID))
		w.wantDenied("T-49: work in the warm machine", err, access.ReasonNoCode)
	})
}

// A session borrows from its own project only, and nobody learns from a
// refusal what there is elsewhere.
func TestSpawnWithAnEnvironment(t *testing.T) {
	inWorld(t, "an environment of another project, a deleted one and an absent one are the same answer, byte by byte, and nothing is written", immediate, func(t *testing.T, w *world) {
		w.dir.AddMember("q", "ann", access.RoleAdmin) // she may see it there, and still may not borrow it here
		w.dir.SetCode("ann", "q", true)
		r := w.replica()
		deleted := r.newEnvironment(ann)
		r.deleteEnvironment(ann, deleted)
		foreign, err := r.CreateEnvironment(t.Context(), ann, session.NewEnvironment{Project: "q"})
		if err != nil {
			t.Fatal(err)
		}
		foreignDeleted, err := r.CreateEnvironment(t.Context(), ann, session.NewEnvironment{Project: "q"})
		if err != nil {
			t.Fatal(err)
		}
		r.deleteEnvironment(ann, foreignDeleted.ID)
		w.audited()
		for _, a := range []access.Actor{ann, bob} {
			var texts []string
			for _, id := range []session.EnvironmentID{deleted, foreign.ID, foreignDeleted.ID, absentEnvironment} {
				for _, own := range []session.ConversationID{"", callersID} {
					r.meddle(nil)
					s, v, err := r.Spawn(t.Context(), a, session.Spawn{Project: "p", Agent: "builder", Environment: id, Conversation: own})
					wantErr(t, "Spawn", err, session.ErrEnvironmentGone)
					if s != (session.Session{}) || v != (session.Conversation{}) {
						t.Errorf("a refusal returns %+v %+v", s, v)
					}
					status, code, sentence := problem(t, err)
					if status != 410 || code != "environment_gone" {
						t.Errorf("Problem %d %s", status, code)
					}
					texts = append(texts, strings.Join(append(shape(err), strings.TrimSuffix(err.Error(), string(id)), sentence), "|"))
					if calls := r.only("commit"); len(calls) > 0 {
						t.Errorf("called %v", calls)
					}
				}
			}
			if len(slices.Compact(texts)) > 1 {
				t.Errorf("the answers differ:\n%s", strings.Join(texts, "\n"))
			}
		}
		if events := w.audited(); len(events) > 0 || len(w.all()) > 0 {
			t.Errorf("audited %+v, sessions %+v", events, w.all())
		}
		_, _, err = r.Spawn(t.Context(), eve, session.Spawn{Project: "p", Agent: "builder", Environment: foreign.ID})
		wantErr(t, "who is no member of the project is told of that alone", err, session.ErrNotFound)
	})

	inWorld(t, "what is personal borrows nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		r.meddle(nil)
		_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Environment: id})
		wantField(t, "Spawn", err, "Environment")
		if calls := r.calls(); len(calls) > 0 {
			t.Errorf("called %v", calls)
		}
	})

	inWorld(t, "T-07: repeated with the same conversation it returns the same session, also once the environment is deleted", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id, other := r.newEnvironment(ann), r.newEnvironment(ann)
		ask := session.Spawn{Project: "p", Agent: "builder", Environment: id, Conversation: callersID}
		s, v, err := r.Spawn(t.Context(), bob, ask)
		if err != nil || s.Environment != id {
			t.Fatalf("Spawn: %+v %+v %v", s, v, err)
		}
		again := func(what string) {
			s2, v2, err := w.replica().Spawn(t.Context(), bob, ask)
			if err != nil || s2 != s || v2 != v {
				t.Errorf("%s: %+v %+v %v, want %+v %+v", what, s2, v2, err, s, v)
			}
		}
		again("again")
		for what, change := range map[string]func(q *session.Spawn){
			"with another environment":                func(q *session.Spawn) { q.Environment = other },
			"with an environment that does not exist": func(q *session.Spawn) { q.Environment = absentEnvironment },
			"with a sandbox of its own":               func(q *session.Spawn) { q.Environment = "" },
		} {
			q := ask
			change(&q)
			s2, _, err := r.Spawn(t.Context(), bob, q)
			wantErr(t, what, err, session.ErrConversationTaken)
			if s2 != (session.Session{}) {
				t.Errorf("%s: a refusal returns %+v", what, s2)
			}
		}
		own := ask
		own.Environment, own.Conversation = "", "0199aaaa-0000-7000-8000-00000000000b"
		if _, _, err := r.Spawn(t.Context(), bob, own); err != nil {
			t.Fatal(err)
		}
		own.Environment = id
		_, _, err = r.Spawn(t.Context(), bob, own)
		wantErr(t, "what had a sandbox of its own, with an environment", err, session.ErrConversationTaken)
		r.deleteEnvironment(ann, id)
		again("after the deletion")
	})

	inWorld(t, "T-15: an environment that is deleted while a session is being opened is gone: no session borrows it unseen", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 {
				return trouble{hold: func(context.Context) { other.deleteEnvironment(ann, id) }}
			}
			return trouble{}
		})
		_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Environment: id})
		wantErr(t, "Spawn", err, session.ErrEnvironmentGone)
		if n := r.count("commit"); n != 1 {
			t.Errorf("%d commits, want the one that came too late", n)
		}
	})

	inWorld(t, "one that is renamed meanwhile is borrowed all the same", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 {
				return trouble{hold: func(context.Context) {
					if err := other.RenameEnvironment(t.Context(), bob, id, "renamed"); err != nil {
						t.Errorf("RenameEnvironment: %v", err)
					}
				}}
			}
			return trouble{}
		})
		if s, _ := r.borrow(ann, id); w.snap(s.ID).Environment.Name != "renamed" {
			t.Errorf("borrows %+v", w.snap(s.ID).Environment)
		}
	})
}
