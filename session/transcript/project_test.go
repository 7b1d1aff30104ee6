package transcript_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// strict is a provider that takes nothing it could refuse: each call has
// exactly one result, the results of a message stand right behind it, there is no
// result without its call, no message is empty, and a result says how it ended.
func strict(messages []transcript.Message) error {
	var waiting []transcript.CallID // for their results
	for i, m := range messages {
		if m.Role == transcript.RoleTool {
			switch {
			case m.Call == nil || len(m.Parts) > 0:
				return fmt.Errorf("message %d is no result", i)
			case len(waiting) == 0 || waiting[0] != m.Call.ID:
				return fmt.Errorf("message %d is the result of %s, and %v are waited for", i, m.Call.ID, waiting)
			case !m.Call.Status.Settled():
				return fmt.Errorf("message %d is a result that is %s", i, m.Call.Status)
			}
			waiting = waiting[1:]
			continue
		}
		if len(waiting) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, waiting)
		}
		if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant || m.Call != nil || len(m.Parts) == 0 {
			return fmt.Errorf("message %d is %+v", i, m)
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				if m.Role != transcript.RoleAssistant {
					return fmt.Errorf("message %d: a %s calls", i, m.Role)
				}
				if slices.Contains(waiting, p.Call.ID) {
					return fmt.Errorf("message %d calls %s twice", i, p.Call.ID)
				}
				waiting = append(waiting, p.Call.ID)
			}
			if (p.Type == transcript.PartText || p.Type == transcript.PartThinking) && p.Blob == nil && strings.TrimSpace(p.Text()) == "" {
				return fmt.Errorf("message %d has a part without text", i)
			}
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("the results of %v are missing", waiting)
	}
	return nil
}

// A provider that takes everything would show nothing.
func TestStrictRefuses(t *testing.T) {
	text := []transcript.Part{transcript.TextPart("x")}
	calls := []transcript.Part{callPart("c", transcript.CallFailed)}
	result := transcript.Message{Role: transcript.RoleTool, Call: calls[0].Call}
	for what, messages := range map[string][]transcript.Message{
		"a call without a result":    {{Role: transcript.RoleAssistant, Parts: calls}},
		"a result without a call":    {{Role: transcript.RoleUser, Parts: text}, result},
		"a result too many":          {{Role: transcript.RoleAssistant, Parts: calls}, result, result},
		"a result too late":          {{Role: transcript.RoleAssistant, Parts: calls}, {Role: transcript.RoleUser, Parts: text}, result},
		"two calls of one name":      {{Role: transcript.RoleAssistant, Parts: []transcript.Part{calls[0], calls[0]}}, result, result},
		"an empty message":           {{Role: transcript.RoleUser}},
		"an empty text":              {{Role: transcript.RoleUser, Parts: []transcript.Part{transcript.TextPart(" ")}}},
		"a user that calls":          {{Role: transcript.RoleUser, Parts: calls}, result},
		"a result that is not there": {{Role: transcript.RoleAssistant, Parts: calls}, {Role: transcript.RoleTool, Call: callPart("c", transcript.CallPending).Call}},
	} {
		if strict(messages) == nil {
			t.Errorf("%s is taken", what)
		}
	}
}

func entries(t *rapid.T) []transcript.Entry {
	kinds := []transcript.Kind{
		transcript.KindUser, transcript.KindAssistant, transcript.KindAssistant, transcript.KindSynthetic, transcript.KindContext, transcript.KindHidden,
		transcript.KindCompaction, transcript.KindSummary, transcript.KindConfig, transcript.KindState, transcript.KindMarker, "of a later version",
	}
	statuses := []transcript.CallStatus{
		transcript.CallPending, transcript.CallRunning, transcript.CallSucceeded, transcript.CallFailed, transcript.CallDenied, transcript.CallInterrupted,
	}
	texts := rapid.SampledFrom([]string{"", " \n", "hello"})
	var out []transcript.Entry
	for i := range rapid.IntRange(0, 12).Draw(t, "entries") {
		e := transcript.Entry{Aborted: rapid.IntRange(0, 5).Draw(t, "aborted") == 0}
		e.ID, e.Kind = transcript.EntryID(fmt.Sprint(i)), rapid.SampledFrom(kinds).Draw(t, "kind")
		if e.Kind == transcript.KindCompaction {
			e.Compaction = &transcript.Compaction{Summary: texts.Draw(t, "summary")}
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "parts") {
			switch p := rapid.IntRange(0, 3).Draw(t, "part"); {
			case !e.Kind.Message():
			case p == 0 && e.Kind == transcript.KindAssistant:
				e.Parts = append(e.Parts, callPart(transcript.CallID(fmt.Sprint("c", j)), rapid.SampledFrom(statuses).Draw(t, "status"))) // the same ids in every entry
			case p == 1:
				e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartText, Blob: &transcript.Blob{Size: 1 << 20}})
			case p == 2:
				e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartThinking, Data: []byte(`{"signature":"x"}`)})
			default:
				e.Parts = append(e.Parts, transcript.TextPart(texts.Draw(t, "text")))
			}
		}
		out = append(out, e)
	}
	return out
}

// Invariant 6, case 15: whatever entries, cut wherever, are what a provider
// takes; what is for a model is there, in order, and what is not is not.
func TestProjectSatisfiesStrictProviders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := entries(t)
		from := rapid.IntRange(0, len(all)).Draw(t, "from")
		given := all[from:rapid.IntRange(from, len(all)).Draw(t, "to")]
		before := fmt.Sprintf("%+v", given)
		messages := transcript.Project(given)
		if err := strict(messages); err != nil {
			t.Fatalf("%v in %+v", err, messages)
		}
		if after := fmt.Sprintf("%+v", given); after != before {
			t.Fatalf("it writes to what it is given: %s, was %s", after, before)
		}
		said := map[transcript.EntryID]bool{}
		for _, m := range messages {
			said[m.Entry] = true
		}
		newest := transcript.EntryID("")
		for _, e := range given {
			if e.Compaction != nil && !e.Aborted {
				newest = e.ID
			}
		}
		for _, e := range given {
			want := !e.Aborted && e.Kind.Message() && hasContent(e) || e.ID == newest && strings.TrimSpace(e.Compaction.Summary) != ""
			if said[e.ID] != want {
				t.Fatalf("entry %+v is for a model: %v, was given: %v", e, want, said[e.ID])
			}
		}
	})
}

func hasContent(e transcript.Entry) bool {
	for _, p := range e.Parts {
		if p.Call != nil || p.Blob != nil || strings.TrimSpace(p.Text()) != "" {
			return true
		}
	}
	return false
}

func TestProject(t *testing.T) {
	say := func(id transcript.EntryID, kind transcript.Kind, parts ...transcript.Part) transcript.Entry {
		return transcript.Entry{NewEntry: transcript.NewEntry{ID: id, Kind: kind, Parts: parts}}
	}
	done := callPart("done", transcript.CallSucceeded)
	done.Call.Result = []byte(`{"exit":0}`)
	open := callPart("open", transcript.CallRunning)
	open.Call.Result = []byte(`"half"`)
	old := transcript.Entry{NewEntry: transcript.NewEntry{ID: "k1", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "older"}}}
	newer := transcript.Entry{NewEntry: transcript.NewEntry{ID: "k2", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "newer"}}}
	got := transcript.Project([]transcript.Entry{
		say("pin", transcript.KindUser, transcript.TextPart("remember")), old, say("a", transcript.KindAssistant, transcript.TextPart("I look"), done, open), newer,
		say("note", transcript.KindSynthetic, transcript.TextPart("by the way")), say("hidden", transcript.KindHidden),
		say("left", transcript.KindSummary, transcript.TextPart("what was tried")), say("empty", transcript.KindUser, transcript.TextPart("")),
	})
	answer := *open.Call
	answer.Status, answer.Result = transcript.CallInterrupted, nil
	want := []transcript.Message{
		{Role: transcript.RoleUser, Entry: "k2", Parts: []transcript.Part{transcript.TextPart("newer")}},
		{Role: transcript.RoleUser, Entry: "pin", Parts: []transcript.Part{transcript.TextPart("remember")}},
		{Role: transcript.RoleAssistant, Entry: "a", Parts: []transcript.Part{transcript.TextPart("I look"), done, open}},
		{Role: transcript.RoleTool, Entry: "a", Call: done.Call},
		{Role: transcript.RoleTool, Entry: "a", Call: &answer},
		{Role: transcript.RoleUser, Entry: "note", Parts: []transcript.Part{transcript.TextPart("by the way")}},
		{Role: transcript.RoleUser, Entry: "left", Parts: []transcript.Part{transcript.TextPart("what was tried")}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := transcript.Project(nil); len(got) > 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		part transcript.Part
		want string
	}{
		{transcript.TextPart("<ü>"), "<ü>"},
		{transcript.TextPart("a\xffb"), "a\uFFFDb"},
		{transcript.Part{Type: transcript.PartThinking, Data: []byte(`{"text":"hm","signature":"x"}`)}, "hm"},
		{transcript.Part{Type: "image", Data: []byte(`{"text":"no"}`)}, ""},
		{transcript.Part{Type: transcript.PartText, Data: []byte(`{"text":7}`)}, ""},
		{transcript.Part{Type: transcript.PartText}, ""},
	} {
		if got := c.part.Text(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.part, got, c.want)
		}
	}
}
