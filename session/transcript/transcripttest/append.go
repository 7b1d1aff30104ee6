package transcripttest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func appendChecks() []check {
	return []check{
		{"append", "What is appended is a chain after the head, numbered as it is committed, and the head moves with it. (invariants 1, 2, 11)", func(b *bench) {
			b.create(talk)
			first := b.grow(talk, head(), "a", "b")
			second := b.grow(talk, head(), "c")
			b.same("the row of the answer", second.Transcript, b.load(talk))
			got := b.path(talk, head())
			b.same("the path", ids(got), []transcript.EntryID{"a", "b", "c"})
			seqs := append(first.Seqs, second.Seqs...)
			last := int64(0)
			for i, e := range got {
				if e.Seq != seqs[i] || e.Seq <= last || e.Depth != int64(i+1) {
					b.Errorf("%s has seq %d and depth %d, was answered %d, after %d", e.ID, e.Seq, e.Depth, seqs[i], last)
				}
				last = e.Seq
			}
			if t := second.Transcript; t.Head != transcript.After("c") || t.Version <= first.Transcript.Version || t.LastSeq < last {
				b.Errorf("after seq %d: %+v", last, t)
			}
		}},
		{"sums", "The sums of a transcript are those over its entries. (invariant 10)", func(b *bench) {
			b.create(talk)
			one, two := asks("a"), asks("b")
			one.Usage = transcript.Usage{Input: 10, Output: 20, CacheRead: 30, CacheWrite: 40, CostMicros: 50}
			two.Usage = transcript.Usage{Input: 1, CostMicros: 5}
			b.commit(transcript.Change{Append: []transcript.NewEntry{one}})
			b.commit(transcript.Change{Append: []transcript.NewEntry{two}, After: transcript.BeforeRoot()})
			t := b.load(talk)
			if t.Entries != 2 || t.Usage != one.Usage.Add(two.Usage) || t.Inherited != (transcript.Usage{}) {
				b.Errorf("got %d entries with %+v", t.Entries, t.Usage)
			}
			var want int64
			for _, e := range []transcript.NewEntry{one, two} {
				sealed, err := transcript.Seal(e)
				if err != nil {
					b.Fatalf("Seal: %v", err)
				}
				want += sealed.Bytes
			}
			if t.Bytes != want {
				b.Errorf("got %d bytes, want %d", t.Bytes, want)
			}
			if usage, err := b.store.PathUsage(b.Context(), talk, head()); err != nil || usage != two.Usage {
				b.Errorf("the path of the second took %+v, %v; want %+v", usage, err, two.Usage)
			}
			b.sound(talk)
		}},
		{"branch", "What follows an entry that has followers already is a branch; all branches stay.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b", "c")
			b.grow(talk, transcript.After("a"), "d", "e")
			b.grow(talk, transcript.After("d"), "f")
			b.grow(talk, transcript.BeforeRoot(), "g") // another root
			b.grow(talk, transcript.After("c"), "h")   // goes on where nothing follows
			for tip, want := range map[transcript.EntryID][]transcript.EntryID{
				"h": {"a", "b", "c", "h"}, "e": {"a", "d", "e"}, "f": {"a", "d", "f"}, "g": {"g"}, "c": {"a", "b", "c"},
			} {
				b.same("the path to "+string(tip), ids(b.path(talk, transcript.After(tip))), want)
			}
			p := b.picture(talk)
			b.same("the tips", p.Tips, []transcript.EntryID{"e", "f", "g", "h"})
			b.same("the roots", p.Roots, []transcript.EntryID{"a", "g"})
			b.same("the children of a", p.At["a"].Children, []transcript.EntryID{"b", "d"})
			b.sound(talk)
		}},
		{"keep-head", "An append can leave the head where it is.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			before := b.load(talk)
			done := b.commit(transcript.Change{Append: []transcript.NewEntry{asks("c")}, After: transcript.After("a"), KeepHead: true})
			if done.Transcript.Head != before.Head || done.Transcript.Version != before.Version || done.Transcript.Entries != 3 {
				b.Errorf("got %+v after %+v", done.Transcript, before)
			}
			b.grow(talk, head(), "d")
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "b", "d"})
			b.same("the other", ids(b.path(talk, transcript.After("c"))), []transcript.EntryID{"a", "c"})
		}},
		{"parent", "Nothing follows what is not there, or was given up. (invariants 2, 4)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("draft")}})
			b.refuses("after a draft", transcript.Change{Append: []transcript.NewEntry{asks("b")}, After: transcript.After("draft")}, is(transcript.ErrNotFound), "draft", string(talk))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"draft"}})
			b.refuses("after nothing", transcript.Change{Append: []transcript.NewEntry{asks("b")}, After: transcript.After("zz")}, is(transcript.ErrNotFound), "zz", string(talk))
			b.refuses("after what was given up", transcript.Change{Append: []transcript.NewEntry{asks("b")}, After: transcript.After("draft")}, as[*transcript.PathError], "draft")
		}},
		{"whole", "A change is written as a whole, or nothing of it. (invariant 11)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("draft")}})
			all := transcript.Change{
				Fence: 3, Begin: true, End: true,
				Append: []transcript.NewEntry{asks("c"), asks("draft")}, After: transcript.After("a"),
				Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "b", Call: "c1"}, Status: transcript.CallFailed}},
				Refs:   []transcript.RefChange{{Name: "main", To: transcript.After("draft")}},
				Labels: []transcript.LabelChange{{Entry: "c", Label: "x"}, {Entry: "b", Label: "y"}},
			}
			for what, spoilt := range map[string]func(*transcript.Change){
				"a label": func(c *transcript.Change) {
					c.Labels = append(c.Labels, transcript.LabelChange{Entry: "zz", Label: "z"})
				},
				"a ref": func(c *transcript.Change) {
					c.Refs = append(c.Refs, transcript.RefChange{Name: "no", To: transcript.After("zz")})
				},
				"a call":   func(c *transcript.Change) { c.Start = []transcript.CallAddress{{Entry: "b", Call: "zz"}} },
				"an abort": func(c *transcript.Change) { c.Abort = []transcript.EntryID{"zz"} },
			} {
				c := all
				spoilt(&c)
				b.refuses("with "+what+" of nothing", c, is(transcript.ErrNotFound), "zz")
			}
			b.commit(all)
			p := b.picture(talk)
			if p.Row.Fence != 3 || p.Row.InTurn || p.Row.Head != transcript.After("draft") || len(p.Refs) != 1 || len(p.Open.Calls) != 0 || p.Open.Draft != nil {
				b.Errorf("not all of it was written: %+v", p.Row)
			}
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "c", "draft"})
			kinds := map[transcript.FactKind]int{}
			for _, f := range p.Facts {
				kinds[f.Kind]++
			}
			b.same("what happened", kinds, map[transcript.FactKind]int{
				transcript.FactAppended: 4, transcript.FactTurnBegun: 1, transcript.FactTurnEnded: 1, transcript.FactCallSettled: 1,
				transcript.FactRefMoved: 1, transcript.FactLabelled: 2,
			})
			b.sound(talk)
		}},
		{"batch", "A thousand entries go in at once.", func(b *bench) {
			b.create(talk)
			want := numbered("e", transcript.MaxAppend)
			done := b.grow(talk, head(), want...)
			if len(done.Seqs) != len(want) || done.Transcript.Entries != int64(len(want)) {
				b.Errorf("got %d seqs and %d entries", len(done.Seqs), done.Transcript.Entries)
			}
			b.same("the path", ids(b.pathWith(transcript.PathQuery{Conversation: talk, Limit: transcript.MaxListed})), want)
			b.grow(talk, transcript.After(want[499]), "branch")
			got := b.pathWith(transcript.PathQuery{Conversation: talk, Limit: 300})
			if len(got) != 501 || got[499].ID != want[499] {
				b.Errorf("the path of a branch has %d entries", len(got))
			}
			b.sound(talk)
		}},
		{"too-large", "An entry over its limit is *LimitError, a draft too.", func(b *bench) {
			b.create(talk)
			huge := asks("a")
			huge.Parts[0].Data = json.RawMessage(`{"text":"` + strings.Repeat("x", transcript.MaxEntryBytes) + `"}`)
			b.refuses("over the limit of an entry", transcript.Change{Append: []transcript.NewEntry{huge}}, as[*transcript.LimitError])
			huge.ID = "draft"
			b.refuses("a draft over the limit", transcript.Change{Draft: &transcript.Draft{NewEntry: huge}}, as[*transcript.LimitError])
		}},
		{"allowed", "An append over what the caller allows is *LimitError; up to that it is written.", func(b *bench) {
			b.create(talk)
			done := b.grow(talk, head(), "b")
			size := done.Transcript.Bytes
			next := asks("c") // just as long
			b.refuses("over what is allowed", transcript.Change{Append: []transcript.NewEntry{next}, MaxBytes: 2*size - 1}, as[*transcript.LimitError])
			b.commit(transcript.Change{Append: []transcript.NewEntry{next}, MaxBytes: 2 * size})
		}},
		{"compaction-path", "What a compaction keeps is on its own path; what it pins is before that, in order. (invariant 7)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b", "c", "d")
			b.grow(talk, transcript.After("a"), "x")
			compact := func(first transcript.EntryID, pinned ...transcript.EntryID) transcript.Change {
				return transcript.Change{After: transcript.After("d"), Append: []transcript.NewEntry{
					asks("e"),
					{ID: "k", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "s", FirstKept: first, Pinned: pinned}},
				}}
			}
			for what, c := range map[string]transcript.Change{
				"the first kept on another branch": compact("x"),
				"the first kept nowhere":           compact("zz"),
				"the first kept itself":            compact("k"),
				"a pin on another branch":          compact("d", "x"),
				"pins out of order":                compact("d", "c", "b"),
				"a pin twice":                      compact("d", "b", "b"),
				"a pin after the first kept":       compact("b", "c"),
			} {
				b.refuses(what, c, as[*transcript.PathError], "k")
			}
			b.commit(compact("e", "a", "c"))
			given, err := b.store.Context(b.Context(), talk, head(), enough)
			if err != nil {
				b.Fatalf("Context: %v", err)
			}
			b.same("the context", ids(given), []transcript.EntryID{"a", "c", "e", "k"})
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "b", "c", "d", "e", "k"})
		}},
	}
}

// sound expects that the sums are right and the rows hang together.
func (b *bench) sound(c access.ConversationID) {
	b.Helper()
	if faults, err := b.store.Verify(b.Context(), c); err != nil || len(faults) > 0 {
		b.Errorf("Verify: %q, %v", faults, err)
	}
}

// data is JSON of so many bytes, of text that repeats.
func data(n int, of string) json.RawMessage {
	const around = len(`{"text":""}`)
	text := bytes.Repeat([]byte(of), (n-around)/len(of)+1)[:n-around]
	return json.RawMessage(`{"text":"` + string(text) + `"}`)
}
