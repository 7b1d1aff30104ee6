package transcripttest

import (
	"context"
	"io"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func sound() transcript.Store { return memory.New(nil).Transcripts() }

// wrapped is a sound store of which some methods are replaced.
type wrapped struct {
	transcript.Store
	create     func(context.Context, access.ConversationID) (transcript.Transcript, error)
	load       func(context.Context, access.ConversationID) (transcript.Transcript, error)
	loadMany   func(context.Context, ...access.ConversationID) ([]transcript.Transcript, error)
	commit     func(context.Context, transcript.Change) (transcript.Committed, error)
	fork       func(context.Context, transcript.Fork) (transcript.Transcript, error)
	get        func(context.Context, access.ConversationID, ...transcript.EntryID) ([]transcript.Entry, error)
	path       func(context.Context, transcript.PathQuery) (transcript.PathPage, error)
	spans      func(context.Context, access.ConversationID, transcript.Position) ([]transcript.Span, error)
	given      func(context.Context, access.ConversationID, transcript.Position, int) ([]transcript.Entry, error)
	state      func(context.Context, access.ConversationID, transcript.Position) (transcript.State, error)
	usage      func(context.Context, access.ConversationID, transcript.Position) (transcript.Usage, error)
	timeline   func(context.Context, transcript.TimelineQuery) (transcript.TimelinePage, error)
	headers    func(context.Context, transcript.HeaderQuery) (transcript.HeaderPage, error)
	search     func(context.Context, transcript.SearchQuery) (transcript.SearchPage, error)
	index      func(context.Context, access.ConversationID, int) (int, error)
	findCall   func(context.Context, access.ConversationID, transcript.CallID) ([]transcript.Entry, error)
	refs       func(context.Context, access.ConversationID) ([]transcript.Ref, error)
	since      func(context.Context, access.ConversationID, int64, int) (transcript.FactPage, error)
	unsettled  func(context.Context, access.ConversationID) (transcript.Open, error)
	unfinished func(context.Context, access.ConversationID, int) ([]access.ConversationID, error)
	openBlob   func(context.Context, access.ConversationID, string) (io.ReadCloser, error)
	purge      func(context.Context, int) (int, error)
}

func (w wrapped) Create(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
	if w.create != nil {
		return w.create(ctx, c)
	}
	return w.Store.Create(ctx, c)
}

func (w wrapped) Load(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
	if w.load != nil {
		return w.load(ctx, c)
	}
	return w.Store.Load(ctx, c)
}

func (w wrapped) LoadMany(ctx context.Context, conversations ...access.ConversationID) ([]transcript.Transcript, error) {
	if w.loadMany != nil {
		return w.loadMany(ctx, conversations...)
	}
	return w.Store.LoadMany(ctx, conversations...)
}

func (w wrapped) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	if w.commit != nil {
		return w.commit(ctx, c)
	}
	return w.Store.Commit(ctx, c)
}

func (w wrapped) Fork(ctx context.Context, f transcript.Fork) (transcript.Transcript, error) {
	if w.fork != nil {
		return w.fork(ctx, f)
	}
	return w.Store.Fork(ctx, f)
}

func (w wrapped) Get(ctx context.Context, c access.ConversationID, ids ...transcript.EntryID) ([]transcript.Entry, error) {
	if w.get != nil {
		return w.get(ctx, c, ids...)
	}
	return w.Store.Get(ctx, c, ids...)
}

func (w wrapped) Path(ctx context.Context, q transcript.PathQuery) (transcript.PathPage, error) {
	if w.path != nil {
		return w.path(ctx, q)
	}
	return w.Store.Path(ctx, q)
}

func (w wrapped) Spans(ctx context.Context, c access.ConversationID, at transcript.Position) ([]transcript.Span, error) {
	if w.spans != nil {
		return w.spans(ctx, c, at)
	}
	return w.Store.Spans(ctx, c, at)
}

func (w wrapped) Context(ctx context.Context, c access.ConversationID, at transcript.Position, limit int) ([]transcript.Entry, error) {
	if w.given != nil {
		return w.given(ctx, c, at, limit)
	}
	return w.Store.Context(ctx, c, at, limit)
}

func (w wrapped) State(ctx context.Context, c access.ConversationID, at transcript.Position) (transcript.State, error) {
	if w.state != nil {
		return w.state(ctx, c, at)
	}
	return w.Store.State(ctx, c, at)
}

func (w wrapped) PathUsage(ctx context.Context, c access.ConversationID, at transcript.Position) (transcript.Usage, error) {
	if w.usage != nil {
		return w.usage(ctx, c, at)
	}
	return w.Store.PathUsage(ctx, c, at)
}

func (w wrapped) Timeline(ctx context.Context, q transcript.TimelineQuery) (transcript.TimelinePage, error) {
	if w.timeline != nil {
		return w.timeline(ctx, q)
	}
	return w.Store.Timeline(ctx, q)
}

func (w wrapped) Headers(ctx context.Context, q transcript.HeaderQuery) (transcript.HeaderPage, error) {
	if w.headers != nil {
		return w.headers(ctx, q)
	}
	return w.Store.Headers(ctx, q)
}

func (w wrapped) Search(ctx context.Context, q transcript.SearchQuery) (transcript.SearchPage, error) {
	if w.search != nil {
		return w.search(ctx, q)
	}
	return w.Store.Search(ctx, q)
}

func (w wrapped) Index(ctx context.Context, c access.ConversationID, limit int) (int, error) {
	if w.index != nil {
		return w.index(ctx, c, limit)
	}
	return w.Store.Index(ctx, c, limit)
}

func (w wrapped) FindCall(ctx context.Context, c access.ConversationID, call transcript.CallID) ([]transcript.Entry, error) {
	if w.findCall != nil {
		return w.findCall(ctx, c, call)
	}
	return w.Store.FindCall(ctx, c, call)
}

func (w wrapped) Refs(ctx context.Context, c access.ConversationID) ([]transcript.Ref, error) {
	if w.refs != nil {
		return w.refs(ctx, c)
	}
	return w.Store.Refs(ctx, c)
}

func (w wrapped) Since(ctx context.Context, c access.ConversationID, after int64, limit int) (transcript.FactPage, error) {
	if w.since != nil {
		return w.since(ctx, c, after, limit)
	}
	return w.Store.Since(ctx, c, after, limit)
}

func (w wrapped) Unsettled(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
	if w.unsettled != nil {
		return w.unsettled(ctx, c)
	}
	return w.Store.Unsettled(ctx, c)
}

func (w wrapped) Unfinished(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
	if w.unfinished != nil {
		return w.unfinished(ctx, after, limit)
	}
	return w.Store.Unfinished(ctx, after, limit)
}

func (w wrapped) OpenBlob(ctx context.Context, c access.ConversationID, hash string) (io.ReadCloser, error) {
	if w.openBlob != nil {
		return w.openBlob(ctx, c, hash)
	}
	return w.Store.OpenBlob(ctx, c, hash)
}

func (w wrapped) Purge(ctx context.Context, limit int) (int, error) {
	if w.purge != nil {
		return w.purge(ctx, limit)
	}
	return w.Store.Purge(ctx, limit)
}
