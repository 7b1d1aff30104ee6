package mount

import (
	"context"
	"errors"
	"log/slog"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
)

// Catalog is what users do with mounts: it reads and writes rows for an actor,
// and touches no file. Its methods ask the host about the actor once and
// answer somebody else's mount, and a protected one, exactly as one that does
// not exist: ErrNotFound. Other denials are a [*access.DeniedError], bad input
// is a [*access.FieldError], and ErrUndecided says that the host could not
// answer.
//
// Who may see a mount's project sees it and its files, who may run code there
// has it made or carried, and who may edit it is as [access.EditMount] says. A
// viewer has no folder carried: work that runs for one goes on without.
//
// A project is part of every request that names no mount; an empty one means
// what is personal, the actor's own.
type Catalog struct {
	folders *Folders
	host    host.Host
}

// CatalogConfig is the configuration of a [Catalog].
type CatalogConfig struct {
	Store     Store                               // required
	Directory access.Directory                    // required
	Audit     func(context.Context, access.Event) // told of each denial of what exists; nil = nobody is
	NewID     func() string                       // mints ids, canonical UUIDs; nil = version 7
	Log       *slog.Logger                        // where the directory fails; nil = none
}

// NewCatalog returns a catalog over a store. The error is a [*access.FieldError].
func NewCatalog(c CatalogConfig) (*Catalog, error) {
	folders, err := NewFolders(FoldersConfig{Store: c.Store, NewID: c.NewID})
	if err != nil {
		return nil, err
	}
	if c.Directory == nil {
		return nil, &access.FieldError{Field: "Directory", Rule: "must be set"}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Catalog{folders, host.Host{Directory: c.Directory, Audit: c.Audit, Log: c.Log, Unavailable: ErrUndecided}}, nil
}

// In returns a Catalog that writes through tx, such as a store that rides in
// the host's own transaction. What it writes is the host's to commit or roll back.
func (c *Catalog) In(tx Store) *Catalog {
	return &Catalog{&Folders{tx, c.folders.newID}, c.host}
}

// Custom is what [Catalog.Create] is asked for.
type Custom struct {
	Project access.ProjectID // empty = personal
	// Session makes it one of this session's folders, and gone with it. Whether
	// the session is one of the project is for the caller to have looked at.
	Session access.SessionID
	// Slug is what the scope knows it by: letters, digits, underscores,
	// dashes and dots, not beginning as the reserved ones do. With Session it
	// is the name that [SessionSlug] takes.
	Slug        string
	Name        string // a label, at most access.MaxName characters; empty = Slug
	Description string // at most MaxDescription characters
	Meta        string // a JSON object of at most MaxMeta bytes, or empty
}

// row is n's row as far as n tells.
func (n Custom) row(a access.Actor) (row Row, err error) {
	if n.Slug == "" || n.Session == "" { // of a session's the name may be any
		err = checkSlug(n.Slug)
	}
	if err != nil {
		return Row{}, err
	}
	if n.Session != "" {
		row, err = Folder{Project: n.Project, Owner: a.User, Session: n.Session, Name: n.Slug}.row()
	} else {
		row = Row{Slug: n.Slug, Kind: KindCustom}
		row.Scope, err = ScopeOf(n.Project, a.User)
	}
	if err != nil {
		return Row{}, err
	}
	if row.Name, err = access.CheckName("name", n.Name); err != nil {
		return Row{}, err
	}
	if row.Name == "" {
		row.Name = n.Slug
	}
	if n.Session != "" && slugify(row.Name) == attachments {
		return Row{}, reserved("name")
	}
	if row.Description, err = checkDescription(n.Description); err != nil {
		return Row{}, err
	}
	row.Meta, err = checkMeta(n.Meta)
	return row, err
}

// Create makes a mount by hand, which asks [access.EditMount]. It is no
// get-or-create: ErrExists where the slug is taken, be it by an archived mount.
// A kind, an agent or a purpose nobody can choose.
func (c *Catalog) Create(ctx context.Context, a access.Actor, n Custom) (Row, error) {
	if err := c.asked(a, n.Project); err != nil {
		return Row{}, err
	}
	want, err := n.row(a)
	if err != nil {
		return Row{}, err
	}
	if want, err = c.folders.fresh(want, a.User); err != nil {
		return Row{}, err
	}
	if err := c.may(ctx, a, n.Project, "", editing()); err != nil {
		return Row{}, err
	}
	return c.folders.store.Create(ctx, want)
}

// SessionMount returns a folder of a session, made now if there was none and
// taken out of the archive if it was there; it asks [access.UseMount]. An empty
// name is [DefaultSessionName]. That the actor may use the session, and that
// it is one of the project, is for the caller to have decided.
func (c *Catalog) SessionMount(ctx context.Context, a access.Actor, project access.ProjectID, session access.SessionID, name string) (Row, error) {
	if err := errors.Join(c.asked(a, project), access.CheckID("session", session)); err != nil {
		return Row{}, host.First(err)
	}
	want, err := Folder{Project: project, Owner: a.User, Session: session, Name: name}.row()
	if err != nil {
		return Row{}, err
	}
	if err := c.may(ctx, a, project, "", using()); err != nil {
		return Row{}, err
	}
	return c.folders.getOrCreate(ctx, want, a.User)
}

// AttachmentsMount returns the protected mount of what users have attached in
// a session, made now if there was none. Only who serves attachments calls
// it, and keeps the row to itself. It asks [access.EditMount]; the rest is as in SessionMount.
func (c *Catalog) AttachmentsMount(ctx context.Context, a access.Actor, project access.ProjectID, session access.SessionID) (Row, error) {
	if err := errors.Join(c.asked(a, project), access.CheckID("session", session)); err != nil {
		return Row{}, host.First(err)
	}
	scope, err := ScopeOf(project, a.User)
	if err != nil {
		return Row{}, err
	}
	if err := c.may(ctx, a, project, "", editing()); err != nil {
		return Row{}, err
	}
	return c.folders.getOrCreate(ctx, Row{
		Scope: scope, Slug: sessionSlug(session, attachments), Kind: KindSession,
		Purpose: PurposeAttachments, Session: session, Name: attachments,
	}, a.User)
}

// AgentMount returns a folder of an agent, made now if there was none and
// taken out of the archive if it was there; it asks [access.UseMount]. An empty
// name is [DefaultName]. An agent that the host does not know as one of the
// project is ErrNotFound, and nothing is made for it.
func (c *Catalog) AgentMount(ctx context.Context, a access.Actor, project access.ProjectID, agent access.AgentID, name string) (Row, error) {
	want, err := c.agentRow(a, project, agent, name)
	if err != nil {
		return Row{}, err
	}
	if err := c.may(ctx, a, project, agent, using()); err != nil {
		return Row{}, err
	}
	return c.folders.getOrCreate(ctx, want, a.User)
}

// FindAgentMount returns a folder of an agent and never makes one. It asks
// [access.ViewMount]. ErrNotFound: there is none, or it is in the archive.
func (c *Catalog) FindAgentMount(ctx context.Context, a access.Actor, project access.ProjectID, agent access.AgentID, name string) (Row, error) {
	want, err := c.agentRow(a, project, agent, name)
	if err != nil {
		return Row{}, err
	}
	if err := c.may(ctx, a, project, "", viewing()); err != nil {
		return Row{}, err
	}
	row, err := c.folders.store.Find(ctx, want.Scope, want.Slug)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && (row.Archived() || !row.same(want)):
		return Row{}, noFolder(agent)
	case err != nil:
		return Row{}, err
	}
	return row, nil
}

// agentRow is the row that a folder of an agent would have. Agents work in
// projects, and only there have they folders that can be asked for.
func (c *Catalog) agentRow(a access.Actor, project access.ProjectID, agent access.AgentID, name string) (Row, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("project", project)); err != nil {
		return Row{}, host.First(err)
	}
	return Folder{Project: project, Agent: agent, Name: name}.row()
}

// asked checks who asks, and about what. Nobody has nothing personal: he is
// answered as about somebody else's.
func (c *Catalog) asked(a access.Actor, project access.ProjectID) error {
	if err := errors.Join(host.CheckActor(a), access.CheckOptionalID("project", project)); err != nil {
		return host.First(err)
	}
	if project == "" && a.User == "" {
		return noProject(project)
	}
	return nil
}

// right is one of the rights that mounts know.
type right struct {
	verb   string
	want   access.Want
	decide func(access.Actor, access.MountFacts, access.Facts) access.Decision
}

// The rights.
func viewing() right { return right{"see folders of project", access.WantRole, access.ViewMount} }
func editing() right {
	return right{"edit folders of project", access.WantRole | access.WantCode | access.WantAgent, access.EditMount}
}
func using() right {
	return right{"use folders of project", access.WantRole | access.WantCode | access.WantAgent, access.UseMount}
}

// may decides about the mounts of a project, or of what is personal, and
// whether an agent is one of it.
func (c *Catalog) may(ctx context.Context, a access.Actor, project access.ProjectID, agent access.AgentID, r right) error {
	f := c.host.Ask(ctx, access.Question{Actor: a, Project: project, Owner: a.User, Agent: agent, Want: r.want})
	if err := f.Known(project); err != nil {
		return err
	}
	d := r.decide(a, access.MountFacts{Owner: a.User, Project: project}, f.Facts)
	if err := c.host.Rule(ctx, a, f, d, r.verb, string(project), noProject(project)); err != nil {
		return err
	}
	if agent != "" && (f.Agent != access.Yes || f.AgentProject != project) {
		return noAgent(agent)
	}
	return nil
}
