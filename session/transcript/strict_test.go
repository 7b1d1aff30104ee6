package transcript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// hosts do with conversations what hosts do, and everything that a model could be given is shown to a strict provider.
type hosts struct {
	*rapid.T
	store transcript.Store
	inbox transcript.Inbox
	talks []access.ConversationID
	names int
	fence int64
}

func (h *hosts) name(what string) string {
	h.names++
	return fmt.Sprint(what, h.names)
}

func (h *hosts) commit(c transcript.Change) {
	if _, err := h.store.Commit(h.Context(), c); err != nil {
		h.Fatalf("%+v: %v", c, err)
	}
}

// path is the path to the head, oldest first.
func (h *hosts) path(c access.ConversationID) []transcript.Entry {
	page, err := h.store.Path(h.Context(), transcript.PathQuery{Conversation: c, Limit: transcript.MaxListed})
	if err != nil {
		h.Fatal(err)
	}
	slices.Reverse(page.Entries)
	return page.Entries
}

func (h *hosts) all(c access.ConversationID) []transcript.Entry {
	page, err := h.store.Timeline(h.Context(), transcript.TimelineQuery{Conversation: c, Limit: transcript.MaxListed})
	if err != nil {
		h.Fatal(err)
	}
	return slices.DeleteFunc(page.Entries, func(e transcript.Entry) bool { return e.Aborted })
}

// entry is something that is said: with calls in any state, and with parts that say nothing.
func (h *hosts) entry() transcript.NewEntry {
	kinds := []transcript.Kind{
		transcript.KindUser, transcript.KindAssistant, transcript.KindAssistant, transcript.KindAssistant, transcript.KindSynthetic, transcript.KindContext, transcript.KindHidden, transcript.KindSummary, "of a later version",
	}
	e := transcript.NewEntry{ID: transcript.EntryID(h.name("e")), Kind: rapid.SampledFrom(kinds).Draw(h.T, "kind")}
	if !e.Kind.Message() {
		return e
	}
	e.Parts = []transcript.Part{transcript.TextPart(rapid.SampledFrom([]string{"", " ", "hello", "hello"}).Draw(h.T, "text"))}
	if e.Kind != transcript.KindAssistant {
		return e
	}
	for i := range rapid.IntRange(0, 3).Draw(h.T, "calls") {
		e.Parts = append(e.Parts, callPart(transcript.CallID(fmt.Sprint("c", i)), rapid.SampledFrom([]transcript.CallStatus{"", "", transcript.CallRunning, transcript.CallSucceeded, transcript.CallDenied}).Draw(h.T, "status")))
	}
	return e
}

// turn begins a turn over whatever there was, and leaves it as a process does that dies, or ends it.
func (h *hosts) turn(c access.ConversationID) {
	h.fence++
	h.commit(transcript.Change{Conversation: c, Fence: h.fence, Begin: true})
	if rapid.Bool().Draw(h.T, "settles") {
		open, err := h.store.Unsettled(h.Context(), c)
		if err != nil {
			h.Fatal(err)
		}
		closes := transcript.Change{Conversation: c, Fence: h.fence}
		for _, o := range open.Calls {
			if rapid.IntRange(0, 2).Draw(h.T, "left open") == 0 {
				continue
			}
			s := transcript.Settlement{CallAddress: transcript.CallAddress{Entry: o.Entry, Call: o.Call.ID}}
			s.Status = rapid.SampledFrom([]transcript.CallStatus{transcript.CallInterrupted, transcript.CallSucceeded, transcript.CallFailed}).Draw(h.T, "as")
			if s.Status != transcript.CallInterrupted {
				s.Result = []byte(`"` + strings.Repeat("r", rapid.SampledFrom([]int{1, transcript.InlineBytes + 1}).Draw(h.T, "result")) + `"`)
			}
			closes.Settle = append(closes.Settle, s)
		}
		if open.Draft != nil {
			closes.Abort = []transcript.EntryID{open.Draft.ID}
		}
		h.commit(closes)
	}
	h.commit(transcript.Change{Conversation: c, Fence: h.fence, Append: []transcript.NewEntry{h.entry(), h.entry()}})
	if open, err := h.store.Unsettled(h.Context(), c); err != nil {
		h.Fatal(err)
	} else if open.Draft == nil && rapid.Bool().Draw(h.T, "drafts") {
		h.commit(transcript.Change{Conversation: c, Fence: h.fence, Draft: &transcript.Draft{NewEntry: h.entry()}})
	}
	if rapid.Bool().Draw(h.T, "ends") {
		h.commit(transcript.Change{Conversation: c, Fence: h.fence, End: true})
	}
}

// free is a change to a conversation, within its turn if there is one.
func (h *hosts) free(c access.ConversationID) transcript.Change {
	row, err := h.store.Load(h.Context(), c)
	if err != nil {
		h.Fatal(err)
	}
	change := transcript.Change{Conversation: c}
	if row.InTurn {
		change.Fence = row.Fence
	}
	return change
}

// cut compacts anywhere: as is planned, or right behind or before anything at all.
func (h *hosts) cut(c access.ConversationID) {
	change, k := h.free(c), transcript.NewEntry{ID: transcript.EntryID(h.name("k")), Kind: transcript.KindCompaction}
	path := h.path(c)
	if rapid.Bool().Draw(h.T, "planned") {
		given, err := h.store.Context(h.Context(), c, transcript.Position{}, 10_000)
		if err != nil {
			h.Fatal(err)
		}
		rule := transcript.CompactionRule{Keep: rapid.Int64Range(0, 6).Draw(h.T, "keep"), Pinned: func(transcript.Entry) bool { return rapid.Bool().Draw(h.T, "pin") }}
		plan, ok := transcript.PlanCompaction(given, func(transcript.Entry) int64 { return 1 }, rule)
		if !ok {
			return
		}
		k.Compaction = plan.Compaction("planned")
	} else {
		k.Compaction = &transcript.Compaction{Summary: rapid.SampledFrom([]string{"", "cut"}).Draw(h.T, "summary")}
		at := rapid.IntRange(0, len(path)).Draw(h.T, "at")
		if at < len(path) {
			k.Compaction.FirstKept = path[at].ID
		}
		for _, e := range path[:at] {
			if len(k.Compaction.Pinned) < 3 && rapid.IntRange(0, 3).Draw(h.T, "pin") == 0 {
				k.Compaction.Pinned = append(k.Compaction.Pinned, e.ID)
			}
		}
	}
	change.Append = []transcript.NewEntry{k}
	h.commit(change)
}

// another makes a conversation of one there is: a fork of either kind, or what was exported and imported.
func (h *hosts) another(c access.ConversationID) {
	to := access.ConversationID(h.name("talk"))
	if rapid.IntRange(0, 2).Draw(h.T, "carried") == 0 {
		var text bytes.Buffer
		if err := transcript.Export(h.Context(), h.store, c, &text, time.Unix(0, 0)); err != nil {
			h.Fatal(err)
		}
		if _, err := transcript.Import(h.Context(), h.store, to, &text); err != nil {
			h.Fatal(err)
		}
	} else {
		f := transcript.Fork{From: c, To: to, ByReference: rapid.Bool().Draw(h.T, "by reference")}
		if all := h.all(c); len(all) > 0 && rapid.Bool().Draw(h.T, "elsewhere") {
			e := rapid.SampledFrom(all).Draw(h.T, "at")
			f.At, f.Before = transcript.After(e.ID), e.Kind == transcript.KindUser
		}
		if _, err := h.store.Fork(h.Context(), f); err != nil {
			h.Fatal(err)
		}
	}
	h.talks = append(h.talks, to)
}

func (h *hosts) step(c access.ConversationID) {
	switch rapid.IntRange(0, 7).Draw(h.T, "step") {
	case 0, 1:
		h.turn(c)
	case 2, 3:
		h.cut(c)
	case 4:
		if len(h.talks) < 4 {
			h.another(c)
		}
	case 5: // rewinds
		change := h.free(c)
		change.Head = transcript.BeforeRoot()
		if all := h.all(c); len(all) > 0 {
			change.Head = transcript.After(rapid.SampledFrom(all).Draw(h.T, "back to").ID)
		}
		h.commit(change)
	case 6: // what waited is delivered
		e := transcript.NewEntry{ID: transcript.EntryID(h.name("i")), Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("waited")}}
		if _, err := h.inbox.Admit(h.Context(), c, transcript.NewInput{Entry: e, Lane: transcript.LaneSteer}, 100); err != nil {
			h.Fatal(err)
		}
		change := h.free(c)
		change.Append, change.Promote = []transcript.NewEntry{e}, []transcript.EntryID{e.ID}
		h.commit(change)
	default:
		change := h.free(c)
		change.Append = []transcript.NewEntry{h.entry()}
		h.commit(change)
	}
}

// accepted shows a strict provider what it is given at every entry there is, and what any page of the path comes to.
func (h *hosts) accepted(c access.ConversationID) {
	for _, e := range h.all(c) {
		given, err1 := h.store.Context(h.Context(), c, transcript.After(e.ID), 10_000)
		page, err2 := h.store.Path(h.Context(), transcript.PathQuery{Conversation: c, From: transcript.After(e.ID), Limit: 3})
		if err := errors.Join(err1, err2); err != nil {
			h.Fatal(err)
		}
		slices.Reverse(page.Entries)
		for what, entries := range map[string][]transcript.Entry{"the context": given, "the last of the path": page.Entries} {
			messages := transcript.Project(entries)
			if err := errors.Join(strict(messages), answered(entries, messages)); err != nil {
				h.Fatalf("%s at %s of %s: %v", what, e.ID, c, err)
			}
		}
	}
}

// answered reports whether each result is of the call that it answers, with all
// there is to that, and is what the call came to: interrupted where it has come to nothing yet.
func answered(entries []transcript.Entry, messages []transcript.Message) error {
	calls := map[string]transcript.Call{}
	for _, e := range entries {
		for _, p := range e.Parts {
			if p.Call != nil {
				calls[fmt.Sprint(e.ID, " ", p.Call.ID)] = *p.Call
			}
		}
	}
	for _, m := range messages {
		if m.Call == nil {
			continue
		}
		key := fmt.Sprint(m.Entry, " ", m.Call.ID)
		was, there := calls[key]
		if delete(calls, key); !there {
			return fmt.Errorf("%s is answered, and was not called", key)
		}
		if !was.Status.Settled() {
			was.Status, was.Result, was.Blob = transcript.CallInterrupted, nil, nil
		}
		want, err1 := json.Marshal(was)
		got, err2 := json.Marshal(m.Call)
		if err := errors.Join(err1, err2); err != nil || string(got) != string(want) {
			return fmt.Errorf("%s is answered %s, want %s, %v", key, got, want, err)
		}
	}
	if len(calls) > 0 {
		return fmt.Errorf("%v are not answered", calls)
	}
	return nil
}

// Invariants 6 and 7, case 15: whatever hosts do, turns that are broken off
// and taken over, cuts anywhere, forks of both kinds, rewinds, imports, inputs
// that are delivered, at every entry and over every page of a path what a
// model is given is what the strictest provider takes.
func TestEveryPathIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := memory.New(nil)
		h := &hosts{T: t, store: db.Transcripts(), inbox: db.Inbox(), talks: []access.ConversationID{"talk"}}
		if _, err := h.store.Create(t.Context(), "talk"); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			h.step(rapid.SampledFrom(h.talks).Draw(t, "conversation"))
		}
		for _, c := range h.talks {
			h.accepted(c)
			if faults, err := h.store.Verify(t.Context(), c); err != nil || len(faults) > 0 {
				t.Fatalf("%s: %q, %v", c, faults, err)
			}
		}
	})
}
