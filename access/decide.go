package access

// SessionFacts is what the deciders need to know of a session.
type SessionFacts struct {
	Owner   UserID
	Project ProjectID // empty = personal
}

// ConversationFacts is what the deciders need to know of a conversation.
type ConversationFacts struct {
	Owner   UserID
	Project ProjectID // empty = personal
	Shared  bool      // members of the project may read it
}

// The parts take pointers: they are asked several times each, and only read.

// reach is the part every decision begins with: a user, the credential's
// ceiling, then ownership of what is personal or membership of the project.
func reach(a *Actor, owner UserID, project ProjectID, f *Facts) Decision {
	if d := enter(a, project); !d.Allow {
		return d
	}
	return belong(a, owner, project, f)
}

// enter is what is asked even of an owner: a user, and the credential's ceiling.
func enter(a *Actor, project ProjectID) Decision {
	switch {
	case a.User == "":
		return hide(ReasonNoUser)
	case !a.Scope.Reaches(project):
		return hide(ReasonOutOfScope)
	}
	return allow()
}

// belong asks for ownership of what is personal, and for membership of a
// project. Membership is asked of the object's own owner too: who was removed
// from a project loses the sessions opened in it.
func belong(a *Actor, owner UserID, project ProjectID, f *Facts) Decision {
	switch {
	case project == "" && a.User != owner:
		return hide(ReasonNotOwner)
	case project == "":
		return allow()
	case f.Project == No:
		return hide(ReasonProjectGone)
	case f.Project != Yes || f.Role == RoleUnknown:
		return hide(ReasonUnknown)
	case !f.Role.member():
		return hide(ReasonNotMember)
	}
	return allow()
}

// SeeSession decides whether the actor may read a session and list it. It
// needs WantRole where the session has a project, and never asks for the right to run code.
func SeeSession(a Actor, s SessionFacts, f Facts) Decision {
	return reach(&a, s.Owner, s.Project, &f)
}

// UseSession decides whether the actor may change a session that it sees:
// rename it, reopen it, add conversations. It needs the facts of [SeeSession].
func UseSession(a Actor, s SessionFacts, f Facts) Decision {
	return reach(&a, s.Owner, s.Project, &f)
}

// SpawnSession decides whether the actor may open a new session in project
// with a first conversation with agent; agents that ask agents do so
// [MaxDepth] deep at most. It needs WantRole where there is a
// project and WantAgent where there is an agent.
func SpawnSession(a Actor, project ProjectID, agent AgentID, f Facts) Decision {
	if d := reach(&a, a.User, project, &f); !d.Allow {
		return d
	}
	if d := host(project, agent, &f); !d.Allow {
		return d
	}
	return delegate(&a)
}

// BindConversation decides whether a conversation with agent may be opened in
// the session; how deep is asked as by [SpawnSession]. It needs WantRole where the session has a project and
// WantAgent where there is an agent.
func BindConversation(a Actor, s SessionFacts, agent AgentID, f Facts) Decision {
	if d := reach(&a, s.Owner, s.Project, &f); !d.Allow {
		return d
	}
	if d := host(s.Project, agent, &f); !d.Allow {
		return d
	}
	return delegate(&a)
}

// delegate decides whether an actor may have somebody else begin to work: not
// at the end of a chain of agents that ask one another.
func delegate(a *Actor) Decision {
	if a.Depth >= MaxDepth {
		return refuse(ReasonTooDeep)
	}
	return allow()
}

// host decides whether a session of project may host agent: the assistant
// anywhere, an agent only in its own project, nothing else in a personal session.
func host(project ProjectID, agent AgentID, f *Facts) Decision {
	switch {
	case agent == "":
		return allow()
	case project == "":
		return refuse(ReasonAssistantOnly)
	case f.Agent != Yes:
		return refuse(ReasonAgentUnavailable)
	case f.AgentProject != project:
		return refuse(ReasonAgentElsewhere)
	}
	return allow()
}

// RunCode decides whether the actor may run code in a session that it uses,
// for a conversation with agent (empty: the assistant, or no conversation).
// It is asked each time work opens, before anything wakes. Where an agent asks
// or is asked to work, it must have the right itself, and outside of projects
// no agent has: only the assistant works there. It needs WantRole where the
// session has a project, WantCode, and WantAgent where there is an agent.
func RunCode(a Actor, s SessionFacts, agent AgentID, f Facts) Decision {
	if d := reach(&a, s.Owner, s.Project, &f); !d.Allow {
		return d
	}
	return running(&a, s.Project, agent, &f)
}

// running decides whether code may run in project for whom can be seen there:
// the user may run it, and so may the agent that asks and the one that is asked.
func running(a *Actor, project ProjectID, agent AgentID, f *Facts) Decision {
	switch {
	case f.Code != Yes:
		return refuse(ReasonNoCode)
	case (agent != "" || a.Agent != "") && (project == "" || f.AgentCode != Yes):
		return refuse(ReasonAgentNoCode)
	}
	return allow()
}

// EndSession decides whether the actor may end a session. Its owner always
// may, even when removed from the project or without the right to run code:
// who pays must be able to stop paying. Anybody else must be an owner or
// admin of the project and may run code there, and so must the agent that
// asks for them. The owner's own end needs no facts; others need WantRole,
// WantCode, and WantAgent where an agent asks.
func EndSession(a Actor, s SessionFacts, f Facts) Decision {
	if d := enter(&a, s.Project); !d.Allow || a.User == s.Owner {
		return d
	}
	if d := belong(&a, s.Owner, s.Project, &f); !d.Allow {
		return d
	}
	if !f.Role.manages() {
		return refuse(ReasonNotYoursToStop)
	}
	return running(&a, s.Project, "", &f)
}

// SeeConversation decides whether the actor may read a conversation: its
// owner always; a member of its project where it is shared, or where the
// session it is bound to is the member's own (sessionOwner; empty for an
// unbound conversation). It needs WantRole where there is a project, except for the owner.
func SeeConversation(a Actor, c ConversationFacts, sessionOwner UserID, f Facts) Decision {
	if d := enter(&a, c.Project); !d.Allow || a.User == c.Owner {
		return d
	}
	if d := belong(&a, c.Owner, c.Project, &f); !d.Allow {
		return d
	}
	if !c.Shared && a.User != sessionOwner {
		return hide(ReasonPrivateConversation)
	}
	return allow()
}

// SendInput decides whether the actor may say something in a conversation:
// who has opened it may, as long as the project is still theirs, and agents that ask
// agents [MaxDepth] deep at most. The facts are those of [SeeConversation].
func SendInput(a Actor, c ConversationFacts, sessionOwner UserID, f Facts) Decision {
	if d := SeeConversation(a, c, sessionOwner, f); !d.Allow {
		return d
	}
	if a.User != c.Owner {
		return refuse(ReasonNotYourConversation)
	}
	if d := belong(&a, c.Owner, c.Project, &f); !d.Allow {
		return d
	}
	return delegate(&a)
}

// UseShell decides whether the actor may read and type in a shell of a
// session: as [RunCode] does, for a shell that is that session's. One of
// another session is as one that is not there. asked is the session's id, of the id of the shell's.
func UseShell(a Actor, s SessionFacts, asked, of SessionID, agent AgentID, f Facts) Decision {
	if d := reach(&a, s.Owner, s.Project, &f); !d.Allow {
		return d
	}
	if asked == "" || asked != of {
		return hide(ReasonShellElsewhere)
	}
	return running(&a, s.Project, agent, &f)
}
