package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session"
)

// T-51, T-52: lists agree with checks. Whoever asks, and whatever has become of
// his rights since the rows were made: a list holds exactly the sessions that
// Get shows, each as Get shows it, and in them exactly those titles that
// Conversation shows.
func TestListsAgreeWithChecks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		users, projects := []access.UserID{"ann", "bob", "eve"}, []access.ProjectID{"p", "q", ""}
		dir, db := memory.NewDirectory(), memory.New(nil)
		svc, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: dir,
			Limits: func(access.Plan) session.Limits { return session.Limits{Sessions: 100} }})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range projects[:2] { // all are members while the rows are made
			dir.AddProject(p, map[access.ProjectID]access.UserID{"p": "ann", "q": "eve"}[p], "pro")
			for _, u := range users {
				dir.AddMember(p, u, access.RoleAdmin)
			}
			dir.AddAgent(p, access.AgentID("agent of "+p), true)
		}
		var made []session.Session
		titles := map[session.ConversationID]string{}
		for n := range rapid.IntRange(1, 6).Draw(t, "sessions") {
			a := access.Actor{User: rapid.SampledFrom(users).Draw(t, "owner")}
			spawn := session.Spawn{Project: rapid.SampledFrom(projects).Draw(t, "project"), Name: fmt.Sprint("name ", n), Title: fmt.Sprintf("first title (%d)", n)}
			if spawn.Project != "" {
				spawn.Agent = access.AgentID("agent of " + spawn.Project)
			}
			s, v, err := svc.Spawn(ctx, a, spawn)
			if err != nil {
				t.Fatal(err)
			}
			made, titles[v.ID] = append(made, s), v.Title
			for m := range rapid.IntRange(0, 3).Draw(t, "more conversations") {
				v := session.Conversation{ID: session.ConversationID(id.New()), Session: s.ID, Project: s.Project, Owner: s.Owner,
					Title: fmt.Sprintf("title (%d %d)", n, m), Shared: rapid.Bool().Draw(t, "shared")}
				if s.Project != "" {
					v.Owner = rapid.SampledFrom(users).Draw(t, "conversation's owner")
				}
				if _, err := db.Sessions().Commit(ctx, session.Change{Conversation: &v}); err != nil {
					t.Fatal(err)
				}
				titles[v.ID] = v.Title
			}
			if rapid.IntRange(0, 3).Draw(t, "ended") == 0 {
				if _, err := svc.End(ctx, a, s.ID); err != nil {
					t.Fatal(err)
				}
			}
		}

		a := access.Actor{User: rapid.SampledFrom(append(users, "")).Draw(t, "actor"), Agent: rapid.SampledFrom([]access.AgentID{"", "agent of p"}).Draw(t, "agent")}
		a.Scope = rapid.SampledFrom([]access.Scope{{}, {}, {}, access.ScopeOf("p"), access.ScopeOf("p", "q"), access.ScopeOf()}).Draw(t, "scope")
		for _, p := range projects[:2] {
			switch role := rapid.IntRange(-1, int(access.RoleAdmin)).Draw(t, "role now"); access.Role(max(role, 0)) {
			case access.RoleUnknown:
				if role < 0 {
					dir.RemoveProject(p)
				} else {
					dir.RemoveMember(p, a.User)
				}
			default:
				dir.AddMember(p, a.User, access.Role(role))
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "nothing is known") == 0 {
			dir.Blind(access.WantRole)
		}

		shown := map[session.ID]session.Summary{}
		for _, s := range made {
			sum, err := svc.Get(ctx, a, s.ID)
			if err == nil {
				shown[s.ID] = sum
			} else if !errors.Is(err, session.ErrNotFound) {
				t.Fatalf("Get: %v", err)
			}
		}
		for _, q := range []session.Query{{}, {Mine: true}, {Ended: true}, {Ended: true, Mine: true}} {
			for _, q.Project = range projects {
				want := map[session.ID]session.Summary{}
				for _, s := range shown {
					if s.Session.Project == q.Project && (q.Ended || !s.Session.Ended()) && (!q.Mine || s.Session.Owner == a.User) {
						want[s.Session.ID] = s
					}
				}
				got := map[session.ID]session.Summary{}
				q.Limit, q.After = 2, ""
				for {
					page, err := svc.List(ctx, a, q)
					if err != nil {
						t.Fatalf("List(%+v): %v", q, err)
					}
					for _, s := range page.Items {
						got[s.Session.ID] = s
					}
					if q.After = page.Next; q.After == "" {
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%+v asks for %+v: (-what Get shows +what List shows)\n%s", a, q, diff)
				}
				for _, v := range conversations(got) {
					_, err := svc.Conversation(ctx, a, v.ID)
					if readable := err == nil; readable != (v.Title == titles[v.ID]) || readable == (v.Title == session.PrivateTitle) {
						t.Fatalf("%+v: title %q of one whose title is %q, and Conversation says %v", a, v.Title, titles[v.ID], err)
					}
				}
				for v, title := range titles { // not anywhere else either
					if _, err := svc.Conversation(ctx, a, v); err != nil && strings.Contains(fmt.Sprintf("%+v", got), title) {
						t.Fatalf("%+v: %q is told in %+v", a, title, got)
					}
				}
			}
		}
	})
}

func conversations(of map[session.ID]session.Summary) (all []session.Conversation) {
	for _, s := range of {
		all = append(all, s.Conversations...)
	}
	return all
}

// What the audit hears of every reason there is: one event of a denial of what
// exists, none of anything else. The table is total.
func TestEveryReasonInTheAudit(t *testing.T) {
	get := func(a access.Actor) func(*replica, session.ID, session.ConversationID) error {
		return func(r *replica, s session.ID, _ session.ConversationID) error {
			return second(r.Get(r.w.Context(), a, s))
		}
	}
	add := func(a access.Actor, agent access.AgentID) func(*replica, session.ID, session.ConversationID) error {
		return func(r *replica, s session.ID, _ session.ConversationID) error {
			return second(r.AddConversation(r.w.Context(), a, session.AddConversation{Session: s, Agent: agent}))
		}
	}
	open := func(a access.Actor) func(*replica, session.ID, session.ConversationID) error {
		return func(r *replica, s session.ID, _ session.ConversationID) error {
			return second(r.work(r.w.Context(), a, inSession(s)))
		}
	}
	// never is what nothing here can be refused for, and why.
	never := map[access.Reason]string{
		access.ReasonNone:           "it is the reason of a decision that was not made",
		access.ReasonAllowed:        "it is no denial",
		access.ReasonProtected:      "it is about folders, which are not had through a session",
		access.ReasonViewOnly:       "so it is",
		access.ReasonShellElsewhere: "it is about shells",
	}
	var bobs session.ConversationID // a conversation of bob's in the session, where there is one
	table := map[access.Reason]struct {
		personal bool // it is ann's own session that is asked for, else one of project "p"
		arrange  func(*world)
		ask      func(*replica, session.ID, session.ConversationID) error
		silent   string // why there is no event
	}{
		access.ReasonNoUser:     {ask: get(access.Actor{})},
		access.ReasonOutOfScope: {ask: get(access.Actor{User: "bob", Scope: access.ScopeOf("q")})},
		access.ReasonNotOwner:   {personal: true, ask: get(bob)},
		access.ReasonProjectGone: {arrange: func(w *world) { w.dir.RemoveProject("p") }, ask: get(ann),
			silent: "what has vanished does not exist"},
		access.ReasonNotMember:        {ask: get(eve)},
		access.ReasonUnknown:          {arrange: func(w *world) { w.dir.Blind(access.WantRole) }, ask: get(bob)},
		access.ReasonNoCode:           {arrange: func(w *world) { w.dir.SetCode("bob", "p", false) }, ask: open(bob)},
		access.ReasonAgentNoCode:      {ask: open(access.Actor{User: "bob", Agent: "mute"})},
		access.ReasonAgentElsewhere:   {arrange: func(w *world) { w.dir.AddMember("q", "ann", access.RoleMember) }, ask: add(ann, "spy")},
		access.ReasonAgentUnavailable: {ask: add(ann, "nobody")},
		access.ReasonTooDeep:          {ask: add(access.Actor{User: "ann", Depth: access.MaxDepth}, "")},
		access.ReasonAssistantOnly:    {personal: true, ask: add(ann, "builder")},
		access.ReasonNotYoursToStop: {ask: func(r *replica, s session.ID, _ session.ConversationID) error {
			return second(r.End(r.w.Context(), bob, s))
		}},
		access.ReasonNotYourConversation: {ask: func(r *replica, s session.ID, _ session.ConversationID) error {
			bobs = r.add(bob, s, "").ID
			return second(r.SendInput(r.w.Context(), ann, bobs))
		}},
		access.ReasonPrivateConversation: {ask: func(r *replica, _ session.ID, v session.ConversationID) error {
			return second(r.Conversation(r.w.Context(), bob, v))
		}},
	}
	for _, reason := range access.Reasons() {
		c, ok := table[reason]
		if why := never[reason]; ok == (why != "") {
			t.Errorf("%v: a line in one of the two tables, and not in both", reason)
		}
		if !ok {
			continue
		}
		inWorld(t, reason.String()+" "+c.silent, immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, v := r.spawn(ann)
			if c.personal {
				var err error
				if s, v, err = r.Spawn(t.Context(), ann, session.Spawn{}); err != nil {
					t.Fatal(err)
				}
			}
			if c.arrange != nil {
				c.arrange(w)
			}
			w.audited()
			err := c.ask(r, s.ID, v.ID)
			if err == nil {
				t.Fatal("allowed")
			}
			var reasons []access.Reason
			for _, e := range w.audited() {
				if reasons = append(reasons, e.Reason); e.Verb == "" || !slices.Contains([]string{string(s.ID), string(v.ID), string(bobs)}, e.Object) {
					t.Errorf("the event says %+v", e)
				}
			}
			want := []access.Reason{reason}
			if c.silent != "" {
				want = nil
			}
			if !slices.Equal(reasons, want) {
				t.Errorf("events for %v, want %v", reasons, want)
			}
			status, code, sentence := problem(t, err)
			if s, c, told := reason.Problem(); status != s || code != c || sentence != told {
				t.Errorf("told as %d %s %q, want %d %s %q", status, code, sentence, s, c, told)
			}
			if text := sentence + code; strings.Contains(text, reason.String()) || strings.Contains(text, string(s.ID)) {
				t.Errorf("T-45: the client is told %q", text)
			}
		})
	}
}
