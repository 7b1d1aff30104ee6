package transcripttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// The names that checks use where any would do.
const (
	talk  = access.ConversationID("01990000-0000-7000-8000-000000000001")
	other = access.ConversationID("01990000-0000-7000-8000-000000000002")
	third = access.ConversationID("01990000-0000-7000-8000-000000000003")
	alice = access.UserID("alice")
)

// create makes an empty transcript.
func (b *bench) create(c access.ConversationID) transcript.Transcript {
	b.Helper()
	t, err := b.store.Create(b.Context(), c)
	if err != nil {
		b.Fatalf("Create(%s): %v", c, err)
	}
	return t
}

// load loads a transcript, which must be there.
func (b *bench) load(c access.ConversationID) transcript.Transcript {
	b.Helper()
	t, err := b.store.Load(b.Context(), c)
	if err != nil {
		b.Fatalf("Load(%s): %v", c, err)
	}
	return t
}

// commit commits what must succeed. A change that names no conversation is of talk.
func (b *bench) commit(c transcript.Change) transcript.Committed {
	b.Helper()
	if c.Conversation == "" {
		c.Conversation = talk
	}
	done, err := b.store.Commit(b.Context(), c)
	if err != nil {
		b.Fatalf("Commit: %v", err)
	}
	return done
}

// is matches an error that is a sentinel; as one of a type.
func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func as[E error](err error) bool { return errors.As(err, new(E)) }

// refuses commits what must be refused, with an error that is told by refusal
// and names each of the subjects, and expects nothing to be written.
func (b *bench) refuses(what string, c transcript.Change, refusal func(error) bool, subjects ...string) {
	b.Helper()
	if c.Conversation == "" {
		c.Conversation = talk
	}
	before := b.picture(c.Conversation)
	_, err := b.store.Commit(b.Context(), c)
	if err == nil || !refusal(err) {
		b.Errorf("%s: got error %v", what, err)
		return
	}
	for _, s := range subjects {
		if !strings.Contains(err.Error(), s) {
			b.Errorf("%s: error %q does not name its subject %s", what, err, s)
		}
	}
	b.same(what+": after a refusal", b.picture(c.Conversation), before)
}

// says is an entry of a kind that has text.
func says(kind transcript.Kind, id transcript.EntryID, text string) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: kind, Actor: alice, Parts: []transcript.Part{transcript.TextPart(text)}}
}

func asks(id transcript.EntryID) transcript.NewEntry {
	return says(transcript.KindUser, id, "what about "+string(id)+"?")
}

// calls is an assistant's entry with pending calls.
func calls(id transcript.EntryID, ids ...transcript.CallID) transcript.NewEntry {
	e := says(transcript.KindAssistant, id, "let me see")
	for _, c := range ids {
		e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartCall, Call: &transcript.Call{
			ID: c, Name: "run", Arguments: json.RawMessage(`{"command":"` + string(c) + `"}`),
		}})
	}
	return e
}

// grow appends a user's entries, each after the one before, the first where after says.
func (b *bench) grow(c access.ConversationID, after transcript.Position, ids ...transcript.EntryID) transcript.Committed {
	b.Helper()
	change := transcript.Change{Conversation: c, After: after}
	for _, id := range ids {
		change.Append = append(change.Append, asks(id))
	}
	return b.commit(change)
}

// head is where nothing else is said: wherever the head is.
func head() transcript.Position { return transcript.Position{} }

// ids are those of entries.
func ids(entries []transcript.Entry) []transcript.EntryID {
	out := []transcript.EntryID{}
	for _, e := range entries {
		out = append(out, e.ID)
	}
	return out
}

// numbered are n ids that begin with a prefix, in the order of their numbers.
func numbered(prefix string, n int) (out []transcript.EntryID) {
	for i := range n {
		out = append(out, transcript.EntryID(fmt.Sprintf("%s%04d", prefix, i)))
	}
	return out
}

// get reads one entry, which must be there.
func (b *bench) get(c access.ConversationID, id transcript.EntryID) transcript.Entry {
	b.Helper()
	got, err := b.store.Get(b.Context(), c, id)
	if err != nil || len(got) != 1 || got[0].ID != id {
		b.Fatalf("Get(%s): got %v, %v", id, ids(got), err)
	}
	return got[0]
}

// path is the whole path to a position, root first.
func (b *bench) path(c access.ConversationID, to transcript.Position) []transcript.Entry {
	b.Helper()
	return b.pathWith(transcript.PathQuery{Conversation: c, From: to})
}

// pathWith is all pages of a path, root first.
func (b *bench) pathWith(q transcript.PathQuery) (out []transcript.Entry) {
	b.Helper()
	for range 10_000 {
		page, err := b.store.Path(b.Context(), q)
		if err != nil {
			b.Fatalf("Path(%+v): %v", q, err)
		}
		out = append(out, page.Entries...)
		if page.Next.IsZero() {
			slices.Reverse(out)
			return out
		}
		q.From = page.Next
	}
	b.Fatalf("Path(%+v): the pages don't end", q)
	return nil
}

// timeline is all pages of a timeline, newest first.
func (b *bench) timeline(q transcript.TimelineQuery) (out []transcript.Entry) {
	b.Helper()
	for range 10_000 {
		page, err := b.store.Timeline(b.Context(), q)
		if err != nil {
			b.Fatalf("Timeline(%+v): %v", q, err)
		}
		out = append(out, page.Entries...)
		if page.Next == 0 {
			return out
		}
		q.Before = page.Next
	}
	b.Fatalf("Timeline(%+v): the pages don't end", q)
	return nil
}

// headers is all pages of headers.
func (b *bench) headers(q transcript.HeaderQuery) (out []transcript.Header) {
	b.Helper()
	for range 10_000 {
		page, err := b.store.Headers(b.Context(), q)
		if err != nil {
			b.Fatalf("Headers(%+v): %v", q, err)
		}
		out = append(out, page.Headers...)
		if page.Next == 0 {
			return out
		}
		q.After = page.Next
	}
	b.Fatalf("Headers(%+v): the pages don't end", q)
	return nil
}

func headerIDs(headers []transcript.Header) []transcript.EntryID {
	out := []transcript.EntryID{}
	for _, h := range headers {
		out = append(out, h.ID)
	}
	return out
}

// facts are all facts that are newer than a seq.
func (b *bench) facts(c access.ConversationID, after int64, limit int) (out []transcript.Fact) {
	b.Helper()
	for range 10_000 {
		page, err := b.store.Since(b.Context(), c, after, limit)
		if err != nil {
			b.Fatalf("Since(%s, %d): %v", c, after, err)
		}
		out = append(out, page.Facts...)
		switch n := len(page.Facts); {
		case n > 0 && page.Next != page.Facts[n-1].Seq, n == 0 && page.Next != after:
			b.Fatalf("Since(%s, %d): got %d facts and Next %d", c, after, n, page.Next)
		case !page.More:
			return out
		}
		after = page.Next
	}
	b.Fatalf("Since(%s): the pages don't end", c)
	return nil
}
