package transcript

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// Create makes the empty transcript of a conversation, as [Store.Create] does: one that was
// deleted begins anew. It is the first thing to do with a conversation, and may be repeated.
func (s *Service) Create(ctx context.Context, a access.Actor, conversation access.ConversationID) (Transcript, error) {
	if _, err := s.conversations.WriteConversation(ctx, a, conversation); err != nil {
		return Transcript{}, err
	}
	return s.store.Create(ctx, conversation)
}

// Fork makes a transcript that begins with a path of another, as [Store.Fork] does. The actor reads the source, and
// has opened the conversation that the fork is for, which has no transcript yet. These are two conversations,
// and the host may be asked about each of them.
func (s *Service) Fork(ctx context.Context, a access.Actor, f Fork) (Transcript, error) {
	if err := f.Check(); err != nil {
		return Transcript{}, err
	}
	if _, err := s.conversations.Conversation(ctx, a, f.From); err != nil {
		return Transcript{}, err
	}
	if _, err := s.conversations.WriteConversation(ctx, a, f.To); err != nil {
		return Transcript{}, err
	}
	return s.store.Fork(ctx, f)
}

// MoveHead moves the head: what is said next is a branch, and nothing is lost. version is that which
// the head has to have, else *VersionError; 0: any. ErrInTurn while somebody is at work. The errors are those
// of [Store.Commit], as for all that follow.
func (s *Service) MoveHead(ctx context.Context, a access.Actor, conversation access.ConversationID, to Position, version int64) (Transcript, error) {
	if to.IsZero() {
		return Transcript{}, &access.FieldError{Field: "to", Rule: "must be given"}
	}
	return s.commit(ctx, a, Change{Conversation: conversation, Head: to, Version: version})
}

// Label puts a label on an entry. Twice is as once.
func (s *Service) Label(ctx context.Context, a access.Actor, conversation access.ConversationID, entry EntryID, label string) (Transcript, error) {
	return s.commit(ctx, a, Change{Conversation: conversation, Labels: []LabelChange{{Entry: entry, Label: label}}})
}

// Unlabel takes a label off. Twice is as once.
func (s *Service) Unlabel(ctx context.Context, a access.Actor, conversation access.ConversationID, entry EntryID, label string) (Transcript, error) {
	return s.commit(ctx, a, Change{Conversation: conversation, Labels: []LabelChange{{Entry: entry, Label: label, Remove: true}}})
}

// SetRef makes a named pointer, or moves it. version as in [RefChange].
func (s *Service) SetRef(ctx context.Context, a access.Actor, conversation access.ConversationID, name string, to Position, version int64) (Transcript, error) {
	if to.IsZero() {
		return Transcript{}, &access.FieldError{Field: "to", Rule: "must be given"}
	}
	return s.commit(ctx, a, Change{Conversation: conversation, Refs: []RefChange{{Name: name, To: to, Version: version}}})
}

// DeleteRef removes a named pointer. version as in [RefChange].
func (s *Service) DeleteRef(ctx context.Context, a access.Actor, conversation access.ConversationID, name string, version int64) (Transcript, error) {
	return s.commit(ctx, a, Change{Conversation: conversation, Refs: []RefChange{{Name: name, Version: version}}})
}

// Hold keeps all inputs from being delivered, until Resume. A turn that is under way goes on.
func (s *Service) Hold(ctx context.Context, a access.Actor, conversation access.ConversationID) (Transcript, error) {
	return s.commit(ctx, a, Change{Conversation: conversation, Hold: true})
}

// Resume lets inputs be delivered again. Whether there is a turn to begin is for the host to look; see [Change.Resume].
func (s *Service) Resume(ctx context.Context, a access.Actor, conversation access.ConversationID) (Transcript, error) {
	return s.commit(ctx, a, Change{Conversation: conversation, Resume: true})
}

// ArchiveOptions are the options of [Service.Archive].
type ArchiveOptions struct {
	// CancelWaiting takes all inputs back that wait, in the same commit; see [Change.CancelWaiting].
	CancelWaiting bool
}

// Archive has a transcript take nothing until Restore. ErrWaiting: inputs wait, or too many to be taken back at once;
// [Service.Drain] takes them back, and returns them. ErrBusy while it is imported. opts may be nil.
func (s *Service) Archive(ctx context.Context, a access.Actor, conversation access.ConversationID, opts *ArchiveOptions) (Transcript, error) {
	if opts == nil {
		opts = &ArchiveOptions{}
	}
	return s.status(ctx, a, Change{Conversation: conversation, Status: Archived, CancelWaiting: opts.CancelWaiting})
}

// Restore takes Archive back. ErrBusy while it is imported.
func (s *Service) Restore(ctx context.Context, a access.Actor, conversation access.ConversationID) (Transcript, error) {
	return s.status(ctx, a, Change{Conversation: conversation, Status: Active})
}

// Delete deletes a transcript with everything in it, what waits too, for good, in whatever state it is. The
// conversation stays. ErrInTurn while somebody is at work. ErrNotFound where it was deleted before.
func (s *Service) Delete(ctx context.Context, a access.Actor, conversation access.ConversationID) error {
	_, err := s.commit(ctx, a, Change{Conversation: conversation, Status: Deleted, CancelWaiting: true})
	return err
}

func (s *Service) commit(ctx context.Context, a access.Actor, c Change) (Transcript, error) {
	if err := c.Check(); err != nil {
		return Transcript{}, err
	}
	if _, err := s.conversations.WriteConversation(ctx, a, c.Conversation); err != nil {
		return Transcript{}, err
	}
	out, err := s.store.Commit(ctx, c)
	return out.Transcript, err
}

// status archives or restores. Half of an import is nobody's to let loose.
func (s *Service) status(ctx context.Context, a access.Actor, c Change) (Transcript, error) {
	if _, err := s.conversations.WriteConversation(ctx, a, c.Conversation); err != nil {
		return Transcript{}, err
	}
	for n := 1; ; n++ {
		row, err := s.store.Load(ctx, c.Conversation)
		switch {
		case err != nil:
			return Transcript{}, err
		case row.Status == Importing:
			return Transcript{}, fmt.Errorf("%w: %s is being imported", ErrBusy, c.Conversation)
		}
		c.Version = row.Version
		out, err := s.store.Commit(ctx, c)
		if n == changeAttempts || !errors.As(err, new(*VersionError)) { // what was looked at is what is changed
			return out.Transcript, err
		}
	}
}
