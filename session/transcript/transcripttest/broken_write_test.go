package transcripttest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestBrokenWritesFail(t *testing.T) { judge(t, brokenWrites()) }

func TestBrokenTurnsFail(t *testing.T) { judge(t, brokenTurns()) }

// changed is a sound store that commits something else.
func changed(spoil func(transcript.Store, *transcript.Change)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			spoil(s, &c)
			return s.Commit(ctx, c)
		}}
	}
}

// answered is a sound store that answers a commit otherwise.
func answered(spoil func(transcript.Store, transcript.Change, *transcript.Committed, error) error) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			done, err := s.Commit(ctx, c)
			err = spoil(s, c, &done, err)
			return done, err
		}}
	}
}

// forgives answers errors of a type, as if all had been done.
func forgives[E error]() func() transcript.Store {
	return answered(func(s transcript.Store, c transcript.Change, done *transcript.Committed, err error) error {
		if !as[E](err) {
			return err
		}
		done.Retried = true
		done.Transcript, err = s.Load(context.Background(), c.Conversation)
		return err
	})
}

func row(s transcript.Store, c access.ConversationID) transcript.Transcript {
	t, err := s.Load(context.Background(), c)
	if err != nil {
		return transcript.Transcript{}
	}
	return t
}

func brokenWrites() []broken {
	return []broken{
		{"makes everything anew", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, create: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
				_, _ = s.Commit(ctx, transcript.Change{Conversation: c, Status: transcript.Deleted})
				return s.Create(ctx, c)
			}}
		}, "create-again", "create append"},
		{"gives what has no result that of the first call", changed(func(_ transcript.Store, c *transcript.Change) {
			c.Append = slices.Clone(c.Append)
			var first json.RawMessage
			for i := range c.Append {
				c.Append[i].Parts = slices.Clone(c.Append[i].Parts)
				for j, p := range c.Append[i].Parts {
					if p.Call == nil || !p.Call.Status.Settled() {
						continue
					}
					call := *p.Call
					if first == nil {
						first = call.Result
					}
					if call.Result == nil {
						call.Result = first
					}
					c.Append[i].Parts[j].Call = &call
				}
			}
		}), "settled-at-once", "create append settle"},
		{"makes each that is asked for at once", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, create: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
				t, err := s.Create(ctx, c)
				t.CreatedAt = t.CreatedAt.Add(time.Duration(time.Now().UnixNano()))
				return t, err
			}}
		}, "race-create create", "append"},
		{"has the head nowhere at first", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, create: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
				t, err := s.Create(ctx, c)
				t.Head = transcript.Position{}
				return t, err
			}}
		}, "create", "append"},
		{"finishes what nobody waits for", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				return s.Commit(context.WithoutCancel(ctx), c)
			}}
		}, "ended", "append"},
		{"numbers from one in each commit", answered(func(_ transcript.Store, _ transcript.Change, done *transcript.Committed, err error) error {
			for i := range done.Seqs {
				done.Seqs[i] = int64(i + 1)
			}
			return err
		}), "append", "branch"},
		{"leaves the head behind", changed(func(_ transcript.Store, c *transcript.Change) {
			if len(c.Append) > 0 {
				c.KeepHead = true
			}
		}), "append keep-head stored-head", "create branch"},
		{"moves the head always", changed(func(_ transcript.Store, c *transcript.Change) { c.KeepHead = false }), "keep-head stored-head", "append branch"},
		{"has no branches", changed(func(_ transcript.Store, c *transcript.Change) { c.After = transcript.Position{} }), "branch spans path", "append"},
		{"follows whatever", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				done, err := s.Commit(ctx, c)
				if c.After.IsZero() || !errors.Is(err, transcript.ErrNotFound) && !as[*transcript.PathError](err) {
					return done, err
				}
				c.After = transcript.Position{}
				return s.Commit(ctx, c)
			}}
		}, "parent apart", "append branch"},
		{"writes what it can", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				done, err := s.Commit(ctx, c)
				if err != nil {
					_, _ = s.Commit(ctx, transcript.Change{Conversation: c.Conversation, Fence: c.Fence, Begin: c.Begin, Append: c.Append, After: c.After})
				}
				return done, err
			}}
		}, "whole", "append"},
		{"writes a batch bit by bit", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if len(c.Append) < 2 || !c.After.IsZero() {
					return s.Commit(ctx, c)
				}
				var all transcript.Committed
				for _, e := range c.Append {
					one := c
					one.Append = []transcript.NewEntry{e}
					done, err := s.Commit(ctx, one)
					if err != nil {
						return done, err
					}
					all.Transcript, all.Seqs = done.Transcript, append(all.Seqs, done.Seqs...)
				}
				return all, nil
			}}
		}, "retry", "append"},
		{"takes a hundred entries at most", answered(func(_ transcript.Store, c transcript.Change, done *transcript.Committed, err error) error {
			done.Seqs = done.Seqs[:min(100, len(done.Seqs))]
			return err
		}), "batch", "append"},
		{"takes anything", forgives[*transcript.LimitError](), "allowed too-large refs-limit labels-limit", "append"},
		{"keeps what it likes", forgives[*transcript.PathError](), "compaction-path elsewhere draft-one", "append"},
		{"takes other content for the same", forgives[*transcript.EntryConflictError](), "conflict race-conflict", "append retry"},
		{"does not say what is a retry", answered(func(_ transcript.Store, _ transcript.Change, done *transcript.Committed, err error) error {
			done.Retried = false
			return err
		}), "retry meaning retry-forked race-retry", "append"},
		{"asks a retry what it asks of the first", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if t := row(s, c.Conversation); !c.Expect.IsZero() && c.Expect != t.Head {
					return transcript.Committed{}, &transcript.HeadError{Conversation: c.Conversation, Expected: c.Expect, Actual: t.Head}
				}
				return s.Commit(ctx, c)
			}}
		}, "retry", "append expect"},
		{"expects nothing", changed(func(_ transcript.Store, c *transcript.Change) { c.Expect = transcript.Position{} }), "expect before-root race-expect", "append"},
		{"takes before the root for nothing", changed(func(_ transcript.Store, c *transcript.Change) {
			if c.Expect.Root {
				c.Expect = transcript.Position{}
			}
		}), "before-root", "append expect"},
		{"tells everybody what came of all", tellsTheEnd, "race-told", "append expect"},
		{"looks, then writes", lookThenWrite, "race-expect race-rebase race-append", "append expect"},
		{"has no versions", changed(func(_ transcript.Store, c *transcript.Change) { c.Version = 0 }), "version", "append expect"},
		{"moves no head", changed(func(_ transcript.Store, c *transcript.Change) { c.Head = transcript.Position{} }), "move-head before-root move-nowhere", "append"},
		{"keeps labels as they are spelt first", changed(func(_ transcript.Store, c *transcript.Change) {
			for i := range c.Labels {
				c.Labels[i].Label = strings.TrimSpace(c.Labels[i].Label)
			}
		}), "ids", "labels"},
		{"takes no label off", changed(func(_ transcript.Store, c *transcript.Change) {
			for i := range c.Labels {
				c.Labels[i].Remove = false
			}
		}), "labels", "refs"},
		{"has refs without versions", changed(func(_ transcript.Store, c *transcript.Change) {
			refs := append([]transcript.RefChange{}, c.Refs...)
			for i := range refs {
				refs[i].Version = -1
			}
			c.Refs = refs
		}), "refs", "labels"},
		{"loses an archive", answered(func(_ transcript.Store, c transcript.Change, _ *transcript.Committed, err error) error {
			if errors.Is(err, transcript.ErrArchived) {
				return nil
			}
			return err
		}), "archive", "delete"},
		{"only hides what is deleted", changed(func(_ transcript.Store, c *transcript.Change) {
			if c.Status == transcript.Deleted {
				c.Status = transcript.Archived
			}
		}), "delete delete-and-make purge", "archive"},
		{"counts an entry twice", answered(func(_ transcript.Store, _ transcript.Change, done *transcript.Committed, err error) error {
			done.Transcript.Entries *= 2
			return err
		}), "append", "branch"},
	}
}

// lookThenWrite looks where the head is before it writes, and not as it
// writes: two that look before either has written follow the same entry.
func lookThenWrite() transcript.Store {
	s := sound()
	var (
		mu    sync.Mutex
		looks int
		two   = make(chan struct{})
	)
	return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
		if len(c.Append) == 0 || c.Append[0].ID[0] != 'w' { // none of the writers of a race
			return s.Commit(ctx, c)
		}
		t := row(s, c.Conversation)
		mu.Lock()
		if looks++; looks == 2 {
			close(two)
		}
		mu.Unlock()
		<-two
		if !c.Expect.IsZero() && c.Expect != t.Head {
			return transcript.Committed{}, &transcript.HeadError{Conversation: c.Conversation, Expected: c.Expect, Actual: t.Head}
		}
		c.Expect, c.After = transcript.Position{}, t.Head
		return s.Commit(ctx, c)
	}}
}

// tellsTheEnd answers the writers of a race when all have written, with what there is then.
func tellsTheEnd() transcript.Store {
	s := sound()
	var all sync.WaitGroup
	all.Add(64)
	return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
		done, err := s.Commit(ctx, c)
		if len(c.Append) == 0 || c.Append[0].ID[0] != 'w' || c.Conversation != talk {
			return done, err
		}
		all.Done()
		all.Wait()
		done.Transcript = row(s, c.Conversation)
		return done, err
	}}
}

func brokenTurns() []broken {
	return []broken{
		{"lets everybody act in a turn", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); c.Fence == 0 && t.InTurn && c.Status == "" {
				c.Fence = t.Fence
			}
		}), "no-turn", "turn fenced"},
		{"takes a late writer for the newest", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); c.Fence > 0 && c.Fence < t.Fence {
				c.Fence = t.Fence
			}
		}), "fenced taken-over race-turns", "turn no-turn"},
		{"begins an ended turn again for anything", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); c.Fence > 0 && c.Fence == t.Fence && !t.InTurn && !c.Begin {
				c.Fence, c.Begin = c.Fence+1, true
			}
		}), "turn-ended", "turn no-turn fenced"},
		{"begins a turn again that was ended", changed(func(s transcript.Store, c *transcript.Change) {
			if t := row(s, c.Conversation); c.Begin && c.Fence == t.Fence && !t.InTurn {
				c.Fence++
			}
		}), "turn-ended", "turn no-turn fenced"},
		{"archives what is open as it is", func() transcript.Store {
			s := sound()
			var left []transcript.OpenCall
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if open, err := s.Unsettled(ctx, c.Conversation); err == nil && c.Status == transcript.Archived {
					left = open.Calls
				}
				return s.Commit(ctx, c)
			}, unsettled: func(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
				open, err := s.Unsettled(ctx, c)
				open.Calls = append(open.Calls, left...)
				return open, err
			}}
		}, "archive-open", "archive"},
		{"archives without the draft", func() transcript.Store {
			s := sound()
			var kept *transcript.Draft
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if open, err := s.Unsettled(ctx, c.Conversation); err == nil && c.Status == transcript.Archived {
					kept = open.Draft
				}
				return s.Commit(ctx, c)
			}, unsettled: func(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
				open, err := s.Unsettled(ctx, c)
				open.Draft = kept
				return open, err
			}}
		}, "archive-open", "archive"},
		{"never ends a turn", changed(func(_ transcript.Store, c *transcript.Change) { c.End = false }), "turn turn-ended", "fenced"},
		{"starts no call", changed(func(_ transcript.Store, c *transcript.Change) { c.Start = nil }), "settle unsettled settle-nothing", "append"},
		{"starts calls and settles none of those", changed(func(_ transcript.Store, c *transcript.Change) {
			if len(c.Start) > 0 {
				c.Settle = nil
			}
		}), "start-and-settle", "settle"},
		{"takes the last settlement", forgives[*transcript.SettledError](), "settle-once race-settle fork-calls", "settle"},
		{"takes null for nothing", changed(func(_ transcript.Store, c *transcript.Change) {
			settle := append([]transcript.Settlement{}, c.Settle...)
			for i := range settle {
				if string(settle[i].Result) == "null" {
					settle[i].Result = nil
				}
			}
			c.Settle = settle
		}), "settle-null settle-once", "settle"},
		{"keeps a draft's first form", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if open, err := s.Unsettled(ctx, c.Conversation); err == nil && c.Draft != nil && open.Draft != nil && open.Draft.ID == c.Draft.ID {
					c.Draft = open.Draft
				}
				return s.Commit(ctx, c)
			}}
		}, "draft", "draft-after draft-one"},
		{"puts drafts at the root", changed(func(_ transcript.Store, c *transcript.Change) {
			if c.Draft != nil {
				d := *c.Draft
				d.After = transcript.BeforeRoot()
				c.Draft = &d
			}
		}), "draft-after abort", "draft-one abort-again"},
		{"appends what is given up", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				open, err := s.Unsettled(ctx, c.Conversation)
				if err == nil && len(c.Abort) == 1 && open.Draft != nil && open.Draft.ID == c.Abort[0] {
					c.Abort = nil
					c.Append = append([]transcript.NewEntry{open.Draft.NewEntry}, c.Append...)
				}
				return s.Commit(ctx, c)
			}}
		}, "abort abort-and-append draft-one", "draft"},
		{"forgets what was given up", answered(func(_ transcript.Store, c transcript.Change, _ *transcript.Committed, err error) error {
			if len(c.Abort) > 0 && errors.Is(err, transcript.ErrNotFound) {
				return nil
			}
			return err
		}), "abort-again", "abort"},
	}
}
