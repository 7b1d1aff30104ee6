package transcripttest

import (
	"context"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// forgetful is a store that forgets, lists and tells otherwise.
type forgetful struct {
	transcript.Store
	forget func(transcript.Store, context.Context, access.ConversationID, time.Duration, int) (transcript.Forgotten, error)
	since  func(*transcript.FactPage)
	idle   func(*transcript.IdleQuery, *transcript.IdlePage)
}

func (f forgetful) Forget(ctx context.Context, c access.ConversationID, older time.Duration, limit int) (transcript.Forgotten, error) {
	if f.forget == nil {
		return f.Store.Forget(ctx, c, older, limit)
	}
	return f.forget(f.Store, ctx, c, older, limit)
}

func (f forgetful) Since(ctx context.Context, c access.ConversationID, after int64, limit int) (transcript.FactPage, error) {
	page, err := f.Store.Since(ctx, c, after, limit)
	if f.since != nil {
		f.since(&page)
	}
	return page, err
}

func (f forgetful) Idle(ctx context.Context, q transcript.IdleQuery) (page transcript.IdlePage, err error) {
	if f.idle != nil {
		f.idle(&q, nil)
	}
	page, err = f.Store.Idle(ctx, q)
	if f.idle != nil {
		f.idle(&q, &page)
	}
	return page, err
}

func brokenForgets() []brokenInbox {
	with := func(f forgetful) func(pair, *pair) {
		return func(sound pair, broken *pair) {
			f.Store = sound.Store
			broken.Store = f
		}
	}
	return []brokenInbox{
		{"forgets what is new", with(forgetful{forget: func(s transcript.Store, ctx context.Context, c access.ConversationID, older time.Duration, limit int) (transcript.Forgotten, error) {
			return s.Forget(ctx, c, older/1000, limit)
		}}), "forget forget-inputs"},
		{"forgets without end", with(forgetful{forget: func(s transcript.Store, ctx context.Context, c access.ConversationID, older time.Duration, limit int) (all transcript.Forgotten, err error) {
			if older < 0 || limit < 1 {
				return s.Forget(ctx, c, older, limit)
			}
			for all.More = true; all.More && err == nil; {
				var gone transcript.Forgotten
				gone, err = s.Forget(ctx, c, older, limit)
				all.Facts, all.Inputs, all.More = all.Facts+gone.Facts, all.Inputs+gone.Inputs, gone.More
			}
			return all, err
		}}), "forget"},
		{"keeps every input", with(forgetful{forget: func(s transcript.Store, ctx context.Context, c access.ConversationID, older time.Duration, limit int) (transcript.Forgotten, error) {
			gone, err := s.Forget(ctx, c, older, limit)
			gone.Inputs = 0
			return gone, err
		}}), "forget-inputs"},
		{"takes any window", with(forgetful{forget: func(s transcript.Store, ctx context.Context, c access.ConversationID, older time.Duration, limit int) (transcript.Forgotten, error) {
			return s.Forget(ctx, c, max(older, 0), max(limit, 1))
		}}), "forget-refused"},
		{"does not tell that it has forgotten", with(forgetful{since: func(p *transcript.FactPage) {
			p.Facts = slices.DeleteFunc(p.Facts, func(f transcript.Fact) bool { return f.Kind == transcript.FactForgotten })
		}}), "forget"},
		{"lists what is in use as idle", with(forgetful{idle: func(q *transcript.IdleQuery, _ *transcript.IdlePage) { q.For = min(q.For, 0) }}), "idle"},
		{"lists any status", with(forgetful{idle: func(q *transcript.IdleQuery, _ *transcript.IdlePage) {
			if q.Status != transcript.Deleted {
				q.Status = ""
			}
		}}), "idle"},
		{"ends with the first page that has nothing", with(forgetful{idle: func(_ *transcript.IdleQuery, p *transcript.IdlePage) {
			if p != nil && len(p.Transcripts) == 0 {
				p.Next = ""
			}
		}}), "idle"},
	}
}
