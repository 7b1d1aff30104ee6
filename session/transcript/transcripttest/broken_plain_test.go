package transcripttest

import (
	"context"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestBrokenPlainAppendsFail(t *testing.T) { judge(t, brokenPlain()) }

// goesOn reports whether a change appends at a head that is an entry's, with no draft kept but one that it ends, and does nothing else.
func goesOn(s transcript.Store, c transcript.Change) bool {
	open, err := s.Unsettled(context.Background(), c.Conversation)
	return err == nil && len(c.Append) > 0 && c.After.IsZero() && !c.Begin && !c.End && !row(s, c.Conversation).Head.Root &&
		(open.Draft == nil || open.Draft.ID == c.Append[0].ID)
}

func brokenPlain() []broken {
	return []broken{
		{"asks nobody for the turn who goes on", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); goesOn(s, *c) && t.InTurn {
				c.Fence = t.Fence
			}
		}), "plain-turn", "turn no-turn fenced turn-ended"},
		{"takes a turn to come from who goes on", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); goesOn(s, *c) && t.InTurn && c.Fence > t.Fence {
				c.Fence = t.Fence
			}
		}), "plain-turn", "turn no-turn fenced turn-ended"},
		{"knows only its own rows where it goes on", answered(func(s transcript.Store, c transcript.Change, done *transcript.Committed, err error) error {
			if t := row(s, c.Conversation); as[*transcript.EntryConflictError](err) && t.Lineage.ByReference && t.Head != t.Lineage.At {
				done.Transcript, err = t, nil
			}
			return err
		}), "plain-known", "conflict retry retry-forked"},
		{"keeps the draft of what goes on", func() transcript.Store {
			s := sound()
			left := map[access.ConversationID]*transcript.Draft{}
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				open, err := s.Unsettled(ctx, c.Conversation)
				plain := err == nil && open.Draft != nil && goesOn(s, c)
				for _, e := range c.Append {
					if sealed, err := transcript.Seal(e); err != nil || len(sealed.Blobs) > 0 {
						plain = false
					}
				}
				if plain {
					left[c.Conversation] = open.Draft
				}
				return s.Commit(ctx, c)
			}, unsettled: func(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
				open, err := s.Unsettled(ctx, c)
				if open.Draft == nil {
					open.Draft = left[c]
				}
				return open, err
			}}
		}, "plain-draft", "draft draft-after draft-one abort"},
	}
}
