package transcripttest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestBrokenListsFail(t *testing.T) { judge(t, brokenLists()) }

// timed is a sound store that is asked for another timeline.
func timed(spoil func(*transcript.TimelineQuery)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
			spoil(&q)
			return s.Timeline(ctx, q)
		}}
	}
}

// headed is a sound store that is asked for other headers, and shows them otherwise.
func headed(ask func(*transcript.HeaderQuery), spoil func([]transcript.Header) []transcript.Header) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, headers: func(ctx context.Context, q transcript.HeaderQuery) (transcript.HeaderPage, error) {
			if ask != nil {
				ask(&q)
			}
			page, err := s.Headers(ctx, q)
			if spoil != nil {
				page.Headers = spoil(page.Headers)
			}
			return page, err
		}}
	}
}

// told is a sound store that tells of facts otherwise.
func told(spoil func(*transcript.FactPage)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, since: func(ctx context.Context, c access.ConversationID, after int64, limit int) (transcript.FactPage, error) {
			page, err := s.Since(ctx, c, after, limit)
			spoil(&page)
			return page, err
		}}
	}
}

func brokenLists() []broken {
	return []broken{
		{"takes the last of a page along to the next", timed(func(q *transcript.TimelineQuery) {
			if q.Before > 0 {
				q.Before++
			}
		}), "timeline timeline-grows", "path"},
		{"lists all kinds", timed(func(q *transcript.TimelineQuery) { q.Kinds = nil }), "timeline", "timeline-grows"},
		{"lists all turns", timed(func(q *transcript.TimelineQuery) { q.Turn = "" }), "timeline", "timeline-grows"},
		{"counts pages of the timeline from the newest", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, timeline: func(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
				skip := int(q.Before)
				limit, err := transcript.Page(q.Limit)
				if err != nil {
					return transcript.TimelinePage{}, err
				}
				q.Before, q.Limit = 0, transcript.MaxListed
				page, err := s.Timeline(ctx, q)
				if page.Entries = page.Entries[min(skip, len(page.Entries)):]; len(page.Entries) > limit {
					page.Entries, page.Next = page.Entries[:limit], int64(skip+limit)
				}
				return page, err
			}}
		}, "timeline-grows", "path"},
		{"lists what is given up as any other", headed(nil, func(all []transcript.Header) []transcript.Header {
			for i := range all {
				all[i].Aborted = false
			}
			return all
		}), "abort headers", "headers-of"},
		{"lists only children for what is below", headed(func(q *transcript.HeaderQuery) {
			if !q.Under.IsZero() {
				q.Of, q.Under, q.Levels = q.Under, transcript.Position{}, 0
			}
		}, nil), "headers-under", "headers headers-of"},
		{"counts no levels", headed(func(q *transcript.HeaderQuery) { q.Levels = 0 }, nil), "headers-under", "headers headers-of"},
		{"takes what is below for all that came later", headed(func(q *transcript.HeaderQuery) {
			if q.Under.Entry != "" {
				q.Under = transcript.BeforeRoot()
			}
		}, nil), "headers-under headers-under-forks", "headers headers-of"},
		{"lists what is given up as a tip", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, headers: func(ctx context.Context, q transcript.HeaderQuery) (transcript.HeaderPage, error) {
				if !q.Tips || !q.Of.IsZero() {
					return s.Headers(ctx, q)
				}
				q.Tips = false
				page, err := s.Headers(ctx, q)
				page.Headers = slices.DeleteFunc(page.Headers, func(h transcript.Header) bool { return h.Children > 0 })
				return page, err
			}}
		}, "abort headers-of", "headers"},
		{"does not count what follows", headed(nil, func(all []transcript.Header) []transcript.Header {
			for i := range all {
				all[i].Children = 0
			}
			return all
		}), "headers", "headers-of labels"},
		{"previews nothing", headed(nil, func(all []transcript.Header) []transcript.Header {
			for i := range all {
				all[i].Preview = ""
			}
			return all
		}), "headers", "headers-of labels"},
		{"takes labels for the same in capitals", headed(func(q *transcript.HeaderQuery) { q.Label = strings.ToLower(q.Label) }, nil), "labels", "headers-of"},
		{"lists labels as they come", headed(nil, func(all []transcript.Header) []transcript.Header {
			for _, h := range all {
				slices.Reverse(h.Labels)
			}
			return all
		}), "labels", "headers"},
		{"looks for a label in the whole tree", headed(func(q *transcript.HeaderQuery) {
			if q.Label != "" {
				q.Of = transcript.Position{}
			}
		}, nil), "headers-of", "labels"},
		{"loses the oldest header", headed(func(q *transcript.HeaderQuery) { q.After = max(q.After, 1) }, nil), "headers headers-of", "since"},
		{"finds a call in the newest entry only", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, findCall: func(ctx context.Context, c access.ConversationID, call transcript.CallID) ([]transcript.Entry, error) {
				found, err := s.FindCall(ctx, c, call)
				return found[max(0, len(found)-1):], err
			}}
		}, "find-call", "settle"},
		{"tells of entries only", told(func(p *transcript.FactPage) {
			p.Facts = slices.DeleteFunc(p.Facts, func(f transcript.Fact) bool {
				return f.Kind != transcript.FactAppended && f.Kind != transcript.FactAborted
			})
		}), "since settle labels refs archive", "append"},
		{"goes on behind what it has not told", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, since: func(ctx context.Context, c access.ConversationID, after int64, limit int) (transcript.FactPage, error) {
				page, err := s.Since(ctx, c, after, limit)
				if t := row(s, c); err == nil && page.More {
					page.Next = t.LastSeq
				}
				return page, err
			}}
		}, "since since-races", "append"},
		{"never says that there is more", told(func(p *transcript.FactPage) { p.More = false }), "since path-default", "append"},
		{"tells calls by their names only", told(func(p *transcript.FactPage) {
			for i := range p.Facts {
				if p.Facts[i].Call != nil {
					p.Facts[i].Call.Arguments = nil
				}
			}
		}), "settle", "append"},
		{"numbers facts before they are there", early, "since-races", ""},
		{"takes running calls for settled", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, unsettled: func(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
				open, err := s.Unsettled(ctx, c)
				open.Calls = slices.DeleteFunc(open.Calls, func(c transcript.OpenCall) bool { return c.Call.Status == transcript.CallRunning })
				return open, err
			}}
		}, "unsettled taken-over", "draft"},
		{"has lost the draft", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, unsettled: func(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
				open, err := s.Unsettled(ctx, c)
				open.Draft = nil
				return open, err
			}}
		}, "draft taken-over draft-one", "unsettled"},
		{"lists what is unfinished by what was first", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, unfinished: func(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
				all, err := s.Unfinished(ctx, after, transcript.MaxListed)
				slices.Reverse(all)
				if limit < 1 || limit > transcript.MaxListed {
					return s.Unfinished(ctx, after, limit)
				}
				return all[:min(limit, len(all))], err
			}}
		}, "unfinished", "unsettled"},
		{"lists what is in use as unfinished", func() transcript.Store {
			s := sound()
			var made []access.ConversationID
			return wrapped{
				Store: s,
				create: func(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
					made = append(made, c)
					return s.Create(ctx, c)
				},
				unfinished: func(_ context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
					var page []access.ConversationID
					for _, c := range made {
						if c > after && len(page) < limit {
							page = append(page, c)
						}
					}
					return page, nil
				},
			}
		}, "unfinished delete fork-calls", "unsettled"},
	}
}

// early lists the newest fact before the one that came just before it, once in
// a while: as a store does that numbers what is not committed yet.
func early() transcript.Store {
	s := sound()
	var (
		mu   sync.Mutex
		held = map[int64]bool{}
	)
	return wrapped{Store: s, since: func(ctx context.Context, c access.ConversationID, after int64, limit int) (transcript.FactPage, error) {
		page, err := s.Since(ctx, c, after, limit)
		mu.Lock()
		defer mu.Unlock()
		if n := len(page.Facts); n > 1 && !held[page.Facts[n-2].Seq] {
			held[page.Facts[n-2].Seq] = true
			page.Facts = slices.Delete(page.Facts, n-2, n-1)
		}
		return page, err
	}}
}
