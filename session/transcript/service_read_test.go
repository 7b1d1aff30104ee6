package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// readings are all methods of Reading, with what of it is told.
var readings = map[string]func(ctx context.Context, r *transcript.Reading) (any, error){
	"Conversation": func(_ context.Context, r *transcript.Reading) (any, error) { return r.Conversation(), nil },
	"Load":         func(ctx context.Context, r *transcript.Reading) (any, error) { return r.Load(ctx) },
	"Get": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.Get(ctx, "mine", "other")
	},
	"Path": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.Path(ctx, transcript.PathQuery{Conversation: "other"})
	},
	"Spans": func(ctx context.Context, r *transcript.Reading) (any, error) {
		spans, err := r.Spans(ctx, transcript.Position{})
		if err != nil || len(spans) != 1 {
			return nil, fmt.Errorf("%d spans: %w", len(spans), err)
		}
		return map[int64]string{3: "mine", 2: "other"}[spans[0].To], nil // the seq of the last entry
	},
	"Context": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.Context(ctx, transcript.Position{}, 10)
	},
	"State": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.State(ctx, transcript.Position{})
	},
	"PathUsage": func(ctx context.Context, r *transcript.Reading) (any, error) {
		u, err := r.PathUsage(ctx, transcript.Position{})
		return map[int64]string{7: "mine", 9: "other"}[u.Input], err
	},
	"Timeline": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.Timeline(ctx, transcript.TimelineQuery{Conversation: "other"})
	},
	"Headers": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.Headers(ctx, transcript.HeaderQuery{Conversation: "other"})
	},
	"FindCall": func(ctx context.Context, r *transcript.Reading) (any, error) { return r.FindCall(ctx, "call") },
	"Refs":     func(ctx context.Context, r *transcript.Reading) (any, error) { return r.Refs(ctx) },
	"Since":    func(ctx context.Context, r *transcript.Reading) (any, error) { return r.Since(ctx, 0, 0) },
	"Unsettled": func(ctx context.Context, r *transcript.Reading) (any, error) {
		return r.Unsettled(ctx)
	},
	"OpenBlob": func(ctx context.Context, r *transcript.Reading) (any, error) {
		entries, err := r.Get(ctx, "mine")
		if err != nil {
			return nil, err
		}
		blob, err := r.OpenBlob(ctx, entries[0].Parts[1].Blob.Hash)
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(blob)
		return string(all), errors.Join(err, blob.Close())
	},
	"Export": func(ctx context.Context, r *transcript.Reading) (any, error) {
		var b strings.Builder
		err := r.Export(ctx, &b)
		return b.String(), err
	},
}

// A reading is of the conversation that it was made for, whatever it is asked for.
func TestReading(t *testing.T) {
	h := newHall(t)
	ctx, store := t.Context(), h.db.Transcripts()
	for id, of := range map[access.ConversationID]struct {
		what  string
		input int64
	}{theTalk: {"mine", 7}, target: {"other", 9}} {
		h.open(session.Conversation{ID: id})
		e := transcript.NewEntry{ID: transcript.EntryID(of.what), Kind: transcript.KindAssistant, Usage: transcript.Usage{Input: of.input}, Parts: []transcript.Part{
			transcript.TextPart(of.what), transcript.TextPart(strings.Repeat(of.what, transcript.InlineBytes)),
			{Type: transcript.PartCall, Call: &transcript.Call{ID: "call", Name: of.what, Arguments: json.RawMessage("{}")}},
		}}
		if id == target {
			if _, err := store.Create(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []transcript.Change{
			{Append: []transcript.NewEntry{
				{ID: transcript.EntryID(of.what + " state"), Kind: transcript.KindState, State: &transcript.StateDelta{Set: map[string]json.RawMessage{of.what: json.RawMessage("1")}}}, e,
			}, Refs: []transcript.RefChange{{Name: of.what, To: transcript.After(e.ID)}}},
			{Fence: 1, Begin: true, Draft: &transcript.Draft{NewEntry: user(transcript.EntryID(of.what + " draft"))}},
		} {
			c.Conversation = id
			if _, err := store.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := h.service().Read(ctx, ann, theTalk)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range readings {
		want := "mine"
		if name == "Conversation" {
			want = string(theTalk)
		}
		answer, err := read(ctx, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(out); !strings.Contains(got, want) || strings.Contains(got, "other") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}
