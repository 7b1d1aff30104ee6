package transcript

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session"
)

// Conversations says what an actor may do with a conversation; a
// *session.Catalog does. Each method asks the host at most once, tells the audit of denials, and answers
// what is hidden as what is not there. What they refuse, a [Service] refuses with their errors.
type Conversations interface {
	// Conversation returns one that the actor may read.
	Conversation(ctx context.Context, a access.Actor, id access.ConversationID) (session.Conversation, error)
	// WriteConversation returns one that the actor may write in.
	WriteConversation(ctx context.Context, a access.Actor, id access.ConversationID) (session.Conversation, error)
	// SendInput says whether the actor may say something in one now, and who pays.
	SendInput(ctx context.Context, a access.Actor, id access.ConversationID) (session.Sending, error)
}

var _ Conversations = (*session.Catalog)(nil)

// ServiceConfig is what a [Service] needs.
type ServiceConfig struct {
	// Store and Inbox keep the transcripts; [Ringing] ones ring Hub. Required.
	Store Store
	Inbox Inbox
	// Conversations decides about access. Required.
	Conversations Conversations
	// Gate is asked whether the payer's account would let something start, before anything is
	// admitted; see [billing.Ask]. nil: everything is free.
	Gate billing.Gate
	// Meter and Class are what it is asked about. Empty: nothing in particular, but the account.
	Meter billing.Meter
	Class billing.Class
	// Hub rings for those who follow. nil: nobody rings, and they look every [PollEvery].
	Hub *Hub
	// MaxWaiting is how many inputs may wait in one conversation; at most [MaxListed]. 0: 100.
	MaxWaiting int
	// AskEvery is how often it is asked anew whether somebody who follows still may. 0: 30 seconds.
	AskEvery time.Duration
	// Now and NewID are for tests: the date of exports, and the ids of questions. nil: the real ones.
	Now   func() time.Time
	NewID func() string
}

// Service is what actors do with transcripts and inboxes. Whether an actor may is decided by
// [access.SeeConversation] for what reads, and by [access.SendInput] for everything else: only who has opened a
// conversation writes in it, as long as its project is theirs. It is asked for each call, before anything is
// read or written, so that a refusal writes nothing. What belongs to whoever runs turns, as
// promoting and claiming, is not offered: that is done with the [Store] and the [Inbox].
//
// Every method has, besides those named, the errors of [Conversations]: session.ErrNotFound, a
// *access.DeniedError, session.ErrUnavailable; a *access.FieldError for bad input. All methods may be called concurrently.
type Service struct {
	store         Store
	inbox         Inbox
	conversations Conversations
	gate          billing.Gate
	meter         billing.Meter
	class         billing.Class
	hub           *Hub
	maxWaiting    int
	askEvery      time.Duration
	now           func() time.Time
	newID         func() string
}

// NewService checks c. A *access.FieldError names the field.
func NewService(c ServiceConfig) (*Service, error) {
	field := func(name, rule string) (*Service, error) { return nil, &access.FieldError{Field: name, Rule: rule} }
	switch {
	case c.Store == nil:
		return field("Store", "must be set")
	case c.Inbox == nil:
		return field("Inbox", "must be set")
	case c.Conversations == nil:
		return field("Conversations", "must be set")
	case c.Meter == "" && c.Class != "":
		return field("Class", "must be empty where Meter is")
	case c.MaxWaiting < 0 || c.MaxWaiting > MaxListed:
		return field("MaxWaiting", fmt.Sprintf("must be 0 to %d", MaxListed))
	case c.AskEvery < 0:
		return field("AskEvery", "must not be negative")
	}
	if c.Gate == nil {
		c.Gate = billing.Free{}
	}
	if c.Hub == nil {
		c.Hub = NewHub()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = id.New
	}
	return &Service{
		store: c.Store, inbox: c.Inbox, conversations: c.Conversations, gate: c.Gate, meter: c.Meter, class: c.Class, hub: c.Hub,
		maxWaiting: cmp.Or(c.MaxWaiting, 100), askEvery: cmp.Or(c.AskEvery, 30*time.Second), now: c.Now, newID: c.NewID,
	}, nil
}
