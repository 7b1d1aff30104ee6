package transcripttest

import (
	"encoding/json"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// context is what a model is given at a position.
func (b *bench) context(at transcript.Position) []transcript.EntryID {
	b.Helper()
	given, err := b.store.Context(b.Context(), talk, at, enough)
	if err != nil {
		b.Fatalf("Context(%v): %v", at, err)
	}
	return ids(given)
}

// state is what holds at a position.
func (b *bench) state(at transcript.Position) transcript.State {
	b.Helper()
	s, err := b.store.State(b.Context(), talk, at)
	if err != nil {
		b.Fatalf("State(%v): %v", at, err)
	}
	return s
}

func compacts(id, first transcript.EntryID, pinned ...transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "summary " + string(id), FirstKept: first, Pinned: pinned}}
}

func sets(id transcript.EntryID, d transcript.StateDelta) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindState, State: &d}
}

func values(pairs ...string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return out
}

func contextChecks() []check {
	return []check{
		{"context", "A model is given the path from the newest compaction's first kept entry on, and before that what it has pinned. (case 9)", func(b *bench) {
			b.create(talk)
			b.same("of nothing", b.context(head()), []transcript.EntryID{})
			b.grow(talk, head(), "a", "b", "c", "d")
			b.same("without a compaction", b.context(head()), []transcript.EntryID{"a", "b", "c", "d"})
			b.commit(transcript.Change{Append: []transcript.NewEntry{compacts("k1", "c", "a"), asks("e"), asks("f")}})
			b.same("after one", b.context(head()), []transcript.EntryID{"a", "c", "d", "k1", "e", "f"})
			b.commit(transcript.Change{Append: []transcript.NewEntry{compacts("k2", "e", "a", "d"), asks("g")}})
			b.same("after two", b.context(head()), []transcript.EntryID{"a", "d", "e", "f", "k2", "g"})
			b.commit(transcript.Change{Append: []transcript.NewEntry{compacts("k3", "k1"), asks("h")}})
			b.same("one that keeps an older one", b.context(head()), []transcript.EntryID{"k1", "e", "f", "k2", "g", "k3", "h"})
			b.commit(transcript.Change{Append: []transcript.NewEntry{compacts("k4", "", "b"), asks("i")}})
			b.same("one that keeps nothing", b.context(head()), []transcript.EntryID{"b", "k4", "i"})
			b.same("at the second", b.context(transcript.After("k2")), []transcript.EntryID{"a", "d", "e", "f", "k2"})
			b.same("before the first", b.context(transcript.After("d")), []transcript.EntryID{"a", "b", "c", "d"})
			b.grow(talk, transcript.After("b"), "x", "y")
			b.same("on a branch without one", b.context(head()), []transcript.EntryID{"a", "b", "x", "y"})
			b.grow(talk, transcript.After("f"), "z")
			b.same("on a branch after one", b.context(head()), []transcript.EntryID{"a", "c", "d", "k1", "e", "f", "z"})
			b.same("the path is whole", ids(b.path(talk, transcript.After("i")))[:4], []transcript.EntryID{"a", "b", "c", "d"})
			given, err := b.store.Context(b.Context(), talk, transcript.After("i"), enough)
			if err != nil {
				b.Fatalf("Context: %v", err)
			}
			b.same("the entry", given[1], b.get(talk, "k4"))
		}},
		{"context-limit", "A context of more entries than allowed is *LimitError, never cut.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b", "c")
			b.commit(transcript.Change{Append: []transcript.NewEntry{compacts("k", "c", "a"), asks("d")}})
			for limit, fits := range map[int]bool{1: false, 3: false, 4: true, 5: true} {
				given, err := b.store.Context(b.Context(), talk, head(), limit)
				if fits && (err != nil || len(given) != 4) || !fits && (!as[*transcript.LimitError](err) || len(given) > 0) {
					b.Errorf("of at most %d: got %v, %v", limit, ids(given), err)
				}
			}
		}},
		{"state", "What holds at a position is the sum of the changes on its path, from the first on, on every branch its own. (case 22)", func(b *bench) {
			b.create(talk)
			b.same("of nothing", b.state(head()), transcript.State{})
			if b.state(head()) == nil {
				b.Errorf("there is no state at all")
			}
			b.commit(transcript.Change{Append: []transcript.NewEntry{
				sets("s0", transcript.StateDelta{Set: values("mode", `"plan"`, "n", `1`, "big", `{"x":[1,2]}`)}),
				asks("a"),
				sets("s1", transcript.StateDelta{Set: values("n", `2`, "null", `null`), Delete: []string{"big", "never"}}),
				asks("b"),
				sets("s2", transcript.StateDelta{Whole: true, Set: values("only", `true`)}),
			}})
			first := transcript.State(values("mode", `"plan"`, "n", `1`, "big", `{"x":[1,2]}`))
			b.same("at the first", b.state(transcript.After("s0")), first)
			b.same("behind it", b.state(transcript.After("a")), first)
			second := b.state(transcript.After("b"))
			b.same("after the second", second, transcript.State(values("mode", `"plan"`, "n", `2`, "null", `null`)))
			if v, there := second["null"]; !there || string(v) != "null" {
				b.Errorf("null is %q, %v", v, there)
			}
			b.same("begun anew", b.state(head()), transcript.State(values("only", `true`)))
			b.commit(transcript.Change{Head: transcript.After("a")}) // back
			b.same("gone back", b.state(head()), first)
			b.commit(transcript.Change{Append: []transcript.NewEntry{sets("s3", transcript.StateDelta{Set: values("n", `9`)})}})
			b.same("on a branch", b.state(head()), transcript.State(values("mode", `"plan"`, "n", `9`, "big", `{"x":[1,2]}`)))
			b.same("before the root", b.state(transcript.BeforeRoot()), transcript.State{})
			b.commit(transcript.Change{Append: []transcript.NewEntry{compacts("k", "")}})
			b.same("behind a compaction", b.state(head()), transcript.State(values("mode", `"plan"`, "n", `9`, "big", `{"x":[1,2]}`)))
		}},
		{"usage", "What a path took is the sum over its own entries; what all took is another. (invariant 10)", func(b *bench) {
			b.create(talk)
			took := func(id transcript.EntryID, n int64) transcript.NewEntry {
				e := asks(id)
				e.Usage = transcript.Usage{Input: n, Output: 10 * n, CacheRead: 100 * n, CacheWrite: 1000 * n, CostMicros: n << 33}
				return e
			}
			sum := func(n int64) transcript.Usage { return took("", n).Usage }
			b.commit(transcript.Change{Append: []transcript.NewEntry{took("a", 1), took("b", 2), took("c", 4)}})
			b.commit(transcript.Change{Append: []transcript.NewEntry{took("d", 8)}, After: transcript.After("a")})
			b.commit(transcript.Change{Append: []transcript.NewEntry{took("e", 16)}})
			b.commit(drafts(took("f", 32)))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"f"}})
			for at, want := range map[transcript.Position]int64{
				transcript.BeforeRoot(): 0, transcript.After("a"): 1, transcript.After("b"): 3, transcript.After("c"): 7, transcript.After("d"): 9, transcript.After("e"): 25, head(): 25,
			} {
				if got, err := b.store.PathUsage(b.Context(), talk, at); err != nil || got != sum(want) {
					b.Errorf("%v: got %+v, %v; want %+v", at, got, err, sum(want))
				}
			}
			if got := b.load(talk).Usage; got != sum(63) {
				b.Errorf("all took %+v, want %+v", got, sum(63))
			}
			b.sound(talk)
		}},
	}
}
