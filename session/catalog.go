package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Catalog reads and writes rows, and can do nothing else: it has no way to
// make, wake or reach a machine. Everything it does is quick and costs nothing.
//
// Its methods ask the host about the actor once and answer somebody else's id
// exactly as one that does not exist: ErrNotFound. Other denials are a
// [*access.DeniedError]; bad input is a [*access.FieldError].
type Catalog struct {
	rows     rows
	newID    func() string
	workdirs bool // sessions can have durable working directories
}

// In returns a Catalog that writes through tx, such as a store that rides in
// the host's own transaction. What it writes is the host's to commit or roll back.
func (c *Catalog) In(tx Store) *Catalog {
	in := *c
	in.rows.store = tx
	return &in
}

// Spawn is what [Catalog.Spawn] is asked for.
type Spawn struct {
	Name    string           // of the session; trimmed, at most access.MaxName characters, may be empty
	Project access.ProjectID // empty = personal
	Agent   access.AgentID   // of the first conversation: required with a project, not allowed without
	Title   string           // of the first conversation; as Name
	// Environment is an environment of the project that the session borrows its
	// sandbox from, for good; empty = it gets a sandbox of its own.
	Environment EnvironmentID
	// DurableWorkdir makes the working directory a durable folder of the
	// session's own, for good: its files outlast every machine it has, so that one
	// that is lost is replaced without being asked for. One process at a time works in it. It needs
	// Config.Mounts with a Locker, and work in it a provider that binds there
	// (sandbox.Caps.BindsWorkdir); who borrows an environment works in that one's directory, and can't have its own.
	// What the folder holds is not on the machine's disk, and not in what is charged for that (Keeper.ChargeStorage):
	// how much it may hold is a quota of its storage, as for every folder.
	DurableWorkdir bool
	// Conversation is the id for the first conversation: a canonical UUID of
	// the caller's, so that a call whose answer was lost can be repeated. Empty: a new id.
	Conversation ConversationID
}

// Spawn opens a session with its first conversation, in one commit. No
// machine is made: that is left to the first work that needs one.
//
// Repeated with the same Conversation by the same actor it returns what the
// first call made. *LimitError: the actor has as many open sessions as
// allowed. ErrConversationTaken: the id belongs to something else.
// ErrEnvironmentGone: the project has no such environment any more, or never had.
func (c *Catalog) Spawn(ctx context.Context, a access.Actor, q Spawn) (Session, Conversation, error) {
	none := func(err error) (Session, Conversation, error) { return Session{}, Conversation{}, err }
	v, minted, err := c.conversation(a, q.Conversation, q.Project, q.Agent, q.Title)
	if err != nil {
		return none(err)
	}
	if q.Project != "" && q.Agent == "" {
		return none(&access.FieldError{Field: "Agent", Rule: "must be set where Project is"})
	}
	if q.Project == "" && q.Environment != "" {
		return none(&access.FieldError{Field: "Environment", Rule: "must not be set where Project is not"})
	}
	if err := access.CheckOptionalID("Environment", q.Environment); err != nil {
		return none(err)
	}
	switch {
	case q.DurableWorkdir && q.Environment != "":
		return none(&access.FieldError{Field: "DurableWorkdir", Rule: "must not be set where Environment is"})
	case q.DurableWorkdir && !c.workdirs:
		return none(&access.FieldError{Field: "DurableWorkdir", Rule: "must not be set where Config.Mounts has no Locker"})
	}
	name, err := access.CheckName("Name", q.Name)
	if err != nil {
		return none(err)
	}
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: q.Project, Owner: a.User, Agent: q.Agent,
		Want: access.WantRole | access.WantAgent | access.WantBilling})
	if err := f.Known(q.Project); err != nil {
		return none(err)
	}
	d := access.SpawnSession(a, q.Project, q.Agent, f.Facts)
	if err := c.rows.host.Rule(ctx, a, f, d, "spawn session in project", string(q.Project), noProject(q.Project)); err != nil {
		return none(err)
	}
	limits, err := c.rows.ceilings(f)
	if err != nil {
		return none(err)
	}
	command := CommandSpawn{
		Session:      Session{ID: ID(c.newID()), Project: q.Project, Owner: a.User, Name: name, DurableWorkdir: q.DurableWorkdir},
		Sandbox:      sandbox.ID(c.newID()),
		Conversation: v,
		MaxSessions:  limits.Sessions,
		Environment:  Environment{ID: q.Environment},
	}
	out, err := c.rows.insert(ctx, Address{Conversation: v.ID}, minted, func(s Snapshot) (_ Decision, err error) {
		if q.Environment != "" && s.Conversation.ID == "" { // anew for each try: that it stands is part of the decision
			if command.Environment, err = c.environment(ctx, q.Environment); err != nil {
				return Decision{}, err
			}
		}
		return Decide(s, command)
	})
	return out.Session, out.Conversation, err
}

// NewConversation is what [Catalog.NewConversation] is asked for.
type NewConversation struct {
	Project      access.ProjectID // empty = personal
	Agent        access.AgentID   // empty = the assistant
	Title        string
	Conversation ConversationID // as in Spawn
}

// NewConversation opens a conversation that is bound to no session, for good:
// it has no sandbox to work in. It may be repeated as Spawn may.
func (c *Catalog) NewConversation(ctx context.Context, a access.Actor, q NewConversation) (Conversation, error) {
	v, minted, err := c.conversation(a, q.Conversation, q.Project, q.Agent, q.Title)
	if err != nil {
		return Conversation{}, err
	}
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: q.Project, Owner: a.User, Agent: q.Agent,
		Want: access.WantRole | access.WantAgent})
	if err := f.Known(q.Project); err != nil {
		return Conversation{}, err
	}
	d := access.SpawnSession(a, q.Project, q.Agent, f.Facts)
	if err := c.rows.host.Rule(ctx, a, f, d, "open conversation in project", string(q.Project), noProject(q.Project)); err != nil {
		return Conversation{}, err
	}
	out, err := c.rows.insert(ctx, Address{Conversation: v.ID}, minted,
		func(s Snapshot) (Decision, error) { return Decide(s, CommandNew{Conversation: v}) })
	return out.Conversation, err
}

// AddConversation is what [Catalog.AddConversation] is asked for.
type AddConversation struct {
	Session      ID
	Agent        access.AgentID // empty = the assistant; else an agent of the session's project
	Title        string
	Conversation ConversationID // as in Spawn
}

// AddConversation opens a conversation in a session. This is the one way to
// bind one, and binding is for good. It may be repeated as Spawn may.
//
// ErrEnded: reopen the session first. *LimitError: the session has as many
// conversations as allowed.
func (c *Catalog) AddConversation(ctx context.Context, a access.Actor, q AddConversation) (Conversation, error) {
	if err := access.CheckID("Session", q.Session); err != nil {
		return Conversation{}, err
	}
	v, _, err := c.conversation(a, q.Conversation, "", q.Agent, q.Title)
	if err != nil {
		return Conversation{}, err
	}
	var limits Limits
	first := true
	out, err := c.rows.change(ctx, Address{Session: q.Session, Conversation: v.ID}, func(s Snapshot) (_ Decision, err error) {
		if first { // once: a session's owner and project never change
			f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: s.Session.Project, Owner: s.Session.Owner, Agent: q.Agent,
				Want: access.WantRole | access.WantAgent | access.WantBilling})
			d := access.BindConversation(a, s.Session.facts(), q.Agent, f.Facts)
			if err := c.rows.host.Rule(ctx, a, f, d, "bind conversation to session", string(q.Session), noSession(q.Session)); err != nil {
				return Decision{}, err
			}
			if limits, err = c.rows.ceilings(f); err != nil {
				return Decision{}, err
			}
			first = false
		}
		return Decide(s, CommandAdd{Conversation: v, MaxConversations: limits.Conversations})
	})
	return out.Conversation, subject(err, noSession(q.Session))
}

// conversation checks what every way to open one takes.
func (c *Catalog) conversation(a access.Actor, given ConversationID, project access.ProjectID, agent access.AgentID, title string) (v Conversation, minted bool, err error) {
	if err := errors.Join(
		host.CheckActor(a),
		access.CheckOptionalID("Project", project),
		access.CheckOptionalID("Agent", agent),
	); err != nil {
		return v, false, host.First(err)
	}
	if title, err = access.CheckName("Title", title); err != nil {
		return v, false, err
	}
	if given == "" {
		given, minted = ConversationID(c.newID()), true
	} else if canonical, ok := id.Canonical(string(given)); !ok || canonical != string(given) {
		return v, false, &access.FieldError{Field: "Conversation", Rule: "must be a UUID in lower case with dashes"}
	}
	return Conversation{ID: given, Project: project, Owner: a.User, Agent: agent, Title: title}, minted, nil
}

// Rename gives a session another name.
func (c *Catalog) Rename(ctx context.Context, a access.Actor, id ID, name string) error {
	name, err := access.CheckName("name", name)
	if err != nil {
		return err
	}
	_, err = c.update(ctx, a, id, "rename session", access.WantRole, func(s Snapshot, _ Limits) (Decision, error) {
		return Decide(s, CommandRename{Name: name})
	})
	return err
}

// Reopen takes back that a session has ended. Its conversations are as they
// were; its machine, if that is being destroyed, still is, and the next work
// gets a new one. Reopening what has not ended changes nothing. *LimitError:
// the owner has as many open sessions as allowed.
func (c *Catalog) Reopen(ctx context.Context, a access.Actor, id ID) (Session, error) {
	return c.update(ctx, a, id, "reopen session", access.WantRole|access.WantBilling, func(s Snapshot, l Limits) (Decision, error) {
		return Decide(s, CommandReopen{MaxSessions: l.Sessions})
	})
}

// update changes a session that the actor may use.
func (c *Catalog) update(ctx context.Context, a access.Actor, id ID, verb string, want access.Want, decide func(Snapshot, Limits) (Decision, error)) (Session, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("session", id)); err != nil {
		return Session{}, host.First(err)
	}
	var limits Limits
	first := true
	out, err := c.rows.change(ctx, Address{Session: id}, func(s Snapshot) (_ Decision, err error) {
		if first {
			f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: s.Session.Project, Owner: s.Session.Owner, Want: want})
			d := access.UseSession(a, s.Session.facts(), f.Facts)
			if err := c.rows.host.Rule(ctx, a, f, d, verb, string(id), noSession(id)); err != nil {
				return Decision{}, err
			}
			if limits, err = c.rows.ceilings(f); err != nil {
				return Decision{}, err
			}
			first = false
		}
		return decide(s, limits)
	})
	return out.Session, subject(err, noSession(id))
}

// subject gives a store's bare not-found the text that a hidden denial has.
func subject(err, notFound error) error {
	if errors.Is(err, ErrNotFound) {
		return notFound
	}
	return err
}

func noProject(p access.ProjectID) error { return fmt.Errorf("%w: project %s", ErrNotFound, p) }
