package transcripttest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestBrokenSearchesFail(t *testing.T) { judge(t, brokenSearches()) }

// searched is a sound store that is asked for something else, and answers something else.
func searched(ask func(*transcript.SearchQuery), spoil func(transcript.Store, *transcript.SearchPage)) func() transcript.Store {
	return func() transcript.Store {
		s := sound()
		return wrapped{Store: s, search: func(ctx context.Context, q transcript.SearchQuery) (transcript.SearchPage, error) {
			if ask != nil {
				ask(&q)
			}
			page, err := s.Search(ctx, q)
			if spoil != nil {
				spoil(s, &page)
			}
			return page, err
		}}
	}
}

func brokenSearches() []broken {
	// keep drops hits that don't suit.
	keep := func(suits func(transcript.Hit) bool) func() transcript.Store {
		return searched(nil, func(_ transcript.Store, p *transcript.SearchPage) {
			p.Hits = slices.DeleteFunc(p.Hits, func(h transcript.Hit) bool { return !suits(h) })
		})
	}
	return []broken{
		{"takes every word for a beginning", searched(func(q *transcript.SearchQuery) { q.Text = strings.TrimSpace(q.Text) }, nil), "search search-words", "search-pages search-path"},
		{"takes no word for a beginning", searched(func(q *transcript.SearchQuery) { q.Text += " " }, nil), "search", "search-pages search-path"},
		{"looks for the first word alone", searched(func(q *transcript.SearchQuery) { q.Text, _, _ = strings.Cut(q.Text, " ") }, nil), "search search-words", "search-path"},
		{"knows ASCII only", searched(func(q *transcript.SearchQuery) {
			q.Text = strings.Map(func(r rune) rune {
				if r > 127 {
					return ' '
				}
				return r
			}, q.Text) + " "
		}, nil), "search-words", "search-path"},
		{"finds kinds of all kinds", searched(func(q *transcript.SearchQuery) { q.Kinds = nil }, nil), "search", "search-words"},
		{"finds nothing that models thought", keep(func(h transcript.Hit) bool { return !strings.Contains(h.Snippet, "pondering") }), "search-text", "search"},
		{"finds nothing in what is large", keep(func(h transcript.Hit) bool { return !strings.Contains(h.Snippet, "filling") }), "search-text", "search"},
		{"shows how an entry begins", searched(nil, func(_ transcript.Store, p *transcript.SearchPage) {
			for i, h := range p.Hits {
				p.Hits[i].Snippet, p.Hits[i].Places = h.Preview, nil
			}
		}), "search-hits", "search"},
		{"has no labels", searched(nil, func(_ transcript.Store, p *transcript.SearchPage) {
			for i := range p.Hits {
				p.Hits[i].Labels = nil
			}
		}), "search-hits", "search"},
		{"finds the last of a page again", searched(func(q *transcript.SearchQuery) {
			if q.Before > 0 {
				q.Before++
			}
		}, nil), "search-pages", "search"},
		{"forgets the last of a page", searched(nil, func(_ transcript.Store, p *transcript.SearchPage) {
			if p.Next > 0 {
				p.Next--
			}
		}), "search-pages search-path", "search"},
		{"finds on every branch", searched(func(q *transcript.SearchQuery) { q.Path, q.At = false, transcript.Position{} }, nil), "search-path", "search"},
		{"finds on the path to the head alone", searched(func(q *transcript.SearchQuery) { q.At = transcript.Position{} }, nil), "search-path", "search"},
		{"finds what another has", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, search: func(ctx context.Context, q transcript.SearchQuery) (transcript.SearchPage, error) {
				page, err := s.Search(ctx, q)
				if q.Conversation = other; err == nil {
					more, _ := s.Search(ctx, q)
					page.Hits = append(page.Hits, more.Hits...)
				}
				return page, err
			}}
		}, "search-gone", "search"},
		{"finds what was given up", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, search: func(ctx context.Context, q transcript.SearchQuery) (transcript.SearchPage, error) {
				page, err := s.Search(ctx, q)
				all, lost := s.Headers(ctx, transcript.HeaderQuery{Conversation: q.Conversation})
				for _, h := range all.Headers {
					if lost == nil && h.Aborted {
						page.Hits = append(page.Hits, transcript.Hit{Header: h})
					}
				}
				return page, err
			}}
		}, "search-gone", "search"},
		{"keeps words again and again", func() transcript.Store {
			s := sound()
			return wrapped{Store: s, index: func(ctx context.Context, c access.ConversationID, limit int) (int, error) {
				n, err := s.Index(ctx, c, limit)
				if limit == 40 && n > 0 {
					_, err = s.Index(ctx, c, limit)
				}
				return n, err
			}}
		}, "search-index", "search"},
		{"does not find what came since the words were kept", func() transcript.Store {
			s := sound()
			through := map[access.ConversationID]int64{}
			return wrapped{Store: s,
				index: func(ctx context.Context, c access.ConversationID, limit int) (int, error) {
					n, err := s.Index(ctx, c, limit)
					through[c] = row(s, c).LastSeq
					return n, err
				},
				search: func(ctx context.Context, q transcript.SearchQuery) (transcript.SearchPage, error) {
					if q.Before == 0 && through[q.Conversation] > 0 {
						q.Before = through[q.Conversation] + 1
					}
					return s.Search(ctx, q)
				},
			}
		}, "search-index", "search"},
		{"finds in a fork only what is its own", searched(nil, func(s transcript.Store, p *transcript.SearchPage) {
			p.Hits = slices.DeleteFunc(p.Hits, func(h transcript.Hit) bool {
				return row(s, third).Conversation != "" && h.Seq <= row(s, third).Lineage.Seq
			})
		}), "search-forks", "search"},
	}
}
