package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/session/transcript"
)

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func hashOf(e transcript.NewEntry) string {
	s, err := transcript.Seal(e)
	if err != nil {
		panic(err)
	}
	return s.Hash
}

func marker(id transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindMarker}
}

// facts are those of a tree a-b, with b the head, x a branch of a, and g given up after b.
func facts() transcript.Facts {
	known := func(id transcript.EntryID, seq, depth int64, parent transcript.Position) transcript.Known {
		return transcript.Known{Seq: seq, Depth: depth, Parent: parent, Hash: hashOf(marker(id))}
	}
	f := transcript.Facts{
		Transcript: transcript.Transcript{Conversation: "c", Status: transcript.Active, Head: transcript.After("b"), Version: 3, LastSeq: 40, Fence: 5, Entries: 4, Bytes: 100},
		Known: map[transcript.EntryID]transcript.Known{
			"a": known("a", 10, 1, transcript.BeforeRoot()), "b": known("b", 20, 2, transcript.After("a")),
			"x": known("x", 30, 2, transcript.After("a")), "g": known("g", 40, 3, transcript.After("b")),
		},
		OnPath: map[transcript.EntryID]bool{"a": true, "b": true},
		Calls: map[transcript.CallAddress]transcript.Call{
			{Entry: "b", Call: "open"}: {ID: "open", Name: "n", Arguments: json.RawMessage(`{}`), Status: transcript.CallPending},
			{Entry: "b", Call: "run"}:  {ID: "run", Name: "n", Arguments: json.RawMessage(`{}`), Status: transcript.CallRunning},
			{Entry: "b", Call: "done"}: {ID: "done", Name: "n", Arguments: json.RawMessage(`{}`), Status: transcript.CallFailed, Result: json.RawMessage(`1`)},
		},
		Refs:  map[string]transcript.Ref{"r": {Name: "r", At: transcript.After("a"), Version: 2}},
		Clock: noon,
	}
	g := f.Known["g"]
	g.Aborted = true
	f.Known["g"] = g
	labelled := f.Known["a"]
	labelled.Labels = []string{"l"}
	f.Known["a"] = labelled
	return f
}

func with(edit func(*transcript.Facts)) transcript.Facts {
	f := facts()
	edit(&f)
	return f
}

// told is what an error is, by the words of the rules.
func told(err error) string {
	var (
		path    *transcript.PathError
		version *transcript.VersionError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*transcript.HeadError)):
		return "head"
	case errors.As(err, &version):
		return "version of " + version.Of
	case errors.As(err, new(*transcript.EntryConflictError)):
		return "conflict"
	case errors.As(err, new(*transcript.SettledError)):
		return "settled"
	case errors.As(err, &path):
		return "path of " + string(path.Entry)
	case errors.As(err, new(*transcript.LimitError)):
		return "limit"
	}
	for word, is := range map[string]error{"none": transcript.ErrNotFound, "archived": transcript.ErrArchived, "fenced": transcript.ErrFenced, "in turn": transcript.ErrInTurn} {
		if errors.Is(err, is) {
			return word
		}
	}
	return err.Error()
}

func TestDecide(t *testing.T) {
	type change = transcript.Change
	inTurn := func(f *transcript.Facts) { f.Transcript.InTurn = true }
	drafted := func(f *transcript.Facts) {
		f.Draft = &transcript.Draft{NewEntry: marker("d"), After: transcript.After("b")}
	}
	status := func(s transcript.Status) func(*transcript.Facts) {
		return func(f *transcript.Facts) { f.Transcript.Status = s }
	}
	as := func(*transcript.Facts) {}
	one := []transcript.NewEntry{marker("n")}
	compaction := func(first transcript.EntryID, pinned ...transcript.EntryID) []transcript.NewEntry {
		return []transcript.NewEntry{{ID: "k", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{FirstKept: first, Pinned: pinned}}}
	}
	for _, c := range []struct {
		rule   string
		facts  func(*transcript.Facts)
		change change
		want   string // the refusal; "" = none
	}{
		{"nothing is no refusal", as, change{}, ""},
		{"what is deleted is not there", status(transcript.Deleted), change{Append: []transcript.NewEntry{marker("b")}}, "none"},
		{"what is archived takes nothing", status(transcript.Archived), change{Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}}, "archived"},
		{"but is restored", status(transcript.Archived), change{Status: transcript.Active}, ""},
		{"or deleted", status(transcript.Archived), change{Status: transcript.Deleted}, ""},
		{"not with more", status(transcript.Archived), change{Status: transcript.Active, Append: one}, "archived"},
		{"a retry is none of its business", status(transcript.Archived), change{Append: []transcript.NewEntry{marker("b")}}, ""},
		{"an older turn is fenced", inTurn, change{Fence: 4, Append: one}, "fenced"},
		{"one that was never begun too", inTurn, change{Fence: 6, Append: one}, "fenced"},
		{"and one that was ended", as, change{Fence: 5, Append: one}, "fenced"},
		{"an older one is not begun", as, change{Fence: 4, Begin: true}, "fenced"},
		{"one that was ended is not begun again", as, change{Fence: 5, Begin: true}, "fenced"},
		{"not with a last word either", as, change{Fence: 5, Begin: true, End: true, Append: one}, "fenced"},
		{"though what it has written is there", as, change{Fence: 5, Begin: true, Append: []transcript.NewEntry{marker("b")}}, ""},
		{"a newer one is begun, after one that was ended", as, change{Fence: 6, Begin: true}, ""},
		{"a newer one is, over one that has not ended", inTurn, change{Fence: 6, Begin: true, Append: one}, ""},
		{"the same again changes nothing", inTurn, change{Fence: 5, Begin: true}, ""},
		{"without a turn one waits for it", inTurn, change{Append: one}, "in turn"},
		{"also to archive", inTurn, change{Status: transcript.Archived}, "in turn"},
		{"words need no turn", inTurn, change{Labels: []transcript.LabelChange{{Entry: "a", Label: "x"}}, Refs: []transcript.RefChange{{Name: "q", To: transcript.After("a")}}}, ""},
		{"the head is elsewhere", as, change{Expect: transcript.After("a"), Append: one}, "head"},
		{"before the root is elsewhere", as, change{Expect: transcript.BeforeRoot(), Append: one}, "head"},
		{"the version is another", as, change{Version: 2, Append: one}, "version of head"},
		{"nothing follows what is not there", as, change{After: transcript.After("zz"), Append: one}, "none"},
		{"nor what was given up", as, change{After: transcript.After("g"), Append: one}, "path of g"},
		{"an id with other content", as, change{Append: []transcript.NewEntry{{ID: "b", Kind: transcript.KindMarker, Turn: "other"}}}, "conflict"},
		{"an id that was given up", as, change{Append: []transcript.NewEntry{marker("g")}}, "conflict"},
		{"the same elsewhere", as, change{After: transcript.BeforeRoot(), Append: []transcript.NewEntry{marker("b")}}, "path of b"},
		{"some of the same", as, change{Append: []transcript.NewEntry{marker("b"), marker("n")}}, "path of b"},
		{"the same in another chain", as, change{Append: []transcript.NewEntry{marker("b"), marker("a")}}, "path of a"},
		{"more than is allowed", as, change{Append: one, MaxBytes: 101}, "limit"},
		{"as much as is allowed", as, change{Append: one, MaxBytes: 102}, ""},
		{"a compaction that keeps what is on its path", as, change{Append: compaction("b", "a")}, ""},
		{"what is not", as, change{Append: compaction("x")}, "path of k"},
		{"what it pins is before what it keeps", as, change{Append: compaction("a", "b")}, "path of k"},
		{"it keeps what is appended with it", as, change{Append: append([]transcript.NewEntry{marker("n")}, compaction("n", "b")...)}, ""},
		{"the head goes to what is there", as, change{Head: transcript.After("x")}, ""},
		{"not to what is not", as, change{Head: transcript.After("zz")}, "none"},
		{"nor to what was given up", as, change{Head: transcript.After("g")}, "path of g"},
		{"a call starts", as, change{Start: []transcript.CallAddress{{Entry: "b", Call: "open"}}}, ""},
		{"one that runs does already", as, change{Start: []transcript.CallAddress{{Entry: "b", Call: "run"}}}, ""},
		{"one that is settled does not", as, change{Start: []transcript.CallAddress{{Entry: "b", Call: "done"}}}, "settled"},
		{"one that is not there does not", as, change{Start: []transcript.CallAddress{{Entry: "b", Call: "zz"}}}, "none"},
		{"a call is settled the same way again", as, change{Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "b", Call: "done"}, Status: transcript.CallFailed, Result: []byte(" 1 ")}}}, ""},
		{"not with another result", as, change{Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "b", Call: "done"}, Status: transcript.CallFailed, Result: []byte("2")}}}, "settled"},
		{"not with another status", as, change{Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "b", Call: "done"}, Status: transcript.CallDenied, Result: []byte("1")}}}, "settled"},
		{"one that is not there is not settled", as, change{Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "zz", Call: "done"}, Status: transcript.CallFailed}}}, "none"},
		{"a draft is saved again", drafted, change{Draft: &transcript.Draft{NewEntry: marker("d")}}, ""},
		{"a second is not", drafted, change{Draft: &transcript.Draft{NewEntry: marker("e")}}, "path of e"},
		{"unless the first is given up", drafted, change{Draft: &transcript.Draft{NewEntry: marker("e")}, Abort: []transcript.EntryID{"d"}}, ""},
		{"a draft is no entry", as, change{Draft: &transcript.Draft{NewEntry: marker("b")}}, "path of b"},
		{"what was given up is not taken up", as, change{Draft: &transcript.Draft{NewEntry: marker("g")}}, "path of g"},
		{"a draft follows what is there", as, change{Draft: &transcript.Draft{NewEntry: marker("d"), After: transcript.After("zz")}}, "none"},
		{"only a draft is given up", drafted, change{Abort: []transcript.EntryID{"b"}}, "none"},
		{"once", as, change{Abort: []transcript.EntryID{"g"}}, ""},
		{"a ref by its version", as, change{Refs: []transcript.RefChange{{Name: "r", To: transcript.After("b"), Version: 2}}}, ""},
		{"not by another", as, change{Refs: []transcript.RefChange{{Name: "r", To: transcript.After("b"), Version: 1}}}, "version of ref"},
		{"nor made twice", as, change{Refs: []transcript.RefChange{{Name: "r", To: transcript.After("b")}}}, "version of ref"},
		{"nor to nothing", as, change{Refs: []transcript.RefChange{{Name: "q", To: transcript.After("zz")}}}, "none"},
		{"a label on what is appended", as, change{Append: one, Labels: []transcript.LabelChange{{Entry: "n", Label: "x"}}}, ""},
		{"on what was given up", as, change{Labels: []transcript.LabelChange{{Entry: "g", Label: "x"}}}, ""},
		{"not on nothing", as, change{Labels: []transcript.LabelChange{{Entry: "zz", Label: "x"}}}, "none"},
	} {
		c.change.Conversation = "c"
		if err := c.change.Check(); err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		plan, err := transcript.Decide(with(c.facts), c.change)
		if got := told(err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
		if err != nil && !reflect.DeepEqual(plan, transcript.Plan{}) {
			t.Errorf("%s: with the refusal comes the plan %+v", c.rule, plan)
		}
		again, err := transcript.Decide(with(c.facts), c.change)
		if d := cmp.Diff(plan, again); d != "" || told(err) != c.want {
			t.Errorf("%s: decided again it is another: %s", c.rule, d)
		}
	}
}

// What a change comes to, in the order in which it happens: every row and fact has a number of its own.
func TestDecidePlans(t *testing.T) {
	f := with(func(f *transcript.Facts) {
		f.Draft = &transcript.Draft{NewEntry: marker("d"), After: transcript.After("a")}
	})
	plan, err := transcript.Decide(f, transcript.Change{
		Conversation: "c", Fence: 6, Begin: true, End: true, Append: []transcript.NewEntry{marker("n"), marker("m")}, After: transcript.After("x"),
		Start:  []transcript.CallAddress{{Entry: "b", Call: "open"}},
		Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "b", Call: "run"}, Status: transcript.CallSucceeded, Result: []byte(`"12"`)}},
		Abort:  []transcript.EntryID{"d"},
		Refs:   []transcript.RefChange{{Name: "r", Version: 2}, {Name: "q", To: transcript.After("m")}},
		Labels: []transcript.LabelChange{{Entry: "a", Label: "l", Remove: true}, {Entry: "m", Label: "new"}, {Entry: "m", Label: "new"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range plan.Entries {
		got = append(got, fmt.Sprintf("%d %s %v depth %d aborted %v", e.Seq, e.ID, e.Parent, e.Depth, e.Aborted))
	}
	for _, x := range plan.Facts {
		got = append(got, fmt.Sprintf("%d %s %s%s%s", x.Seq, x.Kind, x.Entry, x.Ref, x.Label))
	}
	want := []string{
		"44 n after x depth 3 aborted false", "45 m after n depth 4 aborted false", "46 d after a depth 2 aborted true",
		"41 turn_begun ", "42 call_started b", "43 call_settled b", "47 ref_removed r", "48 ref_moved q", "49 unlabelled al", "50 labelled mnew", "51 turn_ended ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	row := f.Transcript
	row.Head, row.Version, row.LastSeq, row.Fence, row.Entries, row.UpdatedAt = transcript.After("m"), 4, 51, 6, 7, noon
	row.Bytes += 3*int64(len(`{}`)) + int64(len(`"12"`))
	if d := cmp.Diff(row, plan.Transcript); d != "" {
		t.Error(d)
	}
	if !plan.DropDraft || plan.SaveDraft != nil || plan.Retried || len(plan.Labels) != 2 || len(plan.Refs) != 2 || len(plan.Started) != 1 || len(plan.Calls) != 1 {
		t.Errorf("got %+v", plan)
	}
}

// What is archived leaves nothing open: whatever order a store finds it in, the plan is the same. (case 5)
func TestDecideArchives(t *testing.T) {
	open := []transcript.CallAddress{{Entry: "b", Call: "run"}, {Entry: "a", Call: "late"}, {Entry: "b", Call: "open"}}
	var plans []transcript.Plan
	for range 2 {
		f := with(func(f *transcript.Facts) {
			f.Open = slices.Clone(open)
			f.Calls[transcript.CallAddress{Entry: "a", Call: "late"}] = transcript.Call{ID: "late", Name: "n", Arguments: json.RawMessage(`{}`), Status: transcript.CallRunning}
			f.Draft = &transcript.Draft{NewEntry: marker("d"), After: transcript.After("b")}
		})
		plan, err := transcript.Decide(f, transcript.Change{
			Conversation: "c", Status: transcript.Archived,
			Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "b", Call: "open"}, Status: transcript.CallDenied}},
		})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
		slices.Reverse(open)
	}
	if d := cmp.Diff(plans[0], plans[1]); d != "" {
		t.Errorf("in another order it is another: %s", d)
	}
	var got []string
	for _, x := range plans[0].Facts {
		line := fmt.Sprintf("%d %s %s", x.Seq, x.Kind, x.Entry)
		if x.Call != nil {
			line += fmt.Sprintf(" %s %s", x.Call.ID, x.Call.Status)
		}
		got = append(got, line)
	}
	want := []string{"41 call_settled b open denied", "42 call_settled a late interrupted", "43 call_settled b run interrupted", "45 status_changed "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p := plans[0]; len(p.Calls) != 3 || len(p.Entries) != 1 || p.Entries[0].ID != "d" || !p.Entries[0].Aborted || p.Entries[0].Seq != 44 || !p.DropDraft || p.Transcript.Status != transcript.Archived {
		t.Errorf("got %+v", p)
	}
	if n := (transcript.Change{Status: transcript.Archived}).Needs(transcript.After("b")); !n.Open || !n.Draft {
		t.Errorf("it needs %+v", n)
	}
	if n := (transcript.Change{Status: transcript.Deleted}).Needs(transcript.After("b")); n.Open || n.Draft {
		t.Errorf("a deletion needs %+v", n)
	}
}

// Needs names everything that a decision looks at: without any of it the decision would be another.
func TestNeeds(t *testing.T) {
	c := transcript.Change{
		After: transcript.After("after"), Append: []transcript.NewEntry{marker("n"), {ID: "k", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{FirstKept: "n", Pinned: []transcript.EntryID{"pin"}}}},
		Start: []transcript.CallAddress{{Entry: "e", Call: "1"}}, Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "e", Call: "2"}}},
		Abort: []transcript.EntryID{"abort"}, Refs: []transcript.RefChange{{Name: "r", To: transcript.After("ref")}, {Name: "gone"}}, Labels: []transcript.LabelChange{{Entry: "label"}, {Entry: "after"}},
	}
	want := transcript.Needs{
		Entries: []transcript.EntryID{"after", "n", "k", "pin", "abort", "ref", "label"}, Base: transcript.After("after"), Kept: []transcript.EntryID{"pin"},
		Calls: []transcript.CallAddress{{Entry: "e", Call: "1"}, {Entry: "e", Call: "2"}}, Refs: true, Draft: true,
	}
	got := c.Needs(transcript.After("head"))
	got.Entries, want.Entries = sorted(got.Entries), sorted(want.Entries)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	c = transcript.Change{Head: transcript.After("to"), Draft: &transcript.Draft{NewEntry: marker("d"), After: transcript.After("follows")}}
	if got := c.Needs(transcript.After("head")); got.Base != transcript.After("head") || strings.Join(toStrings(got.Entries), " ") != "head to d follows" || !got.Draft {
		t.Errorf("got %+v", got)
	}
}

func toStrings(ids []transcript.EntryID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

func sorted(ids []transcript.EntryID) []transcript.EntryID { return slices.Sorted(slices.Values(ids)) }
