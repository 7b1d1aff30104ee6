package access

import "slices"

// Actor is who is asking: a user, possibly through an agent, possibly
// confined to some projects.
type Actor struct {
	// User is required: an actor without one is denied everything.
	User UserID
	// Agent is set where the request comes from an agent that acts for User.
	// Both must then have a right: a person can't lend an agent a right that
	// the agent lacks.
	Agent AgentID
	// Depth is how many agents have asked one another until this one asked; 0:
	// a person did, by hand or through one agent. Whoever dispatches for an agent
	// counts it up, and takes it from nobody but itself. At [MaxDepth] agents ask no others.
	Depth uint8
	// Scope is the ceiling of the credential the request came with. It is asked first.
	Scope Scope
}

// MaxDepth is the depth at which an actor opens no session, begins no
// conversation and sends no input any more.
const MaxDepth = 2

// Scope confines an actor to some projects. The zero Scope confines nothing.
type Scope struct{ only []ProjectID }

// ScopeOf returns a scope of just these projects. Without any it confines
// to nothing at all: an empty list is never read as "everything".
func ScopeOf(projects ...ProjectID) Scope {
	return Scope{only: append([]ProjectID{}, projects...)}
}

// Confined reports whether s confines at all.
func (s Scope) Confined() bool { return s.only != nil }

// Reaches reports whether s reaches project. What is personal (no project) is
// never inside a confined scope.
func (s Scope) Reaches(project ProjectID) bool {
	return s.only == nil || project != "" && slices.Contains(s.only, project)
}
