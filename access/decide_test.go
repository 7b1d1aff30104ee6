package access_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

// world is one case: who asks, what for, and what the host knows.
type world struct {
	a            access.Actor
	owner        access.UserID    // of the session or conversation
	project      access.ProjectID // its project
	agent        access.AgentID   // asked to work, or to be hosted
	shared       bool
	sessionOwner access.UserID    // of the session a conversation is bound to
	protected    bool             // the folder is the service's own
	shell        access.SessionID // of which session the shell is; asked for is that in "s"
	f            access.Facts
}

// line is one line of a decision table. The first that fits decides; where none does, it is allowed.
type line struct {
	says   string
	when   func(*world) bool
	want   access.Reason
	hidden bool
}

func member(r access.Role) bool {
	return r == access.RoleMember || r == access.RoleAdmin || r == access.RoleOwner
}
func inScope(w *world) bool  { return !w.a.Scope.Confined() || w.a.Scope.Reaches(w.project) }
func personal(w *world) bool { return w.project == "" }
func isOwner(w *world) bool  { return w.a.User != "" && w.a.User == w.owner }

// The tables.
var (
	begin = []line{
		{"nobody asks", func(w *world) bool { return w.a.User == "" }, access.ReasonNoUser, true},
		{"the credential's ceiling comes first", func(w *world) bool { return !inScope(w) }, access.ReasonOutOfScope, true},
	}
	reach = join(begin, []line{
		{"what is personal is its owner's alone", func(w *world) bool { return personal(w) && !isOwner(w) }, access.ReasonNotOwner, true},
		{"the project is gone", func(w *world) bool { return !personal(w) && w.f.Project == access.No }, access.ReasonProjectGone, true},
		{"unknown never allows", func(w *world) bool {
			return !personal(w) && (w.f.Project != access.Yes || w.f.Role == access.RoleUnknown)
		}, access.ReasonUnknown, true},
		{"members only, its owner included", func(w *world) bool { return !personal(w) && !member(w.f.Role) }, access.ReasonNotMember, true},
	})
	hosting = []line{
		{"a personal session hosts only the assistant", func(w *world) bool { return w.agent != "" && personal(w) }, access.ReasonAssistantOnly, false},
		{"absent and not to be seen are one", func(w *world) bool { return w.agent != "" && w.f.Agent != access.Yes }, access.ReasonAgentUnavailable, false},
		{"an agent of another project", func(w *world) bool { return w.agent != "" && w.f.AgentProject != w.project }, access.ReasonAgentElsewhere, false},
	}
	deep = []line{ // T-55
		{"agents ask agents only so deep", func(w *world) bool { return w.a.Depth >= access.MaxDepth }, access.ReasonTooDeep, false},
	}
	inShell = []line{ // T-53
		{"a shell of another session is none", func(w *world) bool { return w.shell != "s" }, access.ReasonShellElsewhere, true},
	}
	writing = []line{
		{"only who has opened it writes", func(w *world) bool { return !isOwner(w) }, access.ReasonNotYourConversation, false},
	}
	running = []line{
		{"the user may run code", func(w *world) bool { return w.f.Code != access.Yes }, access.ReasonNoCode, false},
		{"and so may the agent, asking or asked", func(w *world) bool {
			return (w.agent != "" || w.a.Agent != "") && (personal(w) || w.f.AgentCode != access.Yes)
		}, access.ReasonAgentNoCode, false},
	}
	ending = []line{
		{"admins end what is not theirs", func(w *world) bool {
			return w.f.Role != access.RoleAdmin && w.f.Role != access.RoleOwner
		}, access.ReasonNotYoursToStop, false},
		{"with their own right to run code", func(w *world) bool { return w.f.Code != access.Yes }, access.ReasonNoCode, false},
		{"and their agent's", func(w *world) bool { return w.a.Agent != "" && w.f.AgentCode != access.Yes }, access.ReasonAgentNoCode, false},
	}
	// An environment has a project and no owner: what is said to be personal is nobody's.
	shared = join(begin, []line{
		{"what is personal has no environments", personal, access.ReasonNotOwner, true},
	}, reach)
	private = []line{
		{"somebody else's private thread", func(w *world) bool { return !w.shared && w.a.User != w.sessionOwner }, access.ReasonPrivateConversation, true},
	}
	viewing = join(reach, []line{
		{"the service's own folders are in no list and behind no id", func(w *world) bool { return w.protected }, access.ReasonProtected, true},
	})
	editing = []line{
		{"who may run code edits; who manages the project, or owns what is personal, may without", func(w *world) bool {
			return !personal(w) && w.f.Role == access.RoleMember && w.f.Code != access.Yes
		}, access.ReasonViewOnly, false},
		{"an agent edits by its own right, and nothing personal", func(w *world) bool {
			return w.a.Agent != "" && (personal(w) || w.f.AgentCode != access.Yes)
		}, access.ReasonAgentNoCode, false},
	}
	using = []line{
		{"signing is no viewer's", func(w *world) bool { return w.f.Code != access.Yes }, access.ReasonNoCode, false},
		{"nor an agent's that may not run code", func(w *world) bool {
			return w.a.Agent != "" && (personal(w) || w.f.AgentCode != access.Yes)
		}, access.ReasonAgentNoCode, false},
	}
	// always is what an owner may whatever else holds.
	always = []line{{"the owner always may", isOwner, access.ReasonAllowed, false}}
)

func join(tables ...[]line) (all []line) {
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// decider is a function under test, the table it must agree with, and the facts that it says it needs.
type decider struct {
	name   string
	decide func(*world) access.Decision
	table  []line
	needs  access.Want
}

func (w *world) session() access.SessionFacts {
	return access.SessionFacts{Owner: w.owner, Project: w.project}
}

func (w *world) mount() access.MountFacts {
	return access.MountFacts{Owner: w.owner, Project: w.project, Protected: w.protected}
}

// deciders. SpawnSession makes its own owner, so its cases have the actor as
// one; those of an environment are not told who opened it, whatever the case says.
var deciders = []decider{
	{"SeeSession", func(w *world) access.Decision { return access.SeeSession(w.a, w.session(), w.f) }, reach, access.WantRole},
	{"UseSession", func(w *world) access.Decision { return access.UseSession(w.a, w.session(), w.f) }, reach, access.WantRole},
	{"SpawnSession", func(w *world) access.Decision { return access.SpawnSession(w.a, w.project, w.agent, w.f) },
		join(reach, hosting, deep), access.WantRole | access.WantAgent},
	{"BindConversation", func(w *world) access.Decision { return access.BindConversation(w.a, w.session(), w.agent, w.f) },
		join(reach, hosting, deep), access.WantRole | access.WantAgent},
	{"RunCode", func(w *world) access.Decision { return access.RunCode(w.a, w.session(), w.agent, w.f) },
		join(reach, running), access.WantRole | access.WantCode | access.WantAgent},
	{"EndSession", func(w *world) access.Decision { return access.EndSession(w.a, w.session(), w.f) },
		join(begin, always, reach, ending), access.WantRole | access.WantCode | access.WantAgent},
	{"SeeConversation", func(w *world) access.Decision {
		c := access.ConversationFacts{Owner: w.owner, Project: w.project, Shared: w.shared}
		return access.SeeConversation(w.a, c, w.sessionOwner, w.f)
	}, join(begin, always, reach, private), access.WantRole},
	{"SendInput", func(w *world) access.Decision {
		c := access.ConversationFacts{Owner: w.owner, Project: w.project, Shared: w.shared}
		return access.SendInput(w.a, c, w.sessionOwner, w.f)
	}, join(begin, unlessOwner(reach), unlessOwner(private), writing, reach, deep), access.WantRole},
	{"UseShell", func(w *world) access.Decision { return access.UseShell(w.a, w.session(), "s", w.shell, w.agent, w.f) },
		join(reach, inShell, running), access.WantRole | access.WantCode | access.WantAgent},
	{"UseEnvironment", func(w *world) access.Decision { return access.UseEnvironment(w.a, w.project, w.f) }, shared, access.WantRole},
	{"DeleteEnvironment", func(w *world) access.Decision { return access.DeleteEnvironment(w.a, w.project, w.f) },
		join(shared, ending), access.WantRole | access.WantCode | access.WantAgent},
	{"ViewMount", func(w *world) access.Decision { return access.ViewMount(w.a, w.mount(), w.f) }, viewing, access.WantRole},
	{"EditMount", func(w *world) access.Decision { return access.EditMount(w.a, w.mount(), w.f) },
		join(viewing, editing), access.WantRole | access.WantCode | access.WantAgent},
	{"UseMount", func(w *world) access.Decision { return access.UseMount(w.a, w.mount(), w.f) },
		join(viewing, using), access.WantRole | access.WantCode | access.WantAgent},
}

// unlessOwner are lines for everybody but the owner.
func unlessOwner(table []line) (all []line) {
	for _, l := range table {
		when := l.when
		l.when = func(w *world) bool { return !isOwner(w) && when(w) }
		all = append(all, l)
	}
	return all
}

func twin(w *world, table []line) access.Decision {
	for _, l := range table {
		if l.when(w) {
			return access.Decision{Allow: l.want == access.ReasonAllowed, Hidden: l.hidden, Reason: l.want}
		}
	}
	return access.Decision{Allow: true, Reason: access.ReasonAllowed}
}

// each yields the product of actors, objects and facts for one decider. Of the
// facts that it says it does not need, the two extremes are taken.
func each(d decider, yield func(*world)) {
	owners, shares, protects := []access.UserID{"ada"}, []bool{false}, []bool{false}
	depths, shells := []uint8{0}, []access.SessionID{"s"}
	switch d.name {
	case "SpawnSession", "BindConversation", "SendInput":
		depths = []uint8{0, access.MaxDepth - 1, access.MaxDepth, 255}
	case "UseShell":
		shells = []access.SessionID{"s", "", "t"}
	}
	switch d.name {
	case "SeeConversation", "SendInput":
		owners, shares = []access.UserID{"", "ada", "bob"}, []bool{false, true}
	case "ViewMount", "EditMount", "UseMount":
		protects = []bool{false, true}
	}
	all := factsFor(d.needs)
	var w world
	for _, w.a.Depth = range depths {
		for _, w.shell = range shells {
			for _, w.a.User = range []access.UserID{"", "ada", "bob"} {
				for _, w.a.Agent = range []access.AgentID{"", "helper"} {
					for _, w.a.Scope = range []access.Scope{{}, access.ScopeOf("q", "p"), access.ScopeOf("q"), access.ScopeOf()} {
						for _, w.project = range []access.ProjectID{"", "p"} {
							for _, w.agent = range []access.AgentID{"", "coder"} {
								for _, w.shared = range shares {
									for _, w.protected = range protects {
										for _, w.sessionOwner = range owners {
											for _, w.f = range all {
												if w.owner = "ada"; d.name == "SpawnSession" {
													w.owner = w.a.User
												}
												yield(&w)
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

func factsFor(needs access.Want) (all []access.Facts) {
	tris := []access.Tri{access.Unknown, access.No, access.Yes}
	needed := func(want access.Want) []access.Tri {
		if needs.Has(want) {
			return tris
		}
		return []access.Tri{access.Unknown, access.Yes}
	}
	var f access.Facts
	for _, f.Project = range tris {
		for _, f.Role = range []access.Role{access.RoleUnknown, access.RoleNone, access.RoleMember, access.RoleAdmin, access.RoleOwner} {
			for _, f.Code = range needed(access.WantCode) {
				for _, f.Agent = range needed(access.WantAgent) {
					for _, f.AgentCode = range needed(access.WantAgent) {
						for _, f.AgentProject = range []access.ProjectID{"", "p", "q"} {
							all = append(all, f)
						}
					}
				}
			}
		}
	}
	return all
}

func TestDecidersTwin(t *testing.T) {
	for _, d := range deciders {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			cases, allowed := 0, 0
			each(d, func(w *world) {
				cases++
				got, want := d.decide(w), twin(w, d.table)
				if got.Allow {
					allowed++
				}
				if got != want && !t.Failed() {
					t.Errorf("%+v, want %+v\nin %+v", got, want, *w)
				}
			})
			if allowed == 0 || allowed == cases {
				t.Errorf("%d of %d allowed", allowed, cases)
			}
			t.Logf("%d cases, %d allowed", cases, allowed)
		})
	}
}

// A value that is none of the closed lists is no right.
func TestUnheardOfAnswersAllowNothing(t *testing.T) {
	strange := access.Facts{Project: 9, Role: 99, Code: 9, Agent: 9, AgentProject: "p", AgentCode: 9}
	for _, f := range []access.Facts{strange, {Project: access.Yes, Role: 99, Code: access.Yes}, {Project: access.Yes, Role: access.RoleOwner, Code: 9}} {
		for _, d := range []access.Decision{
			access.RunCode(access.Actor{User: "bob"}, access.SessionFacts{Owner: "ada", Project: "p"}, "", f),
			access.EndSession(access.Actor{User: "bob"}, access.SessionFacts{Owner: "ada", Project: "p"}, f),
		} {
			if d.Allow {
				t.Errorf("%+v allows", f)
			}
		}
	}
	if access.Tri(9).String() != "unknown" || access.Role(99).String() != "unknown" || access.Reason(99).String() != "none" {
		t.Error("strange values must read as nothing known")
	}
}

// With nothing known, an owner has what is personal, but for code, the end of a
// session and the reading of a conversation. Nobody has anything else.
func TestDecidersOnZeroFacts(t *testing.T) {
	for _, d := range deciders {
		each(d, func(w *world) {
			if (w.f != access.Facts{}) {
				return
			}
			own := w.a.User != "" && w.a.User == w.owner && inScope(w)
			want := false
			switch d.name {
			case "EndSession", "SeeConversation":
				want = own
			case "SeeSession", "UseSession":
				want = own && personal(w)
			case "ViewMount":
				want = own && personal(w) && !w.protected
			case "EditMount":
				want = own && personal(w) && !w.protected && w.a.Agent == ""
			case "SpawnSession", "BindConversation":
				want = own && personal(w) && w.agent == "" && w.a.Depth < access.MaxDepth
			case "SendInput":
				want = own && personal(w) && w.a.Depth < access.MaxDepth
			}
			if got := d.decide(w); got.Allow != want {
				t.Errorf("%s: %+v in %+v", d.name, got, *w)
			}
		})
	}
	if (access.Decision{}).Allow || (access.Decision{}).Err("v", "o", errNotFound) == nil {
		t.Error("the zero decision must deny")
	}
}
