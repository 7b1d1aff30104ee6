package session_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// given is a session of project "p" at version 7 whose sandbox, at version 9, is in a state.
func given(state sandbox.State, ended bool) session.Snapshot {
	s := session.Snapshot{
		Now: t0,
		Session: session.Session{
			ID: "s", Version: 7, Project: "p", Owner: "ann", Name: "old", CreatedAt: t0.Add(-time.Hour), LastActiveAt: t0.Add(-time.Minute),
		},
		Sandbox: sandbox.Row{ID: "b", Version: 9, Session: "s"},
	}
	if ended {
		s.Session.EndedAt = t0.Add(-time.Minute)
	}
	if state == sandbox.None {
		return s
	}
	row := &s.Sandbox
	row.State, row.Generation, row.Provider, row.Key, row.Payer = state, 3, "memory", "bkr-k", "ann"
	row.Name, row.Nonce = "bkr-k-g3", "theirs"
	row.Deadline, row.MaxDeadline = t0.Add(-time.Minute), t0.Add(time.Hour)
	switch state {
	case sandbox.Creating:
		row.Deadline, row.NotBefore = t0.Add(time.Minute), t0.Add(time.Minute)
	case sandbox.Live, sandbox.Lost, sandbox.Destroying:
		row.Incarnation, row.LiveAt = "m", t0.Add(-time.Hour)
	}
	return s
}

var states = []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying}

// eachGiven runs f for a session that has ended and one that has not, with a sandbox in each state.
func eachGiven(t *testing.T, f func(t *testing.T, s session.Snapshot)) {
	for _, ended := range []bool{false, true} {
		for _, state := range states {
			t.Run(fmt.Sprintf("%v, ended %v", state, ended), func(t *testing.T) { f(t, given(state, ended)) })
		}
	}
}

// wantDecision decides and compares.
func wantDecision(t *testing.T, rule string, s session.Snapshot, c session.Command, want session.Decision, wantErr error) {
	t.Helper()
	got, err := session.Decide(s, c)
	if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
		t.Errorf("%s: error %v, want %v", rule, err, wantErr)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", rule, diff)
	}
	again, err2 := session.Decide(s, c)
	if !cmp.Equal(got, again, cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })) || fmt.Sprint(err) != fmt.Sprint(err2) {
		t.Errorf("%s: asked again it decides otherwise", rule)
	}
	if err != nil && !got.Change.Empty() {
		t.Errorf("%s: a refusal comes with a change", rule)
	}
}

// talk is a conversation as a caller asks for it.
func talk(change ...func(*session.Conversation)) session.Conversation {
	v := session.Conversation{ID: "v", Owner: "ann", Agent: "builder", Title: "t"}
	for _, f := range change {
		f(&v)
	}
	return v
}

// there is the same conversation as it stands in the store, bound to session "s".
func there(change ...func(*session.Conversation)) session.Conversation {
	return talk(append([]func(*session.Conversation){func(v *session.Conversation) {
		v.Session, v.Project, v.CreatedAt, v.LastActiveAt, v.Title = "s", "p", t0, t0, "another title"
	}}, change...)...)
}

func TestDecideSpawn(t *testing.T) {
	command := session.CommandSpawn{
		Session: session.Session{ID: "new", Project: "p", Owner: "ann", Name: "n"}, Sandbox: "box",
		Conversation: talk(), MaxSessions: 5,
	}
	bound := talk()
	bound.Session, bound.Project = "new", "p"
	wantDecision(t, "S-08/T-34: session, sandbox and first conversation are one change, T-26: under the owner's ceiling",
		session.Snapshot{}, command, session.Decision{Change: session.Change{
			Session: &command.Session, Sandbox: &sandbox.Row{ID: "box", Session: "new"}, Conversation: &bound,
			Limits: []session.Limit{{Kind: session.SessionsPerOwner, Scope: "ann", Max: 5}},
		}}, nil)

	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		s.Conversation = there()
		wantDecision(t, "T-07: what is there already, exactly as wanted, is a retry", s, command, session.Decision{Exists: true}, nil)
		s.Session.Owner = "bob"
		wantDecision(t, "T-07: a session that somebody else opened is not what this call made", s, command, session.Decision{}, session.ErrConversationTaken)
	})
	for what, change := range map[string]func(s *session.Snapshot){
		"another owner":     func(s *session.Snapshot) { s.Conversation.Owner = "bob" },
		"another agent":     func(s *session.Snapshot) { s.Conversation.Agent = "tester" },
		"the assistant":     func(s *session.Snapshot) { s.Conversation.Agent = "" },
		"another project":   func(s *session.Snapshot) { s.Session.Project, s.Conversation.Project = "q", "q" },
		"another session":   func(s *session.Snapshot) { s.Conversation.Session = "other" },
		"no session at all": func(s *session.Snapshot) { s.Session, s.Conversation.Session = session.Session{}, "" },
		"closed":            func(s *session.Snapshot) { s.Conversation.ClosedAt = t0 },
	} {
		s := given(sandbox.None, false)
		s.Conversation = there()
		change(&s)
		wantDecision(t, "T-07: a conversation with "+what+" is somebody else's", s, command, session.Decision{}, session.ErrConversationTaken)
	}
}

func TestDecideAddConversation(t *testing.T) {
	command := session.CommandAdd{Conversation: talk(), MaxConversations: 4}
	bound := talk()
	bound.Session, bound.Project = "s", "p"
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		if s.Session.Ended() {
			wantDecision(t, "an ended session takes no conversation", s, command, session.Decision{}, session.ErrEnded)
		} else {
			wantDecision(t, "T-02: the binding is in the insert; it rests on the session's version and does not raise it",
				s, command, session.Decision{Change: session.Change{
					Expect: []session.Guard{{Session: "s", Version: 7}}, Conversation: &bound,
					Limits: []session.Limit{{Kind: session.ConversationsPerSession, Scope: "s", Max: 4}},
				}}, nil)
		}
		s.Conversation = there()
		wantDecision(t, "T-07: a retry is told so, also when the session has ended since", s, command, session.Decision{Exists: true}, nil)
		for what, change := range map[string]func(*session.Conversation){
			"owner":   func(v *session.Conversation) { v.Owner = "bob" },
			"agent":   func(v *session.Conversation) { v.Agent = "tester" },
			"session": func(v *session.Conversation) { v.Session = "other" },
			"binding": func(v *session.Conversation) { v.Session = "" },
			"project": func(v *session.Conversation) { v.Project = "" },
			"state":   func(v *session.Conversation) { v.ClosedAt = t0 },
		} {
			s.Conversation = there(change)
			wantDecision(t, "T-02/S-02: no conversation of another "+what+" is ever bound anew", s, command, session.Decision{}, session.ErrConversationTaken)
		}
	})
}

func TestDecideNewConversation(t *testing.T) {
	in := talk(func(v *session.Conversation) { v.Project, v.Session = "p", "smuggled" })
	want := talk(func(v *session.Conversation) { v.Project = "p" })
	wantDecision(t, "S-02: an unbound conversation is inserted without a session, whatever the command says",
		session.Snapshot{}, session.CommandNew{Conversation: in}, session.Decision{Change: session.Change{Conversation: &want}}, nil)
	wantDecision(t, "T-07: a retry", session.Snapshot{Conversation: there(func(v *session.Conversation) { v.Session = "" })},
		session.CommandNew{Conversation: want}, session.Decision{Exists: true}, nil)
	s := given(sandbox.None, false)
	s.Conversation = there()
	wantDecision(t, "T-07: one that is bound is another one", s, session.CommandNew{Conversation: want}, session.Decision{}, session.ErrConversationTaken)
}

func TestDecideRenameAndReopen(t *testing.T) {
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		renamed := s.Session
		renamed.Name = "new"
		wantDecision(t, "a new name is written, and nothing else", s, session.CommandRename{Name: "new"},
			session.Decision{Change: session.Change{Session: &renamed}}, nil)
		wantDecision(t, "the name it has already writes nothing", s, session.CommandRename{Name: "old"}, session.Decision{}, nil)

		open := s.Session
		open.EndedAt = time.Time{}
		want := session.Decision{}
		if s.Session.Ended() {
			want.Change = session.Change{
				Session: &open, Limits: []session.Limit{{Kind: session.SessionsPerOwner, Scope: "ann", Max: 2}},
			}
		}
		wantDecision(t, "rule 4: Reopen clears the end, under the ceiling, and never touches the sandbox",
			s, session.CommandReopen{MaxSessions: 2}, want, nil)
	})
}

func TestDecideRefusesWhatItDoesNotKnow(t *testing.T) {
	wantDecision(t, "no command, no decision", given(sandbox.Live, false), nil, session.Decision{}, sandbox.ErrNotAllowed)
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		happened := session.CommandHappened{Event: sandbox.Observed{Generation: 99}}
		wantDecision(t, "what is seen of another generation changes nothing", s, happened, session.Decision{}, sandbox.ErrNotAllowed)
	})
}

// T-03: ids of different kinds can't be passed for each other.
func TestIDsAreTypesOfTheirOwn(t *testing.T) {
	kinds := map[reflect.Type]string{}
	for name, id := range map[string]any{
		"session": session.ID(""), "conversation": session.ConversationID(""), "sandbox": sandbox.ID(""), "project": access.ProjectID(""),
		"user": access.UserID(""), "agent": access.AgentID(""), "environment": access.EnvironmentID(""), "shell": access.ShellID(""),
	} {
		typ := reflect.TypeOf(id)
		if other, taken := kinds[typ]; taken {
			t.Errorf("the ids of a %s and of a %s have one type, %v", name, other, typ)
		}
		kinds[typ] = name
	}
	// S-01: a session has neither a conversation nor an agent of its own.
	for _, typ := range []reflect.Type{reflect.TypeFor[session.ConversationID](), reflect.TypeFor[access.AgentID]()} {
		for f := range reflect.TypeFor[session.Session]().Fields() {
			if f.Type == typ {
				t.Errorf("S-01: Session has a field %s of type %v", f.Name, f.Type)
			}
		}
	}
}
