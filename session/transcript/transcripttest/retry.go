package transcripttest

import (
	"errors"
	"strings"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func retryChecks() []check {
	return []check{
		{"retry", "The same entries again are a retry: it answers as the first time did, and writes nothing, whatever has happened since. (invariant 9)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			first := transcript.Change{
				Append: []transcript.NewEntry{asks("b"), calls("c", "call")}, Expect: transcript.After("a"), Fence: 1, Begin: true,
				Labels: []transcript.LabelChange{{Entry: "b", Label: "x"}},
				Refs:   []transcript.RefChange{{Name: "r", To: transcript.After("c")}},
			}
			done := b.commit(first)
			b.commit(transcript.Change{Fence: 1, End: true})
			b.commit(transcript.Change{
				Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "c", Call: "call"}, Status: transcript.CallFailed}},
				Labels: []transcript.LabelChange{{Entry: "b", Label: "x", Remove: true}},
			})
			b.commit(transcript.Change{Head: transcript.BeforeRoot(), Refs: []transcript.RefChange{{Name: "r", Version: 1}}})
			b.commit(transcript.Change{Fence: 2, Begin: true})
			before := b.picture(talk)
			again := first
			again.Version, again.MaxBytes = 77, 1
			got := b.commit(again)
			if !got.Retried || done.Retried {
				b.Errorf("the first is said to be a retry: %v, the second: %v", done.Retried, got.Retried)
			}
			b.same("the seqs", got.Seqs, done.Seqs)
			b.same("the row of the answer", got.Transcript, before.Row)
			b.same("after the retry", b.picture(talk), before)
			again.After = transcript.After("a") // where it is
			if got := b.commit(again); !got.Retried {
				b.Errorf("in its own place it is no retry")
			}
			b.commit(transcript.Change{Fence: 2, End: true})
			b.commit(transcript.Change{Status: transcript.Archived})
			if got := b.commit(first); !got.Retried {
				b.Errorf("in an archived transcript it is no retry")
			}
		}},
		{"conflict", "An id that is taken by other content is *EntryConflictError, and names both contents. (invariant 9)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: full()[:2]})
			for what, edit := range map[string]func(*transcript.NewEntry){
				"another kind":    func(e *transcript.NewEntry) { e.Kind = transcript.KindSynthetic; e.Parts = e.Parts[:3] },
				"another turn":    func(e *transcript.NewEntry) { e.Turn = "turn 2" },
				"another actor":   func(e *transcript.NewEntry) { e.Actor = "bob" },
				"another text":    func(e *transcript.NewEntry) { e.Parts[0] = transcript.TextPart("something else") },
				"one part less":   func(e *transcript.NewEntry) { e.Parts = e.Parts[1:] },
				"another payload": func(e *transcript.NewEntry) { e.Payload = nil },
				"another usage":   func(e *transcript.NewEntry) { e.Usage.Output++ },
				"another result": func(e *transcript.NewEntry) {
					call := *e.Parts[6].Call
					call.Result = nil
					e.Parts[6].Call = &call
				},
				"other arguments": func(e *transcript.NewEntry) {
					call := *e.Parts[3].Call
					call.Arguments = []byte(`{}`)
					e.Parts[3].Call = &call
				},
			} {
				e := full()[1]
				edit(&e)
				c := transcript.Change{Conversation: talk, Append: []transcript.NewEntry{e}}
				b.refuses(what, c, as[*transcript.EntryConflictError], string(e.ID), string(talk))
				_, err := b.store.Commit(b.Context(), c)
				var conflict *transcript.EntryConflictError
				if errors.As(err, &conflict) && (len(conflict.Hash) != 64 || len(conflict.Stored) != 64 || conflict.Hash == conflict.Stored || !strings.Contains(err.Error(), conflict.Stored)) {
					b.Errorf("%s: the contents are %q and %q in %v", what, conflict.Hash, conflict.Stored, err)
				}
			}
			if got := b.commit(transcript.Change{Append: full()[1:2]}); !got.Retried {
				b.Errorf("with the same content it is no retry")
			}
		}},
		{"elsewhere", "The same entry in another place, or only some of the same, is *PathError.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b", "c")
			b.refuses("after another", transcript.Change{Append: []transcript.NewEntry{asks("c")}, After: transcript.After("a")}, as[*transcript.PathError], "c")
			b.refuses("at the root", transcript.Change{Append: []transcript.NewEntry{asks("c")}, After: transcript.BeforeRoot()}, as[*transcript.PathError], "c")
			b.refuses("in another order", transcript.Change{Append: []transcript.NewEntry{asks("c"), asks("b")}}, as[*transcript.PathError])
			b.refuses("with one between", transcript.Change{Append: []transcript.NewEntry{asks("a"), asks("c")}}, as[*transcript.PathError])
			b.refuses("with a new one behind", transcript.Change{Append: []transcript.NewEntry{asks("b"), asks("c"), asks("d")}}, as[*transcript.PathError])
			b.refuses("with a new one before", transcript.Change{Append: []transcript.NewEntry{asks("z"), asks("a")}}, as[*transcript.PathError])
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("draft")}})
			b.commit(transcript.Change{Abort: []transcript.EntryID{"draft"}})
			b.refuses("what was given up", transcript.Change{Append: []transcript.NewEntry{asks("draft")}}, as[*transcript.EntryConflictError], "draft")
		}},
		{"retry-forked", "In a fork an entry is known as in its source.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b", "c")}})
			for _, byReference := range []bool{false, true} {
				to := map[bool]transcript.Fork{false: {To: other}, true: {To: third}}[byReference].To
				b.fork(transcript.Fork{From: talk, To: to, ByReference: byReference})
				if got := b.commit(transcript.Change{Conversation: to, Append: []transcript.NewEntry{asks("a"), calls("b", "c")}}); !got.Retried {
					b.Errorf("by reference %v: it is no retry", byReference)
				}
				b.refuses("other content", transcript.Change{Conversation: to, Append: []transcript.NewEntry{calls("a")}}, as[*transcript.EntryConflictError], "a")
				b.refuses("another place", transcript.Change{Conversation: to, Append: []transcript.NewEntry{asks("a")}, After: transcript.After("b")}, as[*transcript.PathError], "a")
			}
		}},
	}
}
