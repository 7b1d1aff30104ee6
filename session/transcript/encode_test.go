package transcript_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// asEncoded is the body of an entry as encoding/json makes it, which is what
// has been stored and hashed from the first.
func asEncoded(t *rapid.T, e transcript.NewEntry) string {
	type call struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Status    string          `json:"status"`
	}
	type part struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data,omitempty"`
		Call *call           `json:"call,omitempty"`
	}
	doc := struct {
		Parts      []part                 `json:"parts,omitempty"`
		Payload    json.RawMessage        `json:"payload,omitempty"`
		Compaction *transcript.Compaction `json:"compaction,omitempty"`
		State      *transcript.StateDelta `json:"state,omitempty"`
		Usage      *transcript.Usage      `json:"usage,omitempty"`
	}{Payload: e.Payload, Compaction: e.Compaction, State: e.State}
	if e.Usage != (transcript.Usage{}) {
		doc.Usage = &e.Usage
	}
	for _, p := range e.Parts {
		one := part{Type: p.Type, Data: p.Data}
		if p.Call != nil {
			one.Call = &call{ID: string(p.Call.ID), Name: p.Call.Name, Arguments: p.Call.Arguments}
		}
		doc.Parts = append(doc.Parts, one)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// anyEntry is an entry of any text, with any white space.
func anyEntry(t *rapid.T) transcript.NewEntry {
	said := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune(" \t\n\"\\/u<>&\u2028\u2029é\U0001F600{}[]:,0\x7f"))))
	name := rapid.SampledFrom([]string{"run", "läuft", `"`, `\`, "<b>", "a b"})
	given := func(v any) json.RawMessage {
		text, err := json.MarshalIndent(v, rapid.SampledFrom([]string{"", " ", "\r\n\t"}).Draw(t, "prefix"), rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "plain") {
			text = bytes.ReplaceAll(text, []byte(`\u003c`), []byte("<"))
		}
		return append([]byte(rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "before")), text...)
	}
	object := func() json.RawMessage {
		return given(map[string]any{said.Draw(t, "key"): said.Draw(t, "value"), "text": []any{said.Draw(t, "item"), 1.5, nil, true}})
	}
	e := transcript.NewEntry{ID: "e", Kind: transcript.KindAssistant}
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "call") {
			e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartCall, Call: &transcript.Call{
				ID: transcript.CallID(said.Draw(t, "id") + string(rune('a'+len(e.Parts)))), Name: name.Draw(t, "name"), Arguments: given(said.Draw(t, "arguments")),
			}})
		} else {
			e.Parts = append(e.Parts, transcript.Part{Type: name.Draw(t, "type"), Data: object()})
		}
	}
	if rapid.Bool().Draw(t, "payload") {
		e.Payload = object()
	}
	if rapid.Bool().Draw(t, "usage") {
		e.Usage = transcript.Usage{Input: rapid.Int64Min(0).Draw(t, "input"), CostMicros: 1}
	}
	switch rapid.IntRange(0, 3).Draw(t, "of") {
	case 0:
		e.Compaction = &transcript.Compaction{Summary: said.Draw(t, "summary"), FirstKept: "k"}
	case 1:
		e.State = &transcript.StateDelta{Set: map[string]json.RawMessage{said.Draw(t, "set"): given(said.Draw(t, "to"))}, Whole: true}
	}
	return e
}

// What is stored, and with it the hash that tells a retry, is the same bytes
// whatever encodes it, of any text and any white space. (invariant 9)
func TestBodyIsAsEncodingJSONHasIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEntry(t)
		sealed, err := transcript.Seal(e)
		if err != nil {
			t.Fatal(err)
		}
		if want := asEncoded(t, e); string(sealed.Body) != want {
			t.Fatalf("got\n%s\nwant\n%s", sealed.Body, want)
		}
	})
}

// An entry of a kilobyte is read once more and copied once, whatever it says.
func BenchmarkSeal(b *testing.B) {
	e := transcript.NewEntry{ID: "e", Kind: transcript.KindAssistant, Actor: "alice", Parts: []transcript.Part{transcript.TextPart(strings.Repeat("as was said. ", 79))}}
	c := transcript.Change{Conversation: "c", Append: []transcript.NewEntry{e}}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(); err != nil {
			b.Fatal(err)
		}
		if _, err := transcript.Seal(e); err != nil {
			b.Fatal(err)
		}
	}
}
