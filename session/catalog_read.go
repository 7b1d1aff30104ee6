package session

import (
	"context"
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
)

// Get returns a session with the newest of its conversations.
func (c *Catalog) Get(ctx context.Context, a access.Actor, id ID) (Summary, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("session", id)); err != nil {
		return Summary{}, host.First(err)
	}
	s, err := c.rows.store.Load(ctx, Address{Session: id})
	if err != nil {
		return Summary{}, subject(err, noSession(id))
	}
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: s.Session.Project, Owner: s.Session.Owner, Want: access.WantRole})
	d := access.SeeSession(a, s.Session.facts(), f.Facts)
	if err := c.rows.host.Rule(ctx, a, f, d, "see session", string(id), noSession(id)); err != nil {
		return Summary{}, err
	}
	page, err := c.rows.store.List(ctx, ListQuery{
		Project: s.Session.Project, Owner: s.Session.Owner, Session: id, Ended: true, Limit: 1,
	})
	if err != nil {
		return Summary{}, err
	}
	if len(page.Items) == 0 { // deleted since
		return Summary{}, noSession(id)
	}
	return redacted(a, page.Items[0], f.Facts), nil
}

// Conversation returns one conversation.
func (c *Catalog) Conversation(ctx context.Context, a access.Actor, id ConversationID) (Conversation, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("conversation", id)); err != nil {
		return Conversation{}, host.First(err)
	}
	s, err := c.rows.store.Load(ctx, Address{Conversation: id})
	if err != nil {
		return Conversation{}, subject(err, noConversation(id))
	}
	v := s.Conversation
	var f host.Answer
	if a.User != v.Owner {
		f = c.rows.host.Ask(ctx, access.Question{Actor: a, Project: v.Project, Owner: v.Owner, Want: access.WantRole})
	}
	d := access.SeeConversation(a, v.facts(), s.Session.Owner, f.Facts)
	if err := c.rows.host.Rule(ctx, a, f, d, "see conversation", string(id), noConversation(id)); err != nil {
		return Conversation{}, err
	}
	return v, nil
}

// Query asks for a page of sessions.
type Query struct {
	Project access.ProjectID // the sessions of this project; empty = the actor's personal ones
	Mine    bool             // with Project: only those the actor opened
	Ended   bool             // ended ones too
	Limit   int              // 1 to MaxListed; 0 = MaxListed
	After   string           // Page.Next of the page before; empty = the first page
}

// List returns a page of sessions, most recently active first. A page is
// always of one project, or of what is personal, so that one decision about the
// actor holds for all of it: exactly what [Catalog.Get] would show. A project
// that the actor is no member of has no sessions, as one that does not exist.
func (c *Catalog) List(ctx context.Context, a access.Actor, q Query) (Page, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckOptionalID("Project", q.Project)); err != nil {
		return Page{}, host.First(err)
	}
	if q.Limit == 0 {
		q.Limit = MaxListed
	}
	f := c.rows.host.Ask(ctx, access.Question{Actor: a, Project: q.Project, Owner: a.User, Want: access.WantRole})
	if err := f.Known(q.Project); err != nil {
		return Page{}, err
	}
	d := access.SeeSession(a, access.SessionFacts{Owner: a.User, Project: q.Project}, f.Facts)
	err := c.rows.host.Rule(ctx, a, f, d, "list sessions of project", string(q.Project), noProject(q.Project))
	if errors.Is(err, ErrNotFound) {
		return Page{}, nil
	}
	if err != nil {
		return Page{}, err
	}
	find := ListQuery{Project: q.Project, Ended: q.Ended, Limit: q.Limit, After: q.After}
	if q.Mine || q.Project == "" {
		find.Owner = a.User
	}
	page, err := c.rows.store.List(ctx, find)
	if err != nil {
		return Page{}, err
	}
	for i := range page.Items {
		page.Items[i] = redacted(a, page.Items[i], f.Facts)
	}
	return page, nil
}

// PrivateTitle stands in lists for the title of a conversation that the actor may not read.
const PrivateTitle = "(private conversation)"

// redacted hides what the actor may not read in a session that it may see.
func redacted(a access.Actor, s Summary, f access.Facts) Summary {
	for i, v := range s.Conversations {
		if !access.SeeConversation(a, v.facts(), s.Session.Owner, f).Allow {
			s.Conversations[i].Title = PrivateTitle
		}
	}
	return s
}
