package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go"

	"github.com/bunkroom/bunkroom/access"
)

// policies say in Cedar what package access says in Go: 20 of them. Facts come
// in the context, what is asked for is the resource. Whether something is
// hidden, and why it is denied, they don't say.
const policies = `
// What is allowed, if nothing forbids it.
permit (principal, action in [Action::"SeeSession", Action::"UseSession"], resource is Session);
permit (principal, action in [Action::"SpawnSession", Action::"BindConversation"], resource is Session);
permit (principal, action == Action::"RunCode", resource is Session);
permit (principal, action == Action::"EndSession", resource is Session)
	when { principal == resource.owner || context.role >= 3 };
permit (principal, action == Action::"SeeConversation", resource is Conversation);
permit (principal, action == Action::"UseEnvironment", resource is Environment);
permit (principal, action == Action::"DeleteEnvironment", resource is Environment) when { context.role >= 3 };
permit (principal, action == Action::"ViewMount", resource is Mount);
permit (principal, action == Action::"EditMount", resource is Mount)
	when { resource.project == "" || context.role >= 3 || context.code };
permit (principal, action == Action::"UseMount", resource is Mount);

// Who reaches what.
forbid (principal == User::"", action, resource);
forbid (principal, action, resource) when { context.confined && !context.scope.contains(resource.project) };
forbid (principal, action, resource is Environment) when { resource.project == "" };
forbid (principal, action, resource) when { resource.project == "" && principal != resource.owner };
forbid (principal, action, resource) when { resource.project != "" && (!context.exists || context.role < 2) }
	unless { action in [Action::"EndSession", Action::"SeeConversation"] && principal == resource.owner };

// What is left for those.
forbid (principal, action in [Action::"RunCode", Action::"EndSession", Action::"DeleteEnvironment", Action::"UseMount"], resource)
	when { !context.code } unless { action == Action::"EndSession" && principal == resource.owner };
forbid (principal, action in [Action::"RunCode", Action::"EndSession", Action::"DeleteEnvironment", Action::"EditMount", Action::"UseMount"], resource)
	when { (context.asking || context.asked && action == Action::"RunCode") && (resource.project == "" || !context.agentCode) }
	unless { action == Action::"EndSession" && principal == resource.owner };
forbid (principal, action in [Action::"SpawnSession", Action::"BindConversation"], resource is Session)
	when { context.asked && (resource.project == "" || !context.agent || context.agentProject != resource.project) };
forbid (principal, action == Action::"SeeConversation", resource is Conversation)
	unless { resource.shared || principal == resource.owner || principal == resource.sessionOwner };
forbid (principal, action, resource is Mount) when { resource.protected };
`

// question is one case, put to both.
type question struct {
	a            access.Actor
	scope        []access.ProjectID // what a.Scope was made from; nil = not confined
	owner        access.UserID
	project      access.ProjectID
	agent        access.AgentID
	shared       bool
	sessionOwner access.UserID
	protected    bool
	f            access.Facts
}

// both is one decider, and the action and type of resource that stand for it.
type both struct {
	action, on string
	decide     func(*question) access.Decision
}

func (q *question) session() access.SessionFacts {
	return access.SessionFacts{Owner: q.owner, Project: q.project}
}

func (q *question) mount() access.MountFacts {
	return access.MountFacts{Owner: q.owner, Project: q.project, Protected: q.protected}
}

var inBoth = []both{
	{"SeeSession", "Session", func(q *question) access.Decision { return access.SeeSession(q.a, q.session(), q.f) }},
	{"UseSession", "Session", func(q *question) access.Decision { return access.UseSession(q.a, q.session(), q.f) }},
	{"SpawnSession", "Session", func(q *question) access.Decision { return access.SpawnSession(q.a, q.project, q.agent, q.f) }},
	{"BindConversation", "Session", func(q *question) access.Decision { return access.BindConversation(q.a, q.session(), q.agent, q.f) }},
	{"RunCode", "Session", func(q *question) access.Decision { return access.RunCode(q.a, q.session(), q.agent, q.f) }},
	{"EndSession", "Session", func(q *question) access.Decision { return access.EndSession(q.a, q.session(), q.f) }},
	{"SeeConversation", "Conversation", func(q *question) access.Decision {
		return access.SeeConversation(q.a, access.ConversationFacts{Owner: q.owner, Project: q.project, Shared: q.shared}, q.sessionOwner, q.f)
	}},
	{"UseEnvironment", "Environment", func(q *question) access.Decision { return access.UseEnvironment(q.a, q.project, q.f) }},
	{"DeleteEnvironment", "Environment", func(q *question) access.Decision { return access.DeleteEnvironment(q.a, q.project, q.f) }},
	{"ViewMount", "Mount", func(q *question) access.Decision { return access.ViewMount(q.a, q.mount(), q.f) }},
	{"EditMount", "Mount", func(q *question) access.Decision { return access.EditMount(q.a, q.mount(), q.f) }},
	{"UseMount", "Mount", func(q *question) access.Decision { return access.UseMount(q.a, q.mount(), q.f) }},
}

func user(id access.UserID) cedar.EntityUID { return cedar.NewEntityUID("User", cedar.String(id)) }

// cedar is the case as Cedar takes it.
func (q *question) cedar(d both) (cedar.EntityMap, cedar.Request) {
	id := cedar.NewEntityUID(cedar.EntityType(d.on), "1")
	owner := q.owner
	if d.action == "SpawnSession" {
		owner = q.a.User // of what one is about to open
	}
	entities := cedar.EntityMap{id: {UID: id, Attributes: cedar.NewRecord(cedar.RecordMap{
		"owner": user(owner), "project": cedar.String(q.project), "shared": cedar.Boolean(q.shared),
		"sessionOwner": user(q.sessionOwner), "protected": cedar.Boolean(q.protected),
	})}}
	var scope []cedar.Value
	for _, p := range q.scope {
		if p != "" { // what is personal is in no scope
			scope = append(scope, cedar.String(p))
		}
	}
	return entities, cedar.Request{
		Principal: user(q.a.User), Action: cedar.NewEntityUID("Action", cedar.String(d.action)), Resource: id,
		Context: cedar.NewRecord(cedar.RecordMap{
			"confined": cedar.Boolean(q.scope != nil), "scope": cedar.NewSet(scope...),
			"exists": cedar.Boolean(q.f.Project == access.Yes), "role": cedar.Long(q.f.Role),
			"code": cedar.Boolean(q.f.Code == access.Yes), "asking": cedar.Boolean(q.a.Agent != ""), "asked": cedar.Boolean(q.agent != ""),
			"agent": cedar.Boolean(q.f.Agent == access.Yes), "agentProject": cedar.String(q.f.AgentProject), "agentCode": cedar.Boolean(q.f.AgentCode == access.Yes),
		}),
	}
}

func cedarPolicies(t testing.TB) *cedar.PolicySet {
	t.Helper()
	set, err := cedar.NewPolicySetFromBytes("policies.cedar", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range set.All() {
		n++
	}
	if n != 20 {
		t.Fatalf("%d policies, want 20", n)
	}
	return set
}

// questions yields every 401st case of a product that has no such factor, so that all values mix.
func questions(yield func(*question)) {
	tris := []access.Tri{access.Unknown, access.No, access.Yes}
	bools := []bool{false, true}
	n := 0
	var q question
	q.owner = "ada"
	for _, q.a.User = range []access.UserID{"", "ada", "bob"} {
		for _, q.a.Agent = range []access.AgentID{"", "helper"} {
			for _, q.scope = range [][]access.ProjectID{nil, {}, {"q"}, {"q", "p"}, {""}} {
				if q.a.Scope = (access.Scope{}); q.scope != nil {
					q.a.Scope = access.ScopeOf(q.scope...)
				}
				for _, q.project = range []access.ProjectID{"", "p"} {
					for _, q.agent = range []access.AgentID{"", "coder"} {
						for _, q.shared = range bools {
							for _, q.sessionOwner = range []access.UserID{"", "ada", "bob"} {
								for _, q.protected = range bools {
									for _, q.f.Project = range tris {
										for q.f.Role = access.RoleUnknown; q.f.Role <= access.RoleOwner; q.f.Role++ {
											for _, q.f.Code = range tris {
												for _, q.f.Agent = range tris {
													for _, q.f.AgentProject = range []access.ProjectID{"", "p", "q"} {
														for _, q.f.AgentCode = range tris {
															if n++; n%401 == 0 {
																yield(&q)
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
			}
		}
	}
}

// What is compared decides the same, or the comparison would say nothing.
func TestCedarDecidesTheSame(t *testing.T) {
	set := cedarPolicies(t)
	for _, d := range inBoth {
		cases, allowed := 0, 0
		questions(func(q *question) {
			entities, request := q.cedar(d)
			theirs, why := cedar.Authorize(set, entities, request)
			ours := d.decide(q)
			cases++
			if ours.Allow {
				allowed++
			}
			if (bool(theirs) != ours.Allow || len(why.Errors) > 0) && !t.Failed() {
				t.Errorf("%s: %+v, Cedar says %v by %+v\nin %+v", d.action, ours, theirs, why, *q)
			}
		})
		if cases < 4000 || allowed < 5 || allowed == cases {
			t.Errorf("%s: %d of %d cases allowed", d.action, allowed, cases)
		}
	}
}

// BenchmarkCedar reports how many times as long a decider takes on an allow as
// cedar-go with the 20 policies, which is handed its entities and request ready
// made: that is not timed.
func BenchmarkCedar(b *testing.B) {
	set := cedarPolicies(b)
	q := &question{
		a: access.Actor{User: "bob", Agent: "helper", Scope: access.ScopeOf("q", "p")}, scope: []access.ProjectID{"q", "p"},
		owner: "ada", project: "p", agent: "coder", shared: true, sessionOwner: "ada",
		f: access.Facts{Project: access.Yes, Role: access.RoleAdmin, Code: access.Yes, Agent: access.Yes, AgentProject: "p", AgentCode: access.Yes},
	}
	const perTurn = 100 // decisions timed at once: one is too short for a clock
	for _, d := range inBoth {
		b.Run(d.action, func(b *testing.B) {
			entities, request := q.cedar(d)
			sides := [2]func() bool{
				func() bool { return d.decide(q).Allow },
				func() bool { theirs, _ := cedar.Authorize(set, entities, request); return bool(theirs) },
			}
			var spent [2][]time.Duration
			n := 0
			for b.Loop() {
				for i := range sides {
					side := (i + n) % 2 // neither is always first
					start, yes := time.Now(), 0
					for range perTurn {
						if sides[side]() {
							yes++
						}
					}
					spent[side] = append(spent[side], time.Since(start))
					if yes != perTurn {
						b.Fatal(fmt.Errorf("side %d: %d of %d allowed", side, yes, perTurn))
					}
				}
				n++
			}
			var each [2]float64
			for side, all := range spent {
				slices.Sort(all)
				each[side] = float64(all[n/2].Nanoseconds()) / perTurn
			}
			b.ReportMetric(each[0], "ours-ns/op")
			b.ReportMetric(each[1], "theirs-ns/op")
			b.ReportMetric(each[0]/each[1], "ratio")
		})
	}
}
