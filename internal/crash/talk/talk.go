// Package talk has what the processes of internal/crash do to transcripts and
// inboxes when they are killed. A story is told twice: to its end by the
// tests, who look at everything after each write, and by a process that
// dies in the midst of it. What that has left must be what there was after one of its writes.
package talk

import (
	"context"
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// The conversations that stories are about.
const (
	Main   access.ConversationID = "main"
	Other  access.ConversationID = "other"
	Third  access.ConversationID = "third"
	Fourth access.ConversationID = "fourth"
)

// Conversations are all of them.
func Conversations() []access.ConversationID {
	return []access.ConversationID{Main, Other, Third, Fourth}
}

// Desk is where a story is told.
type Desk struct {
	Store transcript.Store
	Inbox transcript.Inbox
}

// Step is a part of a story: a write, or some that belong together. Done again
// after it was done it changes nothing.
type Step struct {
	Do func(context.Context, Desk) error
	// Again is what may be answered then; nil: only success.
	Again func(error) bool
}

// Story is what there is at first, and what happens.
type Story struct {
	Arrange func(context.Context, Desk) error
	Steps   []Step
}

// Watch is called for each write, with its name. It calls write, once.
type Watch func(ctx context.Context, call string, write func(context.Context) error) error

// Watched is a desk whose writes are watched.
func Watched(d Desk, w Watch) Desk { return Desk{watchedStore{d.Store, w}, watchedInbox{d.Inbox, w}} }

func watched[T any](ctx context.Context, w Watch, call string, write func(context.Context) (T, error)) (got T, err error) {
	err = w(ctx, call, func(ctx context.Context) error {
		var err error
		got, err = write(ctx)
		return err
	})
	return got, err
}

type watchedStore struct {
	transcript.Store
	watch Watch
}

func (s watchedStore) Create(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
	return watched(ctx, s.watch, "create", func(ctx context.Context) (transcript.Transcript, error) { return s.Store.Create(ctx, c) })
}

func (s watchedStore) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	return watched(ctx, s.watch, "commit", func(ctx context.Context) (transcript.Committed, error) { return s.Store.Commit(ctx, c) })
}

func (s watchedStore) Fork(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
	return watched(ctx, s.watch, "fork", func(ctx context.Context) (transcript.Transcript, error) { return s.Store.Fork(ctx, f) })
}

func (s watchedStore) Purge(ctx context.Context, limit int) (int, error) {
	return watched(ctx, s.watch, "purge", func(ctx context.Context) (int, error) { return s.Store.Purge(ctx, limit) })
}

type watchedInbox struct {
	transcript.Inbox
	watch Watch
}

func (i watchedInbox) Admit(ctx context.Context, c access.ConversationID, in transcript.NewInput, max int) (transcript.Admitted, error) {
	return watched(ctx, i.watch, "admit", func(ctx context.Context) (transcript.Admitted, error) { return i.Inbox.Admit(ctx, c, in, max) })
}

func (i watchedInbox) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
	return watched(ctx, i.watch, "change input", func(ctx context.Context) (transcript.Input, error) { return i.Inbox.ChangeInput(ctx, c, id, cmd) })
}

func (i watchedInbox) Expire(ctx context.Context, c access.ConversationID, limit int) (int, error) {
	return watched(ctx, i.watch, "expire", func(ctx context.Context) (int, error) { return i.Inbox.Expire(ctx, c, limit) })
}

// What a step may be answered that was done already.
func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func as[E error](err error) bool { return errors.As(err, new(E)) }
