package transcripttest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// refs lists the refs of talk.
func (b *bench) refs() []transcript.Ref {
	b.Helper()
	refs, err := b.store.Refs(b.Context(), talk)
	if err != nil {
		b.Fatalf("Refs: %v", err)
	}
	return refs
}

func refers(name string, to transcript.Position, version int64) transcript.Change {
	return transcript.Change{Refs: []transcript.RefChange{{Name: name, To: to, Version: version}}}
}

func labels(e transcript.EntryID, label string) transcript.Change {
	return transcript.Change{Labels: []transcript.LabelChange{{Entry: e, Label: label}}}
}

func unlabels(e transcript.EntryID, label string) transcript.Change {
	return transcript.Change{Labels: []transcript.LabelChange{{Entry: e, Label: label, Remove: true}}}
}

func nameChecks() []check {
	stale := func(actual int64) func(error) bool {
		return func(err error) bool {
			var ve *transcript.VersionError
			return errors.As(err, &ve) && ve.Of == "ref" && ve.Actual == actual
		}
	}
	return []check{
		{"refs", "A ref is made, moved and removed by its version, and listed by name; it moves no head.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			before := b.load(talk)
			b.commit(refers("main", transcript.After("a"), 0))
			b.commit(refers("B", transcript.BeforeRoot(), -1))
			b.same("the refs", b.refs(), []transcript.Ref{{Name: "B", At: transcript.BeforeRoot(), Version: 1}, {Name: "main", At: transcript.After("a"), Version: 1}})
			b.refuses("made again", refers("main", transcript.After("b"), 0), stale(1), "main")
			b.commit(refers("main", transcript.After("b"), 1))
			b.commit(refers("main", transcript.After("a"), -1)) // whatever it is
			b.refuses("moved as it was", refers("main", transcript.After("b"), 2), stale(3), "main")
			b.refuses("removed as it was", refers("main", head(), 2), stale(3), "main")
			b.refuses("moved to nothing", refers("main", transcript.After("zz"), 3), is(transcript.ErrNotFound), "zz")
			b.refuses("one that is not there", refers("none", transcript.After("a"), 1), stale(0), "none")
			b.same("the refs", b.refs(), []transcript.Ref{{Name: "B", At: transcript.BeforeRoot(), Version: 1}, {Name: "main", At: transcript.After("a"), Version: 3}})
			b.commit(refers("main", head(), 3))
			b.commit(refers("main", head(), 0)) // there is none
			b.same("the refs", b.refs(), []transcript.Ref{{Name: "B", At: transcript.BeforeRoot(), Version: 1}})
			if t := b.load(talk); t.Head != before.Head || t.Version != before.Version {
				b.Errorf("the head is %v in version %d", t.Head, t.Version)
			}
			var happened []string
			for _, f := range b.facts(talk, before.LastSeq, 0) {
				happened = append(happened, fmt.Sprint(f.Kind, " ", f.Ref, " ", f.At))
			}
			b.same("what happened", happened, []string{
				"ref_moved main after a", "ref_moved B before the root", "ref_moved main after b", "ref_moved main after a", "ref_removed main nowhere",
			})
		}},
		{"refs-limit", "There are a thousand refs at most: *LimitError.", func(b *bench) {
			b.create(talk)
			var c transcript.Change
			for _, name := range numbered("r", transcript.MaxRefs) {
				c.Refs = append(c.Refs, transcript.RefChange{Name: string(name), To: transcript.BeforeRoot()})
			}
			b.commit(c)
			b.refuses("one more", refers("more", transcript.BeforeRoot(), 0), as[*transcript.LimitError])
			b.commit(transcript.Change{Refs: []transcript.RefChange{{Name: "r0000", Version: 1}, {Name: "more", To: transcript.BeforeRoot()}}})
			if refs := b.refs(); len(refs) != transcript.MaxRefs || refs[0].Name != "more" {
				b.Errorf("got %d refs, the first %+v", len(refs), refs[0])
			}
		}},
		{"labels", "A label is put on and taken off any entry; either twice is as once.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			b.commit(drafts(asks("d")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			after := b.load(talk).LastSeq
			entry := b.get(talk, "a")
			for _, c := range []transcript.Change{
				labels("a", "x"), labels("a", "x"), labels("a", "w"), labels("b", "x"), labels("d", "x"), unlabels("a", "w"), unlabels("a", "w"), unlabels("b", "none"), labels("a", "m"),
			} {
				b.commit(c)
			}
			got := map[transcript.EntryID][]string{}
			for _, h := range b.headers(transcript.HeaderQuery{Conversation: talk}) {
				got[h.ID] = h.Labels
			}
			b.same("the labels", got, map[transcript.EntryID][]string{"a": {"m", "x"}, "b": {"x"}, "d": {"x"}})
			b.same("those with x", headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, Label: "x", Limit: 1})), []transcript.EntryID{"a", "b", "d"})
			b.same("those with X", headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, Label: "X"})), []transcript.EntryID{})
			b.same("the entry", b.get(talk, "a"), entry)
			var happened []string
			for _, f := range b.facts(talk, after, 0) {
				happened = append(happened, fmt.Sprint(f.Kind, " ", f.Entry, " ", f.Label))
			}
			b.same("what happened", happened, []string{
				"labelled a x", "labelled a w", "labelled b x", "labelled d x", "unlabelled a w", "labelled a m",
			})
			b.refuses("on nothing", labels("zz", "x"), is(transcript.ErrNotFound), "zz", string(talk))
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("c")}, Labels: labels("c", "new").Labels})
			b.same("those that are new", headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, Label: "new"})), []transcript.EntryID{"c"})
		}},
		{"labels-limit", "An entry has a hundred labels at most: *LimitError.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			var c transcript.Change
			for _, name := range numbered("l", transcript.MaxLabels) {
				c.Labels = append(c.Labels, transcript.LabelChange{Entry: "a", Label: string(name)})
			}
			b.commit(c)
			b.refuses("one more", labels("a", "more"), as[*transcript.LimitError])
			b.commit(labels("a", "l0000")) // is there
			b.commit(transcript.Change{Labels: slices.Concat(unlabels("a", "l0000").Labels, labels("a", "more").Labels)})
			if h := b.headers(transcript.HeaderQuery{Conversation: talk}); len(h[0].Labels) != transcript.MaxLabels || !slices.Contains(h[0].Labels, "more") {
				b.Errorf("got %d labels", len(h[0].Labels))
			}
		}},
	}
}

func statusChecks() []check {
	return []check{
		{"archive", "One that is archived is read as before and takes nothing until it is restored.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
			before := b.load(talk)
			done := b.commit(transcript.Change{Version: before.Version, Status: transcript.Archived})
			if t := done.Transcript; t.Status != transcript.Archived || t.Version <= before.Version {
				b.Errorf("got %+v", t)
			}
			for what, c := range map[string]transcript.Change{
				"an append": {Append: []transcript.NewEntry{asks("c")}}, "a moved head": {Head: transcript.After("a")}, "a settlement": settles("b", "c1", transcript.CallFailed, ""),
				"a start": starts("b", "c1"), "a draft": drafts(asks("c")), "a label": labels("a", "x"), "a ref": refers("r", transcript.After("a"), 0), "a turn": {Fence: 1, Begin: true},
				"an append that restores it": {Append: []transcript.NewEntry{asks("c")}, Status: transcript.Active},
			} {
				b.refuses(what, c, is(transcript.ErrArchived), string(talk))
			}
			b.refuses("the version before", transcript.Change{Version: before.Version, Status: transcript.Active}, as[*transcript.VersionError])
			b.commit(transcript.Change{Status: transcript.Active})
			b.commit(transcript.Change{Status: transcript.Active}) // is
			b.grow(talk, head(), "c")
			var happened []string
			for _, f := range b.facts(talk, before.LastSeq, 0) {
				happened = append(happened, fmt.Sprint(f.Kind, " ", f.Entry, " ", f.To))
			}
			b.same("what happened", happened, []string{"call_settled b ", "status_changed  archived", "status_changed  active", "entry_appended c "})
		}},
		{"archive-open", "What is archived leaves nothing open: calls are interrupted by the same commit, and a draft is given up. (case 5)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("z", "c1", "c2", "c3"), calls("b", "c1", "c0")}})
			b.commit(starts("z", "c2"))
			b.commit(settles("z", "c3", transcript.CallSucceeded, `{}`))
			b.commit(drafts(calls("d", "c9")))
			if _, err := b.store.Fork(b.Context(), transcript.Fork{From: talk, To: other, ByReference: true}); err != nil {
				b.Fatalf("Fork: %v", err)
			}
			before := b.load(talk)
			b.refuses("with a version that it has not", transcript.Change{Version: before.Version + 1, Status: transcript.Archived}, as[*transcript.VersionError])
			c := settles("b", "c1", transcript.CallDenied, "")
			c.Status = transcript.Archived
			b.commit(c)
			if open := b.open(); len(open.Calls) > 0 || open.Draft != nil {
				b.Errorf("open are %+v", open)
			}
			if all, err := b.store.Unfinished(b.Context(), "", 10); err != nil || len(all) > 0 {
				b.Errorf("unfinished are %v, %v", all, err)
			}
			for at, want := range map[transcript.CallAddress]transcript.CallStatus{
				{Entry: "z", Call: "c1"}: transcript.CallInterrupted, {Entry: "z", Call: "c2"}: transcript.CallInterrupted, {Entry: "z", Call: "c3"}: transcript.CallSucceeded,
				{Entry: "b", Call: "c1"}: transcript.CallDenied, {Entry: "b", Call: "c0"}: transcript.CallInterrupted, {Entry: "d", Call: "c9"}: transcript.CallInterrupted,
			} {
				if got := b.call(at.Entry, at.Call); got.Status != want {
					b.Errorf("call %s of %s is %s, want %s", at.Call, at.Entry, got.Status, want)
				}
			}
			if !b.get(talk, "d").Aborted {
				b.Errorf("the draft is no entry that was given up")
			}
			var happened []string
			for _, f := range b.facts(talk, before.LastSeq, 0) {
				line := fmt.Sprint(f.Kind, " ", f.Entry)
				if f.Call != nil {
					line += fmt.Sprint(" ", f.Call.ID, " ", f.Call.Status)
				}
				happened = append(happened, line)
			}
			b.same("what happened", happened, []string{
				"call_settled b c1 denied", "call_settled z c1 interrupted", "call_settled z c2 interrupted", "call_settled b c0 interrupted", "entry_aborted d", "status_changed ",
			})
			b.commit(transcript.Change{Status: transcript.Active})
			b.commit(settles("z", "c1", transcript.CallInterrupted, "")) // is
			b.sound(talk)
			b.sound(other)
		}},
		{"delete", "One that is deleted is gone for everybody, from every list, and takes nothing; others stay. (invariant 12)", func(b *bench) {
			b.create(talk)
			b.create(other)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
			b.grow(other, head(), "a")
			kept := b.picture(other)
			done := b.commit(transcript.Change{Status: transcript.Deleted})
			if done.Transcript.Status != transcript.Deleted {
				b.Errorf("got %+v", done.Transcript)
			}
			b.absent(talk)
			if all, err := b.store.Unfinished(b.Context(), "", 10); err != nil || len(all) > 0 {
				b.Errorf("unfinished are %v, %v", all, err)
			}
			b.same("the other", b.picture(other), kept)
		}},
		{"delete-and-make", "One that is made again under the name of a deleted one is another: it has nothing of it. (case 55)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{
				Fence: 9, Begin: true, End: true, Append: full(), Labels: labels("state", "x").Labels, Refs: refers("r", transcript.BeforeRoot(), 0).Refs,
			})
			b.commit(drafts(asks("d")))
			b.commit(transcript.Change{Status: transcript.Deleted})
			t := b.create(talk)
			b.same("the row", t, transcript.Empty(talk, t.CreatedAt))
			p := b.picture(talk)
			if len(p.Timeline)+len(p.Headers)+len(p.Facts)+len(p.Refs)+len(p.Open.Calls) > 0 || p.Open.Draft != nil {
				b.Errorf("it has something of the old one: %+v", p)
			}
			if got, err := b.store.Get(b.Context(), talk, "state"); err != nil || len(got) > 0 {
				b.Errorf("got %v, %v", got, err)
			}
			if done := b.commit(transcript.Change{Append: full()[:1]}); done.Retried {
				b.Errorf("an entry of the old one is known")
			}
			want := b.picture(talk)
			for range 100 {
				n, err := b.store.Purge(b.Context(), 3)
				if err != nil || n == 0 {
					break
				}
			}
			b.same("after the old one's rows are gone", b.picture(talk), want)
		}},
	}
}
