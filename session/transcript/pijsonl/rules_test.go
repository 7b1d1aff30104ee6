package pijsonl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// What a model is given at the head, of each thing that a file may have.
func TestGiven(t *testing.T) {
	for _, c := range []struct{ rule, text, want string }{
		{"results stand behind their call in the order of the calls, whatever order they came in",
			v3(says("a", "", "go"), answers("b", "a", calls("c1"), calls("c2")), result("r2", "b", "c2", "two"), result("r1", "r2", "c1", "one"), answers("d", "r1", word("done"))),
			`a user: text {"text":"go"}
b assistant: c1 bash({"command":"ls"}) c2 bash({"command":"ls"})
b c1 succeeded {"content":[{"type":"text","text":"one"}]}
b c2 succeeded {"content":[{"type":"text","text":"two"}]}
d assistant: text {"text":"done"}
`},
		{"a call without a result is interrupted",
			v3(answers("a", "", calls("c1")), says("b", "a", "stop")),
			`a assistant: c1 bash({"command":"ls"})
a c1 interrupted ` + `
b user: text {"text":"stop"}
`},
		{"a failure is one",
			v3(answers("a", "", calls("c1")), strings.Replace(result("r", "a", "c1", "no"), `"isError":false`, `"isError":true`, 1)),
			`a assistant: c1 bash({"command":"ls"})
a c1 failed {"content":[{"type":"text","text":"no"}]}
`},
		{"a result may be a text, or nothing",
			v3(answers("a", "", calls("c1"), calls("c2")), line("message", "r1", "a", `"message":{"role":"toolResult","toolCallId":"c1","content":"plain"}`), line("message", "r2", "r1", `"message":{"role":"toolResult","toolCallId":"c2"}`)),
			`a assistant: c1 bash({"command":"ls"}) c2 bash({"command":"ls"})
a c1 succeeded {"content":"plain"}
a c2 succeeded {"content":[]}
`},
		{"of several branches the first in the file has answered",
			v3(answers("a", "", calls("c1")), result("r1", "a", "c1", "first"), result("r2", "a", "c1", "second")),
			`a assistant: c1 bash({"command":"ls"})
a c1 succeeded {"content":[{"type":"text","text":"first"}]}
`},
		{"a call on another branch is not answered",
			v3(says("q", "", "go"), answers("a", "q", calls("c1")), answers("b", "q", calls("c1")), result("r", "b", "c1", "b's"), line("leaf", "l", "r", `"targetId":"a"`)),
			`q user: text {"text":"go"}
a assistant: c1 bash({"command":"ls"})
a c1 interrupted ` + `
`},
		{"the same id again, in a later entry, is another call",
			v3(answers("a", "", calls("c1")), result("r1", "a", "c1", "one"), answers("b", "r1", calls("c1")), result("r2", "b", "c1", "two")),
			`a assistant: c1 bash({"command":"ls"})
a c1 succeeded {"content":[{"type":"text","text":"one"}]}
b assistant: c1 bash({"command":"ls"})
b c1 succeeded {"content":[{"type":"text","text":"two"}]}
`},
		{"the same id in one entry gets another name, and each has its result",
			v3(answers("a", "", calls("c1"), calls("c1#2"), calls("c1")), result("r1", "a", "c1", "one"), result("r2", "r1", "c1", "two")),
			`a assistant: c1 bash({"command":"ls"}) c1#2 bash({"command":"ls"}) c1#3 bash({"command":"ls"})
a c1 succeeded {"content":[{"type":"text","text":"one"}]}
a c1#2 interrupted ` + `
a c1#3 succeeded {"content":[{"type":"text","text":"two"}]}
`},
		{"what can't be an id gets one, and a call without a name or arguments has such",
			v3(answers("a", "", `{"type":"toolCall"}`, `{"type":"toolCall","id":"x\u0000y","name":" a\nb ","arguments":7}`), line("message", "r", "a", `"message":{"role":"toolResult","toolCallId":"x\u0000y","content":[]}`)),
			`a assistant: #1 unknown({}) xy#2 a b(7)
a #1 interrupted ` + `
a xy#2 succeeded {"content":[]}
`},
		{"a result without a call, or of a call that another has come after, is not given",
			v3(answers("a", "", calls("c1")), result("r0", "a", "c0", "whose?"), answers("b", "r0", calls("c2")), result("r1", "b", "c1", "late"), result("r2", "r1", "c2", "two")),
			`a assistant: c1 bash({"command":"ls"})
a c1 interrupted ` + `
b assistant: c2 bash({"command":"ls"})
b c2 succeeded {"content":[{"type":"text","text":"two"}]}
`},
		{"what the model said between a call and its result, without calling, is no obstacle",
			v3(answers("a", "", calls("c1")), answers("b", "a", word("hm")), result("r", "b", "c1", "one")),
			`a assistant: c1 bash({"command":"ls"})
a c1 succeeded {"content":[{"type":"text","text":"one"}]}
b assistant: text {"text":"hm"}
`},
		{"a compaction keeps from an entry on",
			v3(says("a", "", "1"), says("b", "a", "2"), line("compaction", "k", "b", `"summary":"one","firstKeptEntryId":"b","tokensBefore":5`), says("c", "k", "3")),
			"k user: text {\"text\":\"one\"}\nb user: text {\"text\":\"2\"}\nc user: text {\"text\":\"3\"}\n"},
		{"what is not on the path of a compaction it does not keep",
			v3(says("a", "", "1"), says("b", "a", "2"), says("o", "a", "other"), line("compaction", "k", "b", `"summary":"one","firstKeptEntryId":"o","tokensBefore":5`), says("c", "k", "3")),
			"k user: text {\"text\":\"one\"}\nc user: text {\"text\":\"3\"}\n"},
		{"a compaction that names itself, or what is nowhere, or nothing, keeps nothing",
			v3(says("a", "", "1"), line("compaction", "k", "a", `"summary":"one","firstKeptEntryId":"k"`), line("compaction", "l", "k", `"summary":"two","firstKeptEntryId":"z"`), line("compaction", "m", "l", `"summary":"three"`)),
			"m user: text {\"text\":\"three\"}\n"},
		{"a compaction at the root keeps nothing",
			v3(says("a", "", "1"), line("compaction", "k", "", `"summary":"one","firstKeptEntryId":"a"`)),
			"k user: text {\"text\":\"one\"}\n"},
		{"a tail that repeats what is right before it keeps that, and what is said to nobody between is no obstacle",
			v3(says("a", "", "1"), says("b", "a", "2"), line("label", "l", "b", `"targetId":"b","label":"x"`), answers("c", "l", word("3")),
				line("compaction", "k", "c", `"summary":"one","retainedTail":[{"role":"user","content":"2","timestamp":5},{"role":"assistant","content":[`+word("3")+`]}]`)),
			"k user: text {\"text\":\"one\"}\nb user: text {\"text\":\"2\"}\nc assistant: text {\"text\":\"3\"}\n"},
		{"a tail has what an extension said under the name that this has now",
			v3(says("a", "", "1"), line("message", "b", "a", `"message":{"role":"hookMessage","content":"2"}`), line("compaction", "k", "b", `"summary":"one","retainedTail":[{"role":"custom","content":"2"}]`)),
			"k user: text {\"text\":\"one\"}\nb user: text {\"text\":\"2\"}\n"},
		{"a tail of other words, or of more than there is, keeps nothing",
			v3(says("a", "", "1"), says("b", "a", "2"), line("compaction", "k", "b", `"summary":"one","retainedTail":[{"role":"user","content":"two"}]`),
				line("compaction", "l", "k", `"summary":"two","retainedTail":[{"role":"user","content":"0"},{"role":"user","content":"1"},{"role":"user","content":"2"}]`)),
			"l user: text {\"text\":\"two\"}\n"},
		{"a tail that is something else leaves it to the entry that is named; an empty one too",
			v3(says("a", "", "1"), says("b", "a", "2"), line("compaction", "k", "b", `"summary":"one","firstKeptEntryId":"b","retainedTail":7`), line("compaction", "l", "k", `"summary":"two","firstKeptEntryId":"b","retainedTail":[]`)),
			"l user: text {\"text\":\"two\"}\nb user: text {\"text\":\"2\"}\n"},
		{"the head is where a leaf says, or before the root; a leaf of what is nowhere moves nothing",
			v3(says("a", "", "1"), says("b", "a", "2"), line("leaf", "l", "b", `"targetId":"a"`), line("leaf", "m", "b", `"targetId":"z"`)),
			"a user: text {\"text\":\"1\"}\n"},
		{"before the root there is nothing",
			v3(says("a", "", "1"), line("leaf", "l", "a", `"targetId":null`)), ""},
		{"a second header, lines that are there already and empty ones are nothing",
			v3(says("a", "", "1"), `{"type":"session","version":3,"id":"s"}`, "", says("a", "", "1"), " \t", says("b", "a", "2")),
			"a user: text {\"text\":\"1\"}\nb user: text {\"text\":\"2\"}\n"},
		{"a parent without a name is none",
			v3(says("a", "", "1"), strings.Replace(says("b", "", "2"), "null", `""`, 1)), "b user: text {\"text\":\"2\"}\n"},
		{"a part that this package does not know is one, and none is taken for a call",
			v3(line("message", "a", "", `"message":{"role":"user","content":[{"type":"sound","data":"AA"},{"type":"tool_call","id":"c"}]}`)),
			"a user: sound {\"data\":\"AA\"} pi_tool_call {\"id\":\"c\"}\n"},
		{"what says nothing is not given, nor what has no parts",
			v3(says("a", "", " "), line("message", "b", "a", `"message":{"role":"user","content":5}`), line("message", "c", "b", `"message":{"role":"user"}`), line("message", "d", "c", `"message":7`), line("branch_summary", "e", "d", `"summary":""`), line("message", "f", "e", `"message":{"role":"user","content":["bare"]}`), says("g", "f", "2")),
			"g user: text {\"text\":\"2\"}\n"},
		{"what is no UTF-8 is replaced",
			strings.Replace(v3(says("a", "", "1?2")), "?", "\xff", 1), "a user: text {\"text\":\"1\uFFFD2\"}\n"},
		{"names of fields are those that pi writes, letter by letter",
			v3(strings.Replace(says("a", "", "1"), `"content":`, `"Content":"2","content":`, 1)), "a user: text {\"text\":\"1\"}\n"},
		{"of what the user ran a model hears how it ended",
			v3(line("message", "a", "", `"message":{"role":"bashExecution","command":"ls","output":"x\n","cancelled":true}`), line("message", "b", "a", `"message":{"role":"bashExecution","command":"true","output":"","exitCode":0}`)),
			"a user: text {\"text\":\"The user ran a command:\\n$ ls\\nx\\n(cancelled)\"}\nb user: text {\"text\":\"The user ran a command:\\n$ true\"}\n"},
		{"summaries that are messages are given like any other",
			v3(line("message", "a", "", `"message":{"role":"branchSummary","summary":"left","fromId":"z"}`), line("message", "b", "a", `"message":{"role":"compactionSummary","summary":"short"}`)),
			"a user: text {\"text\":\"left\"}\nb user: text {\"text\":\"short\"}\n"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			store, _ := imported(t, c.text)
			if diff := cmp.Diff(c.want, given(t, store)); diff != "" {
				t.Error(diff)
			}
			sound(t, store, "talk")
		})
	}
}

// What has no place of its own is in the payload, and so nothing is lost.
func TestPayload(t *testing.T) {
	long := strings.Repeat("c", 300)
	for _, c := range []struct{ rule, line, want string }{
		{"what is of no known type is there as it was", line("garden", "b", "a", `"beds":[1,2]`), `{"pi":{"beds":[1,2],"timestamp":"2026-01-02T03:04:06.000Z","type":"garden"}}`},
		{"so is a message of no known role", line("message", "b", "a", `"message":{"role":"owl","content":"hoo"}`), `{"pi":{"message":{"content":"hoo","role":"owl"},"timestamp":"2026-01-02T03:04:06.000Z","type":"message"}}`},
		{"so is a content that is none", line("message", "b", "a", `"message":{"role":"assistant","content":{"x":1}}`), `{"pi":{"message":{"content":{"x":1},"role":"assistant"},"timestamp":"2026-01-02T03:04:06.000Z","type":"message"}}`},
		{"so is a result that answers nothing", result("b", "a", "c", "hm"), `{"pi":{"message":{"content":[{"type":"text","text":"hm"}],"isError":false,"role":"toolResult","toolCallId":"c","toolName":"bash"},"timestamp":"2026-01-02T03:04:06.000Z","type":"message"}}`},
		{"so is a tail that repeats nothing", line("compaction", "b", "a", `"summary":"s","retainedTail":[{"role":"user","content":"0"}]`), `{"pi":{"retainedTail":[{"role":"user","content":"0"}],"timestamp":"2026-01-02T03:04:06.000Z","type":"compaction"}}`},
		{"so is a summary that is no text", line("compaction", "b", "a", `"summary":{"x":1}`), `{"pi":{"summary":{"x":1},"timestamp":"2026-01-02T03:04:06.000Z","type":"compaction"}}`},
		{"an id of a call that is too long, and what a call has beside, stand under its own", answers("b", "a", `{"type":"toolCall","id":"`+long+`","name":"n","arguments":{},"thoughtSignature":"s"}`), `{"pi":{"message":{"role":"assistant","stopReason":"stop"},"timestamp":"2026-01-02T03:04:06.000Z","type":"message"},"calls":{"` + long[:128] + `#1":{"id":"` + long + `","thoughtSignature":"s"}}}`},
		{"so does a name of a tool that is none", answers("b", "a", `{"type":"toolCall","id":"c","name":"a\nb","arguments":{}}`), `{"pi":{"message":{"role":"assistant","stopReason":"stop"},"timestamp":"2026-01-02T03:04:06.000Z","type":"message"},"calls":{"c":{"name":"a\nb"}}}`},
		{"what means something to browsers only is as it was", line("custom", "b", "a", `"data":"<a&b>"`), `{"pi":{"data":"<a&b>","timestamp":"2026-01-02T03:04:06.000Z","type":"custom"}}`},
		{"numbers keep every digit", line("custom", "b", "a", `"data":12345678901234567890.10`), `{"pi":{"data":12345678901234567890.10,"timestamp":"2026-01-02T03:04:06.000Z","type":"custom"}}`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			store, _ := imported(t, v3(says("a", "", "hello"), c.line))
			found, err := store.Get(t.Context(), "talk", "b")
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			if diff := cmp.Diff(c.want, string(found[0].Payload)); diff != "" {
				t.Error(diff)
			}
			sound(t, store, "talk")
		})
	}
}

// However ids of calls are chosen, each gets one of its own.
func TestCallIDs(t *testing.T) {
	long := strings.Repeat("c", 300)
	store, _ := imported(t, v3(answers("a", "", calls(long[:128]+"#2"), calls(long), calls("ü"+long), calls(long[:128]+"#5"), calls(long), calls(""), calls("#6"))))
	var ids []transcript.CallID
	for _, p := range all(t, store, "talk")[0].Parts {
		ids = append(ids, p.Call.ID)
	}
	short := transcript.CallID(long[:128])
	if diff := cmp.Diff([]transcript.CallID{short + "#2", short + "#3", "ü" + short[:126] + "#3", short + "#5", short + "#6", "#6", "#6#7"}, ids); diff != "" {
		t.Error(diff)
	}
}

// Usage is counted as pi has counted it, as far as that can be.
func TestUsage(t *testing.T) {
	for text, want := range map[string]transcript.Usage{
		`{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":{"total":0.0000015}}`: {Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CostMicros: 2},
		`{"input":-5,"output":1e300,"cost":{"total":-1}}`:                                {Output: 1 << 40},
		`{"input":"1","output":1e999,"cost":7}`:                                          {},
		`{"input":1.5,"cost":{"total":1e300}}`:                                           {Input: 2, CostMicros: 1 << 40},
		`7`:                                                                              {},
	} {
		_, row := imported(t, v3(line("message", "a", "", `"message":{"role":"assistant","content":[],"usage":`+text+`}`)))
		if row.Usage != want {
			t.Errorf("%s: got %+v, want %+v", text, row.Usage, want)
		}
	}
}

// The last label of an entry is its label, and no label is more than a name may be.
func TestLabels(t *testing.T) {
	label := func(id, parent, target, rest string) string {
		return line("label", id, parent, fmt.Sprintf(`"targetId":%q%s`, target, rest))
	}
	store, _ := imported(t, v3(
		says("a", "", "1"), says("b", "a", "2"), says("c", "b", "3"),
		label("l1", "c", "a", `,"label":"first"`), label("l2", "l1", "b", `,"label":"gone"`), label("l3", "l2", "a", `,"label":" last\n"`),
		label("l4", "l3", "b", ``), label("l5", "l4", "nowhere", `,"label":"x"`), label("l6", "l5", "c", `,"label":"`+strings.Repeat("ü", 200)+`"`),
	))
	page, err := store.Headers(t.Context(), transcript.HeaderQuery{Conversation: "talk"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[transcript.EntryID][]string{}
	for _, h := range page.Headers {
		if len(h.Labels) > 0 {
			got[h.ID] = h.Labels
		}
	}
	if diff := cmp.Diff(map[transcript.EntryID][]string{"a": {"last"}, "c": {strings.Repeat("ü", 128)}}, got); diff != "" {
		t.Error(diff)
	}
}
