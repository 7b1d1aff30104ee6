package access_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

// Ada's session in project p, and what the host knows of somebody there.
var (
	adas    = access.SessionFacts{Owner: "ada", Project: "p"}
	adasOwn = access.SessionFacts{Owner: "ada"}
)

func as(user access.UserID) access.Actor { return access.Actor{User: user} }

func facts(r access.Role, code access.Tri) access.Facts {
	return access.Facts{Project: access.Yes, Role: r, Code: code}
}

func denied(t *testing.T, d access.Decision, want access.Reason) {
	t.Helper()
	if d.Allow || d.Reason != want {
		t.Errorf("%+v, want the reason %v", d, want)
	}
}

func allowed(t *testing.T, d access.Decision) {
	t.Helper()
	if !d.Allow {
		t.Errorf("denied: %v", d.Reason)
	}
}

func TestEndByOthersAsksTheirRealRight(t *testing.T) { // T-43
	for _, code := range []access.Tri{access.Unknown, access.No} {
		denied(t, access.EndSession(as("bob"), adas, facts(access.RoleAdmin, code)), access.ReasonNoCode)
	}
	allowed(t, access.EndSession(as("bob"), adas, facts(access.RoleAdmin, access.Yes)))
	denied(t, access.EndSession(as("bob"), adas, facts(access.RoleMember, access.Yes)), access.ReasonNotYoursToStop)
}

func TestAbsentAndForeignAreOne(t *testing.T) { // T-44
	strangers := []access.Decision{
		access.SeeSession(as(""), adas, access.Facts{}),
		access.SeeSession(as("eve"), adasOwn, access.Facts{}),
		access.SeeSession(as("eve"), adas, access.Facts{}),
		access.SeeSession(as("eve"), adas, facts(access.RoleNone, access.Yes)),
		access.RunCode(as("eve"), adas, "coder", facts(access.RoleNone, access.Yes)),
		access.EndSession(as("eve"), adas, facts(access.RoleNone, access.Yes)),
		access.BindConversation(as("eve"), adas, "coder", facts(access.RoleNone, access.Yes)),
		access.SeeSession(as("ada"), adas, access.Facts{Project: access.No, Role: access.RoleOwner}),
		access.SeeSession(access.Actor{User: "ada", Scope: access.ScopeOf("q")}, adas, facts(access.RoleOwner, access.Yes)),
		access.SeeConversation(as("bob"), access.ConversationFacts{Owner: "ada", Project: "p"}, "ada", facts(access.RoleMember, access.Yes)),
	}
	absent := errors.New("session: not found: session 1")
	for n, d := range strangers {
		if err := d.Err("verb", "1", absent); err != absent {
			t.Errorf("%d: %+v: %v", n, d, err)
		}
		if status, code, sentence := d.Reason.Problem(); status != 404 || code != "not_found" || sentence != "Not found." {
			t.Errorf("%d: %v is told as %d %s %q", n, d.Reason, status, code, sentence)
		}
	}
	// Nor can agents be told apart by asking for them.
	gone, unseen := facts(access.RoleMember, access.Yes), facts(access.RoleMember, access.Yes)
	gone.Agent, unseen.Agent = access.No, access.Unknown
	unseen.AgentProject = "q"
	if a, b := access.BindConversation(as("ada"), adas, "coder", gone), access.BindConversation(as("ada"), adas, "coder", unseen); a != b || a.Reason != access.ReasonAgentUnavailable {
		t.Errorf("%+v and %+v", a, b)
	}
}

func TestReasonsAreForTheAudit(t *testing.T) { // T-45
	for _, r := range access.Reasons() {
		if _, _, sentence := r.Problem(); strings.Contains(sentence, "_") {
			t.Errorf("%v is told to the client: %q", r, sentence)
		}
	}
	d := access.Decision{Reason: access.ReasonNoCode}
	if text := d.Err("run code", "session 1", nil).Error(); !strings.Contains(text, "no_code") || !strings.Contains(text, "run code") || !strings.Contains(text, "session 1") {
		t.Errorf("the log must tell all: %s", text)
	}
}

func TestPendingInvitationIsNoMembership(t *testing.T) { // T-46
	for _, d := range deciders {
		w := world{a: as("bob"), owner: "ada", project: "p", shared: true, f: facts(access.RoleNone, access.Yes)}
		if d.decide(&w).Allow {
			t.Errorf("%s allows who is no accepted member", d.name)
		}
	}
}

func TestRemovedOwnerLosesUseButNotTheEnd(t *testing.T) { // T-47, S-14
	removed := facts(access.RoleNone, access.No)
	denied(t, access.SeeSession(as("ada"), adas, removed), access.ReasonNotMember)
	denied(t, access.UseSession(as("ada"), adas, removed), access.ReasonNotMember)
	denied(t, access.RunCode(as("ada"), adas, "", removed), access.ReasonNotMember)
	allowed(t, access.EndSession(as("ada"), adas, removed))
	allowed(t, access.EndSession(as("ada"), adas, access.Facts{Project: access.No}))
	// An end of nobody's by nobody is none.
	denied(t, access.EndSession(as(""), access.SessionFacts{Project: "p"}, facts(access.RoleOwner, access.Yes)), access.ReasonNoUser)
}

func TestAgentNeedsTheRightItself(t *testing.T) { // T-48
	f := facts(access.RoleOwner, access.Yes)
	helper := access.Actor{User: "ada", Agent: "helper"}
	for _, code := range []access.Tri{access.Unknown, access.No} {
		f.AgentCode = code
		denied(t, access.RunCode(as("ada"), adas, "coder", f), access.ReasonAgentNoCode) // asked to work
		denied(t, access.RunCode(helper, adas, "", f), access.ReasonAgentNoCode)         // asking
		denied(t, access.EndSession(access.Actor{User: "bob", Agent: "helper"}, adas, f), access.ReasonAgentNoCode)
	}
	f.AgentCode = access.Yes
	allowed(t, access.RunCode(helper, adas, "coder", f))
	f.Code = access.No
	denied(t, access.RunCode(helper, adas, "coder", f), access.ReasonNoCode) // nor does it lend its own
}

func TestTheMachineHasAGateOfItsOwn(t *testing.T) { // T-49
	f := facts(access.RoleMember, access.No)
	allowed(t, access.SeeSession(as("ada"), adas, f))
	allowed(t, access.UseSession(as("ada"), adas, f))
	denied(t, access.RunCode(as("ada"), adas, "", f), access.ReasonNoCode)
}

func TestCeilingOfACredential(t *testing.T) { // T-50
	f := facts(access.RoleOwner, access.Yes)
	for _, c := range []struct {
		says    string
		scope   access.Scope
		project access.ProjectID
		want    bool
	}{
		{"no scope confines nothing", access.Scope{}, "p", true},
		{"nor what is personal", access.Scope{}, "", true},
		{"within", access.ScopeOf("q", "p"), "p", true},
		{"without", access.ScopeOf("q"), "p", false},
		{"an empty list is not everything", access.ScopeOf(), "p", false},
		{"what is personal is in no list", access.ScopeOf("p"), "", false},
		{"not even in one that holds the empty id", access.ScopeOf(""), "", false},
	} {
		s := access.SessionFacts{Owner: "ada", Project: c.project}
		a := access.Actor{User: "ada", Scope: c.scope}
		for name, d := range map[string]access.Decision{
			"see": access.SeeSession(a, s, f), "end": access.EndSession(a, s, f),
			"conversation": access.SeeConversation(a, access.ConversationFacts{Owner: "ada", Project: c.project}, "", f),
		} {
			if d.Allow != c.want || !c.want && d.Reason != access.ReasonOutOfScope {
				t.Errorf("%s: %s: %+v", c.says, name, d)
			}
		}
	}
	list := []access.ProjectID{"p"}
	scope := access.ScopeOf(list...)
	list[0] = "q"
	if !scope.Reaches("p") || scope.Reaches("q") {
		t.Error("a scope changed with the slice it was made from")
	}
}

func TestPersonalSessions(t *testing.T) { // S-12, S-13
	code := access.Facts{Code: access.Yes}
	allowed(t, access.SeeSession(as("ada"), adasOwn, access.Facts{}))
	allowed(t, access.RunCode(as("ada"), adasOwn, "", code)) // membership is not even looked at
	denied(t, access.RunCode(as("ada"), adasOwn, "", access.Facts{Role: access.RoleOwner, Project: access.Yes}), access.ReasonNoCode)
	allowed(t, access.SpawnSession(as("ada"), "", "", access.Facts{}))
	denied(t, access.SpawnSession(as("ada"), "", "coder", access.Facts{Agent: access.Yes}), access.ReasonAssistantOnly)
	denied(t, access.BindConversation(as("ada"), adasOwn, "coder", access.Facts{Agent: access.Yes}), access.ReasonAssistantOnly)
	for _, r := range []access.Role{access.RoleMember, access.RoleAdmin, access.RoleOwner} {
		for _, d := range []access.Decision{
			access.SeeSession(as("bob"), adasOwn, facts(r, access.Yes)), access.EndSession(as("bob"), adasOwn, facts(r, access.Yes)),
		} {
			denied(t, d, access.ReasonNotOwner)
		}
	}
}

func TestAgentsStayInTheirProject(t *testing.T) { // T-06, S-17
	f := facts(access.RoleMember, access.No)
	f.Agent, f.AgentProject = access.Yes, "q"
	d := access.BindConversation(as("ada"), adas, "coder", f)
	denied(t, d, access.ReasonAgentElsewhere)
	if status, _, _ := d.Reason.Problem(); status != 400 {
		t.Errorf("status %d, want 400", status)
	}
	f.AgentProject = "p"
	allowed(t, access.BindConversation(as("ada"), adas, "coder", f))
	allowed(t, access.BindConversation(as("ada"), adas, "", f)) // the assistant is at home everywhere
}

func TestConversationsAreReadBy(t *testing.T) { // its owner; a member, where it is shared or bound to the member's own session
	thread := access.ConversationFacts{Owner: "ada", Project: "p"}
	shared := thread
	shared.Shared = true
	bob := facts(access.RoleMember, access.No)
	allowed(t, access.SeeConversation(as("ada"), thread, "", access.Facts{}))
	denied(t, access.SeeConversation(as("bob"), thread, "ada", bob), access.ReasonPrivateConversation)
	denied(t, access.SeeConversation(as("bob"), thread, "", bob), access.ReasonPrivateConversation)
	allowed(t, access.SeeConversation(as("bob"), thread, "bob", bob))
	allowed(t, access.SeeConversation(as("bob"), shared, "ada", bob))
	denied(t, access.SeeConversation(as("bob"), shared, "bob", facts(access.RoleNone, access.Yes)), access.ReasonNotMember)
	denied(t, access.SeeConversation(as("bob"), access.ConversationFacts{Owner: "ada", Shared: true}, "bob", bob), access.ReasonNotOwner)
}

func TestAShellOfAnotherSessionIsNone(t *testing.T) { // T-53
	all := facts(access.RoleOwner, access.Yes)
	allowed(t, access.UseShell(as("ada"), adas, "s", "s", "", all))
	absent := errors.New("no such shell")
	for _, of := range []access.SessionID{"t", ""} {
		if d := access.UseShell(as("ada"), adas, "s", of, "", all); d.Err("use_shell", "1", absent) != absent {
			t.Errorf("told apart from one that is not there: %+v", d)
		}
	}
	denied(t, access.UseShell(as("ada"), adas, "", "", "", all), access.ReasonShellElsewhere) // two unknowns are not one
}

func TestAgentsAskAgentsOnlySoDeep(t *testing.T) { // T-55: at the spawn and at each input
	thread, f := access.ConversationFacts{Owner: "ada", Project: "p"}, facts(access.RoleMember, access.Yes)
	for depth, want := range map[uint8]bool{0: true, 1: true, 2: false, 3: false} {
		a := access.Actor{User: "ada", Depth: depth}
		for what, d := range map[string]access.Decision{
			"spawn": access.SpawnSession(a, "p", "", f), "begin": access.BindConversation(a, adas, "", f), "send": access.SendInput(a, thread, "ada", f),
		} {
			if d.Allow != want || !want && d.Reason != access.ReasonTooDeep {
				t.Errorf("%s at depth %d: %+v", what, depth, d)
			}
		}
		allowed(t, access.SeeSession(a, adas, f)) // nobody is asked anything by that
	}
}
