package transcripttest

import (
	"github.com/bunkroom/bunkroom/session/transcript"
)

// open reads what is unfinished in a transcript.
func (b *bench) open() transcript.Open {
	b.Helper()
	open, err := b.store.Unsettled(b.Context(), talk)
	if err != nil {
		b.Fatalf("Unsettled: %v", err)
	}
	return open
}

func drafts(e transcript.NewEntry) transcript.Change {
	return transcript.Change{Draft: &transcript.Draft{NewEntry: e}}
}

func draftChecks() []check {
	return []check{
		{"draft", "A draft is kept whole and apart: on no path, in no list, no fact, until it is appended. (invariant 4)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			before := b.picture(talk)
			first := calls("d", "c1")
			b.commit(drafts(first))
			b.same("the draft", b.open().Draft, &transcript.Draft{NewEntry: first, After: transcript.After("a")})
			whole := full()[1]
			whole.ID = "d"
			whole.Parts[1].Data = data(2*transcript.InlineBytes, "x")
			b.commit(drafts(whole))
			b.same("the draft, saved again", b.open().Draft, &transcript.Draft{NewEntry: whole, After: transcript.After("a")})
			during := b.picture(talk)
			if during.Open.Draft == nil || len(during.Open.Calls) > 0 {
				b.Errorf("unfinished is %+v", during.Open)
			}
			during.Open, during.Row.UpdatedAt = before.Open, before.Row.UpdatedAt
			b.same("beside the draft", during, before)
			b.commit(transcript.Change{Append: []transcript.NewEntry{whole}})
			if d := b.open().Draft; d != nil {
				b.Errorf("it is a draft still: %+v", d)
			}
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "d"})
			b.sound(talk)
		}},
		{"draft-after", "A draft remembers what it follows: the head as it was, or what it was told.", func(b *bench) {
			b.create(talk)
			b.commit(drafts(asks("d")))
			b.same("in an empty one", b.open().Draft.After, transcript.BeforeRoot())
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			b.grow(talk, head(), "a", "b")
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("e"), After: transcript.After("a")}})
			b.same("where it was told", b.open().Draft.After, transcript.After("a"))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"e"}})
			if e := b.get(talk, "e"); e.Parent != transcript.After("a") || e.Depth != 2 {
				b.Errorf("given up it is after %v, of depth %d", e.Parent, e.Depth)
			}
			b.refuses("after nothing", transcript.Change{Draft: &transcript.Draft{NewEntry: asks("f"), After: transcript.After("zz")}}, is(transcript.ErrNotFound), "zz")
			b.refuses("after what was given up", transcript.Change{Draft: &transcript.Draft{NewEntry: asks("f"), After: transcript.After("e")}}, as[*transcript.PathError], "e")
		}},
		{"draft-one", "There is one draft at most: another id is *PathError, until the first is given up. (invariant 4)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(drafts(asks("d")))
			b.refuses("a second", drafts(asks("e")), as[*transcript.PathError], "e")
			b.refuses("what is in the tree", transcript.Change{Draft: &transcript.Draft{NewEntry: asks("a")}, Abort: []transcript.EntryID{"d"}}, as[*transcript.PathError], "a")
			c := drafts(asks("e"))
			c.Abort = []transcript.EntryID{"d"}
			b.commit(c)
			if d := b.open().Draft; d == nil || d.ID != "e" {
				b.Errorf("the draft is %+v", d)
			}
			if e := b.get(talk, "d"); !e.Aborted {
				b.Errorf("the first was not given up")
			}
			b.refuses("what was given up", drafts(asks("d")), as[*transcript.PathError], "d")
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("x")}}) // beside it
			if d := b.open().Draft; d == nil || d.ID != "e" {
				b.Errorf("another entry ended the draft: %+v", d)
			}
		}},
		{"abort", "What is given up is in the timeline and on no path; its calls are interrupted, and nothing follows it. (invariant 4)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			given := calls("d", "c1", "c2")
			given.Parts[2].Call.Status = transcript.CallSucceeded
			given.Usage = transcript.Usage{Output: 7}
			b.commit(drafts(given))
			before := b.load(talk)
			done := b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			if t := done.Transcript; t.Head != before.Head || t.Version != before.Version || t.Entries != before.Entries+1 || t.Usage != given.Usage || t.Bytes <= before.Bytes {
				b.Errorf("got %+v after %+v", t, before)
			}
			got := b.get(talk, "d")
			if !got.Aborted || got.Parent != transcript.After("a") || got.Depth != 2 || got.Seq <= before.LastSeq {
				b.Errorf("got %+v", got)
			}
			if c1, c2 := b.call("d", "c1"), b.call("d", "c2"); c1.Status != transcript.CallInterrupted || c2.Status != transcript.CallSucceeded {
				b.Errorf("its calls are %s and %s", c1.Status, c2.Status)
			}
			b.grow(talk, head(), "b")
			p := b.picture(talk)
			b.same("the timeline", ids(p.Timeline), []transcript.EntryID{"b", "d", "a"})
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "b"})
			b.same("the children of a", p.At["a"].Children, []transcript.EntryID{"b"})
			b.same("the tips", p.Tips, []transcript.EntryID{"b"})
			for _, h := range p.Headers {
				if h.Aborted != (h.ID == "d") || h.ID == "a" && h.Children != 1 {
					b.Errorf("header %+v", h)
				}
			}
			b.same("what happened", p.Facts[1], transcript.Fact{Seq: got.Seq, Kind: transcript.FactAborted, Entry: "d"})
			b.sound(talk)
		}},
		{"abort-again", "To give up what was given up changes nothing; what never was a draft is ErrNotFound.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(drafts(asks("d")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			b.commit(drafts(asks("e")))
			before := b.picture(talk)
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			after := b.picture(talk)
			after.Row.UpdatedAt = before.Row.UpdatedAt
			b.same("after it was given up again", after, before)
			b.refuses("nothing", transcript.Change{Abort: []transcript.EntryID{"zz"}}, is(transcript.ErrNotFound), "zz", string(talk))
			b.refuses("an entry", transcript.Change{Abort: []transcript.EntryID{"a"}}, is(transcript.ErrNotFound), "a")
		}},
		{"abort-and-append", "A change gives one draft up and appends another entry.", func(b *bench) {
			b.create(talk)
			b.commit(drafts(asks("d")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}, Append: []transcript.NewEntry{asks("a")}})
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a"})
			if d := b.open().Draft; d != nil {
				b.Errorf("the draft is there: %+v", d)
			}
			b.sound(talk)
		}},
	}
}
