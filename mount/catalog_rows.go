package mount

import (
	"context"
	"errors"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
)

// Get returns a mount, be it in the archive.
func (c *Catalog) Get(ctx context.Context, a access.Actor, id ID) (Row, error) {
	return c.have(ctx, a, id, "see folder", viewing())
}

// Edit is what [Catalog.Edit] changes. What is nil stays as it is.
type Edit struct {
	// Version is that of the row the user has looked at: where it has another
	// by now the edit is refused with a [*VersionError]. 0 = whichever it has.
	Version     int64
	Name        *string // trimmed, at most access.MaxName characters
	Description *string // trimmed, at most MaxDescription characters
	Meta        *string // a JSON object of at most MaxMeta bytes, or empty
}

// Edit changes what is the user's own in a mount and returns it. Its slug,
// and where its files are, stay as they are. It asks [access.EditMount].
func (c *Catalog) Edit(ctx context.Context, a access.Actor, id ID, e Edit) (Row, error) {
	change := Change{Version: e.Version}
	for _, field := range []struct {
		from  *string
		to    **string
		check func(string) (string, error)
	}{
		{e.Name, &change.Name, func(s string) (string, error) { return access.CheckName("name", s) }},
		{e.Description, &change.Description, checkDescription},
		{e.Meta, &change.Meta, checkMeta},
	} {
		if field.from == nil {
			continue
		}
		kept, err := field.check(*field.from)
		if err != nil {
			return Row{}, err
		}
		*field.to = &kept
	}
	if e.Version < 0 {
		return Row{}, &access.FieldError{Field: "version", Rule: "must not be negative"}
	}
	return c.change(ctx, a, id, "edit folder", change)
}

// Archive puts a mount away: lists don't show it, and its files stay. What is
// in the archive already stays as it is. It asks [access.EditMount].
func (c *Catalog) Archive(ctx context.Context, a access.Actor, id ID) (Row, error) {
	return c.change(ctx, a, id, "archive folder", Change{Archived: new(true)})
}

// Unarchive takes a mount out of the archive, as to use it would. It asks [access.EditMount].
func (c *Catalog) Unarchive(ctx context.Context, a access.Actor, id ID) (Row, error) {
	return c.change(ctx, a, id, "unarchive folder", Change{Archived: new(false)})
}

// ArchiveSession puts away the mounts of a session or, with away false, takes
// them out of the archive, and returns how many it has changed. Protected ones
// stay as they are. It may be repeated where it fails on the way. It asks
// [access.EditMount]; what it leaves to the caller is as in SessionMount.
func (c *Catalog) ArchiveSession(ctx context.Context, a access.Actor, project access.ProjectID, session access.SessionID, away bool) (n int, err error) {
	if err := errors.Join(c.asked(a, project), access.CheckID("session", session)); err != nil {
		return 0, host.First(err)
	}
	if err := c.may(ctx, a, project, "", editing()); err != nil {
		return 0, err
	}
	scope, err := ScopeOf(project, a.User)
	if err != nil {
		return 0, err
	}
	q := ListQuery{Scope: scope, Session: session, Archived: true, Limit: MaxListed}
	for {
		page, err := c.folders.store.List(ctx, q)
		if err != nil {
			return n, err
		}
		for _, row := range page.Items {
			if row.Protected() || row.Archived() == away {
				continue
			}
			switch _, err := c.folders.store.Update(ctx, row.ID, Change{By: a.User, Archived: &away}); {
			case err == nil:
				n++
			case !errors.Is(err, ErrNotFound): // deleted since
				return n, err
			}
		}
		if q.After = page.Next; q.After == "" {
			return n, nil
		}
	}
}

// Query asks for a page of mounts.
type Query struct {
	Project  access.ProjectID // the mounts of this project; empty = the actor's personal ones
	Session  access.SessionID // only those of this session
	Agent    access.AgentID   // only those of this agent
	Archived bool             // archived ones too
	Limit    int              // 1 to MaxListed; 0 = MaxListed
	After    string           // Page.Next of the page before; empty = the first page
}

// List returns a page of mounts, oldest first, without protected ones: exactly
// what [Catalog.Get] would show. It asks [access.ViewMount]. A project that
// the actor is no member of has none, as one that does not exist.
func (c *Catalog) List(ctx context.Context, a access.Actor, q Query) (Page, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckOptionalID("project", q.Project), access.CheckOptionalID("session", q.Session)); err != nil {
		return Page{}, host.First(err)
	}
	find := ListQuery{Session: q.Session, Archived: q.Archived, Limit: q.Limit, After: q.After}
	if find.Limit == 0 {
		find.Limit = MaxListed
	}
	if q.Agent != "" {
		var err error
		if find.Agent, err = CanonicalAgent(q.Agent); err != nil {
			return Page{}, err
		}
	}
	err := c.asked(a, q.Project)
	if err == nil {
		err = c.may(ctx, a, q.Project, "", viewing())
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return Page{}, nil
	case err != nil:
		return Page{}, err
	}
	if find.Scope, err = ScopeOf(q.Project, a.User); err != nil {
		return Page{}, err
	}
	page, err := c.folders.store.List(ctx, find)
	if err != nil {
		return Page{}, err
	}
	page.Items = slices.DeleteFunc(page.Items, Row.Protected) // the store has done so before it counted
	return page, nil
}

// change changes a mount that the actor may edit.
func (c *Catalog) change(ctx context.Context, a access.Actor, id ID, verb string, change Change) (Row, error) {
	if _, err := c.have(ctx, a, id, verb, editing()); err != nil {
		return Row{}, err
	}
	change.By = a.User
	row, err := c.folders.store.Update(ctx, id, change)
	if errors.Is(err, ErrNotFound) { // deleted since
		err = noMount(id)
	}
	return row, err
}

// have returns a mount that the actor has that right to.
func (c *Catalog) have(ctx context.Context, a access.Actor, id ID, verb string, r right) (Row, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("mount", id)); err != nil {
		return Row{}, host.First(err)
	}
	row, err := c.folders.store.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Row{}, noMount(id)
	case err != nil:
		return Row{}, err
	}
	m := row.facts()
	f := c.host.Ask(ctx, access.Question{Actor: a, Project: m.Project, Owner: m.Owner, Want: r.want})
	if err := c.host.Rule(ctx, a, f, r.decide(a, m, f.Facts), verb, string(id), noMount(id)); err != nil {
		return Row{}, err
	}
	return row, nil
}
