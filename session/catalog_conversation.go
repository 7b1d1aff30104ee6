package session

import (
	"context"
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
)

// CloseConversation has nothing said in a conversation any more, for good: [Catalog.SendInput] is
// ErrConversationClosed then. It is read as before, is in no list of a session, and does not count as one of it. What
// waits in it still is the host's to see to, as is a turn that is under way: whoever begins turns of what waits looks
// at ClosedAt first, or takes back what waits once it is closed. Closing what is closed changes nothing.
//
// Who may is who may write in it; the errors are those of [Catalog.WriteConversation].
func (c *Catalog) CloseConversation(ctx context.Context, a access.Actor, id ConversationID) (Conversation, error) {
	return c.amend(ctx, a, id, "close conversation", CommandAmend{Close: true})
}

// ShareConversation says whether the members of a conversation's project may read it; what is not shared is read by
// who has opened it, and by whose session it is of. It holds from the next question on, whether it is closed or not.
// One without a project can't be shared: *access.FieldError.
//
// Who may is who may write in it; the errors are those of [Catalog.WriteConversation].
func (c *Catalog) ShareConversation(ctx context.Context, a access.Actor, id ConversationID, shared bool) (Conversation, error) {
	return c.amend(ctx, a, id, "share conversation", CommandAmend{Shared: &shared})
}

// amend changes a conversation that the actor may write in.
func (c *Catalog) amend(ctx context.Context, a access.Actor, id ConversationID, verb string, command CommandAmend) (Conversation, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("conversation", id)); err != nil {
		return Conversation{}, host.First(err)
	}
	first := true
	out, err := c.rows.change(ctx, Address{Conversation: id}, func(s Snapshot) (Decision, error) {
		if first { // once: a conversation's owner and project never change
			f := c.rows.host.Ask(ctx, writing(a, s, access.WantRole))
			d := access.SendInput(a, s.Conversation.facts(), s.Session.Owner, f.Facts)
			if err := c.rows.host.Rule(ctx, a, f, d, verb, string(id), noConversation(id)); err != nil {
				return Decision{}, err
			}
			first = false
		}
		return Decide(s, command)
	})
	return out.Conversation, subject(err, noConversation(id))
}

// writing is what is asked about who writes in a conversation.
func writing(a access.Actor, s Snapshot, want access.Want) access.Question {
	owner := s.Session.Owner
	if s.Session.ID == "" {
		owner = s.Conversation.Owner
	}
	return access.Question{Actor: a, Project: s.Conversation.Project, Owner: owner, Want: want}
}
