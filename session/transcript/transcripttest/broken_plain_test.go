package transcripttest

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
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
		{"expects the head to be some two ids", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); c.Expect.Entry+c.After.Entry == t.Head.Entry {
				c.Expect, c.After = transcript.Position{}, transcript.Position{}
			}
		}), "plain-expect", "expect before-root"},
		{"opens no call of what goes on", func() transcript.Store {
			s := sound()
			gone := map[transcript.EntryID]bool{}
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				for _, e := range c.Append {
					gone[e.ID] = goesOn(s, c)
				}
				return s.Commit(ctx, c)
			}, unsettled: func(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
				open, err := s.Unsettled(ctx, c)
				open.Calls = slices.DeleteFunc(open.Calls, func(o transcript.OpenCall) bool { return gone[o.Entry] })
				return open, err
			}}
		}, "plain-open", "settle taken-over"},
		{"sums up a batch at once", func() transcript.Store {
			s := sound()
			last := map[transcript.EntryID]transcript.EntryID{}
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if plain := goesOn(s, c); plain {
					for _, e := range c.Append {
						last[e.ID] = c.Append[len(c.Append)-1].ID
					}
				}
				return s.Commit(ctx, c)
			}, usage: func(ctx context.Context, c access.ConversationID, at transcript.Position) (transcript.Usage, error) {
				at.Entry = cmp.Or(last[at.Entry], at.Entry)
				return s.PathUsage(ctx, c, at)
			}}
		}, "plain-sums", "sums append"},
		{"does not say that it holds", answered(func(s transcript.Store, c transcript.Change, done *transcript.Committed, err error) error {
			done.Transcript.Held = done.Transcript.Held && len(c.Append) == 0
			return err
		}), "plain-row", "append"},
		{"is of the moment it was made", func() transcript.Store {
			s := sound()
			dated := func(t transcript.Transcript) transcript.Transcript {
				t.UpdatedAt = t.CreatedAt
				return t
			}
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				done, err := s.Commit(ctx, c)
				done.Transcript = dated(done.Transcript)
				return done, err
			}, load: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
				t, err := s.Load(ctx, c)
				return dated(t), err
			}}
		}, "plain-dated", "append"},
		{"takes any batch", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				done, err := s.Commit(ctx, c)
				if len(c.Append) > 1 && as[*transcript.LimitError](err) {
					return transcript.Committed{Transcript: row(s, c.Conversation)}, nil
				}
				return done, err
			}}
		}, "plain-bytes", "too-large allowed"},
		{"takes no labels along to what it forks at the head", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, fork: func(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
				t, err := s.Fork(ctx, f)
				if err != nil || !f.ByReference || f.Refs || !f.At.IsZero() {
					return t, err
				}
				page, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: f.To, Limit: transcript.MaxListed})
				for _, h := range page.Headers {
					for _, l := range h.Labels {
						_, _ = s.Commit(ctx, transcript.Change{Conversation: f.To, Labels: []transcript.LabelChange{{Entry: h.ID, Label: l, Remove: true}}})
					}
				}
				return t, err
			}}
		}, "plain-fork", "twins twin-forks"},
		{"keeps what is large for all that were ever forked", func() transcript.Store {
			s := sound()
			var from access.ConversationID
			var results []string
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				for _, settled := range c.Settle {
					if _, blob, large := settled.Seal(); blob != nil {
						from, results = c.Conversation, append(results, blob.Hash, string(large))
					}
				}
				return s.Commit(ctx, c)
			}, openBlob: func(ctx context.Context, c access.ConversationID, hash string) (io.ReadCloser, error) {
				r, err := s.OpenBlob(ctx, c, hash)
				if at := slices.Index(results, hash); err != nil && at >= 0 && row(s, c).Lineage.Conversation != "" && c != from {
					return io.NopCloser(strings.NewReader(results[at+1])), nil
				}
				return r, err
			}}
		}, "blob-late", "blobs open-blob blob-forked"},
		{"takes who goes on for the turn", changed(func(s transcript.Store, c *transcript.Change) {
			if !goesOn(s, *c) {
				return
			}
			c.Append = slices.Clone(c.Append)
			for i := range c.Append {
				e := &c.Append[i]
				e.Turn, e.Actor = transcript.TurnID(e.Actor), access.UserID(e.Turn)
			}
		}), "plain-kept", "append fields"},
	}
}
