package transcript_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// world is a store that anything is asked of, and what is remembered of it.
type world struct {
	*rapid.T
	store  transcript.Store
	ids    int
	there  []transcript.EntryID                                              // that were ever appended, somewhere
	draft  transcript.EntryID                                                // that was saved last
	frozen map[access.ConversationID]map[transcript.EntryID]transcript.Entry // as each was when it was first seen
	began  map[access.ConversationID]int64                                   // the newest fence of each
}

// names are few, so that what is asked for is sometimes there.
func (w *world) talk() access.ConversationID {
	return rapid.SampledFrom([]access.ConversationID{"one", "two", "three"}).Draw(w.T, "conversation")
}

func (w *world) known() transcript.EntryID {
	if len(w.there) == 0 || rapid.IntRange(0, 19).Draw(w.T, "nowhere") == 0 {
		return "nothing"
	}
	return rapid.SampledFrom(w.there).Draw(w.T, "entry")
}

func (w *world) somewhere() transcript.Position {
	switch rapid.IntRange(0, 5).Draw(w.T, "where") {
	case 0:
		return transcript.BeforeRoot()
	case 1, 2:
		return transcript.After(w.known())
	}
	return transcript.Position{}
}

func (w *world) entry() transcript.NewEntry {
	w.ids++
	e := transcript.NewEntry{ID: transcript.EntryID(fmt.Sprint("e", w.ids)), Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("x")}}
	e.Usage.Output = rapid.Int64Range(0, 5).Draw(w.T, "output")
	switch rapid.IntRange(0, 4).Draw(w.T, "kind") {
	case 0:
		e.Kind = transcript.KindAssistant
		e.Parts = append(e.Parts, callPart("c", transcript.CallPending))
	case 1:
		e.Kind, e.Parts = transcript.KindCompaction, nil
		e.Compaction = &transcript.Compaction{Summary: "s"}
		if rapid.Bool().Draw(w.T, "keeps") {
			e.Compaction.FirstKept = w.known()
		}
		if rapid.Bool().Draw(w.T, "pins") {
			e.Compaction.Pinned = []transcript.EntryID{w.known()}
		}
	}
	return e
}

func (w *world) change() transcript.Change {
	c := transcript.Change{Conversation: w.talk()}
	if rapid.IntRange(0, 3).Draw(w.T, "of a turn") == 0 {
		c.Fence, c.Begin, c.End = rapid.Int64Range(1, 6).Draw(w.T, "fence"), rapid.IntRange(0, 3).Draw(w.T, "begin") > 0, rapid.IntRange(0, 2).Draw(w.T, "end") > 0
	}
	address := func() transcript.CallAddress { return transcript.CallAddress{Entry: w.known(), Call: "c"} }
	if rapid.IntRange(0, 9).Draw(w.T, "expects") == 0 {
		c.Expect = w.somewhere()
	}
	switch rapid.IntRange(0, 9).Draw(w.T, "what") {
	case 0:
		c.Head = w.somewhere()
	case 1:
		c.Start = []transcript.CallAddress{address()}
	case 2:
		c.Settle = []transcript.Settlement{{CallAddress: address(), Status: rapid.SampledFrom([]transcript.CallStatus{transcript.CallFailed, transcript.CallSucceeded}).Draw(w.T, "status")}}
	case 3:
		c.Draft = &transcript.Draft{NewEntry: w.entry(), After: w.somewhere()}
	case 4:
		c.Abort = []transcript.EntryID{w.draft}
		if w.draft == "" || rapid.IntRange(0, 3).Draw(w.T, "no draft") == 0 {
			c.Abort = []transcript.EntryID{w.known()}
		}
	case 5:
		c.Refs = []transcript.RefChange{{Name: "r", To: w.somewhere(), Version: rapid.Int64Range(-1, 2).Draw(w.T, "version")}}
		c.Labels = []transcript.LabelChange{{Entry: w.known(), Label: "l", Remove: rapid.Bool().Draw(w.T, "remove")}}
	case 6:
		c.Status = rapid.SampledFrom([]transcript.Status{transcript.Archived, transcript.Active, transcript.Active, transcript.Active, transcript.Deleted}).Draw(w.T, "status")
		c.Fence, c.Begin, c.End = 0, false, false
	default:
		for range rapid.IntRange(1, 3).Draw(w.T, "entries") {
			c.Append = append(c.Append, w.entry())
		}
		c.After, c.KeepHead = w.somewhere(), rapid.IntRange(0, 3).Draw(w.T, "keep head") == 0
	}
	return c
}

// seen is all of a transcript that the invariants are about; nothing where there is none.
type seen struct {
	Row   transcript.Transcript
	All   []transcript.Entry
	Facts []transcript.Fact
	Open  transcript.Open
	Refs  []transcript.Ref
}

func (w *world) look(c access.ConversationID) (s seen, there bool) {
	ctx := w.Context()
	row, err := w.store.Load(ctx, c)
	if errors.Is(err, transcript.ErrNotFound) {
		return seen{}, false
	}
	all, err1 := w.store.Timeline(ctx, transcript.TimelineQuery{Conversation: c, Limit: transcript.MaxListed})
	facts, err2 := w.store.Since(ctx, c, 0, transcript.MaxListed)
	open, err3 := w.store.Unsettled(ctx, c)
	refs, err4 := w.store.Refs(ctx, c)
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		w.Fatal(err)
	}
	return seen{row, all.Entries, facts.Facts, open, refs}, true
}

// holds checks the invariants of one transcript.
func (w *world) holds(c access.ConversationID) {
	s, there := w.look(c)
	if !there {
		delete(w.frozen, c)
		delete(w.began, c)
		return
	}
	if w.frozen[c] == nil {
		w.frozen[c] = map[transcript.EntryID]transcript.Entry{}
	}
	byID := map[transcript.EntryID]transcript.Entry{}
	for i, e := range s.All {
		byID[e.ID] = e
		if i > 0 && e.Seq >= s.All[i-1].Seq { // invariant 1
			w.Fatalf("%s: seq %d comes before %d", c, e.Seq, s.All[i-1].Seq)
		}
	}
	for _, e := range s.All {
		if parent, ok := byID[e.Parent.Entry]; !e.Parent.Root && (!ok || parent.Seq >= e.Seq || parent.Aborted || parent.Depth+1 != e.Depth) { // invariants 2, 4
			w.Fatalf("%s: %+v follows %+v", c, e, parent)
		}
		bare := e
		bare.Parts = append([]transcript.Part{}, e.Parts...)
		for i, p := range bare.Parts {
			if p.Call != nil {
				bare.Parts[i] = callPart(p.Call.ID, "")
			}
		}
		if was, ok := w.frozen[c][e.ID]; ok && cmp.Diff(was, bare) != "" { // invariant 3
			w.Fatalf("%s: %s has changed: %s", c, e.ID, cmp.Diff(was, bare))
		}
		w.frozen[c][e.ID] = bare
		if !e.Aborted {
			w.pathHolds(c, e)
		}
	}
	if d := s.Open.Draft; d != nil { // invariant 4
		if _, ok := byID[d.ID]; ok {
			w.Fatalf("%s: draft %s is an entry", c, d.ID)
		}
	}
	if e, ok := byID[s.Row.Head.Entry]; !s.Row.Head.Root && (!ok || e.Aborted) || s.Row.Head.IsZero() { // invariant 5
		w.Fatalf("%s: the head is %v", c, s.Row.Head)
	}
	if faults, err := w.store.Verify(w.Context(), c); err != nil || len(faults) > 0 { // invariant 10
		w.Fatalf("%s: %q, %v", c, faults, err)
	}
	if s.Row.Fence < w.began[c] { // invariant 13
		w.Fatalf("%s: the fence fell from %d to %d", c, w.began[c], s.Row.Fence)
	}
	w.began[c] = s.Row.Fence
	last := int64(0)
	for _, f := range s.Facts {
		if f.Seq <= last || f.Seq > s.Row.LastSeq {
			w.Fatalf("%s: fact %d comes after %d, of %d", c, f.Seq, last, s.Row.LastSeq)
		}
		last = f.Seq
	}
}

// pathHolds checks what a model is given at an entry.
func (w *world) pathHolds(c access.ConversationID, e transcript.Entry) {
	ctx := w.Context()
	page, err1 := w.store.Path(ctx, transcript.PathQuery{Conversation: c, From: transcript.After(e.ID), Limit: transcript.MaxListed})
	given, err2 := w.store.Context(ctx, c, transcript.After(e.ID), transcript.MaxListed)
	if err := errors.Join(err1, err2); err != nil {
		w.Fatal(err)
	}
	on := map[transcript.EntryID]bool{}
	for _, p := range page.Entries {
		on[p.ID] = true
	}
	if int64(len(page.Entries)) != e.Depth {
		w.Fatalf("%s: the path to %s has %d entries, and its depth is %d", c, e.ID, len(page.Entries), e.Depth)
	}
	if k := e.Compaction; k != nil { // invariant 7
		for _, id := range append([]transcript.EntryID{k.FirstKept}, k.Pinned...) {
			if id != "" && !on[id] {
				w.Fatalf("%s: %s keeps %s, which is not on its path", c, e.ID, id)
			}
		}
	}
	last := int64(0)
	for _, g := range given { // in order, none twice, all on the path
		if !on[g.ID] || g.Depth <= last {
			w.Fatalf("%s: the context at %s has %s of depth %d after %d", c, e.ID, g.ID, g.Depth, last)
		}
		last = g.Depth
	}
	if err := strict(transcript.Project(given)); err != nil { // invariant 6
		w.Fatalf("%s at %s: %v", c, e.ID, err)
	}
}

// The invariants of spec §2.3 over whatever is asked of a store, sensible or
// not: a refusal writes nothing (11), nothing is written but to the transcript that is meant
// (8, 12), and what was written again is known (9).
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, store: memory.New(nil).Transcripts(), frozen: map[access.ConversationID]map[transcript.EntryID]transcript.Entry{}, began: map[access.ConversationID]int64{}}
		all := []access.ConversationID{"one", "two", "three"}
		for _, c := range all[:2] {
			if _, err := w.store.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := map[access.ConversationID]seen{}
			for _, c := range all {
				if s, there := w.look(c); there {
					before[c] = s
				}
			}
			wrote, err := access.ConversationID(""), error(nil)
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				wrote = w.talk()
				if _, there := before[wrote]; there {
					_, err = w.store.Create(t.Context(), wrote)
					wrote = "" // it is there
				} else {
					_, err = w.store.Create(t.Context(), wrote)
				}
			case 1:
				f := transcript.Fork{To: "three", From: w.talk(), At: w.somewhere(), Before: rapid.IntRange(0, 3).Draw(t, "before") == 3, ByReference: rapid.Bool().Draw(t, "by reference"), Refs: true}
				if _, err = w.store.Fork(t.Context(), f); err == nil && before[f.To].Row.Conversation == "" {
					wrote = f.To
				}
				err = nil
			case 2:
				_, err = w.store.Purge(t.Context(), 2)
			default:
				c := w.change()
				done, refused := w.store.Commit(t.Context(), c)
				if refused == nil && !done.Retried {
					wrote = c.Conversation
					for _, e := range c.Append {
						w.there = append(w.there, e.ID)
					}
					if c.Draft != nil {
						w.draft = c.Draft.ID
					}
				}
				if again, err := w.store.Commit(t.Context(), c); refused == nil && len(c.Append) > 0 && (err != nil || !again.Retried || cmp.Diff(again.Seqs, done.Seqs) != "") { // invariant 9
					t.Fatalf("%+v again: %+v, %v", c, again, err)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				now, there := w.look(c)
				if c != wrote && (there != (before[c].Row.Conversation != "") || cmp.Diff(before[c], now) != "") {
					t.Fatalf("%s was written to, and %q was meant: %s", c, wrote, cmp.Diff(before[c], now))
				}
				w.holds(c)
			}
		}
	})
}
