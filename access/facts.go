package access

// Tri is an answer that can be missing. The zero value, Unknown, never allows.
type Tri uint8

// The answers.
const (
	Unknown Tri = iota // not asked, or the look-up failed
	No
	Yes
)

func (t Tri) String() string {
	switch t {
	case No:
		return "no"
	case Yes:
		return "yes"
	}
	return "unknown"
}

// TriOf turns a known yes or no into a Tri.
func TriOf(yes bool) Tri {
	if yes {
		return Yes
	}
	return No
}

// Role is what a user is in a project. The zero value, RoleUnknown, never
// allows. Only an accepted membership counts: a pending invitation is RoleNone.
type Role uint8

// The roles, each including the rights of those before it.
const (
	RoleUnknown Role = iota // not asked, or the look-up failed
	RoleNone                // known not to be a member
	RoleMember
	RoleAdmin
	RoleOwner
)

func (r Role) String() string {
	switch r {
	case RoleNone:
		return "none"
	case RoleMember:
		return "member"
	case RoleAdmin:
		return "admin"
	case RoleOwner:
		return "owner"
	}
	return "unknown"
}

// member reports whether r is a known, accepted membership.
func (r Role) member() bool { return r == RoleMember || r == RoleAdmin || r == RoleOwner }

// manages reports whether r may stop what others have started.
func (r Role) manages() bool { return r == RoleAdmin || r == RoleOwner }

// Plan names the payer's plan in the host's own words. Bunkroom hands it to
// the host's limit function and reads nothing into it.
type Plan string

// Want is the set of facts a question asks for, so that a host looks up no more than it must.
type Want uint8

// What can be asked for; the comment names the fields of [Facts] it fills.
const (
	WantRole    Want = 1 << iota // Project, Role
	WantCode                     // Code
	WantAgent                    // Agent, AgentProject, AgentCode
	WantBilling                  // Payer, Plan
)

// Has reports whether w includes all of other.
func (w Want) Has(other Want) bool { return w&other == other }

// Question is what Bunkroom asks the host, once per request.
type Question struct {
	// Actor asks. Actor.User is whose role and right to run code is wanted.
	Actor Actor
	// Project is the project the request is about; empty for what is personal.
	// WantRole is never asked for an empty project.
	Project ProjectID
	// Owner is the owner of the session the request is about. Where Project is
	// empty, Owner is the payer.
	Owner UserID
	// Agent is the agent the request is about; empty for the assistant.
	Agent AgentID
	// Want says which facts are needed. Others may be left at their zero value.
	Want Want
}

// Facts is what the host knows. The zero value of each field means "unknown"
// and never allows anything.
type Facts struct {
	// Project says whether the project exists: No = it has vanished.
	Project Tri
	// Role is Actor.User's role in Project.
	Role Role
	// Code says whether Actor.User may run code in Project (or, without one, at all).
	Code Tri
	// Agent says whether Question.Agent exists and Actor.User may see it.
	Agent Tri
	// AgentProject is the project Question.Agent belongs to.
	AgentProject ProjectID
	// AgentCode says whether Question.Agent may itself run code in Project, and
	// so may Actor.Agent, where each is set.
	AgentCode Tri
	// Payer is the account charged: the project's owner, or Question.Owner
	// where there is no project. Empty means it could not be found out.
	Payer UserID
	// Plan is the payer's plan.
	Plan Plan
}
