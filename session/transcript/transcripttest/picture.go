package transcripttest

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// picture is what every query answers about a transcript.
type picture struct {
	Row      transcript.Transcript
	Timeline []transcript.Entry // with what is large
	Lean     []transcript.Entry // without
	Path     []transcript.Entry // to the head, with what is large
	Given    []transcript.Entry // to a model, at the head
	Headers  []transcript.Header
	Labelled map[string][]transcript.EntryID
	Tips     []transcript.EntryID
	Roots    []transcript.EntryID
	Refs     []transcript.Ref
	Facts    []transcript.Fact
	Open     transcript.Open
	At       map[transcript.EntryID]view // at the newest committed entries, and at some older ones
	Calls    map[transcript.CallID][]transcript.EntryID
	Found    []transcript.EntryID // by words that many have
	OnPath   []transcript.EntryID // those of them on the path to the head
	Faults   []string             // of Verify
}

// view is what is to be seen at a position.
type view struct {
	Path     []transcript.EntryID
	Context  []transcript.EntryID
	State    transcript.State
	Usage    transcript.Usage
	Depth    int64 // by its spans
	Children []transcript.EntryID
	Below    []transcript.EntryID // at any distance
}

const enough = 10_000 // entries of a context

// picture looks at all there is to be seen of a transcript.
func (b *bench) picture(c access.ConversationID) picture {
	b.Helper()
	p := picture{
		Row: b.load(c), At: map[transcript.EntryID]view{}, Calls: map[transcript.CallID][]transcript.EntryID{}, Labelled: map[string][]transcript.EntryID{},
	}
	p.Path = b.pathWith(transcript.PathQuery{Conversation: c, Blobs: true, Limit: transcript.MaxListed})
	p.Timeline = b.timeline(transcript.TimelineQuery{Conversation: c, Blobs: true, Limit: transcript.MaxListed})
	p.Lean = b.timeline(transcript.TimelineQuery{Conversation: c})
	p.Headers = b.headers(transcript.HeaderQuery{Conversation: c, Limit: transcript.MaxListed})
	p.Tips = headerIDs(b.headers(transcript.HeaderQuery{Conversation: c, Tips: true}))
	p.Roots = headerIDs(b.headers(transcript.HeaderQuery{Conversation: c, Of: transcript.BeforeRoot()}))
	p.Facts = b.facts(c, 0, 0)
	for _, h := range p.Headers {
		for _, label := range h.Labels {
			if p.Labelled[label] == nil && len(p.Labelled) < 10 {
				p.Labelled[label] = headerIDs(b.headers(transcript.HeaderQuery{Conversation: c, Label: label}))
			}
		}
	}
	p.Found = hitIDs(b.search(transcript.SearchQuery{Conversation: c, Text: "WHAT ab"}))
	p.OnPath = hitIDs(b.search(transcript.SearchQuery{Conversation: c, Text: "what ab", Path: true}))
	var err error
	if p.Given, err = b.store.Context(b.Context(), c, head(), enough); err != nil {
		b.Fatalf("Context: %v", err)
	}
	if p.Refs, err = b.store.Refs(b.Context(), c); err != nil {
		b.Fatalf("Refs: %v", err)
	}
	if p.Open, err = b.store.Unsettled(b.Context(), c); err != nil {
		b.Fatalf("Unsettled: %v", err)
	}
	if p.Faults, err = b.store.Verify(b.Context(), c); err != nil {
		b.Fatalf("Verify: %v", err)
	}
	for i, e := range p.Lean {
		for _, part := range e.Parts {
			if part.Call != nil && p.Calls[part.Call.ID] == nil {
				found, err := b.store.FindCall(b.Context(), c, part.Call.ID)
				if err != nil {
					b.Fatalf("FindCall(%s): %v", part.Call.ID, err)
				}
				p.Calls[part.Call.ID] = ids(found)
			}
		}
		if !e.Aborted && (i < 12 || i < 60 && i%3 == 0) {
			p.At[e.ID] = b.view(c, transcript.After(e.ID))
		}
	}
	return p
}

func (b *bench) view(c access.ConversationID, at transcript.Position) view {
	b.Helper()
	ctx := b.Context()
	v := view{Path: ids(b.path(c, at)), Children: headerIDs(b.headers(transcript.HeaderQuery{Conversation: c, Of: at}))}
	if !at.IsZero() {
		v.Below = headerIDs(b.headers(transcript.HeaderQuery{Conversation: c, Under: at}))
	}
	given, err := b.store.Context(ctx, c, at, enough)
	if err != nil {
		b.Fatalf("Context(%v): %v", at, err)
	}
	v.Context = ids(given)
	if v.State, err = b.store.State(ctx, c, at); err != nil {
		b.Fatalf("State(%v): %v", at, err)
	}
	if v.Usage, err = b.store.PathUsage(ctx, c, at); err != nil {
		b.Fatalf("PathUsage(%v): %v", at, err)
	}
	for _, s := range b.spans(c, at) {
		v.Depth += s.To - s.From + 1
	}
	return v
}

func (b *bench) spans(c access.ConversationID, at transcript.Position) []transcript.Span {
	b.Helper()
	spans, err := b.store.Spans(b.Context(), c, at)
	if err != nil {
		b.Fatalf("Spans(%v): %v", at, err)
	}
	return spans
}

// anonymous is a picture without what two forks of one source differ in: their
// names, how they were made, and when things were done.
func (p picture) anonymous() picture {
	p.Row.Conversation, p.Row.Lineage.ByReference = "", false
	p.Row.CreatedAt, p.Row.UpdatedAt = time.Time{}, time.Time{}
	p.Open.Conversation = ""
	p.Timeline, p.Lean, p.Path, p.Given = undated(p.Timeline), undated(p.Lean), undated(p.Path), undated(p.Given)
	headers := append([]transcript.Header{}, p.Headers...)
	for i := range headers {
		headers[i].CreatedAt = time.Time{}
	}
	p.Headers = headers
	return p
}

func undated(entries []transcript.Entry) []transcript.Entry {
	out := append([]transcript.Entry{}, entries...)
	for i := range out {
		out[i].CreatedAt = time.Time{}
	}
	return out
}
