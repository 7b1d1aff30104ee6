package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
	"github.com/bunkroom/bunkroom/sandbox"
)

// NewEnvironment is what [Catalog.CreateEnvironment] is asked for.
type NewEnvironment struct {
	Project access.ProjectID // required
	Name    string           // trimmed, at most access.MaxName characters, may be empty
}

// CreateEnvironment opens an environment: a sandbox that sessions of the
// project may borrow, and that outlives them. No machine is made: that is left
// to the first work that needs one.
func (c *Catalog) CreateEnvironment(ctx context.Context, a access.Actor, q NewEnvironment) (Environment, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("Project", q.Project)); err != nil {
		return Environment{}, host.First(err)
	}
	name, err := access.CheckName("Name", q.Name)
	if err != nil {
		return Environment{}, err
	}
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: q.Project, Owner: a.User, Want: access.WantRole})
	if err := f.Known(q.Project); err != nil {
		return Environment{}, err
	}
	d := access.UseEnvironment(a, q.Project, f.Facts)
	if err := c.rows.host.Rule(ctx, a, f, d, "create environment in project", string(q.Project), noProject(q.Project)); err != nil {
		return Environment{}, err
	}
	command := CommandCreateEnvironment{
		Environment: Environment{ID: EnvironmentID(c.newID()), Project: q.Project, CreatedBy: a.User, Name: name},
		Sandbox:     sandbox.ID(c.newID()),
	}
	out, err := c.rows.insert(ctx, Address{Environment: command.Environment.ID}, true,
		func(s Snapshot) (Decision, error) { return Decide(s, command) })
	return out.Environment, err
}

// Environment returns an environment, deleted ones included.
func (c *Catalog) Environment(ctx context.Context, a access.Actor, id EnvironmentID) (EnvironmentSummary, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("environment", id)); err != nil {
		return EnvironmentSummary{}, host.First(err)
	}
	s, err := c.rows.store.Load(ctx, Address{Environment: id})
	if err != nil {
		return EnvironmentSummary{}, subject(err, noEnvironment(id))
	}
	if err := c.mayUse(ctx, a, s.Environment, "see environment"); err != nil {
		return EnvironmentSummary{}, err
	}
	return EnvironmentSummary{Environment: s.Environment, Machine: s.Sandbox.State}, nil
}

// Environments returns a page of a project's environments, newest first,
// without deleted ones. A project that the actor is no member of has none, as one that does not exist.
func (c *Catalog) Environments(ctx context.Context, a access.Actor, q EnvironmentQuery) (EnvironmentPage, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("Project", q.Project)); err != nil {
		return EnvironmentPage{}, host.First(err)
	}
	if q.Limit == 0 {
		q.Limit = MaxListed
	}
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: q.Project, Owner: a.User, Want: access.WantRole})
	if err := f.Known(q.Project); err != nil {
		return EnvironmentPage{}, err
	}
	d := access.UseEnvironment(a, q.Project, f.Facts)
	err := c.rows.host.Rule(ctx, a, f, d, "list environments of project", string(q.Project), noProject(q.Project))
	if errors.Is(err, ErrNotFound) {
		return EnvironmentPage{}, nil
	}
	if err != nil {
		return EnvironmentPage{}, err
	}
	return c.rows.store.Environments(ctx, q)
}

// RenameEnvironment gives an environment another name. ErrEnvironmentGone: it was deleted.
func (c *Catalog) RenameEnvironment(ctx context.Context, a access.Actor, id EnvironmentID, name string) error {
	if err := errors.Join(host.CheckActor(a), access.CheckID("environment", id)); err != nil {
		return host.First(err)
	}
	name, err := access.CheckName("name", name)
	if err != nil {
		return err
	}
	first := true
	_, err = c.rows.change(ctx, Address{Environment: id}, func(s Snapshot) (Decision, error) {
		if first { // once: an environment's project never changes
			if err := c.mayUse(ctx, a, s.Environment, "rename environment"); err != nil {
				return Decision{}, err
			}
			first = false
		}
		return Decide(s, CommandRename{Name: name})
	})
	return subject(err, noEnvironment(id))
}

func (c *Catalog) mayUse(ctx context.Context, a access.Actor, e Environment, verb string) error {
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: e.Project, Want: access.WantRole})
	d := access.UseEnvironment(a, e.Project, f.Facts)
	return c.rows.host.Rule(ctx, a, f, d, verb, string(e.ID), noEnvironment(e.ID))
}

// environment is the environment that a new session would borrow. One that is
// not there is gone, as one of another project is: Decide says so of both.
func (c *Catalog) environment(ctx context.Context, id EnvironmentID) (Environment, error) {
	s, err := c.rows.store.Load(ctx, Address{Environment: id})
	if errors.Is(err, ErrNotFound) {
		return Environment{}, environmentGone(id)
	}
	return s.Environment, err
}

func noEnvironment(id EnvironmentID) error { return fmt.Errorf("%w: environment %s", ErrNotFound, id) }
