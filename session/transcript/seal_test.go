package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// sample is an entry with something of everything.
func sample() transcript.NewEntry {
	return transcript.NewEntry{
		ID: "e", Kind: transcript.KindAssistant, Turn: "t", Actor: "alice",
		Parts: []transcript.Part{
			transcript.TextPart("hello <ü> &\u2028"),
			{Type: "image", Data: json.RawMessage(`{"n":12345678901234567890}`)},
			{Type: transcript.PartCall, Call: &transcript.Call{ID: "c1", Name: "run", Arguments: json.RawMessage(`{"a":1}`)}},
			{Type: transcript.PartCall, Call: &transcript.Call{ID: "c2", Name: "run", Arguments: json.RawMessage(`null`), Status: transcript.CallSucceeded, Result: json.RawMessage(`[]`)}},
		},
		Payload: json.RawMessage(`{"k":null}`),
		Usage:   transcript.Usage{Input: 1, CostMicros: 2},
	}
}

// Stored hashes are compared with those of entries given again: they must
// never change. (invariant 9)
func TestHashIsStable(t *testing.T) {
	compaction := transcript.NewEntry{ID: "k", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "s <>", FirstKept: "a", Pinned: []transcript.EntryID{"b"}, TokensBefore: 7}}
	state := transcript.NewEntry{ID: "s", Kind: transcript.KindState, State: &transcript.StateDelta{Whole: true, Set: map[string]json.RawMessage{"b": json.RawMessage(`2`), "a": json.RawMessage(`1`)}, Delete: []string{"c"}}}
	for _, c := range []struct {
		entry transcript.NewEntry
		hash  string
	}{
		{sample(), "a65b461d3b57861729785a629c8832af391955f40c3015d3df440a873f1d7f7d"},
		{compaction, "1b1ce020f1b0635dbb4c70feb1dfb463c3def7b71845cd52911286c39aca08a6"},
		{state, "8aecc3aa827be731ba76633ef827dc8746728e0dadc21ae7237e2ae226c76af5"},
		{transcript.NewEntry{ID: "m", Kind: transcript.KindMarker}, "9f416104fe69fd06baa4a2e942f4385abdc7f67585a298d6e48d020fe839ec25"},
	} {
		sealed, err := transcript.Seal(c.entry)
		if err != nil || sealed.Hash != c.hash {
			t.Errorf("%s: got %s, %v; want %s", c.entry.ID, sealed.Hash, err, c.hash)
		}
	}
}

// The content is what is hashed, by its meaning: not the id, nor white space, nor how a call ended since.
func TestWhatTheHashIsOf(t *testing.T) {
	hash := func(e transcript.NewEntry) string {
		s, err := transcript.Seal(e)
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash
	}
	for what, edit := range map[string]func(*transcript.NewEntry){
		"another id":                    func(e *transcript.NewEntry) { e.ID = "other" },
		"white space in data":           func(e *transcript.NewEntry) { e.Parts[1].Data = json.RawMessage("{ \"n\" :\n12345678901234567890 }") },
		"white space in arguments":      func(e *transcript.NewEntry) { e.Parts[2].Call.Arguments = json.RawMessage(` { "a" : 1 } `) },
		"white space in a result":       func(e *transcript.NewEntry) { e.Parts[3].Call.Result = json.RawMessage(` [ ] `) },
		"a call that says it's pending": func(e *transcript.NewEntry) { e.Parts[2].Call.Status = transcript.CallPending },
		"empty instead of nil":          func(e *transcript.NewEntry) { e.Parts[2].Call.Result = json.RawMessage{} },
	} {
		e := sample()
		if edit(&e); hash(e) != hash(sample()) {
			t.Errorf("%s is other content", what)
		}
	}
	for what, edit := range map[string]func(*transcript.NewEntry){
		"a kind":         func(e *transcript.NewEntry) { e.Kind = transcript.KindUser },
		"a turn":         func(e *transcript.NewEntry) { e.Turn = "u" },
		"an actor":       func(e *transcript.NewEntry) { e.Actor = "bob" },
		"the order":      func(e *transcript.NewEntry) { e.Parts[2], e.Parts[3] = e.Parts[3], e.Parts[2] },
		"a type":         func(e *transcript.NewEntry) { e.Parts[1].Type = "sound" },
		"a name":         func(e *transcript.NewEntry) { e.Parts[2].Call.Name = "go" },
		"a call's id":    func(e *transcript.NewEntry) { e.Parts[2].Call.ID = "c3" },
		"a status":       func(e *transcript.NewEntry) { e.Parts[3].Call.Status = transcript.CallFailed },
		"no result":      func(e *transcript.NewEntry) { e.Parts[3].Call.Result = nil },
		"a null result":  func(e *transcript.NewEntry) { e.Parts[3].Call.Result = json.RawMessage(`null`) },
		"a digit":        func(e *transcript.NewEntry) { e.Parts[1].Data = json.RawMessage(`{"n":12345678901234567891}`) },
		"a large result": func(e *transcript.NewEntry) { e.Parts[3].Call.Result = large("r", 1) },
		"large data":     func(e *transcript.NewEntry) { e.Parts[1].Data = large("d", 1) },
		"no payload":     func(e *transcript.NewEntry) { e.Payload = nil },
		"usage":          func(e *transcript.NewEntry) { e.Usage.CacheRead = 1 },
		"nothing at all": func(e *transcript.NewEntry) { *e = transcript.NewEntry{ID: "e", Kind: transcript.KindAssistant} },
	} {
		e := sample()
		if edit(&e); hash(e) == hash(sample()) {
			t.Errorf("%s makes no difference", what)
		}
	}
	one, two := sample(), sample()
	one.Parts[1].Data, two.Parts[1].Data = large("x", 1), large("y", 1)
	if hash(one) == hash(two) {
		t.Error("what is large makes no difference")
	}
}

// large is data of so many bytes more than a row has.
func large(text string, more int) json.RawMessage {
	return json.RawMessage(`{"text":"` + strings.Repeat(text, transcript.InlineBytes+more-len(`{"text":""}`)) + `"}`)
}

// Invariant 3: what was sealed comes back as it was given, whatever was large, in whatever order its calls are read.
func TestSealRoundTrip(t *testing.T) {
	values := []string{`{}`, `{"text":"<ü>"}`, `{"a":[1,2.50,null,"\u0000"],"a2":{}}`, string(large("x", 0)), string(large("x", 1)), string(large("y", 900))}
	rapid.Check(t, func(t *rapid.T) {
		value := func(of string) json.RawMessage {
			return json.RawMessage(values[rapid.IntRange(0, len(values)-1).Draw(t, of)])
		}
		e := transcript.NewEntry{ID: "e", Kind: transcript.KindAssistant, Turn: "t", Actor: "a"}
		for i := range rapid.IntRange(0, 5).Draw(t, "parts") {
			if rapid.Bool().Draw(t, "call") {
				c := transcript.Call{ID: transcript.CallID(fmt.Sprint(i)), Name: "n", Arguments: value("arguments"), Status: transcript.CallPending}
				if rapid.Bool().Draw(t, "settled") {
					c.Status, c.Result = transcript.CallFailed, value("result")
				}
				e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartCall, Call: &c})
				continue
			}
			e.Parts = append(e.Parts, transcript.Part{Type: "image", Data: value("data")})
		}
		if rapid.Bool().Draw(t, "payload") {
			e.Payload = value("payload")
		}
		sealed, err := transcript.Seal(e)
		if err != nil {
			t.Fatal(err)
		}
		bytes := int64(len(sealed.Body))
		calls := append([]transcript.Call{}, sealed.Calls...)
		for i, j := 0, len(calls)-1; i < j; i, j = i+1, j-1 {
			calls[i], calls[j] = calls[j], calls[i]
		}
		for _, c := range calls {
			bytes += int64(len(c.Result))
		}
		for hash, b := range sealed.Blobs {
			if bytes += int64(len(b)); len(b) <= transcript.InlineBytes || len(hash) != 64 {
				t.Fatalf("%s is a blob of %d bytes", hash, len(b))
			}
		}
		if bytes != sealed.Bytes {
			t.Fatalf("%d bytes are kept, it says %d", bytes, sealed.Bytes)
		}
		got := transcript.Entry{NewEntry: transcript.NewEntry{ID: e.ID, Kind: e.Kind, Turn: e.Turn, Actor: e.Actor}}
		if err := transcript.Unseal(&got, sealed.Body, calls); err != nil {
			t.Fatal(err)
		}
		for i, p := range got.Parts {
			if p.Blob != nil {
				got.Parts[i].Data, got.Parts[i].Blob = sealed.Blobs[p.Blob.Hash], nil
			}
			if p.Call != nil && p.Call.Blob != nil {
				p.Call.Result, p.Call.Blob = sealed.Blobs[p.Call.Blob.Hash], nil
			}
			if len(e.Parts[i].Data) > transcript.InlineBytes && p.Blob == nil {
				t.Fatalf("part %d has %d bytes in its row", i, len(e.Parts[i].Data))
			}
		}
		if !reflect.DeepEqual(e, got.NewEntry) {
			t.Fatal(cmp.Diff(e, got.NewEntry))
		}
		again, err := transcript.Seal(got.NewEntry)
		if err != nil || again.Hash != sealed.Hash {
			t.Fatalf("sealed again it is other content (%v)", err)
		}
	})
}

func TestUnsealRefuses(t *testing.T) {
	sealed, err := transcript.Seal(sample())
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"no document":      transcript.Unseal(&transcript.Entry{NewEntry: transcript.NewEntry{ID: "e"}}, []byte(`{`), sealed.Calls),
		"a call that went": transcript.Unseal(&transcript.Entry{NewEntry: transcript.NewEntry{ID: "e"}}, sealed.Body, sealed.Calls[:1]),
	} {
		if err == nil || !strings.Contains(err.Error(), " e ") {
			t.Errorf("%s: got error %v, want one that names the entry", what, err)
		}
	}
}

func TestSealLimits(t *testing.T) {
	e := transcript.NewEntry{ID: "e", Kind: transcript.KindMarker, Payload: json.RawMessage(`{"":"` + strings.Repeat("x", transcript.MaxEntryBytes-len(`{"payload":{"":""}}`)) + `"}`)}
	if s, err := transcript.Seal(e); err != nil || s.Bytes != transcript.MaxEntryBytes {
		t.Errorf("at its limit: %d bytes, %v", s.Bytes, err)
	}
	e.Payload = append([]byte(`{"x":0,`), e.Payload[1:]...)
	var limit *transcript.LimitError
	if _, err := transcript.Seal(e); !errors.As(err, &limit) || limit.Max != transcript.MaxEntryBytes {
		t.Errorf("over its limit: got error %v", err)
	}
}

func TestPreview(t *testing.T) {
	long := strings.Repeat("ü", 2*transcript.PreviewRunes)
	for _, c := range []struct {
		rule, want string
		entry      transcript.NewEntry
	}{
		{"it is the first text", "one", transcript.NewEntry{Parts: []transcript.Part{callPart("c", ""), transcript.TextPart("one"), transcript.TextPart("two")}}},
		{"on one line", "a b c", transcript.NewEntry{Parts: []transcript.Part{transcript.TextPart(" a\n\n b\t c ")}}},
		{"as much of it as fits", long[:len(long)/2], transcript.NewEntry{Parts: []transcript.Part{transcript.TextPart(long)}}},
		{"of a compaction its summary", "so far", transcript.NewEntry{Compaction: &transcript.Compaction{Summary: "so far"}}},
		{"of nothing nothing", "", transcript.NewEntry{}},
		{"without what not every database takes", "ab", transcript.NewEntry{Parts: []transcript.Part{transcript.TextPart("a\x00b")}}},
		{"without pieces of characters", `"xx` + strings.Repeat("\U0001F600", transcript.PreviewRunes-3), transcript.NewEntry{Parts: []transcript.Part{
			transcript.TextPart(`"xx` + strings.Repeat("\U0001F600", 200)),
		}}},
		{"of what is large too", strings.Repeat("x", transcript.PreviewRunes), transcript.NewEntry{Parts: []transcript.Part{{Type: transcript.PartText, Data: large("x", 99)}}}},
	} {
		s, err := transcript.Seal(c.entry)
		if err != nil || s.Preview != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.rule, s.Preview, err, c.want)
		}
	}
}
