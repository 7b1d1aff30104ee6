package transcript

import (
	"context"

	"github.com/bunkroom/bunkroom/access"
)

// Ringing is a store whose writes ring a hub, each after its commit.
func Ringing(s Store, h *Hub) Store { return ringing{s, h} }

type ringing struct {
	Store
	hub *Hub
}

func (r ringing) Commit(ctx context.Context, c Change) (Committed, error) {
	done, err := r.Store.Commit(ctx, c)
	r.hub.Ring(c.Conversation) // after an error too: it may have happened
	return done, err
}

func (r ringing) Fork(ctx context.Context, f Fork) (Transcript, error) {
	t, err := r.Store.Fork(ctx, f)
	r.hub.Ring(f.To)
	return t, err
}

// RingingInbox is an inbox whose writes ring a hub, each after its commit.
func RingingInbox(i Inbox, h *Hub) Inbox { return ringingInbox{i, h} }

type ringingInbox struct {
	Inbox
	hub *Hub
}

func (r ringingInbox) Admit(ctx context.Context, conversation access.ConversationID, in NewInput, max int) (Admitted, error) {
	admitted, err := r.Inbox.Admit(ctx, conversation, in, max)
	r.hub.Ring(conversation)
	return admitted, err
}

func (r ringingInbox) ChangeInput(ctx context.Context, conversation access.ConversationID, id EntryID, cmd InputCommand) (Input, error) {
	in, err := r.Inbox.ChangeInput(ctx, conversation, id, cmd)
	r.hub.Ring(conversation)
	return in, err
}

func (r ringingInbox) Expire(ctx context.Context, conversation access.ConversationID, limit int) (int, error) {
	expired, err := r.Inbox.Expire(ctx, conversation, limit)
	if expired > 0 || err != nil {
		r.hub.Ring(conversation)
	}
	return expired, err
}
