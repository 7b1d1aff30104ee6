package access_test

import (
	"errors"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

func TestEveryMemberUsesEnvironments(t *testing.T) { // T-49: and the machine has a gate of its own
	for _, r := range []access.Role{access.RoleMember, access.RoleAdmin, access.RoleOwner} {
		for _, code := range []access.Tri{access.Unknown, access.No, access.Yes} {
			allowed(t, access.UseEnvironment(as("bob"), "p", facts(r, code)))
		}
	}
	denied(t, access.RunCode(as("bob"), access.SessionFacts{Owner: "bob", Project: "p"}, "", facts(access.RoleMember, access.No)), access.ReasonNoCode)
}

func TestDeletingAnEnvironmentAsksTheRealRight(t *testing.T) { // T-43
	for _, code := range []access.Tri{access.Unknown, access.No} {
		for _, r := range []access.Role{access.RoleAdmin, access.RoleOwner} {
			denied(t, access.DeleteEnvironment(as("bob"), "p", facts(r, code)), access.ReasonNoCode)
		}
	}
	allowed(t, access.DeleteEnvironment(as("bob"), "p", facts(access.RoleAdmin, access.Yes)))
	allowed(t, access.DeleteEnvironment(as("bob"), "p", facts(access.RoleOwner, access.Yes)))
	denied(t, access.DeleteEnvironment(as("bob"), "p", facts(access.RoleMember, access.Yes)), access.ReasonNotYoursToStop)
}

func TestForeignEnvironmentsAreAbsent(t *testing.T) { // T-44, T-46
	absent := errors.New("session: not found: environment e")
	out := access.Actor{User: "bob", Scope: access.ScopeOf("q")}
	for _, c := range []struct {
		says string
		a    access.Actor
		f    access.Facts
		want access.Reason
	}{
		{"nobody", as(""), facts(access.RoleOwner, access.Yes), access.ReasonNoUser},
		{"no member", as("eve"), facts(access.RoleNone, access.Yes), access.ReasonNotMember},
		{"a role that could not be found out", as("bob"), facts(access.RoleUnknown, access.Yes), access.ReasonUnknown},
		{"a project that could not be found out", as("bob"), access.Facts{Role: access.RoleOwner, Code: access.Yes}, access.ReasonUnknown},
		{"a project that is gone", as("bob"), access.Facts{Project: access.No, Role: access.RoleOwner, Code: access.Yes}, access.ReasonProjectGone},
		{"a credential for another project", out, facts(access.RoleOwner, access.Yes), access.ReasonOutOfScope},
	} {
		for verb, d := range map[string]access.Decision{"use": access.UseEnvironment(c.a, "p", c.f), "delete": access.DeleteEnvironment(c.a, "p", c.f)} {
			if denied(t, d, c.want); d.Err(verb, "e", absent) != absent {
				t.Errorf("%s: to %s is told apart from what is not there: %v", c.says, verb, d.Reason)
			}
		}
	}
}

// T-47: who opened an environment has no right of its own, so that a removed
// member loses it whole: unlike a session it runs on somebody else's account.
func TestWhoOpenedAnEnvironmentOwnsNothing(t *testing.T) {
	for _, f := range []access.Facts{facts(access.RoleNone, access.Yes), {}, {Project: access.No}} {
		if access.UseEnvironment(as("ada"), "p", f).Allow || access.DeleteEnvironment(as("ada"), "p", f).Allow {
			t.Errorf("allowed with %+v", f)
		}
	}
	allowed(t, access.EndSession(as("ada"), adas, facts(access.RoleNone, access.No))) // a session's owner has
}

func TestAgentDeletesNoEnvironmentOnAnothersRight(t *testing.T) { // T-48
	f := facts(access.RoleOwner, access.Yes)
	helper := access.Actor{User: "ada", Agent: "helper"}
	for _, f.AgentCode = range []access.Tri{access.Unknown, access.No} {
		denied(t, access.DeleteEnvironment(helper, "p", f), access.ReasonAgentNoCode)
		allowed(t, access.DeleteEnvironment(as("ada"), "p", f)) // no agent asks
		allowed(t, access.UseEnvironment(helper, "p", f))       // no code is run
	}
	f.AgentCode = access.Yes
	allowed(t, access.DeleteEnvironment(helper, "p", f))
	f.Code = access.No
	denied(t, access.DeleteEnvironment(helper, "p", f), access.ReasonNoCode) // nor does it lend its own
}

func TestCeilingOfACredentialOverEnvironments(t *testing.T) { // T-50
	f := facts(access.RoleOwner, access.Yes)
	for _, c := range []struct {
		says    string
		scope   access.Scope
		project access.ProjectID
		want    access.Reason
	}{
		{"no scope confines nothing", access.Scope{}, "p", access.ReasonAllowed},
		{"within", access.ScopeOf("q", "p"), "p", access.ReasonAllowed},
		{"without", access.ScopeOf("q"), "p", access.ReasonOutOfScope},
		{"an empty list is not everything", access.ScopeOf(), "p", access.ReasonOutOfScope},
		{"what is personal has no environments", access.Scope{}, "", access.ReasonNotOwner},
		{"in no scope either", access.ScopeOf(""), "", access.ReasonOutOfScope},
	} {
		a := access.Actor{User: "ada", Scope: c.scope}
		for _, d := range []access.Decision{access.UseEnvironment(a, c.project, f), access.DeleteEnvironment(a, c.project, f)} {
			if d.Reason != c.want || d.Allow != (c.want == access.ReasonAllowed) {
				t.Errorf("%s: %+v, want %v", c.says, d, c.want)
			}
		}
	}
}
