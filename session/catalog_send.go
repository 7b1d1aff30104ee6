package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/host"
)

// Sending is that an actor may say something in a conversation, and who pays for what comes of it.
type Sending struct {
	Conversation Conversation
	// Payer is whose account the conversation's session is charged to. A
	// conversation without a session is charged as if it had one of its own: to its project's account, or its owner.
	Payer access.UserID
	Plan  access.Plan // the payer's
}

// WriteConversation returns a conversation that the actor may write in: its
// owner may, as long as the project is theirs, also where it is closed. Who only reads it gets a *access.DeniedError; who has opened it and is no member of its project any more,
// or of whom that can't be found out, ErrNotFound, as anybody else would.
func (c *Catalog) WriteConversation(ctx context.Context, a access.Actor, id ConversationID) (Conversation, error) {
	s, _, err := c.write(ctx, a, id, access.WantRole)
	return s.Conversation, err
}

// SendInput says whether the actor may say something in a conversation now, and who pays
// for what comes of it. It writes nothing: it is asked before something is admitted.
//
// The errors are those of [Catalog.WriteConversation], and besides: ErrConversationClosed;
// ErrUnavailable where the payer's plan could not be found out.
func (c *Catalog) SendInput(ctx context.Context, a access.Actor, id ConversationID) (Sending, error) {
	s, f, err := c.write(ctx, a, id, access.WantRole|access.WantBilling)
	switch v := s.Conversation; {
	case err != nil:
		return Sending{}, err
	case !v.ClosedAt.IsZero():
		return Sending{}, fmt.Errorf("%w: conversation %s", ErrConversationClosed, v.ID)
	case f.Fault != nil:
		return Sending{}, fmt.Errorf("%w: plan of the payer: %w", ErrUnavailable, f.Fault)
	}
	paid := s.Session
	if paid.ID == "" {
		paid.Owner, paid.Project = s.Conversation.Owner, s.Conversation.Project
	}
	d := billing.RuntimePayer(paid.paying(f))
	if d.Reason == billing.PayerFallback {
		c.rows.host.Log.WarnContext(ctx, "payer of project unresolved, the owner pays", "conversation", id, "session", s.Session.ID, "project", paid.Project)
	}
	return Sending{Conversation: s.Conversation, Payer: d.Payer, Plan: f.Plan}, nil
}

// write loads a conversation that the actor may write in, and what the host said.
func (c *Catalog) write(ctx context.Context, a access.Actor, id ConversationID, want access.Want) (Snapshot, host.Answer, error) {
	var f host.Answer
	none := func(err error) (Snapshot, host.Answer, error) { return Snapshot{}, host.Answer{}, err }
	if err := errors.Join(host.CheckActor(a), access.CheckID("conversation", id)); err != nil {
		return none(host.First(err))
	}
	s, err := c.rows.store.Load(ctx, Address{Conversation: id})
	if err != nil {
		return none(subject(err, noConversation(id)))
	}
	f = c.rows.host.Ask(ctx, writing(a, s, want))
	d := access.SendInput(a, s.Conversation.facts(), s.Session.Owner, f.Facts)
	if err := c.rows.host.Rule(ctx, a, f, d, "write in conversation", string(id), noConversation(id)); err != nil {
		return none(err)
	}
	return s, f, nil
}
