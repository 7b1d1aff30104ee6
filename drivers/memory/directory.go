package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/access"
)

// Directory is an [access.Directory] for tests: users, projects and agents as
// they were told to it. It answers only what was asked, and each fact
// honestly: who was never mentioned is no member, and nobody may run code
// until [Directory.SetCode] says so. Outages are made with Fail and Blind.
// It is safe for concurrent use; a change counts from the next question on.
type Directory struct {
	mu        sync.Mutex
	projects  map[access.ProjectID]access.UserID // and their owners
	roles     map[rightKey]access.Role
	code      map[rightKey]bool
	agents    map[access.AgentID]agentEntry
	plans     map[access.UserID]access.Plan
	down      error
	blind     access.Want
	questions []access.Question
}

var _ access.Directory = (*Directory)(nil)

type rightKey struct {
	user    access.UserID
	project access.ProjectID
}

type agentEntry struct {
	project access.ProjectID
	code    bool
}

// NewDirectory returns a directory that knows nobody.
func NewDirectory() *Directory {
	return &Directory{
		projects: map[access.ProjectID]access.UserID{},
		roles:    map[rightKey]access.Role{},
		code:     map[rightKey]bool{},
		agents:   map[access.AgentID]agentEntry{},
		plans:    map[access.UserID]access.Plan{},
	}
}

// AddProject adds a project with its owner, who pays for it. plan becomes the
// owner's plan, as by [Directory.SetPlan]. For a project that is there already
// it changes the owner; the one before is no member any more.
func (d *Directory) AddProject(project access.ProjectID, owner access.UserID, plan access.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, ok := d.projects[project]; ok {
		delete(d.roles, rightKey{before, project})
	}
	d.projects[project] = owner
	d.roles[rightKey{owner, project}] = access.RoleOwner
	d.plans[owner] = plan
}

// RemoveProject makes a project vanish, with its members and their rights in
// it. Its agents stay, and belong to a project that is gone.
func (d *Directory) RemoveProject(project access.ProjectID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.projects, project)
	for key := range d.roles {
		if key.project == project {
			delete(d.roles, key)
		}
	}
	for key := range d.code {
		if key.project == project {
			delete(d.code, key)
		}
	}
}

// AddMember gives a user a role in a project; RoleNone takes it away.
func (d *Directory) AddMember(project access.ProjectID, user access.UserID, role access.Role) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.roles[rightKey{user, project}] = role
}

// RemoveMember takes a user's role and right to run code in a project away.
func (d *Directory) RemoveMember(project access.ProjectID, user access.UserID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.roles, rightKey{user, project})
	delete(d.code, rightKey{user, project})
}

// AddAgent adds an agent to a project, or changes one. Members of its project see it.
func (d *Directory) AddAgent(project access.ProjectID, agent access.AgentID, mayRunCode bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.agents[agent] = agentEntry{project, mayRunCode}
}

// RemoveAgent makes an agent vanish.
func (d *Directory) RemoveAgent(agent access.AgentID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.agents, agent)
}

// SetCode says whether a user may run code in a project, or where project is
// empty in what is the user's own.
func (d *Directory) SetCode(user access.UserID, project access.ProjectID, may bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.code[rightKey{user, project}] = may
}

// SetPlan sets the plan of a payer, for all that the payer pays for.
func (d *Directory) SetPlan(payer access.UserID, plan access.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plans[payer] = plan
}

// Fail makes every question end in err: an outage. nil ends it.
func (d *Directory) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
}

// Blind leaves the facts in want unknown, as if their look-up had failed. Zero ends it.
func (d *Directory) Blind(want access.Want) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blind = want
}

// Questions returns what was asked so far, in order.
func (d *Directory) Questions() []access.Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.questions)
}

// Facts answers q.
func (d *Directory) Facts(ctx context.Context, q access.Question) (access.Facts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.questions = append(d.questions, q)
	if ctx.Err() != nil {
		return access.Facts{}, fmt.Errorf("memory: directory: %w", context.Cause(ctx))
	}
	if d.down != nil {
		return access.Facts{}, fmt.Errorf("memory: directory: %w", d.down)
	}
	var f access.Facts
	want := q.Want &^ d.blind
	if want.Has(access.WantRole) && q.Project != "" {
		f.Project = access.TriOf(d.exists(q.Project))
		f.Role = d.role(q.Actor.User, q.Project)
	}
	if want.Has(access.WantCode) {
		f.Code = access.TriOf((q.Project == "" || d.exists(q.Project)) && d.code[rightKey{q.Actor.User, q.Project}])
	}
	if want.Has(access.WantAgent) {
		d.agentFacts(&f, q)
	}
	if want.Has(access.WantBilling) {
		f.Payer = q.Owner
		if q.Project != "" {
			f.Payer = d.projects[q.Project]
		}
		f.Plan = d.plans[f.Payer]
	}
	return f, nil
}

func (d *Directory) exists(project access.ProjectID) bool {
	_, ok := d.projects[project]
	return ok
}

func (d *Directory) role(user access.UserID, project access.ProjectID) access.Role {
	if role := d.roles[rightKey{user, project}]; role != access.RoleUnknown && d.exists(project) {
		return role
	}
	return access.RoleNone
}

func (d *Directory) agentFacts(f *access.Facts, q access.Question) {
	if q.Agent != "" {
		a, known := d.agents[q.Agent]
		role := d.role(q.Actor.User, a.project)
		f.Agent = access.TriOf(known && role != access.RoleNone)
		f.AgentProject = a.project
	}
	if q.Agent == "" && q.Actor.Agent == "" {
		return
	}
	f.AgentCode = access.TriOf(d.exists(q.Project))
	for _, id := range []access.AgentID{q.Agent, q.Actor.Agent} {
		a, known := d.agents[id]
		if id != "" && (!known || !a.code || a.project != q.Project) {
			f.AgentCode = access.No
		}
	}
}
