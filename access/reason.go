package access

// Reason says why a decision fell as it did. It is for logs, audit and the
// tenant's own admins; a client sees the fixed sentence of [Reason.Problem] and never the reason itself.
type Reason uint8

// The reasons. The list is closed.
const (
	// ReasonNone is the reason of the zero Decision: nothing was decided, so nothing is allowed.
	ReasonNone Reason = iota
	// ReasonAllowed is the reason of every allow.
	ReasonAllowed
	// ReasonNoUser: the actor names no user.
	ReasonNoUser
	// ReasonOutOfScope: the credential is confined to other projects.
	ReasonOutOfScope
	// ReasonNotOwner: the object is personal and somebody else's.
	ReasonNotOwner
	// ReasonProjectGone: the project has vanished.
	ReasonProjectGone
	// ReasonNotMember: the user is not an accepted member of the project.
	ReasonNotMember
	// ReasonUnknown: a fact that was needed could not be found out.
	ReasonUnknown
	// ReasonNoCode: the user may not run code here.
	ReasonNoCode
	// ReasonAgentNoCode: the agent itself may not run code here.
	ReasonAgentNoCode
	// ReasonNotYoursToStop: only the owner, or an admin of the project, may end a session.
	ReasonNotYoursToStop
	// ReasonAgentElsewhere: the agent belongs to another project than the session.
	ReasonAgentElsewhere
	// ReasonAgentUnavailable: the agent is absent, or the user may not see it. The two can't be told apart.
	ReasonAgentUnavailable
	// ReasonAssistantOnly: a personal session hosts only the assistant.
	ReasonAssistantOnly
	// ReasonPrivateConversation: the conversation is somebody else's and not shared.
	ReasonPrivateConversation
	// ReasonProtected: the folder is the service's own, and had by no id.
	ReasonProtected
	// ReasonViewOnly: the user sees the folder and may not change it.
	ReasonViewOnly
	// ReasonTooDeep: agents have asked agents as deep as they may.
	ReasonTooDeep
	// ReasonNotYourConversation: the user reads the conversation and may not write in it.
	ReasonNotYourConversation
	// ReasonShellElsewhere: the shell is another session's than the one it was asked for in.
	ReasonShellElsewhere

	reasons // their number; keep last
)

// Reasons returns every reason, for tables that must be total.
func Reasons() []Reason {
	all := make([]Reason, reasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

type reasonText struct {
	name     string
	status   int
	code     string // what a client sees; several reasons share one
	sentence string
}

var reasonTexts = [reasons]reasonText{
	ReasonNone:                {"none", 403, "forbidden", "You don't have access to this."},
	ReasonAllowed:             {"allowed", 200, "allowed", "Allowed."},
	ReasonNoUser:              {"no_user", 404, "not_found", "Not found."},
	ReasonOutOfScope:          {"out_of_scope", 404, "not_found", "Not found."},
	ReasonNotOwner:            {"not_owner", 404, "not_found", "Not found."},
	ReasonProjectGone:         {"project_gone", 404, "not_found", "Not found."},
	ReasonNotMember:           {"not_member", 404, "not_found", "Not found."},
	ReasonUnknown:             {"unknown", 404, "not_found", "Not found."},
	ReasonNoCode:              {"no_code", 403, "forbidden", "You may not run code here."},
	ReasonAgentNoCode:         {"agent_no_code", 403, "forbidden", "This agent may not run code here."},
	ReasonNotYoursToStop:      {"not_yours_to_stop", 403, "forbidden", "Only its owner or an admin of the project may end it."},
	ReasonAgentElsewhere:      {"agent_elsewhere", 400, "wrong_project", "The agent belongs to another project than the session."},
	ReasonAgentUnavailable:    {"agent_unseen", 409, "agent_unavailable", "This agent is not available."},
	ReasonAssistantOnly:       {"agent_in_personal", 400, "assistant_only", "A personal session hosts only the assistant."},
	ReasonPrivateConversation: {"private_conversation", 404, "not_found", "Not found."},
	ReasonProtected:           {"protected", 404, "not_found", "Not found."},
	ReasonViewOnly:            {"view_only", 403, "forbidden", "You may look at these files and not change them."},
	ReasonTooDeep:             {"too_deep", 403, "delegation_limit", "Agents have asked one another as often as they may."},
	ReasonNotYourConversation: {"not_your_conversation", 403, "forbidden", "Only who opened the conversation may write in it."},
	ReasonShellElsewhere:      {"shell_elsewhere", 404, "not_found", "Not found."},
}

// String is the stable name of the reason, for logs and audit.
func (r Reason) String() string {
	if r >= reasons {
		return "none"
	}
	return reasonTexts[r].name
}

// Problem is what a client may see: an HTTP status, a stable code and one
// fixed sentence, none of which is the reason itself. Those of all hidden denials are the same.
func (r Reason) Problem() (status int, code, sentence string) {
	if r >= reasons {
		r = ReasonNone
	}
	t := reasonTexts[r]
	return t.status, t.code, t.sentence
}
