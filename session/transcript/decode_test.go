package transcript_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// asDecoded is what a body says as encoding/json has it.
func asDecoded(body []byte) (e transcript.Entry, err error) {
	var doc struct {
		Parts      []transcript.Part
		Payload    json.RawMessage
		Compaction *transcript.Compaction
		State      *transcript.StateDelta
		Usage      *transcript.Usage
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return e, err
	}
	e.Parts, e.Payload, e.Compaction, e.State = doc.Parts, doc.Payload, doc.Compaction, doc.State
	if doc.Usage != nil {
		e.Usage = *doc.Usage
	}
	for _, p := range e.Parts {
		if p.Call != nil {
			p.Call.Status = transcript.CallPending
		}
	}
	return e, nil
}

// sameDecoded compares what Unseal makes of a body with what encoding/json does.
func sameDecoded(body []byte) error {
	want, refused := asDecoded(body)
	var calls []transcript.Call
	for _, p := range want.Parts {
		if p.Call != nil {
			calls = append(calls, transcript.Call{ID: p.Call.ID, Status: transcript.CallPending})
			p.Call.Result, p.Call.Blob = nil, nil // which are never in it
		}
	}
	kept := bytes.Clone(body)
	var got transcript.Entry
	if err := transcript.Unseal(&got, kept, calls); (err == nil) != (refused == nil) {
		return fmt.Errorf("answered %v, want %v, of\n%s", err, refused, body)
	} else if err != nil {
		return nil
	}
	clear(kept) // it is the driver's
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s\nof %s", diff, body)
	}
	return nil
}

// What was stored is read as encoding/json reads it, of any text; also where it
// is damaged, by which it may still be a document. (invariant 9)
func TestBodyIsReadAsEncodingJSONReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sealed, err := transcript.Seal(anyEntry(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := sameDecoded(sealed.Body); err != nil {
			t.Fatal(err)
		}
		damaged := sealed.Body
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			at := rapid.IntRange(0, len(damaged)-1).Draw(t, "at")
			with := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("\"\\{}[]:,-.0123eEunl \n\x01é")), 0, 3, -1).Draw(t, "with"))
			damaged = slices.Concat(damaged[:at], with, damaged[min(len(damaged), at+rapid.IntRange(0, 2).Draw(t, "of")):])
			if len(damaged) == 0 {
				break
			}
			if err := sameDecoded(damaged); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Of JSON of every form, and of what only looks like it, the same is read.
func TestBodiesOfEveryForm(t *testing.T) {
	values := []string{
		`0`, `-0`, `-1`, `1.5`, `-1.5e+10`, `1E5`, `01`, `1.`, `.5`, `-`, `1e`, `1e+`, `+1`, `true`, `false`, `null`, `tru`, `nulll`, `""`, `"a"`, `"\u00e9\n\/\\\""`, `"\u00g0"`, `"\u00e"`,
		`"\x"`, `"\`, `"a`, "\"\n\"", "\"\xff\"", `{}`, `[]`, `[1,"a",{"b":[null]}]`, `[1,]`, `[,1]`, `[1 ,2]`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, `{"a":1`, `[1`, `{"a":1]`, `[1}`,
		strings.Repeat("[", 60) + strings.Repeat("]", 60), strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60), strings.Repeat("[", 60), ``, ` 1`, `1 `, `1 2`,
	}
	for _, value := range values {
		for _, body := range []string{
			value, `{"payload":` + value + `}`, `{"parts":[{"type":"text","data":` + value + `}]}`, `{"parts":[{"type":` + value + `}]}`, `{"parts":` + value + `}`,
			`{"parts":[{"type":"tool_call","call":{"id":"c","name":"n","arguments":` + value + `,"status":""}}],"usage":{"input":1}}`,
			`{"parts":[{"type":"tool_call","call":{"id":` + value + `,"name":"n","arguments":1,"status":""}}]}`,
			`{"parts":[{"type":"image","blob":{"hash":"h","size":` + value + `}}],"payload":{}}`, `{"usage":{"input":` + value + `,"cost_micros":3}}`, `{"usage":` + value + `}`,
		} {
			if err := sameDecoded([]byte(body)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, body := range []string{
		`{}`, `{`, `{}}`, `{"parts":[]}`, `{"parts":[,{"type":"a"}]}`, `{"parts":[{"type":"a"},]}`, `{"parts":[{"type":"a"}{"type":"b"}]}`, `{"parts":[{"type":"a"}]`, `{,"payload":{}}`,
		`{"payload":{},"parts":[{"type":"a"}]}`, `{"payload":1,"payload":2}`, `{"Payload":1}`, `{"usage":{}}`, `{"usage":{"output":1,"input":2}}`, `{"usage":{"input":999999999999999999,"output":9999999999999999999}}`,
		`{"usage":{"input":9223372036854775807}}`, `{"usage":{"input":-9223372036854775808}}`, `{"parts":[{"data":1,"type":"a"}]}`, `{"parts":[{"type":"a","more":1}]}`, `{"more":{}}`,
		`{"parts":[{"type":"tool_call","call":{"id":"c","name":"n","arguments":1,"status":"failed"}}]}`, `{"parts":[{"type":"tool_call","call":{"id":"c"}}]}`, `{"parts":[{"type":"a","blob":{"hash":"h"}}]}`,
		`{"parts":[{"type":"ä"}]}`, "{\"parts\":[{\"type\":\"\xff\"}]}", `{"parts":[{"type":"\u0061"}]}`, `{"parts":[{"type":"<&>"}]}`,
	} {
		if err := sameDecoded([]byte(body)); err != nil {
			t.Error(err)
		}
	}
}

// A message is read without looking for what it might be: what it takes are its parts and their content.
func TestMessagesAreReadAtOnce(t *testing.T) {
	sealed, err := transcript.Seal(transcript.NewEntry{
		ID: "e", Kind: transcript.KindAssistant, Parts: []transcript.Part{transcript.TextPart(strings.Repeat("as was said\n", 80))}, Usage: transcript.Usage{Input: 1000, Output: 250, CostMicros: 40},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		var e transcript.Entry
		err = transcript.Unseal(&e, sealed.Body, nil)
	}); err != nil || n > 5 {
		t.Errorf("it takes %v allocations, %v", n, err)
	}
}

func BenchmarkUnseal(b *testing.B) {
	sealed, err := transcript.Seal(transcript.NewEntry{ID: "e", Kind: transcript.KindAssistant, Parts: []transcript.Part{transcript.TextPart(strings.Repeat("as was said. ", 79))}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var e transcript.Entry
		if err := transcript.Unseal(&e, sealed.Body, nil); err != nil {
			b.Fatal(err)
		}
	}
}
