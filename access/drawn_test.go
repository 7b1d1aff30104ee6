package access_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
)

// TestDrawnCases asks every decider what the product of the tables does not
// hold: any ids, long scopes, several facts changed at once, and answers that are none.
func TestDrawnCases(t *testing.T) {
	for _, d := range deciders {
		t.Run(d.name, rapid.MakeCheck(func(t *rapid.T) {
			c := drawCase(t, d)
			w := c.world()
			got := d.decide(&w)
			same := func(rule string, w world) {
				if other := d.decide(&w); other != got {
					t.Fatalf("%s: %+v and %+v\nin %+v", rule, got, other, w)
				}
			}
			if want := twin(&w, d.table); got != want {
				t.Fatalf("%+v, want %+v\nin %+v", got, want, w)
			}
			same("the same question has the same answer", w)

			less := w
			for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, len(forget)-1), rapid.ID).Draw(t, "forgotten") {
				forget[i](&less.f)
			}
			if d.decide(&less).Allow && !got.Allow {
				t.Fatalf("what is not known allows: %+v\nin %+v", d.decide(&less), less)
			}
			more := w
			for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, len(grant)-1), rapid.ID).Draw(t, "granted") {
				grant[i](&more)
			}
			if got.Allow && !d.decide(&more).Allow {
				t.Fatalf("more rights deny: %+v\nin %+v", d.decide(&more), more)
			}
			wider := c
			wider.scope = slices.Concat(c.scope, rapid.SliceOfN(rapid.SampledFrom(c.projects), 0, 3).Draw(t, "added to the scope"))
			if w := wider.world(); got.Allow && !d.decide(&w).Allow {
				t.Fatalf("a wider scope denies: %+v\nin %+v", d.decide(&w), w)
			}

			// Ids are compared and nothing else: nothing is read out of one.
			same("other ids, alike and different where these were", c.renamed().world())
			strange := w
			if w.f.Project == access.Unknown {
				strange.f.Project = 77
			}
			if w.f.Code == access.Unknown {
				strange.f.Code = 77
			}
			if w.f.Agent == access.Unknown {
				strange.f.Agent = 77
			}
			if w.f.AgentCode == access.Unknown {
				strange.f.AgentCode = 77
			}
			same("an answer that is none is as none", strange)
			paid := w
			paid.f.Payer, paid.f.Plan = w.a.User, "enterprise"
			same("nobody buys a right", paid)
		}))
	}
}

// drawn is a case before it is a world: its scope is a list, and its ids are from short lists.
type drawn struct {
	w        world
	confined bool
	scope    []access.ProjectID
	projects []access.ProjectID
}

func (c drawn) world() world {
	if c.w.a.Scope = (access.Scope{}); c.confined {
		c.w.a.Scope = access.ScopeOf(c.scope...)
	}
	return c.w
}

// renamed is the case with every id that is not empty exchanged for another.
func (c drawn) renamed() drawn {
	c.scope = slices.Clone(c.scope)
	for i := range c.scope {
		rename(&c.scope[i])
	}
	rename(&c.w.a.User)
	rename(&c.w.a.Agent)
	rename(&c.w.owner)
	rename(&c.w.project)
	rename(&c.w.agent)
	rename(&c.w.sessionOwner)
	rename(&c.w.f.AgentProject)
	return c
}

func rename[T ~string](id *T) {
	if *id != "" {
		*id = "user:" + *id
	}
}

func drawCase(t *rapid.T, d decider) drawn {
	ids := func(what string) []string {
		return append(rapid.SliceOfNDistinct(rapid.StringN(1, 6, -1), 2, 3, rapid.ID).Draw(t, what), "")
	}
	tri := func(what string) access.Tri {
		return rapid.SampledFrom([]access.Tri{access.Yes, access.No, access.Unknown}).Draw(t, what)
	}
	users, agents := ids("users"), ids("agents")
	var c drawn
	for _, id := range ids("projects") {
		c.projects = append(c.projects, access.ProjectID(id))
	}
	user := func(what string) access.UserID { return access.UserID(rapid.SampledFrom(users).Draw(t, what)) }
	agent := func(what string) access.AgentID { return access.AgentID(rapid.SampledFrom(agents).Draw(t, what)) }
	project := func(what string) access.ProjectID { return rapid.SampledFrom(c.projects).Draw(t, what) }
	c.confined = rapid.Bool().Draw(t, "confined")
	c.scope = rapid.SliceOfN(rapid.SampledFrom(c.projects), 0, 4).Draw(t, "scope")
	w := &c.w
	w.a.User, w.a.Agent = user("actor"), agent("asking agent")
	w.owner, w.sessionOwner, w.project, w.agent = user("owner"), user("session owner"), project("project"), agent("agent")
	w.a.Depth = rapid.Uint8Range(0, access.MaxDepth+1).Draw(t, "depth")
	w.shell = rapid.SampledFrom([]access.SessionID{"s", "", "another"}).Draw(t, "the shell's session")
	w.shared, w.protected = rapid.Bool().Draw(t, "shared"), rapid.Bool().Draw(t, "protected")
	w.f = access.Facts{
		Project: tri("project exists"), Role: access.Role(rapid.IntRange(0, int(access.RoleOwner)).Draw(t, "role")),
		Code: tri("code"), Agent: tri("agent exists"), AgentProject: project("agent's project"), AgentCode: tri("agent's code"),
	}
	if d.name == "SpawnSession" {
		w.owner = w.a.User
	}
	return c
}
