package transcripttest

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func brokenExpiries() []brokenInbox {
	return []brokenInbox{
		{"finds only what waits", func(sound pair, broken *pair) {
			broken.input = func(ctx context.Context, c access.ConversationID, id transcript.EntryID) (transcript.Input, error) {
				waiting, err := sound.inputs(ctx, c, "", most)
				for _, in := range waiting {
					if in.Entry.ID == id {
						return in, nil
					}
				}
				if err == nil {
					err = fmt.Errorf("%w: input %s", transcript.ErrNotFound, id)
				}
				return transcript.Input{}, err
			}
		}, "input"},
		{"finds nothing where there is none", func(sound pair, broken *pair) {
			broken.input = func(ctx context.Context, c access.ConversationID, id transcript.EntryID) (transcript.Input, error) {
				in, _ := sound.input(ctx, c, id)
				return in, nil
			}
		}, "input"},
		{"puts all away at once", func(sound pair, broken *pair) {
			broken.expire = func(ctx context.Context, c access.ConversationID, _ int) (int, error) {
				return sound.expire(ctx, c, transcript.MaxListed)
			}
		}, "expire-due"},
		{"puts away what is claimed", func(sound pair, broken *pair) {
			broken.expire = func(ctx context.Context, c access.ConversationID, limit int) (int, error) {
				claimed, _ := sound.inputs(ctx, c, "", most, transcript.InputClaimed)
				for _, in := range claimed {
					_, _ = sound.change(ctx, c, in.Entry.ID, transcript.InputCommand{Release: in.Fence})
				}
				return sound.expire(ctx, c, limit)
			}
		}, "expire-due"},
		{"knows of nothing too late", func(_ pair, broken *pair) {
			broken.expired = func(context.Context, access.ConversationID, int) ([]access.ConversationID, error) { return nil, nil }
		}, "expired"},
		{"takes all that waits for too late", func(sound pair, broken *pair) { broken.expired = sound.waiting }, "expired"},
		{"archives whatever waits", committed(func(c *transcript.Change) {
			c.CancelWaiting = c.Status == transcript.Archived || c.Status == transcript.Deleted
		}), "archive-waiting delete-waiting"},
		{"takes nothing back as it archives", committed(func(c *transcript.Change) { c.CancelWaiting = false }), "archive-waiting delete-waiting"},
	}
}
