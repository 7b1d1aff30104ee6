package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// change is one with something of everything, which is fine.
func change() transcript.Change {
	return transcript.Change{
		Conversation: "c", Fence: 1, Begin: true, End: true, Expect: transcript.BeforeRoot(), Version: 1, MaxBytes: 1,
		Append: []transcript.NewEntry{
			sample(),
			{ID: "k", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{FirstKept: "e", Pinned: []transcript.EntryID{"p"}}},
			{ID: "s", Kind: transcript.KindState, State: &transcript.StateDelta{Set: map[string]json.RawMessage{"k": json.RawMessage(`1`)}}},
		},
		After:  transcript.After("a"),
		Start:  []transcript.CallAddress{{Entry: "a", Call: "c"}},
		Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "a", Call: "c"}, Status: transcript.CallFailed, Result: []byte(`{}`)}},
		Abort:  []transcript.EntryID{"d"},
		Refs:   []transcript.RefChange{{Name: "r", To: transcript.After("a"), Version: -1}},
		Labels: []transcript.LabelChange{{Entry: "a", Label: "l"}},
	}
}

// JSON may be deep, but not so deep that what is kept of it can't be read: it
// comes back, or is refused by the name of its field.
func TestDeepJSON(t *testing.T) {
	for _, levels := range []int{transcript.MaxNesting, transcript.MaxNesting + 1} {
		deep := json.RawMessage(`{"text":"[[","a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`)
		wide := json.RawMessage(`{"a":[` + strings.Repeat(`[],{},"[\"[",`, levels) + `0]}`)
		for field, of := range map[string]func(json.RawMessage) transcript.NewEntry{
			"Append[0].Parts[0].Data": func(j json.RawMessage) transcript.NewEntry {
				return transcript.NewEntry{ID: "e", Kind: transcript.KindUser, Parts: []transcript.Part{{Type: "text", Data: j}}}
			},
			"Append[0].Payload": func(j json.RawMessage) transcript.NewEntry {
				return transcript.NewEntry{ID: "e", Kind: transcript.KindUser, Payload: j}
			},
			"Append[0].Parts[0].Call.Arguments": func(j json.RawMessage) transcript.NewEntry {
				p := callPart("c", transcript.CallPending)
				p.Call.Arguments = j
				return transcript.NewEntry{ID: "e", Kind: transcript.KindAssistant, Parts: []transcript.Part{p}}
			},
			"Append[0].State.Set": func(j json.RawMessage) transcript.NewEntry {
				return transcript.NewEntry{ID: "e", Kind: transcript.KindState, State: &transcript.StateDelta{Set: map[string]json.RawMessage{"k": j}}}
			},
		} {
			for _, given := range []json.RawMessage{deep, wide} {
				e := of(given)
				err := transcript.Change{Conversation: "c", Append: []transcript.NewEntry{e}}.Check()
				if levels > transcript.MaxNesting && string(given) == string(deep) {
					if bad, ok := errors.AsType[*access.FieldError](err); !ok || bad.Field != field {
						t.Errorf("%d levels: got %v, want a FieldError of %s", levels, err, field)
					}
					continue
				}
				sealed, sealing := transcript.Seal(e)
				var back transcript.Entry
				if err = errors.Join(err, sealing, transcript.Unseal(&back, sealed.Body, sealed.Calls)); err != nil {
					t.Errorf("%s of %d levels: %v", field, levels, err)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	type c = transcript.Change
	two := transcript.Position{Entry: "a", Root: true}
	long := strings.Repeat("x", access.MaxID+1)
	first := func(edit func(*transcript.NewEntry)) func(*c) {
		return func(x *c) { edit(&x.Append[0]) }
	}
	call := func(edit func(*transcript.Call)) func(*c) {
		return func(x *c) { edit(x.Append[0].Parts[3].Call) }
	}
	drafted := func(edit func(*transcript.Draft)) func(*c) {
		return func(x *c) {
			x.Append, x.After = nil, transcript.Position{}
			x.Draft = &transcript.Draft{NewEntry: sample()}
			edit(x.Draft)
		}
	}
	if err := change().Check(); err != nil {
		t.Fatalf("a change that is fine: %v", err)
	}
	if err := (transcript.Change{Conversation: "c"}).Check(); err != nil {
		t.Fatalf("a change of nothing: %v", err)
	}
	for i, x := range []struct {
		field string
		edit  func(*c)
	}{
		{"Conversation", func(x *c) { x.Conversation = "" }},
		{"Conversation", func(x *c) { x.Conversation = access.ConversationID(long) }},
		{"Fence", func(x *c) { x.Fence = -1 }},
		{"Fence", func(x *c) { x.Fence = 0 }},
		{"Fence", func(x *c) { x.Fence, x.Begin = 0, false }},
		{"Version", func(x *c) { x.Version = -1 }},
		{"MaxBytes", func(x *c) { x.MaxBytes = -1 }},
		{"Append", func(x *c) { x.Append = make([]transcript.NewEntry, transcript.MaxAppend+1) }},
		{"Append", func(x *c) { x.Append = nil }},
		{"Append", func(x *c) { x.Append, x.After, x.KeepHead = nil, transcript.Position{}, true }},
		{"Head", func(x *c) { x.Head = transcript.BeforeRoot() }},
		{"Head", func(x *c) { x.Append, x.After, x.Head = nil, transcript.Position{}, two }},
		{"Status", func(x *c) { x.Status = "asleep" }},
		{"Status", func(x *c) { x.Status = transcript.Archived }},                                               // within a turn
		{"Status", func(x *c) { *x = c{Conversation: "c", Status: transcript.Archived, Append: x.Append[:1]} }}, // with a call that is open
		{"Status", func(x *c) { *x = c{Conversation: "c", Status: transcript.Archived, Start: x.Start} }},
		{"Status", func(x *c) {
			*x = c{Conversation: "c", Status: transcript.Archived, Draft: &transcript.Draft{NewEntry: transcript.NewEntry{ID: "d", Kind: transcript.KindUser}}}
		}},
		{"CancelWaiting", func(x *c) { x.CancelWaiting = true }},
		{"CancelWaiting", func(x *c) { *x = c{Conversation: "c", Status: transcript.Active, CancelWaiting: true} }},
		{"Expect", func(x *c) { x.Expect = two }},
		{"After", func(x *c) { x.After = two }},
		{"After", func(x *c) { x.After = transcript.After("\xff") }},
		{"Append[0].ID", first(func(e *transcript.NewEntry) { e.ID = "" })},
		{"Append[0].ID", first(func(e *transcript.NewEntry) { e.ID = "a\x00" })},
		{"Append[1].ID", first(func(e *transcript.NewEntry) { e.ID = "k" })},
		{"Append[0].Kind", first(func(e *transcript.NewEntry) { e.Kind = "" })},
		{"Append[0].Kind", first(func(e *transcript.NewEntry) { e.Kind = "a\nb" })},
		{"Append[0].Turn", first(func(e *transcript.NewEntry) { e.Turn = transcript.TurnID(long) })},
		{"Append[0].Actor", first(func(e *transcript.NewEntry) { e.Actor = access.UserID(long) })},
		{"Append[0].Parts", first(func(e *transcript.NewEntry) { e.Kind = transcript.KindMarker })},
		{"Append[0].Parts", first(func(e *transcript.NewEntry) { e.Kind = transcript.KindHidden })},
		{"Append[0].Parts", first(func(e *transcript.NewEntry) { e.Parts = make([]transcript.Part, transcript.MaxParts+1) })},
		{"Append[0].Payload", first(func(e *transcript.NewEntry) { e.Payload = json.RawMessage(`[]`) })},
		{"Append[0].Payload", first(func(e *transcript.NewEntry) { e.Payload = json.RawMessage(`{`) })},
		{"Append[0].Usage", first(func(e *transcript.NewEntry) { e.Usage.CacheWrite = -1 })},
		{"Append[0].Compaction", first(func(e *transcript.NewEntry) { e.Compaction = &transcript.Compaction{} })},
		{"Append[1].Compaction", func(x *c) { x.Append[1].Compaction = nil }},
		{"Append[1].Compaction.TokensBefore", func(x *c) { x.Append[1].Compaction.TokensBefore = -1 }},
		{"Append[1].Compaction.FirstKept", func(x *c) { x.Append[1].Compaction.FirstKept = transcript.EntryID(long) }},
		{"Append[1].Compaction.Pinned", func(x *c) { x.Append[1].Compaction.Pinned = []transcript.EntryID{""} }},
		{"Append[1].Compaction.Pinned", func(x *c) {
			x.Append[1].Compaction.Pinned = slices.Repeat([]transcript.EntryID{"p"}, transcript.MaxPinned+1)
		}},
		{"Append[0].State", first(func(e *transcript.NewEntry) { e.State = &transcript.StateDelta{} })},
		{"Append[2].State", func(x *c) { x.Append[2].State = nil }},
		{"Append[2].State.Set", func(x *c) { x.Append[2].State.Set[""] = json.RawMessage(`1`) }},
		{"Append[2].State.Set", func(x *c) { x.Append[2].State.Set["\xff"] = json.RawMessage(`1`) }},
		{"Append[2].State.Set", func(x *c) { x.Append[2].State.Set["k"] = json.RawMessage(`{`) }},
		{"Append[0].Parts[0].Type", first(func(e *transcript.NewEntry) { e.Parts[0].Type = "" })},
		{"Append[0].Parts[0].Type", first(func(e *transcript.NewEntry) { e.Parts[0].Type = strings.Repeat("x", transcript.MaxName+1) })},
		{"Append[0].Parts[0].Blob", first(func(e *transcript.NewEntry) { e.Parts[0].Blob = &transcript.Blob{} })},
		{"Append[0].Parts[0].Data", first(func(e *transcript.NewEntry) { e.Parts[0].Data = nil })},
		{"Append[0].Parts[0].Data", first(func(e *transcript.NewEntry) { e.Parts[0].Data = json.RawMessage(`"text"`) })},
		{"Append[0].Parts[0].Call", first(func(e *transcript.NewEntry) { e.Parts[0].Type = transcript.PartCall })},
		{"Append[0].Parts[2].Call", first(func(e *transcript.NewEntry) { e.Parts[2].Type = transcript.PartText })},
		{"Append[0].Parts[2].Call", first(func(e *transcript.NewEntry) { e.Kind = transcript.KindUser })},
		{"Append[0].Parts[2].Data", first(func(e *transcript.NewEntry) { e.Parts[2].Data = json.RawMessage(`{}`) })},
		{"Append[0].Parts[3].Call.ID", call(func(c *transcript.Call) { c.ID = "c1" })},
		{"Append[0].Parts[3].Call.ID", call(func(c *transcript.Call) { c.ID = "" })},
		{"Append[0].Parts[3].Call.Name", call(func(c *transcript.Call) { c.Name = "" })},
		{"Append[0].Parts[3].Call.Arguments", call(func(c *transcript.Call) { c.Arguments = nil })},
		{"Append[0].Parts[3].Call.Status", call(func(c *transcript.Call) { c.Status = "done" })},
		{"Append[0].Parts[3].Call.Result", call(func(c *transcript.Call) { c.Status = transcript.CallRunning })},
		{"Append[0].Parts[3].Call.Result", call(func(c *transcript.Call) { c.Result = json.RawMessage(`{`) })},
		{"Append[0].Parts[3].Call.Blob", call(func(c *transcript.Call) { c.Blob = &transcript.Blob{} })},
		{"Draft.ID", drafted(func(d *transcript.Draft) { d.ID = "" })},
		{"Draft.After", drafted(func(d *transcript.Draft) { d.After = two })},
		{"Draft", func(x *c) {
			x.Draft = &transcript.Draft{NewEntry: transcript.NewEntry{ID: "d", Kind: transcript.KindUser}}
		}},
		{"Abort[0]", func(x *c) { x.Abort[0] = "" }},
		{"Abort[0]", func(x *c) { x.Abort[0] = "k" }},
		{"Abort[0]", drafted(func(d *transcript.Draft) { d.ID = "d" })},
		{"Abort[1]", func(x *c) { x.Abort = []transcript.EntryID{"d", "d"} }},
		{"Start[0].Entry", func(x *c) { x.Start[0].Entry = "" }},
		{"Start[0].Call", func(x *c) { x.Start[0].Call = "" }},
		{"Start[1]", func(x *c) { x.Start = append(x.Start, x.Start[0]) }},
		{"Settle[0].Entry", func(x *c) { x.Settle[0].Entry = "" }},
		{"Settle[0].Call", func(x *c) { x.Settle[0].Call = "" }},
		{"Settle[0].Status", func(x *c) { x.Settle[0].Status = transcript.CallRunning }},
		{"Settle[0].Result", func(x *c) { x.Settle[0].Result = []byte(`{`) }},
		{"Settle[1]", func(x *c) { x.Settle = append(x.Settle, x.Settle[0]) }},
		{"Refs[0].Name", func(x *c) { x.Refs[0].Name = "" }},
		{"Refs[0].To", func(x *c) { x.Refs[0].To = two }},
		{"Refs[1].Name", func(x *c) { x.Refs = append(x.Refs, x.Refs[0]) }},
		{"Labels[0].Entry", func(x *c) { x.Labels[0].Entry = "" }},
		{"Labels[0].Label", func(x *c) { x.Labels[0].Label = "\x7f" }},
	} {
		changed := change()
		x.edit(&changed)
		var fe *access.FieldError
		if err := changed.Check(); !errors.As(err, &fe) || fe.Field != x.field {
			t.Errorf("%d: got error %v, want a *access.FieldError for %s", i, err, x.field)
		}
	}
	huge := change()
	huge.Settle[0].Result = json.RawMessage(`"` + strings.Repeat("x", transcript.MaxEntryBytes) + `"`)
	var limit *transcript.LimitError
	if err := huge.Check(); !errors.As(err, &limit) || limit.Max != transcript.MaxEntryBytes {
		t.Errorf("a result that is too large: got error %v", err)
	}
}

func TestCheckQueries(t *testing.T) {
	two := transcript.Position{Entry: "a", Root: true}
	for _, c := range []struct {
		field string
		err   error
	}{
		{"", transcript.PathQuery{Conversation: "c", Limit: transcript.MaxListed}.Check()},
		{"Conversation", transcript.PathQuery{}.Check()},
		{"Limit", transcript.PathQuery{Conversation: "c", Limit: transcript.MaxListed + 1}.Check()},
		{"From", transcript.PathQuery{Conversation: "c", From: two}.Check()},
		{"Through", transcript.PathQuery{Conversation: "c", Through: "\x00"}.Check()},
		{"", transcript.TimelineQuery{Conversation: "c", Kinds: []transcript.Kind{"k"}, Turn: "t", Before: 1}.Check()},
		{"Limit", transcript.TimelineQuery{Conversation: "c", Limit: -1}.Check()},
		{"Before", transcript.TimelineQuery{Conversation: "c", Before: -1}.Check()},
		{"Kinds[1]", transcript.TimelineQuery{Conversation: "c", Kinds: []transcript.Kind{"k", ""}}.Check()},
		{"Turn", transcript.TimelineQuery{Conversation: "c", Turn: "\x00"}.Check()},
		{"", transcript.HeaderQuery{Conversation: "c", Of: transcript.BeforeRoot(), Tips: true, Label: "l"}.Check()},
		{"Conversation", transcript.HeaderQuery{}.Check()},
		{"After", transcript.HeaderQuery{Conversation: "c", After: -1}.Check()},
		{"Label", transcript.HeaderQuery{Conversation: "c", Label: "\n"}.Check()},
		{"Of", transcript.HeaderQuery{Conversation: "c", Of: two}.Check()},
		{"", transcript.Fork{To: "d", From: "c"}.Check()},
		{"To", transcript.Fork{From: "c"}.Check()},
		{"From", transcript.Fork{To: "d"}.Check()},
		{"To", transcript.Fork{To: "c", From: "c"}.Check()},
		{"At", transcript.Fork{To: "d", From: "c", At: two}.Check()},
	} {
		var fe *access.FieldError
		if c.field == "" && c.err != nil || c.field != "" && (!errors.As(c.err, &fe) || fe.Field != c.field) {
			t.Errorf("got error %v, want one for %q", c.err, c.field)
		}
	}
	if n, err := transcript.Page(0); n != transcript.DefaultListed || err != nil {
		t.Errorf("a page without a limit has %d, %v", n, err)
	}
	if got := fmt.Sprint(transcript.BeforeRoot(), ", ", transcript.After("a"), ", ", transcript.Position{}); got != "before the root, after a, nowhere" {
		t.Errorf("got %q", got)
	}
}
