package transcripttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestBrokenForksFail(t *testing.T) { judge(t, brokenForks()) }

// forked is a sound store that makes other forks.
func forked(spoil func(transcript.Store, *transcript.Fork)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, fork: func(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
			spoil(s, &f)
			return s.Fork(ctx, f)
		}}
	}
}

func brokenForks() []broken {
	return []broken{
		{"copies what was said later", forked(func(s transcript.Store, f *transcript.Fork) {
			if t := row(s, f.From); !f.At.Root && !f.Before && t.Head.Entry != "zz" {
				f.At = transcript.Position{}
			}
		}), "fork twin-lists fork-again blob-forked race-fork", "fork-before"},
		{"begins every fork empty", forked(func(_ transcript.Store, f *transcript.Fork) { f.At, f.Before = transcript.BeforeRoot(), false }), "fork fork-head fork-before fork-draft retry-forked", "path"},
		{"keeps the entry that is asked anew", forked(func(_ transcript.Store, f *transcript.Fork) { f.Before = false }), "fork-before", "fork"},
		{"takes all refs along", forked(func(_ transcript.Store, f *transcript.Fork) { f.Refs = true }), "fork-names", "fork"},
		{"takes no refs along", forked(func(_ transcript.Store, f *transcript.Fork) { f.Refs = false }), "fork-names", "fork"},
		{"writes to the source", forked(func(s transcript.Store, f *transcript.Fork) {
			_, _ = s.Commit(context.Background(), transcript.Change{Conversation: f.From, Refs: []transcript.RefChange{{Name: "forked as " + string(f.To), To: transcript.BeforeRoot(), Version: -1}}})
		}), "fork", "fork-before"},
		{"makes a fork once", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, fork: func(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
				if row(s, f.To).Conversation != "" {
					return transcript.Transcript{}, fmt.Errorf("%w: %s", transcript.ErrExists, f.To)
				}
				return s.Fork(ctx, f)
			}}
		}, "fork-again fork-before race-fork", "fork"},
		{"takes any transcript for the fork", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, fork: func(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
				if t := row(s, f.To); t.Conversation != "" {
					return t, nil
				}
				return s.Fork(ctx, f)
			}}
		}, "fork-again", "fork fork-before"},
		{"never uses a name again", func() transcript.Store {
			s := sound()
			gone := map[access.ConversationID]bool{}
			return wrapped{
				Store: s,
				commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
					done, err := s.Commit(ctx, c)
					if err == nil && c.Status == transcript.Deleted {
						gone[c.Conversation] = true
					}
					return done, err
				},
				fork: func(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
					if gone[f.To] {
						return transcript.Transcript{}, fmt.Errorf("%w: %s", transcript.ErrExists, f.To)
					}
					return s.Fork(ctx, f)
				},
			}
		}, "fork-made-again", "fork fork-again"},
		{"reads the calls and labels of a source that goes on", live, "fork-calls fork-names twins", "fork"},
		{"loses a fork with its source", orphaned, "purge-forks blob-forked twin-forks", "fork fork-calls"},
		{"brings deleted entries back", func() transcript.Store {
			s := sound()
			old := map[access.ConversationID][]transcript.NewEntry{}
			return wrapped{
				Store: s,
				commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
					done, err := s.Commit(ctx, c)
					if err == nil {
						old[c.Conversation] = append(old[c.Conversation], c.Append...)
					}
					return done, err
				},
				create: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
					t, err := s.Create(ctx, c)
					if err == nil && t.LastSeq == 0 && len(old[c]) > 0 {
						_, err = s.Commit(ctx, transcript.Change{Conversation: c, Append: old[c]})
					}
					return t, err
				},
			}
		}, "delete-and-make", "delete fork"},
		{"removes all at once", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, purge: func(ctx context.Context, limit int) (total int, err error) {
				for {
					n, err := s.Purge(ctx, limit)
					if total += n; n == 0 || err != nil {
						return total, err
					}
				}
			}}
		}, "purge purge-forks", "fork"},
		{"removes what is archived", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, purge: func(ctx context.Context, limit int) (int, error) {
				for _, c := range []access.ConversationID{talk, other, third} {
					if row(s, c).Status == transcript.Archived {
						_, _ = s.Commit(ctx, transcript.Change{Conversation: c, Status: transcript.Deleted})
					}
				}
				return s.Purge(ctx, limit)
			}}
		}, "purge", "delete-and-make"},
		{"removes what has the name of a deleted one", sweeping, "delete-and-make fork-made-again race-delete", "delete purge-forks"},
	}
}

// live shows a fork by reference with the calls and labels that its source has now.
func live() transcript.Store {
	s := sound()
	return wrapped{
		Store: s,
		path: func(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
			page, err := s.Path(ctx, q)
			if l := row(s, q.Conversation).Lineage; l.ByReference {
				for i, e := range page.Entries {
					if now, lost := s.Get(ctx, l.Conversation, e.ID); lost == nil && len(now) == 1 {
						page.Entries[i] = now[0]
					}
				}
			}
			return page, err
		},
		headers: func(ctx context.Context, q transcript.HeaderQuery) (transcript.HeaderPage, error) {
			if l := row(s, q.Conversation).Lineage; l.ByReference && q.Label != "" && row(s, l.Conversation).Conversation != "" {
				q.Conversation = l.Conversation
			}
			return s.Headers(ctx, q)
		},
	}
}

// orphaned loses a fork by reference once its source is gone.
func orphaned() transcript.Store {
	s := sound()
	gone := func(c access.ConversationID) bool {
		l := row(s, c).Lineage
		return l.ByReference && row(s, l.Conversation).Conversation == ""
	}
	return wrapped{
		Store: s,
		path: func(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
			if gone(q.Conversation) {
				return transcript.PathPage{}, nil
			}
			return s.Path(ctx, q)
		},
		timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
			if gone(q.Conversation) {
				return transcript.TimelinePage{}, nil
			}
			return s.Timeline(ctx, q)
		},
		openBlob: func(ctx context.Context, c access.ConversationID, hash string) (r io.ReadCloser, err error) {
			if gone(c) {
				return nil, errors.New("gone")
			}
			return s.OpenBlob(ctx, c, hash)
		},
	}
}

// sweeping removes by name: what was made again goes with what was deleted.
func sweeping() transcript.Store {
	s := sound()
	var mu sync.Mutex
	gone := map[access.ConversationID]bool{}
	return wrapped{
		Store: s,
		commit: func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			done, err := s.Commit(ctx, c)
			if mu.Lock(); err == nil && c.Status == transcript.Deleted {
				gone[c.Conversation] = true
			}
			mu.Unlock()
			return done, err
		},
		purge: func(ctx context.Context, limit int) (int, error) {
			mu.Lock()
			swept := maps.Clone(gone)
			clear(gone)
			mu.Unlock()
			for c := range swept {
				if t := row(s, c); t.Status == transcript.Active {
					_, _ = s.Commit(ctx, transcript.Change{Conversation: c, Status: transcript.Deleted})
				}
			}
			return s.Purge(ctx, limit)
		},
	}
}
