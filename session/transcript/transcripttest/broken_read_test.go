package transcripttest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestBrokenReadsFail(t *testing.T) { judge(t, brokenReads()) }

// read is a sound store that shows entries otherwise, wherever.
func read(spoil func(*transcript.Entry)) func() transcript.Store {
	each := func(entries []transcript.Entry) {
		for i := range entries {
			spoil(&entries[i])
		}
	}
	return func() transcript.Store {
		s := sound()
		return wrapped{
			Store: s,
			get: func(ctx context.Context, c access.ConversationID, ids ...transcript.EntryID) ([]transcript.Entry, error) {
				got, err := s.Get(ctx, c, ids...)
				each(got)
				return got, err
			},
			path: func(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
				page, err := s.Path(ctx, q)
				each(page.Entries)
				return page, err
			},
			timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
				page, err := s.Timeline(ctx, q)
				each(page.Entries)
				return page, err
			},
		}
	}
}

// pathed is a sound store that is asked for another path.
func pathed(spoil func(*transcript.PathQuery)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, path: func(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
			spoil(&q)
			return s.Path(ctx, q)
		}}
	}
}

// paged is a sound store that shows other pages of a path.
func paged(spoil func(*transcript.PathPage)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, path: func(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
			page, err := s.Path(ctx, q)
			spoil(&page)
			return page, err
		}}
	}
}

// spanned is a sound store that has other spans.
func spanned(spoil func([]transcript.Span) []transcript.Span) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, spans: func(ctx context.Context, c access.ConversationID, at transcript.Position) ([]transcript.Span, error) {
			spans, err := s.Spans(ctx, c, at)
			return spoil(spans), err
		}}
	}
}

// givenTo is a sound store that gives models something else.
func givenTo(given func(transcript.Store, context.Context, access.ConversationID, transcript.Position, int) ([]transcript.Entry, error)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, given: func(ctx context.Context, c access.ConversationID, at transcript.Position, limit int) ([]transcript.Entry, error) {
			return given(s, ctx, c, at, limit)
		}}
	}
}

func brokenReads() []broken {
	return []broken{
		{"makes what is asked for", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, load: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
				if t, err := s.Load(ctx, c); err == nil || !errors.Is(err, transcript.ErrNotFound) {
					return t, err
				}
				return s.Create(ctx, c)
			}}
		}, "absent delete", "create append"},
		{"finds nothing where there is none", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, refs: func(ctx context.Context, c access.ConversationID) ([]transcript.Ref, error) {
				refs, err := s.Refs(ctx, c)
				if errors.Is(err, transcript.ErrNotFound) {
					return nil, nil
				}
				return refs, err
			}}
		}, "absent delete", "refs"},
		{"takes any limit", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, since: func(ctx context.Context, c access.ConversationID, after int64, limit int) (transcript.FactPage, error) {
				return s.Since(ctx, c, after, min(max(limit, 0), transcript.MaxListed))
			}}
		}, "fields-refused", "since"},
		{"loses who said it", read(func(e *transcript.Entry) { e.Actor = "" }), "fields headers", "append"},
		{"loses what it took", read(func(e *transcript.Entry) { e.Usage = transcript.Usage{} }), "fields", "append usage"},
		{"loses payloads", read(func(e *transcript.Entry) { e.Payload = nil }), "fields meaning", "append"},
		{"knows its kinds only", read(func(e *transcript.Entry) {
			if strings.Contains(string(e.Kind), " ") {
				e.Kind = transcript.KindMarker
			}
		}), "fields timeline", "append"},
		{"has local clocks", read(func(e *transcript.Entry) { e.CreatedAt = e.CreatedAt.In(time.FixedZone("CEST", 7200)) }), "fields", "append"},
		{"keeps white space", read(func(e *transcript.Entry) {
			if len(e.Payload) > 0 {
				e.Payload = append([]byte(" "), e.Payload...)
			}
		}), "meaning", "fields"},
		{"shows an entry as it once was", read(func(e *transcript.Entry) {
			for _, p := range e.Parts {
				if p.Call != nil && p.Call.Status == transcript.CallRunning {
					p.Call.Status = transcript.CallPending
				}
			}
		}), "unsettled fields", "settle-once"},
		{"cannot tell apart what only differs in case", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, get: func(ctx context.Context, c access.ConversationID, ids ...transcript.EntryID) ([]transcript.Entry, error) {
				lower := []transcript.EntryID{}
				for _, id := range ids {
					lower = append(lower, transcript.EntryID(strings.ToLower(string(id))))
				}
				return s.Get(ctx, c, lower...)
			}}
		}, "ids", "append"},
		{"loads many in its own order", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, loadMany: func(ctx context.Context, conversations ...access.ConversationID) ([]transcript.Transcript, error) {
				got, err := s.LoadMany(ctx, conversations...)
				slices.SortFunc(got, func(a, b transcript.Transcript) int {
					return strings.Compare(string(a.Conversation), string(b.Conversation))
				})
				return got, err
			}}
		}, "load-many", "append"},
		{"gets in its own order", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, get: func(ctx context.Context, c access.ConversationID, ids ...transcript.EntryID) ([]transcript.Entry, error) {
				return s.Get(ctx, c, slices.Sorted(slices.Values(ids))...)
			}}
		}, "absent-entry", "append"},
		{"shares its memory", func() transcript.Store {
			s := sound()
			pages := map[transcript.EntryID]transcript.Entry{}
			return wrapped{Store: s, timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
				page, err := s.Timeline(ctx, q)
				for i, e := range page.Entries {
					if old, there := pages[e.ID]; there {
						page.Entries[i] = old
					}
					pages[e.ID] = page.Entries[i]
				}
				return page, err
			}}
		}, "owned", "append"},
		{"shows another's entries", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
				page, err := s.Timeline(ctx, q)
				if more, lost := s.Timeline(ctx, transcript.TimelineQuery{Conversation: other}); lost == nil && q.Conversation == talk {
					page.Entries = append(page.Entries, more.Entries...)
				}
				return page, err
			}}
		}, "apart", "append"},
		{"begins paths at the root", paged(func(p *transcript.PathPage) { slices.Reverse(p.Entries) }), "path append", "create"},
		{"skips one between pages", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, path: func(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
				page, err := s.Path(ctx, q)
				if next, lost := s.Get(ctx, q.Conversation, page.Next.Entry); lost == nil && len(next) == 1 && !next[0].Parent.Root {
					page.Next = next[0].Parent
				}
				return page, err
			}}
		}, "path path-grows path-through twin-lists", "append"},
		{"reads all that there is", pathed(func(q *transcript.PathQuery) {
			if q.Limit == 0 {
				q.Limit = transcript.MaxListed
			}
		}), "path-default", "path"},
		{"ends at the root whatever it is told", pathed(func(q *transcript.PathQuery) { q.Through = "" }), "path-through", "path"},
		{"goes on where there is nothing", paged(func(p *transcript.PathPage) {
			if p.Next.IsZero() && len(p.Entries) == 60 {
				p.Next = transcript.BeforeRoot()
			}
		}), "path-default", "path"},
		{"has one span for all", spanned(func(spans []transcript.Span) []transcript.Span {
			for i := range spans {
				spans[i].Branch = 1
			}
			return spans
		}), "spans compare", "spans-few"},
		{"takes a copy's spans for others than those it was copied from", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, spans: func(ctx context.Context, c access.ConversationID, at transcript.Position) ([]transcript.Span, error) {
				spans, err := s.Spans(ctx, c, at)
				for i := range spans {
					spans[i].Tree = string(c)
				}
				return spans, err
			}}
		}, "compare-forks", "compare spans"},
		{"has a span for every entry", spanned(func(spans []transcript.Span) (out []transcript.Span) {
			for _, s := range spans {
				for d := s.From; d <= s.To; d++ {
					out = append(out, transcript.Span{Tree: s.Tree, Branch: s.Branch<<32 + d, From: d, To: d})
				}
			}
			return out
		}), "spans-few", "spans"},
		{"cuts a context that is too long", givenTo(func(s transcript.Store, ctx context.Context, c access.ConversationID, at transcript.Position, limit int) ([]transcript.Entry, error) {
			all, err := s.Context(ctx, c, at, enough)
			return all[:min(limit, len(all))], err
		}), "context-limit", "context"},
		{"gives models everything", givenTo(func(s transcript.Store, ctx context.Context, c access.ConversationID, at transcript.Position, _ int) ([]transcript.Entry, error) {
			page, err := s.Path(ctx, transcript.PathQuery{Conversation: c, From: at, Limit: transcript.MaxListed})
			slices.Reverse(page.Entries)
			return page.Entries, err
		}), "context context-limit", "state"},
		{"forgets what is pinned", givenTo(func(s transcript.Store, ctx context.Context, c access.ConversationID, at transcript.Position, limit int) ([]transcript.Entry, error) {
			all, err := s.Context(ctx, c, at, limit)
			last := int64(0)
			for i, e := range all {
				if last > 0 && e.Depth != last+1 {
					return all[i:], err
				}
				last = e.Depth
			}
			return all, err
		}), "context compaction-path", "state"},
		{"has one state for all branches", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, state: func(ctx context.Context, c access.ConversationID, _ transcript.Position) (transcript.State, error) {
				return s.State(ctx, c, transcript.Position{})
			}}
		}, "state", "usage"},
		{"begins the state at the newest compaction", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, state: func(ctx context.Context, c access.ConversationID, at transcript.Position) (transcript.State, error) {
				given, err := s.Context(ctx, c, at, enough)
				var deltas []transcript.StateDelta
				for _, e := range given {
					if e.State != nil {
						deltas = append(deltas, *e.State)
					}
				}
				return transcript.Fold(deltas...), err
			}}
		}, "state", "usage"},
		{"sums up all branches", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, usage: func(ctx context.Context, c access.ConversationID, _ transcript.Position) (transcript.Usage, error) {
				t, err := s.Load(ctx, c)
				return t.Usage, err
			}}
		}, "usage sums", "state"},
		{"reads what is large always", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
				q.Blobs = true
				return s.Timeline(ctx, q)
			}}
		}, "blobs", "timeline open-blob"},
		{"never reads what is large", pathed(func(q *transcript.PathQuery) { q.Blobs = false }), "blobs", "path open-blob"},
		{"opens what is large of anybody", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, openBlob: func(ctx context.Context, c access.ConversationID, hash string) (io.ReadCloser, error) {
				r, err := s.OpenBlob(ctx, c, hash)
				if err != nil {
					return s.OpenBlob(ctx, talk, hash)
				}
				return r, err
			}}
		}, "open-blob blob-forked", "blobs"},
	}
}
