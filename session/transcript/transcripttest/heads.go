package transcripttest

import (
	"errors"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func headChecks() []check {
	expects := func(b *bench, what string, expected, actual transcript.Position) {
		b.Helper()
		for _, c := range []transcript.Change{
			{Expect: expected, Append: []transcript.NewEntry{asks("new")}},
			{Expect: expected, Head: transcript.BeforeRoot()},
			{Expect: expected, Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}},
		} {
			b.refuses(what, c, func(err error) bool {
				var he *transcript.HeadError
				return errors.As(err, &he) && *he == transcript.HeadError{Conversation: talk, Expected: expected, Actual: actual}
			}, string(talk))
		}
	}
	return []check{
		{"expect", "Whoever expects the head elsewhere is told where it is, and nothing is written or reloaded for him. (cases 14, 21)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Expect: transcript.BeforeRoot(), Append: []transcript.NewEntry{asks("a")}})
			b.commit(transcript.Change{Expect: transcript.After("a"), Append: []transcript.NewEntry{asks("b")}})
			expects(b, "an older head", transcript.After("a"), transcript.After("b"))
			expects(b, "a head that never was", transcript.After("zz"), transcript.After("b"))
			b.commit(transcript.Change{Expect: transcript.After("b"), Append: []transcript.NewEntry{asks("c")}, After: transcript.After("a")})
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "c"})
		}},
		{"before-root", "Before the root is a place of its own: never what it is where a head was lost or nothing is said. (invariant 5)", func(b *bench) {
			b.create(talk)
			expects(b, "an entry, in an empty one", transcript.After("a"), transcript.BeforeRoot())
			b.grow(talk, head(), "a")
			expects(b, "before the root, in one with an entry", transcript.BeforeRoot(), transcript.After("a"))
			done := b.commit(transcript.Change{Head: transcript.BeforeRoot()})
			if done.Transcript.Head != transcript.BeforeRoot() || b.load(talk).Head != transcript.BeforeRoot() {
				b.Errorf("the head is %v", done.Transcript.Head)
			}
			b.same("the path there", ids(b.path(talk, head())), []transcript.EntryID{})
			b.same("what is after a", ids(b.path(talk, transcript.After("a"))), []transcript.EntryID{"a"})
			expects(b, "where it was", transcript.After("a"), transcript.BeforeRoot())
			b.commit(transcript.Change{Expect: transcript.BeforeRoot(), Append: []transcript.NewEntry{asks("b")}})
			b.same("the roots", b.picture(talk).Roots, []transcript.EntryID{"a", "b"})
		}},
		{"move-head", "To move the head writes no entry and loses none: what comes next is a branch.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b", "c")
			before := b.picture(talk)
			done := b.commit(transcript.Change{Head: transcript.After("a")})
			after := b.picture(talk)
			if after.Row.Version <= before.Row.Version || after.Row.LastSeq <= before.Row.LastSeq {
				b.Errorf("version %d and seq %d after %d and %d", after.Row.Version, after.Row.LastSeq, before.Row.Version, before.Row.LastSeq)
			}
			b.same("the answer", done.Transcript, after.Row)
			moved := after.Facts[len(after.Facts)-1]
			b.same("what happened", moved, transcript.Fact{Seq: after.Row.LastSeq, Kind: transcript.FactHead, At: transcript.After("a")})
			b.same("the entries", after.Timeline, before.Timeline)
			b.grow(talk, head(), "d")
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "d"})
			b.same("what was left", ids(b.path(talk, transcript.After("c"))), []transcript.EntryID{"a", "b", "c"})
			b.commit(transcript.Change{Head: transcript.After("c")}) // forth, into the branch that was left
			b.grow(talk, head(), "e")
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "b", "c", "e"})
		}},
		{"move-nowhere", "The head is moved to what is there and stands, and nowhere else.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("draft")}})
			b.refuses("to nothing", transcript.Change{Head: transcript.After("zz")}, is(transcript.ErrNotFound), "zz", string(talk))
			b.refuses("to a draft", transcript.Change{Head: transcript.After("draft")}, is(transcript.ErrNotFound), "draft")
			b.commit(transcript.Change{Abort: []transcript.EntryID{"draft"}})
			b.refuses("to what was given up", transcript.Change{Head: transcript.After("draft")}, as[*transcript.PathError], "draft")
		}},
		{"version", "The head's version rises whenever it moves, there and back too, and guards a change. (case 20)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			seen := b.load(talk)
			b.commit(transcript.Change{Version: seen.Version, Head: transcript.After("a")})
			b.commit(transcript.Change{Head: transcript.After("b")})
			now := b.load(talk)
			if now.Head != seen.Head || now.Version <= seen.Version {
				b.Errorf("got %v in version %d after version %d", now.Head, now.Version, seen.Version)
			}
			b.refuses("as it was seen", transcript.Change{Version: seen.Version, Append: []transcript.NewEntry{asks("c")}}, func(err error) bool {
				var ve *transcript.VersionError
				return errors.As(err, &ve) && ve.Expected == seen.Version && ve.Actual == now.Version
			})
			b.commit(transcript.Change{Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}})
			b.commit(transcript.Change{Version: now.Version, Append: []transcript.NewEntry{asks("c")}})
		}},
		{"stored-head", "The head is stored with what it is after: a reader finds it, never the newest line of a branch that was left. (case 17)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("left")}, After: transcript.After("a"), KeepHead: true})
			b.commit(transcript.Change{Labels: []transcript.LabelChange{{Entry: "left", Label: "newest"}}})
			if t := b.load(talk); t.Head != transcript.After("b") {
				b.Errorf("the head is %v", t.Head)
			}
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "b"})
		}},
	}
}
