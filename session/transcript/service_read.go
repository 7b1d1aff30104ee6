package transcript

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Reading is what an actor may read of one conversation, for as long as one request: access was decided
// as it was made, and is not asked for again. Its methods are those of [Store], of that conversation: what a
// query says of another is ignored. It may be used concurrently.
type Reading struct {
	store        Store
	conversation access.ConversationID
	now          func() time.Time
}

// Read lets the actor read a conversation.
func (s *Service) Read(ctx context.Context, a access.Actor, conversation access.ConversationID) (*Reading, error) {
	if _, err := s.conversations.Conversation(ctx, a, conversation); err != nil {
		return nil, err
	}
	return &Reading{s.store, conversation, s.now}, nil
}

// Conversation is what is read.
func (r *Reading) Conversation() access.ConversationID { return r.conversation }

// Load is [Store.Load].
func (r *Reading) Load(ctx context.Context) (Transcript, error) {
	return r.store.Load(ctx, r.conversation)
}

// Get is [Store.Get].
func (r *Reading) Get(ctx context.Context, ids ...EntryID) ([]Entry, error) {
	return r.store.Get(ctx, r.conversation, ids...)
}

// Path is [Store.Path].
func (r *Reading) Path(ctx context.Context, q PathQuery) (PathPage, error) {
	q.Conversation = r.conversation
	return r.store.Path(ctx, q)
}

// Spans is [Store.Spans].
func (r *Reading) Spans(ctx context.Context, to Position) ([]Span, error) {
	return r.store.Spans(ctx, r.conversation, to)
}

// Context is [Store.Context].
func (r *Reading) Context(ctx context.Context, at Position, limit int) ([]Entry, error) {
	return r.store.Context(ctx, r.conversation, at, limit)
}

// State is [Store.State].
func (r *Reading) State(ctx context.Context, at Position) (State, error) {
	return r.store.State(ctx, r.conversation, at)
}

// PathUsage is [Store.PathUsage].
func (r *Reading) PathUsage(ctx context.Context, at Position) (Usage, error) {
	return r.store.PathUsage(ctx, r.conversation, at)
}

// Timeline is [Store.Timeline].
func (r *Reading) Timeline(ctx context.Context, q TimelineQuery) (TimelinePage, error) {
	q.Conversation = r.conversation
	return r.store.Timeline(ctx, q)
}

// Headers is [Store.Headers].
func (r *Reading) Headers(ctx context.Context, q HeaderQuery) (HeaderPage, error) {
	q.Conversation = r.conversation
	return r.store.Headers(ctx, q)
}

// FindCall is [Store.FindCall].
func (r *Reading) FindCall(ctx context.Context, call CallID) ([]Entry, error) {
	return r.store.FindCall(ctx, r.conversation, call)
}

// Refs is [Store.Refs].
func (r *Reading) Refs(ctx context.Context) ([]Ref, error) {
	return r.store.Refs(ctx, r.conversation)
}

// Since is [Store.Since]. What goes on for longer than a request is [Service.Follow].
func (r *Reading) Since(ctx context.Context, after int64, limit int) (FactPage, error) {
	return r.store.Since(ctx, r.conversation, after, limit)
}

// Unsettled is [Store.Unsettled]: what is being made right now.
func (r *Reading) Unsettled(ctx context.Context) (Open, error) {
	return r.store.Unsettled(ctx, r.conversation)
}

// OpenBlob is [Store.OpenBlob].
func (r *Reading) OpenBlob(ctx context.Context, hash string) (io.ReadCloser, error) {
	return r.store.OpenBlob(ctx, r.conversation, hash)
}

// Export is [Export], dated now.
func (r *Reading) Export(ctx context.Context, w io.Writer) error {
	return Export(ctx, r.store, r.conversation, w, r.now())
}

// Follow yields what happens in a conversation, as [Follow] does, for as long as the actor may read it:
// that is asked as it begins, and every ServiceConfig.AskEvery from then on. The last pair has the error where it ends because the answer was
// no, or could not be found out: nothing is yielded after that. Whoever still may follows again, from the last Seq seen.
func (s *Service) Follow(ctx context.Context, a access.Actor, conversation access.ConversationID, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if _, err := s.conversations.Conversation(ctx, a, conversation); err != nil {
			yield(Event{}, err)
			return
		}
		ctx, end := context.WithCancelCause(ctx)
		asking := make(chan struct{})
		defer func() {
			end(nil)
			<-asking
		}()
		go func() {
			defer close(asking)
			defer func() {
				if p := recover(); p != nil { // the host's
					end(fmt.Errorf("transcript: %s: asking who may read it panicked: %v", conversation, p))
				}
			}()
			end(s.watch(ctx, a, conversation))
		}()
		for e, err := range Follow(ctx, s.store, s.hub, conversation, after) {
			if err == nil && ctx.Err() != nil { // what was read before
				e, err = Event{}, context.Cause(ctx)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// watch returns as soon as the actor may not read the conversation any more, or ctx has ended.
func (s *Service) watch(ctx context.Context, a access.Actor, conversation access.ConversationID) error {
	again := time.NewTicker(s.askEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
			if _, err := s.conversations.Conversation(ctx, a, conversation); err != nil {
				return err
			}
		}
	}
}
