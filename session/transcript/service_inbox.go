package transcript

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// Admit has an input wait in a conversation, in the lane [LaneSteer] or
// [LaneFollowUp]: the others are the host's own, as are entries that are not a user's. The entry is the actor's, whether it
// says so or not, and has no Usage. NewInput.Billing is whatever the host puts there.
//
// Who pays is asked first whether something would start: a *billing.RefusedError writes nothing. It is a question
// and reserves nothing, so that what waits keeps nobody from working; what starts later is admitted or refused then. What is there already
// is not asked for again: a retry succeeds also where there is no credit left, and refusing it would say that
// nothing was admitted. Access is asked each time.
//
// session.ErrConversationClosed; else the errors are those of [Inbox.Admit].
func (s *Service) Admit(ctx context.Context, a access.Actor, conversation access.ConversationID, in NewInput) (Admitted, error) {
	if err := said(a, &in.Entry, "Entry"); err != nil {
		return Admitted{}, err
	}
	if in.Lane != LaneSteer && in.Lane != LaneFollowUp {
		return Admitted{}, &access.FieldError{Field: "Lane", Rule: "steer or follow_up"}
	}
	if err := in.Check(); err != nil {
		return Admitted{}, err
	}
	to, err := s.conversations.SendInput(ctx, a, conversation)
	if err != nil {
		return Admitted{}, err
	}
	_, err = s.inbox.Input(ctx, conversation, in.Entry.ID) // is it there already?
	if errors.Is(err, ErrNotFound) {
		err = s.affordable(ctx, to)
		if errors.As(err, new(*billing.RefusedError)) { // unless it is an entry by now, of which the input is forgotten
			entries, missing := s.store.Get(ctx, conversation, in.Entry.ID)
			if missing != nil || len(entries) > 0 {
				err = missing
			}
		}
	}
	if err != nil {
		return Admitted{}, err
	}
	return s.inbox.Admit(ctx, conversation, in, s.maxWaiting)
}

// askFor is how long what a gate reserves in order to answer lasts, where it can't be given back.
const askFor = time.Minute

func (s *Service) affordable(ctx context.Context, to session.Sending) error {
	v, asked := to.Conversation, s.newID()
	return billing.Ask(ctx, s.gate, billing.Intent{
		ID: billing.HoldID(asked), Work: asked, Payer: to.Payer, Plan: to.Plan, Session: v.Session, Project: v.Project,
		Meter: s.meter, Class: s.class, TTL: askFor,
	})
}

// said makes an entry the actor's own words, or refuses it.
func said(a access.Actor, e *NewEntry, field string) error {
	switch {
	case e.Actor != "" && e.Actor != a.User:
		return &access.FieldError{Field: field + ".Actor", Rule: "the actor, or empty"}
	case e.Kind != KindUser:
		return &access.FieldError{Field: field + ".Kind", Rule: "user"}
	case e.Usage != Usage{}:
		return &access.FieldError{Field: field + ".Usage", Rule: "zero"}
	}
	e.Actor = a.User
	return nil
}

// Inputs lists inputs as [Inbox.Inputs] does, the host's own among them. Only who may write in
// a conversation sees them: what waits may still be taken back, and was then said to nobody.
func (s *Service) Inputs(ctx context.Context, a access.Actor, conversation access.ConversationID, after EntryID, limit int, states ...InputState) ([]Input, error) {
	if err := CheckInputs(after, limit, states); err != nil {
		return nil, err
	}
	if _, err := s.conversations.WriteConversation(ctx, a, conversation); err != nil {
		return nil, err
	}
	return s.inbox.Inputs(ctx, conversation, after, limit, states...)
}

// Input reads an input by its id, whatever its state, as [Inbox.Input] does, for who may list them; see [Service.Inputs].
func (s *Service) Input(ctx context.Context, a access.Actor, conversation access.ConversationID, id EntryID) (Input, error) {
	if err := access.CheckID("input", id); err != nil {
		return Input{}, err
	}
	if _, err := s.conversations.WriteConversation(ctx, a, conversation); err != nil {
		return Input{}, err
	}
	return s.inbox.Input(ctx, conversation, id)
}

// Edit gives an input that waits other content, for which the same holds as for that of [Service.Admit].
// It changes the actor's own inputs only, as do Move and ChangeLane: a *access.FieldError names another. version is that which the input
// has to have, else *VersionError; 0: any. Otherwise the errors are those of [Inbox.ChangeInput].
func (s *Service) Edit(ctx context.Context, a access.Actor, conversation access.ConversationID, input EntryID, version int64, content NewEntry) (Input, error) {
	if err := said(a, &content, "Edit"); err != nil {
		return Input{}, err
	}
	return s.change(ctx, a, conversation, input, InputCommand{Version: version, Edit: &content})
}

// Move puts an input to another place in its lane; see [Service.Edit].
func (s *Service) Move(ctx context.Context, a access.Actor, conversation access.ConversationID, input EntryID, version int64, to Move) (Input, error) {
	return s.change(ctx, a, conversation, input, InputCommand{Version: version, Move: &to})
}

// ChangeLane puts an input into the other of the two lanes of [Service.Admit]; see [Service.Edit].
func (s *Service) ChangeLane(ctx context.Context, a access.Actor, conversation access.ConversationID, input EntryID, version int64, lane Lane) (Input, error) {
	if lane != LaneSteer && lane != LaneFollowUp {
		return Input{}, &access.FieldError{Field: "lane", Rule: "steer or follow_up"}
	}
	return s.change(ctx, a, conversation, input, InputCommand{Version: version, Lane: lane})
}

// Cancel takes an input back, whosever it is: the conversation is the actor's. Twice is as once. One that is claimed says
// CancelAsked from then on. version as for [Service.Edit].
func (s *Service) Cancel(ctx context.Context, a access.Actor, conversation access.ConversationID, input EntryID, version int64) (Input, error) {
	return s.change(ctx, a, conversation, input, InputCommand{Version: version, Cancel: true})
}

// Drain takes everything back that waits as it begins, the host's own too, so that nothing goes on by itself, and returns
// what it has taken back, as it is then, for the actor to say it again. What is
// claimed says CancelAsked. It may be repeated, and takes back what is left then; what was cut short has returned what it did,
// and all that was ever taken back is listed by [Service.Inputs] as cancelled.
func (s *Service) Drain(ctx context.Context, a access.Actor, conversation access.ConversationID) (back []Input, err error) {
	if _, err := s.conversations.WriteConversation(ctx, a, conversation); err != nil {
		return nil, err
	}
	row, err := s.store.Load(ctx, conversation)
	if err != nil {
		return nil, err
	}
	for in, err := range waitingIn(ctx, s.inbox, conversation) {
		switch {
		case err != nil:
			return back, err
		case in.Admitted > row.LastSeq:
			continue
		}
		now, taken, err := takeBack(ctx, s.inbox, conversation, in)
		if err != nil {
			return back, err
		}
		if taken {
			back = append(back, now)
		}
	}
	return back, nil
}

// changeAttempts is how often a change is begun anew where somebody else has changed the input.
const changeAttempts = 5

func (s *Service) change(ctx context.Context, a access.Actor, conversation access.ConversationID, id EntryID, cmd InputCommand) (Input, error) {
	if err := access.CheckID("input", id); err != nil {
		return Input{}, err
	}
	if err := cmd.Check(); err != nil {
		return Input{}, err
	}
	if _, err := s.conversations.WriteConversation(ctx, a, conversation); err != nil {
		return Input{}, err
	}
	if cmd.Cancel {
		return s.inbox.ChangeInput(ctx, conversation, id, cmd)
	}
	for n := 1; ; n++ {
		pinned := cmd
		is, err := s.inbox.Input(ctx, conversation, id)
		switch {
		case err != nil:
			return Input{}, err
		case is.waits() && !own(a, is):
			return Input{}, &access.FieldError{Field: "input", Rule: "one of the actor's own"}
		case is.waits() && cmd.Version == 0: // what was looked at is what is changed
			pinned.Version = is.Version
		}
		now, err := s.inbox.ChangeInput(ctx, conversation, id, pinned) // which says what has become of one that does not wait
		if cmd.Version == 0 && n < changeAttempts && errors.As(err, new(*VersionError)) {
			continue
		}
		return now, err
	}
}

// own reports whether an actor could have said it.
func own(a access.Actor, in Input) bool {
	return in.Entry.Actor == a.User && in.Entry.Kind == KindUser && (in.Lane == LaneSteer || in.Lane == LaneFollowUp)
}
