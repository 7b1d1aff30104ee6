package transcripttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// method is a call of one method that reads or writes one conversation.
type method struct {
	name string
	call func(context.Context, transcript.Store, access.ConversationID) error
}

// methods are those that need a transcript to be there.
func methods() []method {
	at := transcript.BeforeRoot()
	return []method{
		{"Load", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Load(ctx, c)
			return err
		}},
		{"Commit", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Commit(ctx, transcript.Change{Conversation: c, Append: []transcript.NewEntry{asks("new")}})
			return err
		}},
		{"Get", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Get(ctx, c, "a")
			return err
		}},
		{"Path", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Path(ctx, transcript.PathQuery{Conversation: c})
			return err
		}},
		{"Spans", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Spans(ctx, c, at)
			return err
		}},
		{"Context", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Context(ctx, c, at, 1)
			return err
		}},
		{"State", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.State(ctx, c, at)
			return err
		}},
		{"PathUsage", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.PathUsage(ctx, c, at)
			return err
		}},
		{"Timeline", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: c})
			return err
		}},
		{"Headers", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c})
			return err
		}},
		{"Search", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Search(ctx, transcript.SearchQuery{Conversation: c, Text: "word"})
			return err
		}},
		{"Index", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Index(ctx, c, 1)
			return err
		}},
		{"FindCall", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.FindCall(ctx, c, "c")
			return err
		}},
		{"Refs", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Refs(ctx, c)
			return err
		}},
		{"Since", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Since(ctx, c, 0, 0)
			return err
		}},
		{"Unsettled", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Unsettled(ctx, c)
			return err
		}},
		{"OpenBlob", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.OpenBlob(ctx, c, strings.Repeat("0", 64))
			return err
		}},
		{"Forget", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Forget(ctx, c, 0, 1)
			return err
		}},
		{"Verify", func(ctx context.Context, s transcript.Store, c access.ConversationID) error {
			_, err := s.Verify(ctx, c)
			return err
		}},
	}
}

// absent expects that nothing is there, whatever is asked.
func (b *bench) absent(c access.ConversationID) {
	b.Helper()
	for _, m := range methods() {
		if err := m.call(b.Context(), b.store, c); !errors.Is(err, transcript.ErrNotFound) || m.name != "OpenBlob" && !strings.Contains(err.Error(), string(c)) {
			b.Errorf("%s: got error %v, want ErrNotFound that names %s", m.name, err, c)
		}
	}
	if _, err := b.store.Fork(b.Context(), transcript.Fork{From: c, To: "01990000-0000-7000-8000-00000000dead"}); !errors.Is(err, transcript.ErrNotFound) {
		b.Errorf("Fork: got error %v, want ErrNotFound", err)
	}
}

func inputChecks() []check {
	return []check{
		{"absent", "Of what is not there every method but Create says ErrNotFound, names it, and makes nothing.", func(b *bench) {
			b.create(other)
			b.absent(talk)
			b.absent(talk) // as before
		}},
		{"absent-entry", "A place that is not there, or was given up, is ErrNotFound; Get leaves out what is not there.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("given up")}})
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			ctx := b.Context()
			for _, id := range []transcript.EntryID{"nothing", "given up"} {
				at := transcript.After(id)
				_, path := b.store.Path(ctx, transcript.PathQuery{Conversation: talk, From: at})
				_, spans := b.store.Spans(ctx, talk, at)
				_, given := b.store.Context(ctx, talk, at, enough)
				_, state := b.store.State(ctx, talk, at)
				_, usage := b.store.PathUsage(ctx, talk, at)
				_, fork := b.store.Fork(ctx, transcript.Fork{From: talk, To: other, At: at})
				for what, err := range map[string]error{"Path": path, "Spans": spans, "Context": given, "State": state, "PathUsage": usage, "Fork": fork} {
					if !errors.Is(err, transcript.ErrNotFound) {
						b.Errorf("%s after %s: got error %v, want ErrNotFound", what, id, err)
					}
				}
			}
			got, err := b.store.Get(ctx, talk, "b", "nothing", "given up", "a")
			if err != nil {
				b.Fatalf("Get: %v", err)
			}
			b.same("Get in the order asked for", ids(got), []transcript.EntryID{"b", "given up", "a"})
			if none, err := b.store.Get(ctx, talk); err != nil || len(none) > 0 {
				b.Errorf("Get of nothing: %v, %v", none, err)
			}
		}},
		{"load-many", "The rows of several conversations come in the order asked for, each as Load reads it; those that are not there, or not any more, are left out.", func(b *bench) {
			ctx := b.Context()
			for _, c := range []access.ConversationID{"one", "two", "gone", "Two"} {
				b.create(c)
			}
			b.grow("two", head(), "a", "b")
			if _, err := b.store.Fork(ctx, transcript.Fork{From: "two", To: other, At: transcript.After("a"), ByReference: true}); err != nil {
				b.Fatalf("Fork: %v", err)
			}
			b.commit(transcript.Change{Conversation: "gone", Status: transcript.Deleted})
			var want []transcript.Transcript
			for _, c := range []access.ConversationID{"two", other, "one", "Two"} {
				want = append(want, b.load(c))
			}
			got, err := b.store.LoadMany(ctx, "two", "gone", other, "nothing", "one", "Two")
			if err != nil {
				b.Fatalf("LoadMany: %v", err)
			}
			b.same("LoadMany", got, want)
			if none, err := b.store.LoadMany(ctx); err != nil || len(none) > 0 {
				b.Errorf("LoadMany of nothing: %v, %v", none, err)
			}
			for what, ids := range map[string][]access.ConversationID{"Conversation": {"two", ""}, "conversations": slices.Repeat([]access.ConversationID{"two"}, transcript.MaxListed+1)} {
				var refused *access.FieldError
				if _, err := b.store.LoadMany(ctx, ids...); !errors.As(err, &refused) || refused.Field != what {
					b.Errorf("LoadMany of %d: got error %v, want a FieldError of %s", len(ids), err, what)
				}
			}
		}},
		{"fields-refused", "What a query or a change can't be is refused by its field, before anything is looked at or written.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			before := b.picture(talk)
			ctx, s := b.Context(), b.store
			both := transcript.Position{Entry: "a", Root: true}
			long := access.ConversationID(strings.Repeat("x", access.MaxID+1))
			for _, m := range methods() {
				for _, c := range []access.ConversationID{"", long, "a\x00b", "\xff"} {
					b.field(m.name+" of no id", m.call(ctx, s, c))
				}
			}
			_, create := s.Create(ctx, "")
			_, path := s.Path(ctx, transcript.PathQuery{Conversation: talk, From: both})
			_, spans := s.Spans(ctx, talk, both)
			_, given := s.Context(ctx, talk, both, 1)
			_, none := s.Context(ctx, talk, head(), 0)
			_, state := s.State(ctx, talk, both)
			_, usage := s.PathUsage(ctx, talk, both)
			_, before0 := s.Timeline(ctx, transcript.TimelineQuery{Conversation: talk, Before: -1})
			_, after := s.Headers(ctx, transcript.HeaderQuery{Conversation: talk, After: -1})
			_, of := s.Headers(ctx, transcript.HeaderQuery{Conversation: talk, Of: both})
			_, under := s.Headers(ctx, transcript.HeaderQuery{Conversation: talk, Under: both})
			_, either := s.Headers(ctx, transcript.HeaderQuery{Conversation: talk, Under: transcript.After("a"), Of: transcript.After("a")})
			_, levels := s.Headers(ctx, transcript.HeaderQuery{Conversation: talk, Levels: 1})
			_, since := s.Since(ctx, talk, -1, 0)
			_, call := s.FindCall(ctx, talk, "")
			_, get := s.Get(ctx, talk, slices.Repeat([]transcript.EntryID{"a"}, transcript.MaxListed+1)...)
			_, itself := s.Fork(ctx, transcript.Fork{From: talk, To: talk})
			_, nobody := s.Fork(ctx, transcript.Fork{From: talk})
			_, nowhere := s.Fork(ctx, transcript.Fork{From: talk, To: other, At: both})
			_, purge := s.Purge(ctx, 0)
			_, unfinished := s.Unfinished(ctx, "", 0)
			_, change := s.Commit(ctx, transcript.Change{Conversation: talk, Append: []transcript.NewEntry{{ID: "b"}}})
			_, many := s.Commit(ctx, transcript.Change{Conversation: talk, Append: make([]transcript.NewEntry, transcript.MaxAppend+1)})
			_, wordless := s.Search(ctx, transcript.SearchQuery{Conversation: talk, Text: " ?! "})
			_, wordy := s.Search(ctx, transcript.SearchQuery{Conversation: talk, Text: strings.Repeat("x", transcript.MaxQuery+1)})
			_, pathless := s.Search(ctx, transcript.SearchQuery{Conversation: talk, Text: "a", At: transcript.After("a")})
			_, index := s.Index(ctx, talk, 0)
			for what, err := range map[string]error{
				"Search without words": wordless, "Search of too much": wordy, "Search at a place on no path": pathless, "Index of none": index,
				"Create of no id": create, "Path from two places": path, "Spans to two places": spans, "Context at two places": given,
				"Context of none": none, "State at two places": state, "PathUsage at two places": usage, "Timeline before nothing": before0,
				"Headers after nothing": after, "Headers of two places": of, "Headers below two places": under,
				"Headers that follow and are below": either, "Headers some levels below nothing": levels, "Since before all": since, "FindCall of no id": call, "Get of too many": get,
				"Fork to itself": itself, "Fork to nobody": nobody, "Fork at two places": nowhere, "Purge of none": purge, "Unfinished of none": unfinished,
				"an entry without a kind": change, "too many entries": many,
			} {
				b.field(what, err)
			}
			for _, limit := range []int{-1, transcript.MaxListed + 1} {
				_, path := s.Path(ctx, transcript.PathQuery{Conversation: talk, Limit: limit})
				_, timeline := s.Timeline(ctx, transcript.TimelineQuery{Conversation: talk, Limit: limit})
				_, headers := s.Headers(ctx, transcript.HeaderQuery{Conversation: talk, Limit: limit})
				_, since := s.Since(ctx, talk, 0, limit)
				_, unfinished := s.Unfinished(ctx, "", limit)
				for what, err := range map[string]error{"Path": path, "Timeline": timeline, "Headers": headers, "Since": since, "Unfinished": unfinished} {
					b.field(fmt.Sprintf("%s of %d", what, limit), err)
				}
			}
			b.same("after all that", b.picture(talk), before)
		}},
	}
}

// field expects a *access.FieldError.
func (b *bench) field(what string, err error) {
	b.Helper()
	if !as[*access.FieldError](err) {
		b.Errorf("%s: got error %v, want a *access.FieldError", what, err)
	}
}
