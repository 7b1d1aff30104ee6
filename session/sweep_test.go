package session_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// wayIn is one method with one kind of id that it can be asked for.
type wayIn struct {
	takes string // "session", "conversation", "environment" or "project"
	ask   func(ctx context.Context, r *replica, a access.Actor, id string) (answer any, err error)
	empty bool // what is hidden is answered with nothing and no error
}

// waysIn are all methods of Service that take an id. A method that takes none has no ways.
var waysIn = map[string][]wayIn{
	"In": {}, "Drain": {}, "Serve": {}, "Reclaim": {}, "Sweep": {}, "Purge": {}, "HostGone": {}, "ChargeStorage": {}, "EndTurns": {}, // for the host itself, not for an actor
	"Spawn": {{takes: "project", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		s, v, err := r.Spawn(ctx, a, session.Spawn{Project: access.ProjectID(id), Agent: "builder"})
		return []any{s, v}, err
	}}},
	"NewConversation": {{takes: "project", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.NewConversation(ctx, a, session.NewConversation{Project: access.ProjectID(id), Agent: "builder"})
	}}},
	"List": {{takes: "project", empty: true, ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.List(ctx, a, session.Query{Project: access.ProjectID(id), Ended: true})
	}}},
	"CreateEnvironment": {{takes: "project", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.CreateEnvironment(ctx, a, session.NewEnvironment{Project: access.ProjectID(id)})
	}}},
	"Environments": {{takes: "project", empty: true, ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.Environments(ctx, a, session.EnvironmentQuery{Project: access.ProjectID(id)})
	}}},
	"Environment": {{takes: "environment", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.Environment(ctx, a, session.EnvironmentID(id))
	}}},
	"RenameEnvironment": {{takes: "environment", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return nil, r.RenameEnvironment(ctx, a, session.EnvironmentID(id), "mine now")
	}}},
	"DeleteEnvironment": {{takes: "environment", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.DeleteEnvironment(ctx, a, session.EnvironmentID(id))
	}}},
	"AddConversation": {{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.AddConversation(ctx, a, session.AddConversation{Session: session.ID(id), Agent: "builder"})
	}}},
	"Get": {{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.Get(ctx, a, session.ID(id))
	}}},
	"Rename": {{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return nil, r.Rename(ctx, a, session.ID(id), "mine now")
	}}},
	"Reopen": {{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.Reopen(ctx, a, session.ID(id))
	}}},
	"End": {{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.End(ctx, a, session.ID(id))
	}}},
	"Conversation": {{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.Conversation(ctx, a, session.ConversationID(id))
	}}},
	"WriteConversation": {{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.WriteConversation(ctx, a, session.ConversationID(id))
	}}},
	"CloseConversation": {{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.CloseConversation(ctx, a, session.ConversationID(id))
	}}},
	"ShareConversation": {{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.ShareConversation(ctx, a, session.ConversationID(id), true)
	}}},
	"SendInput": {{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
		return r.SendInput(ctx, a, session.ConversationID(id))
	}}},
	"Open": {
		{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
			return nil, opened(r.work(ctx, a, session.WorkRequest{Session: session.ID(id), Ensure: true, Reopen: true}))
		}},
		{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
			return nil, opened(r.work(ctx, a, session.WorkRequest{Conversation: session.ConversationID(id), Ensure: true, Reopen: true}))
		}},
	},
	"Run": {
		{takes: "session", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
			return r.Run(ctx, a, session.WorkRequest{Session: session.ID(id), Ensure: true, Reopen: true}, mustNotRun(r.w))
		}},
		{takes: "conversation", ask: func(ctx context.Context, r *replica, a access.Actor, id string) (any, error) {
			return r.Run(ctx, a, session.WorkRequest{Conversation: session.ConversationID(id), Ensure: true, Reopen: true}, mustNotRun(r.w))
		}},
	},
}

func opened(_ *session.Work, err error) error { return err }

func mustNotRun(t testing.TB) func(context.Context, *session.Work) error {
	return func(context.Context, *session.Work) error {
		t.Error("a stranger's function ran in the session")
		return nil
	}
}

// A method that is added to Service must be added to the sweep.
func TestEveryMethodIsSwept(t *testing.T) {
	var methods []string
	for m := range reflect.TypeFor[*session.Service]().Methods() {
		methods = append(methods, m.Name)
	}
	var swept []string
	for name := range waysIn {
		swept = append(swept, name)
	}
	slices.Sort(swept)
	if diff := cmp.Diff(methods, swept); diff != "" {
		t.Errorf("methods of Service and what TestStrangersLearnNothing sweeps (-methods +swept)\n%s", diff)
	}
}

// T-44, S-14: whoever may not know of an object is answered, by every method
// and byte by byte, as if it did not exist; and nothing is written for him.
func TestStrangersLearnNothing(t *testing.T) {
	absent := map[string]string{
		"session": "0199ffff-0000-7000-8000-00000000000a", "conversation": "0199ffff-0000-7000-8000-00000000000b", "project": "no-such-project",
		"environment": "0199ffff-0000-7000-8000-00000000000c",
	}
	for _, c := range []struct {
		rule     string
		actor    access.Actor
		arrange  func(w *world)
		projects bool // whether the project exists is known, so that one that does not makes no event
		down     bool // nobody can say: that is no denial, and a project that the request names may be told so
	}{
		{"T-44: a stranger", eve, nil, true, false},
		{"a stranger through an agent of the project", access.Actor{User: "eve", Agent: "builder"}, nil, true, false},
		{"T-46: who is invited and has not accepted", bob, func(w *world) { w.dir.AddMember("p", "bob", access.RoleNone) }, true, false},
		{"T-47: who was removed from the project", bob, func(w *world) { w.dir.RemoveMember("p", "bob") }, true, false},
		{"nobody", access.Actor{}, nil, false, false},
		{"T-50: a credential for another project", access.Actor{User: "bob", Scope: access.ScopeOf("q")}, nil, false, false},
		{"T-50: a credential for no project at all", access.Actor{User: "bob", Scope: access.ScopeOf()}, nil, false, false},
		{"S-14: a member whose membership can't be found out", bob, func(w *world) { w.dir.Blind(access.WantRole) }, false, false},
		{"S-14: a member while the directory is down", bob, func(w *world) { w.dir.Fail(errOutage) }, false, true},
	} {
		for method, ways := range waysIn {
			for _, way := range ways {
				inWorld(t, c.rule+": "+method+" by "+way.takes, immediate, func(t *testing.T, w *world) {
					r := w.replica()
					s, v := r.spawn(ann)
					closeWork(t, r.mustWork(ann, inConversation(v.ID)))
					ended, _ := r.spawn(ann)
					r.end(ann, ended.ID)
					lives, deleted := r.newEnvironment(ann), r.newEnvironment(ann)
					r.deleteEnvironment(ann, deleted)
					foreign := map[string][]string{
						"session": {string(s.ID), string(ended.ID)}, "conversation": {string(v.ID)}, "project": {"p"},
						"environment": {string(lives), string(deleted)},
					}[way.takes]
					if c.arrange != nil {
						c.arrange(w)
					}
					rows := func() []any { return []any{w.snap(s.ID), w.snap(ended.ID), w.env(lives), w.env(deleted)} }
					before := rows()
					var texts []string
					for _, id := range append(foreign, absent[way.takes]) {
						r.meddle(nil)
						w.audited()
						answer, err := way.ask(t.Context(), r, c.actor, id)
						if n := r.count("ask"); n > 1 {
							t.Errorf("%s: the directory was asked %d times in one request", id, n)
						}
						if calls := r.only("commit", "touch", "list", "admit", "acquire", "create", "inspect", "attach", "destroy"); len(calls) > 0 {
							t.Errorf("%s: called %v", id, calls)
						}
						told := 1
						if c.down || id == absent[way.takes] {
							told = 0
						}
						if events := w.audited(); (c.projects || c.down || way.takes != "project") && len(events) != told {
							t.Errorf("%s: audited %+v; want one event for what exists, none for what does not", id, events)
						}
						if answer != nil && !reflect.ValueOf(answer).IsZero() && !cmp.Equal(answer, []any{session.Session{}, session.Conversation{}}) {
							t.Errorf("%s: answered %+v", id, answer)
						}
						unsure := c.down && way.takes == "project"
						if way.empty && !unsure {
							if err != nil {
								t.Errorf("%s: %v, want nothing and no error", id, err)
							}
							continue
						}
						want, wantStatus := error(session.ErrNotFound), 404
						if unsure {
							want, wantStatus = session.ErrUnavailable, 503
						}
						wantErr(t, id, err, want)
						status, code, sentence := problem(t, err)
						texts = append(texts, strings.Join(append(shape(err), strings.ReplaceAll(strings.TrimSuffix(err.Error(), id), strconv.Quote(id), "ID"), code, sentence), "|"))
						if status != wantStatus {
							t.Errorf("%s: status %d", id, status)
						}
					}
					if len(slices.Compact(texts)) > 1 {
						t.Errorf("what is foreign and what is absent differ:\n%s", strings.Join(texts, "\n"))
					}
					if diff := cmp.Diff(before, rows(), cmp.FilterPath(func(p cmp.Path) bool {
						return p.Last().String() == ".Now"
					}, cmp.Ignore())); diff != "" {
						t.Errorf("rows changed (-before +after)\n%s", diff)
					}
				})
			}
		}
	}
}

// T-44: whatever words a store has for it, an absent id is told in ours.
func TestAbsentInOurWords(t *testing.T) {
	for method, ways := range waysIn {
		for _, way := range ways {
			if way.takes == "project" {
				continue
			}
			t.Run(method+" by "+way.takes, func(t *testing.T) {
				w := newWorld(t, immediate)
				r := w.replica()
				r.fail("load", 0, fmt.Errorf("%w: no such row in table 7", session.ErrNotFound))
				_, err := way.ask(t.Context(), r, ann, "absent")
				wantErr(t, "absent", err, session.ErrNotFound)
				if want := "session: not found: " + way.takes + " absent"; err.Error() != want {
					t.Errorf("text %q, want %q", err, want)
				}
			})
		}
	}
}

// problem is what a client is told of an error.
func problem(t testing.TB, err error) (status int, code, sentence string) {
	t.Helper()
	var p interface {
		Problem() (status int, code, sentence string)
	}
	if !errors.As(err, &p) {
		t.Fatalf("error %v (%T) has no Problem", err, err)
	}
	return p.Problem()
}

// shape are the types of an error and of all it wraps.
func shape(err error) (types []string) {
	for err != nil {
		types = append(types, reflect.TypeOf(err).String())
		err = errors.Unwrap(err)
	}
	return types
}

// What is private in a session that one sees.
func TestPrivateConversations(t *testing.T) {
	inWorld(t, "T-51: a member sees that a private conversation is there, and not its title; T-44: its id is as good as absent", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		own := r.add(bob, s.ID, "tester")
		for who, want := range map[access.UserID][]string{"ann": {"t", ""}, "bob": {session.PrivateTitle, ""}, "ada": {session.PrivateTitle, session.PrivateTitle}} {
			a := access.Actor{User: who}
			sum, err := r.Get(t.Context(), a, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			page, err := r.List(t.Context(), a, session.Query{Project: "p"})
			if err != nil || len(page.Items) != 1 {
				t.Fatalf("List: %+v, %v", page, err)
			}
			for what, listed := range map[string][]session.Conversation{"Get": sum.Conversations, "List": page.Items[0].Conversations} {
				titles := map[session.ConversationID]string{}
				for _, c := range listed {
					titles[c.ID] = c.Title
				}
				if got := []string{titles[v.ID], titles[own.ID]}; !slices.Equal(got, want) {
					t.Errorf("%s by %s: titles %q, want %q", what, who, got, want)
				}
			}
		}
		for _, way := range slices.Concat(waysIn["Conversation"], waysIn["Open"][1:], waysIn["Run"][1:]) {
			w.audited()
			_, err := way.ask(t.Context(), r, bob, string(v.ID))
			wantErr(t, "somebody else's private conversation", err, session.ErrNotFound)
			if want := "session: not found: conversation " + string(v.ID); err.Error() != want {
				t.Errorf("text %q, want %q", err, want)
			}
			if events := w.audited(); len(events) != 1 || events[0].Reason != access.ReasonPrivateConversation {
				t.Errorf("audited %+v", events)
			}
		}
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.None {
			t.Errorf("a machine was made: %+v", row)
		}
	})
}
