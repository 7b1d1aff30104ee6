package transcript_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// tokens of an entry are in its usage, so that a test says them.
func tokens(e transcript.Entry) int64 { return e.Usage.Input }

// path is one of entries with so many tokens each; a letter says what each is:
// u user, a assistant, o assistant with an open call, s with a settled one, k compaction, p user to be pinned.
func path(spec string) (out []transcript.Entry) {
	for i, word := range strings.Fields(spec) {
		e := transcript.Entry{Seq: int64(i + 1), Depth: int64(i + 1)}
		e.ID = transcript.EntryID(fmt.Sprint(i))
		var size int64
		if _, err := fmt.Sscan(word[1:], &size); err != nil {
			panic(err)
		}
		e.Usage.Input = size
		e.Kind, e.Parts = transcript.KindAssistant, []transcript.Part{transcript.TextPart(word)}
		switch word[0] {
		case 'u', 'p':
			e.Kind = transcript.KindUser
		case 'o':
			e.Parts = append(e.Parts, callPart("c", transcript.CallRunning))
		case 's':
			e.Parts = append(e.Parts, callPart("c", transcript.CallFailed))
		case 'k':
			e.Kind, e.Parts, e.Compaction = transcript.KindCompaction, nil, &transcript.Compaction{Summary: word}
		}
		out = append(out, e)
	}
	return out
}

func callPart(id transcript.CallID, status transcript.CallStatus) transcript.Part {
	return transcript.Part{Type: transcript.PartCall, Call: &transcript.Call{ID: id, Name: "run", Arguments: []byte(`{}`), Status: status}}
}

func pinned(e transcript.Entry) bool {
	return len(e.Parts) > 0 && strings.HasPrefix(e.Parts[0].Text(), "p")
}

func TestPlanCompaction(t *testing.T) {
	withFirst := func(entries []transcript.Entry, at int, first transcript.EntryID) []transcript.Entry {
		entries[at].Compaction.FirstKept = first
		return entries
	}
	for _, c := range []struct {
		rule        string
		context     []transcript.Entry
		above, keep int64
		want        string // ids that are summarised | the first kept | pinned; "" = nothing to do
	}{
		{"nothing is nothing to do", nil, 0, 0, ""},
		{"as much as there may be is nothing to do", path("u5 a5"), 10, 0, ""},
		{"one more than that is", path("u5 a6"), 10, 0, "0|1|"},
		{"the newest entry is kept, however large", path("u1 a1 a100"), 10, 5, "0 1|2|"},
		{"alone it can't be helped", path("u100"), 10, 5, ""},
		{"the cut is before what a user asked, where that keeps little more", path("u5 a5 u2 a2 a3"), 10, 4, "0 1|2|"},
		{"and not where that keeps much more", path("u5 u9 a9 a2 a2"), 10, 4, "0 1 2|3|"},
		{"what is open is never summarised", path("u5 o5 a5 a5 a5"), 10, 5, "0|1|"},
		{"nor is there anything to do where only that is", path("o5 a5 a5"), 10, 5, ""},
		{"what is settled is", path("a5 s5 a5 a5 a5"), 10, 5, "0 1 2 3|4|"},
		{"what is pinned is kept beside", path("p1 u5 p1 a5 a5"), 10, 5, "0 1 2 3|4|0 2"},
		{"the compaction before leads what is summarised", withFirst(path("a5 k1 a5 a5"), 1, "0"), 10, 5, "1 0 2|3|"},
		{"of two the newer leads", path("k1 a5 k1 a5 a5"), 10, 5, "2 1 3|4|"},
		{"a summary alone is not summarised again", path("k100 a1"), 10, 5, ""},
		{"what was pinned before is no first kept: what lies behind it would come back", withFirst(path("p5 p5 a5 k5"), 3, "2"), 10, 16, "3 0|2|0 1"},
	} {
		plan, ok := transcript.PlanCompaction(c.context, tokens, transcript.CompactionRule{Above: c.above, Keep: c.keep, Pinned: pinned})
		got := ""
		if ok {
			got = fmt.Sprintf("%s|%s|%s", join(plan.Summarise), plan.FirstKept, strings.Trim(fmt.Sprint(plan.Pinned), "[]"))
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
		if ok && plan.Head != transcript.After(c.context[len(c.context)-1].ID) {
			t.Errorf("%s: the head is %v", c.rule, plan.Head)
		}
	}
}

func join(entries []transcript.Entry) string {
	var ids []string
	for _, e := range entries {
		ids = append(ids, string(e.ID))
	}
	return strings.Join(ids, " ")
}

// Invariant 7, cases 15 and 33: over any number of compactions, whatever was
// said is in the context, or in a summary that leads to the newest one; no
// open call is summarised; what was summarised does not come back; and what
// is given to a model is what a strict provider takes. What comes between a plan and its compaction is not lost.
func TestCompactionsLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, s := t.Context(), memory.New(nil).Transcripts()
		if _, err := s.Create(ctx, "c"); err != nil {
			t.Fatal(err)
		}
		said, covered := map[transcript.EntryID]bool{}, map[transcript.EntryID]map[transcript.EntryID]bool{}
		n := 0
		say := func() {
			n++
			e := transcript.NewEntry{ID: transcript.EntryID(fmt.Sprint("e", n)), Kind: rapid.SampledFrom([]transcript.Kind{transcript.KindUser, transcript.KindAssistant, transcript.KindHidden}).Draw(t, "kind")}
			e.Usage.Input = rapid.Int64Range(0, 9).Draw(t, "tokens")
			if e.Kind.Message() {
				e.Parts = []transcript.Part{transcript.TextPart(rapid.SampledFrom([]string{"p", "u", ""}).Draw(t, "text"))}
			}
			if e.Kind == transcript.KindAssistant {
				for i := range rapid.IntRange(0, 2).Draw(t, "calls") {
					e.Parts = append(e.Parts, callPart(transcript.CallID(fmt.Sprint("c", i)), rapid.SampledFrom([]transcript.CallStatus{transcript.CallPending, transcript.CallSucceeded, transcript.CallDenied}).Draw(t, "status")))
				}
			}
			if _, err := s.Commit(ctx, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{e}}); err != nil {
				t.Fatal(err)
			}
			said[e.ID] = true
		}
		given := func() []transcript.Entry {
			entries, err := s.Context(ctx, "c", transcript.Position{}, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			return entries
		}
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			for range rapid.IntRange(1, 8).Draw(t, "entries") {
				say()
			}
			if rapid.IntRange(0, 3).Draw(t, "settle all") == 0 {
				settleAll(t, s)
			}
			before := given()
			rule := transcript.CompactionRule{Above: rapid.Int64Range(0, 30).Draw(t, "above"), Keep: rapid.Int64Range(0, 20).Draw(t, "keep"), Pinned: pinned}
			plan, ok := transcript.PlanCompaction(before, tokens, rule)
			if !ok {
				continue
			}
			id := transcript.EntryID(fmt.Sprint("k", n))
			covered[id] = map[transcript.EntryID]bool{}
			for _, e := range plan.Summarise {
				covered[id][e.ID] = true
				for older := range covered[e.ID] { // of the compaction before
					covered[id][older] = true
				}
				for _, p := range e.Parts {
					if p.Call != nil && !p.Call.Status.Settled() {
						t.Fatalf("entry %s is summarised, and its call %s is %s", e.ID, p.Call.ID, p.Call.Status)
					}
				}
			}
			if len(plan.Pinned) > transcript.MaxPinned {
				t.Fatalf("%d are pinned", len(plan.Pinned))
			}
			for range rapid.IntRange(0, 2).Draw(t, "meanwhile") {
				say()
			}
			allowed := given()
			k := transcript.NewEntry{ID: id, Kind: transcript.KindCompaction, Compaction: plan.Compaction(string(id)), Usage: transcript.Usage{Input: 1}}
			if _, err := s.Commit(ctx, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{k}}); err != nil {
				t.Fatalf("the compaction %+v is refused: %v", k.Compaction, err)
			}
			after := given()
			for _, e := range after {
				if e.ID != id && !slices.ContainsFunc(allowed, func(a transcript.Entry) bool { return a.ID == e.ID }) {
					t.Fatalf("%s came back with the compaction %+v", e.ID, k.Compaction)
				}
			}
			for e := range said {
				if !covered[id][e] && !slices.ContainsFunc(after, func(a transcript.Entry) bool { return a.ID == e }) {
					t.Fatalf("%s is neither in the context nor in the newest summary, of %+v", e, k.Compaction)
				}
			}
			messages := transcript.Project(after)
			if err := strict(messages); err != nil {
				t.Fatal(err)
			}
			if messages[0].Entry != id {
				t.Fatalf("the first message is %+v, not the newest summary", messages[0])
			}
		}
	})
}

func settleAll(t *rapid.T, s transcript.Store) {
	open, err := s.Unsettled(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	c := transcript.Change{Conversation: "c"}
	for _, o := range open.Calls {
		c.Settle = append(c.Settle, transcript.Settlement{CallAddress: transcript.CallAddress{Entry: o.Entry, Call: o.Call.ID}, Status: transcript.CallFailed})
	}
	if _, err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}
