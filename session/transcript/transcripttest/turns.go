package transcripttest

import (
	"strings"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func turnChecks() []check {
	// writes is everything that only a turn does while there is one.
	writes := func() map[string]transcript.Change {
		return map[string]transcript.Change{
			"an append": {Append: []transcript.NewEntry{asks("new")}}, "a moved head": {Head: transcript.BeforeRoot()},
			"a start": starts("b", "c1"), "a settlement": settles("b", "c1", transcript.CallFailed, ""),
			"a draft": drafts(asks("new")), "an abort": {Abort: []transcript.EntryID{"d"}},
		}
	}
	prepared := func(b *bench) {
		b.Helper()
		b.create(talk)
		b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b", "c1", "c2")}})
		c := drafts(asks("d"))
		c.Fence, c.Begin = 5, true
		b.commit(c)
	}
	return []check{
		{"turn", "A turn is begun with its fence, writes with it, and ends; what is at its ends is a fact.", func(b *bench) {
			b.create(talk)
			version := b.load(talk).Version
			done := b.commit(transcript.Change{Fence: 5, Begin: true})
			if t := done.Transcript; t.Fence != 5 || !t.InTurn || t.Version != version {
				b.Errorf("got %+v", t)
			}
			b.commit(transcript.Change{Fence: 5, Begin: true}) // again: nothing is changed
			b.commit(transcript.Change{Fence: 5, Append: []transcript.NewEntry{asks("a")}})
			b.commit(transcript.Change{Fence: 5, End: true, Append: []transcript.NewEntry{asks("b")}})
			if t := b.load(talk); t.Fence != 5 || t.InTurn {
				b.Errorf("got %+v", t)
			}
			var happened []string
			for _, f := range b.facts(talk, 0, 0) {
				happened = append(happened, string(f.Kind)+" "+string(f.Entry)+strings.Repeat("+", int(f.Fence)))
			}
			b.same("what happened", happened, []string{"turn_begun +++++", "entry_appended a", "entry_appended b", "turn_ended +++++"})
		}},
		{"no-turn", "While there is a turn, what is of none appends, moves, settles and keeps nothing: ErrInTurn; words on entries and names of places are free.", func(b *bench) {
			prepared(b)
			all := writes()
			all["a status"] = transcript.Change{Status: transcript.Archived}
			all["the end"] = transcript.Change{Status: transcript.Deleted}
			for what, c := range all {
				b.refuses(what, c, is(transcript.ErrInTurn), string(talk))
			}
			b.commit(transcript.Change{
				Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}, Refs: []transcript.RefChange{{Name: "r", To: transcript.After("a")}},
			})
			b.commit(transcript.Change{Fence: 5, End: true})
			b.grow(talk, head(), "c")
		}},
		{"fenced", "Of two turns only the one that was begun last writes, however late the other comes: ErrFenced. (case 3, invariant 13)", func(b *bench) {
			prepared(b)
			b.commit(transcript.Change{Fence: 7, Begin: true}) // takes over, the first has not ended
			all := writes()
			all["a beginning"] = transcript.Change{Begin: true}
			all["an end"] = transcript.Change{End: true}
			all["a label"] = transcript.Change{Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}}
			all["nothing at all"] = transcript.Change{}
			for what, c := range all {
				c.Fence = 5
				b.refuses(what, c, is(transcript.ErrFenced), string(talk))
				if !c.Begin {
					c.Fence = 8 // of a turn that was never begun
					b.refuses(what+" of one to come", c, is(transcript.ErrFenced), string(talk))
				}
			}
			b.commit(transcript.Change{Fence: 7, Append: []transcript.NewEntry{asks("c")}})
		}},
		{"taken-over", "Whoever takes over finds what was left unfinished, and settles it. (cases 5, 58)", func(b *bench) {
			prepared(b)
			c := starts("b", "c2")
			c.Fence = 5
			b.commit(c)
			b.commit(transcript.Change{Fence: 6, Begin: true})
			open := b.open()
			if open.Conversation != talk || open.Fence != 6 || !open.InTurn || open.Draft == nil || open.Draft.ID != "d" || len(open.Calls) != 2 {
				b.Fatalf("unfinished is %+v", open)
			}
			end := transcript.Change{Fence: 6, Abort: []transcript.EntryID{open.Draft.ID}}
			for i, call := range open.Calls {
				want := b.call("b", transcript.CallID([]string{"c1", "c2"}[i]))
				b.same("an open call", call, transcript.OpenCall{Entry: "b", Call: want})
				end.Settle = append(end.Settle, transcript.Settlement{CallAddress: transcript.CallAddress{Entry: call.Entry, Call: call.Call.ID}, Status: transcript.CallInterrupted})
			}
			b.commit(end)
			late := settles("b", "c2", transcript.CallSucceeded, `{}`)
			late.Fence = 5
			b.refuses("the result of the older turn", late, is(transcript.ErrFenced))
			if open := b.open(); open.Draft != nil || len(open.Calls) != 0 {
				b.Errorf("unfinished is %+v", open)
			}
			b.sound(talk)
		}},
		{"turn-ended", "What comes after the end of its turn is ErrFenced, its beginning too, but for what had been written. (case 3)", func(b *bench) {
			prepared(b)
			first := transcript.Change{Fence: 5, Append: []transcript.NewEntry{asks("c")}}
			b.commit(first)
			b.commit(transcript.Change{Fence: 5, End: true, Abort: []transcript.EntryID{"d"}})
			for what, c := range writes() {
				c.Fence = 5
				b.refuses(what, c, is(transcript.ErrFenced), string(talk))
			}
			b.refuses("its end again", transcript.Change{Fence: 5, End: true}, is(transcript.ErrFenced))
			b.refuses("an older one", transcript.Change{Fence: 4, Begin: true}, is(transcript.ErrFenced))
			if done := b.commit(first); !done.Retried {
				b.Errorf("a repeated append is no retry")
			}
			b.refuses("its beginning, late", transcript.Change{Fence: 5, Begin: true}, is(transcript.ErrFenced), string(talk))
			for what, c := range writes() {
				c.Fence, c.Begin = 5, true
				b.refuses("its beginning with "+what, c, is(transcript.ErrFenced), string(talk))
			}
			if t := b.load(talk); t.InTurn || t.Fence != 5 {
				b.Errorf("got %+v", t)
			}
			b.grow(talk, head(), "f") // of none
			b.commit(transcript.Change{Fence: 6, Begin: true})
			b.refuses("its beginning, while a newer one is under way", transcript.Change{Fence: 5, Begin: true}, is(transcript.ErrFenced), string(talk))
			b.commit(transcript.Change{Fence: 6, End: true})
		}},
	}
}
