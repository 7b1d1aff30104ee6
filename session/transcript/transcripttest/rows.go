package transcripttest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// full is an entry of every kind, with all that one may have.
func full() []transcript.NewEntry {
	some := json.RawMessage(`{"n":12345678901234567890,"s":"<ü&\u2028 \"x\"","list":[1,null,true],"none":null}`)
	out := []transcript.NewEntry{}
	for i, kind := range []transcript.Kind{
		transcript.KindUser, transcript.KindAssistant, transcript.KindSynthetic, transcript.KindContext, transcript.KindHidden,
		transcript.KindSummary, transcript.KindConfig, transcript.KindMarker, "something of a later version",
	} {
		e := transcript.NewEntry{
			ID: numbered("Ü ", 9)[i], Kind: kind, Turn: "turn 1", Actor: "Alice ü", Payload: some,
			Usage: transcript.Usage{Input: 1, Output: 1 << 40, CacheRead: 3, CacheWrite: 4, CostMicros: int64(i)},
		}
		if kind.Message() {
			e.Parts = []transcript.Part{transcript.TextPart("hello <b>ü</b>"), {Type: "image", Data: some}, {Type: transcript.PartThinking, Data: json.RawMessage(`{"text":"hm"}`)}}
		}
		if kind == transcript.KindAssistant {
			for _, status := range []transcript.CallStatus{
				"", transcript.CallPending, transcript.CallRunning, transcript.CallSucceeded, transcript.CallFailed, transcript.CallDenied, transcript.CallInterrupted,
			} {
				call := transcript.Call{ID: transcript.CallID("call ü of " + status), Name: "a tool", Arguments: some, Status: status}
				if status.Settled() {
					call.Result = json.RawMessage(`{"of":"` + string(status) + `"}`)
				}
				e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartCall, Call: &call})
			}
		}
		out = append(out, e)
	}
	return append(out,
		transcript.NewEntry{ID: "state", Kind: transcript.KindState, State: &transcript.StateDelta{
			Whole: true, Set: map[string]json.RawMessage{"a": some, "ü": json.RawMessage(`"text"`)}, Delete: []string{"b", "c"},
		}},
		transcript.NewEntry{ID: "compaction", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{
			Summary: "what was said <ü>", FirstKept: out[8].ID, Pinned: []transcript.EntryID{out[0].ID, out[3].ID}, TokensBefore: 99,
		}},
	)
}

// kept is an entry as it is returned, but for what the store gives it.
func kept(e transcript.NewEntry) transcript.NewEntry {
	parts := append([]transcript.Part{}, e.Parts...)
	for i, p := range parts {
		if p.Call != nil && p.Call.Status == "" {
			call := *p.Call
			call.Status = transcript.CallPending
			parts[i].Call = &call
		}
	}
	e.Parts = parts
	return e
}

func rowChecks() []check {
	return []check{
		{"create", "A transcript that is made is active and empty; its head is before the root, not lost. (invariant 5)", func(b *bench) {
			t := b.create(talk)
			if t.CreatedAt.IsZero() || !t.UpdatedAt.Equal(t.CreatedAt) || t.CreatedAt.Location() != time.UTC {
				b.Errorf("made at %v, changed at %v; want one moment, in UTC", t.CreatedAt, t.UpdatedAt)
			}
			b.same("the row", t, transcript.Empty(talk, t.CreatedAt))
			b.same("as loaded", b.load(talk), t)
			p := b.picture(talk)
			if len(p.Timeline)+len(p.Headers)+len(p.Facts)+len(p.Refs)+len(p.Faults) > 0 {
				b.Errorf("there is something in it: %+v", p)
			}
			b.same("its path", ids(b.path(talk, head())), []transcript.EntryID{})
			b.same("before the root", ids(b.path(talk, transcript.BeforeRoot())), []transcript.EntryID{})
			b.view(talk, head())
		}},
		{"create-again", "Create returns what is there as it is, and changes nothing of it.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			before := b.picture(talk)
			b.same("made again", b.create(talk), before.Row)
			b.same("after that", b.picture(talk), before)
		}},
		{"fields", "An entry of every kind, a kind of a later version too, comes back with all that it had.", func(b *bench) {
			b.create(talk)
			given := full()
			done := b.commit(transcript.Change{Append: given})
			got := b.path(talk, head())
			if len(got) != len(given) || len(done.Seqs) != len(given) {
				b.Fatalf("%d entries and %d seqs, want %d", len(got), len(done.Seqs), len(given))
			}
			parent := transcript.BeforeRoot()
			for i, e := range got {
				want := transcript.Entry{NewEntry: kept(given[i]), Seq: done.Seqs[i], Parent: parent, Depth: int64(i + 1), CreatedAt: e.CreatedAt}
				b.same(string(e.ID), e, want)
				b.same(string(e.ID)+" by its id", b.get(talk, e.ID), want)
				if e.CreatedAt.IsZero() || e.CreatedAt.Location() != time.UTC {
					b.Errorf("%s is dated %v", e.ID, e.CreatedAt)
				}
				parent = transcript.After(e.ID)
			}
		}},
		{"meaning", "Of JSON its meaning is kept: with white space or without, it is the same entry.", func(b *bench) {
			b.create(talk)
			loose := calls("a", "c")
			loose.Payload = json.RawMessage("{ \"k\" :\n [ 1 , 2 ] }")
			loose.Parts[1].Call.Arguments = json.RawMessage(" { \"x\" : 1 } ")
			b.commit(transcript.Change{Append: []transcript.NewEntry{loose}})
			tight := calls("a", "c")
			tight.Payload = json.RawMessage(`{"k":[1,2]}`)
			tight.Parts[1].Call.Arguments = json.RawMessage(`{"x":1}`)
			if done := b.commit(transcript.Change{Append: []transcript.NewEntry{tight}}); !done.Retried {
				b.Errorf("without the white space it is another entry")
			}
			if got := b.get(talk, "a"); string(got.Payload) != string(tight.Payload) || string(got.Parts[1].Call.Arguments) != `{"x":1}` {
				b.Errorf("got payload %q and arguments %q, want no white space", got.Payload, got.Parts[1].Call.Arguments)
			}
		}},
		{"ids", "Ids, names and keys are kept byte by byte, whatever their case.", func(b *bench) {
			all := []transcript.EntryID{"a", "A", "ä", "a\u0308", " a", "a ", "%", "_", "a'b\"", "\u2028"}
			b.create(talk)
			b.grow(talk, head(), all...)
			b.same("the path", ids(b.path(talk, head())), all)
			for _, id := range all {
				b.get(talk, id)
				b.commit(transcript.Change{
					Labels: []transcript.LabelChange{{Entry: id, Label: "label " + string(id)}},
					Refs:   []transcript.RefChange{{Name: string(id) + "!", To: transcript.After(id)}},
				})
			}
			for _, id := range all {
				b.same("labelled "+string(id), headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, Label: "label " + string(id)})), []transcript.EntryID{id})
			}
			if refs, err := b.store.Refs(b.Context(), talk); err != nil || len(refs) != len(all) {
				b.Errorf("got %d refs, %v; want %d", len(refs), err, len(all))
			}
		}},
		{"apart", "What is done to one conversation is never seen in another. (invariant 2)", func(b *bench) {
			b.create(talk)
			b.create(other)
			b.grow(talk, head(), "a", "b")
			before := b.picture(talk)
			b.grow(other, head(), "a", "c")
			b.commit(transcript.Change{Conversation: other, Head: transcript.After("a"), Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}})
			b.same("the other one", b.picture(talk), before)
			b.refuses("after an entry of another", transcript.Change{Append: []transcript.NewEntry{asks("d")}, After: transcript.After("c")}, is(transcript.ErrNotFound))
			b.refuses("the head to an entry of another", transcript.Change{Head: transcript.After("c")}, is(transcript.ErrNotFound))
		}},
		{"owned", "Whatever a method is given or returns is the caller's: nothing kept changes with it.", func(b *bench) {
			b.create(talk)
			given := full()
			b.commit(transcript.Change{Append: given, Labels: []transcript.LabelChange{{Entry: "state", Label: "x"}}})
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: calls("draft", "c")}})
			before := flat(b.picture(talk))
			spoil(given...)
			seen := b.picture(talk)
			for _, list := range [][]transcript.Entry{seen.Timeline, seen.Lean, b.path(talk, head())} {
				for i := range list {
					spoil(list[i].NewEntry)
				}
			}
			spoil(seen.Open.Draft.NewEntry)
			for i := range seen.Open.Calls {
				clear(seen.Open.Calls[i].Call.Arguments)
			}
			for i := range seen.Headers {
				clear(seen.Headers[i].Labels)
			}
			b.same("after what was given and returned was written to", flat(b.picture(talk)), before)
		}},
		{"ended", "With an ended context nothing is written, and its error is returned.", func(b *bench) {
			if _, err := b.store.Create(b.ended(), talk); err == nil {
				b.Errorf("Create succeeds")
			}
			if _, err := b.store.Load(b.Context(), talk); !errors.Is(err, transcript.ErrNotFound) {
				b.Errorf("there is one: %v", err)
			}
			b.create(talk)
			before := b.picture(talk)
			if _, err := b.store.Commit(b.ended(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{asks("a")}}); err == nil {
				b.Errorf("Commit succeeds")
			}
			if _, err := b.store.Fork(b.ended(), transcript.Fork{From: talk, To: other}); err == nil {
				b.Errorf("Fork succeeds")
			}
			b.same("after that", b.picture(talk), before)
		}},
	}
}

// spoil writes to all that is shared with an entry.
func spoil(entries ...transcript.NewEntry) {
	for _, e := range entries {
		clear(e.Payload)
		for i, p := range e.Parts {
			clear(p.Data)
			if p.Call != nil {
				clear(p.Call.Arguments)
				clear(p.Call.Result)
				p.Call.Name, p.Call.Status = "spoilt", "spoilt"
			}
			e.Parts[i].Type = "spoilt"
		}
		if e.Compaction != nil {
			clear(e.Compaction.Pinned)
			e.Compaction.Summary = "spoilt"
		}
		if e.State != nil {
			clear(e.State.Set)
			clear(e.State.Delete)
		}
	}
}
