package transcripttest

import (
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// fork makes a fork, which must succeed.
func (b *bench) fork(f transcript.Fork) transcript.Transcript {
	b.Helper()
	t, err := b.store.Fork(b.Context(), f)
	if err != nil {
		b.Fatalf("Fork(%+v): %v", f, err)
	}
	return t
}

// purge removes all that can be removed, a few rows at a time, and returns how many.
func (b *bench) purge(limit int) (total int) {
	b.Helper()
	for range 100_000 {
		n, err := b.store.Purge(b.Context(), limit)
		if err != nil || n > limit {
			b.Fatalf("Purge(%d): %d, %v", limit, n, err)
		}
		if n == 0 {
			return total
		}
		total += n
	}
	b.Fatalf("Purge does not end")
	return total
}

// both runs f for a fork by copy and for one by reference.
func both(f func(byReference bool, to access.ConversationID)) {
	f(false, other)
	f(true, third)
}

func forkChecks() []check {
	return []check{
		{"fork", "A fork has exactly the path it begins with: no sibling, nothing said later; entries as they are. (cases 10, 19, 59)", func(b *bench) {
			b.create(talk)
			b.bush()
			b.commit(transcript.Change{Append: full()})
			b.grow(talk, transcript.After("g"), "later")
			source := b.picture(talk)
			both(func(byReference bool, to access.ConversationID) {
				t := b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("k"), ByReference: byReference})
				b.same("the row", t, b.load(to))
				if t.Head != transcript.After("k") || t.Entries != 0 || t.Bytes != 0 || t.Usage != (transcript.Usage{}) || t.Status != transcript.Active || t.Version == 0 || t.InTurn || t.Fence != 0 {
					b.Errorf("got %+v", t)
				}
				if l := t.Lineage; l.Conversation != talk || l.At != transcript.After("k") || l.Seq != source.Row.LastSeq || t.LastSeq <= l.Seq {
					b.Errorf("its lineage is %+v, its newest %d", l, t.LastSeq)
				}
				p := b.picture(to)
				b.same("the timeline", ids(p.Timeline), []transcript.EntryID{"k", "j", "g", "f", "b", "a"})
				b.same("the tips", p.Tips, []transcript.EntryID{"k"})
				b.same("what follows b", p.At["b"].Children, []transcript.EntryID{"f"})
				b.same("the path", b.path(to, head()), b.path(talk, transcript.After("k")))
				b.same("what happened", p.Facts, []transcript.Fact{{Seq: t.LastSeq, Kind: transcript.FactForked, At: transcript.After("k")}})
				for _, id := range []transcript.EntryID{"h", "later", "e"} {
					if got, err := b.store.Get(b.Context(), to, id); err != nil || len(got) > 0 {
						b.Errorf("it has %s: %v", id, err)
					}
					b.refuses("after what it has not", transcript.Change{Conversation: to, Append: []transcript.NewEntry{asks("new")}, After: transcript.After(id)}, is(transcript.ErrNotFound), string(id))
				}
				b.sound(to)
			})
			b.same("the source", b.picture(talk), source)
		}},
		{"fork-head", "A fork at the head is a clone of the path to it; one before the root is empty. (case 10)", func(b *bench) {
			b.create(talk)
			both(func(byReference bool, to access.ConversationID) {
				if t := b.fork(transcript.Fork{From: talk, To: "empty of " + to, ByReference: byReference}); t.Head != transcript.BeforeRoot() {
					b.Errorf("the head is %v", t.Head)
				}
			})
			b.bush()
			b.commit(transcript.Change{Append: full()})
			both(func(byReference bool, to access.ConversationID) {
				t := b.fork(transcript.Fork{From: talk, To: to, ByReference: byReference})
				if want := b.load(talk).Head; t.Head != want || t.Lineage.At != want {
					b.Errorf("got %+v", t)
				}
				if t := b.fork(transcript.Fork{From: talk, To: "root of " + to, At: transcript.BeforeRoot(), ByReference: byReference}); t.Head != transcript.BeforeRoot() {
					b.Errorf("the head is %v", t.Head)
				}
				b.grow("root of "+to, head(), "a")
				b.same("one that began empty", ids(b.path("root of "+to, head())), []transcript.EntryID{"a"})
			})
		}},
		{"fork-before", "A fork before a user's entry leaves that out, so that it can be asked anew; of nobody else's.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b"), asks("c"), calls("d")}})
			both(func(byReference bool, to access.ConversationID) {
				f := transcript.Fork{From: talk, To: to, At: transcript.After("c"), Before: true, ByReference: byReference}
				t := b.fork(f)
				b.same("its path", ids(b.path(to, head())), []transcript.EntryID{"a", "b"})
				b.same("where it is from", t.Lineage.At, transcript.After("b"))
				b.same("the same again", b.fork(f), t)
				c := says(transcript.KindUser, "c", "something else") // under the same id, which it has not
				b.commit(transcript.Change{Conversation: to, Append: []transcript.NewEntry{c}})
				f.At, f.To = transcript.After("a"), "first of "+to
				if t := b.fork(f); t.Head != transcript.BeforeRoot() {
					b.Errorf("before the first: the head is %v", t.Head)
				}
				for what, at := range map[string]transcript.Position{"an assistant's": transcript.After("b"), "the head": head(), "the root": transcript.BeforeRoot()} {
					_, err := b.store.Fork(b.Context(), transcript.Fork{From: talk, To: "no " + to, At: at, Before: true, ByReference: byReference})
					if !as[*transcript.PathError](err) {
						b.Errorf("before %s: got error %v, want *PathError", what, err)
					}
				}
				if _, err := b.store.Load(b.Context(), "no "+to); !errors.Is(err, transcript.ErrNotFound) {
					b.Errorf("a fork that was refused is there: %v", err)
				}
			})
		}},
		{"fork-calls", "Calls that are open in the source are interrupted in the fork, for good; the source's go on. (case 9, invariant 8)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("b", "c1", "c2", "c3")}})
			b.commit(starts("b", "c2"))
			b.commit(settles("b", "c3", transcript.CallSucceeded, `{"exit":0}`))
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, ByReference: byReference})
			})
			b.commit(settles("b", "c1", transcript.CallSucceeded, `{"exit":7}`))
			b.commit(settles("b", "c2", transcript.CallFailed, string(data(2*transcript.InlineBytes, "x"))))
			both(func(byReference bool, to access.ConversationID) {
				var statuses []transcript.CallStatus
				e := b.path(to, head())[0]
				for _, p := range e.Parts[1:] {
					statuses = append(statuses, p.Call.Status)
					if p.Call.Status == transcript.CallInterrupted && (p.Call.Result != nil || p.Call.Blob != nil) {
						b.Errorf("an interrupted call has a result: %+v", p.Call)
					}
				}
				b.same("the calls", statuses, []transcript.CallStatus{transcript.CallInterrupted, transcript.CallInterrupted, transcript.CallSucceeded})
				b.same("the one that was settled", string(e.Parts[3].Call.Result), `{"exit":0}`)
				open, err := b.store.Unsettled(b.Context(), to)
				if err != nil || len(open.Calls) > 0 {
					b.Errorf("unfinished is %+v, %v", open, err)
				}
				c := settles("b", "c1", transcript.CallSucceeded, `{"exit":7}`)
				c.Conversation = to
				b.refuses("a settlement", c, as[*transcript.SettledError], "b", "c1")
			})
			if all, err := b.store.Unfinished(b.Context(), "", 10); err != nil || len(all) > 0 {
				b.Errorf("unfinished are %v, %v", all, err)
			}
		}},
		{"fork-names", "A fork takes along the labels of its path, and its refs if asked; what is put on later stays where it was put.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b", "c")
			b.commit(transcript.Change{Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}, {Entry: "c", Label: "x"}}})
			b.commit(refers("root", transcript.BeforeRoot(), 0))
			b.commit(refers("on", transcript.After("b"), 0))
			b.commit(refers("on", transcript.After("a"), 1))
			b.commit(refers("off", transcript.After("c"), 0))
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("b"), ByReference: byReference, Refs: true})
				b.fork(transcript.Fork{From: talk, To: "bare " + to, At: transcript.After("b"), ByReference: byReference})
			})
			b.commit(labels("b", "later"))
			b.commit(unlabels("a", "x"))
			b.commit(refers("on", head(), 2))
			both(func(_ bool, to access.ConversationID) {
				refs, err := b.store.Refs(b.Context(), to)
				if err != nil {
					b.Fatalf("Refs: %v", err)
				}
				b.same("the refs", refs, []transcript.Ref{{Name: "on", At: transcript.After("a"), Version: 1}, {Name: "root", At: transcript.BeforeRoot(), Version: 1}})
				if refs, err := b.store.Refs(b.Context(), "bare "+to); err != nil || len(refs) > 0 {
					b.Errorf("unasked it has %v, %v", refs, err)
				}
				b.same("those with x", headerIDs(b.headers(transcript.HeaderQuery{Conversation: to, Label: "x"})), []transcript.EntryID{"a"})
				b.same("those labelled later", headerIDs(b.headers(transcript.HeaderQuery{Conversation: to, Label: "later"})), []transcript.EntryID{})
				b.commit(transcript.Change{Conversation: to, Labels: []transcript.LabelChange{{Entry: "a", Label: "x", Remove: true}, {Entry: "a", Label: "own"}}})
				b.same("of its own", headerIDs(b.headers(transcript.HeaderQuery{Conversation: to, Label: "own"})), []transcript.EntryID{"a"})
			})
			b.same("the source's with x", headerIDs(b.headers(transcript.HeaderQuery{Conversation: talk, Label: "x"})), []transcript.EntryID{"c"})
		}},
		{"fork-draft", "No draft and no turn goes along, and nothing that was given up.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(drafts(asks("given up")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			c := drafts(asks("d"))
			c.Fence, c.Begin = 3, true
			b.commit(c)
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, ByReference: byReference})
				p := b.picture(to)
				b.same("the timeline", ids(p.Timeline), []transcript.EntryID{"a"})
				b.same("unfinished", p.Open, transcript.Open{Conversation: to})
				b.commit(transcript.Change{Conversation: to, Append: []transcript.NewEntry{asks("d"), asks("given up")}})
			})
		}},
		{"fork-again", "The same fork again is a retry, also when its source has gone on; where there is another transcript it is ErrExists.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			b.create("empty")
			both(func(byReference bool, to access.ConversationID) {
				f := transcript.Fork{From: talk, To: to, ByReference: byReference}
				b.fork(f)
				b.grow(to, head(), "own")
				want := b.picture(to)
				b.grow(talk, head(), "later than "+transcript.EntryID(to))
				b.same("the answer", b.fork(f), want.Row)
				f.At = want.Row.Lineage.At
				b.same("the answer", b.fork(f), want.Row)
				b.same("after it was made again", b.picture(to), want)
				for what, f := range map[string]transcript.Fork{
					"of another source":  {From: "empty", To: to, ByReference: byReference},
					"at another entry":   {From: talk, To: to, At: transcript.After("a"), ByReference: byReference},
					"over what is there": {From: to, To: talk, ByReference: byReference},
				} {
					if _, err := b.store.Fork(b.Context(), f); !errors.Is(err, transcript.ErrExists) {
						b.Errorf("%s: got error %v, want ErrExists", what, err)
					}
				}
				b.same("after it was refused", b.picture(to), want)
			})
		}},
		{"fork-made-again", "Over a deleted transcript a fork makes another, which has nothing of the old one. (case 55)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			both(func(byReference bool, to access.ConversationID) {
				b.create(to)
				b.grow(to, head(), "old")
				b.commit(transcript.Change{Conversation: to, Status: transcript.Deleted})
				b.fork(transcript.Fork{From: talk, To: to, ByReference: byReference})
				want := b.picture(to)
				b.same("the timeline", ids(want.Timeline), []transcript.EntryID{"b", "a"})
				b.purge(1)
				b.same("after the old one's rows are gone", b.picture(to), want)
			})
		}},
	}
}
