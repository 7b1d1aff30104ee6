package transcript

import (
	"context"
	"iter"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Event is what a follower sees: one of its parts.
type Event struct {
	Fact     *Fact
	Synced   bool // everything up to now was seen; once
	Progress *Progress
}

// PollEvery is how long a follower waits at most before it looks by itself:
// for what another process has written, where nothing rings for that.
const PollEvery = 5 * time.Second

// Follow yields the facts of a conversation that are newer than a Seq, each
// once and in order; an event that says Synced when there were no more; and then whatever comes, until ctx ends
// or the caller breaks off. Between two rings of the hub it asks the store again after [PollEvery]; a
// slow caller misses rings, and some [Progress], never a fact. The last pair has
// the error; where ctx has ended, that is its cause.
func Follow(ctx context.Context, s Store, h *Hub, conversation access.ConversationID, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := h.Watch(conversation) // before the first look, so that nothing comes in between
		defer w.Close()
		poll := time.NewTicker(PollEvery)
		defer poll.Stop()
		synced := false
		for {
			page, err := s.Since(ctx, conversation, after, MaxListed)
			if err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(Event{}, err)
				return
			}
			for _, f := range page.Facts {
				if !yield(Event{Fact: &f}, nil) {
					return
				}
			}
			after = page.Next
			if page.More {
				continue
			}
			if !synced {
				synced = true
				if !yield(Event{Synced: true}, nil) {
					return
				}
			}
			for asleep := true; asleep; {
				select {
				case <-w.Bell:
					asleep = false
				case <-poll.C:
					asleep = false
				case p := <-w.Live:
					if !yield(Event{Progress: &p}, nil) {
						return
					}
				case <-ctx.Done():
					yield(Event{}, context.Cause(ctx))
					return
				}
			}
		}
	}
}
